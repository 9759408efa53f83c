package capture

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/blob"
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
	Caller  events.Caller // zero for clients without tokens. A call never finds runs of other owners
	User    string        // the person that the agent works for; optional
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
func (c *Call) owns(owner string) bool { return c.Caller.Owner == owner }

// Block is the advice that is inserted into the user item of a run. It is stored in the run.
type Block struct {
	Text      string              `msgpack:"t,omitempty" redact:"-"` // empty: an experiment withholds all bullets
	ContextID events.ID           `msgpack:"c,omitempty" redact:"-"`
	Version   uint64              `msgpack:"v,omitempty"` // of the playbook
	Bullets   []playbook.BulletID `msgpack:"b,omitempty" redact:"-"`
	Lines     []events.AdviceLine `msgpack:"l,omitempty" redact:"-"` // the learned texts in Text
	Control   bool                `msgpack:"h,omitempty"`            // the session is in the control group: Text is empty
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

const (
	Begun     Result = "begun"     // a run
	Continued Result = "continued" // a call continued a run, or repeated a call
	Reported  Result = "reported"  // a run
	Dropped   Result = "dropped"   // a run without a complete reply, or with an invalid report
	Lost      Result = "lost"      // a call that could not be stored: its run lacks it
	Ambiguous Result = "ambiguous" // a call that may belong to several runs: it began a run of its own
	Refused   Result = "refused"   // a run that was not begun, because too many are open
)

const defaultIdle = 10 * time.Minute // default of Config.Idle

// Store keeps the runs of one account. It is safe for concurrent use.
type Store struct {
	*server
	open, closed bucket
	blobs        *blob.Store // descriptions of agents
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
		server: server, open: bucket{server, events.BucketOpen}, closed: bucket{server, events.BucketCaptures}, blobs: blob.New(js),
		reporter: reporter, idle: cfg.Idle, log: cfg.Log, quota: newQuota(),
		recent: newRecent(), calls: inProcess{starts: map[string]int{}}, wake: make(chan events.ID, maxWake), count: cfg.Count,
	}
}
