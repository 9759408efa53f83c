package playbook_test

import (
	"strings"
	"testing"

	"debrief/playbook"
)

func TestDeltaValidate(t *testing.T) {
	t.Parallel()
	one := func(op playbook.Op) playbook.Delta {
		return playbook.Delta{Version: 1, Covers: make([]playbook.Cover, 3), Ops: []playbook.Op{op}}
	}
	tag := func(helpful, harmful, neutral int, support ...int) playbook.Delta {
		return one(playbook.Op{Kind: playbook.Tag, Bullet: "b", Helpful: helpful, Harmful: harmful, Neutral: neutral, Support: support})
	}
	for _, test := range []struct {
		why   string
		delta playbook.Delta
		want  string // part of the error, "" for none
	}{
		{"the first", playbook.Delta{Version: 1}, ""},
		{"a later one", playbook.Delta{Version: 2, PrevChain: []byte{1}}, ""},
		{"no version", playbook.Delta{}, "version: must be at least 1"},
		{"the first with something before it", playbook.Delta{Version: 1, PrevChain: []byte{1}}, "previous_chain"},
		{"a later one with nothing before it", playbook.Delta{Version: 2}, "previous_chain"},

		{"an ADD", one(playbook.Op{Kind: playbook.Add, Bullet: "b", Section: "others", Content: "c", Support: []int{2}}), ""},
		{"an operation without a bullet", one(playbook.Op{Kind: playbook.Pin}), "operations[0]: bullet_id:"},
		{"an unknown type", one(playbook.Op{Kind: "MOVE", Bullet: "b"}), `type "MOVE"`},
		{"support without a cover", one(playbook.Op{Kind: playbook.Remove, Bullet: "b", Support: []int{3}}), "support: index 3"},
		{"negative support", one(playbook.Op{Kind: playbook.Remove, Bullet: "b", Support: []int{-1}}), "support: index -1"},
		{"an ADD without content", one(playbook.Op{Kind: playbook.Add, Bullet: "b"}), "content: is empty"},
		{"content with CRLF", one(playbook.Op{Kind: playbook.Update, Bullet: "b", Content: "a\r\nb"}), "content:"},
		{"content with white space around it", one(playbook.Op{Kind: playbook.Merge, Bullet: "b", Content: "a "}), "content:"},
		{"content that is too long", one(playbook.Op{Kind: playbook.Add, Bullet: "b", Content: strings.Repeat("a", playbook.MaxContent+1)}), "content: is longer"},
		{"a section with a forged header", one(playbook.Op{Kind: playbook.Update, Bullet: "b", Content: "a", Section: "x\n## Forged"}), "section:"},
		{"an UPDATE that keeps the section", one(playbook.Op{Kind: playbook.Update, Bullet: "b", Content: "a"}), ""},

		{"two votes with two supporting reflections", tag(1, 1, 0, 0, 1), ""},
		{"two votes with one supporting reflection", tag(2, 0, 0, 0), "votes:"},
		{"a vote without support", tag(1, 0, 0), "votes:"},
		{"no vote", tag(0, 0, 0, 0), "votes:"},
		{"a negative vote", tag(2, -1, 0, 0), "helpful, harmful, neutral:"},
	} {
		err := test.delta.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.why, err, test.want)
		}
	}
}
