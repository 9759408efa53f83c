package generator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"debrief/events"
)

func TestRecentNotesAreReadOnceForAllWhoAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recent
		var reads atomic.Int32
		var broken atomic.Bool
		read := func() ([]*events.Note, int, error) {
			n := int(reads.Add(1))
			time.Sleep(100 * time.Millisecond)
			if broken.Load() {
				return nil, 0, errors.New("not now")
			}
			return []*events.Note{{Insight: "x"}}, n, nil
		}
		ask := func(ctx context.Context, book string) (int, error) {
			_, n, err := r.notes(ctx, recentKey{"b", len(book)}, time.Second, read)
			return n, err
		}
		for range 5 {
			go func() {
				if n, err := ask(t.Context(), "b"); n != 1 || err != nil {
					t.Errorf("got the reading %d, %v; want the first", n, err)
				}
			}()
		}
		hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		synctest.Wait()
		if _, err := ask(hurried, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's own end", err)
		}
		time.Sleep(200 * time.Millisecond)
		if n, _ := ask(t.Context(), "other"); n != 2 {
			t.Errorf("another book: got the reading %d, want its own", n)
		}
		if n, _ := ask(t.Context(), "b"); n != 1 {
			t.Errorf("a moment later: got the reading %d, want the first", n)
		}
		time.Sleep(time.Second)
		if n, _ := ask(t.Context(), "b"); n != 3 {
			t.Errorf("later: got the reading %d, want a new one", n)
		}

		time.Sleep(time.Second)
		broken.Store(true)
		for range 3 {
			go func() {
				if _, err := ask(t.Context(), "b"); err == nil {
					t.Error("got no error")
				}
			}()
		}
		time.Sleep(time.Second)
		if n := reads.Load(); n != 6 {
			t.Errorf("%d have read after 3, want each for himself", n-3)
		}
		broken.Store(false)
		if n, err := ask(t.Context(), "b"); n != 7 || err != nil {
			t.Errorf("got the reading %d, %v; want that an error is not remembered", n, err)
		}
	})
}
