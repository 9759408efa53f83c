package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/traces"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook/natskv"
	"debrief/reflector"

	book "debrief/playbook"
)

// learn learns from runs that are over.
type learn struct {
	place
	Book  string   `help:"Playbook to learn into." default:"default"`
	Files []string `arg:"" help:"Recorded runs; what they hold is told by their content." placeholder:"FILE"`
	JSON  bool     `help:"Print JSON lines; the last one is the result."`

	app.Model
	app.Curator
}

// Help implements kong.HelpProvider.
func (*learn) Help() string {
	return `Reads recorded runs of any agent, reflects on them and adds what they teach to a playbook. Without --model the
Reflector works by rules alone: tool errors and what worked next, calls repeated to no use, orders of tools that
successes share and failures lack.

What a file holds is told by its content: tau-bench results, SWE-agent trajectories (.traj), Claude Code (the output of
'claude -p --output-format stream-json', and transcripts), OpenClaw sessions, OpenAI chat ({"messages": […]}, a list of
messages, fine-tuning files, logs of requests), Dynamic Cheatsheet results, and executions as 'debrief submit --wait
--json' prints them: {"task_id", "question", "answer", "steps", "outcome"}, one a line. JSON lines may be of any size.

A run counts once, however often it is read: what the book's executions have already is not handed in again. So learn may
be interrupted at any moment; the same command goes on where it was.

What cannot be read is listed with its file, its line or element, and the reason; the rest is learned, and the exit code
is 5. A line of JSON lines costs that line, a file that is no recording that file, a list that ends in the middle ends
the command (exit code 1).

Without --nats, and unless 'debrief up' runs on the directory, the roles run in this process.

Examples:

  debrief learn results.json
  debrief learn runs/*.traj --book coding --model gpt-4o-mini
  debrief learn ~/.claude/projects/*/*.jsonl --book coding`
}

// learned is the last line of --json.
type learned struct {
	Executions int    `json:"executions"` // different runs in the files
	Known      int    `json:"known"`      // of those, stored before this command
	Reflected  int    `json:"reflected"`
	Nothing    int    `json:"nothing_to_learn"`
	Dead       int    `json:"dead"`
	Unread     int    `json:"unread"`
	Repaired   int    `json:"repaired"` // lines that were read without the junk before them
	Bullets    int    `json:"bullets"`
	Book       string `json:"book"`
	Playbook   string `json:"playbook"`
	StateHash  string `json:"state_hash"`
	Candidates int    `json:"candidates"` // counted by rules, not shown

	DeadReasons map[string]int `json:"dead_reasons,omitempty"`
	Problems    []unread       `json:"problems,omitempty"` // the first maxListed of what was not read

	shown []*book.Bullet
}

// Run implements the command.
func (l *learn) Run(ctx context.Context, c *app.Common) error {
	b, err := bookName(l.Book)
	if err != nil {
		return err
	}
	for _, name := range l.Files {
		switch info, err := os.Stat(name); {
		case errors.Is(err, fs.ErrNotExist):
			return app.Exit(app.ExitUsage, fmt.Errorf("%s: there is no such file", name))
		case err != nil:
			return app.Exit(app.ExitUsage, err)
		case info.IsDir():
			return app.Exit(app.ExitUsage, fmt.Errorf("%s: is a directory: name the files in it", name))
		}
	}
	log := c.Logger()
	s, err := l.open(ctx, log)
	if err != nil {
		return err
	}
	defer s.Close()

	work, stop := context.WithCancel(ctx)
	working := make(chan error, 1)
	if s.server != nil {
		roles, err := l.roles()
		if err != nil {
			stop()
			return err
		}
		go func() { working <- app.Run(work, s.Conn, roles...) }()
	} else {
		close(working)
	}
	res, err := l.learn(ctx, s, b)
	stop()
	if werr := <-working; err == nil {
		err = werr
	}
	if err != nil {
		return err
	}
	if err := l.measure(ctx, s, b, res); err != nil {
		return err
	}
	if err := l.show(res); err != nil {
		return err
	}
	if res.Dead+res.Unread > 0 {
		return app.Exit(app.ExitLosses, fmt.Errorf("%s could not be read and %s; see above", plural(res.Unread, "run"), pluralOf(res.Dead, "became a dead letter", "became dead letters")))
	}
	return nil
}

