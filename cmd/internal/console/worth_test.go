package console

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
)

// TestWorthPage shows a playbook that helps: on the overview and on its own page, which is one page in print. A playbook without a control
// share shows the command that sets one.
func TestWorthPage(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	for i := range 160 {
		e := &events.Execution{
			Book: "support", ID: events.NewID(), RunID: fmt.Sprint("worth-", i), Session: fmt.Sprint("worth-", i), Question: "q", Answer: "a", ContextID: "c",
			Control: &events.Control{Held: i%2 == 1, Share: 500}, Outcome: events.Outcome{Label: events.Failure}, Started: time.Now().UTC(), Duration: time.Second,
			Usage: chat.Usage{Calls: 1, InputTokens: 900 + 100*(i%2), OutputTokens: 100, Cost: 0.01},
		}
		if i%2 == 0 && i%10 > 0 {
			e.Outcome.Label = events.Success
		}
		_, err := in.conn.Publish(t.Context(), e, bus.PublishOptions{})
		check(t, err)
	}
	wants := func(path string, parts ...string) {
		t.Helper()
		eventually(t, func() error {
			body := html.UnescapeString(get(t, in.open, path).body)
			for _, part := range parts {
				if !strings.Contains(body, part) {
					return fmt.Errorf("%s lacks %q", path, part)
				}
			}
			return nil
		})
	}
	const summary = "The playbook helps: +80.0 points, interval "
	const command = "debrief playbook control 5% --book default"
	wants("/", summary, `href="/books/support/worth"`, "No control share: the effect cannot be measured.", command)
	wants("/books/support/worth", summary, ">+80.0 avoided<", ">$0.0100<", ">1100<", "The control share is off.")
	wants("/books/default/worth", command, ">not measured<")
	b := openTab(t, in)
	b.visit("/books/support/worth")
	b.fine("worth")
	pdf := send(b, page.PrintToPDF, page.PrintToPDFParams{PaperWidth: 8.27, PaperHeight: 11.69}).Data
	if n := bytes.Count(pdf, []byte("/Type /Page\n")); n != 1 {
		t.Errorf("got %d pages in print, want 1", n)
	}
	if *screenshots != "" {
		check(t, os.MkdirAll(*screenshots, 0o755))
		b.shoot("worth-helps")
		b.visit("/")
		b.shoot("worth-home")
	}
}
