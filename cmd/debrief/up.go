package main

import (
	"context"
	"fmt"
	"os"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/simulated"
	"debrief/curator"
	"debrief/events"
	"debrief/generator"
	"debrief/reflector"
)

// up is everything in one process.
type up struct {
	place
	Listen    string `help:"Where the server listens for other programs; 'none' for nowhere." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	Health    string `help:"Address for health checks: /livez and /readyz." placeholder:"HOST:PORT"`
	Simulated bool   `help:"Answer with the simulated model of the demo, which knows invoices and nothing else."`

	app.Model
	GeneratorConfig app.Generator `embed:""`
	ReflectorConfig app.Reflector `embed:""`
	CuratorConfig   app.Curator   `embed:""`
}

// Help implements kong.HelpProvider.
func (*up) Help() string {
	return `Examples:

  debrief up --simulated                       try it without a key
  OPENAI_API_KEY=… debrief up --model gpt-4o-mini
  debrief up --model llama3 --base-url http://127.0.0.1:11434/v1
  debrief up                                   no model: learns from reported executions by rules

Then, from another terminal: debrief submit --wait "…", debrief status, debrief playbook show.
With --nats the roles work on a server that runs elsewhere.`
}

// Run implements the command.
func (u *up) Run(ctx context.Context, c *app.Common) error {
	log := c.Logger()
	if u.Simulated && u.Named() {
		return app.Exit(app.ExitUsage, fmt.Errorf("--simulated: is set, and so is --model: choose one"))
	}
	roles, err := u.roles(ctx)
	if err != nil {
		return err
	}
	var s *session
	switch {
	case u.NATS.NATS != "":
		s, err = u.dial(ctx, log)
	case u.Listen == "none":
		s, err = u.embed(ctx, "", log)
	default:
		s, err = u.embed(ctx, u.Listen, log)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	if s.server == nil && u.NATS.NATS == "" {
		return app.Exit(app.ExitRefused, fmt.Errorf("--data: %s is in use by a server at %s already", u.dir(), s.nc.ConnectedUrlRedacted()))
	}
	stop, err := app.ServeHealth(u.Health, s.Conn, len(roles), log)
	if err != nil {
		return err
	}
	defer stop()
	u.announce(s, len(roles))
	return app.Run(ctx, s.Conn, roles...)
}

// roles are the roles that have what they need: without a model there is no generator.
func (u *up) roles(ctx context.Context) ([]app.Role, error) {
	models := u.Model
	if u.Simulated {
		// It outlives the roles, which may still be asking when they are told to stop.
		url, _, err := simulated.Serve(context.WithoutCancel(ctx), "", simulated.Options{Seed: 1})
		if err != nil {
			return nil, fmt.Errorf("start the simulated model: %w", err)
		}
		models = app.Model{Model: simulated.Name, BaseURL: url, Timeout: models.Timeout, MaxConcurrent: models.MaxConcurrent}
	}
	var roles []app.Role
	answering, err := models.Optional(events.RoleGenerator)
	if err != nil {
		return nil, err
	}
	if answering != nil {
		roles = append(roles, generator.New(answering, u.GeneratorConfig.Config))
	}
	reflecting, err := models.Optional(events.RoleReflector)
	if err != nil {
		return nil, err
	}
	curating, err := models.Optional(events.RoleCurator)
	if err != nil {
		return nil, err
	}
	return append(roles, reflector.New(reflecting, u.ReflectorConfig.Config), curator.New(curating, u.CuratorConfig.Config)), nil
}

func (u *up) announce(s *session, roles int) {
	where := "streams in " + u.dir()
	if s.server == nil {
		where = "streams on " + s.nc.ConnectedUrlRedacted()
	} else if url := s.server.URL(); url != "" {
		where += ", listening at " + url
	}
	who := "generator, reflector and curator"
	switch {
	case u.Simulated:
		who += " with the simulated model"
	case roles == 3:
		who += " with model " + u.Model.Model
	default:
		who = "no model named, so no generator: reflector and curator by rules"
	}
	fmt.Fprintf(os.Stdout, "debrief is up: %s; %s\n", who, where)
}
