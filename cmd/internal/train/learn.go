package train

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/runs"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/reflector"
	"debrief/reflector/rules"

	book "debrief/playbook"
)

// Learn publishes recorded runs as executions and learns from them.
type Learn struct {
	cli.NATSFlags
	Book  string   `help:"Playbook to add the lessons to." default:"default"`
	Files []string `arg:"" optional:"" help:"Recorded runs: files, directories, or - for standard input. Default: only the stored runs." placeholder:"FILE"`
	JSON  bool     `help:"Print JSON lines; the last one is the result."`

	Watch bool `help:"Stay, and learn each time that connected coding agents have handed over runs."`
	// HandOver hands over the runs of coding agents that wait on this machine, for --watch. It returns the number of all that were handed
	// over so far.
	HandOver func(context.Context) (int, error) `kong:"-"`

	Outcomes string `help:"File with the outcomes of runs that were recorded without one: id and score." placeholder:"FILE"`

	program.Model
	program.Curator

	reflectorModel chat.Model           // nil without --model
	curatorModel   chat.Model           // nil without --model, or if another process runs the roles
	reflector      *reflector.Reflector // nil if another process runs the roles
	postponed      postponedRuns
}

// Help implements kong.HelpProvider.
func (*Learn) Help() string {
	return `Read recorded runs of any agent and add what they teach to a playbook. All stored runs of the playbook are compared. Each
lesson comes with its evidence. An error of a tool teaches what changed before the call worked, in at least two tasks. A habit, such as
one tool before another, becomes a lesson if it separates successful from failed runs of the same tasks beyond chance. Without a lesson,
the command prints the reason and which runs would help. A lesson whose bullet a person removed or changed does not come back. Without a file, the command compares only the runs that are stored already,
such as those that agents reported.

With --model the Reflector also reflects on each run. For a failed run it sees the system prompt and the tools of the agent and the expected
answer, if the file has them, and the calls of a successful run of the same task. Before the first call of the model the command prints
how many calls will follow, and at the end how many it made.

` + strings.Join(term.Wrap("The format is detected from the content: "+runs.Formats()+".", 120), "\n") + `
Files are in UTF-8, or in UTF-16 with its mark, and may be compressed with gzip or zstd. A directory is read with all files in it but
hidden ones; links to directories, pipes and sockets in it are listed and not read. A conversation of the OpenHands SDK, a directory
with one file for each event, is one run.

A run counts once, even if it is read several times: a run that is already stored in the playbook's executions is not
submitted again. You can interrupt the command at any moment; run it again to continue.

Unreadable data is listed with its file, its line or element, and the reason. The rest is learned, and the exit code is
5. An invalid line skips that line. An unreadable file skips the rest of that file. Content that is left out on
purpose, such as thinking blocks, is counted.

With --watch the command hands over the runs that wait on this machine (see 'debrief connect'), for example since the server was
away, and compares the stored runs again after each new one.

--outcomes names a table with the columns id and score, or JSON lines such as {"id": "run-7", "score": 1}. The id is the
session, the trace, the task or the name of the file. A recorded outcome is not replaced.

Without --nats, and unless 'debrief up' runs on the directory, the roles run in this process. Otherwise this command compares the runs,
and the Reflector of the server reflects on each new run before that, with its own model.

Examples:

  debrief learn results.json
  debrief learn --book support
  debrief learn runs/*.traj --book coding --model gpt-4o-mini
  debrief learn ~/.claude/projects --book coding
  debrief learn runs/ --outcomes report.json --book coding
  debrief learn --watch --book shop
  zcat traces.jsonl.gz | debrief learn -`
}

