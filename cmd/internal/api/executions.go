package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/events/window"
	"debrief/generator"
	"debrief/playbook"
)

// executionRoutes are the routes that read executions and sessions.
func executionRoutes() []route {
	inBook := map[string]string{"book": "default"}
	list := get("/books/{book}/executions", "listExecutions", "List the stored executions of a playbook, newest first.", listExecutions)
	list.query = append([]parameter{
		{name: "q", kind: "string", doc: fmt.Sprintf("Only executions whose question and answer contain each of these words. A page looks at %d executions at most, so it may be empty and yet have a next one.", index.MaxSearch)},
		{name: "session", kind: "string", doc: "Only executions of this session."},
		{name: "run", kind: "string", doc: "Only executions with this run id."},
		{name: "task", kind: "string", doc: "Only executions of the task with this label."},
		{name: "user", kind: "string", doc: "Only executions for this user."},
		{name: "owner", kind: "string", doc: "Only executions of this owner; empty: of the common owner. Tokens without the scope read see only their own."},
		{name: "outcome", kind: "string", doc: "Only executions with this label.", values: labels},
		{name: "doubted", kind: "boolean", doc: "Only executions whose outcome the Reflector doubts."},
		{name: "bullet", kind: "string", doc: "Only executions whose prompt had this bullet."},
		{name: "before", kind: "string", doc: "Only executions that started before this time, in RFC 3339."},
	}, pageParameters...)
	list.example = example{path: inBook, query: "q=shelf&session=s-1&outcome=success&limit=10"}
	one := get("/books/{book}/executions/{handle}", "getExecution", "Return an execution with the reflections on it and their effects.", getExecution)
	one.example = example{path: map[string]string{"book": "default", "handle": "17-ab12cd34"}}
	served := get("/books/{book}/executions/{handle}/context", "getExecutionContext", "Return the context of an execution as its model received it.", getExecutionContext)
	served.example = example{path: map[string]string{"book": "default", "handle": "18-ab12cd34"}}
	found := get("/executions/{handle}", "findExecution", "Return the playbook and the session of an execution.", findExecution)
	found.example = example{path: map[string]string{"handle": "17-ab12cd34"}}
	sessions := get("/books/{book}/sessions", "listSessions", "List the sessions of the newest stored executions.", listSessions)
	sessions.query, sessions.example = limitParameter, example{path: inBook}
	session := get("/books/{book}/sessions/{session}", "getSession", "List the interactions in the window of a session.", getSession)
	session.query = []parameter{{name: "owner", kind: "string", doc: "Owner of the session; default: that of the token."}}
	session.example = example{path: map[string]string{"book": "default", "session": "s-1"}}
	routes := []route{list, one, served, found, sessions, session}
	for i := range routes {
		routes[i].ownRuns = true
	}
	return routes
}

var labels = []string{string(events.Success), string(events.Partial), string(events.Failure), string(events.Unknown)}

// ownerFilter returns the owner whose executions a list contains, nil for all owners. It is the parameter owner, if there is one.
func (c *call) ownerFilter() (*string, error) {
	if !c.query.Has("owner") {
		if c.token.AllOwners() {
			return nil, nil
		}
		return &c.token.Owner, nil
	}
	owner := c.query.Get("owner")
	if err := events.ValidateOwner(owner); err != nil {
		return nil, invalid("owner", "want the owner of an execution")
	}
	if !c.token.Sees(owner) {
		return nil, notFound("owner: no runs that the token may read")
	}
	return &owner, nil
}

// executionFilter returns the filter of a list that the parameters describe.
func (c *call) executionFilter() (f *index.Filter, err error) {
	q := c.query
	f = &index.Filter{
		Book: c.book(), Session: q.Get("session"), Run: q.Get("run"), Task: q.Get("task"), User: q.Get("user"),
		Label: events.Label(q.Get("outcome")), Bullet: playbook.BulletID(q.Get("bullet")), Doubted: c.boolean("doubted"), Words: strings.Fields(strings.ToLower(q.Get("q"))),
	}
	if f.Before, err = c.time("before"); err != nil {
		return nil, err
	}
	f.Owner, err = c.ownerFilter()
	return f, err
}

func listExecutions(c *call) (*Page[index.ExecutionItem], error) {
	if err := c.checkBook(); err != nil {
		return nil, err
	}
	filter, err := c.executionFilter()
	if err != nil {
		return nil, err
	}
	var end uint64
	if after := c.query.Get("after"); after != "" {
		if end, err = strconv.ParseUint(after, 10, 64); err != nil || end == 0 {
			return nil, invalid("after", "want the field next of a page")
		}
	}
	out := &Page[index.ExecutionItem]{Items: []index.ExecutionItem{}}
	next, err := c.handler.index.Executions.NewestFirst(c.ctx, filter, end, func(e index.ExecutionItem) bool {
		out.Items = append(out.Items, e)
		return len(out.Items) < c.limit()
	})
	if next > 0 {
		out.Next = strconv.FormatUint(next, 10)
	}
	return out, err
}

