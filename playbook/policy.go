package playbook

import (
	"fmt"
	"slices"
	"strings"
)

// Review is the review mode of a playbook: whether a new text waits for a person before a prompt may contain it. The values are stored, so they
// must not change.
type Review string

// The review modes.
const (
	// ReviewFirst puts each new text into quarantine until a person approves it. Bullets that are active at that time stay.
	ReviewFirst Review = "first"
	// ReviewOff lets the gate show new texts. It is the default.
	ReviewOff Review = "off"
)

// Valid reports whether the mode is known or empty.
func (r Review) Valid() bool { return r == "" || r == ReviewFirst || r == ReviewOff }

// ValidateLeadingScore returns an error if a name of a score is too long or has surrounding space. Nil and empty text are valid.
func ValidateLeadingScore(name *string) error {
	const limit = 80
	if name != nil && (len(*name) > limit || strings.TrimSpace(*name) != *name) {
		return fmt.Errorf("leading_score: must have at most %d bytes, without surrounding space", limit)
	}
	return nil
}

// About is the name and the description of a playbook, for people. The zero value has neither.
type About struct {
	Name        string `msgpack:"n,omitempty" json:"name,omitempty" doc:"Name for people, at most 80 bytes."`
	Description string `msgpack:"d,omitempty" json:"description,omitempty" doc:"What the playbook is for, at most 1,000 bytes."`
}

// Validate returns an error for a text that is too long, or a name of several lines. Nil is valid.
func (a *About) Validate() error {
	const maxName, maxDescription = 80, 1000
	switch {
	case a == nil:
		return nil
	case len(a.Name) > maxName || strings.TrimSpace(a.Name) != a.Name || strings.ContainsAny(a.Name, "\r\n"):
		return fmt.Errorf("about.name: must have one line of at most %d bytes, without surrounding space", maxName)
	case len(a.Description) > maxDescription:
		return fmt.Errorf("about.description: must have at most %d bytes, got %d", maxDescription, len(a.Description))
	}
	return nil
}

// Trust is the trust level of a source of executions. The values are stored, so they must not change.
type Trust string

// The levels of trust.
const (
	Trusted Trust = "trusted"
	// Limited sources count only up to a share of the evidence of a bullet.
	Limited Trust = "limited"
	// Untrusted sources have no votes, and their proposals wait in quarantine for a person.
	Untrusted Trust = "untrusted"
)

// InferredSource is the name of the entry of a Policy for executions whose outcome was only inferred.
const InferredSource = "inferred"

// SourceTrust is the trust in one source.
type SourceTrust struct {
	Source string `msgpack:"o" json:"source" redact:"id"`
	Level  Trust  `msgpack:"l" json:"level"`
	Share  int    `msgpack:"s,omitempty" json:"share,omitempty"` // maximum share of a bullet's evidence, in percent; Limited only
}

// Policy has the settings of the Curator that readers of a playbook need. The zero value trusts every source.
type Policy struct {
	Review Review        `msgpack:"r,omitempty" json:"review,omitempty"` // of playbooks whose mode no person has set
	Trust  []SourceTrust `msgpack:"t,omitempty" json:"trust,omitempty"`  // sorted by source, each once
	// Control is the control share of playbooks whose share no person has set.
	Control Share `msgpack:"c,omitempty" json:"control,omitempty"`
}

// Equal reports whether two policies are the same.
func (p Policy) Equal(o Policy) bool {
	return p.Review == o.Review && p.Control.PerMille() == o.Control.PerMille() && slices.Equal(p.Trust, o.Trust)
}

// Of returns the trust in a source. The longest entry that matches the source counts, see MatchesSource. A source without an entry is trusted,
// and so is the empty source.
func (p Policy) Of(source string) SourceTrust {
	best := SourceTrust{Source: source, Level: Trusted}
	length := 0 // of the pattern of best
	for _, t := range p.Trust {
		if t.Source != InferredSource && MatchesSource(t.Source, source) && len(t.Source) > length {
			best, length = t, len(t.Source)
		}
	}
	return best
}

// OfInferred returns the trust in executions whose outcome was only inferred.
func (p Policy) OfInferred() SourceTrust {
	for _, t := range p.Trust {
		if t.Source == InferredSource {
			return t
		}
	}
	return SourceTrust{Source: InferredSource, Level: Trusted}
}

// Level returns the lower of the trust in a source and, if the outcome was inferred, the trust in inferred outcomes.
func (p Policy) Level(source string, inferred bool) Trust {
	level := p.Of(source).Level
	if inferred && p.OfInferred().Level.rank() < level.rank() {
		return p.OfInferred().Level
	}
	return level
}

// rank orders the levels, the least trusted first.
func (t Trust) rank() int { return slices.Index([]Trust{Untrusted, Limited, Trusted}, t) }

// MatchesSource reports whether a pattern selects a source: the source itself, or all sources below it, such as agent for agent/NAME.
// An empty pattern selects no source.
func MatchesSource(pattern, source string) bool {
	return pattern != "" && (source == pattern || strings.HasPrefix(source, pattern+"/"))
}
