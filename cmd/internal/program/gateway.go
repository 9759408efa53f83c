package program

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"debrief/events/chat/openai"
)

// Gateway contains the flags of programs that serve the gateway: the HTTP server for agents and people.
type Gateway struct {
	HTTP    string `name:"http" help:"Address of the gateway; 'auto' is 127.0.0.1:4280 or a free port, or 'none'." default:"auto" placeholder:"HOST:PORT" group:"Gateway"`
	Tokens  string `help:"File with tokens, written by 'debrief token new'; required beyond loopback." type:"path" placeholder:"FILE" group:"Gateway"`
	TLSCert string `name:"tls-cert" help:"File with the certificate chain of the gateway, for HTTPS; a changed file is read again." type:"path" placeholder:"FILE" group:"Gateway" rare:""`
	TLSKey  string `name:"tls-key" help:"File with the private key of --tls-cert." type:"path" placeholder:"FILE" group:"Gateway" rare:""`

	OTLPListen string `name:"otlp-listen" help:"Another address for traces over OTLP/HTTP, such as 127.0.0.1:4318, or 'none'." default:"none" placeholder:"HOST:PORT" group:"Gateway" rare:""`

	UpstreamOpenAI       string        `name:"upstream-openai" help:"URL of the OpenAI-compatible server behind the gateway." placeholder:"URL" group:"Gateway"`
	UpstreamOpenAIKey    openai.Secret `name:"upstream-openai-key" help:"Its key, for agents that send none." placeholder:"KEY" secret:"" group:"Gateway" rare:""`
	UpstreamAnthropic    string        `name:"upstream-anthropic" help:"URL of the Anthropic-compatible server behind the gateway." placeholder:"URL" group:"Gateway" rare:""`
	UpstreamAnthropicKey openai.Secret `name:"upstream-anthropic-key" help:"Its key, for agents that send none." placeholder:"KEY" secret:"" group:"Gateway" rare:""`

	UpstreamOpenAIKeyFile    string `name:"upstream-openai-key-file" help:"File with the key of --upstream-openai." type:"path" placeholder:"FILE" instead:"upstream-openai-key" group:"Gateway" rare:""`
	UpstreamAnthropicKeyFile string `name:"upstream-anthropic-key-file" help:"File with the key of --upstream-anthropic." type:"path" placeholder:"FILE" instead:"upstream-anthropic-key" group:"Gateway" rare:""`

	GatewayMode   string        `name:"gateway-mode" help:"Place of advice in calls of agents: tail (user's message), system, observe (none, capture only) or off." default:"tail" enum:"tail,system,observe,off" placeholder:"MODE" group:"Gateway"`
	AdviceTimeout time.Duration `name:"advice-timeout" help:"Time limit of advice; after it a call passes unchanged." default:"150ms" group:"Gateway" rare:""`
	RunIdle       time.Duration `name:"run-idle" help:"Report a run after this time without a call." default:"10m" group:"Gateway" rare:""`
}

// Keys returns the keys of the gateway for OpenAI and Anthropic. It reads the files that contain them.
func (g Gateway) Keys() (openAI, anthropic string, err error) {
	openAI, err = secret("--upstream-openai-key", string(g.UpstreamOpenAIKey), "--upstream-openai-key-file", g.UpstreamOpenAIKeyFile)
	if err == nil {
		anthropic, err = secret("--upstream-anthropic-key", string(g.UpstreamAnthropicKey), "--upstream-anthropic-key-file", g.UpstreamAnthropicKeyFile)
	}
	return openAI, anthropic, err
}

// Check returns an error for each invalid setting.
func (g Gateway) Check() error {
	_, _, err := g.Keys()
	_, certErr := g.TLS(zerolog.Nop())
	err = errors.Join(err, certErr)
	if g.AdviceTimeout < time.Millisecond {
		err = errors.Join(err, Exit(ExitUsage, fmt.Errorf("--advice-timeout: must be at least 1ms, got %s", g.AdviceTimeout)))
	}
	if g.RunIdle < time.Second {
		err = errors.Join(err, Exit(ExitUsage, fmt.Errorf("--run-idle: must be at least 1s, got %s", g.RunIdle)))
	}
	return err
}

// certificateInterval is the minimum time between two checks whether the files of a certificate have changed.
const certificateInterval = time.Second

// certificate is the certificate of the gateway. It reads its files again after a change, so that a renewal needs no restart.
type certificate struct {
	files [2]string // of the chain and of the key, in PEM
	log   zerolog.Logger
	now   func() time.Time

	mu      sync.Mutex
	pair    *tls.Certificate
	data    [2][]byte // of the files; nil for one that cannot be read
	checked time.Time
}

// TLS returns the configuration of HTTPS, or nil without a certificate. Its error names the setting.
func (g Gateway) TLS(log zerolog.Logger) (*tls.Config, error) {
	switch {
	case g.TLSCert == "" && g.TLSKey == "":
		return nil, nil
	case g.TLSKey == "":
		return nil, Exit(ExitUsage, errors.New("--tls-key: required with --tls-cert"))
	case g.TLSCert == "":
		return nil, Exit(ExitUsage, errors.New("--tls-cert: required with --tls-key"))
	}
	c := &certificate{files: [2]string{g.TLSCert, g.TLSKey}, log: log, now: time.Now}
	if err := c.read(); err != nil {
		return nil, Exit(ExitUsage, err)
	}
	c.checked = c.now()
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

// get implements tls.Config.GetCertificate. If the changed files are invalid, such as between the writes of both, it returns the
// certificate from before.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.checked) >= certificateInterval {
		c.checked = now
		if err := c.read(); err != nil {
			c.log.Error().Err(err).Msg("read the changed certificate, the earlier one stays in use")
		}
	}
	return c.pair, nil
}

// read reads the files. It returns a problem once for each change.
func (c *certificate) read() error {
	var data [2][]byte
	var errs [2]error
	for i, setting := range []string{"--tls-cert", "--tls-key"} {
		var err error
		if data[i], err = os.ReadFile(c.files[i]); err != nil {
			data[i], errs[i] = nil, fmt.Errorf("%s: %w", setting, err)
		}
	}
	if c.pair != nil && bytes.Equal(data[0], c.data[0]) && bytes.Equal(data[1], c.data[1]) {
		return nil
	}
	c.data = data
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(data[0], data[1])
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.files[0], c.files[1], err)
	}
	c.pair = &pair
	return nil
}
