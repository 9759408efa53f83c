package redact

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

//go:embed testdata/corpus.txt
var corpus string

var alphabets = map[byte]string{
	'A': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
	'L': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	'U': "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
	'N': "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
	'H': "0123456789ABCDEF",
	'h': "0123456789abcdef",
	'd': "123456789",
	'w': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
	'B': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
}

var blank = regexp.MustCompile(`\{([A-Za-z]\d+)?\}`)

// example is an artificial text of the corpus: parts[0], a secret, parts[1], a secret, parts[2] …
type example struct {
	line    int
	secret  bool // it contains a secret
	text    string
	rest    string // text with ⟦⟧ in the place of each secret
	secrets []string
}

// examples returns the examples of the corpus with other letters and digits for each seed.
func examples(tb testing.TB, seed uint64) (all []example) {
	tb.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	for n, line := range strings.Split(corpus, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		e := example{line: n + 1, secret: line[0] == '+'}
		text := blank.ReplaceAllStringFunc(strings.ReplaceAll(line[2:], "⏎", "\n"), func(b string) string {
			if b == "{}" {
				return ""
			}
			from := alphabets[b[1]]
			count, err := strconv.Atoi(b[2 : len(b)-1])
			if err != nil || from == "" {
				tb.Fatalf("corpus line %d: %s", n+1, b)
			}
			out := make([]byte, count)
			for i := range out {
				out[i] = from[r.IntN(len(from))]
			}
			return string(out)
		})
		for i, part := range strings.Split(text, "⟦") {
			if i == 0 {
				e.rest = part
				continue
			}
			secret, after, ok := strings.Cut(part, "⟧")
			if !ok {
				tb.Fatalf("corpus line %d: a secret has no end", n+1)
			}
			e.secrets = append(e.secrets, secret)
			e.rest += "⟦⟧" + after
		}
		e.text = strings.NewReplacer("⟦", "", "⟧", "").Replace(text)
		if e.secret != (len(e.secrets) > 0) {
			tb.Fatalf("corpus line %d: begins with %q and has %d secrets", n+1, line[0], len(e.secrets))
		}
		all = append(all, e)
	}
	return all
}

var aMark = regexp.MustCompile(`\[redacted: [a-z ]{1,32}\]`)

// TestCorpus checks that exactly each secret is redacted, and that similar text is not changed. It runs 20 times
// with random letters.
func TestCorpus(t *testing.T) {
	t.Parallel()
	const seeds = 20
	var positives, found, exact, negatives, wrong int
	shown := map[int]bool{}
	for seed := range uint64(seeds) {
		for _, e := range examples(t, seed) {
			got := Text(e.text)
			if again := Text(got); again != got {
				t.Errorf("line %d: Text(%q) again returns %q", e.line, got, again)
			}
			if !e.secret {
				negatives++
				if strings.Contains(e.text, "[redacted: ") || got == e.text {
					continue
				}
				wrong++
				if !shown[e.line] {
					t.Logf("line %d: %q, got %q, want it as it is", e.line, e.text, got)
					shown[e.line] = true
				}
				continue
			}
			positives++
			gone := true
			for _, s := range e.secrets {
				gone = gone && !strings.Contains(got, s[max(0, len(s)-8):])
			}
			if gone {
				found++
			}
			if aMark.ReplaceAllString(got, "⟦⟧") == e.rest {
				exact++
			} else if !shown[e.line] {
				t.Logf("line %d: %q, got %q, want %q", e.line, e.text, got, e.rest)
				shown[e.line] = true
			}
		}
	}
	recall, exactly := float64(found)/float64(positives), float64(exact)/float64(positives)
	precision := float64(found) / float64(found+wrong)
	t.Logf("%d texts with secrets, %d without: recall %.2f %%, to the byte %.2f %%, precision %.2f %%",
		positives/seeds, negatives/seeds, 100*recall, 100*exactly, 100*precision)
	if positives/seeds < 150 || negatives/seeds < 150 {
		t.Errorf("got %d and %d texts, want at least 150 of each", positives/seeds, negatives/seeds)
	}
	if recall < 0.99 || exactly < 0.98 || precision < 0.99 {
		t.Errorf("got recall %.4f, exactly %.4f, precision %.4f", recall, exactly, precision)
	}
}

