package playbook

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/playbook/text"
)

// Cover identifies an event whose complete effect is in a delta: an execution with its own outcome, feedback, or an
// edit. ID is the id of that execution, feedback or edit. Seq is the stream sequence of the reflection or the edit.
type Cover struct {
	ID  string `msgpack:"i" json:"id"`
	Seq uint64 `msgpack:"s" json:"seq"`
	// Evidence describes the execution behind a reflection. It is nil for an edit.
	Evidence *Evidence `msgpack:"e,omitempty" json:"evidence,omitempty"`
}

// CoverKey identifies the event of a Cover. It has 16 bytes, like an event id.
type CoverKey [16]byte

// Key returns the key of the event. Events of different kinds have different keys, even with equal ids. A client that
// chooses the id of its feedback therefore cannot use the key of an execution or an edit.
func (c *Cover) Key() CoverKey { return coverKey(c.Kind(), c.ID) }

// Kind returns "edit", "feedback" or "execution".
func (c *Cover) Kind() string {
	switch {
	case c.Evidence == nil:
		return "edit"
	case c.Evidence.FeedbackSeq > 0:
		return "feedback"
	}
	return "execution"
}

// FeedbackKey returns the key that records that some feedback on a sample is covered.
func FeedbackKey(sample string) CoverKey { return coverKey("feedback-on-sample", sample) }

func coverKey(kind, id string) CoverKey {
	sum := sha256.Sum256([]byte(kind + "\x00" + id))
	return CoverKey(sum[:16])
}

// Evidence summarizes the execution behind a reflection. It stays in the log after reflection and execution have
// expired. With it, a bullet can be traced to its source, or removed with its source, as long as the log exists.
type Evidence struct {
	Execution string `msgpack:"x" json:"execution"` // handle of the execution
	// Sample identifies all rounds (attempts) at one task: it is the id of the execution of the first round. Votes and outcomes are
	// counted once for each sample.
	Sample    string  `msgpack:"i,omitempty" json:"sample_id,omitempty"`
	Owner     string  `msgpack:"w,omitempty" json:"owner,omitempty" redact:"id"` // id of the token; empty is the common owner
	User      string  `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"`  // the end user that the run names
	Session   string  `msgpack:"n,omitempty" json:"session,omitempty"`
	Source    string  `msgpack:"o,omitempty" json:"source,omitempty"`
	Inferred  bool    `msgpack:"d,omitempty" json:"inferred,omitempty"` // nobody reported the outcome: it is only inferred
	Excerpt   string  `msgpack:"t,omitempty" json:"excerpt,omitempty"`  // beginning and end of the question
	Outcome   string  `msgpack:"l,omitempty" json:"outcome,omitempty"`
	Score     float64 `msgpack:"s,omitempty" json:"score,omitempty"`
	Reflector string  `msgpack:"r,omitempty" json:"reflector,omitempty"` // version of rules and prompt
	Model     string  `msgpack:"m,omitempty" json:"model,omitempty"`     // model of the reflection; empty if only rules reflected
	// FeedbackSeq is the stream sequence of the covered feedback, which gave the outcome. It is 0 if the cover is for the
	// execution with its own outcome.
	FeedbackSeq uint64 `msgpack:"j,omitempty" json:"feedback_seq,omitempty"`
	// Control is set if the session was in the control group, so that its outcome says nothing about any bullet.
	Control bool `msgpack:"h,omitempty" json:"control,omitempty"`
	// Judge is the name of the judge that the outcome is from, empty for any other source.
	Judge string `msgpack:"g,omitempty" json:"judge,omitempty"`
	// ErasedSelector is Selector.Erased of the selector that forgot the execution, if the names of this selector were erased later, else 0.
	ErasedSelector uint64 `msgpack:"z,omitempty" json:"erased_selector,omitempty"`
	// Compared is the run that the Reflector compared the execution with, or nil. What was learned from both may quote both.
	Compared *ComparedRun `msgpack:"c,omitempty" json:"compared,omitempty"`
}

// ComparedRun is another run of the same task and owner.
type ComparedRun struct {
	Execution string `msgpack:"x" json:"execution"` // handle
	User      string `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"`
	Session   string `msgpack:"n,omitempty" json:"session,omitempty"`
}

// ComparedEvidence returns evidence of the compared run, or nil. It has only the names of that run.
func (e *Evidence) ComparedEvidence() *Evidence {
	if e == nil || e.Compared == nil {
		return nil
	}
	return &Evidence{Execution: e.Compared.Execution, Owner: e.Owner, User: e.Compared.User, Session: e.Compared.Session}
}

