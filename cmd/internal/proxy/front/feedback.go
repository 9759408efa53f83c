package front

import (
	"context"
	"regexp"

	"debrief/cmd/internal/proxy/capture"
	"debrief/events"
	"debrief/events/service"
)

// referencing is a backend whose feedback also names captured runs by the ids of a capture.Ref.
type referencing struct {
	service.Backend
	runs *capture.Store
}

// handles matches the form of handles. An invalid one is an invalid request and not the name of a run.
var handles = regexp.MustCompile(`^[0-9]+-[0-9a-f]{8}$`)

// Feedback implements service.Backend.
func (b referencing) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	if r.Execution == "" || handles.MatchString(string(r.Execution)) {
		return b.Backend.Feedback(ctx, r)
	}
	return b.runs.Feedback(ctx, capture.Ref{Book: r.Book, ID: string(r.Execution), Caller: r.Caller}, r)
}
