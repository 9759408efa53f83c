package similar_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/playbook"
	"debrief/playbook/similar"
)

// trade generates bullets of one subject: a few hundred different words, similar sentences, about 200 bytes each, and
// many near duplicates.
type trade struct{ *rand.Rand }

func newTrade(seed uint64) trade { return trade{rand.New(rand.NewPCG(seed, 7))} }

func (t trade) one(of string) string {
	list := strings.Split(of, "|")
	return list[t.IntN(len(list))]
}

func (t trade) thing() string {
	return t.one("the|each|every|a|any") + " " + t.one("|gross|net|first|last|open|overdue|foreign|domestic|split|disputed") + " " +
		t.one("invoice|order|shipment|payment|refund|credit note|quote|delivery|line item|discount|surcharge|tax amount|subtotal|balance|deposit|contract|customer account|price list|exchange rate|loyalty card|reminder")
}

func (t trade) amount() string {
	return t.one("%d %%|%d.50|%d days|%d units|%d.25 CHF|EUR %d|USD %d|%d hours|%d cents|%d lines")
}

func (t trade) when() string {
	return t.one("before|after|while|unless|only if|as soon as|whenever") + " " + t.thing() + " " +
		t.one("is|was|has been") + " " + t.one("approved|booked|paid|sent|rounded|converted|checked|disputed|cancelled|posted|closed|archived|signed|matched")
}

func (t trade) act() string {
	return t.one("check|round|convert|add|subtract|apply|verify|book|post|reject|split|recompute|confirm|look up|archive") + " " + t.thing() + " " +
		t.one("against|with|from|by way of|together with|in favour of|on top of") + " " + t.thing()
}

func (t trade) bullet() string {
	text := t.one("Always|Never|Make sure to|For region North,|For region South,|For gold customers,|For silver customers,|When in doubt,|First,|In the work sheet,|With `post_invoice`,|With `show_balance`,") + " " +
		t.act() + " " + t.when()
	if t.IntN(2) == 0 {
		text += ", and " + t.act()
	}
	text += "; " + t.one("the limit is|the fee is|the threshold is|use at most|allow up to|it costs") + " " + fmt.Sprintf(t.amount(), t.IntN(90)+1) + ". "
	return text + t.one("This keeps|This makes sure that|Otherwise|It follows that|Note that") + " " + t.thing() + " " +
		t.one("stays|becomes|remains|is never") + " " + t.one("consistent|correct|late|wrong|traceable|complete|too high|unpaid") + "."
}

// edited returns a bullet with one or two words replaced, removed or added.
func (t trade) edited(text string) string {
	words := strings.Fields(text)
	for range 1 + t.IntN(2) {
		at := t.IntN(len(words))
		switch t.IntN(3) {
		case 0:
			words[at] = t.one("carefully|ledger|again|amount")
		case 1:
			words = slices.Delete(words, at, at+1)
		default:
			words = slices.Insert(words, at, t.one("also|then|both|manually"))
		}
	}
	return strings.Join(words, " ")
}

func library(n int) (*similar.Index, []string) {
	t := newTrade(uint64(n))
	var x similar.Index
	texts := make([]string, n)
	for i := range texts {
		texts[i] = t.bullet()
		x.Put(fmt.Sprintf("shr-%05d", i), texts[i])
	}
	return &x, texts
}

// BenchmarkNear searches for one new bullet. Half of the bullets are edits of an existing one. It also reports the
// median and the 99th percentile.
func BenchmarkNear(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, texts := library(n)
			t := newTrade(1)
			asked := make([]string, 2000)
			for i := range asked {
				if asked[i] = t.bullet(); i%2 == 0 {
					asked[i] = t.edited(texts[t.IntN(n)])
				}
			}
			measure(b, func(i int) { x.Nearest(asked[i%len(asked)], 0.7, nil) })
		})
	}
}

