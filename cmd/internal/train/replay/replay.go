// Package replay runs a data set through the same workers as production. It decides from which reflections the Curator learns
// together, measures accuracy over time, and reports every sample and its cost.
//
// A run has its own playbook. A window is a batch of its samples. The run learns from each window before it submits the next one:
//
//   - Offline, the tasks of a window pin the version of the playbook. Their reflections are held: the Curator applies them only in a gathering,
//     one edit for all reflections of the window. So the number and the speed of the workers do not change the result. All tasks of a window
//     are submitted together, so that reflectors work while generators still answer.
//   - Online, tasks are live traffic: they are answered with the newest playbook, and their reflections are applied as they arrive.
//
// A process that resumes an interrupted run repeats its steps, with the same ids. It does not request a step again whose result is stored. The
// state of a run is in the streams; the bucket "runs" has only its owner, its settings and its progress.
//
//	step             id                                                   result
//	a sample         task "e<epoch>/<sample>" in the run's playbook       an execution, or a dead letter
//	its reflection   that of the execution                                a reflection, or a dead letter
//	a gathering      hash of "gather", playbook, epoch and window         a delta that covers it
//	                 (at the end of an epoch, skipped reflections are gathered in windows "rest 0", "rest 1", …)
//	a measurement    task "<set>@<version>/<sample>"                      an execution, or a dead letter
//
// A delta covers a reflection or an edit if it records its effect, which may be none.
package replay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// Mode selects how the samples are processed.
type Mode string

// The modes.
const (
	Offline    Mode = "offline"    // epochs, in batches on one version
	Online     Mode = "online"     // one pass in the order of arrival: score each window, then learn from it
	Executions Mode = "executions" // no task is run: recorded executions are reflected on again
)

// Config holds the settings that decide the result of a run. Zero fields mean the defaults.
type Config struct {
	Mode   Mode
	Epochs int // passes over the training set; default 1
	// Batch is the number of samples answered with one version of the playbook. The Curator learns from them together. The
	// default is 1, the sequential loop of ACE. Online the default is 15, as in ACE's online mode.
	Batch   int
	Rounds  int    // maximum number of rounds for each sample; 0 leaves it to the reflector
	Tries   int    // maximum number of answers to a training sample, until two have different outcomes; 0 means one
	Shuffle bool   // another order in every epoch, derived from Seed
	Seed    uint64 // of the shuffled orders
	// ValidateEvery measures the validation set after this number of training samples, in addition to the end of
	// every epoch. 0 disables it.
	ValidateEvery int
	// Patience ends the run after this number of validations in a row without a better result. 0 disables it.
	Patience int
	// SnapshotEvery names the version of the playbook after this number of training samples: step-50, step-100, … The names
	// are given at the end of the run. 0 disables it.
	SnapshotEvery int
}

// withDefaults replaces zero fields by their defaults.
func (c Config) withDefaults() Config {
	c.Mode = cmp.Or(c.Mode, Offline)
	c.Epochs = max(c.Epochs, 1)
	if c.Batch == 0 {
		c.Batch = 1
		if c.Mode == Online {
			c.Batch = 15
		}
	}
	return c
}

// Validate returns an error for each invalid field. The errors name the flags.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Batch < 1 || c.Batch > events.MaxGather {
		errs = append(errs, fmt.Errorf("--batch: must be 1 to %d, got %d", events.MaxGather, c.Batch))
	}
	if c.Tries < 0 || c.Tries > events.MaxTries {
		errs = append(errs, fmt.Errorf("--tries: must be 0 to %d, got %d", events.MaxTries, c.Tries))
	}
	if c.Tries > 1 && c.Mode == Executions {
		errs = append(errs, errors.New("--tries: --executions runs no tasks: remove one of them"))
	}
	for _, f := range []struct {
		flag  string
		value int
	}{{"validate-every", c.ValidateEvery}, {"snapshot-every", c.SnapshotEvery}, {"patience", c.Patience}} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("--%s: must be at least 0, got %d", f.flag, f.value))
		}
	}
	if c.Mode == Online && c.Epochs > 1 {
		errs = append(errs, fmt.Errorf("--epochs: must be 1 in online mode, got %d", c.Epochs))
	}
	return errors.Join(errs...)
}

// Window returns the number of samples in a window.
func (c Config) Window() int { return c.withDefaults().Batch }

