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

// ask sends JSON and decodes the reply. An error reply has the reason in a header.
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

// message is a message of a conversation with a model, as in the OpenAI API.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// agent answers one question. It needs only the subjects and field names of Debrief.
func agent(nc *nats.Conn, session, question string, model func([]message) string) (answer string, err error) {
	// Request a context with at least the playbook version that contains the lesson.
	var prompt struct {
		ID       string    `json:"context_id"`
		Version  uint64    `json:"playbook_version"`
		Messages []message `json:"messages"`
		Shown    []struct {
			ID string `json:"id"`
		} `json:"shown"`
	}
	err = ask(nc, "debrief.api.context.default", map[string]any{
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

	// Report the outcome. The context id identifies the prompt, and makes a second report of the same run harmless.
	var stored struct {
		Handle    string `json:"handle"`
		Duplicate bool   `json:"duplicate"`
	}
	err = ask(nc, "debrief.api.execution.default", map[string]any{
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

// An outside agent requests a context, calls its model and reports the execution.
func Example() {
	url, stop := serve()
	defer stop()

	nc, err := nats.Connect(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	model := func([]message) string { return "On shelf 7." } // call your model here
	if _, err := agent(nc, "s-1", "Where is the atlas?", model); err != nil {
		fmt.Println(err)
	}

	// An unknown field is an error.
	fmt.Println(ask(nc, "debrief.api.context.default", map[string]any{"qery": "Where is the atlas?"}, nil))
	// Output:
	// system: Follow what was learned. / [shr-00003] The catalogue knows the shelf.
	// user: Where is the atlas?
	// answer: On shelf 7.
	// stored as 1003-824a105a
	// debrief.api.context.default: unknown field "qery" (400)
}

// serve replaces 'debrief up': a NATS server, and a backend with one bullet.
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

func (library) Report(_ context.Context, r *events.Report) (*events.StoredReply, error) {
	if r.ContextID == "" || len(r.Steps) != 1 || r.Cited[0] != "shr-00003" {
		return nil, errors.New("not what the agent sent")
	}
	return &events.StoredReply{Handle: "1003-824a105a"}, nil
}

func (library) Feedback(context.Context, *events.FeedbackRequest) (*events.StoredReply, error) {
	return nil, errors.New("nobody judges here")
}
