package program

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
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
	openAI, err = ReadSecret("--upstream-openai-key", string(g.UpstreamOpenAIKey), "--upstream-openai-key-file", g.UpstreamOpenAIKeyFile)
	if err == nil {
		anthropic, err = ReadSecret("--upstream-anthropic-key", string(g.UpstreamAnthropicKey), "--upstream-anthropic-key-file", g.UpstreamAnthropicKeyFile)
	}
	return openAI, anthropic, err
}

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
	var last atomic.Pointer[tls.Certificate] // the last pair that loaded: a renewal replaces one of the two files first
	var isLogged atomic.Bool
	read := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { // for each connection, so that a renewal needs no restart
		pair, err := tls.LoadX509KeyPair(g.TLSCert, g.TLSKey)
		switch {
		case err == nil:
			last.Store(&pair)
			isLogged.Store(false)
		case last.Load() == nil:
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		case !isLogged.Swap(true):
			log.Error().Err(err).Msg("read the changed certificate: the earlier one stays in use")
		}
		return last.Load(), nil
	}
	if _, err := read(nil); err != nil {
		return nil, Exit(ExitUsage, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: read}, nil
}
