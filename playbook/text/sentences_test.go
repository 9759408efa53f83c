package text_test

import (
	"slices"
	"testing"

	"debrief/playbook/text"
)

func TestSentences(t *testing.T) {
	t.Parallel()
	for s, want := range map[string][]string{
		"":                                  nil,
		" \n ":                              nil,
		"Wait. Is it 3.5 kg? Yes":           {"Wait.", "Is it 3.5 kg?", "Yes"},
		"A heading\nIts text.":              {"A heading", "Its text."},
		`He said "Stop." Then he left! Why`: {`He said "Stop.`, `" Then he left!`, "Why"},
	} {
		if got := text.Sentences(s); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
