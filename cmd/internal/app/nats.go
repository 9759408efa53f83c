package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/events/bus"
)

// DefaultURL is where a server is looked for, and where 'debrief up' listens.
const DefaultURL = "nats://127.0.0.1:4222"

// NATS are the flags of who connects to a server.
type NATS struct {
	NATS     string `name:"nats" help:"Server to connect to; several with commas. Default: nats://127.0.0.1:4222." placeholder:"URL" env:"DEBRIEF_NATS,NATS_URL"`
	Creds    string `help:"Credentials file of a NATS user." type:"path" placeholder:"FILE"`
	User     string `help:"User, where the server wants one." placeholder:"NAME"`
	Password string `help:"Password of the user. Better in DEBRIEF_PASSWORD: other users of this machine see flags." placeholder:"TEXT"`
	Token    string `help:"Token, where the server wants one. Better in DEBRIEF_TOKEN." placeholder:"TEXT"`
	CA       string `name:"ca" help:"Certificate authority of the server." type:"path" placeholder:"FILE"`
	Replicas int    `help:"Replicas of streams that are created: 1, or 3 on a cluster." default:"1"`

	AckWait time.Duration `help:"After this long without a sign of life from its worker, work goes to another one. The same for all programs of a server." default:"30s"`
}

// Dial connects. What cannot be reached ends the program with its own exit code and one line.
func (n NATS) Dial(name string, log zerolog.Logger) (*nats.Conn, error) {
	url := cmp.Or(n.NATS, DefaultURL)
	opts := append(Options(name, log), nats.Timeout(3*time.Second))
	if n.Creds != "" {
		if _, err := os.Stat(n.Creds); err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("--creds: %w", err))
		}
		opts = append(opts, nats.UserCredentials(n.Creds))
	}
	if n.User != "" {
		opts = append(opts, nats.UserInfo(n.User, n.Password))
	}
	if n.Token != "" {
		opts = append(opts, nats.Token(n.Token))
	}
	if n.CA != "" {
		opts = append(opts, nats.RootCAs(n.CA))
	}
	nc, err := nats.Connect(url, opts...)
	switch {
	case err == nil:
		return nc, nil
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return nil, Exit(ExitRefused, fmt.Errorf("the server at %s refused the credentials: check --creds, --user or --token", redact(url)))
	}
	if errors.Is(err, nats.ErrNoServers) {
		return nil, Exit(ExitUnreachable, fmt.Errorf("no server answers at %s: start one with 'debrief up', or name one with --nats", redact(url)))
	}
	return nil, Exit(ExitUnreachable, fmt.Errorf("no server answers at %s (%w): start one with 'debrief up', or name one with --nats", redact(url), err))
}

// redact keeps a password in an address out of messages.
func redact(url string) string {
	if at := lastIndex(url, '@'); at >= 0 {
		return "nats://…" + url[at:]
	}
	return url
}

func lastIndex(s string, c byte) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == c {
			return i
		}
	}
	return -1
}

// Options of every connection: it comes back by itself, and what the server refuses is logged at once, because to
// the caller a refused publish looks like a time-out.
func Options(name string, log zerolog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 250*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			event := log.Error().Err(err)
			if sub != nil {
				event = event.Str("subject", sub.Subject)
			}
			event.Msg("nats")
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn().Err(err).Msg("disconnected from the server")
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Warn().Str("server", nc.ConnectedUrlRedacted()).Msg("connected again") }),
	}
}

// Open opens the streams behind a connection.
func (n NATS) Open(ctx context.Context, nc *nats.Conn, log zerolog.Logger) (*bus.Conn, error) {
	if n.AckWait != 0 && n.AckWait < time.Second {
		return nil, Exit(ExitUsage, fmt.Errorf("--ack-wait: must be at least 1s, got %s", n.AckWait))
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	conn, err := bus.Open(ctx, nc, bus.Options{Policy: bus.Policy{AckWait: n.AckWait}, Replicas: n.Replicas, Log: log})
	if err != nil {
		return nil, Exit(ExitUnreachable, err)
	}
	return conn, nil
}
