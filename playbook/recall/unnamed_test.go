package recall_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"debrief/playbook/recall"
)

func firstKeys(matches []recall.Match) string {
	var all []string
	for _, m := range matches {
		all = append(all, m.Key)
	}
	return strings.Join(all, " ")
}

func TestUnnamedOrdersByWhatAQueryLeavesOut(t *testing.T) {
	t.Parallel()
	var w, none, past recall.WordIndex
	w.Put("general", "sign-in trouble")
	w.Put("named", "sign-in trouble for Quillora abroad")
	w.Put("other", "sign-in trouble for Dresko on Sundays abroad")
	w.Put("dropped", "trouble")
	past.Put("1", "we are closed on Sundays and Dresko is open")
	for _, tt := range []struct {
		name, query string
		past        *recall.WordIndex
		useful      []string
		want        string
	}{
		{"nothing in common: the shortest first", "my password", &none, nil, "general named other"},
		{"a name in the query", "Dresko on Sundays", &none, nil, "general other named"},
		{"a name in past queries", "my password", &past, nil, "general other named"},
		{"words of a text that was of use", "my password", &none, []string{"other"}, "general other named"},
	} {
		u := w.NewUnnamed(tt.past, tt.useful)
		w.Put("late", "x") // not in the snapshot
		got := strings.Fields(firstKeys(u.Top(tt.query, 10)))
		w.Drop("late")
		if len(got) == 0 || got[0] != "dropped" {
			t.Errorf("%s: got %v", tt.name, got)
			continue
		}
		if rest := strings.Join(got[1:], " "); rest != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, rest, tt.want)
		}
		if n := len(u.Top(tt.query, 1)); n != 1 {
			t.Errorf("%s: got %d texts, want 1", tt.name, n)
		}
	}
	u := w.NewUnnamed(&none, nil)
	w.Drop("dropped")
	if got := firstKeys(u.Top("my password", 10)); got != "general named other" {
		t.Errorf("after a drop: got %s", got)
	}
	w.Put("late", "sign-in password of a very long text about everything else") // gets the number of the dropped text
	if got := firstKeys(u.Top("my password", 10)); got != "general named other" {
		t.Errorf("after a later text in place of the dropped one: got %s", got)
	}
}

func BenchmarkUnnamed(b *testing.B) {
	for _, texts := range []int{1000, 100_000} {
		a := archive{rand.New(rand.NewPCG(1, 4))}
		var w, past recall.WordIndex
		for i := range texts {
			w.Put(fmt.Sprintf("%06d", i), a.text(40))
		}
		queries := make([]string, 100)
		for i := range queries {
			queries[i] = a.text(8)
			past.Put(fmt.Sprint(i), queries[i])
		}
		u := w.NewUnnamed(&past, nil)
		b.Run(fmt.Sprintf("Top/%d", texts), func(b *testing.B) {
			measure(b, func(i int) { u.Top(queries[i%100], 200) })
		})
		b.Run(fmt.Sprintf("New/%d", texts), func(b *testing.B) {
			measure(b, func(int) { w.NewUnnamed(&past, nil) })
		})
	}
}
