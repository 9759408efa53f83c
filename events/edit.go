package events

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
)

// Edit is a change of a book by an operator. The Curator commits it completely or not at all, and replies with
// an EditReply. This one adds a bullet:
//
//	events.Edit{ID: events.NewID(), Book: "sums", Author: "ann", Ops: []playbook.Op{
//		{Kind: playbook.Add, Section: "rounding", Content: "Round half to even."},
//	}}
type Edit struct {
	Book   playbook.Book `msgpack:"-" json:"book"` // in the subject, not in the payload
	ID     ID            `msgpack:"id" json:"id"`  // required, see NewID; an edit with the id of an earlier one has no effect
	Author string        `msgpack:"author" json:"author"`
	Reason string        `msgpack:"reason,omitempty" json:"reason,omitempty"`
	Ops    []playbook.Op `msgpack:"ops" json:"operations,omitempty"` // leave Bullet of an Add empty: the Curator assigns the id
	// Expect contains bullets as the author of the edit read them. The edit is refused if one of them has changed
	// since.
	Expect []Expectation `msgpack:"expect,omitempty" json:"expect,omitempty"`

	// BaseVersion is the newest version that the author of the edit has read. The edit is refused if the log has a newer version, even
	// if that version only records a refused edit.
	BaseVersion *uint64 `msgpack:"base_version,omitempty" json:"base_version,omitempty"`

	// Evidence lists executions that the operations follow from, at most MaxEvidence. The log then traces the bullets to them,
	// and forgetting the executions removes the bullets. It is empty for a decision of a person.
	Evidence []playbook.Evidence `msgpack:"evidence,omitempty" json:"evidence,omitempty"`

	// Names assigns names to versions. Version 0 means the newest one.
	Names []playbook.Name `msgpack:"names,omitempty" json:"names,omitempty"`
	// Restore returns the bullets to their state at a version.
	Restore *uint64 `msgpack:"restore,omitempty" json:"restore,omitempty"`
	// Forget removes the effect of the selected executions.
	Forget *playbook.Selector `msgpack:"forget,omitempty" json:"forget,omitempty"`
	// Gate changes the experiment mode for new bullets of the book; empty keeps the mode.
	Gate playbook.Gate `msgpack:"gate,omitempty" json:"gate,omitempty"`
	// Review changes the review mode of the book; empty keeps the mode.
	Review playbook.Review `msgpack:"review,omitempty" json:"review,omitempty"`
	// Control changes the control share of the book; empty keeps it.
	Control playbook.Share `msgpack:"control,omitempty" json:"control,omitempty"`
	// LeadingScore changes the name of the score that counts if an outcome has several; nil keeps it, and empty text removes it.
	LeadingScore *string `msgpack:"leading_score,omitempty" json:"leading_score,omitempty"`
	// About replaces the name and the description of the book; nil keeps both.
	About *playbook.About `msgpack:"about,omitempty" json:"about,omitempty"`
	// Judge replaces the measured error of the judge; nil keeps it.
	Judge *playbook.Judge `msgpack:"judge,omitempty" json:"judge,omitempty"`
	// Gather applies held reflections (Origin.Held) as one change, in this order. They form a batch without other
	// reflections, and are evaluated against the current playbook.
	Gather []Handle `msgpack:"gather,omitempty" json:"gather,omitempty"`
	// Fork is set in the edits that copy another book into this one, and names that origin. A bullet of such an edit is copied from the
	// log of the origin with its approval and evidence. A bullet that the origin does not have is an import.
	Fork *playbook.Fork `msgpack:"fork,omitempty" json:"fork,omitempty"`
	// Redact lists redactions that are stored, so that the chain hash of the log covers them. An edit with Redact has no other part.
	Redact []playbook.RedactedVersion `msgpack:"redact,omitempty" json:"redact,omitempty"`
	// Rebuild requests that the Curator writes the complete view again from the log.
	Rebuild bool `msgpack:"rebuild,omitempty" json:"rebuild,omitempty"`

	Created time.Time `msgpack:"created" json:"created,omitzero"`
}

