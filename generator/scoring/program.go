package scoring

import (
	"bytes"
	"cmp"
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
	"debrief/events/config"
	"debrief/events/shell"
)

// Config configures the evaluator programs and the judge. A zero field has its default.
type Config struct {
	Programs []Program     // the programs that tasks may name; default none
	Timeout  time.Duration // maximum duration of one run of a program; default 10 s
	Rubric   string        // of the evaluator judge; default chat.DefaultRubric
}

// WithDefaults returns c with defaults in its zero fields.
func (c Config) WithDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	return c
}

// Validate returns all invalid fields, joined. A missing command is an error.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var e config.Errors
	if c.Timeout <= 0 {
		e.Add("Timeout", "must be positive, got %s", c.Timeout)
	}
	seen := make(map[string]bool)
	for _, p := range c.Programs {
		if seen[p.Name] {
			e.Add("Programs", "duplicate name %s", p.Name)
		}
		seen[p.Name] = true
		if len(p.Command) == 0 {
			e.Add("Programs", "%s: empty command", p.Name)
		} else if _, err := exec.LookPath(p.Command[0]); err != nil {
			e.Add("Programs", "%s: %w", p.Name, err)
		}
	}
	return e.Join()
}

// Program is an outside evaluator. Name is its name in tasks, Command its file and arguments. It runs once for each
// answer, without a shell, and receives only PATH, HOME, LANG and TMPDIR from the environment.
//
// The program reads one JSON object from standard input: id, question, context, target, answer, reasoning. It prints
// one JSON object: score (0 to 1) and optionally label, feedback and violation.
type Program struct {
	Name    string
	Command []string
}

