package console

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/input"
)

// structure returns what is wrong with the structure of a page: headings, landmarks, labels, references and nesting.
const structure = `(() => {
	const out = [], all = (s) => [...document.querySelectorAll(s)], show = (e) => e.outerHTML.replace(/\s+/g, " ").slice(0, 160)
	if (!document.documentElement.lang) out.push("the document has no language")
	const login = document.querySelector("form.login") // it has no navigation
	for (const s of ["h1", "main"].concat(login ? [] : ["body > header, .side", "nav[aria-label]"])) if (all(s).length !== 1) out.push(all(s).length + " elements " + s)
	let level = 0
	for (const h of all("h1, h2, h3, h4, h5, h6")) {
		const n = Number(h.tagName[1])
		if (n > level + 1) out.push("heading h" + n + " after h" + level + ": " + show(h))
		if (!h.textContent.trim()) out.push("empty heading: " + show(h))
		level = n
	}
	for (const e of all("input:not([type=hidden]), select, textarea")) {
		const labels = [...(e.labels || [])].map(l => l.textContent).join(" ") + (e.getAttribute("aria-label") || "") + (e.getAttribute("aria-labelledby") || "")
		if (!labels.trim()) out.push("no label: " + show(e))
	}
	for (const e of all("[tabindex]")) if (e.tabIndex > 0) out.push("tabindex " + e.tabIndex + ": " + show(e))
	for (const e of all("svg")) if (e.getAttribute("aria-hidden") !== "true" && !(e.getAttribute("role") === "img" && (e.getAttribute("aria-label") || e.querySelector("title")))) out.push("image without a name: " + show(e))
	for (const e of all("th")) if (!e.scope) out.push("header without a scope: " + show(e))
	for (const e of all("th")) if (!e.textContent.trim()) out.push("empty header: " + show(e))
	const ids = new Set()
	for (const e of all("[id]")) { // e.id of a form is its field with the name id
		const id = e.getAttribute("id")
		if (ids.has(id)) out.push("id twice: " + show(e))
		ids.add(id)
	}
	for (const name of ["for", "form", "list", "aria-labelledby", "aria-describedby", "aria-controls"])
		for (const e of all("[" + name + "]")) for (const id of e.getAttribute(name).split(" ")) if (!ids.has(id)) out.push(name + " without an element: " + show(e))
	for (const e of all("a a, a button, a input, button a, button button, button input, label label, summary a, summary button, summary input, a:not([href])")) out.push("nested controls, or a link to nothing: " + show(e))
	for (const e of all("body *")) {
		const s = getComputedStyle(e)
		if (s.order !== "0" || s.flexDirection.endsWith("reverse") || s.flexWrap === "wrap-reverse") out.push("another order than in the document: " + show(e))
	}
	return out
})()`

// contrast returns the texts whose contrast with their background is less than 4.5.
const contrast = `(() => {
	const parse = (c) => {
		const n = c.match(/[\d.]+(e-?\d+)?%?/g).map(Number), scale = c.startsWith("color(") ? 255 : 1
		return { r: n[0] * scale, g: n[1] * scale, b: n[2] * scale, a: n.length > 3 ? n[3] : 1 }
	}
	const over = (top, under) => { // the color of a transparent one over another
		const mix = (x, y) => x * top.a + y * (1 - top.a)
		return { r: mix(top.r, under.r), g: mix(top.g, under.g), b: mix(top.b, under.b), a: 1 }
	}
	const light = (c) => {
		const f = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
		return 0.2126 * f(c.r) + 0.7152 * f(c.g) + 0.0722 * f(c.b)
	}
	const background = (e) => {
		const layers = []
		for (; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor))
		return layers.reverse().reduce((under, top) => over(top, under), parse("rgb(255, 255, 255)"))
	}
	const opacity = (e) => { let o = 1; for (; e; e = e.parentElement) o *= Number(getComputedStyle(e).opacity); return o }
	const bad = new Map()
	const test = (e, color, what) => {
		const under = background(e), c = parse(color)
		c.a *= opacity(e)
		if (c.a === 0) return // hidden, another element shows it
		const [a, b] = [light(over(c, under)), light(under)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05)
		const name = e.tagName.toLowerCase() + (e.className.baseVal ?? e.className ? "." + (e.className.baseVal ?? e.className) : "")
		if (ratio < 4.5) bad.set(name + color, ratio.toFixed(2) + ": " + what + " of " + name + ", " + color + " on " + JSON.stringify(under))
	}
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		const e = n.parentElement, range = document.createRange()
		range.selectNodeContents(n)
		if (!n.data.trim() || !range.getClientRects().length || getComputedStyle(e).visibility !== "visible" || e.closest(":disabled, svg title")) continue
		test(e, e.closest("svg") ? getComputedStyle(e).fill : getComputedStyle(e).color, "text")
	}
	for (const e of document.querySelectorAll("body *")) {
		if (!e.getClientRects().length) continue
		for (const part of ["::before", "::after"]) {
			const s = getComputedStyle(e, part)
			if (!["none", "normal", '""'].includes(s.content)) test(e, s.color, part)
		}
		if (e.matches("input:not([type=hidden], [type=checkbox], [type=radio]), select, textarea")) test(e, getComputedStyle(e).color, "value")
		if (e.placeholder) test(e, getComputedStyle(e, "::placeholder").color, "placeholder")
	}
	return [...bad.values()]
})()`

