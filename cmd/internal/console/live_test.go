package console

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"debrief/playbook"
)

// liveServer serves the open pages of an installation on one port, with restarts.
type liveServer struct {
	handler http.Handler
	address string
	server  *http.Server
}

// start listens on the port of the first start.
func (l *liveServer) start(t *testing.T) {
	t.Helper()
	address := l.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	check(t, err)
	l.address, l.server = listener.Addr().String(), &http.Server{Handler: l.handler, ReadHeaderTimeout: time.Minute}
	go func(s *http.Server) { _ = s.Serve(listener) }(l.server) // ends with Close
}

// stop closes the port and all connections.
func (l *liveServer) stop() { _ = l.server.Close() }

// learn adds a bullet as a Curator does.
func (in *installation) learn(t *testing.T, b playbook.Book, content string) {
	t.Helper()
	in.commit(t, b, &playbook.Delta{Author: "curator", Time: time.Now().UTC(), Ops: []playbook.Op{
		{Kind: playbook.Add, Bullet: playbook.MintID("live", uint64(time.Now().UnixMicro())), Section: "payment", Content: content},
	}})
}

// shows returns an error until an element of the page contains a text.
func (b *tab) shows(selector, text string) func() error {
	return func() error {
		if got := evaluate[string](b, fmt.Sprintf(`document.querySelector(%q).textContent`, selector)); !strings.Contains(got, text) {
			return fmt.Errorf("%s does not show %q: %.300q", selector, text, got)
		}
		return nil
	}
}

// connection returns an error until the page has a state of its stream of events.
func (b *tab) connection(want string) func() error {
	return func() error {
		if got := evaluate[string](b, `document.documentElement.dataset.connection || ""`); got != want {
			return fmt.Errorf("the connection is %q, want %q", got, want)
		}
		return nil
	}
}

// TestOpenPageShowsChanges changes an installation while its pages are open, also while the server is down. The page is not loaded again.
func TestOpenPageShowsChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for events: run without -short")
	}
	t.Parallel()
	in := newInstallation(t)
	server := &liveServer{handler: in.open.Config.Handler}
	server.start(t)
	defer func() { server.stop() }()
	b := openTab(t, in)
	b.base = "http://" + server.address

	open := func(path string) {
		t.Helper()
		b.visit(path)
		eventually(t, b.connection("open"))
		evaluate[int](b, `window.loaded = 1`)
	}
	notReloaded := func() {
		t.Helper()
		if evaluate[int](b, `window.loaded || 0`) != 1 {
			t.Error("the page was loaded again")
		}
	}
	open("/books/support")
	in.learn(t, "support", "Thank the customer.")
	eventually(t, b.shows("#bullets", "Thank the customer."))
	notReloaded()

	// The overview shows changes of all playbooks.
	open("/")
	const learned = `document.querySelector("#home .figure").textContent`
	before := evaluate[string](b, learned)
	in.learn(t, "support", "Say goodbye.")
	eventually(t, func() error {
		if now := evaluate[string](b, learned); now == before {
			return fmt.Errorf("the overview still shows %s new bullets", now)
		}
		return nil
	})
	notReloaded()

	open("/books/support")
	server.stop()
	eventually(t, b.connection("lost"))
	in.learn(t, "support", "Ask for a rating.")
	server.start(t)
	eventually(t, b.connection("open"))
	eventually(t, b.shows("#bullets", "Ask for a rating."))
	in.learn(t, "support", "Add a signature.")
	eventually(t, b.shows("#bullets", "Add a signature."))
	notReloaded()
}

// TestRefreshKeepsInput checks that a change does not replace a part of the page that a person uses.
func TestRefreshKeepsInput(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for events: run without -short")
	}
	t.Parallel()
	in := newInstallation(t)
	b := openTab(t, in)
	b.visit("/books/default/review")
	eventually(t, b.connection("open"))
	evaluate[bool](b, `(() => {
		window.part = document.getElementById("review")
		const box = part.querySelector("input[name=id]")
		box.checked = true
		part.querySelector("details").open = true
		part.querySelector("textarea").value = "a new text"
		return true
	})()`)
	in.commit(t, "default", &playbook.Delta{Author: "curator", Time: time.Now().UTC(), Ops: []playbook.Op{
		{Kind: playbook.Add, Bullet: "inv-00099", Section: "payment", Content: "Another one.", Status: playbook.Quarantined},
	}})
	eventually(t, func() error { // another part of the site has seen the change
		if page := get(t, in.open, "/books/default/review"); !strings.Contains(page.body, "Another one.") {
			return fmt.Errorf("the page does not show the change")
		}
		return nil
	})
	evaluate[bool](b, `refresh().then(() => true)`)
	if !evaluate[bool](b, `document.getElementById("review") === part && part.querySelector("textarea").value === "a new text" && part.querySelector("input[name=id]").checked`) {
		t.Error("the change replaced what a person was using")
	}
	evaluate[bool](b, `(() => { for (const e of part.querySelectorAll("details")) e.open = false; for (const e of part.querySelectorAll("input")) e.checked = false; return true })()`)
	evaluate[bool](b, `refresh().then(() => true)`)
	eventually(t, b.shows("#review", "Another one."))
}

// TestAnotherPersonActs changes a text while a person reads it: the page says who did it, and the approval of the old text is refused.
func TestAnotherPersonActs(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for events: run without -short")
	}
	t.Parallel()
	in := newInstallation(t)
	b := openTab(t, in)
	b.visit("/books/default/review")
	eventually(t, b.connection("open"))
	evaluate[bool](b, `(() => { document.querySelector("#review details").open = true; return true })()`) // in use, so the page keeps it
	in.commit(t, "default", &playbook.Delta{Author: "ada", Time: time.Now().UTC(), Reason: "clearer", Ops: []playbook.Op{
		{Kind: playbook.Update, Bullet: "inv-00012", Content: "Send each invoice twice, by post."},
	}})
	eventually(t, b.shows("#meanwhile", `Meanwhile ada: 1 updated, "clearer".`))
	b.click("#inv-00012 [data-key=a]")
	for _, text := range []string{"has changed", `reworded: "Send each invoice twice, by post." by ada: clearer`} {
		if err := b.shows("main", text)(); err != nil {
			t.Error(err)
		}
	}
	if got := get(t, in.open, "/api/v1/books/default/bullets/inv-00012").body; !strings.Contains(got, `"quarantined"`) {
		t.Errorf("got %s, want the bullet in quarantine", got)
	}
}
