package app

import (
	"context"
	"fmt"

	"debrief/curator"
	"debrief/events/bus"
	"debrief/events/service"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/reflector"
)

// Generator, Reflector and Curator are the flags of the roles.
type (
	Generator struct {
		generator.Config `embed:""`
		Evaluators       scoring.Config `embed:""`
	}
	Reflector struct {
		reflector.Config `embed:""`
	}
	Curator struct {
		curator.Config `embed:""`
	}
)

// WithJudge is the configuration with a judge who knows the programs of the command line.
func (g Generator) WithJudge() generator.Config {
	c := g.Config.WithDefaults()
	c.Judge = scoring.NewJudge(g.Evaluators, c.Slots)
	return c
}

// Service is the door for outside agents over NATS.
func Service(conn *bus.Conn, desk *generator.Desk) (closed func(), err error) {
	closed, err = service.Serve(conn.NATS(), desk, *conn.Log())
	if err != nil {
		return nil, fmt.Errorf("serve contexts over NATS: %w", err)
	}
	return closed, nil
}

// Worker is a worker program: flags, connection, health.
type Worker struct {
	Common
	NATS
	Health
}

// Work runs a role until the context ends.
func (w Worker) Work(ctx context.Context, name string, r Role) error {
	log := w.Logger()
	nc, err := w.Dial(name, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	conn, err := w.Open(ctx, nc, log)
	if err != nil {
		return err
	}
	stop, err := w.Serve(conn, name, 1, log)
	if err != nil {
		return err
	}
	defer stop()
	log.Info().Str("server", nc.ConnectedUrlRedacted()).Msg(name + " is running")
	return Run(ctx, conn, r)
}