// learnResult is the last line of --json.
type learnResult struct {
	Executions int    `json:"executions"`     // different runs in the files
	Stored     int    `json:"already_stored"` // of those, stored before this command
	Reflected  int    `json:"reflected"`
	Nothing    int    `json:"nothing_to_learn"` // runs with neither a reflection nor a dead letter
	Dead       int    `json:"dead_letters"`
	Unread     int    `json:"invalid_lines"` // runs, or lines of runs
	BadFiles   int    `json:"unread_files"`  // files of which nothing, or only the beginning, was read
	Bullets    int    `json:"bullets"`       // that are shown
	Candidates int    `json:"candidates"`    // that wait for another execution
	ForPerson  int    `json:"for_a_person"`  // that wait for a person
	Book       string `json:"book"`
	Playbook   string `json:"playbook"`
	StateHash  string `json:"state_hash"`

	DeadReasons map[string]int `json:"dead_reasons,omitempty"`
	Problems    []unreadItem   `json:"problems,omitempty"` // the first maxListed unread items
	Notes       []string       `json:"notes,omitempty"`

	New     []newBullet     `json:"new,omitempty"`     // lessons of the comparison that this command added
	Refused []refusedLesson `json:"refused,omitempty"` // lessons of the comparison that the Curator refused
	// Withdrawn are lessons that were left out, because a person removed or changed a bullet with the same text.
	Withdrawn []string `json:"withdrawn,omitempty"`
	// Analysis is the comparison of all stored executions.
	Analysis rules.Result `json:"analysis"`

	Expected modelCalls `json:"expected_model_calls"` // of this command, estimated before the first one
	Made     modelCalls `json:"model_calls"`          // requests of this command, with those that were repeated

	shown   []*book.Bullet // of the playbook at the end
	version uint64         // of the playbook at the end
	calls   int            // tool calls of the submitted runs
}

// Run implements the command.
func (l *Learn) Run(ctx context.Context, c *program.Common) error {
	if !l.Watch {
		return l.runOnce(ctx, c)
	}
	if len(l.Files) > 0 {
		return program.Exit(program.ExitUsage, errors.New("--watch: only for runs of connected coding agents: leave the files out"))
	}
	return l.watch(ctx, c.Logger(), func() error { return l.runOnce(ctx, c) })
}

// watchInterval is the time between two looks at the runs that wait.
const watchInterval = 5 * time.Second