func TestTextWithoutSecretsDoesNotAllocate(t *testing.T) { // not parallel: it counts allocations
	text := strings.Repeat("The account token_count=5 is 2026-11-22T10:00:00Z, see https://example.com/a?b=c: ok.\n", 100)
	if n := testing.AllocsPerRun(100, func() {
		if Text(text) != text {
			t.Error("it changed")
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

// FuzzText checks the contract of Text: no panic, no change by a second call, valid UTF-8 and JSON stay valid, and
// limited growth.
func FuzzText(f *testing.F) {
	for _, e := range examples(f, 0) {
		f.Add(e.text)
		for _, level := range []func(string) string{inJSON, inString, url.QueryEscape, escapedAll, inBase64} {
			f.Add(level(e.text))
		}
	}
	for _, text := range []string{`{"a":"\figd_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA1"}`, `{"PASSWORD":[true,1]}`, `{"password":-1.5e55}`, `["password='","b'"]`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if again := Text(got); again != got {
			t.Errorf("%q: first %q, then %q", s, got, again)
		}
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("%q: %q is not valid UTF-8", s, got)
		}
		if json.Valid([]byte(s)) && !json.Valid([]byte(got)) {
			t.Errorf("%q: %q is not valid JSON", s, got)
		}
		if len(got) > 6*len(s) { // a short secret and its mark
			t.Errorf("%q: %d bytes became %d", s, len(s), len(got))
		}
	})
}

// Encodings for the tests.

func inJSON(text string) string { return `{"note": ` + quoted(text) + `}` }

func inString(text string) string { return inJSON(inJSON(text)) }

func inBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func escapedAll(text string) string {
	var out strings.Builder
	for _, c := range text {
		fmt.Fprintf(&out, `\u%04x`, c)
	}
	return out.String()
}

func quoted(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}

func benchmark(b *testing.B, text string) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Text(text)
	}
}

func BenchmarkText(b *testing.B) {
	prose := strings.Repeat("Before the reservation is cancelled, look at the membership of its owner: gold members are refunded in full. ", 10000)
	source := strings.Repeat("\tif err := conn.Publish(ctx, &events.Task{ID: id, Question: q}); err != nil { return fmt.Errorf(\"publish: %w\", err) }\n", 10000)
	json := strings.Repeat(`{"tool": "get_user_details", "arguments": "{\"user_id\": \"mia_li_3668\"}", "output": "ok", "duration_ns": 12345678}, `, 10000)
	var some strings.Builder
	for i, e := range examples(b, 1) {
		some.WriteString(strings.Repeat("some words around it, ", 20))
		some.WriteString(e.text)
		some.WriteString(fmt.Sprintln(i))
	}
	for _, c := range []struct{ name, text string }{
		{"prose", prose},
		{"source", source},
		{"JSON", json},
		{"with secrets", some.String()},
		{"hostile names", strings.Repeat("password=", 100000)},
		{"hostile quotes", strings.Repeat(`password="`+"'`", 100000)},
		{"hostile quotes without end", strings.Repeat(`password="a`, 1) + strings.Repeat(`password='a password=`, 50000)},
		{"hostile blocks", strings.Repeat("-----BEGIN RSA PRIVATE KEY-----", 30000)},
		{"hostile blocks with margins", strings.Repeat("-----BEGIN RSA PRIVATE KEY-----\n  > A\n 1\tB\n  AAAAAAAAAAAAAAAA\\q\\t\\t C ", 10000)},
		{"hostile block with margins", "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("    1\\t\\t\\n", 60000)},
		{"hostile ends of blocks", strings.Repeat("AAAAAAAAAAAAAAAA -----END RSA PRIVATE KEY-----", 20000)},
		{"hostile cookies", strings.Repeat("cookie=", 100000)},
		{"hostile options", "sshpass " + strings.Repeat("-p ", 200000)},
		{"hostile machines", strings.Repeat("machine h login a account b ", 30000)},
		{"hostile tokens", strings.Repeat("eyJ.eyJaaaaaaaaaaaaaaaaaaaaa.", 30000)},
		{"hostile addresses", strings.Repeat("://a:b", 100000)},
	} {
		b.Run(c.name, func(b *testing.B) { benchmark(b, c.text) })
	}
}
