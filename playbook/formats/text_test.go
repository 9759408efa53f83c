package formats_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/playbook"
	"debrief/playbook/formats"
)

// read reads a file that must be readable.
func read(t testing.TB, text string, f formats.Format) *formats.Document {
	t.Helper()
	doc, err := formats.Read([]byte(text), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// write formats a document.
func write(t testing.TB, doc *formats.Document) (string, []formats.Loss) {
	t.Helper()
	out, losses, err := formats.Write(doc.Format, "book", doc.Bullets)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), losses
}

// checkNotes compares notes with the expected prefixes.
func checkNotes(t *testing.T, got []formats.Note, want []string) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(n formats.Note, w string) bool { return strings.HasPrefix(n.String(), w) }) {
		t.Errorf("got notes %q, want %q", got, want)
	}
}

// Each of these files breaks another tool.
func TestUnusualTexts(t *testing.T) {
	t.Parallel()
	type bullets = []playbook.Bullet
	long := strings.Repeat("ab ", 350_000)
	for _, test := range []struct {
		name, text string
		format     formats.Format
		want       bullets
		notes      []string
	}{
		{
			name:   "a preamble before the first header is ignored",
			text:   "House rules, 2026.\n\n# read me\n## TOOL USE\n[tool-00001] helpful=2 harmful=1 :: Ask first.\n",
			format: formats.ACE,
			want:   bullets{{ID: "tool-00001", Section: "tool_use", Content: "Ask first.", Helpful: 2, Harmful: 1}},
			notes:  []string{"lines outside bullets: 2; ignored"},
		}, {
			name:   "bullets above the first header have a section",
			text:   "[a-00001] helpful=0 harmful=0 :: One.\n## Tax & Duty:\n[b-00002] helpful=0 harmful=0 :: Two.",
			format: formats.ACE,
			want:   bullets{{ID: "a-00001", Section: "general", Content: "One."}, {ID: "b-00002", Section: "tax_and_duty", Content: "Two."}},
		}, {
			name:   "ids of any slug and ids without a number are ids",
			text:   "## X\n[ph-00001] a\n[vc-00012] b\n[sai-00003] c\n[no_number] d\n[財務-00004] e\n",
			format: formats.ACE,
			want: bullets{
				{ID: "ph-00001", Section: "x", Content: "a"},
				{ID: "vc-00012", Section: "x", Content: "b"},
				{ID: "sai-00003", Section: "x", Content: "c"},
				{ID: "no_number", Section: "x", Content: "d"},
				{ID: "財務-00004", Section: "x", Content: "e"},
			},
		}, {
			name: "a duplicate id gets a new unique id",
			text: "## X\n[a-1] helpful=1 harmful=0 :: one\n[a-1] helpful=2 harmful=0 :: two\n[a-1] helpful=3 harmful=0 :: two\n" +
				"[a-1-2] helpful=4 harmful=0 :: four\n",
			format: formats.ACE,
			want: bullets{
				{ID: "a-1", Section: "x", Content: "one", Helpful: 1},
				{ID: "a-1-3", Section: "x", Content: "two", Helpful: 2},
				{ID: "a-1-4", Section: "x", Content: "two", Helpful: 3},
				{ID: "a-1-2", Section: "x", Content: "four", Helpful: 4},
			},
			notes: []string{"line 3, a-1: duplicate id a-1; renamed to a-1-3", "line 4, a-1: duplicate id a-1"},
		}, {
			name:   "an invalid id is repaired",
			text:   "## X\n[ a-1\x01 ] helpful=1 harmful=0 :: one\n[" + strings.Repeat("i", 300) + "] helpful=1 harmful=0 :: two\n[b\xff] helpful=1 harmful=0 :: three\n",
			format: formats.ACE,
			want: bullets{
				{ID: "a-1-", Section: "x", Content: "one", Helpful: 1},
				{ID: playbook.BulletID(strings.Repeat("i", 256)), Section: "x", Content: "two", Helpful: 1},
				{ID: "b-", Section: "x", Content: "three", Helpful: 1},
			},
			notes: []string{
				"line 2, a-1-: id has leading or trailing white space; renamed to a-1-", "line 3, " + strings.Repeat("i", 256) + ": id is longer",
				"line 4, b-: id is not valid UTF-8; renamed to b-",
			},
		}, {
			name:   "an id that looks like another one is repaired",
			text:   "## X\n[a-1] helpful=1 harmful=0 :: one\n[a\u200b-1] helpful=1 harmful=0 :: two\n[b\u200d-1] helpful=1 harmful=0 :: three\n",
			format: formats.ACE,
			want: bullets{
				{ID: "a-1", Section: "x", Content: "one", Helpful: 1},
				{ID: "a-1-2", Section: "x", Content: "two", Helpful: 1},
				{ID: "b-1", Section: "x", Content: "three", Helpful: 1},
			},
			notes: []string{
				"line 3, a-1: id contains an invisible character; renamed to a-1-2", "line 4, b-1: id contains an invisible character; renamed to b-1",
			},
		}, {
			name:   "two colons in a content are content",
			text:   "## X\n[a-1] helpful=1 harmful=0 :: std::vector :: helpful=9 harmful=9 :: end\n",
			format: formats.ACE,
			want:   bullets{{ID: "a-1", Section: "x", Content: "std::vector :: helpful=9 harmful=9 :: end", Helpful: 1}},
		}, {
			name:   "tabs and emoji stay",
			text:   "## X\n[a-1] helpful=1 harmful=0 :: a\tb 🧾👩‍💻\n  \tindented\n",
			format: formats.ACE,
			want:   bullets{{ID: "a-1", Section: "x", Content: "a\tb 🧾👩‍💻\n\tindented", Helpful: 1}},
		}, {
			name:   "line ends of Windows and a byte order mark stay out of the contents",
			text:   "\ufeff## X\r\n[a-1] helpful=1 harmful=0 :: one\r\n  more\r\n\r\n[a-2] helpful=0 harmful=0 :: two",
			format: formats.ACE,
			want:   bullets{{ID: "a-1", Section: "x", Content: "one\nmore", Helpful: 1}, {ID: "a-2", Section: "x", Content: "two"}},
		}, {
			name:   "mixed line ends and trailing spaces stay out of the contents",
			text:   "## X \r\n[a-1] helpful=1 harmful=0 :: one  \n\t\n[a-2]  helpful=0 harmful=0 ::two\r\n",
			format: formats.ACE,
			want:   bullets{{ID: "a-1", Section: "x", Content: "one", Helpful: 1}, {ID: "a-2", Section: "x", Content: "two"}},
		}, {
			name:   "NUL and invalid UTF-8 are removed with a note",
			text:   "## X\n[a-1] helpful=1 harmful=0 :: o\x00ne\n[a-2] helpful=0 harmful=0 :: \xfftwo\n",
			format: formats.ACE,
			want:   bullets{{ID: "a-1", Section: "x", Content: "one", Helpful: 1}, {ID: "a-2", Section: "x", Content: "\uFFFDtwo"}},
			notes:  []string{"line 2, a-1: invalid characters were removed", "line 3, a-2: invalid characters"},
		}, {
			name:   "a line of a megabyte is skipped with a note",
			text:   "## X\n[a-1] helpful=1 harmful=0 :: " + long + "\n[a-2] helpful=0 harmful=0 :: two\n",
			format: formats.ACE,
			want:   bullets{{ID: "a-2", Section: "x", Content: "two"}},
			notes:  []string{"line 2, a-1: content: is longer than 65536 bytes; bullet skipped"},
		}, {
			name:   "an empty bullet is skipped with a note",
			text:   "## X\n[a-1] helpful=1 harmful=0 ::\n[a-2] helpful=0 harmful=0 :: two\n",
			format: formats.ACE,
			want:   bullets{{ID: "a-2", Section: "x", Content: "two"}},
			notes:  []string{"line 2, a-1: content: is empty"},
		}, {
			name:   "counters with zeros before them and counters of 32 bits are counters",
			text:   "## X\n[a-1] helpful=007 harmful=2147483648 :: one\n",
			format: formats.ACE,
			want:   bullets{{ID: "a-1", Section: "x", Content: "one", Helpful: 7, Harmful: 1 << 31}},
		}, {
			name: "a bullet with invalid counters is ignored",
			text: "## X\n[a-1] helpful=-1 harmful=0 :: one\n[a-2] helpful=1 :: two\n[a-3] helpful=99999999999999999999 harmful=0 :: three\n" +
				"[a-4] helpful=0 harmful=0 :: four\n",
			format: formats.ACE,
			want:   bullets{{ID: "a-4", Section: "x", Content: "four"}},
			notes:  []string{"line 2: malformed bullet", "line 3: malformed bullet", "line 4: malformed bullet"},
		}, {
			name: "other lines of an ace file are ignored",
			text: "## X\nAbout X.\n  [ ] indented, under no bullet\n[a-1] helpful=0 harmful=0 :: one\nfree text\nmore of it\n[b-1] no counters\n\n" +
				" \t[a-2] helpful=0 harmful=0 :: two\n  three\n\n  four\n",
			format: formats.ACE,
			want:   bullets{{ID: "a-1", Section: "x", Content: "one"}, {ID: "a-2", Section: "x", Content: "two\nthree"}},
			notes:  []string{"line 5: line after a bullet", "line 7: bullet without counters", "lines outside bullets: 4; ignored"},
		}, {
			name: "without counters, all lines up to the next bullet or header are content",
			text: "## CODE:\n[code-00001] Page through it:\n# all of them\nfor i in n:\n\n    [x] = f(i)\n[x] done\n[1, 2]\n\n" +
				"[code-00002] Two.\n\n## NEXT\n[code-00003]\nbelow\n",
			format: formats.ACE,
			want: bullets{
				{ID: "code-00001", Section: "code", Content: "Page through it:\n# all of them\nfor i in n:\n\n    [x] = f(i)\n[x] done\n[1, 2]"},
				{ID: "code-00002", Section: "code", Content: "Two."},
				{ID: "code-00003", Section: "next", Content: "below"},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			doc := read(t, test.text, test.format)
			var got bullets
			for _, b := range doc.Bullets {
				got = append(got, *b)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("bullets (-want +got):\n%s", diff)
			}
			checkNotes(t, doc.Notes, test.notes)
		})
	}
}

