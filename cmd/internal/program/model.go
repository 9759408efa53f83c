package program

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/events/chat/openai"
	"debrief/events/config"
	"debrief/events/redact"
	"debrief/generator"
	"debrief/generator/scoring"
)

// Model contains the flags of programs that use a model.
type Model struct {
	Model          string `name:"model" help:"Name of the model, for example gpt-4o-mini." placeholder:"NAME" env:"DEBRIEF_MODEL,OPENAI_MODEL" group:"Model"`
	GeneratorModel string `name:"generator-model" help:"Model of the generator. Default: --model." placeholder:"NAME" group:"Model" rare:""`
	ReflectorModel string `name:"reflector-model" help:"Model of the reflector. Default: --model." placeholder:"NAME" group:"Model" rare:""`
	CuratorModel   string `name:"curator-model" help:"Model of the curator. Default: --model." placeholder:"NAME" group:"Model" rare:""`
	JudgeModel     string `name:"judge-model" help:"Model of the evaluator judge. Default: that of the generator." placeholder:"NAME" group:"Model" rare:""`

	BaseURL    string        `name:"base-url" help:"URL of an OpenAI-compatible server, up to /v1. Default: OpenAI." placeholder:"URL" env:"DEBRIEF_BASE_URL,OPENAI_BASE_URL" group:"Model"`
	APIKey     openai.Secret `name:"api-key" help:"API key. Prefer OPENAI_API_KEY: other users of this machine can see flags." placeholder:"KEY" env:"DEBRIEF_API_KEY,OPENAI_API_KEY" group:"Model" secret:""`
	APIKeyFile string        `name:"api-key-file" help:"File with the API key." type:"path" placeholder:"FILE" group:"Model" instead:"api-key" rare:""`

	Temperature   float64       `name:"temperature" help:"Temperature of every request." default:"0" group:"Model" rare:""`
	MaxTokens     int           `name:"max-tokens" help:"Maximum tokens of a reply; 0 uses the server's default." default:"0" group:"Model" rare:""`
	Timeout       time.Duration `name:"timeout" help:"Timeout of one request. Default: 1m, or 10m for an http:// server." group:"Model" rare:""`
	MaxConcurrent int           `name:"max-concurrent" help:"Maximum of concurrent requests to a model; the number adapts to the server." group:"Model" rare:""`
	NoSchema      bool          `name:"no-schema" help:"Never request structured output." group:"Model" rare:""`
	InputPrice    float64       `name:"input-price" help:"US dollars per million input tokens, for the costs in reports." default:"0" group:"Model" rare:""`
	OutputPrice   float64       `name:"output-price" help:"US dollars per million output tokens." default:"0" group:"Model" rare:""`

	attempts int      // of each request; 0 selects the default
	clients  *clients // nil: each role has its own limits
}

// clients has the first client of each model, by the name of the model.
type clients struct {
	mu      sync.Mutex
	byModel map[string]*openai.Client
}