// roles are the reflector and the curator of this process. By rules alone one execution at a time is fast enough, and
// keeps the order of the files, so that the same runs give the same playbook to the letter.
func (l *learn) roles() ([]app.Role, error) {
	reflecting, err := l.Optional(events.RoleReflector)
	if err != nil {
		return nil, err
	}
	curating, err := l.Optional(events.RoleCurator)
	if err != nil {
		return nil, err
	}
	cfg := reflector.Config{Slots: 1}
	if reflecting != nil {
		cfg.Slots = l.MaxConcurrent
	}
	return []app.Role{reflector.New(reflecting, cfg), l.Curator.Role(curating)}, nil
}

func (l *learn) learn(ctx context.Context, s *session, b book.Book) (*learned, error) {
	res := &learned{Book: l.Book, DeadReasons: map[string]int{}}
	in := runs{}
	err := s.IDs(ctx, events.StreamExecutions, events.KindExecution.Subject(b), func(id events.ID) { in[runIDOf(id)] = wasStored })
	if err != nil {
		return nil, err
	}
	strange := 0
	for _, name := range l.Files {
		err := l.readFile(ctx, s, b, name, in, res)
		if errors.Is(err, traces.ErrFormat) {
			if strange++; strange < len(l.Files) { // of those that a pattern of the shell took in it costs no other
				l.pass(name, err, res)
				continue
			}
		}
		if err != nil {
			return nil, l.finish(ctx, s, in, err)
		}
	}
	res.Executions, res.Known = in.count(isMine), in.count(wasStored)
	if err := l.await(ctx, s); err != nil {
		return nil, interrupted(ctx, res.Executions, err)
	}
	return res, l.account(ctx, s, b, in, res)
}

// interrupted says, of an error that came of an interrupt, what is done and how to go on.
func interrupted(ctx context.Context, runs int, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("interrupted: %s, and the same command goes on from there: %w", pluralOf(runs, "run is stored", "runs are stored"), ctx.Err())
}

// finish learns what was read before a file turned out to be broken, so that it is not left for another day.
func (l *learn) finish(ctx context.Context, s *session, in runs, broken error) error {
	var full *bus.FullError
	n := in.count(isMine)
	if n == 0 || ctx.Err() != nil || errors.As(broken, &full) {
		return interrupted(ctx, n, broken)
	}
	if err := l.await(ctx, s); err != nil {
		return errors.Join(broken, err)
	}
	return fmt.Errorf("%w; %s", broken, pluralOf(n, "the run before that is learned", "runs before that are learned"))
}

func (l *learn) readFile(ctx context.Context, s *session, b book.Book, name string, in runs, res *learned) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	p := l.newReading(name, f)
	report, err := traces.Read(ctx, b, filepath.Base(name), p, func(e *events.Execution) error {
		p.runs++
		key := runIDOf(e.ID)
		if is := in[key]; is != 0 { // it is reflected on, will be, or is a dead letter
			in[key] = is | isMine
			return nil
		}
		// It may have been read before, and have expired since: the Curator looks it up.
		if _, err := s.Publish(ctx, e, bus.Marks{Repeat: true}); err != nil {
			return err
		}
		in[key] = isMine
		return nil
	})
	p.clear()
	if err == nil || report.Runs > 0 {
		l.tell(name, report, res)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		var full *bus.FullError
		if errors.As(err, &full) {
			return err
		}
		return app.Exit(app.ExitFailed, err)
	}
	return err
}

// pass lists a file that is no recording.
func (l *learn) pass(name string, err error, res *learned) {
	u := unread{File: name, Problem: err.Error()}
	l.say(u, "%s", u)
	if len(res.Problems) < maxListed {
		res.Problems = append(res.Problems, u)
	}
	res.Unread++
}

