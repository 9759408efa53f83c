package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"debrief/cmd/internal/metrics"
	"debrief/curator"
	"debrief/events/bus"
	"debrief/events/redact"
	"debrief/events/service"
	"debrief/generator"
	"debrief/reflector"
)

// Generator, Reflector and Curator are the flags of the roles.
type (
	Generator struct {
		generator.Config `embed:""`

		GeneratorPrompt string `name:"generator-prompt" help:"File with what the generator's model is told before the playbook, in place of the built-in instructions; the form of the answer is asked for all the same." type:"path" placeholder:"FILE"`
	}
	// Serving says whether a generator does nothing but serve.
	Serving struct {
		ServeOnly bool `help:"Answer no tasks: serve contexts to agents that call their own model."`
	}
	Reflector struct {
		reflector.Config `embed:""`

		ReflectorPrompt string `name:"reflector-prompt" help:"File with what the reflector's model is told to look for, in place of the built-in instructions; the form of the answer is asked for all the same." type:"path" placeholder:"FILE"`
	}
	Curator struct {
		curator.Config `embed:""`

		CacheDir string `name:"cache-dir" help:"Directory for the index of covered ids: 16 bytes per id, built again from the log when it is missing; 'none' keeps it in memory. Default: the user's cache directory; of 'up', a folder of --data." placeholder:"DIR"`
	}
)

// Settings are the generator's configuration with the instructions that the flag names.
func (g Generator) Settings() (cfg generator.Config, err error) {
	cfg = g.Config
	cfg.Instructions, err = instructions("--generator-prompt", g.GeneratorPrompt)
	return cfg, err
}

// Settings are the reflector's configuration with the instructions that the flag names.
func (r Reflector) Settings() (cfg reflector.Config, err error) {
	cfg = r.Config
	cfg.Instructions, err = instructions("--reflector-prompt", r.ReflectorPrompt)
	return cfg, err
}

// maxInstructions bounds a file of instructions, in bytes: they are in every prompt.
const maxInstructions = 64 << 10

// instructions are the text of a file that a flag names, "" where it names none.
func instructions(flag, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", Exit(ExitUsage, fmt.Errorf("%s: %w", flag, err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxInstructions+1))
	text := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", flag, err)
	case len(data) > maxInstructions:
		err = fmt.Errorf("%s: %s: is longer than %d bytes", flag, name, maxInstructions)
	case text == "":
		err = fmt.Errorf("%s: %s: is empty; leave the flag out for the built-in instructions", flag, name)
	case !utf8.ValidString(text):
		err = fmt.Errorf("%s: %s: is no text in UTF-8", flag, name)
	default:
		return text, nil
	}
	return "", Exit(ExitUsage, err)
}

// Service is the door for outside agents over NATS.
func Service(m *metrics.Metrics) generator.Door {
	told := m.Door(metrics.NATS)
	return func(conn *bus.Conn, desk *generator.Desk) (closed func(), err error) {
		closed, err = service.Serve(conn.NATS(), desk, *conn.Log(), told)
		if err != nil {
			return nil, fmt.Errorf("serve contexts over NATS: %w", err)
		}
		return closed, nil
	}
}

// Worker is a worker program: flags, connection, health.
type Worker struct {
	Common
	NATS
	Health
}

// Check reports settings that cannot be.
func (w Worker) Check() error { return errors.Join(w.NATS.Check(), w.Health.Check()) }

// Work runs a role until the context ends. The program is ready when so many roles take messages: one, or none where it
// does nothing but serve.
func (w Worker) Work(ctx context.Context, name string, roles int, m *metrics.Metrics, r Role) error {
	log := w.Logger()
	nc, err := w.Dial(name, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	conn, err := w.Open(ctx, nc, name, log)
	if err != nil {
		return stopped(ctx, err)
	}
	w.checkRights(ctx, conn, name, log)
	stop, err := w.Serve(conn, m, name, roles, log)
	if err != nil {
		return err
	}
	defer stop()
	log.Info().Str("server", redact.Address(nc.ConnectedUrl())).Msg(name + " is running")
	if err = Run(ctx, conn, r); bus.Unreachable(err) { // it went away while the role began
		return Exit(ExitUnreachable, err)
	}
	return err
}
