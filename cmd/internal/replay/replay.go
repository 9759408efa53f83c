// Package replay runs over a data set: it hands samples to the same workers as production, says which reflections are
// learned from together, measures how accuracy moves, and accounts for all of it.
//
// A run has a book of its own, and is a function of what the streams hold. Every step has an id that follows from the
// run, the epoch and the sample, so whoever takes up an interrupted run walks the same steps again: what is stored is
// not asked for a second time, and what is covered is not committed a second time. The bucket "runs" holds who is at
// work, which settings the run has, and how far it is.
//
//	step             id                                        done when                      again
//	a sample         task "e<epoch>/<sample>" in the run's book execution, or dead letter      skipped
//	its reflection   of the execution                          reflection, held; dead letter  skipped
//	a gathering      H("gather", book, epoch, window)          a delta covers it              skipped
//	                 at the end of an epoch, the uncovered reflections in windows "rest 0", "rest 1", …
//	a measurement    task "<set>@<version>/<sample>"           execution, or dead letter      skipped
//
// Offline, the tasks of a batch pin the playbook's version and their reflections are held, so that neither the number of
// workers nor their speed decides what is learned. Online, tasks are live traffic: they are answered with the newest
// playbook, and each window is learned from before the next is asked.
package replay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// Mode is the way to go over the samples.
type Mode string

// The modes.
const (
	Offline    Mode = "offline"    // epochs, in batches on one version
	Online     Mode = "online"     // one pass in the order of arrival: test, then learn
	Executions Mode = "executions" // no task is run: recorded executions are reflected on anew
)

// Config is what decides the outcome of a run; zero fields are defaults.
type Config struct {
	Mode   Mode
	Epochs int // passes over the training set; 1
	// Batch is how many samples are answered with one version of the playbook; 1 is the sequential loop of ACE. Online
	// it is the window; 15, as in ACE's online mode.
	Batch int
	// CurateEvery is how many samples the Curator is given together; the batch.
	CurateEvery int
	Rounds      int    // at a sample; 0 leaves it to the reflector
	Shuffle     bool   // every epoch in an order of its own, by Seed
	Seed        uint64 // of the orders
	// ValidateEvery asks the validation set after so many training samples, besides the end of every epoch; 0 is never.
	ValidateEvery int
	// Patience ends the run after so many measurements of the validation set without a better one; 0 is never.
	Patience int
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	c.Mode = cmp.Or(c.Mode, Offline)
	c.Epochs = max(c.Epochs, 1)
	if c.Batch == 0 {
		c.Batch = 1
		if c.Mode == Online {
			c.Batch = 15
		}
	}
	if c.CurateEvery == 0 {
		c.CurateEvery = c.Batch
	}
	return c
}

// Validate names the flag of what cannot be.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	if c.Batch < 1 || c.Batch > events.MaxGather {
		errs = append(errs, fmt.Errorf("--batch: must be 1 to %d, got %d", events.MaxGather, c.Batch))
	}
	if c.CurateEvery < c.Batch || c.CurateEvery > events.MaxGather || c.CurateEvery%max(c.Batch, 1) != 0 {
		errs = append(errs, fmt.Errorf("--curate-every: must be a multiple of --batch (%d) up to %d, got %d", c.Batch, events.MaxGather, c.CurateEvery))
	}
	if c.ValidateEvery < 0 {
		errs = append(errs, fmt.Errorf("--validate-every: must be positive, got %d", c.ValidateEvery))
	}
	if c.Patience < 0 {
		errs = append(errs, fmt.Errorf("--patience: must be positive, got %d", c.Patience))
	}
	if c.Mode == Online && c.Epochs > 1 {
		errs = append(errs, fmt.Errorf("--epochs: a stream is gone over once, got %d", c.Epochs))
	}
	return errors.Join(errs...)
}

// Set is the samples of one file.
type Set struct {
	report.Data
	Tasks []events.Task
	// Stream, where it is set, gives the tasks as they arrive; only the training set of an online run has one.
	Stream <-chan events.Task
}

// Sets are what a run is over. Validation and Test may be nil.
type Sets struct{ Train, Validation, Test *Set }

// The names of sets.
const (
	Train      = "train"
	Validation = "validation"
	Test       = "test"
)

func (s Sets) each(yield func(*Set) bool) {
	for _, set := range []*Set{s.Train, s.Validation, s.Test} {
		if set != nil && !yield(set) {
			return
		}
	}
}

// Data describes the sets.
func (s Sets) Data() (all []report.Data) {
	for set := range s.each {
		all = append(all, set.Data)
	}
	return all
}

