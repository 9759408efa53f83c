package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/window"
	"debrief/generator/prompt/assembly"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// ContextBuilder builds contexts, for the tasks of the generator and for agents that call their own model. A context consists
// of bullets, the window of the session and recalled executions. It is safe for concurrent use.
type ContextBuilder struct {
	conn       *bus.Conn
	playbooks  *playbookCache
	windows    *window.Store
	memory     *memory // nil if recall is disabled
	embeddings *embeddingCache
	notes      *lru.Cache[playbook.Book, bookNotes] // the newest reflections of playbooks
	screened   *lru.Cache[string, bool]             // results of isSuspect by text
	prepared   *lru.Cache[string, *similar.Text]    // results of prepare by text
	admit      func(admit.Text) admit.Decision      // admit.Decide; tests replace it

	noteVectors *lru.Cache[string, []float32] // results of noteVector by text

	cfg      Config
	timeouts timeouts
}

// Embedder computes one vector for each text, all of one dimension. Embed returns when ctx ends.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	Model() string
}

// timeouts bound the waits for inputs that a context can omit.
type timeouts struct {
	version  time.Duration // for a minimum version of the playbook
	optional time.Duration // for windows, vectors and recalled executions
	retry    time.Duration // delay before the next background call after an embedder error
	notesAge time.Duration // maximum age of cached reflections
}

// NewContextBuilder returns a context builder. Without an embedder, bullets are found by words, and history by words and hashed
// n-grams.
func NewContextBuilder(conn *bus.Conn, embedder Embedder, cfg Config) *ContextBuilder {
	return newBuilder(conn, embedder, cfg, timeouts{
		version: 5 * time.Second, optional: 3 * time.Second, retry: 30 * time.Second, notesAge: 250 * time.Millisecond,
	})
}

// newBuilder returns a context builder with timeouts.
func newBuilder(conn *bus.Conn, embedder Embedder, cfg Config, timeouts timeouts) *ContextBuilder {
	cfg = cfg.WithDefaults()
	if cfg.Meter == nil {
		cfg.Meter = noMeter{}
	}
	store := deltalog.New(conn.JetStream())
	store.OnFollowerDelay = cfg.Meter.PlaybookDelay
	store.OnStalled = func(b playbook.Book, err error) {
		conn.Health.SetDependencyError(events.RoleGenerator, fmt.Sprintf("playbook %q", b), err)
	}
	windows := window.New(conn.NATS(), conn.JetStream())
	embeddings := newEmbeddingCache(windows, embedder, conn.Log())
	screened, _ := lru.New[string, bool](maxScreened) // New fails only for a size of 0
	prepared, _ := lru.New[string, *similar.Text](maxPrepared)
	noteVectors, _ := lru.New[string, []float32](maxNoteVectors)
	notes, _ := lru.New[playbook.Book, bookNotes](maxPlaybooks)
	cb := &ContextBuilder{
		conn: conn, playbooks: newPlaybookCache(store, embeddings, cfg.Limits.Votes, timeouts.retry), windows: windows,
		embeddings: embeddings, cfg: cfg, timeouts: timeouts, admit: admit.Decide, screened: screened, prepared: prepared, noteVectors: noteVectors, notes: notes,
	}
	if cfg.Recall != RecallNone {
		cb.memory = newMemory(conn, embeddings, cfg.Recall, cfg.RecallMemory, timeouts.retry)
	}
	return cb
}

// WaitLoaded waits until the stored executions can be recalled and the past tasks of a playbook are read, for at most
// timeout. Contexts that are built before lack these inputs, and have warnings about them.
func (cb *ContextBuilder) WaitLoaded(ctx context.Context, b playbook.Book, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if cb.memory != nil {
		cb.memory.start()
		select {
		case <-cb.memory.loaded:
		case <-ctx.Done():
		}
	}
	if entry, err := cb.playbooks.get(ctx, b); err == nil { // an error is left to the next context
		entry.tasks.wait(ctx, timeout)
	}
}

// Close stops all followers and background goroutines.
func (cb *ContextBuilder) Close() {
	if cb.memory != nil {
		cb.memory.close()
	}
	cb.playbooks.close()
}

