package generator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"debrief/events"
	"debrief/playbook"
)

func TestConcurrentCallersShareOneRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r notesCache
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
			_, n, err := r.get(ctx, playbook.Book(book), time.Second, read)
			return n, err
		}
		for range 5 {
			go func() {
				if n, err := ask(t.Context(), "b"); n != 1 || err != nil {
					t.Errorf("got read %d, %v; want the first", n, err)
				}
			}()
		}
		hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		synctest.Wait()
		if _, err := ask(hurried, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the error of the caller's context", err)
		}
		time.Sleep(200 * time.Millisecond)
		if n, _ := ask(t.Context(), "other"); n != 2 {
			t.Errorf("another playbook: got read %d, want its own", n)
		}
		if n, _ := ask(t.Context(), "b"); n != 1 {
			t.Errorf("within the maximum age: got read %d, want the first", n)
		}
		time.Sleep(time.Second)
		if n, _ := ask(t.Context(), "b"); n != 3 {
			t.Errorf("after the maximum age: got read %d, want a new one", n)
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
			t.Errorf("got %d reads after 3, want one for each caller", n-3)
		}
		broken.Store(false)
		if n, err := ask(t.Context(), "b"); n != 7 || err != nil {
			t.Errorf("got read %d, %v; want a new read after an error", n, err)
		}
	})
}