// Rejection is a requested operation that the Curator did not apply.
type Rejection struct {
	Op     Op     `msgpack:"o" json:"operation"`
	Code   Reason `msgpack:"c" json:"code"`
	Reason string `msgpack:"r" json:"reason"` // for people
	// DuplicateOf is the existing bullet with the same content, for a rejected duplicate; else it is empty. Op.Support
	// then lists the reflections that requested the content again.
	DuplicateOf BulletID `msgpack:"b,omitempty" json:"duplicate_of,omitempty"`
	// Count is the number of further rejections that the delta leaves out. It is 0 unless the code is ReasonMore.
	Count int `msgpack:"n,omitempty" json:"count,omitempty"`
}

// Delta is one committed change of one playbook: one record of its log.
type Delta struct {
	// Version is 1 for the first delta of a playbook, and increases by 1.
	Version uint64 `msgpack:"v" json:"version"`
	// PrevSeq is the stream sequence of the previous delta of the playbook, 0 for the first.
	PrevSeq uint64 `msgpack:"q" json:"previous_seq"`
	// PrevChain is the chain hash of the log up to the previous delta, empty for the first.
	PrevChain []byte `msgpack:"x" json:"previous_chain"`
	// Covers lists the reflections and edits whose effect is in this delta.
	Covers []Cover `msgpack:"c,omitempty" json:"covers,omitempty"`
	// Floor is a sequence of the stream of reflections. Every message up to it was handled before this delta.
	Floor uint64 `msgpack:"f,omitempty" json:"floor,omitempty"`

	Ops      []Op        `msgpack:"o,omitempty" json:"operations,omitempty"`
	Rejected []Rejection `msgpack:"j,omitempty" json:"rejected,omitempty"`

	// ChangeID is shared by the consecutive deltas of a change that is too large for one delta. Their operations take effect together
	// with the last delta. If another delta comes between, they never take effect.
	ChangeID string `msgpack:"g,omitempty" json:"change_id,omitempty"`
	// More is true in all deltas of such a change except the last.
	More bool `msgpack:"m,omitempty" json:"more,omitempty"`

	// The parts of an edit besides its operations.
	Names           []Name    `msgpack:"n,omitempty" json:"names,omitempty"`
	RestoredVersion *uint64   `msgpack:"b,omitempty" json:"restored_version,omitempty"` // version that the edit restores
	Forget          *Selector `msgpack:"d,omitempty" json:"forget,omitempty"`
	// ForgetBefore is the first sequence of the stream of executions that Forget does not apply to.
	ForgetBefore uint64 `msgpack:"h,omitempty" json:"forget_before,omitempty"`
	Fork         *Fork  `msgpack:"w,omitempty" json:"fork,omitempty"` // set in the first delta of a fork
	// Gate is the new mode of the gate for new bullets of the playbook. Empty leaves the mode unchanged.
	Gate Gate `msgpack:"k,omitempty" json:"gate,omitempty"`
	// Review is the new review mode of the playbook. Empty leaves the mode unchanged.
	Review Review `msgpack:"u,omitempty" json:"review,omitempty"`
	// Control is the new control share of the playbook. Empty leaves the share unchanged.
	Control Share `msgpack:"cs,omitempty" json:"control,omitempty"`
	// ControlSalt is set when the share is first switched on, see Admission.ControlSalt.
	ControlSalt []byte `msgpack:"cz,omitempty" json:"-"`
	// LeadingScore is the new name of the score that counts if an outcome has several. Nil leaves it unchanged, and empty text
	// removes it.
	LeadingScore *string `msgpack:"ls,omitempty" json:"leading_score,omitempty"`
	// About replaces the name and the description of the playbook. Nil keeps both.
	About *About `msgpack:"ab,omitempty" json:"about,omitempty"`
	// Judge replaces the measured error of the judge. Nil keeps it.
	Judge *Judge `msgpack:"ju,omitempty" json:"judge,omitempty"`
	// Redacted lists earlier deltas whose texts were erased. It has the hash of their present form, and so the chain hash covers that form.
	Redacted []RedactedVersion `msgpack:"e,omitempty" json:"redacted,omitempty"`
	// Policy has the settings of the Curator, in the first delta after they changed.
	Policy *Policy `msgpack:"y,omitempty" json:"policy,omitempty"`

	Author string `msgpack:"a,omitempty" json:"author,omitempty"`
	Reason string `msgpack:"r,omitempty" json:"reason,omitempty"`
	Model  string `msgpack:"l,omitempty" json:"model,omitempty"`  // model of the proposals; empty if no model proposed
	Prompt string `msgpack:"p,omitempty" json:"prompt,omitempty"` // version of the prompt for the model
	// Usage is the cost of the Curator's model calls for the playbook since its previous delta, also of calls without a usable reply.
	Usage Usage     `msgpack:"z,omitempty" json:"usage,omitzero"`
	Time  time.Time `msgpack:"t" json:"time"` // for people; no decision depends on it
}

