package formats_test

import (
	"fmt"
	"testing"
	"time"

	"debrief/playbook"
	"debrief/playbook/formats"
)

// library returns n bullets of the usual length.
func library(n int) []*playbook.Bullet {
	all := make([]*playbook.Bullet, n)
	for i := range all {
		section := []string{"others", "meta_strategies", "tool_use"}[i%3]
		all[i] = &playbook.Bullet{
			ID: playbook.MintID(section, uint64(i+1)), Section: section, Helpful: i % 17, Harmful: i % 5,
			Content:   fmt.Sprintf("When invoice %d has a discount, take it off before the tax\nand round once, at the end of it all.", i),
			CreatedAt: time.Unix(int64(i+1), 0).UTC(),
		}
	}
	return all
}

// BenchmarkRead and BenchmarkWrite use 10,000 bullets.
func BenchmarkRead(b *testing.B) {
	readable, _ := formats.Formats()
	for _, f := range readable {
		b.Run(string(f), func(b *testing.B) {
			out, _, err := formats.Write(f, "book", library(10_000))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(out)))
			b.ReportAllocs()
			for b.Loop() {
				doc, err := formats.Read(out, f, nil)
				if err != nil || len(doc.Bullets) != 10_000 {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	_, writable := formats.Formats()
	for _, f := range writable {
		b.Run(string(f), func(b *testing.B) {
			all := library(10_000)
			out, _, err := formats.Write(f, "book", all)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(out)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := formats.Write(f, "book", all); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