// tell says what became of a file.
func (l *learn) tell(name string, report traces.Report, res *learned) {
	l.say(map[string]any{"file": name, "source": report.Source, "runs": report.Runs, "unread": report.Skipped, "repaired": report.Repaired},
		"%s: %s of %s", name, plural(report.Runs, "run"), report.Source)
	for _, r := range report.Repairs {
		u := newUnread(name, r)
		u.Problem, u.Repair = "", r.Reason
		l.say(u, "  %s %s", r.Where(), r.Reason)
	}
	for _, r := range report.Problems {
		u := newUnread(name, r)
		l.say(u, "  %s was not read: %s", r.Where(), r.Reason)
		if len(res.Problems) < maxListed {
			res.Problems = append(res.Problems, u)
		}
	}
	res.Unread += report.Skipped
	res.Repaired += report.Repaired
}

// patience is how long nothing may move before the command says that nobody seems to be working.
const patience = 5 * time.Second

// await waits until both roles have nothing left to do.
func (l *learn) await(ctx context.Context, s *session) error {
	var last [2]bus.Lag
	moved, said := time.Now(), false
	t := l.newTicker()
	defer t.clear()
	for {
		idle := true
		for i, role := range []string{events.RoleReflector, events.RoleCurator} {
			lag, err := s.Lag(ctx, role)
			if err != nil {
				return err
			}
			if lag != last[i] {
				last[i], moved = lag, time.Now()
			}
			if !lag.Idle() {
				idle = false
			} else if done, err := s.Idle(ctx, role); err != nil {
				return err
			} else if !done {
				idle = false
			}
		}
		if idle {
			return nil
		}
		t.tell(func(float64) (any, string) {
			runs, reflections := last[0].Pending+uint64(last[0].InFlight), last[1].Pending+uint64(last[1].InFlight)
			return map[string]any{"waiting_executions": runs, "waiting_reflections": reflections},
				fmt.Sprintf("%d runs wait for the reflector, %d reflections for the curator", runs, reflections)
		})
		if !said && s.server == nil && time.Since(moved) > patience {
			said = true
			console.Fprintf(console.Stderr, "Waiting for a reflector and a curator: nothing moved for %s. The runs are stored; it is safe to interrupt.\n", patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// measure says where the playbook is now.
func (l *learn) measure(ctx context.Context, s *session, b book.Book, res *learned) error {
	w, err := natskv.New(s.JetStream()).Writer(ctx, b)
	if err != nil {
		return err
	}
	p := w.State().Playbook()
	res.shown = p.Top(p.Len())
	res.Bullets, res.Candidates = len(res.shown), p.Len()-len(res.shown)
	res.Playbook = book.Label(p.Version(), w.State().Chain())
	res.StateHash = fmt.Sprintf("%x", p.StateHash())
	return nil
}

func (l *learn) show(res *learned) error {
	if l.JSON {
		return writeJSON(console.Stdout, res)
	}
	console.Printf("\n%s\n", console.Block(showBullets(res.shown)))
	if res.Unread > 0 {
		console.Printf("%d could not be read:\n", res.Unread)
		for _, u := range res.Problems {
			console.Printf("  %s\n", u)
		}
		if n := res.Unread - len(res.Problems); n > 0 {
			console.Printf("  and %d more\n", n)
		}
	}
	console.Printf("%s: %d reflected on, %d with nothing to learn, %s. Playbook %q is at %s with %s in use and %s.\n",
		plural(res.Executions, "run"), res.Reflected, res.Nothing, plural(res.Dead, "dead letter"), res.Book, res.Playbook,
		plural(res.Bullets, "bullet"), plural(res.Candidates, "candidate"))
	if res.Known > 0 {
		console.Printf("%d of them were handed in before.\n", res.Known)
	}
	for reason, n := range res.DeadReasons {
		console.Printf("  %d × %s\n", n, reason)
	}
	return nil
}

func (l *learn) say(v any, format string, args ...any) {
	if l.JSON {
		_ = writeJSON(console.Stdout, v)
		return
	}
	console.Printf(format+"\n", args...)
}
