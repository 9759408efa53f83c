package train

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
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/traces"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/reflector"

	book "debrief/playbook"
)

// Learn publishes recorded runs as executions and learns from them.
type Learn struct {
	cli.ServerFlags
	Book  string   `help:"Playbook to add the lessons to." default:"default"`
	Files []string `arg:"" help:"Recorded runs of any supported format, detected by content." placeholder:"FILE"`
	JSON  bool     `help:"Print JSON lines; the last one is the result."`

	app.Model
	app.Curator
}

// Help implements kong.HelpProvider.
func (*Learn) Help() string {
	return `Read recorded runs of any agent, reflect on them and add the lessons to a playbook. Without --model the Reflector
uses rules only: tool errors and the call that worked next, repeated calls without effect, orders of tools that successful
runs have and failed runs lack.

The format is detected from the content: ` + traces.Formats + `. JSON lines may have any size.

A run counts once, even if it is read several times: a run that is already stored in the playbook's executions is not
submitted again. You can interrupt the command at any moment; run it again to continue.

Unreadable data is listed with its file, its line or element, and the reason. The rest is learned, and the exit code is
5. An invalid line in a JSON lines file skips that line. A file in an unknown format skips that file. A list that ends
in the middle ends the command with exit code 1.

Without --nats, and unless 'debrief up' runs on the directory, the roles run in this process.

Examples:

  debrief learn results.json
  debrief learn runs/*.traj --book coding --model gpt-4o-mini
  debrief learn ~/.claude/projects/*/*.jsonl --book coding`
}

// learnResult is the last line of --json.
type learnResult struct {
	Executions int    `json:"executions"`     // different runs in the files
	Known      int    `json:"already_stored"` // of those, stored before this command
	Reflected  int    `json:"reflected"`
	Nothing    int    `json:"nothing_to_learn"`
	Dead       int    `json:"dead_letters"`
	Unread     int    `json:"invalid_lines"`
	Repaired   int    `json:"repaired"` // lines that were read after skipping invalid bytes before them
	Bullets    int    `json:"bullets"`
	Book       string `json:"book"`
	Playbook   string `json:"playbook"`
	StateHash  string `json:"state_hash"`
	Candidates int    `json:"candidates"` // counted by rules, not in prompts yet

	DeadReasons map[string]int `json:"dead_reasons,omitempty"`
	Problems    []unreadItem   `json:"problems,omitempty"` // the first maxListed unread items

	shown []*book.Bullet
}

