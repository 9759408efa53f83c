package openai

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"debrief/events/chat"
)

// oneSlot is a model that handles one request at a time. It counts the requests, the most at a time, and those whose client did not wait.
type oneSlot struct {
	duration time.Duration
	made     sync.Once
	slot     chan struct{} // made in the bubble of the test

	mu                        sync.Mutex
	requests, atOnce, waiting int
	wasted                    int
}

func (o *oneSlot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.requests++
	o.waiting++
	o.atOnce = max(o.atOnce, o.waiting)
	o.mu.Unlock()
	o.made.Do(func() { o.slot = make(chan struct{}, 1) })
	o.slot <- struct{}{}
	select {
	case <-time.After(o.duration):
	case <-r.Context().Done(): // as Ollama and llama.cpp, which stop when the client disconnects
	}
	<-o.slot
	o.mu.Lock()
	o.waiting--
	if r.Context().Err() != nil {
		o.wasted++
	}
	o.mu.Unlock()
	answer("Hi.")(w, r)
}

// callAll makes calls from several workers at the same time, as roles do.
func callAll(t *testing.T, calls int, workers ...*Client) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(calls))
	var running sync.WaitGroup
	for _, c := range workers {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				for {
					if _, err := ask(t.Context(), c); err == nil {
						break
					}
					time.Sleep(time.Second)
				}
			}
		})
	}
	running.Wait()
}

func TestMaxConcurrent(t *testing.T) {
	t.Parallel()
	o := new(oneSlot) // only its counts
	slow := func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.waiting++
		o.atOnce = max(o.atOnce, o.waiting)
		o.mu.Unlock()
		time.Sleep(time.Second) // of the bubble
		o.mu.Lock()
		o.waiting--
		o.mu.Unlock()
		answer("Hi.")(w, r)
	}
	simulate(t, Config{MaxConcurrent: 3}, []http.HandlerFunc{slow}, func(t *testing.T, c *Client, _ *fake) {
		callAll(t, 60, slices.Repeat([]*Client{c}, 9)...)
		if got := c.Stats().Limit; got != 3 || o.atOnce != 3 {
			t.Errorf("got %d requests at a time and the limit %d, want it to grow to 3", o.atOnce, got)
		}
	})
}

// A model of one slot, as on a laptop, wastes no requests: three roles with 16 workers each share the limit, which stays below the number of
// requests that the model answers in time.
func TestSlowModelWastesFewRequests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		timeout  time.Duration
		duration time.Duration
	}{
		{"8 s with a timeout of 60 s", time.Minute, 8 * time.Second},
		{"90 s with the timeout of local servers", 10 * time.Minute, 90 * time.Second},
		{"50 s with a timeout of 60 s", time.Minute, 50 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := &oneSlot{duration: tt.duration}
			simulate(t, Config{Timeout: tt.timeout}, []http.HandlerFunc{o.ServeHTTP}, func(t *testing.T, c *Client, _ *fake) {
				const calls = 100
				roles := []*Client{c, c.Share(), c.Share()}
				callAll(t, calls, slices.Concat(slices.Repeat(roles[:1], 16), slices.Repeat(roles[1:2], 16), slices.Repeat(roles[2:], 16))...)
				if o.requests-calls > calls/20 || o.wasted > calls/20 {
					t.Errorf("got %d requests for %d calls, %d of them wasted, want at most 5 %%", o.requests, calls, o.wasted)
				}
				sum := int64(0)
				for _, r := range roles {
					sum += r.Stats().Calls
				}
				if sum < calls || roles[1].Stats().Calls == 0 {
					t.Errorf("got %d calls of three roles, want %d", sum, calls)
				}
			})
		})
	}
}

// A server that answers requests at the same time gets as many as are allowed.
func TestFastServerGetsAllRequests(t *testing.T) {
	t.Parallel()
	wide := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Second)
		answer("Hi.")(w, r)
	}
	simulate(t, Config{}, []http.HandlerFunc{wide}, func(t *testing.T, c *Client, _ *fake) {
		callAll(t, 900, slices.Repeat([]*Client{c}, 48)...)
		if got := c.Stats().Limit; got != 16 {
			t.Errorf("got the limit %d, want 16", got)
		}
	})
}

// One call that takes long does not keep the others waiting, also at the start.
func TestLongCallDelaysNoOthers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	long := func(w http.ResponseWriter, r *http.Request) { <-release; answer("Hi.")(w, r) }
	simulate(t, Config{Timeout: time.Hour}, []http.HandlerFunc{long, answer("Hi.")}, func(t *testing.T, c *Client, f *fake) {
		release = make(chan struct{}) // in the bubble
		done := make(chan error)
		go func() { _, err := ask(t.Context(), c); done <- err }()
		synctest.Wait()
		callAll(t, 20, c, c, c)
		close(release)
		if err := <-done; err != nil || len(f.seen()) != 21 {
			t.Errorf("got %v after %d requests", err, len(f.seen()))
		}
	})
}

// A busy server and a timeout halve the limit, once for all requests of that time.
func TestLimitIsHalved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(16, 16, time.Minute)
		for range 16 {
			if err := c.begin(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		time.Sleep(time.Second)
		for range 8 {
			c.end(began, overloaded)
		}
		if limit, inFlight := c.current(); limit != 8 || inFlight != 8 {
			t.Errorf("got the limit %d with %d requests, want 8 with 8", limit, inFlight)
		}
		for range 8 {
			c.end(began, answered)
		}
		for range 10 {
			go func() { _ = c.begin(t.Context(), nil) }()
		}
		synctest.Wait()
		if _, inFlight := c.current(); inFlight != 8 {
			t.Errorf("got %d requests in flight, want 8", inFlight)
		}
		for range 8 {
			c.end(began, answered)
		}
	})
}