// prepareFocus opens all details, and returns the controls of the content in the order of the document. It records those that get
// the focus, with what shows it.
const prepareFocus = `(() => {
	for (const e of document.querySelectorAll("details")) e.open = true
	const visible = (e) => e.getClientRects().length && getComputedStyle(e).visibility === "visible"
	let groups = new Set()
	const one = (e) => { // only one button of a group is reached with Tab
		if (e.type !== "radio") return true
		const checked = e.form && [...e.form.querySelectorAll("input[type=radio]")].some(r => r.name === e.name && r.checked)
		if (groups.has(e.name) || checked && !e.checked) return false
		groups.add(e.name)
		return true
	}
	const scope = START
	const controls = () => { // at this time: a live part may be replaced
		groups = new Set()
		return [...START.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter(e => !e.disabled && visible(e) && one(e))
	}
	window.seen = []
	document.addEventListener("focusin", (e) => {
		if (e.target === scope) return
		const s = getComputedStyle(e.target), label = e.target.labels && e.target.labels[0]
		const marked = (s) => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1
		window.seen.push([controls().indexOf(e.target), marked(s) && Number(s.opacity) > 0 || !!label && marked(getComputedStyle(label)), e.target.outerHTML.replace(/\s+/g, " ").slice(0, 160)])
	})
	if (scope.id === "main") scope.focus(); else document.activeElement.blur()
	return controls().length
})()`

// controlRoles are the roles of elements that need a name.
var controlRoles = []string{"button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "listbox", "switch", "slider", "spinbutton", "DisclosureTriangle", "image", "navigation"}

// checkAccessible reports the defects of the page for people who use a keyboard or a screen reader, or who need contrast. The tab
// must execute scripts.
func (b *tab) checkAccessible(page string) {
	b.test.Helper()
	for _, p := range evaluate[[]string](b, structure) {
		b.test.Errorf("%s: %s", page, p)
	}
	for _, p := range b.unnamed() {
		b.test.Errorf("%s: %s", page, p)
	}
	for _, p := range b.walkFocus(`document.getElementById("main")`) {
		b.test.Errorf("%s: %s", page, p)
	}
	for _, theme := range themes { // the details are open
		b.theme(theme)
		for _, p := range evaluate[[]string](b, contrast) {
			b.test.Errorf("%s, %s: contrast %s", page, theme, p)
		}
	}
}

// unnamed returns the controls without a name, from the accessibility tree of the browser.
func (b *tab) unnamed() (problems []string) {
	b.test.Helper()
	for _, n := range send(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		var role, name string
		check(b.test, json.Unmarshal(n.Role.Value, &role))
		if n.Name != nil && len(n.Name.Value) > 0 {
			check(b.test, json.Unmarshal(n.Name.Value, &name))
		}
		if slices.Contains(controlRoles, role) && strings.TrimSpace(name) == "" {
			problems = append(problems, fmt.Sprintf("a %s has no name", role))
		}
	}
	return problems
}

// focused is an element that got the focus: its place among the controls, whether the focus is visible, and its markup.
type focused struct {
	place  int
	marked bool
	markup string
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *focused) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&f.place, &f.marked, &f.markup})
}