// watch calls pass now, and again after each new run. It goes on after a pass with losses. If the server or the model is away after the
// first pass, the next look repeats the pass.
func (l *Learn) watch(ctx context.Context, log zerolog.Logger, pass func() error) error {
	learned := -1 // number of handed-over runs at the last pass without an outage; -1 before the first pass
	for {
		handedOver, err := l.HandOver(ctx)
		if err != nil && ctx.Err() == nil {
			log.Warn().Err(err).Msg("runs of coding agents wait")
		}
		if handedOver != learned {
			err := pass()
			if err != nil && ctx.Err() != nil {
				return err
			}
			isOutage := program.ExitCode(err) == program.ExitUnreachable && learned >= 0
			switch {
			case err == nil, program.ExitCode(err) == program.ExitPartial:
				learned = handedOver
			case !isOutage:
				return err
			}
			if err != nil {
				log.Warn().Err(err).Msg("learn")
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(watchInterval):
		}
	}
}

// runOnce reads the files and learns, and prints the result. It is one pass of --watch.
func (l *Learn) runOnce(ctx context.Context, c *program.Common) error {
	b, err := cli.ParseBook(l.Book)
	if err != nil {
		return err
	}
	files, skipped, err := expandFiles(l.Files)
	if err != nil {
		return program.Exit(program.ExitUsage, err)
	}
	if l.reflectorModel, err = l.OptionalClient(events.RoleReflector); err != nil {
		return err
	}
	log := c.Logger()
	ctx = log.WithContext(ctx) // the client of the model logs timeouts
	connecting := time.Now()
	s, err := l.Connect(ctx, log)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := warnOfMissingData(ctx, c, &l.ServerFlags, s, connecting); err != nil {
		return err
	}
	checkedCtx, stopCheck := request.WithModelCheck(ctx, s.Conn, events.RoleReflector, events.RoleCurator)
	defer stopCheck()
	leading, err := deltalog.New(s.Conn.JetStream()).LeadingScore(ctx, b)
	if err != nil {
		return err
	}
	outcomes, err := l.readOutcomes(ctx, leading)
	if err != nil {
		return program.Exit(program.ExitUsage, err)
	}
	res, learnErr := l.learnWithRoles(checkedCtx, s, &runs.Reader{Book: b, Outcomes: outcomes, LeadingScore: leading}, files)
	if res == nil {
		return learnErr
	}
	for _, u := range skipped {
		if u.noFile { // it is listed, and is no loss
			l.print(u, "%s: %s", u.File, u.Problem)
			continue
		}
		res.BadFiles++
		l.skip(u, res)
	}
	if err := l.addPlaybook(ctx, s, b, res); err != nil {
		return err
	}
	if err := l.show(res); err != nil {
		return err
	}
	return passError(res.losses(), learnErr)
}

// passError returns the error of a pass with these losses, "" for none, and this error of the roles. An error of the roles, such as an outage,
// decides the exit code, because the pass must be repeated.
func passError(losses string, learnErr error) error {
	if losses == "" {
		return learnErr
	}
	lost := fmt.Errorf("%s; see above", losses)
	if learnErr != nil {
		return errors.Join(learnErr, lost)
	}
	return program.Exit(program.ExitPartial, lost)
}

// learnWithRoles calls learn. It runs the roles meanwhile, unless another process runs the server. The result is nil after an error of learn, but not
// after an error of the roles.
func (l *Learn) learnWithRoles(ctx context.Context, s *cli.Session, r *runs.Reader, files []string) (*learnResult, error) {
	if s.Server == nil {
		return l.learn(ctx, s, r, files, func() {})
	}
	compared := make(chan struct{})
	roles, err := l.roles(compared)
	if err != nil {
		return nil, err
	}
	var res *learnResult
	err = withRoles(ctx, s.Conn, roles, func(ctx context.Context) (err error) {
		res, err = l.learn(ctx, s, r, files, func() { close(compared) })
		return err
	})
	return res, err
}

// roles returns the reflector and the curator of this process. The reflector starts when compared is closed. The Curator then knows the
// lessons of the comparison before it gets reflections on single runs, and its model does not add the lessons again in other words. Without a
// model, the delay saves memory, because the server caches messages that are read soon after they are written.
func (l *Learn) roles(compared <-chan struct{}) ([]program.Role, error) {
	var err error
	if l.curatorModel, err = l.OptionalClient(events.RoleCurator); err != nil {
		return nil, err
	}
	cfg := reflector.Config{}
	if l.reflectorModel != nil {
		cfg.Slots = l.MaxConcurrent
	}
	if l.reflector, err = reflector.New(l.reflectorModel, cfg); err != nil {
		return nil, err
	}
	curatorRole, err := curator.New(l.curatorModel, l.Curator.Settings())
	if err != nil {
		return nil, err
	}
	return []program.Role{&delayedRole{l.reflector, compared}, curatorRole}, nil
}

// delayedRole is a role that starts when a channel is closed.
type delayedRole struct {
	program.Role
	start <-chan struct{}
}

// Run implements program.Role.
func (r *delayedRole) Run(ctx context.Context, conn *bus.Conn) error {
	select {
	case <-r.start:
		return r.Role.Run(ctx, conn)
	case <-ctx.Done():
		return nil
	}
}

// learn reads the files, compares all stored runs, and waits for the roles. It calls compared when the lessons of the comparison are
// in the playbook.
func (l *Learn) learn(ctx context.Context, s *cli.Session, r *runs.Reader, files []string, compared func()) (*learnResult, error) {
	res := &learnResult{Book: l.Book, DeadReasons: map[string]int{}}
	states := runStates{}
	err := s.Events.IDs(ctx, events.StreamExecutions, events.KindExecution.Subject(r.Book), func(id events.ID) { states[runIDOf(id)] = runStored })
	if err != nil {
		return nil, err
	}
	r.Known = func(id events.ID) bool { return states[runIDOf(id)]&runStored != 0 }
	if err := l.readFiles(ctx, s, r, files, states, res); err != nil {
		return nil, interruptedError(ctx, states.count(runInFiles), err)
	}
	if s.Server == nil { // the roles of other processes reflect on the runs before the comparison
		if err := l.await(ctx, s); err != nil {
			return nil, interruptedError(ctx, res.Executions, err)
		}
	}
	if err := l.analyse(ctx, s, r.Book, res); err != nil {
		return nil, interruptedError(ctx, res.Executions, err)
	}
	compared()
	if err := l.await(ctx, s); err != nil {
		return nil, interruptedError(ctx, res.Executions, err)
	}
	res.Made = madeBy(l.reflectorModel, l.curatorModel)
	l.checkOutcomes(r.Outcomes, res)
	if err := l.countResults(ctx, s, r.Book, states, res); err != nil {
		return nil, err
	}
	lacksCalls := res.Executions > res.Stored && res.calls == 0 // there are new runs, and none has a call
	if lacksCalls && l.reflectorModel == nil && s.Server != nil {
		res.Notes = append(res.Notes, "The runs contain no tool calls, and without a model only tool calls teach something. Pass --model to learn from answers.")
	}
	return res, nil
}

// interruptedError returns the error for an interruption if ctx has ended, with advice and the number of stored runs of the files. Else it
// returns err unchanged.
func interruptedError(ctx context.Context, runs int, err error) error {
	if ctx.Err() == nil {
		return err
	}
	err = context.Cause(ctx)
	if runs > 0 {
		err = fmt.Errorf("%w: %s", err, pluralOf(runs, "run is stored", "runs are stored"))
	}
	return exitOf(fmt.Errorf("%w; run the same command again to continue", err))
}

// exitOf adds the exit code to a *request.ModelError. It returns other errors unchanged.
func exitOf(err error) error {
	if errors.As(err, new(*request.ModelError)) {
		return program.Exit(program.ExitUnreachable, err)
	}
	return err
}

// stallNotice is the time without progress after which the command reports that no worker seems to run.
const stallNotice = 5 * time.Second

// await waits until the reflector and the curator are idle.
func (l *Learn) await(ctx context.Context, s *cli.Session) error {
	progress := l.newProgressLine()
	defer progress.clear()
	var last bus.Lag
	lastChange, noticed := time.Now(), false
	waiting := func(role string, lag bus.Lag) {
		if lag != last {
			last, lastChange = lag, time.Now()
		}
		progress.report(func(float64) (any, string) {
			n := lag.Pending + uint64(lag.InFlight)
			if role == events.RoleCurator {
				return map[string]any{"waiting_reflections": n}, fmt.Sprintf("%d reflections wait for the curator", n)
			}
			return map[string]any{"waiting_executions": n}, fmt.Sprintf("%d runs wait for the reflector", n)
		})
		if !noticed && s.Server == nil && time.Since(lastChange) > stallNotice {
			noticed = true
			term.Fprintf(term.Stderr, "Waiting for a reflector and a curator: no progress for %s. The runs are stored; it is safe to interrupt.\n", stallNotice)
		}
	}
	return WaitIdle(ctx, s.Conn, waiting, events.RoleReflector, events.RoleCurator)
}

// addPlaybook adds the current state of the playbook to the result.
func (l *Learn) addPlaybook(ctx context.Context, s *cli.Session, b book.Book, res *learnResult) error {
	w, err := deltalog.New(s.JetStream()).Writer(ctx, b)
	if err != nil {
		return err
	}
	p := w.State().Playbook()
	res.shown = p.Top(p.Len())
	res.Bullets = len(res.shown)
	for b := range p.All() {
		switch {
		case b.AwaitsPerson():
			res.ForPerson++
		case b.Status == book.Candidate:
			res.Candidates++
		}
	}
	res.version = p.Version()
	res.Playbook = book.VersionLabel(p.Version(), w.State().Chain())
	res.StateHash = fmt.Sprintf("%x", p.StateHash())
	return nil
}
