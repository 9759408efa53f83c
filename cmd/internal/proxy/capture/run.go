package capture

import (
	"slices"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/playbook"
)

// run is the stored state of a run. Its calls are stored apart from it.
type run struct {
	ID      events.ID     `msgpack:"id" redact:"-"`
	Owner   string        `msgpack:"owner" redact:"-"`
	Caller  events.Caller `msgpack:"caller,omitempty" redact:"-"` // of the first call
	User    string        `msgpack:"user,omitempty" redact:"id"`
	Book    playbook.Book `msgpack:"book" redact:"-"`
	Session string        `msgpack:"session" redact:"id"`
	Named   bool          `msgpack:"named,omitempty"` // the client named the session
	Task    string        `msgpack:"task,omitempty" redact:"id"`
	Trace   string        `msgpack:"trace,omitempty" redact:"-"` // trace context of the first call

	// What the run began with, as hashes.
	Start    string   `msgpack:"start" redact:"-"`              // key of the texts of the conversation
	Exact    string   `msgpack:"exact" redact:"-"`              // the whole request
	Question string   `msgpack:"question,omitempty" redact:"-"` // the text of the turn
	System   string   `msgpack:"system" redact:"-"`             // the system prompt
	Slots    []string `msgpack:"slots,omitempty" redact:"-"`    // keys of the stored references to this beginning; see freeSlot

	Agent *events.Agent `msgpack:"agent,omitempty" redact:"-"` // as executions store it; of the first call

	TurnItem   int         `msgpack:"turn"`              // item index of the user's message
	TurnNumber int         `msgpack:"number,omitempty"`  // number of the turn in its conversation, from 1
	Block      *Block      `msgpack:"block,omitempty"`   // of an open run: stored apart
	Earlier    []placement `msgpack:"earlier,omitempty"` // of the blocks of the turns before this one, oldest first

	Attempts      []attempt `msgpack:"attempts,omitempty"`         // the last ones, one for each call
	Calls         int       `msgpack:"calls"`                      // number of calls
	Parts         []*part   `msgpack:"parts,omitempty" redact:"-"` // the first calls, if they are small; redacted before
	Started       time.Time `msgpack:"started"`
	Active        time.Time `msgpack:"active"`           // begin or end of the last call
	WaitsForTools bool      `msgpack:"waits,omitempty"`  // the last reply called tools
	Status        int       `msgpack:"status,omitempty"` // HTTP status of the last call that ended

	Outcome   events.Outcome  `msgpack:"outcome,omitempty"` // explicit
	Closing   time.Time       `msgpack:"closing,omitempty"` // when a gateway began to close the run
	NextBegan time.Time       `msgpack:"ended,omitempty"`   // when the next turn of the conversation, or of a fork of it, began
	Next      string          `msgpack:"next,omitempty"`    // the user's next message
	Tail      []modelapi.Item `msgpack:"tail,omitempty"`    // tool results that the client sent only with that message

	Closed bool          `msgpack:"closed,omitempty"`
	Handle events.Handle `msgpack:"handle,omitempty" redact:"-"` // of the execution; empty if the run was dropped
}

// state is the state of an attempt. Stored; append only.
type state uint8

const (
	inFlight state = iota
	complete
	incomplete // ended without a complete reply
)

// attempt is the last attempt at a call. The client, or its SDK, tries a failed call again.
type attempt struct {
	ID    string `msgpack:"id" redact:"-"` // random
	Call  int    `msgpack:"n"`             // number of the call, from 1
	After int    `msgpack:"a,omitempty"`   // number of the call whose reply it extends; 0 for none
	Try   int    `msgpack:"t"`             // number of the attempt, from 1
	State state  `msgpack:"s,omitempty"`
	Work  int    `msgpack:"w,omitempty"`            // number of items behind the turn in its request
	Reply string `msgpack:"r,omitempty" redact:"-"` // key of its reply
	// Chain has the texts of the request while its response is created in the background.
	Chain textChain `msgpack:"c,omitempty" redact:"-"`
}

// maxAttempts is the number of calls whose attempts a run keeps. It need not keep all: a call extends one of the last replies.
const maxAttempts = 16

// clone returns a copy that the caller may change.
func (r *run) clone() *run {
	c := *r
	c.Attempts, c.Parts = slices.Clone(r.Attempts), slices.Clone(r.Parts)
	return &c
}

