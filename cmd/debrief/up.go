package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/metrics"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/redact"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/reflector"
)

// up is everything in one process.
type up struct {
	place
	Listen string `help:"Where the server listens for other programs; 'none' for nowhere." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	app.Health
	HTTP      string `name:"http" help:"Where agents of your own get contexts and report executions: POST /v1/context, /v1/executions, /v1/feedback. 'auto' is 127.0.0.1:4280, or a free port when that is taken; 'none' for nowhere." default:"auto" placeholder:"HOST:PORT"`
	HTTPToken string `name:"http-token" help:"Bearer token that every request must have. Better in DEBRIEF_HTTP_TOKEN. Needed beyond loopback." placeholder:"TEXT" secret:""`
	Simulated bool   `help:"Answer with the simulated model of the demo, which knows invoices and nothing else." instead:"model,generator-model,reflector-model,curator-model"`

	Memory bytes `help:"Soft memory limit; at most 3/4 of a container. GOMEMLIMIT wins." default:"1GiB"`

	app.Model
	app.Embedding
	GeneratorConfig app.Generator  `embed:""`
	Evaluators      scoring.Config `embed:""`
	ReflectorConfig app.Reflector  `embed:""`
	CuratorConfig   app.Curator    `embed:""`
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

// Check reports settings that cannot be.
func (u *up) Check() error {
	if u.Simulated && u.Model.Named() {
		return app.Exit(app.ExitUsage, fmt.Errorf("--simulated: is set, and so is --model: choose one"))
	}
	var models error // the first says it for all: they share a server and its key
	for _, role := range workingRoles {
		if models == nil {
			_, models = u.Model.Optional(role)
		}
	}
	if models == nil {
		_, models = u.Embedder(u.Model)
	}
	_, answers := u.GeneratorConfig.Settings()
	_, reflects := u.ReflectorConfig.Settings()
	return errors.Join(u.place.Check(), u.Health.Check(), models, answers, reflects)
}

// Run implements the command.
func (u *up) Run(ctx context.Context, c *app.Common) error {
	log := c.Logger()
	limitMemory(int64(u.Memory))
	served := make(chan string, 1)
	m := app.Metrics("debrief up")
	roles, working, err := u.roles(ctx, m, served)
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
		return app.Exit(app.ExitRefused, fmt.Errorf("--data: %s is in use by a server at %s already", u.dir(), redact.Address(s.nc.ConnectedUrl())))
	}
	if s.server != nil {
		u.warnOfDamage(c)
		m.StoreLimit(int64(u.MaxStore))
	}
	stop, err := u.Serve(s.Conn, m, "debrief up", working, log)
	if err != nil {
		return err
	}
	defer stop()
	go func() {
		select {
		case url := <-served:
			u.announce(s, working, url)
		case <-ctx.Done():
		}
	}()
	return app.Run(ctx, s.Conn, roles...)
}

// door is the HTTP server for agents. It says where it listens, nothing for nowhere.
func (u *up) door(m *metrics.Metrics, served chan<- string) generator.Door {
	told := m.Door(metrics.HTTP)
	return func(conn *bus.Conn, desk *generator.Desk) (func(), error) {
		if u.HTTP == "none" {
			served <- ""
			return func() {}, nil
		}
		addr := u.HTTP
		if addr == "auto" {
			addr = "127.0.0.1:4280"
		}
		o := api.Options{Token: u.HTTPToken, Log: *conn.Log(), Told: told}
		server, err := api.Serve(addr, desk, o)
		if u.HTTP == "auto" && errors.Is(err, syscall.EADDRINUSE) {
			server, err = api.Serve("127.0.0.1:0", desk, o)
		}
		if err != nil {
			return nil, app.Exit(app.ExitUsage, err)
		}
		served <- server.URL()
		return func() {
			if err := server.Close(); err != nil {
				conn.Log().Warn().Err(err).Msg("stop")
			}
		}, nil
	}
}

// roles are the roles, and how many of them do work: without a model the generator serves contexts alone.
func (u *up) roles(ctx context.Context, m *metrics.Metrics, served chan<- string) (roles []app.Role, working int, err error) {
	models := u.Model
	if u.Simulated {
		if models, err = simulate(ctx, models, 0); err != nil {
			return nil, 0, err
		}
	}
	answering, err := models.Optional(events.RoleGenerator)
	if err != nil {
		return nil, 0, err
	}
	reflecting, err := models.Optional(events.RoleReflector)
	if err != nil {
		return nil, 0, err
	}
	curating, err := models.Optional(events.RoleCurator)
	if err != nil {
		return nil, 0, err
	}
	embedder, err := u.Embedder(models)
	if err != nil {
		return nil, 0, err
	}
	answers, err := u.GeneratorConfig.Settings()
	if err != nil {
		return nil, 0, err
	}
	answers.Judge = scoring.NewJudge(u.Evaluators, answers.Slots)
	reflects, err := u.ReflectorConfig.Settings()
	if err != nil {
		return nil, 0, err
	}
	working = 3
	if answering == nil {
		working--
	}
	answers.Meter, u.CuratorConfig.Meter = m.Generator(), m.Curator()
	u.CuratorConfig.IndexDir = filepath.Join(u.dir(), "cache")
	answerer := generator.New(m.Model(events.RoleGenerator, answering), m.Embedder(embedder), answers, app.Service(m), u.door(m, served))
	m.Follows(answerer.Behind)
	return []app.Role{
		answerer, reflector.New(m.Model(events.RoleReflector, reflecting), reflects),
		u.CuratorConfig.Role(m.Model(events.RoleCurator, curating), answers.Instructions, reflects.Instructions),
	}, working, nil
}

// simulate serves the simulated model in this process, and is how to ask it. It outlives who asks: they may still do so
// when they are told to stop.
func simulate(ctx context.Context, m app.Model, thinks time.Duration) (app.Model, error) {
	url, _, err := simulated.Serve(context.WithoutCancel(ctx), "", simulated.Options{Seed: 1, Latency: thinks})
	if err != nil {
		return app.Model{}, fmt.Errorf("start the simulated model: %w", err)
	}
	return app.Model{Model: simulated.Name, BaseURL: url, Timeout: m.Timeout, MaxConcurrent: m.MaxConcurrent}, nil
}

func (u *up) announce(s *session, working int, url string) {
	where := "streams in " + u.dir()
	if s.server == nil {
		where = "streams on " + redact.Address(s.nc.ConnectedUrl())
	} else if url := s.server.URL(); url != "" {
		where += ", listening at " + url
	}
	who := "generator, reflector and curator"
	switch {
	case u.Simulated:
		who += " with the simulated model"
	case working == 3:
		who += " with model " + u.Model.Model
	default:
		who = "no model named, so tasks wait: contexts are served, and reflector and curator work by rules"
	}
	if url != "" {
		where += "; contexts and reports for agents of your own at " + url + "/v1/"
	}
	console.Fprintf(console.Stdout, "debrief is up: %s; %s\n", who, where)
}
