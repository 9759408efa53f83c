package openai

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// logText is a log that a timer writes and a test reads.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A person learns within a minute that the model is slow, from the log and from the status, and which flags to change.
func TestSlowModelIsReported(t *testing.T) {
	t.Parallel()
	cfg := Config{Timeout: 10 * time.Minute, FieldName: func(f string) string { return "--" + f }}
	slow := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(90 * time.Second)
		answer("Hi.")(w, r)
	}
	simulate(t, cfg, []http.HandlerFunc{slow}, func(t *testing.T, c *Client, _ *fake) {
		var log logText
		ctx := zerolog.New(&log).WithContext(t.Context())
		done := make(chan error)
		for range 3 {
			go func() { _, err := ask(ctx, c); done <- err }()
		}
		time.Sleep(slowAfter - time.Second)
		synctest.Wait()
		if got := c.Waiting(); got != "" || log.String() != "" {
			t.Errorf("before: got %q and the log %q, want nothing", got, log.String())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := c.Waiting()
		for _, want := range []string{"the model is slow: 3 calls wait, the oldest for 31s", "; 2 of at most 2 requests (adapted to the server, up to 16) are at", "--MaxConcurrent", "--Timeout", "10m0s"} {
			if !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		}
		if n := strings.Count(log.String(), "the model is slow"); n != 1 || !strings.Contains(log.String(), `"level":"warn"`) {
			t.Errorf("got the log %q, want one warning", log.String())
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := c.Waiting(); got != "" {
			t.Errorf("without calls: got %q", got)
		}
	})
}

func TestFirstTimeoutIsLogged(t *testing.T) {
	t.Parallel()
	cfg := Config{Timeout: 20 * time.Second, FieldName: func(f string) string { return "--" + strings.ToLower(f) }}
	simulate(t, cfg, []http.HandlerFunc{silence}, func(t *testing.T, c *Client, f *fake) {
		var log logText
		ctx := zerolog.New(&log).Level(zerolog.InfoLevel).WithContext(t.Context())
		for range 2 {
			_, err := ask(ctx, c)
			if verdict(err) != "unavailable" || !strings.Contains(err.Error(), "--timeout") {
				t.Errorf("got %v, want an outage that names the flag", err)
			}
		}
		if n := strings.Count(log.String(), "timed out"); n != 1 || !strings.Contains(log.String(), "raise --timeout, now 20s") {
			t.Errorf("got the log %q, want the flag and its value once", log.String())
		}
		if n := len(f.seen()); n != 4 {
			t.Errorf("got %d requests of two calls, want each repeated once", n)
		}
	})
}

func TestRateLimitIsReported(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg    Config
		status http.HandlerFunc
		want   string
	}{
		"of the server": {Config{}, status(429, ``, "Retry-After: 20"), "rate limited: the server is busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, tt.cfg, []http.HandlerFunc{tt.status, answer("Hi.")}, func(t *testing.T, c *Client, _ *fake) {
				done := make(chan error)
				for range 2 {
					go func() { _, err := ask(t.Context(), c); done <- err }()
				}
				time.Sleep(time.Second)
				if got := c.Waiting(); !strings.HasPrefix(got, "rate limited") || !strings.Contains(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				for range 2 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
