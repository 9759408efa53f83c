package app

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"time"

	"debrief/cmd/internal/llm"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"
)

// Model are the flags of who asks a model.
type Model struct {
	Model          string `help:"Model to ask, for example gpt-4o-mini." placeholder:"NAME" env:"DEBRIEF_MODEL,OPENAI_MODEL" group:"Model"`
	GeneratorModel string `help:"Model of the generator, if not --model." placeholder:"NAME" group:"Model"`
	ReflectorModel string `help:"Model of the reflector, if not --model." placeholder:"NAME" group:"Model"`
	CuratorModel   string `help:"Model of the curator, if not --model." placeholder:"NAME" group:"Model"`

	BaseURL    string     `help:"OpenAI-compatible server, up to /v1. Default: OpenAI's own." placeholder:"URL" env:"DEBRIEF_BASE_URL,OPENAI_BASE_URL" group:"Model"`
	APIKey     llm.Secret `help:"Key of the server. Better in OPENAI_API_KEY: other users of this machine see flags." placeholder:"KEY" env:"DEBRIEF_API_KEY,OPENAI_API_KEY" group:"Model" secret:""`
	APIKeyFile string     `help:"File that holds the key." type:"path" placeholder:"FILE" group:"Model" instead:"api-key"`

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
	key, err := m.key()
	if err != nil {
		return nil, err
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

func (m Model) key() (llm.Secret, error) {
	key, err := secret("--api-key", string(m.APIKey), "--api-key-file", m.APIKeyFile)
	return llm.Secret(key), err
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

// Embedding are the flags of who turns texts into vectors.
type Embedding struct {
	EmbedModel      string        `help:"Model that embeds, for example text-embedding-3-small. Without one, texts are found by their words." placeholder:"NAME" group:"Embedding"`
	EmbedBaseURL    string        `help:"Its server, up to /v1, if not --base-url." placeholder:"URL" group:"Embedding"`
	EmbedAPIKey     llm.Secret    `help:"Key of that server. Default: that of --base-url, where the server is the same." placeholder:"KEY" group:"Embedding" secret:""`
	EmbedTimeout    time.Duration `help:"Longest wait for the vectors of one batch of texts." default:"10s" group:"Embedding"`
	EmbedInputPrice float64       `help:"US dollars per million tokens embedded, for the costs in reports." default:"0" group:"Embedding"`
}

// Embedder is the client of the model that embeds, nil when none is named. What is not said of its server is as for m.
func (e Embedding) Embedder(m Model) (generator.Embedder, error) {
	if e.EmbedModel == "" {
		return nil, nil
	}
	base, key := cmp.Or(e.EmbedBaseURL, m.BaseURL), e.EmbedAPIKey
	if key == "" && server(base) == server(m.BaseURL) { // a key is nobody's business but its own server's
		var err error
		if key, err = m.key(); err != nil {
			return nil, err
		}
	}
	if key == "" && base == "" {
		return nil, Exit(ExitUsage, errors.New("--embed-model: OpenAI wants a key: set OPENAI_API_KEY or --embed-api-key, or name another server with --embed-base-url"))
	}
	embedder, err := llm.NewEmbedder(llm.Config{
		BaseURL: base, APIKey: key, Model: e.EmbedModel, Timeout: e.EmbedTimeout, InputPrice: e.EmbedInputPrice,
	})
	if err != nil {
		return nil, Exit(ExitUsage, err)
	}
	return embedder, nil
}

// server is an address without its path, "" of what is no address.
func server(address string) string {
	u, err := url.Parse(llm.Config{BaseURL: address}.WithDefaults().BaseURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
