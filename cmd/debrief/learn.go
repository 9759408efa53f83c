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
	Files []string `arg:"" help:"Recorded runs: tau-bench JSON, SWE-agent .traj." placeholder:"FILE"`
	JSON  bool     `help:"Print JSON lines; the last one is the result."`

	app.Model
	app.Curator
}

// Help implements kong.HelpProvider.
func (*learn) Help() string {
	return `Reads recorded runs of any agent, reflects on them and adds what they teach to a playbook. Without --model the
Reflector works by rules alone: tool errors and what worked next, calls repeated to no use, orders of tools that
successes share and failures lack. A run counts once, however often it is read.

Without --nats, and unless 'debrief up' runs on the directory, the roles run in this process.

Examples:

  debrief learn results.json
  debrief learn runs/*.traj --book coding --model gpt-4o-mini`
}

// learned is the last line of --json.
type learned struct {
	Executions int    `json:"executions"`
	Reflected  int    `json:"reflected"`
	Nothing    int    `json:"nothing_to_learn"`
	Dead       int    `json:"dead"`
	Unread     int    `json:"unread"`
	Bullets    int    `json:"bullets"`
	Book       string `json:"book"`
	Playbook   string `json:"playbook"`
	StateHash  string `json:"state_hash"`
	Candidates int    `json:"candidates"` // counted by rules, not shown

	DeadReasons map[string]int `json:"dead_reasons,omitempty"`

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
		return app.Exit(app.ExitLosses, fmt.Errorf("%d runs could not be read and %d became dead letters; see above", res.Unread, res.Dead))
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

// runs are the executions that were handed in, by id and by sequence.
type runs struct {
	ids  map[events.ID]bool
	seqs map[uint64]events.ID
}

func (l *learn) learn(ctx context.Context, s *session, b book.Book) (*learned, error) {
	res := &learned{Book: l.Book, DeadReasons: map[string]int{}}
	in := &runs{ids: map[events.ID]bool{}, seqs: map[uint64]events.ID{}}
	for _, name := range l.Files {
		report, err := l.readFile(ctx, s, b, name, in)
		if err != nil {
			return nil, l.finish(ctx, s, in, err)
		}
		res.Unread += report.Skipped
		l.say(map[string]any{"file": name, "source": report.Source, "runs": report.Runs, "unread": report.Skipped},
			"%s: %d runs of %s", name, report.Runs, report.Source)
		for _, p := range report.Problems {
			l.say(map[string]any{"file": name, "element": p.Index, "problem": p.Reason}, "  element %d was not read: %s", p.Index, p.Reason)
		}
	}
	res.Executions = len(in.ids)
	if err := l.await(ctx, s); err != nil {
		return nil, err
	}
	return res, l.account(ctx, s, b, in, res)
}

// finish learns what was read before a file turned out to be broken, so that it is not left for another day.
func (l *learn) finish(ctx context.Context, s *session, in *runs, broken error) error {
	var full *bus.FullError
	if len(in.ids) == 0 || ctx.Err() != nil || errors.As(broken, &full) {
		return broken
	}
	if err := l.await(ctx, s); err != nil {
		return errors.Join(broken, err)
	}
	return fmt.Errorf("%w; the %d runs before that are learned", broken, len(in.ids))
}

func (l *learn) readFile(ctx context.Context, s *session, b book.Book, name string, in *runs) (traces.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return traces.Report{}, err
	}
	defer f.Close()
	report, err := traces.Read(ctx, b, filepath.Base(name), f, func(e *events.Execution) error {
		// These may have been read before, under any sequence: the Curator looks them up.
		r, err := s.Publish(ctx, e, bus.Marks{Repeat: true})
		if err != nil {
			return err
		}
		in.ids[e.ID] = true
		in.seqs[r.Seq] = e.ID
		return nil
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		var full *bus.FullError
		if errors.As(err, &full) {
			return report, err
		}
		return report, app.Exit(app.ExitFailed, err)
	}
	return report, err
}

// patience is how long nothing may move before the command says that nobody seems to be working.
const patience = 5 * time.Second

// await waits until both roles have nothing left to do.
func (l *learn) await(ctx context.Context, s *session) error {
	var last [2]bus.Lag
	moved, said := time.Now(), false
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
		if !said && s.server == nil && time.Since(moved) > patience {
			said = true
			fmt.Fprintf(os.Stderr, "Waiting for a reflector and a curator: nothing moved for %s. The runs are stored; it is safe to interrupt.\n", patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// account says what became of every run: reflected on, nothing to learn, or a dead letter.
func (l *learn) account(ctx context.Context, s *session, b book.Book, in *runs, res *learned) error {
	reflected := map[events.ID]bool{}
	err := s.ReadStored(ctx, events.StreamReflections, events.KindReflection.Subject(b), func(st bus.Stored) error {
		if r, ok := st.Event.(*events.Reflection); ok && in.ids[r.Execution] {
			reflected[r.Execution] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	dead := map[events.ID]string{}
	err = s.ReadStored(ctx, events.StreamDead, events.DeadSubject("", b), func(st bus.Stored) error {
		letter, ok := st.Event.(*events.DeadLetter)
		if !ok {
			return nil
		}
		if id := in.seqs[letter.Seq]; id != "" && letter.Stream == events.StreamExecutions {
			dead[id] = letter.Reason
		} else if e, err := events.Decode(letter.Subject, letter.Header, letter.Data); err == nil {
			if r, ok := e.(*events.Reflection); ok && in.ids[r.Execution] {
				dead[r.Execution] = letter.Reason
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id := range in.ids {
		switch {
		case dead[id] != "":
			res.Dead++
			res.DeadReasons[dead[id]]++
		case reflected[id]:
			res.Reflected++
		default:
			res.Nothing++
		}
	}
	return nil
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
		return writeJSON(os.Stdout, res)
	}
	fmt.Printf("\n%s\n", showBullets(res.shown))
	fmt.Printf("%d runs: %d reflected on, %d with nothing to learn, %d dead letters. Playbook %q is at %s with %d bullets in use and %d candidates.\n",
		res.Executions, res.Reflected, res.Nothing, res.Dead, res.Book, res.Playbook, res.Bullets, res.Candidates)
	for reason, n := range res.DeadReasons {
		fmt.Printf("  %d × %s\n", n, reason)
	}
	return nil
}

func (l *learn) say(v any, format string, args ...any) {
	if l.JSON {
		_ = writeJSON(os.Stdout, v)
		return
	}
	fmt.Printf(format+"\n", args...)
}
