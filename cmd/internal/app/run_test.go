package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/app"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/natsd"
	"debrief/generator"
	"debrief/playbook"
	"debrief/playbook/natskv"
	"debrief/reflector"
)

type canned struct{}

func (canned) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	text := `{"reasoning":"r","bullet_ids":[],"final_answer":"42"}`
	last := p.Messages[len(p.Messages)-1].Text
	switch p.Name {
	case "reflector":
		text = `{"reasoning":"r","error_identification":"","root_cause_analysis":"","correct_approach":"","key_insight":"","section":"","bullet_tags":[]}`
		if strings.Contains(last, "question 7") {
			text = `{"reasoning":"r","error_identification":"","root_cause_analysis":"","correct_approach":"","key_insight":"remember seven","section":"others","bullet_tags":[]}`
		}
	case "curator":
		text = `{"reasoning":"r","operations":[{"type":"ADD","section":"others","content":"remember seven","reflections":[1]}]}`
	}
	return chat.Reply{Text: text, Finish: "stop", Model: "canned", Usage: chat.Usage{Calls: 1}}, nil
}

func TestSmoke(t *testing.T) {
	srv, err := natsd.Start(natsd.Config{Sync: "100ms"})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	conn, err := bus.Open(t.Context(), nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- app.Run(ctx, conn, generator.New(canned{}, generator.Config{}), reflector.New(canned{}, reflector.Config{}), curator.New(canned{}, curator.Config{}))
	}()
	began := time.Now()
	for i := range 2000 {
		task := &events.Task{ID: fmt.Sprint(i), Question: fmt.Sprintf("question %d", i), Target: "41", Evaluator: "exact"}
		task.Book = "b"
		if _, err := conn.Publish(ctx, task, bus.Marks{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("published", time.Since(began))
	for {
		idle := true
		for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
			l, err := conn.Lag(ctx, role)
			if err != nil {
				t.Fatal(err)
			}
			idle = idle && l.Idle()
		}
		if idle {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Log("done", time.Since(began))
	w, err := natskv.New(conn.JetStream()).Writer(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(w.State().Playbook().Version(), w.State().Playbook().Len(), playbook.Render(w.State().Playbook().Top(3)))
	stop()
	t.Log(<-done, time.Since(began))
}
