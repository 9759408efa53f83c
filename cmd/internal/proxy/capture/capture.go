// Package capture assembles the calls that agents make through the gateway into runs. A run is the work on one message of a
// user: one execution. The package keeps open runs in a key-value bucket and reports each of them once.
//
// # Runs
//
// A call that has no work behind its last user item begins a run. A call with work behind it continues an open run of the same owner
// and playbook. The run is found, in this order, by
//
//  1. the calls of tools in the last reply: their ids, names and arguments. Numbered ids, such as "find:0", also need the same
//     question, texts or named session
//  2. the session that the client names, together with the question
//  3. the texts of the conversation: those of the user and the model, without system prompt, reminders and results of tools
//
// If this finds several runs, the one with most in common with the call is chosen. If several are left, the call begins a run, which
// is counted as Ambiguous. Two equal calls are two runs. A repeated call replaces the reply of the first attempt. A run without any
// complete reply is dropped. A call that continues an unknown run begins a run in the middle.
//
// A run closes when the next user item of its conversation arrives, after an idle time, with feedback, or with an explicit outcome. If
// it waits for tools when that item arrives, it stays open for the idle time: the item may belong to a fork of the conversation. A call
// that continues a closed run is not captured, but gets the text of its block, so that the provider's prompt cache stays valid.
//
// # Storage
//
// Any number of gateways share the buckets, and each may die at any time. The first bucket has the open runs. It refuses new ones at
// its limit, and an owner has a quota of it. These are the keys:
//
//	o.<run>                  an open run: its calls, its block, the first small replies; changed by compare-and-swap
//	c.<run>.<call>.<attempt> the tool results and the reply of another call
//	r.<hash>.<owner>.<token> references to open runs of an owner: by first texts, named session and question, reply
//
// The second bucket has the closed runs:
//
//	d.<run>                  a closed run with its block and its handle, for 30 days
//	r.<hash>.<owner>.<token> references by first texts and last reply, for two days; by response, session, turn and trace, for 30 days
//
// Each change is safe with one key at a time. A call stores its parts before it is marked as complete in the run. To close a run, a
// gateway marks it, reports it, stores the closed run and deletes the open one: see close.go. Another gateway repeats these steps if
// the first one dies. The report has the id of the run, so repeated reports are one execution.
//
// Secrets in texts are redacted before they are stored, except in blocks, which must stay equal byte for byte.
package capture

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/natserr"
	"debrief/playbook"
)

// Reporter stores executions and feedback. It returns the same execution for reports with the same run id.
type Reporter interface {
	Report(ctx context.Context, r *events.Report) (*events.StoredReply, error)
	Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error)
}

// Call is a call of a model.
type Call struct {
	Owner   string // of the client's token; empty for clients without tokens. A call never finds runs of other owners
	Caller  events.Caller
	User    string // the person that the agent works for; optional
	Book    playbook.Book
	Session string // the client's name for the session; optional
	Task    string // the client's label for the task; optional
	Trace   string // the client's trace context (W3C Trace Context); an invalid one is ignored
	Request *modelapi.Request
	Retry   int  // number of this repetition, if the client marks repetitions; the first attempt has 0
	Inject  bool // the call may get the texts of blocks
	// Background is set if the model may reply later, to a request that polls for the response.
	Background bool
	At         time.Time
	// Outcome is the client's outcome of the run, which closes it after this call. It may be unknown.
	Outcome events.Outcome
}

// owns reports whether the call may find runs of an owner.
func (c *Call) owns(owner string) bool { return c.Owner == owner }

// Block is the text that is inserted into the user item of a run. It is stored in the run.
type Block struct {
	Text      string              `msgpack:"t,omitempty" redact:"-"` // empty: an experiment withholds all bullets
	ContextID events.ID           `msgpack:"c,omitempty" redact:"-"`
	Version   uint64              `msgpack:"v,omitempty"` // of the playbook
	Bullets   []playbook.BulletID `msgpack:"b,omitempty" redact:"-"`
	Lines     []events.AdviceLine `msgpack:"l,omitempty" redact:"-"` // the learned texts in Text
}

// Config contains the settings of a Store.
type Config struct {
	// Idle is the time after which a run without calls is closed; 0 is 10 minutes. A run that waits for the client's tools
	// or for a model stays open six times as long.
	Idle time.Duration
	// Count counts runs and calls by Result. Nil disables it. Calls may be concurrent.
	Count func(Result)
	Log   zerolog.Logger
}

// Result names a result of the Store, for a run or a call.
type Result string

// The results.
const (
	Begun     Result = "begun"     // a run
	Continued Result = "continued" // a call continued a run, or repeated a call
	Reported  Result = "reported"  // a run
	Dropped   Result = "dropped"   // a run without a complete reply, or with an invalid report
	Lost      Result = "lost"      // a call that could not be stored: its run lacks it
	Ambiguous Result = "ambiguous" // a call that may belong to several runs: it began a run of its own
	Refused   Result = "refused"   // a run that was not begun, because too many are open
)

// defaultIdle is the default of Config.Idle.
const defaultIdle = 10 * time.Minute

// Store keeps the runs of one account. It is safe for concurrent use.
type Store struct {
	*server
	open, closed bucket
	reporter     Reporter
	idle         time.Duration
	log          zerolog.Logger
	recent       recent
	calls        inProcess
	quota        *quota
	wake         chan events.ID // runs that Run closes
	count        func(Result)
}

// maxWake is the number of runs that wait for Run. Others wait for its next sweep.
const maxWake = 1024

// New returns a store for a connection. The buckets must exist. Call Run to close runs.
func New(nc *nats.Conn, js jetstream.JetStream, reporter Reporter, cfg Config) *Store {
	if cfg.Idle <= 0 {
		cfg.Idle = defaultIdle
	}
	if cfg.Count == nil {
		cfg.Count = func(Result) {}
	}
	server := &server{nc: nc, js: js, watch: natserr.WatchOf(js)}
	return &Store{
		server: server, open: bucket{server, events.BucketOpen}, closed: bucket{server, events.BucketCaptures},
		reporter: reporter, idle: cfg.Idle, log: cfg.Log, quota: newQuota(),
		recent: newRecent(), calls: inProcess{starts: map[string]int{}}, wake: make(chan events.ID, maxWake), count: cfg.Count,
	}
}
