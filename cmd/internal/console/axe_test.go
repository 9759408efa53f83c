package console

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// axeBundle is the page of Chromium's developer tools that has axe-core (https://github.com/dequelabs/axe-core) as a JavaScript text: its
// audit of accessibility runs it. So the tests use axe-core without a copy of it in this repository.
const axeBundle = "devtools://devtools/bundled/third_party/lighthouse/lighthouse-dt-bundle.js"

// axeText matches the script in the bundle, from its first comment to the end of the template literal.
var axeText = regexp.MustCompile("(?s)`/\\*! axe v(?:[^`\\\\]|\\\\.)*`")

// axe is the expression that loads axe-core into a page, read once.
var axe struct {
	sync.Once
	load string
}

// loadAxe loads axe-core into the page of a tab. It skips the test if the browser has no axe-core.
func (b *tab) loadAxe() {
	b.test.Helper()
	axe.Do(func() {
		b.run(chromedp.Navigate(axeBundle))
		if script := axeText.FindString(evaluate[string](b, `document.body.innerText`)); script != "" {
			axe.load = "(0, eval)(" + script + "); axe.version"
		}
	})
	if axe.load == "" {
		b.test.Skip("the pages were not checked with axe-core: this browser does not have it in its developer tools")
	}
}

// violation is a rule of axe-core that a page breaks.
type violation struct {
	ID, Impact, Help string
	Nodes            []string
}

// runAxe returns the violations of the page in the tab.
func (b *tab) runAxe() (all []violation) {
	b.test.Helper()
	evaluate[string](b, axe.load)
	text := evaluate[string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 4).map(n => n.html.slice(0, 200) + " " + (n.any[0] || n.all[0] || n.none[0] || {message: ""}).message)}))))`)
	check(b.test, json.Unmarshal([]byte(text), &all))
	return all
}

// TestPagesWithAxe checks every page with axe-core, on a phone with the light theme and on a screen with the dark one, with its details open.
func TestPagesWithAxe(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	in := readOnly(t, false)
	b := openTab(t, in)
	b.loadAxe()
	paths := []string{"/login", "/books/default/nowhere", "/books/support"}
	for _, a := range in.mains(t) {
		paths = append(paths, a.path)
	}
	for _, path := range paths {
		for i, width := range []int64{390, 1280} {
			b.resize(width)
			b.visit(path)
			b.theme(themes[i])
			evaluate[bool](b, `(() => { for (const e of document.querySelectorAll("details")) e.open = true; return true })()`)
			for _, v := range b.runAxe() {
				t.Errorf("%s, %d pixels, %s: %s (%s): %s\n%s", path, width, themes[i], v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n"))
			}
		}
	}
}

// TestAxeFindsDefects checks the check.
func TestAxeFindsDefects(t *testing.T) {
	if testing.Short() {
		t.Skip("checks the checks: run without -short")
	}
	t.Parallel()
	b := openTab(t, readOnly(t, false))
	b.loadAxe()
	b.visit("/runs")
	evaluate[bool](b, `(() => { document.querySelector("main").insertAdjacentHTML("beforeend", '<img src="/static/icon.svg"><button></button><input><p role="list">x</p>'); return true })()`)
	got := fmt.Sprint(b.runAxe())
	for _, rule := range []string{"image-alt", "button-name", "label", "aria-required-children"} {
		if !slices.ContainsFunc(strings.Fields(got), func(w string) bool { return strings.Trim(w, "{[") == rule }) {
			t.Errorf("axe-core did not report %s: %s", rule, got)
		}
	}
}
