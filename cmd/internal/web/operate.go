package web

import (
	"fmt"
	"net/http"
	"net/url"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/components"
	"debrief/cmd/internal/deadletters"
	"debrief/cmd/internal/doctor"
)

// operatePages are the pages for people who operate Debrief.
func operatePages() []view {
	return []view{
		{pattern: "/dead", file: "dead", tab: "dead", run: showDead},
		{pattern: "/status", file: "status", tab: "status", run: showStatus},
	}
}

func operateActions() []action {
	return []action{{"/dead", changeDead}}
}

// deadPage is the list of dead letters.
type deadPage struct {
	list[deadletters.Row]
	Role  string
	Roles []string
}

func showDead(q *request) (any, error) {
	q.title = "Dead letters"
	p := &deadPage{Role: q.param("role"), Roles: []string{"generator", "reflector", "curator"}}
	values := url.Values{"limit": {"50"}}
	for _, name := range []string{"role", "book", "after"} {
		if v := q.param(name); v != "" {
			values.Set(name, v)
		}
	}
	return p, q.api.get("/dead", values, &p.list)
}

// changeDead requeues or drops the selected dead letters.
func changeDead(q *request) (notice, error) {
	ids, change := q.PostForm["id"], q.field("change")
	switch {
	case len(ids) == 0:
		return notice{}, &apiError{api.Problem{Status: http.StatusBadRequest, Detail: "Select at least one dead letter."}}
	case change != "requeue" && change != "drop":
		return notice{}, &apiError{api.Problem{Status: http.StatusBadRequest, Detail: "Choose to requeue or to drop."}}
	}
	verb := map[string]string{"requeue": "Requeued", "drop": "Dropped"}[change]
	for i, id := range ids {
		var err error
		if change == "drop" {
			err = q.api.delete(pathOf("dead", id))
		} else {
			err = q.api.post(pathOf("dead", id, "requeue"), "", map[string]any{}, nil)
		}
		if err != nil {
			return notice{}, fmt.Errorf("%s %d of %d, then %s: %w", verb, i, len(ids), id, err)
		}
	}
	return notice{Text: verb + " " + components.Plural(len(ids), "dead letter") + "."}, nil
}

// status is the health of Debrief.
type status struct {
	doctor.Overview
	Advice []string `json:"advice"`
}

func showStatus(q *request) (any, error) {
	q.title = "Status"
	s := new(status)
	return s, q.api.get("/status", nil, s)
}