// contextRequest describes the context to build.
type contextRequest struct {
	book            playbook.Book
	owner, session  string
	execution       events.ID // excluded from its own context; empty if unknown
	turn            int       // in the session, from 1; 0 selects the next turn
	query           string    // the question
	taskContext     string
	instructions    string
	instructionsRef string // refers to instructions that are stored elsewhere, see assembly.Input
	taskType        string // see assembly.Input
	runningSteps    []events.Step
	rounds          []events.PreviousRound // earlier rounds of this task
	pinnedVersion   *uint64                // nil for the newest version
	minVersion      uint64                 // 0 for none
	limits          assembly.Limits
	explain         bool
	advice          bool // one text without history, see assembly.Input
	control         controlKey
	inControl       bool // the session is in the control group; set by build
	// armKey returns a key for a turn. Contexts with the same key have the same arms in experiments. Nil disables experiments.
	armKey func(turn int) string
}

// builtContext is an assembled context.
type builtContext struct {
	*assembly.Context
	version  uint64 // of the playbook
	stale    bool   // the version is older than the requested one
	turn     int
	inWindow bool // the window of the session already contains this execution
	control  *events.Control
}

// warnings lists the inputs that were unavailable.
type warnings []string

func (w *warnings) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

// build assembles a context. An input that is not available in time is omitted, and the manifest has a warning. build returns
// an error only if the playbook cannot be read or the limit has no room for the query.
func (cb *ContextBuilder) build(ctx context.Context, req *contextRequest) (*builtContext, error) {
	started := time.Now()
	warns := new(warnings)
	newest, err := cb.playbooks.get(ctx, req.book)
	if err != nil {
		return nil, err
	}
	out := &builtContext{turn: req.turn}
	// Wait for the version before the session is read, because it may forget a part of the session.
	selected := newest // has the bullets of the context
	switch {
	case req.pinnedVersion != nil:
		selected, err = cb.playbooks.pinned(ctx, newest, req.book, *req.pinnedVersion)
	case req.minVersion > 0:
		out.stale, err = selected.waitVersion(ctx, req.minVersion, cb.timeouts.version)
		if out.stale {
			warns.add("playbook: version %d requested, but not available within %s", req.minVersion, cb.timeouts.version)
		}
	}
	if err != nil {
		return nil, err
	}
	inputs := cb.fetchOptional(ctx, req, newest, warns)
	req.inControl = inputs.arm != nil && inputs.arm.Held
	if !req.control.uncounted {
		out.control = inputs.arm
	}
	forgotten := &forgottenFilter{newest.admission(), req.owner} // not of selected: a pinned version lacks the executions that were forgotten later
	inputs.history.dropForgotten(forgotten, req.session)
	out.inWindow = inputs.history.inWindow
	out.turn = max(cmp.Or(out.turn, inputs.history.turn), 1)
	recalled := cb.recall(ctx, req, inputs, forgotten, warns)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if req.pinnedVersion != nil {
		// A pinned version is a measurement. Its prompt must not depend on the progress of the embeddings, so that an
		// interrupted run continues with the same prompts.
		selected.index.waitEmbedded(ctx, inputs.query, cb.timeouts.optional)
	}
	selected.waitEvidence(ctx, req, cb.timeouts.optional)
	err = selected.withIndex(func(ix *playbookIndex) error {
		out.version = ix.version
		in := assembly.Input{
			Now: started.UTC(), System: req.instructions, SystemRef: req.instructionsRef, Query: req.query, TaskContext: req.taskContext,
			Task: req.taskType, Running: req.runningSteps, Explain: req.explain, Advice: req.advice, Rounds: cb.admitRounds(req.rounds),
			Window: inputs.history.window, Marks: inputs.history.marks, Similar: inputs.query.similarity, Recalled: recalled,
			Notes: cb.admitNotes(req, ix, inputs.notes, inputs.query), Linked: ix.linkedBullets,
			TimeIndependent: req.pinnedVersion != nil, Seed: req.query, Reliability: reliabilities,
			Rankings: func() []selection.Ranking { return ix.rankings(inputs.query, selected.tasks, warns) },
		}
		anyBullet := admit.Text{Use: admit.UseBullet, State: admit.Active, Gate: playbook.GateOff, Control: req.inControl}
		if cb.admit(anyBullet).Shown() { // false only in the control group, whose contexts have no bullets
			in.Index = ix.bullets
		}
		if req.armKey != nil {
			tasks := selected.tasks
			if req.pinnedVersion != nil {
				tasks = nil // a repeated run must have the same prompts, whatever a process has read
			}
			in.Draw = &selection.Draw{
				Applicable: func() []playbook.BulletID { return ix.applicable(inputs.query, tasks) }, Task: req.armKey(out.turn),
			}
		}
		cb.admitRecords(req, ix, &in, inputs.history.records)
		in.Degraded = *warns
		before := len(*warns)
		assembling := time.Now()
		out.Context, err = assembly.Assemble(in, req.limits)
		cb.cfg.Meter.Assembled(time.Since(assembling))
		if err == nil { // the rankings can add warnings during the assembly
			out.Manifest.Warnings = append(out.Manifest.Warnings, (*warns)[before:]...)
		}
		return err
	})
	if err == nil {
		cb.cfg.Meter.ContextBuilt(time.Since(started))
		if len(inputs.history.window)+len(inputs.history.marks) > 0 {
			cb.cfg.Meter.WindowBuilt(windowSize(&out.Manifest))
		}
	}
	return out, err
}