var programName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// UnmarshalText implements encoding.TextUnmarshaler: it reads NAME=COMMAND [ARGS…], with arguments quoted as in a shell. Nothing is expanded.
func (p *Program) UnmarshalText(text []byte) error {
	name, command, ok := strings.Cut(string(text), "=")
	if !ok || !programName.MatchString(name) {
		return fmt.Errorf("want NAME=COMMAND [ARGS…], NAME must consist of letters, digits, _ and -, got %q", text)
	}
	fields, err := shell.Split(command)
	if err == nil && len(fields) == 0 {
		err = errors.New("empty command")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*p = Program{name, fields}
	return nil
}

// findProgram returns the program that an evaluator names.
func (s *Scorer) findProgram(evaluator string) (Program, error) {
	if s == nil || len(s.programs) == 0 {
		return Program{}, fmt.Errorf("%w: evaluator %q: no programs configured", ErrNotScorable, evaluator)
	}
	if p, ok := s.programs[strings.TrimPrefix(evaluator, ByProgram)]; ok {
		return p, nil
	}
	var known []string
	for name := range s.programs {
		known = append(known, ByProgram+name)
	}
	slices.Sort(known)
	return Program{}, fmt.Errorf("%w: unknown evaluator %q: configured programs are %s", ErrNotScorable, evaluator, strings.Join(known, ", "))
}

// programInput is the JSON object that a program reads.
type programInput struct {
	ID        string `json:"id"` // of the task
	Question  string `json:"question"`
	Context   string `json:"context"`
	Target    string `json:"target"`
	Answer    string `json:"answer"`
	Reasoning string `json:"reasoning"`
}

// programOutput is the JSON object that a program prints.
type programOutput struct {
	Score     *float64     `json:"score"`
	Label     events.Label `json:"label"`
	Feedback  string       `json:"feedback"`
	Violation bool         `json:"violation"` // if it is true, the score may be missing
}

// Limits of the output of a program.
const (
	maxOutput   = 1 << 20 // bytes
	maxLogged   = 2 << 10 // bytes from the end of standard error
	maxFeedback = 4000    // characters
	// outputGrace is the maximum wait for the end of the output after the exit of a program. Its children can keep the output open.
	outputGrace = 500 * time.Millisecond
)

var errOutputTooLong = errors.New("printed more than 1 MiB")

// scoreWithProgram scores an answer with an outside program.
func (s *Scorer) scoreWithProgram(ctx context.Context, p Program, t *events.Task, a Answer, log *zerolog.Logger) (events.Outcome, error) {
	by := ByProgram + p.Name
	select {
	case s.slots <- struct{}{}: // wait until fewer than maxParallel programs run
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return events.Outcome{}, ctx.Err()
	}
	input, err := json.Marshal(programInput{
		ID: t.ID, Question: t.Question, Context: t.Context, Target: t.Target, Answer: a.Final, Reasoning: a.Reasoning,
	})
	if err != nil {
		return events.Outcome{}, fmt.Errorf("run evaluator %s: %w", by, err)
	}
	var stderr tailBuffer
	out, err := s.runProgram(ctx, p, input, &stderr)
	if ctx.Err() != nil { // canceled by the caller
		return events.Outcome{}, ctx.Err()
	}
	var o events.Outcome
	if err == nil {
		o, err = parseOutput(out)
	}
	if err != nil {
		log.Warn().Err(err).Str("evaluator", by).Str("task", t.ID).Str("stderr", stderr.String()).Msg("run evaluator program")
		o = events.Outcome{Label: events.Unknown, Feedback: fmt.Sprintf("evaluator program %s: %s", p.Name, shortText(err.Error()))}
	}
	o.By = by
	return o, nil
}

// runProgram runs a program once and returns its standard output. When it returns, no process of the program's group is running.
func (s *Scorer) runProgram(ctx context.Context, p Program, input []byte, stderr *tailBuffer) ([]byte, error) {
	timeout := fmt.Errorf("timed out after %s", s.cfg.Timeout)
	ctx, stop := context.WithTimeoutCause(ctx, s.cfg.Timeout, timeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &limitedBuffer{onFull: func() { cancel(errOutputTooLong) }}
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	cmd.WaitDelay = outputGrace
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would pass the whole environment
	}
	startProcessGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	killProcessGroup(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // the program has exited, but its children kept the output open
		err = nil
	}
	return stdout.text, err
}

// parseOutput returns the outcome that a program has printed.
func parseOutput(out []byte) (events.Outcome, error) {
	var v programOutput
	dec := json.NewDecoder(bytes.NewReader(out))
	err := dec.Decode(&v)
	if err == nil && len(bytes.TrimSpace(out[dec.InputOffset():])) > 0 {
		err = errors.New("unexpected data after the object")
	}
	if err != nil {
		return events.Outcome{}, fmt.Errorf("printed no JSON object with a score: %w", err)
	}
	switch {
	case v.Score == nil && v.Label != events.Unknown && !v.Violation:
		return events.Outcome{}, errors.New("printed no score")
	case v.Score == nil: // the score 0
		v.Score = new(float64)
	case !(*v.Score >= 0 && *v.Score <= 1):
		return events.Outcome{}, fmt.Errorf("score: must be between 0 and 1, got %v", *v.Score)
	}
	switch v.Label {
	case "":
		v.Label = events.LabelOf(*v.Score)
	case events.Success, events.Partial, events.Failure, events.Unknown:
	default:
		return events.Outcome{}, fmt.Errorf("label: want success, partial, failure or unknown, got %q", v.Label)
	}
	o := events.Outcome{Score: *v.Score, Label: v.Label, Feedback: events.TruncateChars(v.Feedback, maxFeedback), Violation: v.Violation}
	return o.Complete(), nil
}

// limitedBuffer stores output up to maxOutput bytes. For more output it calls onFull and returns errOutputTooLong.
type limitedBuffer struct {
	text   []byte
	onFull func()
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > maxOutput {
		b.onFull()
		return 0, errOutputTooLong
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// tailBuffer stores the last maxLogged bytes of the output.
type tailBuffer struct{ end []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	t.end = t.end[max(0, len(t.end)-maxLogged):]
	return len(p), nil
}

func (t *tailBuffer) String() string { return strings.ToValidUTF8(string(t.end), "\uFFFD") }
