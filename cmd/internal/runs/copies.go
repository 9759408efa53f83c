package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"

	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
)

// Recordings can have the same steps. A session that was resumed or forked has a file of its own, which begins with a copy of the other
// session: the session has a new id, and the messages keep theirs. A snapshot of a session is its beginning. Each step counts once, in the
// order of the files:
//
//   - a run that is the beginning of an earlier one is left out;
//   - a run that begins like an earlier one is read from its first new step on;
//   - an equal run has the same id, so that the caller counts it once.

// prefixHash identifies the beginning of a run up to one of its steps: question, texts, calls and the ids of the recorder. It is zero if
// no step of the beginning has an id.
type prefixHash [16]byte

// prefixChain has one hash for each step of a run. The last one identifies the run.
type prefixChain []prefixHash

// newPrefixChain returns the chain of a run. It returns nil if the recorder has no ids, because equal runs can then be several attempts at
// one task. The hashes do not contain the outputs of calls, because a recording can end before the output of its last call.
func newPrefixChain(e *events.Execution, ids []string) prefixChain {
	if len(ids) != len(e.Steps) {
		return nil
	}
	chain := make(prefixChain, len(ids))
	hasID := false // one of the steps so far has an id
	h := sha256.New()
	writeParts(h, e.Question, e.Context)
	for i := range e.Steps {
		step := &e.Steps[i]
		writeParts(h, "step", step.Speaker, step.Text, ids[i])
		for j := range step.Calls {
			writeParts(h, "call", step.Calls[j].Tool, step.Calls[j].Arguments)
		}
		hasID = hasID || ids[i] != ""
		if hasID {
			copy(chain[i][:], h.Sum(nil))
		}
	}
	if !hasID {
		return nil
	}
	return chain
}

// writeParts writes texts to a hash, each with its length.
func writeParts(h hash.Hash, parts ...string) {
	for _, s := range parts {
		fmt.Fprintf(h, "%d:", len(s))
		_, _ = io.WriteString(h, s)
	}
}

// runID returns the id of the run that ends with step i.
func (p prefixChain) runID(format *fileFormat, i int) string {
	return format.source + "/" + hex.EncodeToString(p[i][:])
}

// recordedRuns holds the prefixes of the runs that were read. The value is true if the prefix is a whole run.
type recordedRuns struct{ prefixes map[prefixHash]bool }

// maxPrefixes is the maximum number of prefixes. If there are more, the runs so far are forgotten, and their copies count again.
const maxPrefixes = 1 << 20

// add adds the prefixes of a run.
func (r *recordedRuns) add(chain prefixChain) {
	if r.prefixes == nil || len(r.prefixes)+len(chain) > maxPrefixes {
		r.prefixes = map[prefixHash]bool{}
	}
	for i, p := range chain {
		r.prefixes[p] = r.prefixes[p] || i == len(chain)-1
	}
}

// hasPrefix reports whether a run with the prefix was read.
func (r *recordedRuns) hasPrefix(p prefixHash) bool {
	_, ok := r.prefixes[p]
	return ok && p != prefixHash{}
}

// leaveOut removes the steps at the beginning of a run that another recording has already. It reports whether the run is left out as a whole,
// because it has no new step of the assistant.
func (f *fileReader) leaveOut(format *fileFormat, r *steps.Run, chain prefixChain) bool {
	n := f.countCopied(format, r, chain)
	if n == 0 {
		return false
	}
	f.leftOut = true
	continueAfter(&r.Execution, n)
	return !slices.ContainsFunc(r.Steps, func(s events.Step) bool { return s.Speaker == "assistant" })
}

// countCopied returns the number of steps at the beginning of a run that an earlier or a stored run begins with. It returns 0 for a run that
// is equal to one of these: it has the same id, so the caller counts it once.
func (f *fileReader) countCopied(format *fileFormat, r *steps.Run, chain prefixChain) int {
	isStored := func(i int) bool {
		if f.Known == nil || chain[i] == (prefixHash{}) {
			return false
		}
		return f.Known(events.ExecutionID(f.Book, "", chain.runID(format, i), r.Origin.Round))
	}
	last := len(chain) - 1
	isEqual := f.seen.prefixes[chain[last]]
	if isEqual || isStored(last) {
		return 0
	}
	for i := last; i >= 0; i-- {
		if f.seen.hasPrefix(chain[i]) || isStored(i) {
			return i + 1
		}
	}
	return 0
}

// continueAfter removes the first n steps of a run. If the next step is a message of the user, it becomes the question; otherwise the
// last message of the user before does. Tokens and duration are removed, because they are those of the whole session.
func continueAfter(e *events.Execution, n int) {
	before, rest := e.Steps[:n], e.Steps[n:] // rest are the steps of the run from here on
	for i := range before {
		if before[i].Speaker == "user" {
			e.Question = before[i].Text
		}
	}
	if len(rest) > 0 && rest[0].Speaker == "user" {
		e.Question, rest = rest[0].Text, rest[1:]
	}
	hasAnswer := func(list []events.Step) bool {
		return slices.ContainsFunc(list, func(s events.Step) bool { return s.Speaker == "assistant" && s.Text == e.Answer })
	}
	if hasAnswer(before) && !hasAnswer(rest) {
		e.Answer = ""
	}
	if len(rest) > 0 && !rest[0].At.IsZero() {
		e.Started = rest[0].At
	}
	e.Steps = rest
	e.Usage = chat.Usage{}
	e.Duration = 0
}
