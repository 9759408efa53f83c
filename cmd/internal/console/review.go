package console

import (
	"net/url"

	"debrief/cmd/internal/api"
	"debrief/playbook"
)

func showReview(q *request) (any, error) {
	q.title = "Review of " + q.book
	all := &reviewPage{Modes: reviewModes}
	// The state is read first, because a decision names the version in its label: the API refuses it if a text has changed since then.
	if err := q.get(api.Path("books", q.book, "gate"), url.Values{"limit": {"1"}}, &all.State); err != nil {
		return nil, err
	}
	return all, q.get(api.Path("books", q.book, "review"), q.parameters("after"), &all.Page)
}

// reviewPage has the bullets in quarantine and the review mode.
type reviewPage struct {
	api.Page[api.Quarantined]
	State api.GateState
	Modes []option
}

var reviewModes = []option{
	{string(playbook.ReviewFirst), "every new text waits here until a person approves exactly this text"},
	{string(playbook.ReviewOff), "the gate decides which new bullets are shown"},
}

// gatePage is the state of the gate.
type gatePage struct {
	api.GateState
	Modes []option
}

var gateModes = []option{
	{string(playbook.GateGuard), "show new bullets at once, withhold each from a random part of the tasks, and retire harmful bullets"},
	{string(playbook.GateStrict), "show new bullets to a random part of the tasks until their effect is measured"},
	{string(playbook.GateOff), "show all bullets, without experiments"},
}

func showGate(q *request) (any, error) {
	q.title = "Gate of " + q.book
	p := &gatePage{Modes: gateModes}
	return p, q.get(api.Path("books", q.book, "gate"), q.parameters(), &p.GateState)
}