// optionalInputs are the inputs that a context can omit, before their admission.
type optionalInputs struct {
	history sessionHistory
	notes   []*events.Note // the newest reflections
	query   *queryEmbedding
	arm     *events.Control // of the session in the control share; nil if it has none
}

// fetchOptional reads the optional inputs in parallel. b is the newest version of the playbook.
func (cb *ContextBuilder) fetchOptional(ctx context.Context, req *contextRequest, b *cachedPlaybook, warns *warnings) (in optionalInputs) {
	limited, cancel := cb.withOptionalTimeout(ctx)
	defer cancel()
	var fetching sync.WaitGroup
	var sessionWarns, notesWarns, embedWarns warnings
	fetching.Go(func() {
		if req.advice { // the agent has its history itself
			return
		}
		in.history = cb.readSession(limited, req, &sessionWarns)
		limited, cancel := cb.withOptionalTimeout(ctx) // a separate timeout: the session may have used up the first
		defer cancel()
		cb.readRecords(limited, req, &in.history, &sessionWarns)
	})
	fetching.Go(func() { in.arm = cb.controlArm(limited, b, req) })
	fetching.Go(func() { in.notes = cb.readNotes(limited, req, &notesWarns) })
	fetching.Go(func() { in.query = cb.embeddings.embedQuery(limited, req.query, &embedWarns) })
	fetching.Wait()
	*warns = slices.Concat(*warns, sessionWarns, notesWarns, embedWarns)
	return in
}

// recall returns the older executions that are relevant to the query. It returns none for a request that recalls nothing. A session of the control
// group must not recall runs of other sessions, because these may have had advice.
func (cb *ContextBuilder) recall(ctx context.Context, req *contextRequest, in optionalInputs, forgotten *forgottenFilter, warns *warnings) []*events.Interaction {
	mayFindAdvised := req.inControl && cb.cfg.Recall != RecallSession
	isExcluded := req.pinnedVersion != nil || req.advice || mayFindAdvised
	if isExcluded || cb.memory == nil || !cb.memory.appliesTo(req) {
		return nil
	}
	limited, cancel := cb.withOptionalTimeout(ctx) // a separate timeout: the embedder may have used up the first
	defer cancel()
	started := time.Now()
	recalled := cb.memory.search(limited, req, in.history, in.query, forgotten, warns)
	cb.cfg.Meter.Recalled(time.Since(started))
	return recalled
}

// withOptionalTimeout returns a context with the timeout for optional inputs.
func (cb *ContextBuilder) withOptionalTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, cb.timeouts.optional, &timeoutError{cb.timeouts.optional})
}

// timeoutError is the cause of a context that ended by the timeout for optional inputs.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

// shortError returns the error in one short line for a manifest. If ctx ended by the timeout for optional inputs, it returns that timeout.
func shortError(ctx context.Context, err error) string {
	if timeout, ok := errors.AsType[*timeoutError](context.Cause(ctx)); ok {
		return timeout.Error()
	}
	return text.Line(err.Error(), 200)
}

// citedBullets returns the cited ids that were shown, without duplicates.
func citedBullets(ids []playbook.BulletID, shown []events.ShownBullet) []playbook.BulletID {
	var cited []playbook.BulletID
	for _, id := range ids {
		wasShown := slices.ContainsFunc(shown, func(b events.ShownBullet) bool { return b.ID == id })
		if wasShown && !slices.Contains(cited, id) {
			cited = append(cited, id)
		}
	}
	return cited
}