// handle returns the handle in the path.
func (c *call) handle() (events.Handle, error) {
	h := events.Handle(c.path("handle"))
	if _, _, err := h.Parse(); err != nil {
		return "", invalid("handle", err.Error())
	}
	return h, nil
}

func getExecution(c *call) (*explain.Execution, error) {
	h, err := c.handle()
	if err != nil {
		return nil, err
	}
	effects := func(b playbook.Book, h events.Handle) deltalog.Log {
		return c.handler.index.Logs.Covering(c.ctx, b, string(h))
	}
	x, err := explain.ExecutionOf(c.ctx, c.book(), effects, explain.NewStored(c.handler.conn, nil), h)
	isMissing := errors.Is(err, explain.ErrExecutionNotFound)
	switch {
	case err != nil && (!isMissing || c.token.AllOwners()):
		return nil, err
	case isMissing, x.Book != c.book(), !c.mayRead(x): // the same error, so that a token does not learn whether it is stored
		return nil, executionNotFound(h)
	}
	if seq, _, err := h.Parse(); err == nil {
		x.Corrected = c.handler.index.Executions.Corrected(seq)
	}
	if e := x.Execution; e != nil { // with the system prompt, the tools and the texts of bullets, as the Reflector sees them
		if err := c.handler.conn.Events.LoadAgent(c.ctx, e); err != nil {
			return nil, err
		}
		if err := c.handler.texts.Fill(c.ctx, e.Book, e.Version, e.Shown); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// mayRead reports whether the token may read an execution. If only reflections on it are stored, because it has expired, its owner is unknown:
// then the token must see all owners.
func (c *call) mayRead(x *explain.Execution) bool {
	if x.Execution == nil {
		return c.token.AllOwners()
	}
	return c.token.Sees(x.Execution.Owner)
}

// executionNotFound is the error for an execution that does not exist, and for one that the token may not read.
func executionNotFound(h events.Handle) error {
	return notFound(fmt.Sprintf("execution %s: not found: expired or never stored", h))
}

func getExecutionContext(c *call) (*generator.RebuiltContext, error) {
	if _, err := c.executionInBook(); err != nil {
		return nil, err
	}
	cfg := generator.Config{Recall: generator.RecallNone} // the manifest has the recalled parts
	builder := generator.NewContextBuilder(c.handler.conn, nil, cfg)
	defer builder.Close()
	return builder.Rebuild(c.ctx, events.Handle(c.path("handle")))
}

func listSessions(c *call) (*Page[*index.SessionItem], error) {
	if err := c.checkBook(); err != nil {
		return nil, err
	}
	owner, err := c.ownerFilter()
	if err != nil {
		return nil, err
	}
	executions := c.handler.index.Executions
	if err := executions.Await(c.ctx); err != nil {
		return nil, err
	}
	all, err := executions.Sessions(c.ctx, c.book(), owner, c.limit())
	return &Page[*index.SessionItem]{Items: all}, err
}

// SessionWindow is the window of a session.
type SessionWindow struct {
	Interactions []*events.Interaction      `json:"interactions" doc:"Interactions in the window, oldest first."`
	Marks        []events.MarkedInteraction `json:"marks" doc:"Pinned and starred interactions, also those that are older than the window."`
	Damaged      int                        `json:"damaged" doc:"Number of unreadable entries."`
}

func getSession(c *call) (*SessionWindow, error) {
	session, owner := c.path("session"), c.token.Owner
	if c.query.Has("owner") {
		named, err := c.ownerFilter()
		if err != nil {
			return nil, err
		}
		owner = *named // not nil with the parameter
	}
	store := window.New(c.handler.conn.NATS(), c.handler.conn.JetStream())
	list, damaged, err := store.Interactions(c.ctx, c.book(), owner, session)
	if err != nil {
		return nil, err
	}
	marks, err := store.Marks(c.ctx, c.book(), owner, session)
	if err == nil && len(list)+len(marks)+damaged == 0 {
		err = notFound(fmt.Sprintf("session %q: its window is empty or has expired", clip(session)))
	}
	return &SessionWindow{append([]*events.Interaction{}, list...), append([]events.MarkedInteraction{}, marks...), damaged}, err
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
	e, err := c.evidence().Execution(c.ctx, string(h))
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, executionNotFound(h)
	}
	return e, nil
}

// evidence returns the stored executions that the token may read.
func (c *call) evidence() *explain.Stored {
	return explain.NewStored(c.handler.conn, func(e *events.Execution) bool { return c.token.Sees(e.Owner) && c.token.AllowsBook(e.Book) })
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
