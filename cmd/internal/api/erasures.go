package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/erasure"
	"debrief/events/redact"
	"debrief/playbook"
)

// erasureRoutes are the routes that request and list erasures. The data is removed by a program with the rights of an operator.
func erasureRoutes() []route {
	request := post("/erasures", "requestErasure", "Erase the runs of a user, of a session, one execution, or a whole playbook. The reply comes before the data is gone.", http.StatusAccepted, requestErasure)
	request.scope = tokens.Operate
	request.example = example{body: `{"user": "cleo", "book": "default"}`}
	list := get("/erasures", "listErasures", "List the erasures of the playbooks that the token permits, newest first.", listErasures)
	list.scope, list.query = tokens.Operate, pageParameters
	return []route{request, list}
}

// ErasureRequest selects the data to erase. At most one of user, session and execution can be set; without one it is the whole playbook.
type ErasureRequest struct {
	Book      playbook.Book `json:"book,omitempty" doc:"Playbook; default: all. Required with execution, and for a token that permits some playbooks only."`
	User      string        `json:"user,omitempty" doc:"User that the runs name."`
	Session   string        `json:"session,omitempty" doc:"Name of the session."`
	Owner     string        `json:"owner,omitempty" doc:"Id of the token whose session it is; default: the sessions of all owners with this name."`
	Execution events.Handle `json:"execution,omitempty" doc:"Handle of an execution; all rounds of its task go."`
}

// ErasureState is an erasure. It has no name of a user or session.
type ErasureState struct {
	erasure.Tombstone
	Pending bool `json:"pending" doc:"Some of the data may still be stored. It is not used any more."`
}

func requestErasure(c *call, r *ErasureRequest) (*ErasureState, error) {
	var sent map[string]any // r does not tell an empty field, which is an error, from one that was not sent
	if err := json.Unmarshal(c.body, &sent); err != nil {
		return nil, err
	}
	if err := c.checkSelection("", sent); err != nil {
		return nil, err
	}
	e := &erasure.Request{
		ID: events.NewID(), Book: r.Book, User: events.FitName(r.User), Session: events.FitName(r.Session), Owner: r.Owner, Execution: r.Execution,
		By: c.token.Name, Created: time.Now().UTC(),
	}
	redact.Fields(e) // the stored names are redacted, and the request must match them
	if err := e.Validate(); err != nil {
		field, text, _ := strings.Cut(err.Error(), ": ")
		return nil, invalid(field, text)
	}
	if r.Book != "" || len(c.token.Books) > 0 {
		if err := c.checkBookField(r.Book); err != nil {
			return nil, err
		}
	}
	store := erasure.NewStore(c.handler.conn.JetStream())
	var runs []string
	if r.Execution != "" {
		found, err := c.executionToErase(r)
		if err != nil {
			return nil, err
		}
		if found != nil {
			runs = []string{string(found.ID), string(found.SampleID()), string(r.Execution)}
		}
	}
	if err := store.Add(c.ctx, e); err != nil {
		return nil, err
	}
	// If this fails, the erasure is stored nevertheless. The eraser adds the runs that it finds, and a repeated request is harmless.
	if err := store.AddRuns(c.ctx, e.ID, runs); err != nil {
		return nil, err
	}
	return &ErasureState{Tombstone: erasure.Tombstone{ID: e.ID, Kind: e.Kind(), Book: e.Book, By: e.By, Created: e.Created}, Pending: true}, nil
}

// executionToErase returns the execution of a request, or nil if it has expired: the log of the playbook may still have its texts.
func (c *call) executionToErase(r *ErasureRequest) (*events.Execution, error) {
	seq, matches, err := r.Execution.Parse()
	if err != nil {
		return nil, invalid("execution", err.Error())
	}
	found, err := c.handler.conn.Events.Find(c.ctx, events.StreamExecutions, seq, matches)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, ok := found.(*events.Execution)
	if !ok || e.Book != r.Book {
		return nil, bus.ErrNotFound
	}
	return e, nil
}

func listErasures(c *call) (*Page[ErasureState], error) {
	store := erasure.NewStore(c.handler.conn.JetStream())
	stored, err := store.Tombstones(c.ctx)
	if err != nil {
		return nil, err
	}
	var all []ErasureState
	for _, t := range slices.Backward(stored) {
		if c.token.AllowsBook(t.Book) {
			all = append(all, ErasureState{Tombstone: *t, Pending: t.Done.IsZero()})
		}
	}
	return paginate(c, all, func(e ErasureState) string { return string(e.ID) })
}
