package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/window"
	"debrief/playbook"
)

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
