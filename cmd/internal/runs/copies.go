package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"

	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
)

// A resumed or forked session is a copy of another one in a new file, with a new id of the session and the ids of the messages, and goes
// on. A snapshot of a session is its beginning. Each step counts once: the copy is read from the first new step on, in the order of
// the files.

// prefixHash identifies the steps of a run up to one of them: question, texts, calls and the ids of the recorder. It is zero without an id.
type prefixHash [16]byte

// prefixes holds the hash of each prefix of a run. The last one identifies the run.
type prefixes []prefixHash

// stepChain returns the prefixes of a run, or nil if the recorder has no ids: equal runs of one task are then several runs. The outputs of
// calls have no part in it: the recording can end before them.
func stepChain(e *events.Execution, ids []string) prefixes {
	if len(ids) != len(e.Steps) {
		return nil
	}
	chain, identified := make(prefixes, len(ids)), false
	h := sha256.New()
	writeParts(h, e.Question, e.Context)
	for i := range e.Steps {
		step := &e.Steps[i]
		writeParts(h, "step", step.Speaker, step.Text, ids[i])
		for j := range step.Calls {
			writeParts(h, "call", step.Calls[j].Tool, step.Calls[j].Arguments)
		}
		if identified = identified || ids[i] != ""; identified {
			copy(chain[i][:], h.Sum(nil))
		}
	}
	if !identified {
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
func (p prefixes) runID(known *format, i int) string {
	return known.source + "/" + hex.EncodeToString(p[i][:])
}

// recordedRuns holds the prefixes of the runs that were read. The value is true for a whole run.
type recordedRuns struct{ prefixes map[prefixHash]bool }

// maxPrefixes is the maximum number of prefixes. If there are more, the runs so far are forgotten, and their copies count again.
const maxPrefixes = 1 << 20

func (r *recordedRuns) add(chain prefixes) {
	if r == nil || len(chain) == 0 {
		return
	}
	if r.prefixes == nil || len(r.prefixes)+len(chain) > maxPrefixes {
		r.prefixes = map[prefixHash]bool{}
	}
	for i, p := range chain {
		r.prefixes[p] = r.prefixes[p] || i == len(chain)-1
	}
}

// has reports whether a run with the prefix was read, and whether the prefix is the whole run.
func (r *recordedRuns) has(p prefixHash) (read, whole bool) {
	if r == nil || p == (prefixHash{}) {
		return false, false
	}
	whole, read = r.prefixes[p]
	return read, whole
}

// leaveOut reports whether a run is the beginning of another one. If another run is the beginning of this one, it removes that.
func (f *fileReader) leaveOut(known *format, r *steps.Run, chain prefixes) bool {
	stored := func(i int) bool {
		return f.known != nil && chain[i] != (prefixHash{}) && f.known(events.ExecutionID(f.book, "", chain.runID(known, i), r.Origin.Round))
	}
	last := len(chain) - 1
	if _, whole := f.seen.has(chain[last]); whole || stored(last) { // the same run: the caller counts it once
		return false
	}
	for i := last; i >= 0; i-- {
		if read, _ := f.seen.has(chain[i]); !read && !stored(i) {
			continue
		}
		f.omit(source.Omissions{source.Copies: 1})
		f.leftOut = true
		continueAfter(&r.Execution, i+1)
		return !slices.ContainsFunc(r.Steps, func(s events.Step) bool { return s.Speaker == "assistant" })
	}
	return false
}

// continueAfter removes the first n steps of a run. The next message of the user is the question, else the last one before. Tokens and
// duration are those of the whole session, so they are removed too.
func continueAfter(e *events.Execution, n int) {
	before, rest := e.Steps[:n], e.Steps[n:]
	for i := range before {
		if before[i].Speaker == "user" {
			e.Question = before[i].Text
		}
	}
	if len(rest) > 0 && rest[0].Speaker == "user" {
		e.Question, rest = rest[0].Text, rest[1:]
	}
	says := func(list []events.Step) bool {
		return slices.ContainsFunc(list, func(s events.Step) bool { return s.Speaker == "assistant" && s.Text == e.Answer })
	}
	if says(before) && !says(rest) {
		e.Answer = ""
	}
	if len(rest) > 0 && !rest[0].At.IsZero() {
		e.Started = rest[0].At
	}
	e.Steps, e.Usage, e.Duration = rest, chat.Usage{}, 0
}
