package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// encodings encode and decode a text. In those marked as covered every secret must be found.
var encodings = []struct {
	name   string
	hide   func(string) string
	reveal func(string) string
	covers bool
}{
	{"JSON value", inJSON, fromJSON, true},
	{"JSON in a string", inString, func(s string) string { return fromJSON(fromJSON(s)) }, true},
	{"JSON in a string, twice", func(s string) string { return inJSON(inString(s)) }, func(s string) string { return fromJSON(fromJSON(fromJSON(s))) }, true},
	{"form", url.QueryEscape, unescaped(url.QueryUnescape), true},
	{"URL", func(s string) string { return "/x?q%3D" + strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }, unescaped(url.PathUnescape), true},
	{`\u escapes`, escapedAll, func(s string) string { return fromJSON(`{"note": "` + s + `"}`) }, true},
	{"URL in JSON", func(s string) string { return inJSON(url.QueryEscape(s)) }, func(s string) string { return unescaped(url.QueryUnescape)(fromJSON(s)) }, true},
	{"base64", inBase64, revealBase64(base64.StdEncoding), true},
	{
		"base64url in JSON", func(s string) string { return inJSON(base64.RawURLEncoding.EncodeToString([]byte(s))) },
		func(s string) string { return revealBase64(base64.RawURLEncoding)(fromJSON(s)) }, true,
	},
	{"hex", func(s string) string { return hex.EncodeToString([]byte(s)) }, func(s string) string { out, _ := hex.DecodeString(s); return string(out) }, false},
}

func fromJSON(text string) string {
	var v struct{ Note string }
	if json.Unmarshal([]byte(text), &v) != nil {
		return "no JSON: " + text
	}
	return v.Note
}

func unescaped(f func(string) (string, error)) func(string) string {
	return func(s string) string {
		out, err := f(s)
		if err != nil {
			return "no URL: " + s
		}
		return out
	}
}

func revealBase64(enc *base64.Encoding) func(string) string {
	return func(s string) string {
		out, err := enc.DecodeString(s)
		if err != nil {
			return s // a mark
		}
		return string(out)
	}
}

// TestCorpusInEncodings encodes each text of the corpus in each encoding: secrets are redacted, and other text is
// not changed.
func TestCorpusInEncodings(t *testing.T) {
	t.Parallel()
	const seeds = 5
	shown := map[string]bool{}
	for _, enc := range encodings {
		positives, found, negatives, wrong := 0, 0, 0, 0
		for seed := range uint64(seeds) {
			for _, e := range examples(t, seed) {
				hidden := enc.hide(e.text)
				got := Text(hidden)
				if again := Text(got); again != got {
					t.Errorf("%s, line %d: Text(%q) again returns %q", enc.name, e.line, got, again)
				}
				if json.Valid([]byte(hidden)) && !json.Valid([]byte(got)) {
					t.Errorf("%s, line %d: %q is not valid JSON", enc.name, e.line, got)
				}
				if !e.secret {
					negatives++
					if got != hidden && Text(e.text) == e.text {
						wrong++
						t.Errorf("%s, line %d: %q, got %q", enc.name, e.line, e.text, got)
					}
					continue
				}
				positives++
				open, gone := enc.reveal(got), true
				for _, s := range e.secrets {
					gone = gone && !strings.Contains(open, s[max(0, len(s)-8):])
				}
				if gone {
					found++
				} else if key := enc.name + e.rest; !shown[key] {
					shown[key] = true
					if enc.covers {
						t.Logf("%s, line %d: %q, got %q", enc.name, e.line, e.text, open)
					}
				}
			}
		}
		t.Logf("%-24s %.2f %% of %d stay, %d of %d others changed", enc.name, 100-100*float64(found)/float64(positives), positives/seeds, wrong, negatives/seeds)
		if recall := float64(found) / float64(positives); enc.covers && recall < 0.99 {
			t.Errorf("%s: recall %.4f", enc.name, recall)
		}
	}
}

// TestID checks that a secret has a stable replacement, which is a valid id, and that other ids are not changed.
func TestID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "s-1", "user 42", "a1b2c3d4-0000-4000-8000-1234567890ab", "task/17?x=y"} {
		if got := ID(id); got != id {
			t.Errorf("%q: got %q", id, got)
		}
	}
	name := regexp.MustCompile(`^redacted-[0-9a-f]{16}$`)
	for _, e := range examples(t, 1) {
		if !e.secret {
			continue
		}
		got := ID(e.text)
		if !name.MatchString(got) || ID(e.text) != got || ID(got) != got || got == ID(e.text+" ") {
			t.Errorf("line %d: got %q", e.line, got)
		}
	}
}
