package playbook

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCleanWhen(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                             "",
		"  the material is oak. ":      "the material is oak",
		"When the material\n is oak:":  "the material is oak",
		"IF: when the material is oak": "the material is oak",
		"Always.":                      "",
		"the text is \"a: b\"":         "the text is \"a: b\"",
		"whenever it rains":            "whenever it rains",
		"\x00a\x07b":                   "ab",
	} {
		if got, err := CleanWhen(given); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", given, got, err, want)
		}
	}
	if _, err := CleanWhen(strings.Repeat("long ", MaxWhen)); err == nil {
		t.Error("a condition that is too long is accepted")
	}
}

func TestCleanText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ when, text, want, advice string }{
		{"", " Sand it. ", "Sand it.", "Sand it."},
		{"When the material is oak:", "Sand it.", "When the material is oak: Sand it.", "Sand it."},
		{"the material is oak", "when the Material is oak: Sand it.", "When the material is oak: Sand it.", "Sand it."},
		{"the material is oak", "When the material is pine: Sand it.", "When the material is oak: When the material is pine: Sand it.", "When the material is pine: Sand it."},
	} {
		when, content, err := CleanText(test.when, test.text)
		if err != nil || content != test.want {
			t.Errorf("%q, %q: got %q, %v, want %q", test.when, test.text, content, err, test.want)
		}
		if got := (&Bullet{When: when, Content: content}).Advice(); got != test.advice {
			t.Errorf("%q: got the advice %q, want %q", content, got, test.advice)
		}
	}
	if _, _, err := CleanText("it is long", strings.Repeat("x", MaxContent)); err == nil {
		t.Error("a text that is too long with its condition is accepted")
	}
}

// TestCleanTextIsStable checks that a clean text is valid, and that cleaning it again changes nothing.
func TestCleanTextIsStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		when, content, err := CleanText(rapid.String().Draw(t, "when"), rapid.String().Draw(t, "text"))
		if err != nil {
			return
		}
		if err := (&Op{Kind: Add, Bullet: "a-1", When: when, Content: content}).validate(0); err != nil {
			t.Errorf("%q, %q: %v", when, content, err)
		}
		if again, same, err := CleanText(when, content); err != nil || again != when || same != content {
			t.Errorf("%q, %q: got %q, %q, %v", when, content, again, same, err)
		}
	})
}

func TestConditionOfBullet(t *testing.T) {
	t.Parallel()
	p := new(Playbook)
	apply := func(ops ...Op) {
		t.Helper()
		d := &Delta{Version: p.Version() + 1, Ops: ops}
		if d.Version > 1 {
			d.PrevChain = []byte{1}
		}
		if err := d.Validate(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	oak := "When the material is oak: Sand it."
	apply(Op{Kind: Add, Bullet: "a-1", Section: "s", When: "the material is oak", Content: oak}, Op{Kind: Add, Bullet: "a-2", Section: "s", Content: "Sand it."})
	if p.FindByContent("Sand it.").ID != "a-2" || p.FindByContent(oak).ID != "a-1" {
		t.Error("the same advice under another condition is not another bullet")
	}
	if got := Render([]*Bullet{p.Bullet("a-1")}); !strings.Contains(got, "- [a-1] "+oak+"\n") {
		t.Errorf("got the prompt %q", got)
	}
	hash := p.StateHash()
	apply(Op{Kind: Update, Bullet: "a-1", Content: oak}) // the field alone
	if p.Bullet("a-1").When != "" || p.StateHash() == hash {
		t.Error("the state hash does not cover the condition")
	}
	apply(Op{Kind: Merge, Bullet: "a-1", Sources: []BulletID{"a-2"}, When: "the material is wood", Content: "When the material is wood: Sand it."})
	if b := p.Bullet("a-1"); b.When != "the material is wood" || p.Len() != 1 {
		t.Errorf("got %+v", b)
	}
	for _, op := range []Op{
		{Kind: Add, Bullet: "a-3", When: "the material is oak", Content: "Sand it."},
		{Kind: Update, Bullet: "a-1", When: "When the material is oak", Content: oak},
		{Kind: Put, Bullet: "a-4", PutBullet: &Bullet{ID: "a-4", Section: "s", When: "the material is oak", Content: "Sand it."}},
	} {
		if err := op.validate(0); err == nil {
			t.Errorf("%+v is accepted", op)
		}
	}
}

// TestMergeKeepsReflections checks that a merged bullet is traced to the reflections behind all of its bullets.
func TestMergeKeepsReflections(t *testing.T) {
	t.Parallel()
	covers := []Cover{{ID: "x", Seq: 9, Evidence: &Evidence{Execution: "9"}}}
	into, src := &Bullet{ID: "a-1", LearnedFrom: []uint64{1}}, &Bullet{ID: "a-2", LearnedFrom: []uint64{1, 4}}
	got := into.Apply(&Op{Kind: Merge, Bullet: "a-1", Sources: []BulletID{"a-2"}, Content: "both", Support: []int{0}}, covers, src)
	if want := []uint64{1, 9, 4}; len(got.LearnedFrom) != 3 || got.LearnedFrom[1] != want[1] || got.LearnedFrom[2] != want[2] {
		t.Errorf("got %v, want %v", got.LearnedFrom, want)
	}
}
