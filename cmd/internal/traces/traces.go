// Package traces reads recorded runs of other agents as executions, so that a playbook learns from them without running
// the tasks again. It detects the format of each object from its fields, never from the file name. The table in formats.go
// lists the formats; the first one that matches an object is used:
//
//   - results of tau2-bench {simulations: [{task_id, messages, reward_info}]} and of tau-bench {task_id, trial, reward, traj};
//   - OpenHands: the events of a trajectory, and the outputs of its evaluation {instruction, history, …};
//   - SWE-agent trajectories (.traj): an object with trajectory[], history[] or both;
//   - Codex CLI rollouts and Gemini CLI sessions;
//   - Claude Code: the events of 'claude -p --output-format stream-json', and its transcripts. The events with one
//     session_id are a run. A result event ends the run; later events of the session start another run;
//   - OpenClaw sessions: events of type session and message. A session event starts a run;
//   - Langfuse traces and observations, LangSmith runs, and OpenTelemetry spans (OTLP in JSON, or as SDKs print them) with the
//     attributes of the GenAI conventions, OpenInference, the Vercel AI SDK or OpenLLMetry. A trace is a run;
//   - OpenAI Responses and chat, and Anthropic messages: {"messages": […]} as in fine-tuning files, or with request and
//     response as in request logs. If the objects are single messages, the whole file is one run;
//   - mini-SWE-agent and other agents whose actions stand in their text: a fenced command, tags, or "Action:" lines, with the
//     result in the next message;
//   - Dynamic Cheatsheet results: {input, target, steps, final_answer, …};
//   - executions, as printed by 'debrief submit --wait --json' or written by hand; see below;
//   - questions with answers and scores, in JSON or in a CSV table.
//
// A file holds one object per line (JSON Lines), JSON lists, objects over several lines, or several of these. A list of runs
// may be inside an object. The text may be in UTF-8 or UTF-16, compressed with gzip or zstd. In JSON Lines, an unreadable line
// is skipped and reported; for example, the last line is incomplete if the recorder crashed. Other bytes before the first
// brace of a line are skipped and reported too.
//
// # Content of an execution
//
// The first message of a user is the question. Each other turn of a user or an assistant is a step. Each tool call has its
// result. If the recorder did not store whether a call failed, the package detects it from the output. If it did not store
// whether the answer is right, and the file has a reference answer, the scorer of the source is used and named in the report.
//
// Each sub-agent is a separate run: the events of a sub-agent of Claude Code, and the model calls inside another agent of a
// trace. Their outcome is unknown.
//
// The package leaves out, and counts in Report.Omitted:
//
//   - system prompts and demonstrations: they instruct the recorded agent and are not its actions;
//   - thinking blocks: they quote those instructions;
//   - text that a harness adds as a user or an assistant, and events that are not turns of a conversation;
//   - reference answers that are recorded with a task: they would leak into the playbook. Only the outcome is kept.
//
// The package does not redact or publish anything.
//
// # Packages
//
// This package has the formats of agents and benchmarks, and the table of all formats. Package spans has those of observability
// tools. Both use package messages for the conversation, and package source for the file. Imports go only downwards: traces,
// spans, messages, source.
//
// # Executions
//
// A line in the execution format needs a question or a task_id, and steps or an answer:
//
//	{"task_id": "berth-7", "question": "A berth for the Tern?", "context": "", "session": "", "answer": "Berth 4",
//	 "steps": [{"speaker": "assistant", "text": "I look.", "tool_calls": [
//	     {"tool": "find_berth", "arguments": "{}", "output": "berth 4", "outcome": "success", "duration_ns": 1000}]}],
//	 "outcome": {"score": 1, "label": "success", "feedback": "", "by": "ann"}}
//
// The outcome can also be a label (success, partial, failure, unknown), a number from 0 to 1, or true or false. The outcome
// of a tool call is success, failure, timeout, error, or empty to read it from the output. Lines with the same task_id are attempts at one
// task. The fields purpose, target, reasoning, model, usage, started, duration_ns, origin.source and origin.task are read
// too. The fields on the use of a playbook (shown, cited, manifest, trials) are ignored, because they refer to another
// playbook.
//
// # Task ids
//
// The id of a run consists of the recorder's name for the run and a hash of its question, texts and calls. The file has no part in
// it: a copy in a renamed or overlapping file has the same id and counts once. The name of a task comes from the data too, so that
// attempts in several files are attempts at one task. A line in the execution format with an id is an execution of Debrief. It keeps
// its task id, and so its id.
//
// Sessions of Claude Code, Codex, Gemini CLI, OpenClaw and OpenHands have ids of messages. These are in the hash in place of the session's id
// and the outputs. A session that was resumed or forked in another file is read from its first new step on. A part of a
// session that another file has is left out.
package traces

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/spans"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/playbook"
)

