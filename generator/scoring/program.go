package scoring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/events"
)

// Config of outside programs that judge; zero fields are defaults.
type Config struct {
	Programs []Program     `name:"evaluator-program" sep:"none" help:"Outside program that judges answers of tasks whose evaluator is program:NAME. It reads one JSON object from standard input (id, question, context, target, answer, reasoning) and prints one: score (0 to 1), and label and feedback where it likes. Can be given several times." placeholder:"NAME=COMMAND [ARGS…]" group:"Evaluators"`
	Timeout  time.Duration `name:"evaluator-timeout" help:"Longest that an outside program may take over one answer." default:"10s" group:"Evaluators"`
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	return c
}

// Validate names the flag of what cannot be. A command that is not there is an error.
func (c Config) Validate() error {
	var errs []error
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("--evaluator-timeout: must be positive, got %s", c.Timeout))
	}
	seen := make(map[string]bool)
	for _, p := range c.Programs {
		if seen[p.Name] {
			errs = append(errs, fmt.Errorf("--evaluator-program: %s is given twice", p.Name))
		}
		seen[p.Name] = true
		if _, err := exec.LookPath(p.Command[0]); err != nil {
			errs = append(errs, fmt.Errorf("--evaluator-program: %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Program is an outside program that judges, under the name by which tasks ask for it. For every answer it is run anew,
// without a shell and with nothing of our environment but PATH, HOME, LANG and TMPDIR. Command is its file and its
// arguments.
type Program struct {
	Name    string
	Command []string
}

var programName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// UnmarshalText implements encoding.TextUnmarshaler: it reads NAME=COMMAND [ARGS…].
func (p *Program) UnmarshalText(text []byte) error {
	name, command, ok := strings.Cut(string(text), "=")
	if !ok || !programName.MatchString(name) {
		return fmt.Errorf("want NAME=COMMAND [ARGS…], the name of letters, digits, _ and -, got %q", text)
	}
	split, err := words(command)
	if err == nil && len(split) == 0 {
		err = errors.New("the command is empty")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*p = Program{name, split}
	return nil
}

// words splits a command as a shell does: at white space, with '…', "…" and \ to keep it. Nothing else means anything.
func words(text string) (list []string, err error) {
	var word []rune
	begun, escaped, quote := false, false, rune(0)
	for _, r := range text {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word = append(word, '\\')
			}
			word, escaped = append(word, r), false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word = append(word, r)
			}
		case r == '\'' || r == '"':
			begun, quote = true, r
		case strings.ContainsRune(" \t\r\n", r):
			if begun {
				list, word, begun = append(list, string(word)), nil, false
			}
		default:
			begun, word = true, append(word, r)
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	case escaped:
		return nil, errors.New("it ends in a backslash")
	case begun:
		list = append(list, string(word))
	}
	return list, nil
}

// program is the one that an evaluator names.
func (j *Judge) program(evaluator string) (Program, error) {
	if j == nil || len(j.programs) == 0 {
		return Program{}, fmt.Errorf("%w: evaluator %q: this generator knows no program: name it with --evaluator-program", ErrUnjudgeable, evaluator)
	}
	if p, ok := j.programs[strings.TrimPrefix(evaluator, ByProgram)]; ok {
		return p, nil
	}
	var known []string
	for name := range j.programs {
		known = append(known, ByProgram+name)
	}
	slices.Sort(known)
	return Program{}, fmt.Errorf("%w: evaluator %q is none of the programs that this generator knows: %s", ErrUnjudgeable, evaluator, strings.Join(known, ", "))
}

// request is what a program is told of an answer.
type request struct {
	ID        string `json:"id"` // of the task
	Question  string `json:"question"`
	Context   string `json:"context"`
	Target    string `json:"target"`
	Answer    string `json:"answer"`
	Reasoning string `json:"reasoning"`
}

// verdict is what it prints.
type verdict struct {
	Score    *float64     `json:"score"`
	Label    events.Label `json:"label"`
	Feedback string       `json:"feedback"`
}

// Bounds of what is read of a program.
const (
	maxOutput   = 1 << 20 // bytes
	maxLogged   = 2 << 10 // bytes of standard error, its end
	maxFeedback = 4000    // characters
	// farewell is how long its output may stay open after it has ended, by children that it left behind.
	farewell = 500 * time.Millisecond
)

var errTooMuch = errors.New("printed more than 1 MiB")

// ask has a program judge.
func (j *Judge) ask(ctx context.Context, p Program, t *events.Task, a Answer, log *zerolog.Logger) (events.Outcome, error) {
	by := ByProgram + p.Name
	select {
	case j.slots <- struct{}{}:
		defer func() { <-j.slots }()
	case <-ctx.Done():
		return events.Outcome{}, ctx.Err()
	}
	in, err := json.Marshal(request{t.ID, t.Question, t.Context, t.Target, a.Final, a.Reasoning})
	if err != nil {
		return events.Outcome{}, fmt.Errorf("ask evaluator %s: %w", by, err)
	}
	var said tail
	out, err := j.run(ctx, p, in, &said)
	if ctx.Err() != nil { // it was us
		return events.Outcome{}, ctx.Err()
	}
	var o events.Outcome
	if err == nil {
		o, err = parseVerdict(out)
	}
	if err != nil {
		log.Warn().Err(err).Str("evaluator", by).Str("task", t.ID).Str("stderr", said.String()).Msg("an evaluator failed")
		o = events.Outcome{Label: events.Unknown, Feedback: fmt.Sprintf("evaluator program %s: %s", p.Name, briefly(err.Error()))}
	}
	o.By = by
	return o, nil
}

// run is one run of a program; errors are for people. When it returns, nothing of the program runs any more, save for
// children that have left its process group.
func (j *Judge) run(ctx context.Context, p Program, in []byte, said *tail) ([]byte, error) {
	late := fmt.Errorf("timed out after %s", j.cfg.Timeout)
	ctx, stop := context.WithTimeoutCause(ctx, j.cfg.Timeout, late)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &head{full: func() { cancel(errTooMuch) }}
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, said
	cmd.WaitDelay = farewell
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil is all of ours
	}
	alone(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	endGroup(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // it is done, and children that it left were not
		err = nil
	}
	return out.text, err
}

func parseVerdict(out []byte) (events.Outcome, error) {
	v, err := func() (v verdict, err error) {
		dec := json.NewDecoder(bytes.NewReader(out))
		if err = dec.Decode(&v); err == nil && len(bytes.TrimSpace(out[dec.InputOffset():])) > 0 {
			err = errors.New("something stands behind it")
		}
		return v, err
	}()
	if err != nil {
		return events.Outcome{}, fmt.Errorf("printed no JSON object with a score: %w", err)
	}
	switch {
	case v.Score == nil && v.Label != events.Unknown:
		return events.Outcome{}, errors.New("printed no score")
	case v.Score == nil:
		v.Score = new(float64)
	case !(*v.Score >= 0 && *v.Score <= 1):
		return events.Outcome{}, fmt.Errorf("score: must be between 0 and 1, got %v", *v.Score)
	}
	switch v.Label {
	case "":
		v.Label = events.LabelOf(*v.Score)
	case events.Success, events.Partial, events.Failure, events.Unknown:
	default:
		return events.Outcome{}, fmt.Errorf("label: %q is none of success, partial, failure, unknown", v.Label)
	}
	return events.Outcome{Score: *v.Score, Label: v.Label, Feedback: events.Cut(v.Feedback, maxFeedback)}, nil
}

// head keeps what is written until that is too much.
type head struct {
	text []byte
	full func()
}

func (h *head) Write(p []byte) (int, error) {
	if len(h.text)+len(p) > maxOutput {
		h.full()
		return 0, errTooMuch
	}
	h.text = append(h.text, p...)
	return len(p), nil
}

// tail keeps the end of what is written.
type tail struct{ end []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	t.end = t.end[max(0, len(t.end)-maxLogged):]
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.end), "\uFFFD") }
