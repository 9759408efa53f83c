package llm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"time"
)

// Config says which model to ask and how patiently. The zero value with a Model is a sensible client of OpenAI's own
// server. Field names in kebab case are the flags that Validate speaks of. An Embedder has no use for what is about
// replies: Temperature, MaxTokens, Stream, NoSchema and OutputPrice.
type Config struct {
	// BaseURL is the server's address up to and with /v1.
	BaseURL string
	// APIKey may be empty: local servers want none.
	APIKey Secret
	Model  string

	// Temperature is always sent, also 0, except to models that refuse it.
	Temperature float64
	// MaxTokens bounds replies to prompts that set no bound; 0 leaves it to the server.
	MaxTokens int
	// Stream reads replies piece by piece. It changes nothing but how early a dead connection shows.
	Stream bool
	// NoSchema never sends response_format. Without it the first refusal turns it off.
	NoSchema bool

	// Timeout ends one attempt, answer included. Default 60 s, of an Embedder 10 s.
	Timeout time.Duration
	// Attempts per prompt, the first included. Default 6.
	Attempts int
	// Backoff is the first pause between attempts; it doubles up to 16 times. Default 500 ms.
	Backoff time.Duration
	// MaxWait is the longest pause that a server may ask for with Retry-After; for a longer one the call ends with a
	// *chat.UnavailableError that says how long. Default 30 s.
	MaxWait time.Duration
	// RetryShare is how many retries there may be per call in the long run, so that a struggling server is not asked
	// four times as much. Default 0.2.
	RetryShare float64

	// MaxConcurrent requests at a time; others wait. Default 8.
	MaxConcurrent int
	// RequestsPerMinute and TokensPerMinute are the server's limits; 0 is none.
	RequestsPerMinute int
	TokensPerMinute   int

	// BreakAfter failures within twice as many attempts stop all calls for Cooldown; then one call probes. Defaults 10
	// and 15 s.
	BreakAfter int
	Cooldown   time.Duration

	// InputPrice and OutputPrice are US dollars per million tokens; 0 when unknown.
	InputPrice  float64
	OutputPrice float64
}

// WithDefaults is a copy with every zero replaced by its default.
func (c Config) WithDefaults() Config {
	c.BaseURL = strings.TrimRight(strings.TrimSpace(cmp.Or(c.BaseURL, "https://api.openai.com/v1")), "/")
	c.APIKey = Secret(strings.TrimSpace(string(c.APIKey))) // keys from files end in a line break
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.Attempts = cmp.Or(c.Attempts, 6)
	c.Backoff = cmp.Or(c.Backoff, 500*time.Millisecond)
	c.MaxWait = cmp.Or(c.MaxWait, 30*time.Second)
	c.RetryShare = cmp.Or(c.RetryShare, 0.2)
	c.MaxConcurrent = cmp.Or(c.MaxConcurrent, 8)
	c.BreakAfter = cmp.Or(c.BreakAfter, 10)
	c.Cooldown = cmp.Or(c.Cooldown, 15*time.Second)
	return c
}

// settings are the names by which a person sets a Config, for errors that say what to change.
type settings struct {
	prefix string // of the flags
	key    string // the environment variable of the key
}

var (
	chatSettings  = settings{"", "OPENAI_API_KEY"}
	embedSettings = settings{"embed-", "DEBRIEF_EMBED_API_KEY"}
)

func (s settings) flag(name string) string { return "--" + s.prefix + name }

// Validate says everything that is wrong with c, each with its flag. Defaults are not filled in.
func (c Config) Validate() error { return c.validate(chatSettings) }

func (c Config) validate(s settings) error {
	var errs []error
	wrong := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{s.flag(flag)}, args...)...))
	}
	atLeast := func(flag string, got, least int) {
		if got < least {
			wrong(flag, "must be at least %d, got %d", least, got)
		}
	}
	positive := func(flag string, d time.Duration) {
		if d <= 0 {
			wrong(flag, "must be more than 0, got %v", d)
		}
	}
	within := func(flag string, got, low, high float64) {
		if !(got >= low && got <= high) { // also NaN
			wrong(flag, "must be between %v and %v, got %v", low, high, got)
		}
	}

	// What stands where a password would is not shown, nor is the parser's error, which shows it.
	switch u, err := url.Parse(c.BaseURL); {
	case c.BaseURL == "":
		wrong("base-url", "is empty")
	case err != nil:
		wrong("base-url", "is no URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		wrong("base-url", "must not hold a user, a query or a fragment; the key belongs in %s", s.flag("api-key"))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		wrong("base-url", "must be like http://host/v1, got %q", c.BaseURL)
	}
	if strings.ContainsFunc(string(c.APIKey), func(r rune) bool { return r <= ' ' || r > '~' }) {
		wrong("api-key", "holds blanks or other characters that no key has")
	}
	if strings.TrimSpace(c.Model) == "" {
		wrong("model", "is empty")
	}
	within("temperature", c.Temperature, 0, 2)
	atLeast("max-tokens", c.MaxTokens, 0)
	positive("timeout", c.Timeout)
	atLeast("attempts", c.Attempts, 1)
	positive("backoff", c.Backoff)
	positive("max-wait", c.MaxWait)
	within("retry-share", c.RetryShare, 0, 1)
	atLeast("max-concurrent", c.MaxConcurrent, 1)
	atLeast("requests-per-minute", c.RequestsPerMinute, 0)
	atLeast("tokens-per-minute", c.TokensPerMinute, 0)
	atLeast("break-after", c.BreakAfter, 1)
	positive("cooldown", c.Cooldown)
	within("input-price", c.InputPrice, 0, math.MaxFloat64)
	within("output-price", c.OutputPrice, 0, math.MaxFloat64)
	return errors.Join(errs...)
}

// Secret is a text that no way of printing shows. Only a conversion to string does.
type Secret string

const hidden = "[hidden]"

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// Format covers the verbs that do not ask for String, such as %d.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText covers JSON, YAML and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