// Usage is the cost of model calls. It has the fields of chat.Usage, which this package does not import.
type Usage struct {
	Calls        int           `msgpack:"c,omitempty" json:"calls"`
	InputTokens  int           `msgpack:"i,omitempty" json:"input_tokens"`
	OutputTokens int           `msgpack:"o,omitempty" json:"output_tokens"`
	Cost         float64       `msgpack:"d,omitempty" json:"cost"`                           // US dollars
	CachedTokens int           `msgpack:"ct,omitempty" json:"cached_input_tokens,omitempty"` // part of InputTokens
	Duration     time.Duration `msgpack:"t,omitempty" json:"duration_ns,omitempty"`          // of all calls
}

// ChangesBullets reports whether an operation of the delta adds, changes or removes a bullet. Votes and outcomes alone do not.
func (d *Delta) ChangesBullets() bool {
	return slices.ContainsFunc(d.Ops, func(op Op) bool { return !op.Kind.Counts() })
}

// Name is a name for a version. If the name had another version before, it now means this one.
type Name struct {
	Name    string `msgpack:"n" json:"name" redact:"id"`
	Version uint64 `msgpack:"v" json:"version"`
}

// Fork is the origin of a playbook that began as a copy of another one.
type Fork struct {
	Of Book   `msgpack:"o" json:"of"`
	At string `msgpack:"a" json:"at" redact:"id"` // label of the version
}

// Version returns the version that was copied.
func (f Fork) Version() (uint64, error) {
	number, _, _ := strings.Cut(f.At, "@")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("version %.80q: invalid", f.At)
	}
	return version, f.Of.Validate()
}

func (f Fork) String() string { return fmt.Sprintf("fork of %s at %s", f.Of, f.At) }

var versionName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// Newest means the last version in requests, so no version can have this name.
const Newest = "newest"

// Validate returns an error if the name could be confused with the number of a version, with a time or with Newest.
func (n Name) Validate() error {
	if n.Name == Newest {
		return fmt.Errorf("version name %q: reserved for the newest version", n.Name)
	}
	if !versionName.MatchString(n.Name) {
		return fmt.Errorf("version name %q: must start with a letter or _, followed by up to 63 of A-Z a-z 0-9 _ . -", n.Name)
	}
	return nil
}

// Selector selects the executions to forget: by source, owner, user or session, or a single execution. If several fields are set,
// all must match. The source "agent" also selects "agent/NAME"; InferredSource selects the executions whose outcome was only inferred.
type Selector struct {
	Source    string `msgpack:"o,omitempty" json:"source,omitempty" redact:"id"`
	Owner     string `msgpack:"w,omitempty" json:"owner,omitempty" redact:"id"` // id of a token
	User      string `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"`  // the end user that a run names
	Session   string `msgpack:"n,omitempty" json:"session,omitempty" redact:"id"`
	Execution string `msgpack:"x,omitempty" json:"execution,omitempty"` // handle
	// Sample is an Evidence.Sample. It also matches executions of the sample whose handle is not Execution.
	Sample string `msgpack:"i,omitempty" json:"sample_id,omitempty"`
	// Erased is set if the user and the session of this selector were erased: it then selects the evidence with this ErasedSelector. The
	// number is the first version in which the selector was used, so equal selectors have equal numbers.
	Erased uint64 `msgpack:"z,omitempty" json:"erased,omitempty"`
}

// Matches reports whether the selector selects the evidence: the execution, or the run that it was compared with. It is false for nil, the
// evidence of an edit, and for an empty selector.
func (s *Selector) Matches(e *Evidence) bool { return s.selects(e) || s.selects(e.ComparedEvidence()) }

