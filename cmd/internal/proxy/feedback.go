package proxy

import (
	"context"
	"regexp"

	"debrief/cmd/internal/proxy/capture"
	"debrief/events"
	"debrief/events/service"
)

// referencing is a backend that also accepts feedback on captured runs: its execution may be any id of a capture.Ref.
type referencing struct {
	service.Backend
	runs *capture.Store
}

// handles matches texts in the form of a handle. No id of a captured run has this form, so the backend answers them.
var handles = regexp.MustCompile(`^[0-9]+-[0-9a-f]{8}$`)

// Feedback implements service.Backend.
func (b referencing) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	if r.Execution == "" || handles.MatchString(string(r.Execution)) {
		return b.Backend.Feedback(ctx, r)
	}
	return b.runs.Feedback(ctx, capture.Ref{Book: r.Book, ID: string(r.Execution), Caller: r.Caller}, r)
}
