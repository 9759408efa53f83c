package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
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

func TestStatsAddUp(t *testing.T) {
	t.Parallel()
	replies := []http.HandlerFunc{answer("Hi."), status(500, ``), answer("Hi."), status(400, ``), answer("Hi.")}
	simulate(t, Config{InputPrice: 1, OutputPrice: 4}, replies, func(t *testing.T, c *Client, _ *fake) {
		for range 4 {
			_, _ = ask(t.Context(), c)
		}
		got := c.Stats()
		if got.Calls != 4 || got.Failures != 1 || got.Requests != 5 || got.Retries != 1 || got.InFlight != 0 ||
			got.InputTokens != 30 || got.OutputTokens != 15 || got.Cost != 90e-6 || got.Breaker != "closed" {
			t.Errorf("got %+v", got)
		}
	})
}
