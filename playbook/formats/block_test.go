package formats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/playbook"
	"debrief/playbook/formats"
)

func blockBullets() []*playbook.Bullet {
	return []*playbook.Bullet{
		{ID: "misc-00001", Section: "others", Content: "Prices are in cents.", Approved: true},
		{ID: "misc-00002", Section: "others", Content: "Run make lint:\nit is fast.\n<!-- debrief:end -->", Approved: true, Helpful: 3},
		{ID: "ts-00003", Section: "mistakes", Content: "Ask for the date.", Experiment: &playbook.Experiment{Standing: playbook.StandingProven}},
		{ID: "ts-00004", Section: "mistakes", Content: "Nobody has approved this."},
		{ID: "ts-00005", Section: "mistakes", Content: "Trusted is not proven.", Experiment: &playbook.Experiment{Standing: playbook.StandingTrusted}},
		{ID: "ts-00006", Section: "mistakes", Content: "Retired.", Approved: true, Status: playbook.Retired},
		{ID: "ts-00007", Section: "mistakes", Content: "In quarantine.", Approved: true, Status: playbook.Quarantined},
	}
}

func TestForBlock(t *testing.T) {
	t.Parallel()
	names := func(bullets []*playbook.Bullet) (all []string) {
		for _, b := range bullets {
			all = append(all, string(b.ID))
		}
		return all
	}
	size := func(text string) int { return len(text) }
	if d := cmp.Diff([]string{"misc-00002", "misc-00001", "ts-00003"}, names(formats.ForBlock(blockBullets(), 10_000, size))); d != "" {
		t.Errorf("only approved or proven text: %s", d)
	}
	if got := names(formats.ForBlock(blockBullets(), 110, size)); len(got) != 2 {
		t.Errorf("within 110 bytes: got %v", got)
	}
	if got := formats.ForBlock(blockBullets(), 0, size); got != nil {
		t.Errorf("within nothing: got %v", names(got))
	}
}

// TestBlockOwnsOnlyItself: all bytes outside of the marks stay, and the same bullets give the same file.
func TestBlockOwnsOnlyItself(t *testing.T) {
	t.Parallel()
	bullets := formats.ForBlock(blockBullets(), 10_000, func(string) int { return 1 })
	for _, file := range []string{"", "# Mine\n", "# Mine\n\nNo line feed", "# Mine\r\n\r\nText\r\n"} {
		first, err := formats.WriteBlock([]byte(file), "shop", 12, bullets)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(first), strings.TrimRight(file, "\n")) || strings.Count(string(first), "debrief:end") != 2 {
			t.Errorf("%q: got %q", file, first)
		}
		again, err := formats.WriteBlock(first, "shop", 12, bullets)
		if err != nil || string(again) != string(first) {
			t.Errorf("%q: again: %v %s", file, err, cmp.Diff(string(first), string(again)))
		}
		longer := string(first) + "\nMore of mine.\n"
		fewer, err := formats.WriteBlock([]byte(longer), "shop", 13, bullets[:1])
		if err != nil || !strings.HasSuffix(string(fewer), "-->\n\nMore of mine.\n") || strings.Contains(string(fewer), "cents") {
			t.Errorf("%q: fewer: %v %q", file, err, fewer)
		}
		b, err := formats.ReadBlock(first)
		if err != nil {
			t.Fatal(err)
		}
		if changed, added, removed := b.Changed(bullets); b.Book != "shop" || b.Version != 12 || len(changed)+len(added)+len(removed) > 0 {
			t.Errorf("%q: read back: got %+v, changed %v, added %v, removed %v", file, b, changed, added, removed)
		}
	}
	for _, file := range []string{"<!-- debrief:begin book=shop version=1 bullets= -->\n", "<!-- debrief:end -->\n", "<!-- debrief:end -->\n<!-- debrief:begin book=b version=1 bullets= -->"} {
		if out, err := formats.WriteBlock([]byte(file), "shop", 1, nil); err == nil {
			t.Errorf("%q: got %q, want an error", file, out)
		}
	}
}

func TestChangesOfAPerson(t *testing.T) {
	t.Parallel()
	bullets := formats.ForBlock(blockBullets(), 10_000, func(string) int { return 1 })
	file, err := formats.WriteBlock([]byte("# Mine\n\n- [misc-00001] not in the block\n"), "shop", 12, bullets)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(file), "Prices are in cents.", "Prices are in cents,\n  without a comma.", 1)
	text = strings.Replace(text, "- [ts-00003] Ask for the date.\n", "- [x] Ask for the number.\n* Be brief.\n", 1)
	b, err := formats.ReadBlock([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	changed, added, removed := b.Changed(bullets)
	got := fmt.Sprint(changed, added, removed)
	if want := "[{misc-00001 others Prices are in cents,\nwithout a comma.}] [{ mistakes [x] Ask for the number.} { mistakes Be brief.}] [ts-00003]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzReadBlock(f *testing.F) {
	file, _ := formats.WriteBlock(nil, "shop", 12, blockBullets()[:3])
	f.Add(file)
	f.Add([]byte("<!-- debrief:begin book=b version=99999999999999999999 bullets=, -->\n<!-- debrief:end -->"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := formats.ReadBlock(data)
		if err != nil {
			return
		}
		b.Changed(blockBullets())
		if out, err := formats.WriteBlock(data, "shop", 1, blockBullets()[:1]); err != nil || !formats.HasBlock(out) {
			t.Errorf("%q: %v", out, err)
		}
	})
}

// TestBlockOfAnImport checks that a block with any ids and with blank lines is read as it was written, also if an editor has removed the white space at
// the ends of lines.
func TestBlockOfAnImport(t *testing.T) {
	t.Parallel()
	bullets := []*playbook.Bullet{
		{ID: "prüfung-1", Section: "others", Content: "Prices are in cents."},
		{ID: "rule 2, new -->", Section: "others", Content: "Two parts:\n\nfirst\n\n\nsecond"},
		{ID: "a+b%20", Section: "tests", Content: "[x] Ask for the date."},
	}
	file, err := formats.WriteBlock(nil, "shop", 3, bullets)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(file), strings.ReplaceAll(string(file), "  \n", "\n")} {
		b, err := formats.ReadBlock([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if changed, added, removed := b.Changed(bullets); len(changed)+len(added)+len(removed) > 0 {
			t.Errorf("got %q changed, %q added, %q removed in\n%s", changed, added, removed, text)
		}
	}
}
