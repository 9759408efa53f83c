package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"debrief/events/chat"
)

func TestRetryPause(t *testing.T) {
	t.Parallel()
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // start of the time in a synctest bubble
	in := func(d time.Duration) string { return began.Add(d).Format(http.TimeFormat) }
	for _, tt := range []struct {
		name        string
		reply       http.HandlerFunc
		least, most time.Duration
	}{
		{"is our own without a word from the server", status(503, ``), 500 * time.Millisecond, 750 * time.Millisecond},
		{"is the server's seconds", status(429, ``, "Retry-After: 7"), 7 * time.Second, 7250 * time.Millisecond},
		{"is the server's seconds also on a 503", status(503, ``, "Retry-After: 7"), 7 * time.Second, 7250 * time.Millisecond},
		{"is the server's milliseconds", status(429, ``, "Retry-After-Ms: 1500", "Retry-After: 2"), 1500 * time.Millisecond, 1750 * time.Millisecond},
		{"is the server's date", status(429, ``, "Retry-After: "+in(9*time.Second)), 9 * time.Second, 9250 * time.Millisecond},
		{"is the server's date by the server's clock", status(429, ``, "Date: "+in(-time.Hour), "Retry-After: "+in(5*time.Second-time.Hour)), 5 * time.Second, 5250 * time.Millisecond},
		{"is our own after a date in the past", status(429, ``, "Retry-After: "+in(-time.Hour)), 500 * time.Millisecond, 750 * time.Millisecond},
		{"is our own after nonsense", status(429, ``, "Retry-After: soon"), 500 * time.Millisecond, 750 * time.Millisecond},
		{"is our own after a negative number", status(429, ``, "Retry-After: -5"), 500 * time.Millisecond, 750 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, Config{}, repeat(1, tt.reply, answer("Hi.")), func(t *testing.T, c *Client, f *fake) {
				if _, err := ask(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if got := f.seen()[1].At; got < tt.least || got > tt.most {
					t.Errorf("got %v, want %v to %v", got, tt.least, tt.most)
				}
			})
		})
	}
}

func TestBackoffDoubles(t *testing.T) {
	t.Parallel()
	simulate(t, Config{Attempts: 8, Backoff: time.Second, BreakerThreshold: 100}, []http.HandlerFunc{status(500, ``)}, func(t *testing.T, c *Client, f *fake) {
		_, _ = ask(t.Context(), c)
		seen := f.seen()
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 16, 16} {
			want *= time.Second
			if got := seen[i+1].At - seen[i].At; got < want || got > want+want/2 {
				t.Errorf("pause %d: got %v, want %v and at most half more", i, got, want)
			}
		}
	})
}

func TestRetryAfterBeyondMaxWait(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"120": 2 * time.Minute, "1e300": 24 * time.Hour, "99999999999": 24 * time.Hour, "+Inf": 24 * time.Hour} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			simulate(t, Config{}, []http.HandlerFunc{status(429, ``, "Retry-After: "+header)}, func(t *testing.T, c *Client, f *fake) {
				_, err := ask(t.Context(), c)
				u, ok := errors.AsType[*chat.UnavailableError](err)
				if !ok || u.RetryAfter() != want || len(f.seen()) != 1 {
					t.Errorf("got %v after %d requests, want unavailable for %v after 1", err, len(f.seen()), want)
				}
			})
		})
	}
}

// A long outage must not multiply the calls by four.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	cfg := Config{Attempts: 4, Backoff: time.Millisecond, BreakerThreshold: 1000}
	simulate(t, cfg, []http.HandlerFunc{status(500, ``)}, func(t *testing.T, c *Client, f *fake) {
		const calls = 200
		for range calls {
			_, _ = ask(t.Context(), c)
		}
		if got, most := c.Stats().Retries, int64(calls*0.2+budgetFull+1); got > most || got < 40 {
			t.Errorf("got %d retries for %d calls, want about a fifth and %d", got, calls, budgetFull)
		}

		before := c.Stats().Retries
		time.Sleep(time.Hour) // of the bubble: the budget fills up again
		for range 10 {
			_, _ = ask(t.Context(), c)
		}
		if got := c.Stats().Retries - before; got < budgetFull {
			t.Errorf("got %d retries after a rest, want at least %d", got, budgetFull)
		}
	})
}

