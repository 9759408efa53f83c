package events

import (
	"errors"
	"fmt"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
)

// Edit is a person's change of a book. The Curator commits it, all of it or nothing, and replies with a Decision.
type Edit struct {
	envelope `msgpack:"-"`
	ID       ID            `msgpack:"id" json:"id"`
	Author   string        `msgpack:"author" json:"author"`
	Reason   string        `msgpack:"reason,omitempty" json:"reason,omitempty"`
	Ops      []playbook.Op `msgpack:"ops" json:"operations,omitempty"` // an Add without a bullet id gets one
	// Expect is how bullets were when who asks for the change read them. The edit is refused if one is different now.
	Expect []Expectation `msgpack:"expect,omitempty" json:"expect,omitempty"`

	// Seen is the newest version that who asks has seen: the edit is refused if there is a newer one by now.
	Seen *uint64 `msgpack:"seen,omitempty" json:"seen,omitempty"`

	// Names are given to versions; version 0 stands for the newest one.
	Names []playbook.Name `msgpack:"names,omitempty" json:"names,omitempty"`
	// Restore brings the bullets back to how they were at a version.
	Restore *uint64 `msgpack:"restore,omitempty" json:"restore,omitempty"`
	// Forget takes out what rests on certain executions.
	Forget *playbook.Selector `msgpack:"forget,omitempty" json:"forget,omitempty"`
	// Frame is what an imported file has besides the bullets in Ops.
	Frame []byte `msgpack:"frame,omitempty" json:"frame,omitempty"`
	// Gate changes how new advice of the book earns its place; empty leaves that as it is.
	Gate playbook.Gate `msgpack:"gate,omitempty" json:"gate,omitempty"`
	// Gather has reflections that were held (Origin.Held) take effect, in this order and as one change: what they say is
	// weighed together, as a batch of its own, against the playbook as it is.
	Gather []Handle `msgpack:"gather,omitempty" json:"gather,omitempty"`
	// Rebuild has the view written anew from the log.
	Rebuild bool `msgpack:"rebuild,omitempty" json:"rebuild,omitempty"`

	ReplyTo string    `msgpack:"reply,omitempty" json:"-" redact:"-"`
	Created time.Time `msgpack:"created" json:"created,omitzero"`
}

// MaxGather bounds the reflections that one edit gathers: as many as fit in one change.
const MaxGather = 256

// Expectation is how a bullet was when a person read it, counters aside.
type Expectation struct {
	Bullet  playbook.BulletID `msgpack:"id" json:"id"`
	Section string            `msgpack:"section" json:"section"`
	Content string            `msgpack:"content" json:"content"`
}

func (*Edit) Kind() Kind    { return KindEdit }
func (e *Edit) EventID() ID { return e.ID }

// Cover returns the cover for the delta that has the effect of the edit, which was received under a sequence.
func (e *Edit) Cover(seq uint64) playbook.Cover { return playbook.Cover{ID: string(e.ID), Seq: seq} }

// Validate implements Event.
func (e *Edit) Validate() error {
	errs := []error{e.ID.validate(), validInbox(e.ReplyTo)}
	if e.Author == "" {
		errs = append(errs, errors.New("author: is empty"))
	}
	if len(e.Ops)+len(e.Names) == 0 && e.Restore == nil && e.Forget == nil && e.Gate == "" && !e.Rebuild && len(e.Gather) == 0 {
		errs = append(errs, errors.New("operations, names, restore, forget, gate, gather, rebuild: there is none of them"))
	}
	for _, n := range e.Names {
		errs = append(errs, n.Validate())
	}
	if len(e.Gather) > MaxGather {
		errs = append(errs, fmt.Errorf("gather: at most %d, got %d", MaxGather, len(e.Gather)))
	}
	for i, h := range e.Gather {
		if _, _, err := h.Parse(); err != nil {
			errs = append(errs, fmt.Errorf("gather[%d]: %w", i, err))
		}
	}
	if !e.Gate.Valid() {
		errs = append(errs, fmt.Errorf("gate: %.80q is none of off, shadow, on", e.Gate))
	}
	if e.Forget != nil {
		errs = append(errs, e.Forget.Validate())
	}
	return errors.Join(errs...)
}

// Decision answers an Edit. It is sent, never stored.
type Decision struct {
	// Version, with its chain hash, is the one that the edit made, or found where it changed nothing.
	Version uint64 `msgpack:"version" json:"version"`
	Chain   []byte `msgpack:"chain,omitempty" json:"chain,omitempty"`
	// Added are the ids that new bullets got, in the order of the operations.
	Added []playbook.BulletID `msgpack:"added,omitempty" json:"added,omitempty"`
	// Usage is what models were asked for it, of an edit that gathers reflections.
	Usage chat.Usage `msgpack:"usage,omitempty" json:"usage,omitzero"`
	// Asked counts the gathered reflections that a model was asked about. Skipped counts those of them that the edit did not
	// cover, because no reply of the model was usable; SkippedReason is the error of the first one. A later edit may gather
	// them.
	Asked         int    `msgpack:"asked,omitempty" json:"asked,omitempty"`
	Skipped       int    `msgpack:"skipped,omitempty" json:"skipped,omitempty"`
	SkippedReason string `msgpack:"skipped_reason,omitempty" json:"skipped_reason,omitempty"`
	// Changed counts the bullets that the edit changed.
	Changed int      `msgpack:"changed,omitempty" json:"changed"`
	Refused []string `msgpack:"refused,omitempty" json:"refused,omitempty"` // why nothing was done, a sentence each
	// Conflicts are the bullets that were not as expected, as they are now; one that is gone has no content.
	Conflicts []Expectation `msgpack:"conflicts,omitempty" json:"conflicts,omitempty"`
}

// ReplySubject and SetReply are where the decision on an edit goes.

func (e *Edit) ReplySubject() string    { return e.ReplyTo }
func (e *Edit) SetReply(subject string) { e.ReplyTo = subject }