// walkFocus presses Tab for each control of a part of the page. It returns the controls that are not reached in the order of the
// document, and those without a visible focus.
func (b *tab) walkFocus(start string) (problems []string) {
	b.test.Helper()
	n := evaluate[int](b, strings.ReplaceAll(prepareFocus, "START", start))
	for range n {
		send(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: "Tab", Code: "Tab", WindowsVirtualKeyCode: 9})
	}
	seen := evaluate[[]focused](b, `window.seen`)
	for i, f := range seen {
		if f.place != i {
			return append(problems, fmt.Sprintf("Tab %d of %d reached control %d: %s", i+1, n, f.place+1, f.markup))
		}
		if !f.marked {
			problems = append(problems, "the focus is not visible: "+f.markup)
		}
	}
	if len(seen) != n {
		problems = append(problems, fmt.Sprintf("Tab reached %d of %d controls", len(seen), n))
	}
	return problems
}

// TestNavigationByKeyboard reaches everything of a page from its beginning, at the widths with and without a menu.
func TestNavigationByKeyboard(t *testing.T) {
	if testing.Short() {
		t.Skip("opens further pages: run without -short")
	}
	t.Parallel()
	b := openTab(t, readOnly(t, false))
	for _, width := range []int64{1600, 390} {
		b.resize(width)
		b.visit("/books/default/review")
		for _, p := range b.walkFocus(`document.body`) {
			t.Errorf("%d pixels wide: %s", width, p)
		}
	}
	// The menu of a narrow screen opens with the space key, without a script of the page.
	b.visit("/runs")
	evaluate[bool](b, `(() => { document.getElementById("menu").focus(); return true })()`)
	send(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: " ", Code: "Space", Text: " ", WindowsVirtualKeyCode: 32})
	send(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: " ", Code: "Space", WindowsVirtualKeyCode: 32})
	if !evaluate[bool](b, `document.querySelector("nav").getClientRects().length > 0`) {
		t.Error("the space key does not open the menu")
	}
}

// TestAccessibilityChecksFindDefects checks the checks: each defect is found.
func TestAccessibilityChecksFindDefects(t *testing.T) {
	if testing.Short() {
		t.Skip("checks the checks: run without -short")
	}
	t.Parallel()
	b := openTab(t, readOnly(t, false))
	b.resize(1600)
	b.visit("/runs")
	find := func(markup, want string, run func() []string) {
		t.Helper()
		data, err := json.Marshal(markup)
		check(t, err)
		evaluate[bool](b, `(() => { const d = document.createElement("div"); d.innerHTML = `+string(data)+`; for (const e of d.querySelectorAll("[data-style]")) e.style.cssText = e.dataset.style; const old = document.getElementById("defect"); if (old) old.remove(); d.id = "defect"; document.querySelector("main").append(d); return true })()`)
		if got := run(); !slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, want) }) {
			t.Errorf("%s: got %q", markup, got)
		}
	}
	evaluated := func(expression string) func() []string {
		return func() []string { return evaluate[[]string](b, expression) }
	}
	for markup, want := range map[string]string{
		`<h1>x</h1>`: "2 elements h1", `<h2>x</h2><h4>x</h4>`: "after h2", `<input placeholder="x">`: "no label", `<svg></svg>`: "image without", `<b tabindex="3">x</b>`: "tabindex 3", `<table><tr><th>x</th></tr></table>`: "scope",
		`<b id="main">x</b>`: "id twice", `<label for="none">x</label>`: "without an element", `<label>x <label>y</label></label>`: "", `<div data-style="display:flex;flex-direction:row-reverse">x</div>`: "order",
	} {
		if want != "" {
			find(markup, want, evaluated(structure))
		}
	}
	find(`<p data-style="color:#999">pale</p>`, "2.7", evaluated(contrast))
	find(`<p data-style="opacity:.4">pale</p>`, "text of p", evaluated(contrast))
	find(`<p data-style="color:#000;background:#444">dark</p>`, "text of p", evaluated(contrast))
	find(`<input placeholder="x" data-style="background:#888">`, "placeholder", evaluated(contrast))
	find(`<button></button>`, "a button has no name", b.unnamed)
	find(`<a href="/x"></a>`, "a link has no name", b.unnamed)
	focus := func() []string { return b.walkFocus(`document.getElementById("main")`) }
	b.visit("/runs") // without the listeners of a walk before
	find(`<button tabindex="-1">x</button>`, "Tab", focus)
	b.visit("/runs")
	find(`<button data-style="outline:none">x</button>`, "not visible", focus)
}
