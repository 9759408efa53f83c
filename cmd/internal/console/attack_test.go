package console

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"debrief/cmd/internal/api"
)

// attack is markup that runs a script if a page shows it as markup, in an attribute, in a script or as an address. It contains
// control characters, and characters that change the direction of the text after them.
const attack = `"><script>window.hacked=1</script><img src=x onerror=hacked=1>'{{7*7}}</textarea></title>` + "\x00\x1b[31m\u202e\u2066"

// poisonedFields are the fields with an attack.
var poisonedFields struct {
	sync.Mutex
	names map[string]bool
}

// poisoned returns an attack for a field, with a marker for it.
func poisoned(field, _ string) string {
	poisonedFields.Lock()
	defer poisonedFields.Unlock()
	if poisonedFields.names == nil {
		poisonedFields.names = map[string]bool{}
	}
	poisonedFields.names[field] = true
	text := "javascript:hacked=1//" + marker(field) + attack
	if field == "session" || field == "name of a score" || strings.HasPrefix(field, "task") { // names have no control characters
		text = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, text)
	}
	return text
}

// marker is a text that stays the same in names of sections and in excerpts.
func marker(field string) string { return "qq" + strings.ReplaceAll(field, " ", "") + "qq" }

// unshown are the fields that no page shows, with the reason.
var unshown = map[string]string{
	"answer of a round": noPage, "approach of a round": noPage, "error of a round": noPage, "insight of a round": noPage, "raw reply": noPage, "reason of a budget": noPage, "record of a step": noPage,
	"content of a shown bullet": "the context could not be built again; the page says so",
	"text of a part":            "the context could not be built again; the page says so",

	"reasoning of a reflection": noRoute, "error of a reflection": noRoute, "cause of a reflection": noRoute, "approach of a reflection": noRoute, "insight of a reflection": noRoute, "lesson": noRoute,
	"ignored part of a reflection": noRoute, "model of a reflection": noRoute, "target of feedback": noRoute,
}

const (
	noPage  = "no page has this detail"
	noRoute = "the API does not return it"
)

// inspect returns what an attack would change in a page, and the texts that the page shows.
const inspect = `(() => {
	const problems = []
	if (window.hacked !== undefined) problems.push("a script of the attack ran")
	for (const e of document.querySelectorAll("*")) {
		if (e.matches("img, iframe, object, embed, style, base, meta[http-equiv]") || e.matches("script, link") && !(e.src || e.href || "").startsWith(location.origin + "/static/")) problems.push("element " + e.outerHTML.slice(0, 200))
		for (const a of e.attributes) {
			if (a.name.startsWith("on") || a.name === "style") problems.push("attribute " + a.name + " of " + e.outerHTML.slice(0, 200))
			if (["href", "src", "action", "formaction", "xlink:href"].includes(a.name) && !/^([/](?![/\\])|#|[?])/.test(a.value)) problems.push("address " + a.value)
		}
	}
	const inline = (e) => getComputedStyle(e).display.startsWith("inline") && !getComputedStyle(e).display.startsWith("inline-")
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	let text = document.title
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		text += "\n" + n.data
		if (!/[\u202a-\u202e\u2066-\u2069]/.test(n.data)) continue
		let e = n.parentElement
		while (inline(e) && !/isolate|plaintext/.test(getComputedStyle(e).unicodeBidi)) e = e.parentElement
		if (inline(e) || /plaintext/.test(getComputedStyle(e).unicodeBidi)) continue
		const compared = e.matches(".text") && [...e.children].every(c => c.matches("ins, del")) // parts of one text
		if (e.textContent.trim() !== n.data.trim() && !compared) problems.push("the direction of the text changes around " + e.outerHTML.slice(0, 300))
	}
	for (const e of document.querySelectorAll("input, textarea, option")) text += "\n" + e.value
	return { problems, text }
})()`

// inspection is the result of inspect.
type inspection struct {
	Problems []string
	Text     string
}

// reflected are addresses that contain an attack, with the status of their pages.
func reflected() map[string]int {
	text := url.QueryEscape("javascript:hacked=1//" + attack)
	return map[string]int{
		"/books/default?q=" + text: 200, "/books/default?section=" + text: 200, "/books/default?at=" + text: 400, "/books/default?sort=" + text: 400, "/login?next=" + text: 200,
		"/books/default/bullets" + api.Path(attack): 404, "/books/default/executions" + api.Path(attack): 400, "/books/default/executions?task=" + text: 200, "/books/default/executions?before=" + text: 400,
		"/books" + api.Path(attack): 400, "/runs" + api.Path(attack): 400, "/dead?role=" + text: 400, "/books/default/diff?from=" + text: 400, "/books/default/nowhere?" + text: 404,
	}
}