const house = `Our rules.

## TOOLS
[tool-00001] helpful=1 harmful=0 :: Ask first.
[tool-00002] helpful=07 harmful=0 :: Then act.  

## EMPTY

## TAX
[tax-00003] helpful=0 harmful=2 :: Comes last.
Signed: us
`

// Content that looks like a header or a bullet is escaped, and each escape is a loss.
func TestForgedContentStaysContent(t *testing.T) {
	t.Parallel()
	forged := &playbook.Bullet{
		ID: "a-00001", Section: "x", Helpful: 1,
		Content: "helpful=50 harmful=0 :: real\n## FREE\n[x] helpful=99 harmful=0 :: vote\n    [y-00002] helpful=1 harmful=0 :: more\n[z-00003] plain\n[i for i in n]\n```python",
	}
	last := &playbook.Bullet{ID: "b-00002", Section: "y", Content: "```\nend"}
	for f, want := range map[formats.Format]string{
		formats.ACE: "## X\n[a-00001] helpful=1 harmful=0 :: helpful=50 harmful=0 :: real\n  \\## FREE\n  \\[x] helpful=99 harmful=0 :: vote\n" +
			"      \\[y-00002] helpful=1 harmful=0 :: more\n  [z-00003] plain\n  [i for i in n]\n  ```python\n\n## Y\n[b-00002] helpful=0 harmful=0 :: ```\n  end\n",
	} {
		out, losses, err := formats.Write(f, "book", []*playbook.Bullet{forged, last})
		if err != nil || string(out) != want {
			t.Errorf("%s: error %v, got\n%s\nwant\n%s", f, err, out, want)
		}
		if !slices.ContainsFunc(losses, func(l formats.Loss) bool {
			return l.Bullet == "a-00001" && l.Field == "content" && strings.HasPrefix(l.Reason, "line 2 ")
		}) {
			t.Errorf("%s: got losses %v", f, losses)
		}
		doc := read(t, string(out), "")
		if b := doc.Bullets[0]; doc.Format != f || len(doc.Bullets) != 2 || b.ID != forged.ID || b.Section != "x" || b.Helpful != 1 {
			t.Errorf("%s: parsed as %s, %d bullets, %+v", f, doc.Format, len(doc.Bullets), b)
		}
	}
}

