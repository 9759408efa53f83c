package gateway

import (
	"net/http"

	"debrief/events/outcome"
)

// Headers with the outcome of the run of a call.
const (
	HeaderScore = "X-Debrief-Score"
	HeaderLabel = "X-Debrief-Label"
)

// checkOutcome refuses a request whose headers have an outcome in an unknown form.
func checkOutcome(r *http.Request) *failure {
	if _, err := outcome.OfHeaders(r.Header.Get(HeaderScore), r.Header.Get(HeaderLabel)); err != nil {
		return refusal(http.StatusBadRequest, "invalid_outcome", HeaderScore+", "+HeaderLabel+": "+err.Error())
	}
	return nil
}
