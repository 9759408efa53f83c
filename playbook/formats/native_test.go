package formats_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/playbook"
	"debrief/playbook/formats"
)

func TestNativeFormatsLoseNothing(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	want := []*playbook.Bullet{
		{ID: "b-2", Section: "x", Content: "a\n## b\n\t<c> & \"d\" 🧾", Helpful: 1 << 31, Harmful: 2, Neutral: 3, Status: playbook.Quarantined, Pinned: true},
		{ID: "any id 1", Section: "misc", Content: "c", Status: playbook.Candidate},
		{ID: "a", Section: "y", Content: "d", Status: playbook.Active, CreatedAt: at, UpdatedAt: at.Add(time.Nanosecond), LastUsed: at.Add(time.Hour)},
	}
	for _, f := range []formats.Format{formats.JSON, formats.JSONL} {
		out, losses, err := formats.Write(f, "invoices", want)
		if err != nil || len(losses) > 0 {
			t.Fatalf("%s: losses %v, error %v", f, losses, err)
		}
		doc := read(t, string(out), "")
		if doc.Format != f || len(doc.Notes) > 0 {
			t.Errorf("%s: got %s, notes %v", f, doc.Format, doc.Notes)
		}
		if diff := cmp.Diff(want, doc.Bullets); diff != "" {
			t.Errorf("%s: bullets (-want +got):\n%s", f, diff)
		}
		zoned := *want[2]
		zoned.CreatedAt = zoned.CreatedAt.In(time.FixedZone("", 3600))
		if again, _, err := formats.Write(f, "invoices", append(want[:2:2], &zoned)); err != nil || string(again) != string(out) {
			t.Errorf("%s: the same time in another zone is written differently, error %v", f, err)
		}
	}
}

func TestJSONLWithoutAHeaderIsRead(t *testing.T) {
	t.Parallel()
	doc := read(t, strings.Join([]string{
		`{"id":"a","section":"Tax & Duty","content":" x\u0000 ","helpful":-3,"status":"odd","colour":"red"}`, "",
		`{"id":"a","section":"tax_and_duty","content":"y"}`,
		`{"id":"c","section":"s","content":""}`,
	}, "\n"), "")
	checkNotes(t, doc.Notes, []string{
		"the header line is missing; read as schema 1",
		"line 1: invalid characters were removed",
		`line 1: invalid section name "Tax & Duty"; changed to "tax_and_duty"`,
		"line 1: invalid count -3",
		`line 1: unknown status "odd"; changed to retired`,
		"line 3: duplicate id a; renamed to a-2",
		"line 4: content: is empty",
	})
	want := []*playbook.Bullet{
		{ID: "a", Section: "tax_and_duty", Content: "x", Status: playbook.Retired},
		{ID: "a-2", Section: "tax_and_duty", Content: "y"},
	}
	if diff := cmp.Diff(want, doc.Bullets); diff != "" {
		t.Errorf("bullets (-want +got):\n%s", diff)
	}
}

// TestConditionsInFiles checks that the project's own formats keep the condition, that Read adds it to a content, and that the others have
// it in the content alone, which is a Loss.
func TestConditionsInFiles(t *testing.T) {
	t.Parallel()
	want := &playbook.Bullet{ID: "a-1", Section: "s", When: "it rains", Content: "When it rains: Close the roof."}
	for _, f := range []formats.Format{formats.ACE, formats.Kayba, formats.SweCLI, formats.JSON, formats.JSONL} {
		out, losses, err := formats.Write(f, "book", []*playbook.Bullet{want})
		if err != nil || !strings.Contains(string(out), want.Content) {
			t.Fatalf("%s: got %s, %v", f, out, err)
		}
		isNative := f == formats.JSON || f == formats.JSONL
		if got := read(t, string(out), "").Bullets[0]; got.Content != want.Content || (got.When == want.When) != isNative {
			t.Errorf("%s: got %+v", f, got)
		}
		if isNative != (len(losses) == 0) || !isNative && losses[0].Field != "when" {
			t.Errorf("%s: got the losses %+v", f, losses)
		}
	}
	doc := read(t, `{"id":"a-1","section":"s","when":"When it rains.","content":"Close the roof."}`+"\n"+
		`{"id":"a-2","section":"s","when":"`+strings.Repeat("x", 400)+`","content":"Close the roof."}`, formats.JSONL)
	checkNotes(t, doc.Notes, []string{"the header line is missing", `line 1: changed to "it rains"`, "line 2: when: is longer than 300 bytes; bullet skipped"})
	if diff := cmp.Diff([]*playbook.Bullet{want}, doc.Bullets); diff != "" {
		t.Errorf("bullets (-want +got):\n%s", diff)
	}
}

func TestJSONLWithTwoHeaders(t *testing.T) {
	t.Parallel()
	var both string
	for _, name := range []string{"one", "two"} {
		out, _, err := formats.Write(formats.JSONL, name, []*playbook.Bullet{{ID: "a", Section: "s", Content: name}})
		if err != nil {
			t.Fatal(err)
		}
		both += string(out)
	}
	doc := read(t, both, "")
	checkNotes(t, doc.Notes, []string{"line 4: duplicate id a"})
	if len(doc.Bullets) != 2 {
		t.Errorf("got %d bullets", len(doc.Bullets))
	}
}

func TestMarkdownShowsTheActiveBullets(t *testing.T) {
	t.Parallel()
	bullets := []*playbook.Bullet{
		{ID: "b", Section: "y", Content: "two\nlines"},
		{ID: "a", Section: "x", Content: "one", Helpful: 3},
		{ID: "c", Section: "x", Content: "gone", Status: playbook.Retired},
	}
	out, losses, err := formats.Write(formats.Markdown, "book", bullets)
	if err != nil || string(out) != playbook.RenderWithVotes(bullets[:2]) || len(losses) != 1 || losses[0].Bullet != "c" {
		t.Errorf("losses %v, error %v, got\n%s", losses, err, out)
	}
}

func TestWriteCleansInvalidBullets(t *testing.T) {
	t.Parallel()
	for _, f := range []formats.Format{formats.ACE, formats.Kayba, formats.SweCLI, formats.JSON, formats.JSONL} {
		out, losses, err := formats.Write(f, "book", []*playbook.Bullet{
			{ID: "a-1", Section: "A B", Content: " x\x00\r\ny ", Helpful: -1},
			{ID: "a-2", Section: "s", Content: " "},
			{ID: "a-3", Section: "s", Content: strings.Repeat("x", playbook.MaxContent+1)},
		})
		if err != nil || len(losses) < 5 {
			t.Errorf("%s: losses %v, error %v", f, losses, err)
		}
		if doc := read(t, string(out), ""); len(doc.Bullets) != 1 || !reflect.DeepEqual(*doc.Bullets[0], playbook.Bullet{ID: "a-1", Section: "a_b", Content: "x\ny"}) {
			t.Errorf("%s: got %+v", f, doc.Bullets[0])
		}
		for _, bad := range [][]*playbook.Bullet{{nil}, {{ID: "a", Content: "x"}, {ID: "a", Content: "y"}}} {
			if _, _, err := formats.Write(f, "book", bad); err == nil {
				t.Errorf("%s: got no error", f)
			}
		}
	}
}
