package formats_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"debrief/playbook/formats"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       formats.Format
	}{
		{"counters", "## A\n[a-1] helpful=0 harmful=0 :: x", formats.ACE},
		{"counters on some", "## A\n[b-1] y\n [a-1]helpful=0 harmful=0::x", formats.ACE},
		{"none", "## A\n[ab] x\n", formats.ACE},
		{"none, no header", "\ufeff[a-1] x\n", formats.ACE},
		{"a brace in the preamble", "{draft}\n[a-1] x\n", formats.ACE},
		{"a bracket first", "[a-1]\nx\n", formats.ACE},
		{"skills", `{"skills":{}}`, formats.Kayba},
		{"bullets by id", "\ufeff {\"bullets\":{}}", formats.Kayba},
		{"strategies", `{"next_id":0,"strategies":{}}`, formats.SweCLI},
		{"ours", `{"format":"debrief-playbook","schema":1,"bullets":[]}`, formats.JSON},
		{"ours in lines", "{\"format\":\"debrief-playbook\",\"schema\":1}\n{\"id\":\"a\"", formats.JSONL},
		{"ours in one line", `{"format":"debrief-playbook","schema":1}`, formats.JSONL},
		{"lines without a header", "{\"id\":\"a\",\"section\":\"b\",\"content\":\"c\"}\n{\"id\":\"a\"}\n", formats.JSONL},
	} {
		if got, err := formats.Detect([]byte(test.text)); got != test.want || err != nil {
			t.Errorf("%s: got %q, error %v, want %s", test.name, got, err, test.want)
		}
	}
}

// Files that are not playbooks, and playbooks without bullets, are errors.
func TestReadRejectsFilesWithoutBullets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		format     formats.Format
		is         error
		names      string
	}{
		{"an empty file", "", "", formats.ErrNoBullet, ""},
		{"white space", " \n\t\n", "", formats.ErrNoBullet, ""},
		{"a text without a bullet", "## RULES\n\nNone yet.\n", "", formats.ErrNoBullet, ""},
		{"a log", "[INFO] up\n[WARN] slow\n", "", formats.ErrNoBullet, ""},
		{"a binary file", "\x7fELF\x02\x01\x01\x00\x00\xff\xfe", "", formats.ErrFormat, "binary"},
		{"text in UTF-16", "\xff\xfe[\x00a\x00]\x00", "", formats.ErrNoBullet, "binary"},
		{"a prompt", "## Learned Strategies\n\n### Tools\n- [a-1] x (helpful=0, harmful=0)\n", "", formats.ErrFormat, "markdown"},
		{"truncated JSON", "{\"skills\": {\n\"a\": {\"content\": \"x", "", formats.ErrFormat, "line 2"},
		{"broken JSON", "{\"skills\": {\n}]}", "", formats.ErrFormat, "line 2: "},
		{"other JSON", `{"skills":[],"bullets":7}`, "", formats.ErrFormat, "JSON"},
		{"lines of other JSON", "{\"a\":1}\n{\"b\":2}\n", "", formats.ErrFormat, "JSON"},
		{"a JSON list", `[{"id":"a"}]`, "", formats.ErrFormat, "list"},
		{"a skillbook without skills", `{"skills":{}}`, "", formats.ErrNoBullet, "kayba"},
		{"a skillbook of another schema", `{"schema_version":"2","skills":{"a":{"issue":"x"}}}`, "", nil, "schema_version \"2\""},
		{"only invalid items", `{"skills":{"a":7}}`, "", formats.ErrNoBullet, "a: "},
		{"an empty native book", `{"format":"debrief-playbook","schema":1,"bullets":[]}`, "", formats.ErrNoBullet, "json"},
		{"a newer schema", `{"format":"debrief-playbook","schema":2,"bullets":[{}]}`, "", nil, "schema 2"},
		{"a wrong type", `{"format":"debrief-playbook","schema":1,"bullets":[{"id":"a","content":"x"},{"id":7}]}`, "", nil, "bullets[1]: "},
		{"half a line", "{\"format\":\"debrief-playbook\",\"schema\":1}\n\n{\"id\":\"a\",\"content\":\"x\"}\n{\"id\":\"b\",\"co", "", nil, "line 4: "},
		{"an empty file as ace", "", formats.ACE, formats.ErrNoBullet, "ace"},
		{"an empty file as kayba", "", formats.Kayba, nil, "line 1"},
		{"an empty file as json", "", formats.JSON, nil, "line 1"},
		{"an empty file as jsonl", "", formats.JSONL, formats.ErrNoBullet, ""},
		{"a text as swecli", "[a-1] x", formats.SweCLI, nil, "line 1: "},
		{"kayba as swecli", `{"skills":{}}`, formats.SweCLI, formats.ErrFormat, "strategies"},
		{"kayba as json", `{"skills":{}}`, formats.JSON, formats.ErrFormat, "\"format\""},
		{"only invalid counters", "## A\n[a-1] helpful=-1 harmful=0 :: x\n", formats.ACE, formats.ErrNoBullet, "line 2: "},
		{"markdown", "x", formats.Markdown, nil, "markdown"},
		{"an unknown format", "x", "toml", nil, "\"toml\""},
	} {
		doc, err := formats.Read([]byte(test.text), test.format, nil)
		if doc != nil || err == nil || !strings.Contains(err.Error(), test.names) || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: got %v, error %v, want %v that names %q", test.name, doc, err, test.is, test.names)
		}
	}
	if _, _, err := formats.Write("toml", "book", nil); err == nil {
		t.Error("write toml: got no error")
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	readable, writable := formats.Formats()
	if want := append(slices.Clone(readable), formats.Markdown); !slices.Equal(writable, want) {
		t.Errorf("got %v, want %v", writable, want)
	}
	for _, f := range writable {
		if _, _, err := formats.Write(f, "book", nil); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}