// A call rejected by an open breaker was not sent, so it must not be retried.
func TestRejectedCallsEarnNoRetries(t *testing.T) {
	t.Parallel()
	cfg := Config{Attempts: 2, Backoff: time.Millisecond, BreakerThreshold: 12, BreakerCooldown: time.Second}
	simulate(t, cfg, []http.HandlerFunc{status(500, ``)}, func(t *testing.T, c *Client, f *fake) {
		for c.Stats().Breaker != "open" {
			_, _ = ask(t.Context(), c)
		}
		sent, left := len(f.seen()), c.budget.add(0)
		for range 100 {
			_, _ = ask(t.Context(), c)
		}
		if got := c.budget.add(0); got != left || len(f.seen()) != sent {
			t.Errorf("100 calls while it is open: got %d requests and %.1f retries, want 0 and 0", len(f.seen())-sent, got-left)
		}
	})
}

func TestBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]http.HandlerFunc{"failures": status(500, ``), "silence": silence, "cut connections": hangUp} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Attempts: 1, BreakerThreshold: 3, BreakerCooldown: 10 * time.Second}
			simulate(t, cfg, []http.HandlerFunc{answer("Hi."), answer("Hi."), broken}, func(t *testing.T, c *Client, f *fake) {
				var err error
				for range 5 {
					_, err = ask(t.Context(), c)
				}
				if got := c.Stats().Breaker; got != "open" {
					t.Fatalf("after 3 failures: got a breaker that is %s, want open", got)
				}
				u, ok := errors.AsType[*chat.UnavailableError](err)
				if !ok || u.Unasked() || u.After != 10*time.Second {
					t.Errorf("from the call that opened it: got %v, want unavailable for 10 s", err)
				}

				_, err = ask(t.Context(), c)
				u, ok = errors.AsType[*chat.UnavailableError](err)
				if !ok || !u.Unasked() || u.After <= 9*time.Second || u.After > 10*time.Second || len(f.seen()) != 5 {
					t.Errorf("while open: got %v after %d requests, want unavailable for 10 s without a request", err, len(f.seen())-5)
				}
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Errorf("while open: got %v, want it to say what went wrong before", err)
				}

				time.Sleep(u.After)
				_, _ = ask(t.Context(), c) // a probe, which fails
				if _, err = ask(t.Context(), c); len(f.seen()) != 6 {
					t.Errorf("after a failed probe: got %v after %d requests, want it open again", err, len(f.seen())-6)
				}

				f.speak(answer("Hi."))
				time.Sleep(10 * time.Second)
				if _, err := ask(t.Context(), c); err != nil {
					t.Errorf("after the second rest: got %v, want an answer", err)
				}
				if got := c.Stats().Breaker; got != "closed" || c.Healthy() != nil {
					t.Errorf("after a good probe: got a breaker that is %s, health %v", got, c.Healthy())
				}
			})
		})
	}
}

func TestRunningCallEndsWhenBreakerOpens(t *testing.T) {
	t.Parallel()
	cfg := Config{Attempts: 10, BreakerThreshold: 3, Backoff: time.Millisecond}
	simulate(t, cfg, []http.HandlerFunc{status(500, ``)}, func(t *testing.T, c *Client, f *fake) {
		_, err := ask(t.Context(), c)
		if verdict(err) != "unavailable" || len(f.seen()) != 3 {
			t.Errorf("got %v after %d requests, want unavailable after 3", err, len(f.seen()))
		}
	})
}

// A server that returns 429, or refuses a prompt or a key, is working.
func TestBusyRepliesKeepBreakerClosed(t *testing.T) {
	t.Parallel()
	for _, code := range []int{400, 401, 404, 409, 429} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			cfg := Config{Attempts: 10, BreakerThreshold: 2}
			simulate(t, cfg, []http.HandlerFunc{status(code, ``, "Retry-After: 1")}, func(t *testing.T, c *Client, _ *fake) {
				for range 5 {
					_, _ = ask(t.Context(), c)
				}
				if got := c.Stats().Breaker; got != "closed" {
					t.Errorf("got a breaker that is %s, want closed", got)
				}
			})
		})
	}
}