// addAttempt adds a call that extends the reply of the call with the number after, or another attempt at such a call: see repeatedAttempt.
// A second addAttempt with the same id changes nothing. The argument work is attempt.Work. It returns errClosed if the run does not accept calls anymore.
func (r *run) addAttempt(id string, after, retry, work int, at time.Time) (attempt, error) {
	if a := r.attempt(id); a != nil {
		return *a, nil
	}
	if !r.isOpen() {
		return attempt{}, errClosed
	}
	r.Active = later(r.Active, at)
	// A turn that began meanwhile belongs to a fork, because this run goes on.
	r.NextBegan = time.Time{}
	r.Next, r.Tail = "", nil
	if a := r.repeatedAttempt(after, retry); a != nil {
		a.ID, a.Work = id, work
		a.State = inFlight
		a.Try++
		return *a, nil
	}
	r.Calls++
	a := attempt{ID: id, Call: r.Calls, After: after, Try: 1, Work: work}
	r.Attempts = append(r.Attempts, a)
	if n := len(r.Attempts) - maxAttempts; n > 0 {
		r.Attempts = slices.Delete(r.Attempts, 0, n)
	}
	return a, nil
}

// attempt returns the attempt with an id, or nil.
func (r *run) attempt(id string) *attempt {
	return r.firstAttempt(func(a *attempt) bool { return a.ID == id })
}

// attemptAt returns the attempt at a call, or nil.
func (r *run) attemptAt(call int) *attempt {
	return r.firstAttempt(func(a *attempt) bool { return a.Call == call })
}

func (r *run) firstAttempt(fits func(*attempt) bool) *attempt {
	for i := range r.Attempts {
		if fits(&r.Attempts[i]) {
			return &r.Attempts[i]
		}
	}
	return nil
}

// repeatedAttempt returns the attempt that a new call repeats, or nil. Of the attempts that extend the same reply, this is the first incomplete
// one. Without one, a call with retry > 0, which the client marks as a repetition, repeats the only such attempt. Several attempts, or
// more attempts than retry, are equal calls at the same time, and the new call is one more.
func (r *run) repeatedAttempt(after, retry int) *attempt {
	var first *attempt
	n := 0
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.After != after {
			continue
		}
		if a.State == incomplete {
			return a
		}
		first = a
		n++
	}
	if n == 1 && first.Try <= retry {
		return first
	}
	return nil
}

// endAttempt records the end of an attempt, with the key of its reply. The end of an earlier attempt at a repeated call changes only Active.
func (r *run) endAttempt(id, key string, reply *modelapi.Reply, status int, at time.Time) {
	r.Active = later(r.Active, at)
	a := r.attempt(id)
	if a == nil {
		return
	}
	r.Status = status
	if !reply.Complete() {
		a.State = incomplete
		return
	}
	a.State, a.Reply = complete, key
	a.Chain = ""
	r.WaitsForTools = reply.Finish == modelapi.FinishTools
}

// addPart adds a small call, or replaces it: a write can be repeated.
func (r *run) addPart(added *part) {
	r.Parts = append(slices.DeleteFunc(r.Parts, func(p *part) bool { return p.Call == added.Call && p.Try == added.Try }), added)
}

// isOpen reports whether calls may continue the run.
func (r *run) isOpen() bool { return !r.Closed && r.Closing.IsZero() }

// isBusy reports whether a call is in flight.
func (r *run) isBusy() bool {
	return slices.ContainsFunc(r.Attempts, func(a attempt) bool { return a.State == inFlight })
}

// lastReply returns the number of the last call with a complete reply, or 0.
func (r *run) lastReply() (n int) {
	for _, a := range r.Attempts {
		if a.State == complete {
			n = max(n, a.Call)
		}
	}
	return n
}

// isExtended reports whether a call that is in flight or complete extends the reply of a call.
func (r *run) isExtended(call int) bool {
	return slices.ContainsFunc(r.Attempts, func(a attempt) bool { return a.After == call && a.State != incomplete })
}

// isDue reports whether a sweep must close the run. A run that waits for tools or a model stays open longer, unless the next turn has
// begun.
func (r *run) isDue(now time.Time, idle time.Duration) bool {
	if !r.Closing.IsZero() {
		return now.Sub(r.Closing) > closingTimeout // the gateway that marked the run has died
	}
	waits := r.WaitsForTools || r.isBusy()
	if waits && r.NextBegan.IsZero() {
		idle *= waitingFactor
	}
	return now.Sub(later(r.Active, r.NextBegan)) > idle
}

const waitingFactor = 6 // ratio of the idle time of a run that waits, for example for a person who permits a command

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func openKey(id events.ID) string   { return "o." + string(id) }
func blockKey(id events.ID) string  { return "b." + string(id) }
func closedKey(id events.ID) string { return "d." + string(id) }
func partKey(id events.ID) string   { return "c." + string(id) }
