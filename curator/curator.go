// Package curator implements the Curator, the only role that changes playbooks. It reads reflections and edits from the
// stream REFLECTIONS and appends deltas to the log of each playbook. A delta contains operations and the reflections that
// support them. It also contains the rejected proposals, each with a reason code and a sentence.
//
// # Batches
//
// The worker receives up to Config.MaxBatch events of one playbook at a time. A batch is processed in three steps:
//
//  1. Propose (package propose). Votes are ready to commit. For lessons with new content a model proposes operations: one
//     request for a small batch, about √n requests for n reflections. Equal proposals of several groups are merged, and
//     conflicts are resolved by a further request or by the number of supporting reflections. Without a model, each new
//     lesson is proposed as a bullet.
//  2. Draft (package draft). A draft turns the proposals into operations against the current state of the playbook. It checks
//     duplicates, trust in the source, the token budget and the size limits of a delta, and records each rejection.
//  3. Commit (worker.go). The deltas are appended to the log. Items that do not fit in one delta are drafted again against
//     the new state. An edit gets its own delta, and so does a correction: a reflection on later feedback that moves votes.
//
// Batches of different playbooks are processed in parallel. One process handles a playbook in one batch at a time.
//
// # Commit protocol
//
// A delta is published with the expected last sequence of the playbook's subject (compare-and-swap). If another Curator
// was faster, the writer applies the other deltas and the draft is made again from the same proposals. No model is asked
// again. The delta names the events that it covers, and the draft skips every event that the log covers already. So an
// event has its effect once, even if it is delivered again or two Curators process it. If a commit returns an error, the
// delta may still be in the log; then the next delivery finds its event covered.
//
// A delivery is acknowledged only after its delta is in the log. Then the view, the key-value bucket that generators
// read, is brought to the version of the log at once. A failed flush does not fail the batch: a sweep every second compares
// views with their logs and repairs them (sweep.go).
//
// # Gate
//
// The gate decides from outcomes which bullets stay (package gate). With mode "guard", the default, a new bullet is shown at
// once, and withheld from a small random share of the tasks that it applies to. It retires if tasks with it fail more often
// than tasks without it. A proposal cannot change a bullet with a good record: the new text becomes a separate bullet that
// waits for a confirmation. With mode "strict", a new bullet is shown to a random half
// of the tasks that it applies to, until its record is good. With "off" every bullet is shown and outcomes are ignored.
package curator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"debrief/curator/draft"
	"debrief/curator/gate"
	"debrief/curator/propose"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/config"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// Config configures a Curator. A zero field has its default; see package config for the rules of all configurations.
type Config struct {
	Slots    int // playbooks that are processed in parallel; default 8
	MaxBatch int // maximum number of events in one batch of a playbook, at least 2; default 256

	MaxTokens int // maximum estimated tokens of all bullets of a playbook; default 80,000, -1 for no limit

	GateMode playbook.Gate // gate mode of playbooks whose mode is not set; default playbook.GateGuard
	Gate     gate.Config   // the experiments of the gate
	// Review is the review mode of playbooks whose mode no person has set; default playbook.ReviewOff.
	Review playbook.Review
	// Control is the control share of playbooks whose share no person has set, such as 5%; default playbook.ShareOff.
	Control playbook.Share
	// Trust has an entry SOURCE=LEVEL[:SHARE] for each source that is not fully trusted. LEVEL is trusted, limited or
	// untrusted. SHARE is the maximum percentage of a bullet's support from a limited source; the default is 50.
	// SOURCE agent also stands for agent/NAME. The source inferred stands for outcomes that nobody reported; its default is
	// limited:25.
	Trust    []string
	MaxBurst int // new bullets of a session or limited source in 10 minutes before quarantine; default 20, -1 for no limit

	// Instructions replace the default instructions of Generators and Reflectors. Content that repeats these or the default ones is
	// rejected.
	Instructions []string

	// Meter receives the metrics; nil disables them.
	Meter Meter
}

// WithDefaults returns the configuration with defaults in place of zero fields.
func (c Config) WithDefaults() Config {
	c.Slots = cmp.Or(c.Slots, 8)
	c.MaxBatch = cmp.Or(c.MaxBatch, 256)
	c.MaxTokens = cmp.Or(c.MaxTokens, draft.DefaultTokenBudget)
	c.GateMode = cmp.Or(c.GateMode, playbook.GateGuard)
	c.Review = cmp.Or(c.Review, playbook.ReviewOff)
	c.Control = cmp.Or(c.Control, playbook.ShareOff)
	c.MaxBurst = cmp.Or(c.MaxBurst, defaultBurst)
	c.Gate = c.Gate.WithDefaults()
	return c
}