// A server that asks for a pause gets no request during it, neither from the refused calls nor from those that wait for a turn.
func TestBusyServerGetsNoRequestsDuringPause(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		refusal http.HandlerFunc
		most    int // refused requests
	}{
		{"with Retry-After", status(429, ``, "Retry-After: 20"), 16}, // those in flight
		{"without Retry-After", status(429, ``), 60},                 // and one or two for each of our own pauses
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			began := time.Time{}
			limited := func(w http.ResponseWriter, r *http.Request) {
				if time.Since(began) < 20*time.Second {
					tt.refusal(w, r)
				} else {
					answer("Hi.")(w, r)
				}
			}
			simulate(t, Config{}, []http.HandlerFunc{limited}, func(t *testing.T, c *Client, f *fake) {
				began = time.Now()
				const calls = 60
				callAll(t, calls, slices.Repeat([]*Client{c}, calls)...)
				if refused := len(f.seen()) - calls; refused > tt.most {
					t.Errorf("got %d refused requests of %d calls, want at most %d", refused, calls, tt.most)
				}
			})
		})
	}
}

// TestCallersTakeTurns: a caller that has many requests does not keep the first one of another caller waiting.
func TestCallersTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(1, 1, time.Minute)
		var order []string
		first := new(caller)
		if err := c.begin(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		for name, waiting := range map[string]struct {
			by *caller
			n  int
		}{"first": {first, 4}, "second": {new(caller), 2}} {
			for range waiting.n {
				go func() {
					if c.begin(t.Context(), waiting.by) == nil {
						order = append(order, name)
						c.end(time.Now(), noSign)
					}
				}()
			}
		}
		gone, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- c.begin(gone, new(caller)) }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that leaves: got %v", err)
		}
		c.end(time.Now(), noSign)
		synctest.Wait()
		if want := []string{"second", "first", "second", "first", "first", "first"}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

// TestLimitFindsTheSlots: the limit stays near the number of requests that the server handles at the same time.
func TestLimitFindsTheSlots(t *testing.T) {
	t.Parallel()
	o := &oneSlot{duration: 8 * time.Second}
	simulate(t, Config{Timeout: 10 * time.Minute}, []http.HandlerFunc{o.ServeHTTP}, func(t *testing.T, c *Client, _ *fake) {
		callAll(t, 300, slices.Repeat([]*Client{c}, 48)...)
		if o.atOnce > 3 {
			t.Errorf("got %d requests at the server, which handles one at a time, want at most 3", o.atOnce)
		}
	})
}

// TestReservedTurn: the first call with a reservation needs no other turn, a later one does, and an unused turn is given back.
func TestReservedTurn(t *testing.T) {
	t.Parallel()
	simulate(t, Config{MaxConcurrent: 1}, []http.HandlerFunc{answer("Hi.")}, func(t *testing.T, c *Client, _ *fake) {
		for use := range 3 { // the number of calls
			ctx, release, err := chat.Reserve(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if limit, inFlight := c.concurrency.current(); limit != 1 || inFlight != 1 {
				t.Errorf("reserved: got %d of %d turns", inFlight, limit)
			}
			for range use {
				if _, err := ask(ctx, c); err != nil {
					t.Error(err)
				}
			}
			release()
			if _, inFlight := c.concurrency.current(); inFlight != 0 {
				t.Errorf("%d calls: %d turns are not given back", use, inFlight)
			}
		}
	})
}

// TestFirstHintOfSlowModel: 28 tasks at the same time, for a model of one slot that takes 8 s for a call. The first bullet is in the playbook
// within 70 s, and in a prompt within 90 s.
func TestFirstHintOfSlowModel(t *testing.T) {
	t.Parallel()
	o := &oneSlot{duration: 8 * time.Second}
	simulate(t, Config{Timeout: 10 * time.Minute}, []http.HandlerFunc{o.ServeHTTP}, func(t *testing.T, c *Client, _ *fake) {
		began := time.Now()
		reflector, curator := c.Share(), c.Share()
		call := func(ctx context.Context, c *Client) {
			if _, err := ask(ctx, c); err != nil {
				t.Error(err)
			}
		}
		var mu sync.Mutex
		var bullet, hint time.Duration
		curating := make(chan struct{}, 1) // one call for a playbook at a time
		var tasks, learning sync.WaitGroup
		slots := make(chan struct{}, 16)
		for range 28 {
			slots <- struct{}{}
			tasks.Go(func() {
				defer func() { <-slots }()
				ctx, release, err := chat.Reserve(t.Context(), c)
				if err != nil {
					t.Error(err)
				}
				defer release()
				mu.Lock()
				if bullet > 0 && hint == 0 {
					hint = time.Since(began)
				}
				mu.Unlock()
				call(ctx, c)
				learning.Go(func() {
					call(t.Context(), reflector)
					curating <- struct{}{}
					defer func() { <-curating }()
					call(t.Context(), curator)
					mu.Lock()
					defer mu.Unlock()
					if bullet == 0 {
						bullet = time.Since(began)
					}
				})
			})
		}
		tasks.Wait()
		learning.Wait()
		t.Logf("bullet after %s, in a prompt after %s", bullet, hint)
		if bullet > 70*time.Second || hint == 0 || hint > 90*time.Second {
			t.Errorf("got the first bullet after %s, and in a prompt after %s, want 70 s and 90 s", bullet, hint)
		}
	})
}
