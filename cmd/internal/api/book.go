package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/window"
	"debrief/playbook"
	"debrief/playbook/history"
)

// inspectBookRoutes are the routes that show a whole playbook, its rejections, and the playbook of an execution.
func inspectBookRoutes() []route {
	inBook := map[string]string{"book": "default"}
	whole := get("/books/{book}", "getBook", "Return the version, the hash and the statistics of a playbook.", getBook)
	whole.query = []parameter{atParameter, {name: "outcomes", kind: "boolean", doc: "Compare the turns of sessions with and without the earlier turns in the prompt."}}
	whole.example = example{path: inBook}
	rejected := get("/books/{book}/rejections", "listRejections", "List rejected proposals and removed bullets with their reasons, newest first.", listRejections)
	rejected.query, rejected.example = pageParameters, example{path: inBook, query: "limit=5"}
	found := get("/executions/{handle}", "findExecution", "Return the playbook and the session of an execution.", findExecution)
	found.ownRuns, found.example = true, example{path: map[string]string{"handle": "17-ab12cd34"}}
	return []route{whole, rejected, found, markRoute()}
}

// BookState is a playbook at a version, without its bullets.
type BookState struct {
	Book playbook.Book `json:"book"`
	playbook.About
	Version   uint64            `json:"version"`
	Label     string            `json:"label"`
	StateHash string            `json:"state_hash" doc:"Hash of all bullets, in hexadecimal."`
	Bullets   int               `json:"bullets"`
	Shown     int               `json:"shown" doc:"Bullets that generators show."`
	Stats     playbook.Stats    `json:"stats"`
	Outcomes  *explain.Outcomes `json:"outcomes,omitempty" doc:"Success of the turns of sessions with all, a part and none of the earlier turns in the prompt."`
}

func getBook(c *call) (*BookState, error) {
	p, label, err := c.playbook(c.query.Get("at"))
	if err != nil {
		return nil, err
	}
	out := &BookState{
		Book: c.book(), About: p.About(), Version: p.Version(), Label: label, StateHash: fmt.Sprintf("%x", p.StateHash()),
		Bullets: p.Len(), Shown: p.Stats().ByStatus[playbook.Active], Stats: p.Stats(),
	}
	if !c.boolean("outcomes") {
		return out, nil
	}
	out.Outcomes, err = explain.ReadOutcomes(c.ctx, c.handler.conn.Events, c.book())
	return out, err
}

// listRejections lists the newest rejections first. The cursor is a position in the log's order, oldest first, so that new rejections do
// not move it.
func listRejections(c *call) (*Page[history.Rejection], error) {
	if _, _, err := c.playbook(""); err != nil { // an unknown playbook is an error, not an empty list
		return nil, err
	}
	all, err := history.Rejections(c.handler.store.History(c.ctx, c.book()))
	if err != nil {
		return nil, explain.LogError(err)
	}
	end := len(all)
	if after := c.query.Get("after"); after != "" {
		if end, err = strconv.Atoi(after); err != nil || end < 1 || end > len(all) {
			return nil, invalid("after", "want the field next of a page")
		}
	}
	begin := max(end-c.limit(), 0)
	out := &Page[history.Rejection]{Items: append([]history.Rejection{}, all[begin:end]...)}
	slices.Reverse(out.Items)
	if begin > 0 {
		out.Next = strconv.Itoa(begin)
	}
	return out, nil
}

// FoundExecution names the playbook of an execution.
type FoundExecution struct {
	Book    playbook.Book `json:"book"`
	Session string        `json:"session,omitempty"`
}

func findExecution(c *call) (*FoundExecution, error) {
	e, err := c.storedExecution()
	if err != nil {
		return nil, err
	}
	return &FoundExecution{Book: e.Book, Session: e.Session}, nil
}

// storedExecution returns the execution of the handle in the path. It returns the error of executionNotFound if the execution is not stored, or
// if the token may not read it.
func (c *call) storedExecution() (*events.Execution, error) {
	h, err := c.handle()
	if err != nil {
		return nil, err
	}
	e, err := explain.NewStored(c.handler.conn).Execution(c.ctx, string(h))
	if err != nil {
		return nil, err
	}
	if e == nil || !c.token.Sees(e.Owner) || !c.token.AllowsBook(e.Book) {
		return nil, executionNotFound(h)
	}
	return e, nil
}

// executionInBook is storedExecution for a path that also names the playbook.
func (c *call) executionInBook() (*events.Execution, error) {
	e, err := c.storedExecution()
	if err != nil {
		return nil, err
	}
	if e.Book != c.book() {
		return nil, executionNotFound(events.Handle(c.path("handle")))
	}
	return e, nil
}

// markRoute is the route that marks interactions of sessions, and removes their marks.
func markRoute() route {
	mark := post("/books/{book}/executions/{handle}/mark", "markExecution", "Pin or star an interaction, so that the window of its session keeps it, or remove the mark.", http.StatusOK, markExecution)
	mark.scope = tokens.Review
	mark.example = example{path: map[string]string{"book": "default", "handle": "17-ab12cd34"}, body: `{"mark": "pin"}`}
	return mark
}

// MarkRequest is a new mark of an interaction.
type MarkRequest struct {
	Mark events.Mark `json:"mark" doc:"pin, star, or empty to remove the mark."`
}

// MarkReply is a marked interaction.
type MarkReply struct {
	Execution events.Handle `json:"execution"`
	Book      playbook.Book `json:"book"`
	Session   string        `json:"session"`
	Mark      events.Mark   `json:"mark" doc:"Empty if it was removed."`
}

func markExecution(c *call, r *MarkRequest) (*MarkReply, error) {
	if r.Mark != events.Pin && r.Mark != events.Star && r.Mark != "" {
		return nil, invalid("mark", "want pin, star or nothing")
	}
	e, err := c.executionInBook()
	if err != nil {
		return nil, err
	}
	h := events.Handle(c.path("handle"))
	if e.Session == "" {
		return nil, conflict(fmt.Sprintf("execution %s has no session, so it is not in a window", h))
	}
	err = c.setMark(h, e, r.Mark)
	if errors.Is(err, window.ErrFull) {
		err = conflict(err.Error())
	}
	return &MarkReply{Execution: h, Book: e.Book, Session: e.Session, Mark: r.Mark}, err
}

// setMark sets the mark of an execution in the window of its session, or removes it if m is empty.
func (c *call) setMark(h events.Handle, e *events.Execution, m events.Mark) error {
	store := window.New(c.handler.conn.NATS(), c.handler.conn.JetStream())
	if m != "" {
		return store.Mark(c.ctx, e.Book, e.Owner, e.Session, events.MarkedInteraction{
			Mark: m, By: c.token.Name, At: time.Now().UTC(), Interaction: *events.NewInteraction(h, e),
		})
	}
	found, err := store.Unmark(c.ctx, e.Book, e.Owner, e.Session, h)
	if err == nil && !found {
		err = conflict(fmt.Sprintf("execution %s is not marked", h))
	}
	return err
}
