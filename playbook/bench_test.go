package playbook_test

import (
	"fmt"
	"testing"
	"time"

	"debrief/playbook"
)

// library returns a playbook of n bullets of the usual length.
func library(n int) *playbook.Playbook {
	return playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range n {
			b := &playbook.Bullet{
				ID: playbook.MintID("others", uint64(i+1)), Section: []string{"others", "meta_strategies", "tool_use"}[i%3],
				Content: fmt.Sprintf("When invoice %d has a discount, take it off before the tax and round once, at the end of it all.", i),
				Helpful: i % 17, Harmful: i % 5,
			}
			if !yield(b) {
				return
			}
		}
	})
}

// BenchmarkApply applies a delta with one vote on each of ten bullets. Its cost must not depend on the number of other
// bullets.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := library(n)
			d := &playbook.Delta{Covers: make([]playbook.Cover, 1), Time: time.Unix(1, 0)}
			for i := range 10 {
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Tag, Bullet: playbook.MintID("others", uint64(i*n/10+1)), Helpful: 1, Support: []int{0}})
			}
			b.ReportAllocs()
			for b.Loop() {
				d.Version = p.Version() + 1
				if _, err := p.Apply(d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTop30Of10000(b *testing.B) {
	p := library(10_000)
	b.ReportAllocs()
	for b.Loop() {
		p.Top(30)
	}
}

func BenchmarkRender30(b *testing.B) {
	bullets := library(10_000).Top(30)
	b.ReportAllocs()
	for b.Loop() {
		playbook.RenderWithVotes(bullets)
	}
}

func BenchmarkStateHash10000(b *testing.B) {
	p := library(10_000)
	b.ReportAllocs()
	for b.Loop() {
		p.StateHash()
	}
}

func BenchmarkClone10000(b *testing.B) {
	p := library(10_000)
	b.ReportAllocs()
	for b.Loop() {
		p.Clone()
	}
}

// BenchmarkSame10000 looks up the content of one new bullet.
func BenchmarkSame10000(b *testing.B) {
	p := library(10_000)
	p.FindByContent("")
	b.ReportAllocs()
	for b.Loop() {
		p.FindByContent("When invoice 10001 has a discount, take it off before the tax and round once, at the end of it all.")
	}
}
