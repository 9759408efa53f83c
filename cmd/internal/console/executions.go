package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/events"
	"debrief/generator"
	"debrief/playbook"
)

// executionsPage is a list of executions.
type executionsPage struct {
	api.Page[index.ExecutionItem]
	Query  url.Values // parameters of the page
	Labels []string
}

func showExecutions(q *request) (any, error) {
	q.title = "Executions of " + q.book
	p := &executionsPage{
		Query:  q.parameters("q", "session", "run", "task", "user", "owner", "outcome", "doubted", "bullet", "before", "after"),
		Labels: []string{"success", "partial", "failure", "unknown"},
	}
	return p, q.get(api.Path("books", q.book, "executions"), p.Query, &p.Page)
}

// executionPage is an execution with the context that its model received.
type executionPage struct {
	Handle string
	explain.Execution
	Context *generator.RebuiltContext // nil without one
	Why     string                    // the reason why there is no context
}

// Evaluation reports whether the execution measured a playbook. Debrief does not learn from it.
func (p *executionPage) Evaluation() bool {
	return p.Execution.Execution != nil && p.Execution.Execution.Purpose == events.Evaluate
}

func showExecution(q *request) (any, error) {
	p := &executionPage{Handle: q.PathValue("handle")}
	q.title = "Execution " + p.Handle
	base := api.Path("books", q.book, "executions", p.Handle)
	if err := q.get(base, nil, &p.Execution); err != nil {
		return nil, err
	}
	p.Context = new(generator.RebuiltContext)
	err := q.get(base+"/context", nil, p.Context)
	if isNotFound(err) {
		p.Context, p.Why = nil, err.Error()
		return p, nil
	}
	return p, err
}

// ShowsBullets reports whether message i of the context has lines that are bullets.
func (p *executionPage) ShowsBullets(i int) bool {
	return slices.ContainsFunc(p.Lines(i), func(l line) bool { return l.Bullet != "" })
}

// Lines returns the parts of message i of the context: each bullet, and the lines between them. That of a bullet begins with [id] or - [id].
func (p *executionPage) Lines(i int) (out []line) {
	m, e := p.Context.Messages[i], p.Execution.Execution
	if e == nil {
		return []line{{Text: m.Text}}
	}
	shown := map[string]bool{} // ids of bullets
	for _, b := range e.Shown {
		shown[string(b.ID)] = true
	}
	for text := range strings.SplitSeq(m.Text, "\n") {
		marked := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(text), "- "), "[") // the line of a bullet is "- [id] content"
		id, _, _ := strings.Cut(marked, "]")
		n := len(out)
		switch {
		case shown[id] && strings.Contains(text, "["+id+"]"):
			out = append(out, line{Text: text, Bullet: id, Cited: slices.Contains(e.Cited, playbook.BulletID(id))})
		case n > 0 && out[n-1].Bullet == "":
			out[n-1].Text += "\n" + text
		default:
			out = append(out, line{Text: text})
		}
	}
	return out
}

// line is a part of a message: one line with a bullet, or several lines without one.
type line struct {
	Text   string
	Bullet string // id; empty for other lines
	Cited  bool
}

func giveFeedback(q *request) (notice, error) {
	outcome := object{"label": q.field("label"), "by": q.me.Name}
	if words := q.field("feedback"); words != "" {
		outcome["feedback"] = words
	}
	body := object{"book": q.book, "execution": q.PathValue("handle"), "outcome": outcome}
	if text := q.field("score"); text != "" {
		score, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return notice{}, refuse("The score must be a number such as 0.8.")
		}
		outcome["score"] = score
	}
	if target := q.field("target"); target != "" {
		body["target"] = target
	}
	return notice{Text: "The feedback is stored."}, q.post("/feedback", q.key("feedback"), body, nil)
}

func showSessions(q *request) (any, error) {
	q.title = "Sessions of " + q.book
	all := new(api.Page[index.SessionItem])
	return all, q.get(api.Path("books", q.book, "sessions"), url.Values{"limit": {"50"}}, all)
}

// sessionPage has the window of a session and its stored executions.
type sessionPage struct {
	Session string
	api.SessionWindow
	Stored api.Page[index.ExecutionItem]
}

func showSession(q *request) (any, error) {
	p := &sessionPage{Session: q.PathValue("session")}
	q.title = "Session " + p.Session
	windowQuery := url.Values{}
	storedQuery := url.Values{"session": {p.Session}, "limit": {"50"}}
	if owner, ok := q.URL.Query()["owner"]; ok { // an empty owner is one, too
		windowQuery["owner"] = owner[:1]
		storedQuery["owner"] = owner[:1]
	}
	err := q.get(api.Path("books", q.book, "sessions", p.Session), windowQuery, &p.SessionWindow)
	noWindow := isNotFound(err)
	if err != nil && !noWindow {
		return nil, err
	}
	if err := q.get(api.Path("books", q.book, "executions"), storedQuery, &p.Stored); err != nil {
		return nil, err
	}
	noExecutions := len(p.Stored.Items) == 0 && p.Stored.Next == ""
	if noWindow && noExecutions {
		return nil, err
	}
	return p, nil
}