// share returns a client that shares the limits of the first client of the model. If there is none yet, it returns created, which becomes
// the first.
func (c *clients) share(created *openai.Client, model string) *openai.Client {
	if c == nil {
		return created
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared := c.byModel[model]; shared != nil {
		return shared.Share()
	}
	c.byModel[model] = created
	return created
}

// ForCheck returns the settings of a client that retries once only, so that a check ends soon.
func (m Model) ForCheck() Model {
	m.attempts = 2
	return m
}

// SetDefaults sets the defaults of the library, but not the timeout: its default depends on the server.
func (m *Model) SetDefaults() {
	m.MaxConcurrent = openai.Config{}.WithDefaults().MaxConcurrent
	m.clients = &clients{byModel: make(map[string]*openai.Client)}
}

// fieldName returns the setting for a field of the client's configuration. Hints in errors of the model's server name it.
func (m Model) fieldName(field string) string {
	if field == "APIKey" {
		return "OPENAI_API_KEY"
	}
	return flagOf(m, field)
}

// Named reports whether any model is set.
func (m Model) Named() bool {
	return m.Model != "" || m.GeneratorModel != "" || m.ReflectorModel != "" || m.CuratorModel != "" || m.JudgeModel != ""
}

// Client returns the client of a role's model. Roles with the same model share its limits.
func (m Model) Client(role string) (*openai.Client, error) {
	key, err := m.Key()
	if err != nil {
		return nil, err
	}
	if key == "" && m.BaseURL == "" {
		return nil, Exit(ExitUsage, fmt.Errorf("model of the %s: OpenAI requires a key: set OPENAI_API_KEY, or choose another server with --base-url", role))
	}
	cfg := openai.Config{FieldName: m.fieldName, Attempts: m.attempts}
	copyFields(&cfg, m)
	cfg.Model, cfg.APIKey = m.NameOf(role), key
	client, err := openai.New(cfg)
	if err != nil {
		return nil, Exit(ExitUsage, FlagErrors(err, m))
	}
	return m.clients.share(client, cfg.Model), nil
}

// Key returns the API key, or "". It reads the file of --api-key-file.
func (m Model) Key() (openai.Secret, error) {
	key, err := ReadSecret("--api-key", string(m.APIKey), "--api-key-file", m.APIKeyFile)
	return openai.Secret(key), err
}

// OptionalClient returns the client of a role's model, or nil if no model is set. The role then works without a model.
func (m Model) OptionalClient(role string) (chat.Model, error) {
	if m.NameOf(role) == "" {
		return nil, nil
	}
	return m.Client(role)
}

// Judge returns the client of the model of the evaluator judge, or nil if the judge uses the model of the generator.
func (m Model) Judge() (chat.Model, error) {
	if m.JudgeModel == "" {
		return nil, nil
	}
	return m.Client(scoring.ByJudge)
}

// NameOf returns the name of a role's model, or "" if none is set.
func (m Model) NameOf(role string) string {
	own := map[string]string{
		events.RoleGenerator: m.GeneratorModel, events.RoleReflector: m.ReflectorModel, events.RoleCurator: m.CuratorModel,
		scoring.ByJudge: m.JudgeModel,
	}[role]
	return cmp.Or(own, m.Model)
}

// Describe returns the name and the server of a role's model, for people.
func (m Model) Describe(role string) string {
	name := m.NameOf(role)
	if name == "" {
		return "no model"
	}
	return fmt.Sprintf("model %s at %s", name, redact.Address(openai.Config{BaseURL: m.BaseURL}.WithDefaults().BaseURL))
}

// Embedding contains the flags of programs that use embeddings.
type Embedding struct {
	EmbedModel      string        `name:"embed-model" help:"Embedding model, for example text-embedding-3-small. Without one, search is lexical." placeholder:"NAME" group:"Embedding"`
	EmbedBaseURL    string        `name:"embed-base-url" help:"URL of the embedding server, up to /v1. Default: --base-url." placeholder:"URL" group:"Embedding" rare:""`
	EmbedAPIKey     openai.Secret `name:"embed-api-key" help:"API key of the embedding server. Default: --api-key, if the server is the same." placeholder:"KEY" group:"Embedding" secret:"" rare:""`
	EmbedTimeout    time.Duration `name:"embed-timeout" help:"Timeout of one request." group:"Embedding" rare:""`
	EmbedInputPrice float64       `name:"embed-input-price" help:"US dollars per million embedded tokens, for the costs in reports." default:"0" group:"Embedding" rare:""`
}

func (e *Embedding) SetDefaults() { e.EmbedTimeout = openai.Config{}.EmbedderDefaults().Timeout }

// fieldName returns the setting for a field of the client's configuration. Hints in errors of the embedding server name it.
func (e Embedding) fieldName(field string) string {
	if field == "APIKey" {
		return "DEBRIEF_EMBED_API_KEY"
	}
	return flagOf(e, "Embed"+field)
}

// Embedder returns the client of the embedding model, or nil if none is set. Without --embed-base-url it uses the server of m. Without
// --embed-api-key it uses the key of m, if both have the same server.
func (e Embedding) Embedder(m Model) (generator.Embedder, error) {
	if e.EmbedModel == "" {
		return nil, nil
	}
	base := cmp.Or(e.EmbedBaseURL, m.BaseURL)
	key := e.EmbedAPIKey
	if key == "" && origin(base) == origin(m.BaseURL) { // never send a key to another server
		var err error
		if key, err = m.Key(); err != nil {
			return nil, err
		}
	}
	if key == "" && base == "" {
		return nil, Exit(ExitUsage, errors.New("--embed-model: OpenAI requires a key: set OPENAI_API_KEY or --embed-api-key, or choose another server with --embed-base-url"))
	}
	embedder, err := openai.NewEmbedder(openai.Config{
		BaseURL: base, APIKey: key, Model: e.EmbedModel, Timeout: e.EmbedTimeout, InputPrice: e.EmbedInputPrice, FieldName: e.fieldName,
	})
	if err != nil {
		return nil, Exit(ExitUsage, config.Rename(err, func(field string) string { return flagOf(e, "Embed"+field) }))
	}
	return embedder, nil
}

// origin returns the scheme and host of the base URL of a server, or "" if it is invalid. An empty address is OpenAI's.
func origin(address string) string {
	u, err := url.Parse(openai.Config{BaseURL: address}.WithDefaults().BaseURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