// selects reports whether the selector selects the execution.
func (s *Selector) selects(e *Evidence) bool {
	if e == nil || *s == (Selector{}) {
		return false
	}
	byInferred := s.Source == InferredSource && e.Inferred
	bySource := s.Source == "" || byInferred || MatchesSource(s.Source, e.Source)
	byOwner := s.Owner == "" || s.Owner == e.Owner
	byHandle := s.Execution != "" && s.Execution == e.Execution
	bySample := s.Sample != "" && s.Sample == e.Sample
	anyExecution := s.Execution == "" && s.Sample == ""
	byExecution := anyExecution || byHandle || bySample
	byErased := s.Erased == 0 || s.Erased == e.ErasedSelector
	return bySource && byOwner && byExecution && byErased && selectsName(s.User, e.User) && selectsName(s.Session, e.Session)
}

// MaxEvidenceName is the maximum length of a session, a user or a source in Evidence, in bytes. A longer one is cut.
const MaxEvidenceName = 256

// selectsName reports whether the user or the session of a selector selects that of Evidence, of which both may be cut.
func selectsName(selected, name string) bool {
	return selected == "" || text.Clip(selected, MaxEvidenceName) == text.Clip(name, MaxEvidenceName)
}

// Validate returns an error for an empty selector.
func (s *Selector) Validate() error {
	if *s == (Selector{}) {
		return errors.New("source, owner, user, session, execution: at least one is required")
	}
	return nil
}

func (s *Selector) String() string {
	var parts []string
	for _, f := range [...]struct{ name, value string }{
		{"source", s.Source}, {"owner", s.Owner}, {"user", s.User}, {"session", s.Session}, {"execution", s.Execution},
	} {
		if f.value != "" {
			parts = append(parts, fmt.Sprintf("%s %q", f.name, f.value))
		}
	}
	if s.Erased > 0 {
		parts = append(parts, ErasedText)
	}
	return strings.Join(parts, ", ")
}

// Limits of one delta.
const (
	MaxDeltaBytes = 256 << 10 // of the encoded delta
	MaxDeltaKeys  = 900       // changed bullets: the view is updated in one atomic batch
)

// Validate returns an error for an invalid field. Such a delta must not be appended to a log.
func (d *Delta) Validate() error {
	if d.Version == 0 {
		return fmt.Errorf("version: must be at least 1")
	}
	if (d.Version == 1) != (len(d.PrevChain) == 0) {
		return fmt.Errorf("previous_chain: must be empty for version 1, and only for version 1")
	}
	if d.More && (d.ChangeID == "" || len(d.Covers) > 0) {
		return fmt.Errorf("more: requires a change, and no covers")
	}
	for i := range d.Ops {
		covers := len(d.Covers)
		if d.More {
			covers = math.MaxInt // the indices are of the covers of the change's last delta, which is not known here
		}
		if err := d.Ops[i].validate(covers); err != nil {
			return fmt.Errorf("operations[%d]: %w", i, err)
		}
	}
	for _, n := range d.Names {
		if err := n.Validate(); err != nil {
			return fmt.Errorf("names: %w", err)
		}
	}
	if !d.Gate.Valid() {
		return fmt.Errorf("gate: must be off, guard or strict, got %q", d.Gate)
	}
	if !d.Review.Valid() {
		return fmt.Errorf("review: must be first or off, got %q", d.Review)
	}
	if err := errors.Join(ValidateLeadingScore(d.LeadingScore), d.Control.validate(), d.About.Validate(), d.Judge.Validate()); err != nil {
		return err
	}
	for i := range d.Redacted {
		if err := d.Redacted[i].Validate(); err != nil {
			return fmt.Errorf("redacted[%d]: %w", i, err)
		}
	}
	if d.Forget != nil {
		if err := d.Forget.Validate(); err != nil {
			return fmt.Errorf("forget: %w", err)
		}
	}
	return nil
}

// ChangeAssembler collects the deltas of each change. The zero value is empty. It is not safe for concurrent use.
type ChangeAssembler struct{ open []*Delta }

// Add adds the next delta of a log. If it completes a change, Add returns all deltas of the change, in order; else nil. The deltas of
// an earlier change that was never completed are dropped.
func (a *ChangeAssembler) Add(d *Delta) []*Delta {
	if len(a.open) > 0 && a.open[0].ChangeID != d.ChangeID {
		a.open = nil
	}
	all := append(a.open, d)
	if d.More {
		a.open = all
		return nil
	}
	a.open = nil
	return all
}

// incomplete reports whether the last delta of a change is missing.
func (a *ChangeAssembler) incomplete() bool { return len(a.open) > 0 }
