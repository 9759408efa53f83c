package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestValidateNamesTheField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string // the field, "" when it is valid
	}{
		{"defaults and a model", func(*Config) {}, ""},
		{"a local server", func(c *Config) { c.BaseURL = "http://localhost:11434/v1/" }, ""},
		{"a key with a line break", func(c *Config) { c.APIKey = testKey + "\n" }, ""},
		{"no model", func(c *Config) { c.Model = " " }, "Model"},
		{"an address without a scheme", func(c *Config) { c.BaseURL = "localhost:8080" }, "BaseURL"},
		{"an address of files", func(c *Config) { c.BaseURL = "file:///v1" }, "BaseURL"},
		{"an address with a password", func(c *Config) { c.BaseURL = "https://me:" + testKey + "@host/v1" }, "BaseURL"},
		{"an address with a query", func(c *Config) { c.BaseURL = "https://host/v1?key=" + testKey }, "BaseURL"},
		{"an address that is none", func(c *Config) { c.BaseURL = "http://" + testKey + ":x/%zz" }, "BaseURL"},
		{"a key of several lines", func(c *Config) { c.APIKey = testKey + "\n" + testKey }, "APIKey"},
		{"a temperature of boiling", func(c *Config) { c.Temperature = 100 }, "Temperature"},
		{"a temperature of nothing", func(c *Config) { c.Temperature = math.NaN() }, "Temperature"},
		{"a negative bound", func(c *Config) { c.MaxTokens = -1 }, "MaxTokens"},
		{"a negative timeout", func(c *Config) { c.Timeout = -1 }, "Timeout"},
		{"negative attempts", func(c *Config) { c.Attempts = -1 }, "Attempts"},
		{"a negative pause", func(c *Config) { c.Backoff = -1 }, "Backoff"},
		{"negative concurrency", func(c *Config) { c.MaxConcurrent = -1 }, "MaxConcurrent"},
		{"a negative breaker", func(c *Config) { c.BreakerThreshold = -1 }, "BreakerThreshold"},
		{"a negative cooldown", func(c *Config) { c.BreakerCooldown = -1 }, "BreakerCooldown"},
		{"a negative price", func(c *Config) { c.InputPrice = -1 }, "InputPrice"},
		{"a price without end", func(c *Config) { c.OutputPrice = math.Inf(1) }, "OutputPrice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Model: "m"}
			tt.change(&cfg)
			_, err := New(cfg)
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want+": ") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want only an error of %s", err, tt.want)
			}
			if strings.Contains(err.Error(), testKey) {
				t.Errorf("got %v, want it without the key", err)
			}
		})
	}
}

func TestValidateJoinsErrors(t *testing.T) {
	t.Parallel()
	err := Config{}.Validate()
	for _, want := range []string{"BaseURL", "Model", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), want+": ") {
			t.Errorf("got %v, want an error of %s", err, want)
		}
	}
}

func TestNothingPrintsTheKey(t *testing.T) {
	t.Parallel()
	cfg := Config{Model: "m", APIKey: testKey}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEmbedder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{cfg, &cfg, c, e, cfg.APIKey, []any{cfg}, map[string]Config{"a": cfg}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, testKey) || strings.Contains(got, fmt.Sprintf("%x", testKey)) {
				t.Errorf("%s of a %T shows the key: %s", verb, v, got)
			}
		}
	}
	if got, err := json.Marshal(cfg); err != nil || strings.Contains(string(got), testKey) {
		t.Errorf("got %s, error %v, want JSON without the key", got, err)
	}
	if got := fmt.Sprint(Secret(""), Secret("x")); got != " "+hiddenText && got != hiddenText {
		t.Errorf("got %q, want an empty secret to look empty", got)
	}
}

// No error contains the key, even if the server echoes it.
func TestEchoedKeyIsRemovedFromErrors(t *testing.T) {
	t.Parallel()
	echo := func(w http.ResponseWriter, r *http.Request) string { return r.Header.Get("Authorization") }
	for name, reply := range map[string]http.HandlerFunc{
		"in a text": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no: "+echo(w, r), http.StatusUnauthorized)
		},
		"in a code": func(w http.ResponseWriter, r *http.Request) {
			status(400, `{"error":{"message":"no","code":"`+echo(w, r)+`"}}`)(w, r)
		},
		"in a message": func(w http.ResponseWriter, r *http.Request) {
			status(500, `{"error":{"message":"`+echo(w, r)+`"}}`)(w, r)
		},
		"over and over": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, strings.Repeat(strings.TrimPrefix(echo(w, r), "Bearer "), 10_000), http.StatusBadRequest)
		},
		"in a redirect": func(w http.ResponseWriter, r *http.Request) {
			status(302, ``, "Location: /?key="+strings.TrimPrefix(echo(w, r), "Bearer "))(w, r)
		},
		"with status 200": func(w http.ResponseWriter, r *http.Request) { status(200, `{"error":"`+echo(w, r)+`"}`)(w, r) },
		"in a malformed header": func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", echo(w, r))
			_ = conn.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, Config{Attempts: 1}, []http.HandlerFunc{reply}, func(t *testing.T, c *Client, _ *fake) {
				_, err := ask(t.Context(), c)
				if err == nil {
					t.Fatal("got no error")
				}
				for ; err != nil; err = unwrap(err) {
					if got := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(got, testKey) {
						t.Errorf("%T shows the key: %s", err, got)
					}
				}
				if got := fmt.Sprint(c.Healthy()); strings.Contains(got, testKey) {
					t.Errorf("health shows the key: %s", got)
				}
			})
		})
	}
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}

// The other tests use pipes in memory; this one uses the transport of New.
func TestOverTCP(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(answer("Hi."))
	c, err := New(Config{BaseURL: srv.URL + "/v1", Model: "m", Attempts: 2, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if reply, err := ask(context.Background(), c); err != nil || reply.Text != "Hi." {
		t.Errorf("got %+v, error %v", reply, err)
	}
	srv.Close()
	_, err = ask(context.Background(), c)
	checkError(t, err, down, 0)
}
