package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/chat"
	"debrief/events/natsd"
	"debrief/events/service"
)

// ask sends JSON and reads JSON. An answer that is none says why in a header.
func ask(nc *nats.Conn, subject string, request, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	msg, err := nc.Request(subject, body, 12*time.Second) // the service takes ten at most
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if why := msg.Header.Get("Nats-Service-Error"); why != "" {
		return fmt.Errorf("%s: %s (%s)", subject, why, msg.Header.Get("Nats-Service-Error-Code"))
	}
	return json.Unmarshal(msg.Data, reply)
}

// message is one of the conversation with a model, as on the OpenAI wire.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// agent answers one question. It needs nothing of Debrief's but the subjects and the names of the fields.
func agent(nc *nats.Conn, session, question string, model func([]message) string) (answer string, err error) {
	// What should the model see? Not with a playbook older than the one that we know to have the lesson we want.
	var prompt struct {
		ID       string    `json:"context_id"`
		Version  uint64    `json:"playbook_version"`
		Messages []message `json:"messages"`
		Shown    []struct {
			ID string `json:"id"`
		} `json:"shown"`
	}
	err = ask(nc, "ace.api.context.default", map[string]any{
		"session": session, "query": question, "min_version": 17, "limit": 4000,
	}, &prompt)
	if err != nil {
		return "", err
	}
	for _, m := range prompt.Messages {
		fmt.Printf("%s: %s\n", m.Role, strings.ReplaceAll(m.Content, "\n", " / "))
	}

	began := time.Now()
	answer = model(prompt.Messages)
	fmt.Println("answer:", answer)

	// What came of it. The context's id says what the model saw, and makes a second report of the same run harmless.
	var stored struct {
		Handle    string `json:"handle"`
		Duplicate bool   `json:"duplicate"`
	}
	err = ask(nc, "ace.api.execution.default", map[string]any{
		"context_id": prompt.ID,
		"session":    session,
		"answer":     answer,
		"cited":      []string{prompt.Shown[0].ID},
		"steps": []map[string]any{{
			"text": "I look it up.",
			"tool_calls": []map[string]any{{
				"tool": "catalogue", "arguments": `{"item":"atlas"}`, "output": "shelf 7", "outcome": "success",
			}},
		}},
		"outcome":     map[string]any{"label": "success", "score": 1, "by": "the librarian"},
		"model":       "my-model",
		"duration_ns": time.Since(began),
	}, &stored)
	if err == nil {
		fmt.Println("stored as", stored.Handle)
	}
	return answer, err
}

// An agent that runs outside asks for a context, calls its own model and reports what it did.
func Example() {
	url, stop := serve()
	defer stop()

	nc, err := nats.Connect(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	model := func([]message) string { return "On shelf 7." } // yours
	if _, err := agent(nc, "s-1", "Where is the atlas?", model); err != nil {
		fmt.Println(err)
	}

	// A typo is told.
	fmt.Println(ask(nc, "ace.api.context.default", map[string]any{"qery": "Where is the atlas?"}, nil))
	// Output:
	// system: Follow what was learned. / [shr-00003] The catalogue knows the shelf.
	// user: Where is the atlas?
	// answer: On shelf 7.
	// stored as 1003-824a105a
	// ace.api.context.default: unknown field "qery" (400)
}

// serve stands for 'debrief up': a server, and a desk that knows one bullet.
func serve() (url string, stop func()) {
	srv, err := natsd.Start(natsd.Config{Listen: "127.0.0.1:0", Sync: "1m"})
	if err != nil {
		panic(err)
	}
	nc, err := srv.Connect()
	if err != nil {
		panic(err)
	}
	end, err := service.Serve(nc, library{}, zerolog.Nop(), nil)
	if err != nil {
		panic(err)
	}
	return srv.URL(), func() { end(); nc.Close(); srv.Close() }
}

type library struct{}

func (library) Context(_ context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	return &events.ContextReply{
		ID: events.Hash("context", r.Query), Book: r.Book, Session: r.Session, Version: r.MinVersion,
		Messages: []chat.Message{
			{Speaker: chat.System, Text: "Follow what was learned.\n[shr-00003] The catalogue knows the shelf."},
			{Speaker: chat.User, Text: r.Query},
		},
		Shown: []events.ShownBullet{{ID: "shr-00003", Content: "The catalogue knows the shelf."}},
	}, nil
}

func (library) Report(_ context.Context, r *events.Report) (*events.Stored, error) {
	if r.ContextID == "" || len(r.Steps) != 1 || r.Cited[0] != "shr-00003" {
		return nil, errors.New("not what the agent sent")
	}
	return &events.Stored{Handle: "1003-824a105a"}, nil
}

func (library) Feedback(context.Context, *events.FeedbackRequest) (*events.Stored, error) {
	return nil, errors.New("nobody judges here")
}