// Validate returns all invalid fields, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var e config.Errors
	config.AtLeast(&e, "Slots", c.Slots, 1)
	config.AtLeast(&e, "MaxBatch", c.MaxBatch, 2)
	for _, f := range []struct {
		name  string
		value int
	}{{"MaxTokens", c.MaxTokens}, {"MaxBurst", c.MaxBurst}} {
		if f.value < -1 {
			e.Add(f.name, "must be at least 1, or -1 for no limit, got %d", f.value)
		}
	}
	if !c.GateMode.Valid() {
		e.Add("GateMode", "unknown mode %q: use off, guard or strict", c.GateMode)
	}
	if !c.Review.Valid() {
		e.Add("Review", "unknown mode %q: use first or off", c.Review)
	}
	if !c.Control.Valid() {
		e.Add("Control", "%s, got %q", playbook.ShareSyntax, c.Control)
	}
	e.Wrap("Gate", c.Gate.Validate())
	_, err := parseTrust(c.Trust)
	e.Wrap("Trust", err)
	return e.Join()
}

// policy returns the settings that the log of a playbook records, for Generators.
func (c Config) policy() (playbook.Policy, error) {
	sources, err := parseTrust(c.Trust)
	return playbook.Policy{Review: c.Review, Trust: sources, Control: c.Control}, err
}

// Curator changes playbooks. Use New to create one.
type Curator struct {
	model  chat.Model
	cfg    Config
	rules  *screen.Rules
	policy playbook.Policy
}

// New returns a Curator that asks the model for proposals. With a nil model, each lesson with new content becomes a bullet.
// It rejects content that repeats the instructions which roles send to models. New returns the error of [Config.Validate].
func New(model chat.Model, cfg Config) (*Curator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	policy, err := cfg.policy()
	if err != nil {
		return nil, err
	}
	rules := screen.NewRules(slices.Concat(chat.PromptTexts(), propose.Texts(), cfg.Instructions)...)
	return &Curator{model: model, cfg: cfg, policy: policy, rules: rules}, nil
}

// Run processes reflections and edits until ctx ends, and then waits for the batches in progress for the grace
// period of package bus. It returns nil, or an error if it cannot open its consumer. The roles of a process may share one Conn. To
// stop, cancel ctx, wait for Run, then close the connection.
func (c *Curator) Run(ctx context.Context, conn *bus.Conn) error {
	w := &worker{
		Curator: c, conn: conn, store: deltalog.New(conn.JetStream()), correctionWait: maxCorrectionWait,
		books: make(map[playbook.Book]*book),
	}
	w.store.Meter = c.cfg.Meter
	sweepEnded := make(chan struct{})
	sweepCtx, stopSweep := context.WithCancel(ctx)
	go func() {
		defer close(sweepEnded)
		w.sweep(sweepCtx)
	}()
	_, _ = w.listBooks(ctx) // the sweep repeats it
	err := conn.Run(ctx, bus.Worker{
		Role:    events.RoleCurator,
		Slots:   c.cfg.Slots,
		Batch:   c.cfg.MaxBatch,
		Books:   w.knownBooks,
		Waiting: func() string { return chat.Waiting(c.model) },
		Handle:  w.handle,
		Warm:    w.warm,
		Done:    w.done,
	})
	stopSweep()
	<-sweepEnded
	for _, b := range w.books { // all other goroutines have ended
		b.close()
	}
	return err
}

// defaultBurst is the default of Config.MaxBurst.
const defaultBurst = 20

// defaultShare is the maximum share of a bullet's evidence from a limited source, in percent, if the configuration does not
// set one. At least half of the evidence then comes from other sources.
const defaultShare = 50

// inferredShare is the maximum share of a bullet's votes from inferred outcomes, in percent.
const inferredShare = 25

// parseTrust parses entries of the form SOURCE=LEVEL[:SHARE]. The result is sorted by source. Inferred outcomes are limited by
// default.
func parseTrust(list []string) ([]playbook.SourceTrust, error) {
	var all []playbook.SourceTrust
	known := func(source string) bool {
		return slices.ContainsFunc(all, func(t playbook.SourceTrust) bool { return t.Source == source })
	}
	for _, text := range list {
		i := strings.LastIndex(text, "=") // the name of a source may contain "="
		if i < 1 {
			return nil, fmt.Errorf("want SOURCE=LEVEL[:SHARE], got %q", text)
		}
		level, share, hasShare := strings.Cut(text[i+1:], ":")
		t := playbook.SourceTrust{Source: text[:i], Level: playbook.Trust(level)}
		switch t.Level {
		case playbook.Trusted, playbook.Untrusted:
		case playbook.Limited:
			t.Share = defaultShare
		default:
			return nil, fmt.Errorf("level of source %q must be trusted, limited or untrusted, got %q", t.Source, level)
		}
		if hasShare {
			n, err := strconv.Atoi(strings.TrimSuffix(share, "%"))
			isPercentage := err == nil && n >= 1 && n <= 99
			if !isPercentage || t.Level != playbook.Limited {
				return nil, fmt.Errorf("share of source %q must be 1 to 99 percent, for level limited only, got %q", t.Source, share)
			}
			t.Share = n
		}
		if known(t.Source) {
			return nil, fmt.Errorf("duplicate source %q", t.Source)
		}
		all = append(all, t)
	}
	if !known(playbook.InferredSource) {
		all = append(all, playbook.SourceTrust{Source: playbook.InferredSource, Level: playbook.Limited, Share: inferredShare})
	}
	slices.SortFunc(all, func(a, b playbook.SourceTrust) int { return strings.Compare(a.Source, b.Source) })
	return all, nil
}
