package assembly

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

// adviceIndex returns an index of bullets with these contents.
func adviceIndex(t *testing.T, contents ...string) *selection.Index {
	t.Helper()
	p := new(playbook.Playbook)
	d := &playbook.Delta{Version: 1, Covers: make([]playbook.Cover, 1)}
	for i, content := range contents {
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", uint64(i+1)), Section: "others", Content: content})
	}
	if _, err := p.Apply(d); err != nil {
		t.Fatal(err)
	}
	return newIndex(p)
}

func TestAdviceIsOneMessage(t *testing.T) {
	t.Parallel()
	note := &events.Note{Reflection: "1-00000000", Insight: "count </playbook> twice", Label: events.Failure}
	for _, test := range []struct {
		name    string
		bullets []string
		notes   []*events.Note
		want    []string // nil for no message
	}{
		{"nothing", nil, nil, nil},
		{"bullets", []string{"Count the shelf twice."}, nil, []string{"[misc-00001] Count the shelf twice."}},
		{"reflections", nil, []*events.Note{note}, []string{"count ‹/playbook> twice", "[[begin " + quoteReflections}},
		{"both", []string{"Count the shelf twice."}, []*events.Note{note}, []string{"[misc-00001]", "‹/playbook>"}},
		{"tags", []string{"A</playbook>b< / PLAYBOOK >c<playbooks d<x>"}, nil, []string{"A‹/playbook>b‹ / PLAYBOOK >c‹playbooks d<x>"}},
	} {
		in := Input{Advice: true, Notes: test.notes, Window: session(3, "x"), Running: []events.Step{{Text: "unused"}}, System: "Follow these."}
		if test.bullets != nil {
			in.Index = adviceIndex(t, test.bullets...)
		}
		c := assemble(t, in, Limits{})
		if test.want == nil {
			if len(c.Messages) != 0 || c.Manifest.Tokens != 0 {
				t.Errorf("%s: got %+v, want no message", test.name, c.Messages)
			}
			continue
		}
		if len(c.Messages) != 1 || c.Messages[0].Speaker != chat.User {
			t.Fatalf("%s: got %+v, want one message of the user", test.name, c.Messages)
		}
		got := c.Messages[0].Text
		inner, begins := strings.CutPrefix(got, AdviceBegin+"\nFollow these.\n")
		inner, ends := strings.CutSuffix(inner, "\n"+AdviceEnd)
		if !begins || !ends || strings.Contains(inner, "<playbook") || strings.Contains(inner, "</playbook") {
			t.Errorf("%s: got %s", test.name, got)
		}
		for _, text := range append(test.want, "") {
			if !strings.Contains(inner, text) {
				t.Errorf("%s: got %s, want %q in it", test.name, inner, text)
			}
		}
		for _, text := range []string{in.Query, "unused", "question 1", "# Task"} {
			if text != "" && strings.Contains(got, text) {
				t.Errorf("%s: got %s, want no %q", test.name, got, text)
			}
		}
		if !c.Manifest.Advice || len(c.Bullets) != len(test.bullets) {
			t.Errorf("%s: got manifest %+v with %d bullets", test.name, c.Manifest, len(c.Bullets))
		}
	}
}

// TestAdviceLines cuts the message at the places of its learned texts. Texts that imitate a line, and lines of a text, belong to their text.
func TestAdviceLines(t *testing.T) {
	t.Parallel()
	notes := []*events.Note{
		{Reflection: "1-00000000", Label: events.Failure, Error: "counted\n- [misc-00001] twice", Approach: "- after a success: count", Insight: "count"},
		{Reflection: "2-00000000", Label: events.Success, Insight: "insight: - [misc-00002] rest"},
	}
	c := assemble(t, Input{Advice: true, Notes: notes, Index: adviceIndex(t, "Count.\n- [misc-00002] Rest.\n- after a failure:", "Rest </playbook>")}, Limits{})
	message := c.Messages[0].Text
	var got []string
	for _, l := range c.Lines {
		got = append(got, fmt.Sprintf("%s%s %s %q", l.Bullet, l.Reflection, l.Field, message[l.Start:l.End]))
	}
	want := []string{
		`misc-00001  "- [misc-00001] Count.\n  - [misc-00002] Rest.\n  - after a failure:\n"`,
		`misc-00002  "- [misc-00002] Rest ‹/playbook>\n"`,
		`1-00000000  "- after a failure:\n"`,
		`1-00000000 error_identification "  what went wrong: counted - [misc-00001] twice\n"`,
		`1-00000000 correct_approach "  what to do: - after a success: count\n"`,
		`1-00000000 key_insight "  insight: count\n"`,
		`2-00000000  "- after a success:\n"`,
		`2-00000000 key_insight "  insight: insight: - [misc-00002] rest\n"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if l := c.Lines[1]; l.Wording != events.WordingOf("Rest </playbook>") {
		t.Errorf("got wording %d", l.Wording)
	}
	if c := assemble(t, Input{Index: adviceIndex(t, "Count.")}, Limits{}); len(c.Lines) != 0 {
		t.Errorf("a context: got lines %+v", c.Lines)
	}
}

func TestAdviceFitsItsLimit(t *testing.T) {
	t.Parallel()
	var contents []string
	for i := range 200 {
		contents = append(contents, fmt.Sprintf("Advice %d: count shelf %d twice, and then once more.", i, i))
	}
	index := adviceIndex(t, contents...)
	for _, limit := range []int{60, 100, 300, 1000, 3000} {
		c := assemble(t, Input{Advice: true, Index: index}, Limits{Total: limit})
		tokens := 0
		for i := range c.Messages {
			tokens += c.Messages[i].Tokens()
		}
		if tokens > limit || c.Manifest.Tokens != tokens {
			t.Errorf("limit %d: got %d tokens, the manifest has %d", limit, tokens, c.Manifest.Tokens)
		}
		if limit >= 300 && len(c.Bullets) < 3 {
			t.Errorf("limit %d: got %d bullets", limit, len(c.Bullets))
		}
	}
	if _, err := Assemble(Input{Advice: true, System: "Count.", Now: noon}, Limits{Total: 3}); err == nil {
		t.Error("limit 3: got no error")
	}
}

// TestAdviceKeepsTheNewestReflection has notes that become longer when the tags in them are escaped, after they have been fitted into the limit.
func TestAdviceKeepsTheNewestReflection(t *testing.T) {
	t.Parallel()
	var notes []*events.Note
	for i := range 4 {
		notes = append(notes, &events.Note{Reflection: events.Handle(fmt.Sprintf("%d-00000000", i+1)), Insight: strings.Repeat("</playbook>", 40), Label: events.Failure})
	}
	for limit := 200; limit <= 800; limit += 10 {
		c := assemble(t, Input{Advice: true, Notes: notes}, Limits{Total: limit, Bullets: 1})
		var got []string
		for _, p := range c.Manifest.Parts {
			if p.Kind == events.PartReflection {
				got = append(got, p.Ref)
			}
		}
		want := []string{"1-00000000", "2-00000000", "3-00000000", "4-00000000"}[4-len(got):]
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got the reflections %v, want the newest %v", limit, got, want)
		}
	}
}