// BenchmarkSameSubject groups the rules of one trade: few different words, and a third of the rules are edits of another one. It also reports
// how many of these are with the rule that they come from.
func BenchmarkSameSubject(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := newTrade(uint64(n))
			texts, source := make([]string, n), make(map[playbook.BulletID]playbook.BulletID)
			for i := range texts {
				if texts[i] = t.bullet(); i%3 == 2 {
					from := t.IntN(i)
					source[playbook.MintID("others", uint64(i))] = playbook.MintID("others", uint64(from))
					texts[i] = t.edited(texts[from])
				}
			}
			bullets := make([]*playbook.Bullet, n)
			for i := range bullets {
				bullets[i] = &playbook.Bullet{ID: playbook.MintID("others", uint64(i)), Content: texts[i]}
			}
			var subjects [][]*playbook.Bullet
			for b.Loop() {
				subjects = similar.SameSubject(bullets)
			}
			found := 0
			for _, subject := range subjects {
				for _, bullet := range subject {
					if from, ok := source[bullet.ID]; ok && slices.ContainsFunc(subject, func(o *playbook.Bullet) bool { return o.ID == from }) {
						found++
					}
				}
			}
			b.ReportMetric(float64(found)/float64(len(source)), "found")
		})
	}
}

// measure runs f and reports the distribution of its durations.
func measure(b *testing.B, f func(i int)) {
	b.Helper()
	var took []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		f(i)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

func BenchmarkPut(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, texts := library(n)
			t := newTrade(2)
			fresh := make([]string, 2000)
			for i := range fresh {
				fresh[i] = t.edited(texts[t.IntN(n)])
			}
			measure(b, func(i int) { x.Put(fmt.Sprintf("new-%05d", i%1000), fresh[i%len(fresh)]) })
		})
	}
}

// BenchmarkMemory reports the memory of the index per text, including the normalized text.
func BenchmarkMemory(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		x, texts := library(n)
		size := 0
		for _, text := range texts {
			size += len(text)
		}
		texts = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "bytes/text")
		b.ReportMetric(float64(size)/n, "length/text")
		runtime.KeepAlive(x)
	}
}

// BenchmarkWorst uses the most expensive texts: texts that differ only in their last words, permutations of one text,
// and long texts.
func BenchmarkWorst(b *testing.B) {
	const n = 10_000
	t := newTrade(3)
	prefix := t.bullet()
	for len(prefix) < 200 {
		prefix += " " + t.bullet()
	}
	long := func(bytes int) string {
		var text strings.Builder
		for text.Len() < bytes {
			text.WriteString(t.bullet())
			fmt.Fprintf(&text, " %x ", t.Uint64())
		}
		return text.String()
	}
	tail := func() string {
		return " " + t.one("check|round|convert|add|apply|verify|book|post") + " " + t.one("invoice|order|shipment|payment|refund|quote|delivery") + fmt.Sprintf(" %d", t.IntN(1000))
	}
	permuted := func() string {
		words := strings.Fields(prefix)
		t.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		return strings.Join(words, " ")
	}
	for _, test := range []struct {
		name string
		text func() string
		ask  func() string
		size int
	}{
		{"SameStart", func() string { return prefix + tail() }, func() string { return prefix + tail() }, n},
		{"Copies", func() string { return prefix }, func() string { return prefix + tail() }, n},
		{"Permutations", permuted, permuted, n},
		{"AskLong", t.bullet, func() string { return long(64 << 10) }, n},
		{"AmongLong", func() string { return long(60 << 10) }, func() string { return long(64 << 10) }, 100},
		{"TwoKilobytes", func() string { return long(2000) }, func() string { return long(2000) }, n},
	} {
		b.Run(test.name, func(b *testing.B) {
			var x similar.Index
			for i := range test.size {
				x.Put(fmt.Sprintf("shr-%05d", i), test.text())
			}
			asked := make([]string, 100)
			for i := range asked {
				asked[i] = test.ask()
			}
			measure(b, func(i int) { x.Nearest(asked[i%len(asked)], 0.7, nil) })
		})
	}
}

func BenchmarkLikeness(b *testing.B) {
	t := newTrade(4)
	text := t.bullet()
	other := t.edited(text)
	b.ReportAllocs()
	for b.Loop() {
		similar.Similarity(text, other)
	}
}

func BenchmarkDiffer(b *testing.B) {
	t := newTrade(4)
	text := t.bullet()
	other := t.edited(text)
	b.ReportAllocs()
	for b.Loop() {
		similar.Difference(text, other)
	}
}
