package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"debrief/cmd/internal/operate/erase"
	"debrief/cmd/internal/operate/metrics"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/proxy"
	"debrief/cmd/internal/proxy/capture"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/redact"
	"debrief/events/streams"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/reflector"
)

// Up runs the server and the roles in one process.
type Up struct {
	cli.NATSFlags
	Listen string `help:"Address of the NATS server; 'none' accepts no connections." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	program.Health
	program.Gateway
	program.Retention
	Simulated bool `help:"Use the simulated model of the demo; it only answers invoice tasks." instead:"model,generator-model,reflector-model,curator-model"`

	JSON   bool         `help:"Print one JSON document with the addresses at the start."`
	Memory streams.Size `help:"Soft memory limit, at most 3/4 of the container's. GOMEMLIMIT takes precedence." default:"1GiB"`

	program.Model
	program.Embedding
	GeneratorConfig program.Generator  `embed:""`
	Evaluators      program.Evaluators `embed:""`
	ReflectorConfig program.Reflector  `embed:""`
	CuratorConfig   program.Curator    `embed:""`

	settings program.Effective
	health   program.HealthHandler
}

func (*Up) Help() string {
	return `Run the NATS server, the generator, the reflector and the curator. With --nats the roles connect to an existing server.
Use it from another terminal with 'debrief submit --wait', 'debrief status' and 'debrief playbook show'.

Agents set the gateway as the base URL of their model: their calls pass to the provider with advice from the playbook, and their
runs are captured. The first line of the output has the address, by default http://127.0.0.1:4280: '/' is the console, with pages
for what was learned and what waits for you; '/api/v1/' is the API with contexts, reports, feedback and everything else.

Examples:

  debrief up --simulated        try it without a key
  OPENAI_API_KEY=… debrief up --model gpt-4o-mini
  debrief up --model llama3 --base-url http://127.0.0.1:11434/v1
  debrief up                    no model: store runs for 'debrief learn'`
}

func (u *Up) Check() error {
	if u.Memory == 0 {
		return program.Exit(program.ExitUsage, errors.New("--memory: must be above 0"))
	}
	if u.Simulated && u.Model.Named() {
		return program.Exit(program.ExitUsage, errors.New("--simulated: is set, and so is --model: choose one"))
	}
	_, generatorErr := u.GeneratorConfig.Settings()
	_, reflectorErr := u.ReflectorConfig.Settings()
	return errors.Join(u.NATSFlags.Check(), u.Health.Check(), u.Gateway.Check(), u.checkModels(), generatorErr, reflectorErr)
}

// checkModels returns the error of the first invalid model. The models share the server and its key, so the others would repeat it.
func (u *Up) checkModels() error {
	for _, role := range streams.Roles {
		if _, err := u.Model.OptionalClient(role); err != nil {
			return err
		}
	}
	_, err := u.Embedder(u.Model)
	return err
}

func (u *Up) Run(ctx context.Context, c *program.Common, settings program.Effective) error {
	u.settings = settings
	log := c.Logger()
	program.LimitMemory(int64(u.Memory))
	gatewayURL := make(chan string, 1) // gets the URL of the gateway, or "" without a gateway
	m, err := u.Metrics("debrief up")
	if err != nil {
		return err
	}
	roles, err := u.roles(ctx, m, gatewayURL)
	if err != nil {
		return err
	}
	var s *cli.Session
	if u.NATS.NATS != "" || u.Listen == "none" {
		s, err = u.Connect(ctx, log) // without --nats it starts a server that does not listen
	} else {
		s, err = u.StartServer(ctx, u.Listen, log)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	isInUse := s.Server == nil && u.NATS.NATS == "" // StartServer has connected to a server of another process
	if isInUse {
		return program.Exit(program.ExitRefused, fmt.Errorf("--data: %s is in use by a server at %s", u.Dir(), redact.Address(s.NATS().ConnectedUrl())))
	}
	if s.Server != nil {
		u.WarnOfDamage(c)
		m.SetStoreLimit(int64(u.MaxStore))
	}
	if _, err := u.SetLimits(ctx, s.Conn, u.Replicas, settings); err != nil {
		return err
	}
	stop, err := u.Serve(s.Conn, program.HealthOptions{Program: "debrief up", Roles: u.working(), Metrics: m, Handler: &u.health, Log: log})
	if err != nil {
		return err
	}
	defer stop()
	go erase.New(s.Conn, capture.NewAdvice(s.Conn)).Watch(ctx, log)
	go func() {
		select {
		case url := <-gatewayURL:
			u.announce(s, url)
		case <-ctx.Done():
		}
	}()
	if !u.JSON { // the output is one document
		defer term.Printf("debrief has stopped\n")
	}
	return program.Run(ctx, s.Conn, roles...)
}

// working returns the number of roles that process events. Without a model the generator does not: it only serves contexts.
func (u *Up) working() int {
	if u.Simulated || u.Model.NameOf(events.RoleGenerator) != "" {
		return len(streams.Roles)
	}
	return len(streams.Roles) - 1
}

// roles returns the roles. The generator serves the gateway, and sends its URL to gatewayURL when the gateway listens.
func (u *Up) roles(ctx context.Context, m *metrics.Metrics, gatewayURL chan<- string) ([]program.Role, error) {
	models := u.Model
	var err error
	if u.Simulated {
		if models, err = train.Simulate(ctx, models, simulated.Options{Seed: 1}); err != nil {
			return nil, err
		}
	}
	modelOf := map[string]chat.Model{} // nil for a role without a model
	for _, role := range streams.Roles {
		if modelOf[role], err = models.OptionalClient(role); err != nil {
			return nil, err
		}
	}
	embedder, err := u.Embedder(models)
	if err != nil {
		return nil, err
	}
	generatorConfig, err := u.GeneratorConfig.Settings()
	if err != nil {
		return nil, err
	}
	judge, err := models.Judge()
	if err != nil {
		return nil, err
	}
	if judge != nil { // without --judge-model, the generator's model judges, and counts the calls as its own
		judge = m.Model(scoring.ByJudge, judge)
	}
	generatorConfig.Scorer = scoring.NewScorer(u.Evaluators.Settings(), generatorConfig.Slots).WithModel(judge)
	reflectorConfig, err := u.ReflectorConfig.Settings()
	if err != nil {
		return nil, err
	}
	curatorConfig := u.CuratorConfig.Settings()
	generatorConfig.Meter, curatorConfig.Meter = m.Generator(), m.Curator()
	generatorConfig.ModelName, generatorConfig.Rounds = models.NameOf(events.RoleGenerator), reflectorConfig.Rounds
	curatorConfig.Instructions = []string{generatorConfig.Instructions, reflectorConfig.Instructions}
	endpoints := []generator.Endpoint{program.NATSEndpoint(m), u.serveHTTP(ctx, m, models, gatewayURL)}
	g, err := generator.New(m.Model(events.RoleGenerator, modelOf[events.RoleGenerator]), m.Embedder(embedder), generatorConfig, endpoints...)
	if err != nil {
		return nil, err
	}
	m.SetFollowerLag(g.VersionLag)
	r, err := reflector.New(m.Model(events.RoleReflector, modelOf[events.RoleReflector]), reflectorConfig)
	if err != nil {
		return nil, err
	}
	c, err := curator.New(m.Model(events.RoleCurator, modelOf[events.RoleCurator]), curatorConfig)
	if err != nil {
		return nil, err
	}
	return []program.Role{g, r, c}, nil
}

// serveHTTP returns the gateway as an endpoint of the generator. Its start sends the URL to gatewayURL, or "" with --http none. Calls
// go to the server of models, unless another upstream is set.
func (u *Up) serveHTTP(ctx context.Context, m *metrics.Metrics, models program.Model, gatewayURL chan<- string) generator.Endpoint {
	return func(conn *bus.Conn, builder *generator.ContextBuilder) (func(), error) {
		if u.HTTP == "none" { // no gateway
			gatewayURL <- ""
			return func() {}, nil
		}
		key, err := models.Key()
		if err != nil {
			return nil, err
		}
		gateway := u.Gateway
		if u.Simulated { // it answers all three model APIs
			gateway.UpstreamAnthropic = cmp.Or(gateway.UpstreamAnthropic, models.BaseURL)
		}
		f, err := proxy.Listen(proxy.Options{
			Gateway:   gateway,
			OpenAI:    models.BaseURL,
			OpenAIKey: string(key),
			Settings:  u.settings,
			Metrics:   m,
			Health:    &u.health,
			Log:       *conn.Log(),
		})
		if err != nil {
			return nil, err
		}
		stop := f.Connect(ctx, conn, builder)
		gatewayURL <- f.URL()
		return func() {
			if err := f.Close(); err != nil {
				conn.Log().Warn().Err(err).Msg("stop the gateway")
			}
			stop()
		}, nil
	}
}

// announce prints the roles and the addresses. url is the address of the gateway, "" without one.
func (u *Up) announce(s *cli.Session, url string) {
	if u.JSON {
		_ = cli.WriteJSON(term.Stdout, u.addresses(s, url)) // the server runs without a reader of its output
		return
	}
	text := fmt.Sprintf("debrief is up: %s; %s; ", u.describeRoles(), u.describeStreams(s))
	if url != "" {
		text += "gateway for agents at " + url + "/v1, API at " + url + "/api/v1/, console at " + url + "/; "
	}
	term.Printf("%sall playbooks\n", text)
	if u.Simulated {
		u.printTask()
	}
}

// upAddresses is the document of 'debrief up --json'.
type upAddresses struct {
	NATS      string `json:"nats,omitempty"` // empty if the embedded server accepts no connections
	Data      string `json:"data,omitempty"`
	Gateway   string `json:"gateway,omitempty"` // URL of the gateway: models at /v1, the API at /api/v1/
	Model     string `json:"model,omitempty"`
	Simulated bool   `json:"simulated"`
}

// addresses returns the addresses for --json. url is the address of the gateway.
func (u *Up) addresses(s *cli.Session, url string) upAddresses {
	at := upAddresses{NATS: redact.Address(s.NATS().ConnectedUrl()), Gateway: url, Model: u.Model.Model, Simulated: u.Simulated}
	if s.Server != nil {
		at.NATS, at.Data = s.Server.URL(), u.Dir()
	}
	return at
}

// describeStreams says where the streams are.
func (u *Up) describeStreams(s *cli.Session) string {
	switch {
	case s.Server == nil:
		return "streams on " + redact.Address(s.NATS().ConnectedUrl())
	case s.Server.URL() == "": // it accepts no connections
		return "streams in " + u.Dir()
	}
	return "streams in " + u.Dir() + ", listening at " + s.Server.URL()
}

// describeRoles names the roles and their model.
func (u *Up) describeRoles() string {
	const roles = "generator, reflector and curator"
	switch {
	case u.Simulated:
		return roles + " with the simulated model"
	case u.working() == len(streams.Roles):
		return roles + " with " + u.Model.Describe(events.RoleGenerator)
	}
	return roles + " without a model: they serve contexts and learn from reported runs by rules; submitted tasks wait"
}

// printTask prints the knowledge of the simulated model, and a command with a task that it can answer.
func (u *Up) printTask() {
	server := ""
	switch {
	case u.NATS.NATS != "":
		server = " --nats " + redact.Address(u.NATS.NATS)
	case u.Data != "":
		server = " --data '" + u.Data + "'"
	}
	tasks, _ := simulated.Tasks(1)
	term.Printf(`The simulated model calculates invoices of one form, and learns their pricing rules from outcomes. To everything else it
answers "I do not know". Agents reach it by the gateway, with chat completions, responses and messages; it calls a tool that a message
names in backquotes. An invoice for it:

debrief submit --wait%s '%s'
`, server, term.Block(tasks[0].Question))
}
