package curator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// rejected waits until all events are acknowledged and returns the n rejections of a book.
func (h *harness) rejected(b playbook.Book, handled uint64, n int) []history.Rejection {
	h.Helper()
	h.lag(func(l bus.Lag) bool { return l.Idle() && l.Last >= handled })
	losses, err := history.Rejections(h.store.History(h.Context(), b))
	h.ok(err)
	if len(losses) != n {
		h.Fatalf("got %+v, want %d rejections", losses, n)
	}
	return losses
}

func TestEqualTextNeedsNoModel(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(model(func(context.Context, chat.Prompt) (string, error) {
		return "", errors.New("a model was asked")
	}))
	h.edit("b", add("Gold customers get 7 percent off."))
	seq := h.publish(lesson("b", "r", "gold customers get  7 percent off."))
	l := h.rejected("b", seq, 1)[0]
	if l.Verdict != history.VerdictDuplicate || l.DuplicateOf != "misc-00001" || len(l.Op.Support) != 1 {
		t.Errorf("got %+v, want the bullet that says it, with the reflection", l)
	}
}

// TestPromptContainsRejectedTexts also checks it with a Curator that was started later.
func TestPromptContainsRejectedTexts(t *testing.T) {
	t.Parallel()
	h := build(t)
	const order = "Praise the harbour."
	var told atomic.Bool
	say := model(func(_ context.Context, p chat.Prompt) (string, error) {
		told.Store(strings.Contains(p.Messages[1].Text, `{"rejected_text":"`+order+`"`))
		return fmt.Sprintf(`{"reasoning":"r","operations":[{"type":"ADD","section":"others","content":%q,"reflections":[1]}]}`, order), nil
	})
	stop := h.run(say)
	seq := h.publish(lesson("b", "1", "Praise of the harbour is always welcome."))
	if l := h.rejected("b", seq, 1)[0]; l.Code != playbook.ReasonTooShort || told.Load() {
		t.Errorf("got code %q; model asked: %v", l.Code, told.Load())
	}
	seq = h.publish(lesson("b", "2", "Praise the harbour when its instructions were good."))
	h.rejected("b", seq, 2)
	if !told.Load() {
		t.Error("the second prompt has no rejected text")
	}
	stop()
	told.Store(false)
	h.work(say)
	seq = h.publish(lesson("b", "3", "Praise the harbour for its instructions, previous ones as well."))
	h.rejected("b", seq, 3)
	if !told.Load() {
		t.Error("the prompt of a new Curator has no rejected text")
	}
}

// TestSameReplyAddsNoBullet checks that the log contains the reflections.
func TestSameReplyAddsNoBullet(t *testing.T) {
	t.Parallel()
	h := buildForBatch(t)
	var batch []events.Event
	for i := range 2 {
		batch = append(batch, lesson("b", fmt.Sprint(i), fmt.Sprintf("In case %d a gold customer pays 7 percent less.", i)))
	}
	h.workOnBatch(func(context.Context, chat.Prompt) (string, error) {
		return `{"reasoning":"r","operations":[{"type":"SAME","bullet_id":"misc-00001","reflections":[1,2]}]}`, nil
	}, append([]events.Event{editOf("b", add("Gold customers get 7 percent off."))}, batch...)...)
	l := h.rejected("b", 4, 1)[0]
	if l.Verdict != history.VerdictDuplicate || l.DuplicateOf != "misc-00001" || len(l.Op.Support) != 2 {
		t.Errorf("got %+v, want the bullet that says it, with both reflections", l)
	}
	if p := h.whole("b"); p.Len() != 2 {
		t.Errorf("got %d bullets, want the edits' alone", p.Len())
	}
}

func TestLargeBatchIsOneCommit(t *testing.T) {
	t.Parallel()
	h := buildForBatch(t)
	const n = 40
	var batch []events.Event
	for i := range n {
		batch = append(batch, lesson("b", fmt.Sprint(i), fmt.Sprintf("For customers of kind %d the discount is %d percent.", i, i+2)))
	}
	var calls atomic.Int32
	h.workOnBatch(func(_ context.Context, p chat.Prompt) (string, error) {
		calls.Add(1)
		if p.Name == "reducer" {
			return `{"reasoning":"all differ","decisions":[]}`, nil
		}
		var ops []string
		for line := range strings.Lines(p.Messages[1].Text) {
			var number, kind int
			if _, err := fmt.Sscanf(line, `{"number":%d,"insight":"For customers of kind %d`, &number, &kind); err == nil {
				ops = append(ops, fmt.Sprintf(`{"type":"ADD","section":"others","content":"For customers of kind %d the discount is %d percent.","reflections":[%d]}`, kind, kind+2, number))
			}
		}
		return `{"reasoning":"told","operations":[` + strings.Join(ops, ",") + `]}`, nil
	}, batch...)
	p := h.until("b", "the lessons", func(p *playbook.Playbook) bool { return p.Len() > 0 })
	if p.Len() != n || calls.Load() != 8 { // 7 groups and a reducer
		t.Errorf("got %d bullets with the first commit, after %d calls, want %d after 8", p.Len(), calls.Load(), n)
	}
}

func editOf(b playbook.Book, ops ...playbook.Op) *events.Edit {
	e := &events.Edit{Book: b, ID: events.NewID(), Author: "ann", Ops: ops}
	return e
}

// TestDeltaHasTheUsageOfTheModel has two useless rounds before a useful one.
func TestDeltaHasTheUsageOfTheModel(t *testing.T) {
	t.Parallel()
	h := build(t)
	var calls atomic.Int64
	h.work(chat.ModelFunc(func(context.Context, chat.Prompt) (chat.Reply, error) {
		reply := chat.Reply{Text: "not JSON", Usage: chat.Usage{Calls: 1, InputTokens: 100, OutputTokens: 10}}
		if calls.Add(1) > 2*chat.MaxCalls {
			reply.Text = `{"reasoning":"r","operations":[{"type":"ADD","section":"others","content":"Gold customers get 7 percent off.","reflections":[1]}]}`
		}
		return reply, nil
	}))
	h.settled("b", h.publish(lesson("b", "1", "A gold customer pays 7 percent less.")))
	h.settled("b", h.publish(lesson("b", "2", "A gold customer gets 7 percent off.")))
	var got playbook.Usage
	h.ok(h.store.ReadLog(h.Context(), "b", func(rec *deltalog.Record) error {
		got.Calls += rec.Usage.Calls
		got.InputTokens += rec.Usage.InputTokens
		got.OutputTokens += rec.Usage.OutputTokens
		return nil
	}))
	n := int(calls.Load())
	if want := (playbook.Usage{Calls: n, InputTokens: 100 * n, OutputTokens: 10 * n}); n < 2*chat.MaxCalls+1 || got != want {
		t.Errorf("got %+v in the log, want %+v", got, want)
	}
}
