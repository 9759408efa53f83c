package redact

import (
	_ "embed"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// forms are the documented forms of vendors' keys, one a line: the vendor, and the form with blanks as in corpus.txt. They are
// written apart from the table of shapes, so that a wrong row of the table is found.
//
//go:embed testdata/forms.txt
var forms string

// places are the texts in which a key stands. None names a secret.
var places = []func(key string) string{
	func(key string) string { return key },
	func(key string) string { return "use " + key + " here." },
	func(key string) string { return "curl https://example.com/a?b=" + key + "&c=1" },
	func(key string) string { return `{"note":"line\n` + key + `\n"}` },
	func(key string) string { return "x = '" + key + "'" },
	func(key string) string {
		data, _ := json.Marshal(map[string]string{"text": `{"a":"` + key + `"}`})
		return string(data)
	},
}

// TestVendorForms makes samples of each documented form, and prints the parts that stay.
func TestVendorForms(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	vendors := 0
	for line := range strings.Lines(forms) {
		vendor, form, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		vendors++
		stays, example := 0, ""
		for range 20 {
			key := fill(t, r, form)
			for _, place := range places {
				text := place(key)
				got := Text(text)
				if again := Text(got); again != got {
					t.Errorf("%s: redacted again: %q", vendor, got)
				}
				if want := place("⟦"); strings.Replace(got, "["+between(got)+"]", "⟦", 1) != want {
					stays++
					example = got
				}
			}
		}
		if stays > 0 {
			t.Errorf("%s: %d of %d samples of %s stay in part, such as %q", vendor, stays, 20*len(places), form, example)
		}
	}
	if vendors < 90 {
		t.Errorf("got %d forms", vendors)
	}
}

// between returns the text of the first mark without its brackets.
func between(text string) string {
	_, after, _ := strings.Cut(text, "[")
	inner, _, _ := strings.Cut(after, "]")
	return inner
}

// fill puts random letters into the blanks of a form.
func fill(t *testing.T, r *rand.Rand, form string) string {
	t.Helper()
	return blank.ReplaceAllStringFunc(form, func(b string) string {
		if b == "{}" {
			return ""
		}
		from := alphabets[b[1]]
		n, err := strconv.Atoi(b[2 : len(b)-1])
		if err != nil || from == "" {
			t.Fatalf("form %s: unknown blank %s", form, b)
		}
		out := make([]byte, n)
		for i := range out {
			out[i] = from[r.IntN(len(from))]
		}
		return string(out)
	})
}

// TestShapes makes samples of each row of the table, with the smallest and a larger number of bytes.
func TestShapes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, sh := range shapes {
		var from []byte
		for c := range 128 {
			if sh.alphabet[c] && alnum[byte(c)] { // dashes and dots at an end belong to the text
				from = append(from, byte(c))
			}
		}
		stays := 0
		for i := range 100 {
			n := sh.min
			if i%2 == 1 {
				n = max(sh.min+7, sh.max)
				if sh.max > 0 {
					n = sh.max
				}
			}
			body := make([]byte, n)
			for j := range body {
				body[j] = from[r.IntN(len(from))]
			}
			if got := Text("a " + sh.prefix + string(body) + " b"); !strings.HasPrefix(got, "a "+markBegin) || !strings.HasSuffix(got, "] b") {
				stays++
			}
		}
		// A short sample without two digits in a row of letters does not look random.
		if limit := map[bool]int{true: 10}[sh.random]; stays > limit {
			t.Errorf("%s: %d of 100 samples stay", sh.prefix, stays)
		}
	}
}

// TestOrdinaryText: hashes, ids, code and encoded images have no secret.
func TestOrdinaryText(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for _, form := range []string{
		"commit {h40}", "index {h7}..{h7} 100644", "{h8}-{h4}-4{h3}-a{h3}-{h12}", "sha256:{h64}", "sha256-{B43}=", "etag \"{h32}\"",
		"data:image/png;base64,{B4000}", "{B76}", "{A22}", "run_{A24}", "call_{A24}", "chatcmpl-{A29}", "msg_{A24}", "resp_{h48}",
		"toolu_{A22}", "req_{h32}", "/files/{A64}", "trace {h32} span {h16}", "node_modules/.pnpm/x@1.2.3_{h32}",
		"s.encodeBase64Sha256(text)", "API-reference for the sat.example.com host", "a pat.match(x) of fw_update", "pul-request", "A3-size paper, A3-SIZE",
		"sqa_test_results", "EAAA and cmVmd are prefixes", "dp.st.value", "ls__init__", "ico-arrow-down-large-white-on-black", "~/Q~x", "5Q~",
	} {
		for range 200 {
			if text := fill(t, r, form); Text(text) != text {
				t.Errorf("%s: %q becomes %q", form, text, Text(text))
				break
			}
		}
	}
}