// Run implements the command.
func (l *Learn) Run(ctx context.Context, c *app.Common) error {
	b, err := cli.ParseBook(l.Book)
	if err != nil {
		return err
	}
	for _, name := range l.Files {
		switch info, err := os.Stat(name); {
		case errors.Is(err, fs.ErrNotExist):
			return app.Exit(app.ExitUsage, fmt.Errorf("%s: no such file", name))
		case err != nil:
			return app.Exit(app.ExitUsage, err)
		case info.IsDir():
			return app.Exit(app.ExitUsage, fmt.Errorf("%s: is a directory: name the files in it", name))
		}
	}
	log := c.Logger()
	s, err := l.Connect(ctx, log)
	if err != nil {
		return err
	}
	defer s.Close()

	work, stop := context.WithCancel(ctx)
	working := make(chan error, 1)
	if s.Server != nil {
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
	if err := l.addPlaybook(ctx, s, b, res); err != nil {
		return err
	}
	if err := l.show(res); err != nil {
		return err
	}
	if res.Dead+res.Unread > 0 {
		return app.Exit(app.ExitPartial, fmt.Errorf("%s could not be read and %s; see above", cli.Plural(res.Unread, "run"), pluralOf(res.Dead, "became a dead letter", "became dead letters")))
	}
	return nil
}

// roles returns the reflector and the curator of this process. Without a model it reflects on one execution at a time.
// That is fast enough and keeps the order of the files, so the same runs always produce the same playbook.
func (l *Learn) roles() ([]app.Role, error) {
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
	return []app.Role{reflector.New(reflecting, cfg), app.NewCurator(curating, l.Curator.Settings(""))}, nil
}

func (l *Learn) learn(ctx context.Context, s *cli.Session, b book.Book) (*learnResult, error) {
	res := &learnResult{Book: l.Book, DeadReasons: map[string]int{}}
	in := runStates{}
	err := s.EventIDs(ctx, events.StreamExecutions, events.KindExecution.Subject(b), func(id events.ID) { in[runIDOf(id)] = runStored })
	if err != nil {
		return nil, err
	}
	unknown := 0 // files in an unknown format
	for _, name := range l.Files {
		err := l.readFile(ctx, s, b, name, in, res)
		if errors.Is(err, traces.ErrFormat) {
			if unknown++; unknown < len(l.Files) { // a shell pattern may match such a file; the others are still read
				l.skipFile(name, err, res)
				continue
			}
		}
		if err != nil {
			return nil, l.finishAfterError(ctx, s, in, err)
		}
	}
	res.Executions, res.Known = in.count(runInFiles), in.count(runStored)
	if err := l.await(ctx, s); err != nil {
		return nil, interrupted(ctx, res.Executions, err)
	}
	return res, l.countResults(ctx, s, b, in, res)
}

// interrupted adds progress and advice to err if the context was cancelled. Other errors are returned unchanged.
func interrupted(ctx context.Context, runs int, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("interrupted: %s; run the same command again to continue: %w", pluralOf(runs, "run is stored", "runs are stored"), ctx.Err())
}

// finishAfterError waits until the runs before a broken file are learned. It returns the error of that file.
func (l *Learn) finishAfterError(ctx context.Context, s *cli.Session, in runStates, broken error) error {
	var full *bus.FullError
	n := in.count(runInFiles)
	if n == 0 || ctx.Err() != nil || errors.As(broken, &full) {
		return interrupted(ctx, n, broken)
	}
	if err := l.await(ctx, s); err != nil {
		return errors.Join(broken, err)
	}
	return fmt.Errorf("%w; %s", broken, pluralOf(n, "run before that is learned", "runs before that are learned"))
}

func (l *Learn) readFile(ctx context.Context, s *cli.Session, b book.Book, name string, in runStates, res *learnResult) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	p := l.newProgressReader(name, f)
	report, err := traces.Read(ctx, b, filepath.Base(name), p, func(e *events.Execution) error {
		p.runs++
		key := runIDOf(e.ID)
		if state := in[key]; state != 0 { // a reflection exists or will exist, or the run is a dead letter
			in[key] = state | runInFiles
			return nil
		}
		// The run may be older than the retention of the stream: Repeat makes the Curator check if it is already covered.
		if _, err := s.Publish(ctx, e, bus.PublishOptions{Repeat: true}); err != nil {
			return err
		}
		in[key] = runInFiles
		return nil
	})
	p.clear()
	if err == nil || report.Runs > 0 {
		l.printFile(name, report, res)
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

// skipFile lists a file in an unknown format.
func (l *Learn) skipFile(name string, err error, res *learnResult) {
	u := unreadItem{File: name, Problem: err.Error()}
	l.print(u, "%s", u)
	if len(res.Problems) < maxListed {
		res.Problems = append(res.Problems, u)
	}
	res.Unread++
}

// printFile prints the number of runs in a file, its repairs and its problems.
func (l *Learn) printFile(name string, report traces.Report, res *learnResult) {
	l.print(map[string]any{"file": name, "source": report.Source, "runs": report.Runs, "invalid_lines": report.Skipped, "repaired": report.Repaired},
		"%s: %s of %s", name, cli.Plural(report.Runs, "run"), report.Source)
	for _, r := range report.Repairs {
		u := newUnreadItem(name, r)
		u.Problem, u.Repair = "", r.Reason
		l.print(u, "  %s %s", r.Where(), r.Reason)
	}
	for _, r := range report.Problems {
		u := newUnreadItem(name, r)
		l.print(u, "  %s was not read: %s", r.Where(), r.Reason)
		if len(res.Problems) < maxListed {
			res.Problems = append(res.Problems, u)
		}
	}
	res.Unread += report.Skipped
	res.Repaired += report.Repaired
}

// stallNotice is the time without progress after which the command reports that no worker seems to run.
const stallNotice = 5 * time.Second

// await waits until both roles are idle.
func (l *Learn) await(ctx context.Context, s *cli.Session) error {
	var last [2]bus.Lag
	moved, noticed := time.Now(), false
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
		t.report(func(float64) (any, string) {
			runs, reflections := last[0].Pending+uint64(last[0].InFlight), last[1].Pending+uint64(last[1].InFlight)
			return map[string]any{"waiting_executions": runs, "waiting_reflections": reflections},
				fmt.Sprintf("%d runs wait for the reflector, %d reflections for the curator", runs, reflections)
		})
		if !noticed && s.Server == nil && time.Since(moved) > stallNotice {
			noticed = true
			console.Fprintf(console.Stderr, "Waiting for a reflector and a curator: no progress for %s. The runs are stored; it is safe to interrupt.\n", stallNotice)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// addPlaybook adds the current state of the playbook to the result.
func (l *Learn) addPlaybook(ctx context.Context, s *cli.Session, b book.Book, res *learnResult) error {
	w, err := deltalog.New(s.JetStream()).Writer(ctx, b)
	if err != nil {
		return err
	}
	p := w.State().Playbook()
	res.shown = p.Top(p.Len())
	res.Bullets, res.Candidates = len(res.shown), p.Len()-len(res.shown)
	res.Playbook = book.VersionLabel(p.Version(), w.State().Chain())
	res.StateHash = fmt.Sprintf("%x", p.StateHash())
	return nil
}

func (l *Learn) show(res *learnResult) error {
	if l.JSON {
		return cli.WriteJSON(console.Stdout, res)
	}
	console.Printf("\n%s\n", console.Block(cli.FormatBullets(res.shown)))
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
		cli.Plural(res.Executions, "run"), res.Reflected, res.Nothing, cli.Plural(res.Dead, "dead letter"), res.Book, res.Playbook,
		cli.Plural(res.Bullets, "bullet"), cli.Plural(res.Candidates, "candidate"))
	if res.Known > 0 {
		console.Printf("%d of them were stored before.\n", res.Known)
	}
	for reason, n := range res.DeadReasons {
		console.Printf("  %d × %s\n", n, reason)
	}
	return nil
}

// print prints v as a JSON line with --json, else the formatted text.
func (l *Learn) print(v any, format string, args ...any) {
	if l.JSON {
		_ = cli.WriteJSON(console.Stdout, v)
		return
	}
	console.Printf(format+"\n", args...)
}
