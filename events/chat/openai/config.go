package openai

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"time"

	"debrief/events/config"
)

// Config contains the model, the server and the limits of a client. The zero value with a Model is a usable client of
// OpenAI's server. An Embedder ignores the fields about replies: Temperature, MaxTokens, NoSchema and OutputPrice.
type Config struct {
	// BaseURL is the server's address including /v1.
	BaseURL string
	// APIKey may be empty, because local servers need none.
	APIKey Secret
	Model  string

	// Temperature is always sent, even if 0, except to models that refuse it.
	Temperature float64
	// MaxTokens limits the reply to a prompt without its own limit. 0 uses the server's default.
	MaxTokens int
	// NoSchema never sends response_format. Otherwise the first refusal of it disables it.
	NoSchema bool

	// Timeout limits one attempt, including reading the response. The default is 60 s, 10 minutes for an http:// server, and 10 s for an
	// Embedder. A server without TLS is a local one, and models on laptops need minutes.
	Timeout time.Duration
	// Attempts is the number of attempts for each prompt, including the first. The default is 6.
	Attempts int
	// Backoff is the first pause between attempts. It doubles up to 16 times this value. The default is 500 ms.
	Backoff time.Duration

	// MaxConcurrent is the maximum number of concurrent requests, over all clients that share the model. Further calls wait. The number adapts
	// to the server: it begins with 2 for an http:// server, and with the maximum for others. The default is 16.
	MaxConcurrent int

	// BreakerThreshold is the number of failures, within twice as many attempts, that opens the circuit breaker. An open breaker
	// rejects all calls for BreakerCooldown, and then lets one probe through. The defaults are 10 and 15 s.
	BreakerThreshold int
	BreakerCooldown  time.Duration

	// InputPrice and OutputPrice are US dollars per million tokens; 0 if unknown.
	InputPrice  float64
	OutputPrice float64

	// FieldName returns the name of a field for the hints in errors of the server, such as "check Model". A program returns
	// the names of its settings. Nil selects the names of the fields.
	FieldName func(field string) string `json:"-"`
}

// EmbedderDefaults returns the configuration with the defaults of an Embedder in place of zero fields.
func (c Config) EmbedderDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	return c.WithDefaults()
}

// WithDefaults returns the configuration with the defaults of a Client in place of zero fields.
func (c Config) WithDefaults() Config {
	c.BaseURL = strings.TrimRight(strings.TrimSpace(cmp.Or(c.BaseURL, "https://api.openai.com/v1")), "/")
	c.APIKey = Secret(strings.TrimSpace(string(c.APIKey))) // key files often end with a newline
	if c.Timeout == 0 && c.isLocal() {
		c.Timeout = 10 * time.Minute
	}
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.Attempts = cmp.Or(c.Attempts, 6)
	c.Backoff = cmp.Or(c.Backoff, 500*time.Millisecond)
	c.MaxConcurrent = cmp.Or(c.MaxConcurrent, 16)
	c.BreakerThreshold = cmp.Or(c.BreakerThreshold, 10)
	c.BreakerCooldown = cmp.Or(c.BreakerCooldown, 15*time.Second)
	return c
}

// isLocal reports whether the server is on this machine or in its network: providers require TLS.
func (c Config) isLocal() bool { return strings.HasPrefix(c.BaseURL, "http://") }

// name returns the name of a field for texts.
func (c Config) name(field string) string {
	if c.FieldName == nil {
		return field
	}
	return c.FieldName(field)
}

// Validate returns all invalid fields, joined. It fills in no defaults, because they are not the same for a Client and an
// Embedder: both constructors fill them in and validate. No error contains the key.
func (c Config) Validate() error {
	var e config.Errors
	positive := func(field string, d time.Duration) {
		if d <= 0 {
			e.Add(field, "must be more than 0, got %v", d)
		}
	}
	within := func(field string, got, low, high float64) {
		if !(got >= low && got <= high) { // also NaN
			e.Add(field, "must be between %v and %v, got %v", low, high, got)
		}
	}

	// The errors quote neither the URL nor the parser's error, because both may contain a password.
	switch u, err := url.Parse(c.BaseURL); {
	case c.BaseURL == "":
		e.Add("BaseURL", "is empty")
	case err != nil:
		e.Add("BaseURL", "invalid URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		e.Add("BaseURL", "must not contain a user, a query or a fragment; set the key with %s", c.name("APIKey"))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		e.Add("BaseURL", "must be like http://host/v1, got %q", c.BaseURL)
	}
	if strings.ContainsFunc(string(c.APIKey), func(r rune) bool { return r <= ' ' || r > '~' }) {
		e.Add("APIKey", "must not contain blanks, control or non-ASCII characters")
	}
	if strings.TrimSpace(c.Model) == "" {
		e.Add("Model", "is empty")
	}
	within("Temperature", c.Temperature, 0, 2)
	config.AtLeast(&e, "MaxTokens", c.MaxTokens, 0)
	positive("Timeout", c.Timeout)
	config.AtLeast(&e, "Attempts", c.Attempts, 1)
	positive("Backoff", c.Backoff)
	config.AtLeast(&e, "MaxConcurrent", c.MaxConcurrent, 1)
	config.AtLeast(&e, "BreakerThreshold", c.BreakerThreshold, 1)
	positive("BreakerCooldown", c.BreakerCooldown)
	within("InputPrice", c.InputPrice, 0, math.MaxFloat64)
	within("OutputPrice", c.OutputPrice, 0, math.MaxFloat64)
	return e.Join()
}

// Secret is a text that is hidden when printed or marshalled. Only a conversion to string returns it.
type Secret string

const hiddenText = "[hidden]"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hiddenText
}

// Format implements fmt.Formatter for the verbs that do not call String, such as %d.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText implements encoding.TextMarshaler, for JSON, YAML and others.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