// isAttack reports whether a text begins as the attack. It may be shortened, and names of sections have other spaces, and a
// quoted text other quotes.
func isAttack(text string) bool {
	visible, _, _ := strings.Cut(attack, "\x00")
	text = strings.NewReplacer("_", " ", `\"`, `"`).Replace(text)
	n := 0
	for n < len(visible) && n < len(text) && visible[n] == text[n] {
		n++
	}
	return n == len(visible) || strings.HasPrefix(text[n:], "…") || strings.HasPrefix(text[n:], "...")
}

// TestTextsAreShownAsText visits all pages of an installation in which every stored text is an attack.
func TestTextsAreShownAsText(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	in := readOnly(t, true)
	b := openTab(t, in)
	b.resize(1600)
	shown := map[string]string{} // field to a page
	look := func(path string, status int) {
		b.visit(path)
		if b.status != int64(status) {
			t.Errorf("%s: got status %d, want %d", path, b.status, status)
		}
		got := evaluate[inspection](b, inspect)
		for _, p := range got.Problems {
			t.Errorf("%s: %s", path, p)
		}
		for field := range poisonedFields.names {
			for _, rest := range strings.Split(got.Text, marker(field))[1:] {
				if isAttack(rest) {
					shown[field] = path
				}
			}
		}
		if status == http.StatusOK {
			b.fine(path)
		}
	}
	for _, a := range firstOnly(in.selection(t)) {
		look(a.path, http.StatusOK)
	}
	look("/books/default/executions?doubted=true", http.StatusOK)
	for _, path := range slices.Sorted(maps.Keys(reflected())) {
		look(path, reflected()[path])
	}
	for _, field := range slices.Sorted(maps.Keys(poisonedFields.names)) {
		switch page, why := shown[field], unshown[field]; {
		case page == "" && why == "":
			t.Errorf("no page shows the field %q as text", field)
		case page != "" && why != "":
			t.Errorf("%s shows the field %q, which the test lists as not shown", page, field)
		default:
			t.Logf("%-45s %s", field, strings.SplitN(page, "%3C", 2)[0])
		}
	}
}

// TestInspectionFindsAttacks checks the check: markup that is not escaped is found.
func TestInspectionFindsAttacks(t *testing.T) {
	if testing.Short() {
		t.Skip("checks the checks: run without -short")
	}
	t.Parallel()
	in := readOnly(t, true)
	b := openTab(t, in)
	b.visit("/runs")
	for markup, want := range map[string]string{
		`<img src=x>`: "element", `<a href="javascript:x()">x</a>`: "address", `<a href="//evil.invalid">x</a>`: "address", `<b onclick="x()">x</b>`: "attribute", "<p><span>a \u202e b</span> after</p>": "direction", `<script></script>`: "element",
	} {
		data, err := json.Marshal(markup)
		check(t, err)
		evaluate[bool](b, `(() => { document.querySelector("main").innerHTML = `+string(data)+`; return true })()`)
		if got := evaluate[inspection](b, inspect).Problems; len(got) == 0 || !strings.Contains(got[0], want) {
			t.Errorf("%s: got %q", markup, got)
		}
	}
}

// TestForgedNotice sends a notice that this server did not make.
func TestForgedNotice(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	for _, link := range []string{"javascript:hacked=1", "//evil.example", "https://evil.example/"} {
		data, err := json.Marshal(map[string]string{"text": attack, "link": link})
		check(t, err)
		got := get(t, in.open, "/runs", withCookie(noticeCookie, base64.RawURLEncoding.EncodeToString(data)))
		if got.status != http.StatusOK || strings.Contains(got.body, "<script>window") || !strings.Contains(got.body, `<a href="/">Details</a>`) || !strings.Contains(got.body, "window.hacked=1") {
			t.Errorf("got status %d: %s", got.status, got.body)
		}
	}
	for _, value := range []string{"", "x", "bnVsbA", "e30", strings.Repeat("A", 4000)} {
		if got := get(t, in.open, "/runs", withCookie(noticeCookie, value)); got.status != http.StatusOK || strings.Contains(got.body, `<p class="notice" role="status">`) {
			t.Errorf("notice %q: got status %d: %s", value, got.status, got.body)
		}
	}
}