// Expected returns the number of answers to learn from, and of answers that measure. A run that ends early has fewer.
func (c Config) Expected(sets Sets) (learned, measured int) {
	c = c.withDefaults()
	if sets.Train == nil {
		return 0, 0
	}
	samples := len(sets.Train.Tasks)
	learned = c.Epochs * samples
	if sets.Validation != nil {
		points := 1 + c.Epochs // before the first epoch and after each
		measured += (points + c.validationsInside(samples)) * len(sets.Validation.Tasks)
	}
	if sets.Test != nil {
		measured += 2 * len(sets.Test.Tasks) // before and after the run
	}
	return learned, measured
}

// validationsInside returns the number of validations inside the epochs, which are due only at the end of a window. The last window of an epoch
// does not count, because each epoch ends with a validation.
func (c Config) validationsInside(samples int) (n int) {
	for epoch := range c.Epochs {
		for done := c.Batch; done < samples; done += c.Batch {
			if isDue(c.ValidateEvery, epoch*samples+done, c.Batch) {
				n++
			}
		}
	}
	return n
}

// isDue reports whether the last samples of a run reached or passed a multiple of every, so that work which is done each time is due. step counts
// all samples of the run so far. isDue returns false if every is 0.
func isDue(every, step, lastSamples int) bool {
	return every > 0 && step/every > (step-lastSamples)/every
}

// Set holds the samples of one file.
type Set struct {
	report.Data
	Tasks []events.Task
}

// Sets are the data sets of a run. Validation and Test may be nil.
type Sets struct{ Train, Validation, Test *Set }

// The names of sets.
const (
	Train      = "train"
	Validation = "validation"
	Test       = "test"
)

// Data returns the description of each set.
func (s Sets) Data() []report.Data {
	all := []report.Data{}
	for _, set := range []*Set{s.Train, s.Validation, s.Test} {
		if set != nil {
			all = append(all, set.Data)
		}
	}
	return all
}

// Options are the other settings of a run. Those of the fingerprint decide whether a run of the same name can be resumed.
type Options struct {
	Name     string
	Settings []report.Setting // of the command, for the report; part of the fingerprint
	From     string           // source of the fork, for people; part of the fingerprint
	Debrief  string           // version of the program
	Model    string           // the model that must answer the tasks; empty accepts any model
	// Fork creates the run's playbook and returns its version. It may be called again after an interruption. Nil
	// starts with the empty playbook.
	Fork func(ctx context.Context) (version uint64, err error)
	// Source describes the recorded executions of a run in the mode Executions.
	Source Source

	// OnEvent is called often, from several goroutines. Nil disables it.
	OnEvent func(Event)
}

// Event is an event of a run. Exactly one of Progress, Point, Epoch, WaitsFor and Reflections is set.
type Event struct {
	Event    string        `json:"event"` // "progress", "point", "epoch", "waiting", "skipped"
	Run      string        `json:"run"`   // its name
	Progress *Progress     `json:"progress,omitempty"`
	Point    *report.Point `json:"point,omitempty"` // a measurement
	Epoch    *report.Epoch `json:"epoch,omitempty"`
	WaitsFor string        `json:"waits_for,omitempty"` // the role that has had no result for 5 s
	// Reflections is the number of reflections that a gathering left for the next one. Reason is the reason.
	Reflections int    `json:"reflections,omitempty"`
	Reason      string `json:"reason,omitempty"`
}

// send passes an event on.
func (o *Options) send(e Event) {
	if o.OnEvent != nil {
		e.Run = o.Name
		o.OnEvent(e)
	}
}

// stallTime is the time without any change after which a run reports the role that it waits for.
const stallTime = 5 * time.Second

// sendStall reports that a role has no result, for example because its model is slow, or because no worker runs.
func (o *Options) sendStall(role string) { o.send(Event{Event: "waiting", WaitsFor: role}) }

// Progress is the progress of a run in an Event.
type Progress struct {
	Phase   string       `json:"phase"`   // "epoch 2", "validation, step 200", "test, before"
	Done    int          `json:"done"`    // complete in this phase
	Total   int          `json:"total"`   // of this phase
	Step    int          `json:"step"`    // training samples so far
	Samples int          `json:"samples"` // training samples of the whole run; 0 in the mode Executions
	Usage   report.Usage `json:"usage"`
	Seconds float64      `json:"seconds"`
}

// position is the place of a run in its training, and its playbook there.
type position struct {
	epoch   int
	step    int    // training samples so far
	version uint64 // of the playbook, after the last gathering
}