// MaxGather is the maximum number of reflections in Gather. That many fit into one change.
const MaxGather = 256

// MaxEvidence is the maximum number of executions in Evidence.
const MaxEvidence = 64

// MaxRedact is the maximum number of redactions in Redact. That many fit into one delta.
const MaxRedact = 2000

// Expectation is the text of a bullet at the time it was read. Counters may change.
type Expectation struct {
	Bullet  playbook.BulletID `msgpack:"id" json:"id"`
	Section string            `msgpack:"section" json:"section"`
	Content string            `msgpack:"content" json:"content"`
}

func (*Edit) Kind() Kind { return KindEdit }

func (e *Edit) InBook() playbook.Book   { return e.Book }
func (e *Edit) setBook(b playbook.Book) { e.Book = b }

func (e *Edit) EventID() ID { return e.ID }

// Cover returns the cover for the delta that contains the edit. seq is the stream sequence of the edit.
func (e *Edit) Cover(seq uint64) playbook.Cover { return playbook.Cover{ID: string(e.ID), Seq: seq} }

// EvidenceCovers returns a cover for each execution in Evidence.
func (e *Edit) EvidenceCovers(seq uint64) []playbook.Cover {
	covers := make([]playbook.Cover, len(e.Evidence))
	for i, x := range e.Evidence {
		x.FeedbackSeq = 0 // the edit does not apply the feedback
		covers[i] = playbook.Cover{ID: string(Hash("evidence of an edit", string(e.ID), fmt.Sprint(i))), Seq: seq, Evidence: &x}
	}
	return covers
}

// ChangesSettings reports whether the edit changes a setting of the book.
func (e *Edit) ChangesSettings() bool {
	return e.Gate != "" || e.Review != "" || e.Control != "" || e.LeadingScore != nil || e.About != nil || e.Judge != nil
}

func (e *Edit) Validate() error {
	errs := []error{e.ID.validate()}
	if e.Author == "" {
		errs = append(errs, errors.New("author: is empty"))
	}
	if strings.EqualFold(e.Author, RoleCurator) { // the log would show the edit of a person as the Curator's own
		errs = append(errs, fmt.Errorf("author: %q is the name of a role", e.Author))
	}
	hasLists := len(e.Ops)+len(e.Names)+len(e.Gather)+len(e.Redact) > 0
	isEmpty := !hasLists && e.Restore == nil && e.Forget == nil && !e.Rebuild && !e.ChangesSettings()
	if isEmpty {
		errs = append(errs, errors.New("operations, names, restore, forget, gate, review, control, leading_score, about, judge, gather, redact, rebuild: at least one is required"))
	}
	for _, n := range e.Names {
		errs = append(errs, n.Validate())
	}
	if len(e.Gather) > MaxGather {
		errs = append(errs, fmt.Errorf("gather: at most %d, got %d", MaxGather, len(e.Gather)))
	}
	if len(e.Redact) > MaxRedact {
		errs = append(errs, fmt.Errorf("redact: at most %d, got %d", MaxRedact, len(e.Redact)))
	}
	for i := range e.Redact {
		if err := e.Redact[i].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("redact[%d].%w", i, err))
		}
	}
	for i, h := range e.Gather {
		if err := h.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("gather[%d]: %w", i, err))
		}
	}
	errs = append(errs, e.validateEvidence(), e.validateSettings())
	if e.Forget != nil {
		errs = append(errs, e.Forget.Validate())
	}
	return errors.Join(errs...)
}

// maxEvidenceText is the maximum size of the texts of one execution in Edit.Evidence, in bytes.
const maxEvidenceText = 2048

