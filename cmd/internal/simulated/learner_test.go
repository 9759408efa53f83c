package simulated

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/curator/propose"
	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/generator/prompt/assembly"
	"debrief/generator/prompt/selection"
	"debrief/generator/scoring"
	"debrief/playbook"
	"debrief/reflector"
)

// client is a chat.Model that sends prompts to a handler as HTTP requests and records them.
type client struct {
	handler http.Handler
	mu      sync.Mutex
	sent    []chat.Prompt
}

func newClient(o Options) *client { return &client{handler: Handler(o)} }

func (c *client) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	c.mu.Lock()
	c.sent = append(c.sent, p)
	c.mu.Unlock()
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/v1/chat/completions", bytes.NewReader(promptBody(p))))
	var out struct {
		Choices []struct {
			Message      struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
		Model string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 || len(out.Choices) != 1 {
		return chat.Reply{}, fmt.Errorf("status %d, %s", w.Code, w.Body)
	}
	return chat.Reply{Text: out.Choices[0].Message.Content, Model: out.Model, Finish: out.Choices[0].FinishReason}, nil
}

func promptBody(p chat.Prompt) []byte {
	var messages []map[string]string
	for _, m := range p.Messages {
		messages = append(messages, map[string]string{"role": m.Speaker, "content": m.Text})
	}
	raw, err := json.Marshal(map[string]any{
		"model": Name, "messages": messages,
		"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": p.Name, "schema": p.Schema}},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// learner is a playbook and the model that fills it, without the bus.
type learner struct {
	*client
	bullets []*playbook.Bullet
	minted  uint64
}

// generatorPrompt returns the prompt that a generator sends for a task.
func generatorPrompt(t *testing.T, task *events.Task, bullets ...*playbook.Bullet) chat.Prompt {
	t.Helper()
	book := selection.NewIndex(false)
	book.Update(playbook.Restore(1, 0, slices.Values(bullets)))
	c, err := assembly.Assemble(assembly.Input{
		Now: time.Unix(1e9, 0), System: generator.Instructions, Query: task.Question, TaskContext: task.Context, Index: book,
	}, assembly.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return generator.Prompt(c.Messages)
}

// answer answers one task and evaluates the answer.
func (d *learner) answer(t *testing.T, task *events.Task) (generator.Answer, events.Outcome) {
	t.Helper()
	a, _, err := generator.Ask(t.Context(), d, generatorPrompt(t, task, d.bullets...))
	if err != nil {
		t.Fatal(err)
	}
	o, err := scoring.Evaluate(task, scoring.Answer{Reasoning: a.Reasoning, Final: a.Final})
	if err != nil {
		t.Fatal(err)
	}
	return a, o
}

func (d *learner) accuracy(t *testing.T, tasks []events.Task) float64 {
	t.Helper()
	right := 0
	for i := range tasks {
		if _, o := d.answer(t, &tasks[i]); o.Label == events.Success {
			right++
		}
	}
	return float64(right) / float64(len(tasks))
}

// epoch answers every task with one playbook, reflects on the failures and then updates the playbook once.
func (d *learner) epoch(t *testing.T, tasks []events.Task) {
	t.Helper()
	var reflections []*events.Reflection
	for i := range tasks {
		e := d.execute(t, &tasks[i])
		if e.Outcome.Label == events.Success {
			continue // would only add votes, which change no answer
		}
		ref, err := d.reflect(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		reflections = append(reflections, ref)
	}
	for group := range slices.Chunk(reflections, 25) {
		d.curate(t, group)
	}
}

// reflect returns the reflection of a Reflector with the learner as its model.
func (d *learner) reflect(ctx context.Context, e *events.Execution) (*events.Reflection, error) {
	return bustest.Must(reflector.New(d, reflector.Config{})).Reflect(ctx, e, "1-ab12cd34")
}

func (d *learner) execute(t *testing.T, task *events.Task) *events.Execution {
	t.Helper()
	a, o := d.answer(t, task)
	e := &events.Execution{
		RunID: task.ID, Question: task.Question, Target: task.Target,
		Reasoning: a.Reasoning, Answer: a.Final, Outcome: o, Cited: a.BulletIDs,
	}
	for _, b := range d.bullets {
		e.Shown = append(e.Shown, events.ShownBullet{ID: b.ID, Content: b.Content})
	}
	return e
}

func (d *learner) bullet(id playbook.BulletID) *playbook.Bullet {
	if i := slices.IndexFunc(d.bullets, func(b *playbook.Bullet) bool { return b.ID == id }); i >= 0 {
		return d.bullets[i]
	}
	return nil
}

func (d *learner) curate(t *testing.T, group []*events.Reflection) {
	t.Helper()
	s, _, err := propose.Ask(t.Context(), d, propose.Request{Bullets: d.bullets, Total: len(d.bullets), Reflections: group})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Proposals {
		if len(p.Reflections) == 0 {
			t.Errorf("%s %q has no reflections", p.Op.Kind, p.Op.Content)
		}
		switch p.Op.Kind {
		case playbook.Add:
			d.add(p.Op.Section, p.Op.Content)
		case playbook.Update:
			d.bullet(p.Op.Bullet).Content = p.Op.Content
		case playbook.Confirm:
		default:
			t.Errorf("unexpected %s", p.Op.Kind)
		}
	}
}

func (d *learner) add(section, content string) {
	d.minted++
	d.bullets = append(d.bullets, &playbook.Bullet{ID: playbook.MintID(section, d.minted), Section: section, Content: content})
}

// learnerWithAllRules returns a learner with every house rule.
func learnerWithAllRules(seed uint64) *learner {
	d := &learner{client: newClient(Options{})}
	for _, text := range invoice.New(seed, worlds.Imperfection{}).ByHand(0) {
		d.add("rules", text)
	}
	return d
}

// learn runs epochs until the held-out accuracy is 1. It returns the accuracy before each epoch and after the last.
func (d *learner) learn(t *testing.T, epochs int, train, heldOut []events.Task) []float64 {
	t.Helper()
	curve := []float64{d.accuracy(t, heldOut)}
	for range epochs {
		if curve[len(curve)-1] == 1 {
			break
		}
		d.epoch(t, train)
		curve = append(curve, d.accuracy(t, heldOut))
		t.Logf("held-out accuracy %.1f %%, %d bullets  %s", 100*curve[len(curve)-1], len(d.bullets), strings.Repeat("#", int(50*curve[len(curve)-1])))
	}
	return curve
}
