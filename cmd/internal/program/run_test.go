package program_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/reflector"
)

// canned replies at once. The only lesson is from question 7.
type canned struct{}

func (canned) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	text := `{"reasoning":"r","bullet_ids":[],"final_answer":"42"}`
	switch p.Name {
	case events.RoleReflector:
		insight := ""
		if strings.Contains(p.Messages[len(p.Messages)-1].Text, "question 7?") {
			insight = "remember seven"
		}
		text = `{"reasoning":"r","error_identification":"","root_cause_analysis":"","correct_approach":"","key_insight":"` +
			insight + `","section":"others","bullet_tags":[]}`
	case events.RoleCurator:
		text = `{"reasoning":"r","operations":[{"type":"ADD","section":"others","content":"remember seven","reflections":[1]}]}`
	}
	return chat.Reply{Text: text, Finish: "stop", Model: "canned", Usage: chat.Usage{Calls: 1}}, nil
}

func TestTasksPassAllRoles(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- program.Run(ctx, conn, bustest.Must(generator.New(canned{}, nil, generator.Config{})),
			bustest.Must(reflector.New(canned{}, reflector.Config{})), bustest.Must(curator.New(canned{}, curator.Config{})))
	}()
	for i := range 20 {
		task := &events.Task{Book: "b", ID: fmt.Sprint(i), Question: fmt.Sprintf("question %d?", i), Target: "41", Evaluator: scoring.ByNumber}
		if _, err := conn.Publish(ctx, task, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f, wait, err := deltalog.New(conn.JetStream()).Follow(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Wait(ctx, 1); err != nil {
		t.Fatal(err)
	}
	stop()
	wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
