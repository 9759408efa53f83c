package learning

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/proxy"
	"debrief/cmd/internal/simulated/worlds/world"
	"debrief/cmd/internal/train"
	"debrief/curator"
	"debrief/events"
	"debrief/events/client"
)

// Times of the gateway in arms. A run without feedback ends by its idle time, the shortest one that the flag permits.
const (
	runIdle       = time.Second
	adviceTimeout = 2 * time.Second // longer than the default: many runs share a machine, and their load is not measured
)

// throughGateway is the part of a runner whose agent makes calls of a model through a gateway.
type throughGateway struct {
	world    world.Caller
	agent    *chatAgent
	known    string // bullets in the agent's own system prompt
	front    *proxy.Front
	provider *http.Server
	stop     func()
	messages int     // of users: each becomes an execution
	lost     int     // messages whose executions are missing: they were not stored in time, or feedback did not find them
	asked    int     // training tasks since the last evaluation
	right    int     // right answers to these
	first    float64 // accuracy on held-out tasks before training
	hasFirst bool
	least    float64 // see addGains
}

// openGateway starts a provider with the model of the world, the gateway in front of it, and an agent.
func (r *runner) openGateway(ctx context.Context, log zerolog.Logger) error {
	w, ok := r.world.(world.Caller)
	if !ok {
		return fmt.Errorf("arm %s: the agent of world %s has no tools", r.arm.name, r.world.Name())
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g := &throughGateway{world: w, provider: &http.Server{Handler: modelProvider(w), ReadHeaderTimeout: time.Minute}}
	go func() { _ = g.provider.Serve(listener) }()
	if r.arm.skilled {
		for i, rule := range w.ByHand(0) {
			if i%2 == 0 {
				g.known += fmt.Sprintf("- [own-%d] %s\n", i, rule)
			}
		}
	}
	r.gateway = g
	g.front, err = proxy.Listen(proxy.Options{
		Gateway: program.Gateway{
			HTTP: "127.0.0.1:0", GatewayMode: string(r.arm.gateway), AdviceTimeout: adviceTimeout, RunIdle: r.arm.idle(), UpstreamOpenAI: "http://" + listener.Addr().String(),
		},
		Metrics: program.Metrics("bench"), Log: log,
	})
	if err != nil {
		return err
	}
	g.stop = g.front.Connect(ctx, r.session.Conn, r.builder)
	g.agent = newChatAgent(g.front.URL()+"/v1", agentPrompt+"\n"+g.known, w.Tools())
	return nil
}

// idle returns the idle time of runs. Feedback ends a run, so only runs without feedback need a short idle time.
func (a *arm) idle() time.Duration {
	if a.inferred {
		return runIdle
	}
	return time.Hour
}

// curator returns the configuration of the Curator: the default one, except for arms with inferred outcomes. In these the limit of
// new bullets in ten minutes from a source with limited trust is off, because the tasks of weeks pass in these minutes.
func (a *arm) curator() curator.Config {
	if a.inferred {
		return curator.Config{MaxBurst: -1}
	}
	return curator.Config{}
}

func (g *throughGateway) close() error {
	if g.stop != nil {
		g.stop()
	}
	var err error
	if g.front != nil {
		err = g.front.Close()
	}
	return errors.Join(err, g.provider.Close())
}

// talk is the conversation about one task.
type talk struct {
	response string // id of the response with the answer
	messages int    // of the user
	verdict  world.Verdict
	reported bool // the agent reports the verdict
}

// stepThroughGateway answers tasks through the gateway, and waits until the runs that have ended are stored. The agent reports the outcomes
// of the step before. Without a report, the user of a run may send another message, and the gateway infers outcomes.
func (r *runner) stepThroughGateway(ctx context.Context, tasks []world.Task) error {
	g, due := r.gateway, r.dueOutcomes()
	talks := make([]talk, len(tasks))
	err := train.Each(len(tasks), parallelAnswers, func(i int) (err error) {
		talks[i], err = r.converse(ctx, &tasks[i], r.arm.reports(r.done+i))
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range talks {
		g.messages += t.messages
		g.asked++
		if t.verdict.Right() {
			g.right++
		}
		if t.reported {
			feedback := &events.FeedbackRequest{Book: benchBook, Execution: events.Handle(t.response), Outcome: outcomeOf(t.verdict)}
			r.pending = append(r.pending, pendingOutcome{due: r.done + 1, feedback: feedback})
		}
	}
	for _, o := range due {
		if _, err := client.HTTP(g.front.URL(), "").Feedback(ctx, o.feedback); err != nil {
			g.lost++
			if float64(g.lost) > maxLost*float64(r.done) {
				return fmt.Errorf("report feedback (%d of %d calls without advice): %w", g.agent.calls.degraded.Load(), g.agent.calls.all.Load(), err)
			}
		}
	}
	// A run may stay open until its outcome is reported in the next step, and then it is not stored yet.
	return r.waitStored(ctx, g.messages-len(r.pending))
}

// converse gives a task to the agent as the message of a user. Without a report, the user sends the verdict as the next
// message.
func (r *runner) converse(ctx context.Context, t *world.Task, reported bool) (talk, error) {
	g := r.gateway
	var history conversation
	var done []world.Step
	answer, err := g.agent.send(ctx, &history, t.Question, func(tool, arguments string) (string, error) {
		s := g.world.Call(*t, done, world.Step{Tool: tool, Arguments: plainArguments(arguments)})
		done = append(done, s)
		if s.Failed {
			return "", errors.New(s.Output)
		}
		return s.Output, nil
	})
	if err != nil {
		return talk{}, fmt.Errorf("task %s: %w", t.ID, err)
	}
	out := talk{response: history.id, messages: 1, verdict: r.world.Verdict(*t, world.Attempt{Answer: answer, Steps: done}), reported: reported}
	if reported || out.verdict.Feedback == "" {
		return out, nil
	}
	out.messages++
	_, err = g.agent.send(ctx, &history, out.verdict.Feedback, func(string, string) (string, error) { return "", errors.New("unexpected call") })
	return out, err
}

// waitStored waits until n executions are stored, except those that are known to be missing.
func (r *runner) waitStored(ctx context.Context, n int) error {
	stream, err := r.session.JetStream().Stream(ctx, events.StreamExecutions)
	if err != nil {
		return err
	}
	subject := events.KindExecution.Subject(benchBook)
	for end := time.Now().Add(storeTimeout); ; {
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
		if err != nil {
			return err
		}
		stored := 0
		for _, count := range info.State.Subjects {
			stored += int(count)
		}
		isLate := time.Now().After(end)
		if stored >= n-r.gateway.lost || isLate {
			r.gateway.lost = max(n-stored, 0)
			if isLate && float64(r.gateway.lost) > maxLost*float64(r.done) {
				return fmt.Errorf("got %d executions in %s, want %d", stored, storeTimeout, n)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// storeTimeout is the maximum time until runs have ended and are stored, also on a busy machine.
const storeTimeout = time.Minute

// maxLost is the maximum share of runs without an execution. With more, the measurement fails. On a busy machine a call can pass the
// gateway without capture, and then the gateway does not know the id of its response.
const maxLost = 0.05

// addGains sets the values that only arms with a gateway have. A gain is the difference in accuracy to the first evaluation; the least
// one is over all evaluations so far.
func (g *throughGateway) addGains(v map[string]float64) {
	if !g.hasFirst {
		g.first, g.hasFirst = v[accuracyKey], true
	}
	g.least = min(g.least, v[accuracyKey]-g.first)
	v[leastKey] = g.least
	if g.asked > 0 {
		v[trainedKey] = float64(g.right) / float64(g.asked)
		g.right, g.asked = 0, 0
	}
	if n := g.agent.calls.all.Load(); n > 0 {
		v[noAdviceKey] = float64(g.agent.calls.degraded.Load()) / float64(n)
	}
}
