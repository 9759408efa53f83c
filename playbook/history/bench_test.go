package history_test

import (
	"fmt"
	"testing"
	"time"

	"debrief/playbook"
	"debrief/playbook/history"
)

// longLog returns a log of n deltas on a thousand bullets. Each bullet is added, then each delta votes on one. Every
// hundredth delta adds a bullet and merges it.
func longLog(n int) history.Log {
	deltas := make([]playbook.Delta, n)
	for i := range deltas {
		d := &deltas[i]
		*d = playbook.Delta{Version: uint64(i + 1), Author: history.Curator, Time: time.Unix(int64(i), 0), Covers: []playbook.Cover{
			{ID: fmt.Sprint(i), Evidence: &playbook.Evidence{Execution: fmt.Sprint(i), Source: fmt.Sprint(i % 100), Outcome: "success"}},
		}}
		id := playbook.MintID("others", uint64(i%1000+1))
		switch {
		case i < 1000:
			d.Ops = []playbook.Op{{Kind: playbook.Add, Bullet: id, Section: "others", Content: fmt.Sprint("bullet ", i), Support: []int{0}}}
		case i%100 == 0:
			extra := playbook.MintID("others", uint64(i+1))
			d.Ops = []playbook.Op{
				{Kind: playbook.Add, Bullet: extra, Section: "others", Content: fmt.Sprint("bullet ", i), Support: []int{0}},
				{Kind: playbook.Merge, Bullet: id, Content: fmt.Sprint("merged ", i), Sources: []playbook.BulletID{extra}, Support: []int{0}},
			}
		default:
			d.Ops = []playbook.Op{{Kind: playbook.Tag, Bullet: id, Helpful: 1, Support: []int{0}}}
		}
	}
	return func(fn func(*playbook.Delta) error) error {
		for i := range deltas {
			if err := fn(&deltas[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

func benchmark(b *testing.B, fn func(history.Log) error) {
	log := longLog(100_000)
	b.ReportAllocs()
	for b.Loop() {
		if err := fn(log); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOf100000(b *testing.B) {
	benchmark(b, func(log history.Log) error { _, err := history.LineageOf(log, "misc-00007"); return err })
}

func BenchmarkOfExecution100000(b *testing.B) {
	benchmark(b, func(log history.Log) error { _, err := history.TraceOf(log, "50000"); return err })
}

func BenchmarkOrigins100000(b *testing.B) {
	p, _, err := history.StateAt(longLog(100_000), 100_000)
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, func(log history.Log) error { _, err := history.Origins(log, p); return err })
}

func BenchmarkWithout100000(b *testing.B) {
	benchmark(b, func(log history.Log) error {
		_, err := history.Forget(log, playbook.Selector{Source: "3"})
		return err
	})
}

func BenchmarkAt100000(b *testing.B) {
	benchmark(b, func(log history.Log) error { _, _, err := history.StateAt(log, 50_000); return err })
}
