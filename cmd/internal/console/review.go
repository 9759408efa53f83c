package console

import (
	"net/url"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/explain"
	"debrief/playbook"
)

// reviewPages are the pages about decisions on new bullets: by people and by the gate.
func reviewPages() []view {
	return []view{
		{pattern: "/books/{book}/review", file: "review", tab: "review", run: showReview},
		{pattern: "/books/{book}/gate", file: "gate", tab: "gate", run: showGate},
	}
}

func showReview(q *request) (any, error) {
	q.title = "Review of " + q.book
	all := &reviewPage{Modes: reviewModes}
	values := url.Values{"limit": {"50"}}
	if after := q.param("after"); after != "" {
		values.Set("after", after)
	}
	// The label is read first: a text that changes between the two reads is then refused, and not approved unseen.
	if err := q.api.get(api.Path("books", q.book, "gate"), url.Values{"limit": {"1"}}, &all.State); err != nil {
		return nil, err
	}
	return all, q.api.get(api.Path("books", q.book, "review"), values, &all.list)
}

// reviewPage has the bullets in quarantine and the review mode.
type reviewPage struct {
	list[api.Quarantined]
	State struct {
		Label      string              `json:"label"`
		Review     playbook.Review     `json:"review"`
		Unapproved []playbook.BulletID `json:"unapproved"`
	}
	Modes []option
}

var reviewModes = []option{
	{string(playbook.ReviewFirst), "every new text waits here until a person approves exactly this text"},
	{string(playbook.ReviewOff), "the gate decides which new bullets are shown"},
}

// gatePage is the state of the gate.
type gatePage struct {
	explain.Gate
	Total        int      `json:"total_bullets"`
	TotalWaiting int      `json:"total_waiting"`
	Modes        []option `json:"-"`
}

var gateModes = []option{
	{string(playbook.GateGuard), "show new bullets at once, withhold each from a random part of the tasks, and retire harmful bullets"},
	{string(playbook.GateStrict), "show new bullets to a random part of the tasks until their effect is measured"},
	{string(playbook.GateOff), "show all bullets, without experiments"},
}

func showGate(q *request) (any, error) {
	q.title = "Gate of " + q.book
	p := &gatePage{Modes: gateModes}
	return p, q.api.get(api.Path("books", q.book, "gate"), url.Values{"limit": {"50"}}, p)
}