// Cancelled calls tell nothing about the server: they neither open the breaker nor, as its probe, close it.
func TestCancelledCallsKeepBreakerState(t *testing.T) {
	t.Parallel()
	cfg := Config{Attempts: 1, BreakerThreshold: 2, BreakerCooldown: 10 * time.Second}
	simulate(t, cfg, []http.HandlerFunc{silence}, func(t *testing.T, c *Client, f *fake) {
		giveUp := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := ask(ctx, c); err != context.DeadlineExceeded {
				t.Errorf("got %v, want the deadline", err)
			}
		}
		for range 5 {
			giveUp()
		}
		if got := c.Stats().Breaker; got != "closed" {
			t.Errorf("after five callers gave up: got a breaker that is %s, want closed", got)
		}

		f.speak(status(500, ``))
		for range 3 {
			_, _ = ask(t.Context(), c)
		}
		f.speak(silence)
		time.Sleep(10 * time.Second)
		giveUp()
		if got := c.Stats().Breaker; got != "open" {
			t.Errorf("after a probe was given up: got a breaker that is %s, want open", got)
		}
	})
}

func TestRequestRateLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 2000)
	long = long[:chat.PrefixLen(long, 995)] // about 1000 with the overhead of a message
	for _, tt := range []struct {
		name  string
		cfg   Config
		text  string
		calls int
		least time.Duration
		most  time.Duration
	}{
		// 60 a minute with 6 at once: the other 14 take a second each.
		{"of requests", Config{RequestsPerMinute: 60}, "Hello?", 20, 14 * time.Second, 14 * time.Second},
		// Each call costs 15 tokens, and 60 are available at once: 300 tokens take up to 24 seconds at 10 per second. The
		// last reply is only charged to a later call.
		{"of tokens", Config{TokensPerMinute: 600}, "Hello?", 20, 21 * time.Second, 24 * time.Second},
		// 1000 tokens are more than the limiter's burst, and the call waits for them.
		{"of tokens for a prompt larger than the burst", Config{TokensPerMinute: 600}, long, 1, 92 * time.Second, 96 * time.Second},
		{"of none", Config{}, "Hello?", 20, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, tt.cfg, []http.HandlerFunc{answer("Hi.")}, func(t *testing.T, c *Client, f *fake) {
				for range tt.calls {
					p := chat.Prompt{Messages: []chat.Message{{Speaker: chat.User, Text: tt.text}}}
					if _, err := c.Complete(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}
				seen := f.seen()
				if got := seen[len(seen)-1].At; got < tt.least || got > tt.most {
					t.Errorf("got the last request at %v, want %v to %v", got, tt.least, tt.most)
				}
			})
		})
	}
}

func TestRetriesCountInRateLimit(t *testing.T) {
	t.Parallel()
	cfg := Config{RequestsPerMinute: 6, Backoff: time.Millisecond}
	simulate(t, cfg, repeat(2, status(500, ``), answer("Hi.")), func(t *testing.T, c *Client, f *fake) {
		if _, err := ask(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := f.seen()[2].At; got < 19*time.Second {
			t.Errorf("got the third request at %v, want it after 20 s", got)
		}
	})
}

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

func TestStatsAddUp(t *testing.T) {
	t.Parallel()
	replies := []http.HandlerFunc{answer("Hi."), status(500, ``), answer("Hi."), status(400, ``), answer("Hi.")}
	simulate(t, Config{InputPrice: 1, OutputPrice: 4}, replies, func(t *testing.T, c *Client, _ *fake) {
		for range 4 {
			_, _ = ask(t.Context(), c)
		}
		got := c.Stats()
		if got.Calls != 4 || got.Failures != 1 || got.Requests != 5 || got.Retries != 1 || got.InFlight != 0 ||
			got.InputTokens != 30 || got.OutputTokens != 15 || got.Cost != 90e-6 || got.Breaker != "closed" || len(got.Unsupported) != 0 {
			t.Errorf("got %+v", got)
		}
	})
}