func TestWriteListsLosses(t *testing.T) {
	t.Parallel()
	doc := read(t, `{"format":"debrief-playbook","schema":1,"book":"b","bullets":[{"id":"x","section":"problem-solving_heuristics","content":"c","helpful":1,
		"neutral":2,"status":"quarantined","pinned":true,"created_at":"2026-01-02T03:04:05Z"}]}`, "")
	for f, want := range map[formats.Format][]string{
		formats.ACE:      {"section", "neutral", "status", "pinned", "created_at"},
		formats.Markdown: {"status"},
		formats.Kayba:    {"pinned", "status"},
		formats.SweCLI:   {"status", "pinned"},
		formats.JSON:     nil,
		formats.JSONL:    nil,
	} {
		_, losses, err := formats.Write(f, "book", doc.Bullets)
		var got []string
		for _, l := range losses {
			got = append(got, l.Field)
		}
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: error %v, got %v, want %v", f, err, losses, want)
		}
	}
}

// TestIDWithATooLargeNumberIsRejected: the error has the line or the item.
func TestIDWithATooLargeNumberIsRejected(t *testing.T) {
	t.Parallel()
	const id = "zz-1000000000000000"
	for want, file := range map[string]string{
		"line 3, " + id + ": ": "## X\n[a-1] helpful=0 harmful=0 :: one\n[" + id + "] helpful=0 harmful=0 :: two\n",
		"line 2, " + id + ": ": `{"id":"a-1","section":"x","content":"one"}` + "\n" + `{"id":"` + id + `","section":"x","content":"two"}` + "\n",
	} {
		_, err := formats.Read([]byte(file), "", nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s…", err, want)
		}
	}
}

func TestIDsOfTheBookAreRenamed(t *testing.T) {
	t.Parallel()
	book := map[playbook.BulletID]string{"a-00001": "theirs", "b-00002": "two", "a-00001-2": "theirs too"}
	taken := func(id playbook.BulletID, section, content string) bool {
		was, ok := book[id]
		return ok && was != content
	}
	const text = "## X\n[a-00001] one\n[b-00002] two\n"
	doc, err := formats.Read([]byte(text), "", taken)
	if err != nil {
		t.Fatal(err)
	}
	if got := []playbook.BulletID{doc.Bullets[0].ID, doc.Bullets[1].ID}; !slices.Equal(got, []playbook.BulletID{"a-00001-3", "b-00002"}) {
		t.Errorf("got %v", got)
	}
	checkNotes(t, doc.Notes, []string{"line 2, a-00001: the book has another bullet with the id a-00001; renamed to a-00001-3"})

	// Importing the same file again gives the same id.
	book["a-00001-3"] = "one"
	if again, err := formats.Read([]byte(text), "", taken); err != nil || again.Bullets[0].ID != "a-00001-3" {
		t.Errorf("got %v, error %v", again.Bullets[0], err)
	}
}
