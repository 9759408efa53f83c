package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
)

// enter sets the value of a field.
func (b *tab) enter(selector, value string) {
	b.test.Helper()
	evaluate[bool](b, fmt.Sprintf(`(() => { const e = document.querySelector(%q); for (let d = e.closest("details"); d; d = d.parentElement.closest("details")) d.open = true; e.value = %q; return true })()`, selector, value))
}

// open opens the part of the page that contains an element.
func (b *tab) open(selector string) {
	b.test.Helper()
	evaluate[bool](b, fmt.Sprintf(`(() => { document.querySelector(%q).closest("details").open = true; return true })()`, selector))
}

// key presses a key that a script of the page handles.
func (b *tab) key(key string) {
	b.test.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		send(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: key, Code: "Key" + strings.ToUpper(key), Text: key})
	}
}

// TestFormsInBrowser sends the form of every action as a person does, and checks the result that the next page shows.
func TestFormsInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("opens further pages: run without -short")
	}
	t.Parallel()
	in := newInstallation(t)
	b := openTab(t, in)
	const bullet = "/books/default/bullets/inv-00001"
	form := func(action string) string { return fmt.Sprintf(`form[action=%q] `, action) }
	for _, step := range []struct {
		page   string
		before func()
		button string // that loads the next page
		want   string // in the notice
	}{
		{"/books/default", func() { b.enter(form("/books/default/bullets")+"textarea", "Ask for the currency.") }, form("/books/default/bullets") + "button", "Added."},
		{bullet, nil, form(bullet+"/pin") + "button", "Pinned."},
		{bullet, nil, form(bullet+"/unpin") + "button", "Unpinned."},
		{bullet, func() { b.enter(form(bullet+"/edit")+"textarea", "Ask for the number.") }, form(bullet+"/edit") + "button", "Saved."},
		{bullet, nil, form(bullet+"/retire") + "button", "Retired"},
		{bullet, nil, form(bullet+"/activate") + "button", "shown again"},
		{bullet, func() { b.open(form(bullet + "/remove")) }, form(bullet+"/remove") + "button", "Removed."},
		{"/books/default/review", func() { b.enter(form("/books/default/review/inv-00012/edit")+"textarea", "Send the invoice once.") }, form("/books/default/review/inv-00012/edit") + "button", "Saved."},
		{"/books/default/gate", func() {
			evaluate[bool](b, `(() => { document.querySelector("input[value=off]").checked = true; return true })()`)
		}, form("/books/default/gate") + "button", "off"},
		{"/books/default/versions/3", func() { b.enter(`input[name=name]`, "a-name") }, form("/books/default/tag") + "button", "named a-name"},
		{"/books/default/restore?to=3", nil, form("/books/default/restore") + "button", "Restored"},
		{"/books/default/executions/" + in.seeded.executions[0], func() { b.enter(`textarea[name=feedback]`, "It was wrong.") }, `button[value=failure]`, "feedback is stored"},
		{"/dead", func() {
			evaluate[bool](b, `(() => { document.querySelector("input[name=id]").click(); return true })()`)
		}, `button[value=requeue]`, "Requeued 1"},
		{"/dead", func() {
			evaluate[bool](b, `(() => { document.querySelector("input[name=id]").click(); return true })()`)
			b.open(`button[value=drop]`)
		}, `button[value=drop]`, "Dropped 1"},
		{"/erasures", func() {
			b.enter(`input[name=name]`, "cleo")
			evaluate[bool](b, `(() => { document.querySelector("input[value=user]").click(); document.querySelector("form[action='/erasures']").requestSubmit(); return true })()`)
			b.enter(`input[name=again]`, "cleo") // without it, the browser has sent nothing
		}, `button.danger`, "The erasure is requested"},
	} {
		b.visit(step.page)
		if step.before != nil {
			step.before()
		}
		b.click(step.button)
		if notice := evaluate[string](b, `(document.querySelector("[role=status]") || document.querySelector("main")).innerText`); !strings.Contains(notice, step.want) {
			t.Errorf("%s, %s: got %q, want %q", step.page, step.button, notice, step.want)
		}
		b.fine(step.page)
	}
}

// TestReviewByKeys decides on five bullets with keys alone: one key to begin, then one for each decision. The next bullet has the focus
// after each decision.
func TestReviewByKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("opens further pages: run without -short")
	}
	t.Parallel()
	in := newInstallation(t)
	in.yesterday(t)
	b := openTab(t, in)
	b.visit("/books/old/review")
	pressed := 0
	press := func(key string) {
		pressed++
		b.key(key)
	}
	press("j")
	for _, step := range []struct{ key, notice, next string }{
		{"a", "Approved 1", "old-00012"}, {"r", "Rejected 1", "old-00013"}, {"a", "Approved 1", "old-00014"}, {"r", "Rejected 1", "old-00015"}, {"a", "Approved 1", ""},
	} {
		press(step.key)
		eventually(t, func() error {
			got := evaluate[string](b, `(document.activeElement?.id ?? "") + " " + (document.querySelector("[role=status]")?.innerText ?? "")`)
			if !strings.HasPrefix(got, step.next+" "+step.notice) {
				return fmt.Errorf("key %s: got %q, want %s with the focus", step.key, got, step.next)
			}
			return nil
		})
	}
	if got := evaluate[string](b, `document.getElementById("review").innerText`); !strings.Contains(got, "Nothing waits") {
		t.Errorf("after five decisions: %s", got)
	}
	t.Logf("5 decisions with %d keys", pressed)
}
