// Command gateway passes the calls of agents to their model providers, adds advice from playbooks, captures the runs, and
// serves the API. It keeps no state: start further processes to scale.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/proxy"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/client"
	"debrief/events/redact"
)

type command struct {
	program.Worker
	program.Gateway
}

func (*command) Help() string {
	return `Agents set it as the base URL of their model: http://127.0.0.1:4280/v1, or http://127.0.0.1:4280/anthropic for Anthropic.
Calls pass to the provider with the agent's own key, also while no NATS server is reachable.

Examples:

  gateway --nats nats://localhost:4222
  gateway --http 0.0.0.0:4280 --tokens tokens.yaml --upstream-openai http://vllm:8000/v1
  gateway --gateway-mode observe --show-config`
}

func (c *command) Check() error { return errors.Join(c.Worker.Check(), c.Gateway.Check()) }

// Run runs the gateway until the context ends.
func (c *command) Run(ctx context.Context, settings program.Effective) error {
	m, err := c.Metrics(events.UserGateway)
	if err != nil {
		return err
	}
	log := c.Logger()
	health := new(program.HealthHandler)
	f, err := proxy.Listen(proxy.Options{Gateway: c.Gateway, Settings: settings, Metrics: m, Health: health, Log: log})
	if err != nil {
		return err
	}
	defer func() {
		if err := f.Close(); err != nil {
			log.Warn().Err(err).Msg("stop the gateway")
		}
	}()
	term.Printf("gateway is running: calls of models at %s/v1 and %s/anthropic, API at %s/api/v1/\n", f.URL(), f.URL(), f.URL())
	defer term.Printf("gateway has stopped\n")
	conn, err := c.connect(ctx)
	if err != nil || conn == nil {
		return err
	}
	defer conn.NATS().Close()
	stop, err := c.Serve(conn, program.HealthOptions{Program: events.UserGateway, Metrics: m, Handler: health, Log: log})
	if err != nil {
		return err
	}
	defer stop()
	service := client.NATS(conn.NATS())
	service.Trace = bus.Traceparent
	disconnect := f.Connect(ctx, conn, service)
	defer disconnect()
	term.Printf("gateway is connected: server %s, all playbooks\n", redact.Address(conn.NATS().ConnectedUrl()))
	<-ctx.Done()
	return nil
}

const connectDelay = 2 * time.Second // delay between two attempts to connect

// connect connects to the server. It waits for a server that is unreachable or lacks streams. If ctx ends before, the connection
// and the error are nil.
func (c *command) connect(ctx context.Context) (*bus.Conn, error) {
	log := c.Logger()
	reported := "" // each error is logged once, until another one follows
	for {
		conn, err := c.dial(ctx)
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, nil //nolint:nilerr // stopped before the start
		case program.ExitCode(err) == program.ExitUsage:
			return nil, err
		case err.Error() != reported:
			reported = err.Error()
			log.Warn().Err(err).Msg("calls pass without advice until a server is connected")
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(connectDelay):
		}
	}
}

// dial connects to the server and opens the streams of the gateway, without a retry.
func (c *command) dial(ctx context.Context) (*bus.Conn, error) {
	nc, err := c.Dial(events.UserGateway, c.Logger())
	if err != nil {
		return nil, err
	}
	conn, err := c.Open(ctx, nc, events.UserGateway, c.Logger())
	if err != nil {
		nc.Close()
		return nil, err
	}
	return conn, nil
}

func main() {
	os.Exit(program.Program{
		Name: "gateway", CLI: new(command),
		Description: "Passes calls of agents to model providers, adds learned advice, captures runs, and serves the API.",
	}.Main(os.Args[1:]))
}
