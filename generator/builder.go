package generator

import (
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
	notesCache notesCache
	screened   *lru.Cache[string, bool]        // texts, and whether they look like orders to models
	admit      func(admit.Text) admit.Decision // admit.Decide; a test replaces it to prove that the tests find a missing admission
	cfg        Config
	timeouts   timeouts
	// onTurn is called after each turn that is added to a session; nil if no summaries are made.
	onTurn func(b playbook.Book, owner, session string)
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

func newBuilder(conn *bus.Conn, embedder Embedder, cfg Config, timeouts timeouts) *ContextBuilder {
	cfg = cfg.WithDefaults()
	if cfg.Meter == nil {
		cfg.Meter = noMeter{}
	}
	store := deltalog.New(conn.JetStream())
	store.OnFollowerDelay = cfg.Meter.PlaybookDelay
	store.OnStalled = func(b playbook.Book, why error) {
		conn.Health.SetDependencyError(events.RoleGenerator, fmt.Sprintf("playbook %q", b), why)
	}
	windows := window.New(conn.NATS(), conn.JetStream())
	embeddings := newEmbeddingCache(windows, embedder, conn.Log())
	screened, _ := lru.New[string, bool](maxScreened) // fails only for a size of 0
	cb := &ContextBuilder{
		conn: conn, playbooks: newPlaybookCache(store, embeddings, cfg.Limits.Votes, timeouts.retry), windows: windows,
		embeddings: embeddings, cfg: cfg, timeouts: timeouts, admit: admit.Decide, screened: screened,
	}
	if cfg.Recall != RecallNone {
		cb.memory = newMemory(conn, embeddings, cfg.Recall, cfg.RecallMemory, timeouts.retry)
	}
	return cb
}

// WaitLoaded waits until the stored executions can be recalled and the past tasks of a playbook are read, at most for
// timeout. Contexts before that are complete except for these inputs, and name them in their warnings.
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
	if entry, err := cb.playbooks.get(ctx, b); err == nil { // a context will return the error
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
	book                          playbook.Book
	owner, session                string
	execution                     events.ID // excluded from its own context; empty if unknown
	turn                          int       // in the session, from 1; 0 selects the next turn
	query, taskContext            string
	instructions, instructionsRef string
	taskType                      string
	runningSteps                  []events.Step
	rounds                        []events.PreviousRound // earlier rounds of this task
	pinnedVersion                 *uint64
	minVersion                    uint64
	limits                        assembly.Limits
	explain                       bool
	advice                        bool // one text without history; see assembly.Input
	control                       controlKey
	inControl                     bool // the session is in the control group; set by fetchOptional
	// armKey returns the key that determines the experiment arms in a turn. The same key gives the same arms. Nil
	// disables experiments.
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

// build assembles a context. An input that is not available in time is omitted and listed in the manifest. It returns
// an error only if the playbook cannot be read or the limit has no room for the query.
func (cb *ContextBuilder) build(ctx context.Context, req *contextRequest) (*builtContext, error) {
	started := time.Now()
	in := assembly.Input{
		Now: time.Now().UTC(), System: req.instructions, SystemRef: req.instructionsRef,
		Query: req.query, TaskContext: req.taskContext, Task: req.taskType, Running: req.runningSteps, Explain: req.explain,
		Advice: req.advice,
	}
	out := &builtContext{turn: req.turn}
	in.Rounds = cb.admitRounds(req.rounds)
	warns := new(warnings)
	newest, err := cb.playbooks.get(ctx, req.book)
	if err != nil {
		return nil, err
	}
	b := newest
	if req.pinnedVersion != nil {
		b, err = cb.playbooks.pinned(ctx, newest, req.book, *req.pinnedVersion)
		if err != nil {
			return nil, err
		}
	}
	if req.pinnedVersion == nil && req.minVersion > 0 { // before the session is read, because the version may forget a part of it
		out.stale, err = b.waitVersion(ctx, req.minVersion, cb.timeouts.version)
		if err != nil {
			return nil, err
		}
		if out.stale {
			warns.add("playbook: version %d requested, but not available within %s", req.minVersion, cb.timeouts.version)
		}
	}
	query, notes := cb.fetchOptional(ctx, req, newest, &in, out, warns)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if req.pinnedVersion != nil {
		// A pinned version is a measurement. Its prompt must not depend on the progress of the embeddings or on the
		// time. An interrupted run then continues with the same prompts.
		in.TimeIndependent = true
		b.index.waitEmbedded(ctx, query, cb.timeouts.optional)
	}
	b.waitEvidence(ctx, req, cb.timeouts.optional)
	err = b.withIndex(func(ix *playbookIndex) error {
		out.version = ix.version
		if cb.admitsBullets(req) {
			in.Index = ix.bullets
		}
		in.Notes, in.Linked = cb.admitNotes(req, ix, notes.texts, query), ix.linkedBullets
		cb.admitRecords(req, ix, &in, notes.records)
		in.Seed = req.query
		in.Rankings = func() []selection.Ranking { return ix.rankings(query, b.tasks, warns) }
		in.Reliability = reliabilities
		if req.armKey != nil {
			tasks := b.tasks
			if req.pinnedVersion != nil {
				tasks = nil // a repeated run must have the same prompts, whatever a process has read
			}
			in.Draw = &selection.Draw{
				Applicable: func() []playbook.BulletID { return ix.applicable(query, tasks) }, Task: req.armKey(out.turn),
			}
		}
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
		if len(in.Window)+len(in.Marks) > 0 {
			cb.cfg.Meter.WindowBuilt(windowSize(&out.Manifest))
		}
	}
	return out, err
}

// reflectionNotes are the notes of a playbook and a session before their admission.
type reflectionNotes struct {
	texts   []*events.Note // with a text for a prompt
	records []*events.Note // with records of steps of the session
}

// fetchOptional reads the inputs that a context can omit: session, reflections, query vector and recalled executions. b is the newest
// version, which has the list of forgotten executions.
func (cb *ContextBuilder) fetchOptional(
	ctx context.Context, req *contextRequest, b *cachedPlaybook, in *assembly.Input, out *builtContext, warns *warnings,
) (*queryEmbedding, reflectionNotes) {
	limited, cancel := cb.withOptionalTimeout(ctx)
	defer cancel()
	var (
		fetching                             sync.WaitGroup
		history                              sessionHistory
		query                                *queryEmbedding
		notes                                reflectionNotes
		sessionWarns, notesWarns, embedWarns warnings
	)
	fetching.Go(func() {
		if req.advice { // the agent has its history itself
			return
		}
		history = cb.readSession(limited, req, &sessionWarns)
		limited, cancel := cb.withOptionalTimeout(ctx) // a separate timeout: the session may have used up the first
		defer cancel()
		cb.readRecords(limited, req, &history, &sessionWarns)
	})
	var arm *events.Control
	fetching.Go(func() { arm = cb.controlArm(limited, b, req) })
	fetching.Go(func() { notes.texts = cb.readNotes(limited, req, &notesWarns) })
	fetching.Go(func() { query = cb.embeddings.embedQuery(limited, req.query, &embedWarns) })
	fetching.Wait()
	req.inControl = arm != nil && arm.Held
	if !req.control.uncounted {
		out.control = arm
	}
	*warns = slices.Concat(*warns, sessionWarns, notesWarns, embedWarns)
	forgotten := b.forgetting(req.owner)
	history.dropForgotten(forgotten, req.session)
	in.Window = history.window
	in.Marks = history.marks
	in.Summary = history.summary
	in.Similar = query.similarity
	out.inWindow = history.inWindow
	if out.turn == 0 {
		out.turn = history.turn
	}
	out.turn = max(out.turn, 1)
	avoidsAdvised := !req.inControl || cb.cfg.Recall == RecallSession // a control session must not recall sessions that had advice
	mayRecall := req.pinnedVersion == nil && !req.advice && avoidsAdvised
	if mayRecall && cb.memory != nil && cb.memory.appliesTo(req) {
		limited, cancel := cb.withOptionalTimeout(ctx) // a separate timeout: the embedder may have used up the first
		defer cancel()
		recalling := time.Now()
		in.Recalled = cb.memory.search(limited, req, history, query, forgotten, warns)
		cb.cfg.Meter.Recalled(time.Since(recalling))
	}
	notes.records = history.records
	return query, notes
}

// withOptionalTimeout returns a context with the timeout for optional inputs.
func (cb *ContextBuilder) withOptionalTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, cb.timeouts.optional, &timeoutError{cb.timeouts.optional})
}

// timeoutError is the cause of a context that ended by the timeout for optional inputs.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

// shortError returns the error in one short line for a manifest. For a timeout of ours it returns the timeout.
func shortError(ctx context.Context, err error) string {
	if slow := (*timeoutError)(nil); errors.As(context.Cause(ctx), &slow) {
		return slow.Error()
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