func (e *Edit) validateEvidence() error {
	var errs []error
	if len(e.Evidence) > MaxEvidence {
		errs = append(errs, fmt.Errorf("evidence: at most %d, got %d", MaxEvidence, len(e.Evidence)))
	}
	for i := range e.Evidence {
		x := &e.Evidence[i]
		if err := Handle(x.Execution).Validate(); err != nil {
			errs = append(errs, fmt.Errorf("evidence[%d].execution: %w", i, err))
		}
		if n := len(x.Sample) + len(x.Session) + len(x.Source) + len(x.Excerpt); n > maxEvidenceText {
			errs = append(errs, fmt.Errorf("evidence[%d]: must have at most %d bytes of text, got %d", i, maxEvidenceText, n))
		}
	}
	return errors.Join(errs...)
}

func (e *Edit) validateSettings() error {
	var errs []error
	if !e.Gate.Valid() {
		errs = append(errs, fmt.Errorf("gate: must be off, guard or strict, got %.80q", e.Gate))
	}
	if !e.Review.Valid() {
		errs = append(errs, fmt.Errorf("review: must be first or off, got %.80q", e.Review))
	}
	if !e.Control.Valid() {
		errs = append(errs, fmt.Errorf("control: %s, got %.80q", playbook.ShareSyntax, string(e.Control)))
	}
	errs = append(errs, playbook.ValidateLeadingScore(e.LeadingScore), e.About.Validate(), e.Judge.Validate())
	return errors.Join(errs...)
}

// EditReply is the reply to an Edit. It is not stored.
type EditReply struct {
	// Version and Chain are the version that the edit created, and its chain hash. A refused edit creates one, too: the log records it.
	// If the edit created none, they are those of the current version.
	Version uint64 `msgpack:"version" json:"version"`
	Chain   []byte `msgpack:"chain,omitempty" json:"chain,omitempty"`
	// Added contains the ids of the added bullets, in the order of the operations.
	Added []playbook.BulletID `msgpack:"added,omitempty" json:"added,omitempty"`
	// Usage is the cost of model calls for an edit that gathers reflections.
	Usage chat.Usage `msgpack:"usage,omitempty" json:"usage,omitzero"`
	// Asked counts the gathered reflections in requests to a model.
	Asked int `msgpack:"asked,omitempty" json:"asked,omitempty"`
	// Skipped counts the reflections that the edit did not cover, because no reply of the model was usable. A later edit may gather them.
	Skipped int `msgpack:"skipped,omitempty" json:"skipped,omitempty"`
	// SkippedReason is the error of the first skipped reflection.
	SkippedReason string `msgpack:"skipped_reason,omitempty" json:"skipped_reason,omitempty"`
	// Changed counts the bullets that the edit changed.
	Changed int `msgpack:"changed,omitempty" json:"changed"`
	// Refused lists the reasons why the edit had no effect. It is empty if the edit took effect.
	Refused []Refusal `msgpack:"refused,omitempty" json:"refused,omitempty"`
	// Conflicts contains the current text of the bullets that differ from Expect. A removed bullet has no content.
	Conflicts []Expectation `msgpack:"conflicts,omitempty" json:"conflicts,omitempty"`
}

// Refusal is one reason why the Curator refused an edit.
type Refusal struct {
	Code playbook.Reason `msgpack:"code" json:"code"`
	Text string          `msgpack:"text" json:"text"` // for people
	// Count is the number of further reasons that the reply leaves out. It is 0 unless the code is ReasonMore.
	Count int `msgpack:"count,omitempty" json:"count,omitempty"`
}

// Err returns a *RefusedError if the edit was refused, else nil.
func (r *EditReply) Err() error {
	if len(r.Refused) == 0 {
		return nil
	}
	return &RefusedError{r.Refused}
}

// RefusedError is returned when the Curator refused an edit.
type RefusedError struct{ Refused []Refusal }

func (e *RefusedError) Error() string {
	texts := make([]string, len(e.Refused))
	for i, r := range e.Refused {
		texts[i] = r.Text
	}
	return strings.Join(texts, "; ")
}
