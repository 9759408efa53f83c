package events

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"debrief/playbook"
)

// typical returns a typical execution of a Generator: thirty bullets shown, three cited, one answer.
func typical() *Execution {
	e := &Execution{
		Book: "main",
		ID:   ExecutionID("main", "", "task-1", 0), RunID: "task-1", Session: "s-1",
		Question: "How much does Alice owe Bob after splitting the dinner bill?",
		Answer:   "42.50", Reasoning: strings.Repeat("Find the bill first, then divide. ", 8),
		Outcome: Outcome{Score: 1, Label: Success, By: "exact"}, Version: 17,
		Model: "gpt-4o-mini", PromptSHA256: make([]byte, 32),
		Started: time.Date(2026, 11, 3, 12, 0, 0, 123456789, time.UTC), Duration: 1200 * time.Millisecond,
	}
	for i := range 30 {
		id := playbook.MintID("strategies_and_hard_rules", uint64(i))
		e.Shown = append(e.Shown, ShownBullet{ID: id, Experiment: 1, Content: fmt.Sprintf("Rule %d: page through the results until there are none left; do not trust the first page.", i)})
	}
	e.Cited = []playbook.BulletID{e.Shown[0].ID, e.Shown[7].ID, e.Shown[29].ID}
	return e
}

func tags(n int) *playbook.Delta {
	d := &playbook.Delta{Version: 1, Author: "curator", Time: time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)}
	for i := range n {
		d.Covers = append(d.Covers, playbook.Cover{ID: string(Hash(fmt.Sprint(i))), Seq: uint64(i)})
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Tag, Bullet: playbook.MintID("others", uint64(i)), Helpful: 1, Support: []int{i}})
	}
	return d
}

func BenchmarkMarshalExecution(b *testing.B)   { benchMarshal(b, typical()) }
func BenchmarkMarshalDelta(b *testing.B)       { benchMarshal(b, tags(5)) }
func BenchmarkUnmarshalExecution(b *testing.B) { benchUnmarshal[Execution](b, typical()) }
func BenchmarkUnmarshalDelta(b *testing.B)     { benchUnmarshal[playbook.Delta](b, tags(5)) }

func benchMarshal(b *testing.B, v any) {
	b.ReportAllocs()
	for b.Loop() {
		data, err := Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(data)))
	}
}

func benchUnmarshal[T any](b *testing.B, v *T) {
	data, err := Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := Unmarshal(data, new(T)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGuard walks about 2 KB, the size of an execution with some bullets shown.
func BenchmarkGuard(b *testing.B) {
	e := typical()
	e.Shown = e.Shown[:12]
	data, err := Marshal(e)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := guard(data); err != nil {
			b.Fatal(err)
		}
	}
}