// run is a run in this process. Each file of the package has the methods of one subject.
type run struct {
	Config
	Sets
	Options

	conn      *bus.Conn
	store     *deltalog.Store
	book      playbook.Book
	state     *state
	follow    *deltalog.Follower // shows which version is visible to generators
	log       *bookLog
	tracker   *tracker
	submitter *submitter

	position                 // in this process
	total       int          // training samples of all epochs; 0 in the mode Executions
	forked      uint64       // version after the fork; 0 without one
	sourceUsage report.Usage // of the generators on the source playbook

	edits     int             // edits that this process requested
	uncovered []events.Handle // reflections that earlier gatherings skipped, oldest first
	fruitless int             // gatherings in a row in which the Curator's model gave no usable reply

	best         report.Book // chosen by the validations; without any, the final playbook, from the end of the training on
	bestAccuracy float64     // on the validation set
	validated    bool        // a validation had an accuracy
	sinceBest    int         // validations since the best one

	report  report.Report
	samples []report.Sample
	answers []*answer // of the samples; nil for a lost one
	began   time.Time

	learning, evaluating time.Duration
}

// fingerprint returns a hash of the settings and data that decide the result of a run.
func fingerprint(c Config, sets Sets, o Options) string {
	text, err := json.Marshal([]any{c.withDefaults(), sets.Data(), o.Settings, o.From})
	if err != nil {
		panic(err) // these are plain structs
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// DefaultName returns the name of a run without a --name. The same command gives the same name.
func DefaultName(stem string, c Config, sets Sets, o Options) string {
	return stem + "-" + fingerprint(c, sets, o)[:8]
}

// Result is the result of a run.
type Result struct {
	Report     *report.Report
	Samples    []report.Sample            // in the order of submission
	Operations []report.Operation         // operations of the Curator in the run's book, applied or rejected
	BulletUses iter.Seq[report.BulletUse] // the bullets of each sample, in the order of Samples
}

// Run runs a run, or resumes an interrupted run of the same name. After the end of the run, it returns the result again.
func Run(ctx context.Context, conn *bus.Conn, c Config, sets Sets, o Options) (out *Result, err error) {
	store, book := deltalog.New(conn.JetStream()), playbook.Book(o.Name)
	if err := book.Validate(); err != nil {
		return nil, fmt.Errorf("invalid run name: %w", err)
	}
	r := &run{
		Config: c.withDefaults(), Sets: sets, Options: o, conn: conn, store: store, book: book, log: newBookLog(store, book),
		report: report.New(), began: time.Now(),
	}
	if r.Train != nil {
		r.total = len(r.Train.Tasks) * r.Epochs
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.state, err = acquire(ctx, conn.JetStream(), r, cancel); err != nil {
		return nil, err
	}
	defer func() {
		if releaseErr := r.state.release(context.WithoutCancel(ctx), out != nil); err == nil {
			err = releaseErr
		}
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
			err = cause
		}
	}()
	if r.submitter, err = openSubmitter(ctx, conn, book, o); err != nil {
		return nil, err
	}
	r.tracker = r.submitter.tracker
	defer r.tracker.close()
	if r.state.ended { // it submits no task: a task without a stored result gets this error
		r.submitter.refusal = &ExpiredError{o.Name}
	}
	follow, stopFollowing, err := store.Follow(r.tracker.ctx, book)
	if err != nil {
		return nil, err
	}
	r.follow = follow
	defer func() {
		r.tracker.close() // first, because its context ends the follower
		stopFollowing()
	}()
	if err := r.fork(ctx); err != nil {
		return nil, err
	}
	switch r.Mode {
	case Online:
		err = r.runOnline(ctx)
	case Executions:
		err = r.runExecutions(ctx)
	default:
		err = r.runOffline(ctx)
	}
	if err != nil {
		return nil, err
	}
	operations, err := r.summarize(ctx)
	if err != nil {
		return nil, err
	}
	return &Result{Report: &r.report, Samples: r.samples, Operations: operations, BulletUses: r.bulletUses}, nil
}

// fork creates the playbook of a run that does not begin with an empty one.
func (r *run) fork(ctx context.Context) error {
	if r.Fork == nil {
		return nil
	}
	v, err := r.Fork(ctx)
	if err != nil {
		return fmt.Errorf("fork %s: %w", r.From, err)
	}
	r.forked, r.version = v, v
	return r.follow.Wait(ctx, v)
}

// taskID returns the task id of a sample in one phase of the run. It hashes a sample id that is too long.
func taskID(phase, id string) string {
	if full := phase + "/" + id; len(full) <= 200 {
		return full
	}
	return phase + "/" + string(events.Hash("sample", id))
}
