// Package runs reads recorded runs of other agents as executions, so that a playbook learns from them without running
// the tasks again. It detects the format of each object from its fields, never from the file name. The table in formats.go
// lists the formats; the first one that matches an object is used. A session of an agent, a sample of a benchmark, and a trace of an
// observability tool are one run each. If the objects of a file are single messages, the whole file is one run.
//
// A file holds one object per line (JSON Lines), JSON lists, objects over several lines, or several of these. A list of runs
// may be inside an object. The text is in UTF-8, or in UTF-16 with a byte order mark, and may be compressed with gzip or zstd. The zip
// files of Inspect are read, too. In JSON Lines, an unreadable line is skipped and reported; for example, the last line is incomplete
// if the recorder crashed.
//
// # Content of an execution
//
// The first message of a user is the question. Each other turn of a user or an assistant is a step. Each tool call has its
// result. If the recorder did not store whether a call failed, the package detects it from the output.
//
// The system prompt and the tools of the agent describe the agent of the execution (events.Agent), if the recording has them. What a data set
// expects of a run is its target: the reference answer, the expected calls of tau-bench, the criteria of tau2-bench. Only the Reflector sees
// these, for a run that did not succeed.
//
// Each sub-agent is a separate run with an unknown outcome. Claude Code marks the events of a sub-agent; in a trace, the model calls
// inside the span of another agent are its run.
//
// The package leaves out:
//
//   - demonstrations: they instruct the recorded agent and are not its actions;
//   - thinking blocks: they quote those instructions;
//   - text that a harness adds as a user, as an assistant or, in the middle of a conversation, as the system;
//   - events that are not turns of a conversation.
//
// The package never publishes or runs anything. It replaces secrets only in an output that it cuts; all of them are replaced when a run is stored.
//
// # The walk of a recorded run
//
// This package has the formats, and their table. langfuse.go, langsmith.go and otel.go read the traces of observability tools: each reads a
// span as an observation, and observations.go makes a run of those of each agent. Imports go only downwards: runs, steps, modelapi, source.
//
//	source/open.go         Open         the text of the file: decompressed, as UTF-8
//	reader.go              readFile     its objects, one after the other; an unreadable one becomes a Problem
//	modelapi/value.go      Parse        the JSON of one object, with unchanged numbers and keys
//	formats.go             matchFormat  the format of the object, and its reader
//	open_runs.go           addPart      the lines of one run, if a file interleaves runs
//	modelapi/message.go                 a message of any API: text, calls, results
//	steps/conversation.go  AddItems     messages to steps, with results at their calls
//	outcomes.go                         the outcome of a separate file; package events/outcome reads those in the run
//	copies.go              leaveOut     what other files have already
//	reader.go              emit         the execution
//
// # Executions
//
// A line in the execution format needs a question or a task_id, and steps or an answer:
//
//	{"task_id": "berth-7", "question": "A berth for the Tern?", "context": "", "session": "", "user": "", "answer": "Berth 4",
//	 "steps": [{"speaker": "assistant", "text": "I look.", "tool_calls": [
//	     {"tool": "find_berth", "arguments": "{}", "output": "berth 4", "outcome": "success", "duration_ns": 1000}]}],
//	 "outcome": {"score": 1, "label": "success", "feedback": "", "by": "ann"}}
//
// The outcome can also be a label (success, partial, failure, unknown), a number from 0 to 1, or true or false. The outcome
// of a tool call is success, failure, timeout, error, or empty to read it from the output. Lines with the same task_id are attempts at one
// task. The fields purpose, target, agent, reasoning, model, usage, started, duration_ns and origin.task are read
// too. The fields on the use of a playbook (shown, cited, manifest, trials) are ignored, because they refer to another
// playbook. The field origin.source is ignored too: the source of a run is "file" with the format, such as file/codex.
//
// # Run ids
//
// The id of a run consists of the format, the recorder's name for the run, and a hash of its question, texts and calls. The id does not
// depend on the file: a copy in a renamed or overlapping file has the same id and counts once. The name of a task comes from the data
// too, so that attempts in several files are attempts at one task. A line in the execution format with an id is an execution of Debrief.
// Its run_id stays, so that the execution keeps its id.
//
// Sessions of Claude Code, Codex, Gemini CLI and OpenHands are resumed or forked in another file, under another session id. The ids of
// their messages stay. So the hash of such a run contains the ids of its messages, and neither the id of the session nor the outputs.
// Steps that another file has already are left out: a resumed or forked session is read from its first new step on.
package runs
