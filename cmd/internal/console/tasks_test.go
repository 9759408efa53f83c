package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"debrief/playbook"
)

// clicker is a person who does a task with a mouse.
type clicker struct {
	*tab
	clicks int
}

// follow clicks a link or a button that loads the next page.
func (c *clicker) follow(selector string) {
	c.test.Helper()
	c.clicks++
	c.click(selector)
}

// choose changes a selection, whose form is submitted by the script of the page.
func (c *clicker) choose(selector, value string) {
	c.test.Helper()
	c.clicks++
	c.runAndWait(fmt.Sprintf(`(() => { const s = document.querySelector(%q); s.value = %q; s.dispatchEvent(new Event("change", { bubbles: true })); return true })()`, selector, value))
}

// tick clicks a box that loads nothing.
func (c *clicker) tick(selector string) {
	c.test.Helper()
	c.clicks++
	evaluate[bool](c.tab, fmt.Sprintf(`(() => { document.querySelector(%q).click(); return true })()`, selector))
}

// TestTasksByClicking does tasks of people, beginning at the overview and by clicking alone. It counts the clicks, and logs the times.
func TestTasksByClicking(t *testing.T) {
	if testing.Short() {
		t.Skip("opens further pages: run without -short")
	}
	t.Parallel()
	in := newInstallation(t)
	in.yesterday(t)
	do(t, in.open, http.MethodPost, "/api/v1/executions", `{"book": "default", "run_id": "wrong", "question": "Which tax?", "answer": "None.", "outcome": false}`, withHeader("Content-Type", "application/json"))
	b := openTab(t, in)
	for _, task := range []struct {
		name   string
		clicks int
		do     func(c *clicker)
		shown  []string // texts of the last page
	}{
		{"find why a bullet exists", 2, func(c *clicker) {
			c.follow(`#books a[href="/books/default"]`)
			c.follow(`a[href="/books/default/bullets/inv-00010"]`)
		}, []string{"Learned from", "Which invoice is due?", "success"}},
		{"find the last wrong answer and what the model was shown", 3, func(c *clicker) {
			c.follow(`#books a[href="/books/default/executions"]`)
			c.choose(`select[name=outcome]`, "failure")
			c.follow(`#executions a.lead`)
		}, []string{"failure", "What the model received"}},
		{"approve three of five bullets in quarantine", 5, func(c *clicker) {
			c.follow(`#home a[href="/books/old/review"]`)
			for i := range 3 {
				c.tick(fmt.Sprintf(`input[value="old-%05d"]`, i+11))
			}
			c.follow(`button[value=approve]`)
		}, []string{"Approved 3", "old-00014", "old-00015"}},
		{"compare two runs", 2, func(c *clicker) {
			c.follow(`nav a[href="/runs"]`)
			c.follow(`#runs a[href$="/compare"]`)
		}, []string{"Difference", "Samples that only one has right", "invoices-1", "invoices-2"}},
		{"restore the playbook of yesterday", 4, func(c *clicker) {
			c.follow(`#books a[href="/books/old"]`)
			c.follow(`nav a[href="/books/old/versions"]`)
			c.follow(`.links a[href="/books/old/restore?to=24h"]`)
			c.follow(`main form button`)
		}, []string{"Restored the bullets of version 1"}},
	} {
		b.visit("/")
		began := time.Now()
		c := &clicker{tab: b}
		task.do(c)
		page := evaluate[string](b, `document.querySelector("main").innerText`)
		for _, text := range task.shown {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the last page does not show %q: %s", task.name, text, page)
			}
		}
		if c.clicks != task.clicks {
			t.Errorf("%s: got %d clicks, want %d", task.name, c.clicks, task.clicks)
		}
		t.Logf("%-60s %d clicks, %4d ms", task.name, c.clicks, time.Since(began).Milliseconds())
		b.fine(task.name)
	}
	if got := get(t, in.open, "/api/v1/books/old/bullets/old-00001").body; !strings.Contains(got, "Yesterday") {
		t.Errorf("the bullet of yesterday is not restored: %s", got)
	}
}

// yesterday stores a playbook with a version of two days ago, a later one, and five bullets in quarantine.
func (in *installation) yesterday(t *testing.T) {
	t.Helper()
	add := func(n int, status playbook.Status) playbook.Op {
		return playbook.Op{Kind: playbook.Add, Bullet: playbook.BulletID(fmt.Sprintf("old-%05d", n)), Section: "old", Content: fmt.Sprintf("Yesterday the rule %d was right.", n), Status: status}
	}
	now := time.Now().UTC()
	in.commit(t, "old", &playbook.Delta{Author: "ada", Time: now.Add(-48 * time.Hour), Ops: []playbook.Op{add(1, playbook.Active)}})
	today := []playbook.Op{{Kind: playbook.Update, Bullet: "old-00001", Content: "Today another rule is right."}}
	for n := range 5 {
		today = append(today, add(n+11, playbook.Quarantined))
	}
	in.commit(t, "old", &playbook.Delta{Author: "ada", Time: now.Add(-time.Hour), Ops: today})
}
