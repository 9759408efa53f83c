package app

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"debrief/cmd/internal/llm"
	"debrief/events"
	"debrief/events/chat"
)

// Model are the flags of who asks a model.
type Model struct {
	Model          string `help:"Model to ask, for example gpt-4o-mini." placeholder:"NAME" env:"DEBRIEF_MODEL,OPENAI_MODEL" group:"Model"`
	GeneratorModel string `help:"Model of the generator, if not --model." placeholder:"NAME" group:"Model"`
	ReflectorModel string `help:"Model of the reflector, if not --model." placeholder:"NAME" group:"Model"`
	CuratorModel   string `help:"Model of the curator, if not --model." placeholder:"NAME" group:"Model"`

	BaseURL    string     `help:"OpenAI-compatible server, up to /v1. Default: OpenAI's own." placeholder:"URL" env:"DEBRIEF_BASE_URL,OPENAI_BASE_URL" group:"Model"`
	APIKey     llm.Secret `help:"Key of the server. Better in OPENAI_API_KEY: other users of this machine see flags." placeholder:"KEY" env:"DEBRIEF_API_KEY,OPENAI_API_KEY" group:"Model"`
	APIKeyFile string     `help:"File that holds the key." type:"path" placeholder:"FILE" group:"Model"`

	Temperature       float64       `help:"Temperature of every request." default:"0" group:"Model"`
	MaxTokens         int           `help:"Most tokens of a reply; 0 leaves it to the server." default:"0" group:"Model"`
	Timeout           time.Duration `help:"Longest wait for one reply." default:"60s" group:"Model"`
	MaxConcurrent     int           `help:"Requests of one role at the same time." default:"16" group:"Model"`
	RequestsPerMinute int           `help:"Rate limit of the server; 0 is none." default:"0" group:"Model"`
	TokensPerMinute   int           `help:"Token limit of the server; 0 is none." default:"0" group:"Model"`
	Stream            bool          `help:"Read replies as they are made." group:"Model"`
	NoSchema          bool          `help:"Never ask for structured output." group:"Model"`
	InputPrice        float64       `help:"US dollars per million tokens read, for the costs in reports." default:"0" group:"Model"`
	OutputPrice       float64       `help:"US dollars per million tokens written." default:"0" group:"Model"`
}

// Named reports whether a model was asked for.
func (m Model) Named() bool {
	return m.Model != "" || m.GeneratorModel != "" || m.ReflectorModel != "" || m.CuratorModel != ""
}

// Client is the client of one role's model.
func (m Model) Client(role string) (*llm.Client, error) {
	key := m.APIKey
	if m.APIKeyFile != "" {
		text, err := os.ReadFile(m.APIKeyFile)
		if err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("--api-key-file: %w", err))
		}
		key = llm.Secret(strings.TrimSpace(string(text)))
	}
	if key == "" && m.BaseURL == "" {
		return nil, Exit(ExitUsage, fmt.Errorf("model of the %s: OpenAI wants a key: set OPENAI_API_KEY, or name another server with --base-url", role))
	}
	client, err := llm.New(llm.Config{
		BaseURL: m.BaseURL, APIKey: key, Model: m.own(role), Temperature: m.Temperature, MaxTokens: m.MaxTokens,
		Timeout: m.Timeout, MaxConcurrent: m.MaxConcurrent, RequestsPerMinute: m.RequestsPerMinute,
		TokensPerMinute: m.TokensPerMinute, Stream: m.Stream, NoSchema: m.NoSchema,
		InputPrice: m.InputPrice, OutputPrice: m.OutputPrice,
	})
	if err != nil {
		return nil, Exit(ExitUsage, fmt.Errorf("model of the %s: %w", role, err))
	}
	return client, nil
}

// Optional is the client of one role's model, nil when no model is named: the role then works without one.
func (m Model) Optional(role string) (chat.Model, error) {
	if m.own(role) == "" {
		return nil, nil
	}
	return m.Client(role)
}

func (m Model) own(role string) string {
	own := map[string]string{
		events.RoleGenerator: m.GeneratorModel, events.RoleReflector: m.ReflectorModel, events.RoleCurator: m.CuratorModel,
	}[role]
	return cmp.Or(own, m.Model)
}
