package train

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

func TestParallelRunsUpToItsLimitAndKeepsTheFirstError(t *testing.T) {
	t.Parallel()
	p := newParallel(3)
	var running, most, done atomic.Int64
	for range 50 {
		err := p.do(func() error {
			now := running.Add(1)
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			running.Add(-1)
			done.Add(1)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.wait(); err != nil || done.Load() != 50 || most.Load() > 3 {
		t.Errorf("got %d done, %d at once, %v; want 50 and at most 3", done.Load(), most.Load(), err)
	}
	broken := errors.New("broken")
	if err := p.do(func() error { return broken }); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if err := p.do(func() error { t.Error("a function ran after an error"); return nil }); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestInOrderKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 10 * waitingValues} {
		var got []int
		o := newInOrder(func(v int) { got = append(got, v) })
		for i := range n {
			o.do(i)
		}
		o.wait()
		if len(got) != n || !slices.IsSorted(got) {
			t.Errorf("%d values: got %v", n, got)
		}
	}
}
