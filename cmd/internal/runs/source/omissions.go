package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Omission is a kind of content that the package leaves out. Its text is a plural noun, for "3 system prompts".
type Omission string

// The omissions.
const (
	SystemPrompts   Omission = "system prompts in the middle of a conversation"
	Demonstrations  Omission = "messages of demonstrations"
	ThinkingBlocks  Omission = "thinking blocks"
	HarnessMessages Omission = "messages added by the recorder or its harness"
	MediaParts      Omission = "images and other parts without text"
	Copies          Omission = "runs and beginnings of runs that another recording has too"
	LogEvents       Omission = "events that are not turns of a conversation"
	UserToolCalls   Omission = "tool calls of the simulated user"
	CutOutput       Omission = "bytes of long tool outputs"
	OtherScores     Omission = "scores that do not measure correctness"
	OtherSpans      Omission = "spans that are neither a model call nor a tool call"
	InvalidJSON     Omission = "texts that begin like JSON and are not valid, read as plain text"
	InvalidText     Omission = "invalid characters, replaced by U+FFFD"
)

// Omissions counts the content that was left out, by kind.
type Omissions map[Omission]int

// Add adds n to the count of a kind, if n is positive.
func (o Omissions) Add(kind Omission, n int) {
	if n > 0 {
		o[kind] += n
	}
}

// Merge adds the counts of other.
func (o Omissions) Merge(other Omissions) {
	for kind, n := range other {
		o.Add(kind, n)
	}
}

// String returns the counts in alphabetical order of their kinds, such as "2 system prompts, 1 thinking blocks". It returns "" without
// counts.
func (o Omissions) String() string {
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(o)) {
		list = append(list, fmt.Sprintf("%d %s", o[kind], kind))
	}
	return strings.Join(list, ", ")
}
