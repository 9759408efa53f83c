package index

import (
	"sync"

	"debrief/events"
	"debrief/playbook"
	"debrief/reflector/rules"
)

// Errors has the errors of tools that the agents of a playbook repeat.
type Errors struct {
	Book    playbook.Book `json:"book"`
	Through uint64        `json:"through" doc:"Sequence of the last event that is counted."`
	Behind  uint64        `json:"behind" doc:"Number of stored sequences that are not counted yet; above 0 after a start."`
	Known   []rules.Known `json:"known_errors" doc:"Errors that agents met again in several runs and tasks, the most frequent first, at most 20. A report for people: they teach nothing."`
}

// knownErrors collects the errors of tools. It has its own lock, because an analysis takes longer than the rest of the index.
type knownErrors struct {
	mu    sync.Mutex
	books map[playbook.Book]*rules.Errors
}

func newKnownErrors() knownErrors { return knownErrors{books: map[playbook.Book]*rules.Errors{}} }

// add collects the errors of an execution.
func (k *knownErrors) add(e *events.Execution) {
	k.mu.Lock()
	defer k.mu.Unlock()
	collected := k.books[e.Book]
	if collected == nil {
		collected = rules.NewErrors()
		k.books[e.Book] = collected
	}
	collected.Add(e)
}

// replace takes the errors of another collection, which is not used afterwards.
func (k *knownErrors) replace(other *knownErrors) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.books = other.books
}

// Errors returns the errors of tools in a playbook. last is the last sequence of the stream.
func (x *Executions) Errors(b playbook.Book, last uint64) *Errors {
	_, seq := x.Range(&Filter{})
	x.errors.mu.Lock()
	defer x.errors.mu.Unlock()
	out := &Errors{Book: b, Through: seq, Behind: last - min(last, seq), Known: []rules.Known{}}
	if collected := x.errors.books[b]; collected != nil {
		out.Known = append(out.Known, collected.Known()...)
	}
	return out
}
