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
	"debrief/cmd/internal/simulated/worlds"
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

// throughGateway is the part of a classroom whose agent makes calls of a model through a gateway.
type throughGateway struct {
	world    worlds.Caller
	agent    *chatAgent
	known    string // bullets in the agent's own system prompt
	front    *proxy.Front
	provider *http.Server
	stop     func()
	messages int     // of users: each becomes an execution
	lost     int     // messages without an execution
	asked    int     // training tasks since the last evaluation
	right    int     // right answers to these
	first    float64 // accuracy on held-out tasks before training
	hasFirst bool
	least    float64 // see addGains
}

// openGateway starts a provider with the model of the world, the gateway in front of it, and an agent.
func (c *classroom) openGateway(ctx context.Context, log zerolog.Logger) error {
	w, ok := c.world.(worlds.Caller)
	if !ok {
		return fmt.Errorf("arm %s: the agent of world %s has no tools", c.arm.name, c.world.Name())
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g := &throughGateway{world: w, provider: &http.Server{Handler: worldProvider(w), ReadHeaderTimeout: time.Minute}}
	go func() { _ = g.provider.Serve(listener) }()
	if c.arm.skilled {
		for i, rule := range w.ByHand(0) {
			if i%2 == 0 {
				g.known += fmt.Sprintf("- [own-%d] %s\n", i, rule)
			}
		}
	}
	c.gateway = g
	g.front, err = proxy.Listen(proxy.Options{
		Gateway: program.Gateway{
			HTTP: "127.0.0.1:0", GatewayMode: string(c.arm.gateway), AdviceTimeout: adviceTimeout, RunIdle: c.arm.idle(), UpstreamOpenAI: "http://" + listener.Addr().String(),
		},
		Metrics: program.Metrics("bench"), Log: log,
	})
	if err != nil {
		return err
	}
	g.stop = g.front.Connect(ctx, c.session.Conn, c.builder)
	g.agent = newChatAgent(g.front.URL()+"/v1", deskPrompt+"\n"+g.known, w.Tools())
	return nil
}

// idle returns the idle time of runs. Feedback ends a run, so only runs without feedback need a short idle time.
func (a *worldArm) idle() time.Duration {
	if a.inferred {
		return runIdle
	}
	return time.Hour
}

// curator returns the configuration of the Curator: the default one, except for arms with inferred outcomes. In these the limit of
// new bullets in ten minutes from a source with limited trust is off, because the tasks of weeks pass in these minutes.
func (a *worldArm) curator() curator.Config {
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

// chat answers tasks through the gateway, and waits until the roles have learned from the runs that have ended. With feedback,
// the agent reports the outcomes of the step before. Without it, the user of a run may send another message, and the gateway
// infers outcomes.
func (c *classroom) chat(ctx context.Context, tasks []worlds.Task) error {
	g, due, done := c.gateway, c.dueOutcomes(), c.done
	ids, verdicts := make([]string, len(tasks)), make([]worlds.Verdict, len(tasks))
	messages := make([]int, len(tasks))
	err := train.Each(len(tasks), answers, func(i int) (err error) {
		ids[i], messages[i], verdicts[i], err = c.converse(ctx, &tasks[i], c.arm.reports(done+i))
		return err
	})
	if err != nil {
		return err
	}
	for i := range tasks {
		g.messages += messages[i]
		g.asked++
		if verdicts[i].Right() {
			g.right++
		}
		if c.arm.reports(done + i) {
			feedback := &events.FeedbackRequest{Book: classroomBook, Execution: events.Handle(ids[i]), Outcome: outcomeOf(verdicts[i])}
			c.late = append(c.late, lateOutcome{due: c.done + 1, feedback: feedback})
		}
	}
	for _, o := range due {
		if _, err := client.HTTP(g.front.URL(), "").Feedback(ctx, o.feedback); err != nil {
			g.lost++
			if float64(g.lost) > maxLost*float64(c.done) {
				return fmt.Errorf("report feedback (%d of %d calls without advice): %w", g.agent.calls.degraded.Load(), g.agent.calls.all.Load(), err)
			}
		}
	}
	open := len(c.late) // the runs of this step may be open until their outcomes are reported in the next one
	if err := c.waitStored(ctx, g.messages-open); err != nil {
		return err
	}
	if err := train.WaitIdle(ctx, c.session.Conn, nil, events.RoleReflector, events.RoleCurator); err != nil {
		return err
	}
	_, err = c.read(ctx)
	return err
}

// reports reports whether the agent reports the outcome of the task with a number: an even share of all.
func (a *worldArm) reports(task int) bool {
	return !a.inferred || int(float64(task+1)*a.reported) > int(float64(task)*a.reported)
}

// converse gives a task to the agent as the message of a user. Without a report, the user sends the verdict as the next
// message. It returns the id of the response and the number of messages.
func (c *classroom) converse(ctx context.Context, t *worlds.Task, reported bool) (id string, messages int, v worlds.Verdict, err error) {
	g := c.gateway
	var chat conversation
	var done []worlds.Step
	answer, err := g.agent.send(ctx, &chat, t.Question, func(tool, arguments string) (string, error) {
		s := g.world.Call(*t, done, worlds.Step{Tool: tool, Arguments: plainArguments(arguments)})
		done = append(done, s)
		if s.Failed {
			return "", errors.New(s.Output)
		}
		return s.Output, nil
	})
	if err != nil {
		return "", 0, v, fmt.Errorf("task %s: %w", t.ID, err)
	}
	id, v = chat.id, c.world.Verdict(*t, worlds.Attempt{Answer: answer, Steps: done})
	if reported || v.Feedback == "" {
		return id, 1, v, nil
	}
	_, err = g.agent.send(ctx, &chat, v.Feedback, func(string, string) (string, error) { return "", errors.New("unexpected call") })
	return id, 2, v, err
}

// waitStored waits until n executions are stored, except those that are known to be lost.
func (c *classroom) waitStored(ctx context.Context, n int) error {
	stream, err := c.session.JetStream().Stream(ctx, events.StreamExecutions)
	if err != nil {
		return err
	}
	subject := events.KindExecution.Subject(classroomBook)
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
		if stored >= n-c.gateway.lost || isLate {
			c.gateway.lost = max(n-stored, 0)
			if isLate && float64(c.gateway.lost) > maxLost*float64(c.done) {
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
		v["calls_without_advice"] = float64(g.agent.calls.degraded.Load()) / float64(n)
	}
}

// observes reports whether the gateway only captures.
func (a *worldArm) observes() bool { return a.gateway == proxy.ModeObserve }
