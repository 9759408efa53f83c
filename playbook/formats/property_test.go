package formats_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/formats"
)

// hostile has the parts of generated contents and files: every kind of line, and characters that split lines.
var hostile = []string{
	"\n", "\n", "\n", "\r\n", " ", "  ", "\t", "\x00", "\u2028", "\xff", "\\", "## X", "##", "# y", "[x] helpful=99 harmful=0 :: y",
	"[x-00001] z", "[intro] z", "[x-00001]", "[x]", "[1, 2]", "helpful=3 harmful=0 :: ", "harmful=", "helpful=-1", " :: ", "```", "```python",
	"`", "word", "🧾", "é", "[", "]", "{", "\"", ":", "-2", "<b>&",
}

func content() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 1, 14).Draw(t, "parts"), "")
	})
}

// clean draws a valid condition and content.
func clean(t *rapid.T) (when, text string) {
	condition := rapid.SampledFrom([]string{"", "", "it rains", "a: b", "[x-00001] helpful=1 harmful=0 :: y", "## X"}).Draw(t, "when")
	when, text, err := playbook.CleanText(condition, content().Draw(t, "content"))
	if err != nil {
		return "", "nothing"
	}
	return when, text
}

func ids() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z]{1,3}-[0-9]{1,3}`),
		rapid.SampledFrom([]string{"x", "a b", "ab", "a]b", "\n", "", " a", "[", "12", "財務-1", "a-2-2", "helpful=1", strings.Repeat("é", 128), strings.Repeat("x", 300)}),
	)
}

func sections() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		"others", "general", "misc", "tax_and_duty", "a:", "straße", "problem-solving_heuristics", "problem_solving_heuristics", "e-mail", "x", "", "A B", "#",
	})
}

// bullets draws bullets that are valid except for their ids.
func bullets(t *rapid.T) []*playbook.Bullet {
	all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *playbook.Bullet {
		when, text := clean(t)
		return &playbook.Bullet{
			ID: playbook.BulletID(ids().Draw(t, "id")), Section: playbook.Section(sections().Draw(t, "section")), When: when, Content: text,
			Helpful: rapid.IntRange(0, 3).Draw(t, "helpful"), Harmful: rapid.IntRange(0, 1<<33).Draw(t, "harmful"), Neutral: rapid.IntRange(0, 1).Draw(t, "neutral"),
			Status: rapid.SampledFrom([]playbook.Status{"", playbook.Retired, playbook.Candidate}).Draw(t, "status"), Pinned: rapid.Bool().Draw(t, "pinned"),
			CreatedAt: time.Unix(rapid.Int64Range(1, 1<<32).Draw(t, "created"), 1000*rapid.Int64Range(0, 1e6-1).Draw(t, "µs")).UTC(),
		}
	}), 1, 8).Draw(t, "bullets")
	seen := map[playbook.BulletID]bool{}
	return slices.DeleteFunc(all, func(b *playbook.Bullet) bool {
		twice := seen[b.ID]
		seen[b.ID] = true
		return twice
	})
}

// lost indexes losses by bullet and field.
func lost(losses []formats.Loss) map[string]bool {
	set := map[string]bool{}
	for _, l := range losses {
		set[string(l.Bullet)+"\x00"+l.Field] = true
	}
	return set
}

// plain removes the escapes that Write may have added.
func plain(content string) string { return strings.ReplaceAll(content, `\`, "") }

// differ describes the difference of a bullet after writing and reading, except for losses.
func differ(was, is *playbook.Bullet, lost map[string]bool) string {
	kept := func(field string) bool { return !lost[string(was.ID)+"\x00"+field] }
	switch {
	case was.ID != is.ID && kept("id"):
		return fmt.Sprintf("id %q", is.ID)
	case was.Section != is.Section && kept("section"):
		return fmt.Sprintf("section %q", is.Section)
	case was.Content != is.Content && (kept("content") || plain(was.Content) != plain(is.Content)):
		return fmt.Sprintf("content %q", is.Content)
	case was.When != is.When && kept("when"):
		return fmt.Sprintf("when %q", is.When)
	case was.Helpful != is.Helpful && kept("helpful"), was.Harmful != is.Harmful && kept("harmful"), was.Neutral != is.Neutral && kept("neutral"):
		return fmt.Sprintf("counts %d %d %d", is.Helpful, is.Harmful, is.Neutral)
	case was.Shown() != is.Shown() && kept("status"), was.Pinned != is.Pinned && kept("pinned"):
		return fmt.Sprintf("status %q, pinned %v", is.Status, is.Pinned)
	case !was.CreatedAt.Equal(is.CreatedAt) && kept("created_at"):
		return fmt.Sprintf("created_at %v", is.CreatedAt)
	}
	return ""
}

// checkReadBack writes bullets and reads them. Each must be the same, except for the losses.
func checkReadBack(t *rapid.T, f formats.Format, all []*playbook.Bullet) {
	out, losses, err := formats.Write(f, "book", all)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := formats.Read(out, f, nil)
	if err != nil || len(doc.Bullets) != len(all) {
		t.Fatalf("error %v, want %d bullets from\n%s", err, len(all), out)
	}
	set := lost(losses)
	for i, was := range inFileOrder(f, all) {
		if what := differ(was, doc.Bullets[i], set); what != "" {
			t.Errorf("%+v was read back with %s from\n%s", was, what, out)
		}
	}
}

// inFileOrder sorts bullets like a text, which has them section by section.
func inFileOrder(f formats.Format, all []*playbook.Bullet) []*playbook.Bullet {
	if f != formats.ACE {
		return all
	}
	var order []string
	for _, b := range all {
		if !slices.Contains(order, b.Section) {
			order = append(order, b.Section)
		}
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *playbook.Bullet) int {
		return slices.Index(order, a.Section) - slices.Index(order, b.Section)
	})
	return sorted
}

func TestWrittenBulletsAreReadBack(t *testing.T) {
	t.Parallel()
	readable, _ := formats.Formats()
	for _, f := range readable {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { checkReadBack(t, f, bullets(t)) })
		})
	}
}

// file draws a text of hostile lines.
func file(t *rapid.T) string {
	var out strings.Builder
	for i := range rapid.IntRange(1, 12).Draw(t, "lines") {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			fmt.Fprintf(&out, "## %s", sections().Draw(t, "section"))
		case 1:
			fmt.Fprintf(&out, "[ab-%d] %s", i%4, content().Draw(t, "content"))
		case 2:
			fmt.Fprintf(&out, "[ab-%d] helpful=%d harmful=0 :: %s", i%4, i, content().Draw(t, "content"))
		default:
			out.WriteString(content().Draw(t, "line"))
		}
		out.WriteString(rapid.SampledFrom([]string{"\n", "\n", "\r\n", ""}).Draw(t, "end"))
	}
	return out.String()
}

// The bullets of a text are written to every format and read back.
func TestImportedTextsAreReadBack(t *testing.T) {
	t.Parallel()
	readable, _ := formats.Formats()
	rapid.Check(t, func(t *rapid.T) {
		doc, err := formats.Read([]byte(file(t)), formats.ACE, nil)
		if err != nil {
			return
		}
		checkReadBack(t, rapid.SampledFrom(readable).Draw(t, "written"), doc.Bullets)
	})
}
