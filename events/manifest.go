package events

import (
	"fmt"
	"time"
)

// Manifest records the parts of a context, the omitted parts, and the reasons. Together with the texts that its
// parts refer to, it is sufficient to build the same messages again.
type Manifest struct {
	// Assembly is the version of the rules that built the context. Another version may build other messages from
	// the manifest.
	Assembly string `msgpack:"v" json:"assembly" redact:"-"`
	Limit    int    `msgpack:"limit" json:"limit"`   // maximum number of tokens
	Tokens   int    `msgpack:"tokens" json:"tokens"` // estimated tokens of the messages
	// Window is the requested number of user turns of the session, -1 for all.
	Window int `msgpack:"win,omitempty" json:"window,omitempty"`
	// Conversation is the token budget for the turns of the session.
	Conversation int    `msgpack:"conv,omitempty" json:"conversation_budget,omitempty"`
	BudgetReason string `msgpack:"budget_reason,omitempty" json:"budget_reason,omitempty"` // reason for the budget in Conversation
	State        string `msgpack:"state,omitempty" json:"state,omitempty"`                 // kind of work in the session: coding, debugging, research or general
	// Texts says which agent messages of earlier turns are included: final, none or all.
	Texts string `msgpack:"texts,omitempty" json:"texts,omitempty"`
	// Votes is set if the bullets are shown with their votes.
	Votes bool `msgpack:"votes,omitempty" json:"votes,omitempty"`
	// Advice is set if the context is one text with bullets and reflections, for a user's message.
	Advice bool      `msgpack:"advice,omitempty" json:"advice,omitempty"`
	At     time.Time `msgpack:"at" json:"at,omitzero"` // time of the build

	Parts   []Part     `msgpack:"parts" json:"parts"`
	Omitted []Omission `msgpack:"omitted,omitempty" json:"omitted,omitempty"`
	// Exposures are the bullets in an experiment with their random arm. Withheld bullets would otherwise be among Parts.
	Exposures []Exposure `msgpack:"exposures,omitempty" json:"exposures,omitempty"`
	// Warnings lists the inputs that were unavailable, such as "recall: the embedding server does not answer". It
	// is normally empty.
	Warnings []string `msgpack:"warnings,omitempty" json:"warnings,omitempty"`
}

// Part is one element of a context.
type Part struct {
	Kind   PartKind `msgpack:"k" json:"kind"`
	Ref    string   `msgpack:"r,omitempty" json:"ref,omitempty" redact:"id"`
	Tokens int      `msgpack:"t,omitempty" json:"tokens"`
	// Count is the number of bullets, if the part stands for all bullets of the context; 0 for other parts.
	Count int `msgpack:"n,omitempty" json:"count,omitempty"`
	// Keep is the number of bytes of the part's text that are included; 0 includes the whole text.
	Keep int `msgpack:"c,omitempty" json:"keep,omitempty"`
	// Text is the text of a part that is not stored elsewhere.
	Text string `msgpack:"x,omitempty" json:"text,omitempty"`
	Why  string `msgpack:"w,omitempty" json:"why,omitempty"` // such as "pinned"; empty for the usual order
}

// Omission counts the parts of one kind that were omitted for one reason.
type Omission struct {
	Kind   PartKind `msgpack:"k" json:"kind"`
	Why    string   `msgpack:"w" json:"why"`
	Count  int      `msgpack:"n" json:"count"`
	Tokens int      `msgpack:"t,omitempty" json:"tokens"`
	Refs   []string `msgpack:"r,omitempty" json:"refs,omitempty" redact:"id"` // the first few
}

// PartKind is the type of a part of a context. The values are stored, so they must not change.
type PartKind string

// The kinds of parts.
const (
	PartSystem        PartKind = "system"         // the role's instructions; Ref is their version
	PartBullet        PartKind = "bullet"         // in a manifest one part for all bullets, see Execution.Shown; Omission.Refs has the ids of omitted ones
	PartUser          PartKind = "user"           // a user message of an earlier turn; Ref is <handle>#<index>
	PartAnswer        PartKind = "answer"         // the answer in an earlier turn
	PartTools         PartKind = "tools"          // a step with tool calls and their output
	PartReflection    PartKind = "reflection"     // Ref is the reflection's handle
	PartRecall        PartKind = "recall"         // an older execution; Ref is its handle
	PartRecord        PartKind = "record"         // a one-line record of an earlier step, in Text
	PartSummary       PartKind = "summary"        // a summary of older turns, in Text
	PartRecovery      PartKind = "recovery"       // advice for an agent that repeats itself, in Text
	PartContext       PartKind = "context"        // the context field of the query
	PartPreviousRound PartKind = "previous_round" // an earlier round at the query; Ref is its number, from 1
	PartQuery         PartKind = "query"
)

// OfWindow reports whether parts of a kind are messages of earlier turns of the session.
func (k PartKind) OfWindow() bool { return k == PartUser || k == PartAnswer || k == PartTools }

// PartTotals sums up the parts of one kind in a context.
type PartTotals struct {
	Kind                   PartKind
	Included, Tokens       int
	Omitted, OmittedTokens int
	Reasons                []string // such as "3 over the limit", "1 truncated"
}

// partKinds are the kinds of parts, in the order of Totals.
var partKinds = []PartKind{
	PartSystem, PartBullet, PartUser, PartAnswer, PartTools, PartSummary, PartRecall, PartReflection, PartRecord, PartRecovery,
	PartContext, PartPreviousRound, PartQuery,
}

// Totals returns the totals of each kind that has parts in the context or omitted ones.
func (m *Manifest) Totals() (all []PartTotals) {
	for _, kind := range partKinds {
		t := PartTotals{Kind: kind}
		truncated := 0
		for _, p := range m.Parts {
			if p.Kind == kind {
				t.Included += max(p.Count, 1)
				t.Tokens += p.Tokens
				if p.Keep > 0 {
					truncated++
				}
			}
		}
		for _, o := range m.Omitted {
			if o.Kind == kind {
				t.Omitted += o.Count
				t.OmittedTokens += o.Tokens
				t.Reasons = append(t.Reasons, fmt.Sprintf("%d %s", o.Count, o.Why))
			}
		}
		if truncated > 0 {
			t.Reasons = append(t.Reasons, fmt.Sprintf("%d truncated", truncated))
		}
		if t.Included+t.Omitted > 0 {
			all = append(all, t)
		}
	}
	return all
}