// Limits of Read.
const (
	// maxRun is the maximum size of the JSON of one run, and of one line, in bytes. Larger ones are skipped and reported.
	maxRun = 16 << 20
	// maxOpen is the maximum number of unfinished runs whose lines are interleaved in a file. If there is one more, or if
	// the unfinished runs hold more than 1.5 × maxRun bytes, the run without a line for longest is ended.
	maxOpen = 64
	// maxProblems is the maximum number of problems, and of repairs, in a report. The counts include all of them.
	maxProblems = 100
)

// Report summarizes the reading of a file.
type Report struct {
	Source   string // format of the first run or part of a run, for example tau-bench
	Runs     int    // runs for which the callback was called
	Skipped  int    // runs, or lines of runs, that could not be read
	Repaired int    // lines that were read without the other bytes before the object
	Problems []Problem
	Repairs  []Problem
	Scorers  []string         // rules by which the package scored answers that were recorded without a score
	Omitted  source.Omissions // content that was left out of the runs
}

// Problem describes a line or element of a file that was skipped or repaired.
type Problem struct {
	Line   int // line number from 1; 0 in a JSON list
	Index  int // index of the element in a JSON list, from 0
	Reason string
}

// Where returns the position in the file, for example "line 3" or "element 2".
func (p Problem) Where() string {
	if p.Line > 0 {
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("element %d", p.Index)
}

func (p Problem) String() string { return p.Where() + ": " + p.Reason }

// Reader reads recorded runs as executions of a playbook. A copy in another file that the same Reader read counts once. It is not safe for
// concurrent use.
type Reader struct {
	Book playbook.Book
	// Outcomes has the outcomes of runs that were recorded without one. Nil has none.
	Outcomes *Outcomes
	// Known reports whether a run is stored. A run that continues a stored one is read from there on. Nil knows none.
	Known func(events.ID) bool

	seen recordedRuns // the runs read so far, in all files
}

// Read calls fn for each run in r, in the order in which the runs end in the file. Its memory is bounded for a file of any
// length. The name is the file name; only outcomes of a separate file refer to it. A line or
// element that cannot be read is reported as a Problem, and Read continues with the next one. It ends with an error after 1 GB or a
// million unreadable lines or elements in a row. An error of fn ends Read, which wraps it. The report is valid also if Read returns an error.
func (r *Reader) Read(ctx context.Context, name string, in io.Reader, fn func(*events.Execution) error) (Report, error) {
	f := fileReader{book: r.Book, known: r.Known, seen: &r.seen, outcomes: r.Outcomes, base: source.BaseName(name), limit: maxRun, fn: fn}
	err := f.readFile(ctx, in)
	return f.report, err
}

// Read calls Reader.Read without outcomes.
func Read(ctx context.Context, book playbook.Book, name string, in io.Reader, fn func(*events.Execution) error) (Report, error) {
	return (&Reader{Book: book}).Read(ctx, name, in, fn)
}

// fileReader reads one file.
type fileReader struct {
	book      playbook.Book
	outcomes  *Outcomes
	known     func(events.ID) bool // nil knows none
	seen      *recordedRuns        // nil keeps none
	base      string               // see baseName
	limit     int                  // maxRun, or less in tests
	fn        func(*events.Execution) error
	openRuns  []*openRun     // in the order of their first parts
	partCount int            // number of parts read so far
	header    *source.Object // fields of the current container
	sessions  map[*format]func(*source.Object) string
	since     futile
	leftOut   bool // a run was left out as known: the file is not one without runs
	report    Report
}

// position is the position of an object in the file: a Problem without a reason.
type position = Problem

func (f *fileReader) addProblem(at position, err error) {
	if nothing, ok := errors.AsType[*spans.NothingError](err); ok {
		f.omit(source.Omissions{nothing.Kind: nothing.Count})
		f.leftOut = f.leftOut || nothing.Kind == source.HarnessMessages
		return
	}
	f.report.Skipped++
	f.since.problems++
	if at.Reason = err.Error(); len(f.report.Problems) < maxProblems {
		f.report.Problems = append(f.report.Problems, at)
	}
}

func (f *fileReader) addRepair(at position, what string) {
	f.report.Repaired++
	if at.Reason = what; len(f.report.Repairs) < maxProblems {
		f.report.Repairs = append(f.report.Repairs, at)
	}
}

// contentSum returns the hash of what a run says and does. A copy in another file, or with other white space or fields, has the same one.
// A run without calls and text has the hash of its source.
func contentSum(e *events.Execution, source []byte) []byte {
	if len(e.Steps) == 0 && e.Answer == "" {
		return source
	}
	h := sha256.New()
	writeParts(h, e.Question, e.Context, e.Session, e.Answer)
	for i := range e.Steps {
		step := &e.Steps[i]
		writeParts(h, "step", step.Speaker, step.Text)
		for j := range step.Calls {
			c := &step.Calls[j]
			writeParts(h, "call", c.Tool, c.Arguments, c.Output)
		}
	}
	return h.Sum(nil)[:16]
}

// emit sets the ids of a run and calls fn. The error problem reports an invalid run; the error end is that of fn.
func (f *fileReader) emit(format *format, r *steps.Run, sum []byte, at position) (problem, end error) {
	e := r.Execution
	e.Book = f.book
	chain := stepChain(e, r.IDs)
	switch {
	case r.HasRunID:
	case chain != nil:
		if e.RunID = chain.runID(format, len(chain)-1); f.leaveOut(format, r, chain) {
			return nil, nil
		}
	default:
		id, tail := format.source, hex.EncodeToString(contentSum(e, sum))
		if r.Name != "" {
			id += "/" + r.Name
		}
		e.RunID = source.Shorten(id, 256-1-len(tail)) + "/" + tail
	}
	if r.Task != "" {
		e.Origin.Task = source.Shorten(format.source+"/"+r.Task, 256)
	}
	e.ID = events.ExecutionID(f.book, "", e.RunID, e.Origin.Round)
	e.Origin.Source = cmp.Or(e.Origin.Source, format.source)
	e.Origin.Index = max(at.Index, at.Line)
	if f.outcomes != nil {
		file := ""
		if format.byFile && r.Name == "" {
			file = f.base
		}
		f.outcomes.apply(e, file, r.Name)
	}
	if err := e.Validate(); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")), nil
	}
	if err := f.fn(e); err != nil {
		return nil, err
	}
	f.seen.add(chain)
	f.since = futile{}
	f.report.Runs++
	if len(r.Omitted) > 0 {
		f.omit(r.Omitted)
	}
	if r.Scorer != "" && !slices.Contains(f.report.Scorers, r.Scorer) {
		f.report.Scorers = append(f.report.Scorers, r.Scorer)
	}
	return nil, nil
}