// Options are what does not decide the outcome.
type Options struct {
	Name     string
	Settings []report.Setting // of the command, for the report; part of what a run is
	From     string           // what the book is forked from, for people
	Debrief  string           // version of the program
	// Fork makes the run's book what it begins with, and returns its version. It may be called again after an
	// interruption. Nil begins with the empty playbook.
	Fork func(ctx context.Context) (version uint64, err error)
	// Source is the executions of a run over Executions.
	Source Source

	Progress func(Progress)        // called often; may be nil
	Point    func(report.Point)    // every measurement, once; may be nil
	Epoch    func(report.Epoch)    // every epoch; may be nil
	Waiting  func(waitsFor string) // nothing has moved for a while; may be nil
	// Skipped is called when a gathering leaves reflections for the next one; may be nil.
	Skipped func(reflections int, reason string)
}

// Progress is how far a run is.
type Progress struct {
	Phase   string       `json:"phase"`   // "epoch 2", "validation, step 200", "test, before"
	Done    int          `json:"done"`    // of the phase
	Total   int          `json:"total"`   // 0 where nobody knows
	Step    int          `json:"step"`    // training samples so far
	Samples int          `json:"samples"` // training samples of the whole run, 0 where nobody knows
	Usage   report.Usage `json:"usage"`
	Seconds float64      `json:"seconds"`
}

// run is a run at work.
type run struct {
	Config
	Sets
	Options

	book   playbook.Book
	store  *natskv.Store
	conn   *bus.Conn
	ledger *ledger
	state  *state
	follow *natskv.Follower

	logged     *logged
	operations []report.Operation
	forked     uint64 // version that the run began with

	left      []events.Handle // reflections that the Curator was to gather and the log does not cover
	asked     int             // edits that this process asked for
	fruitless int             // of those, gatherings in a row that covered nothing

	version uint64 // of the playbook, after the last gathering
	step    int    // training samples so far
	report  report.Report
	samples []report.Sample
	epoch   int
	best    report.Book
	bestAcc float64
	judged  bool // there was a validation
	worse   int  // measurements since the best
	began   time.Time
	phases  [2]time.Duration // learning, evaluating
}

// fingerprint tells runs apart that would come out differently.
func fingerprint(c Config, sets Sets, o Options) string {
	text, err := json.Marshal([]any{c.WithDefaults(), sets.Data(), o.Settings, o.From})
	if err != nil {
		panic(err) // these are plain structs
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// DefaultName is the name of a run that nobody has named: the same command is the same run.
func DefaultName(stem string, c Config, sets Sets, o Options) string {
	return stem + "-" + fingerprint(c, sets, o)[:8]
}

// Outcome is what a run has come to.
type Outcome struct {
	Report     *report.Report
	Samples    []report.Sample    // in the order in which they were asked
	Operations []report.Operation // what the Curator did and turned down in the run's book
}

// Go runs, or goes on with a run of this name that was interrupted.
func Go(ctx context.Context, conn *bus.Conn, c Config, sets Sets, o Options) (out *Outcome, err error) {
	c = c.WithDefaults()
	r := &run{
		Config: c, Sets: sets, Options: o, book: playbook.Book(o.Name), store: natskv.New(conn.JetStream()), conn: conn, began: time.Now(),
		logged: newLogged(),
	}
	if err := r.book.Validate(); err != nil {
		return nil, fmt.Errorf("name of the run: %w", err)
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	if r.state, err = take(ctx, conn.JetStream(), r, lost); err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if rerr := r.state.release(context.WithoutCancel(ctx), done); err == nil {
			err = rerr
		}
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
			err = cause
		}
	}()
	if r.ledger, err = openLedger(ctx, conn, r.book, r.Options); err != nil {
		return nil, err
	}
	defer r.ledger.close()
	switch {
	case r.state.over && r.streams():
		r.ledger.ended = &OtherError{r.Name, []string{"it has ended, after other samples than those of this stream"}}
	case r.state.over:
		r.ledger.ended = &ExpiredError{r.Name}
	}
	f, followed, err := r.store.Follow(r.ledger.ctx, r.book)
	if err != nil {
		return nil, err
	}
	r.follow = f
	defer func() { r.ledger.close(); followed() }()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	switch c.Mode {
	case Online:
		err = r.online(ctx)
	case Executions:
		err = r.executions(ctx)
	default:
		err = r.offline(ctx)
	}
	if err == nil {
		err = r.account(ctx)
	}
	if err != nil {
		return nil, err
	}
	done = true
	return &Outcome{Report: &r.report, Samples: r.samples, Operations: r.operations}, nil
}

// prepare forks the book.
func (r *run) prepare(ctx context.Context) error {
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

// order is the places of the training samples in an epoch.
func (r *run) order(epoch int) []int {
	places := make([]int, len(r.Train.Tasks))
	for i := range places {
		places[i] = i
	}
	if r.Shuffle {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(epoch)))
		rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	}
	return places
}

// taskID is the id of a sample in one phase of the run. One that would be too long gives way to a hash.
func taskID(phase, id string) string {
	if full := phase + "/" + id; len(full) <= 200 {
		return full
	}
	return phase + "/" + string(events.Hash("sample", id))
}

func epochPhase(epoch int) string { return fmt.Sprintf("e%03d", epoch) }
