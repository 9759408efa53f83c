package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// emptyInstallation starts an installation without data until the end of the test.
func emptyInstallation(t *testing.T) *installation {
	t.Helper()
	in := &installation{secrets: map[string]string{}, ended: make(chan error, 1)}
	in.startServers(t)
	in.startRoles(t)
	t.Cleanup(in.close)
	return in
}

// TestStartInBrowser: an empty installation shows the addresses for agents, in each width, with scripts and without. A button copies an
// address. The first run replaces them, without a reload.
func TestStartInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	in := emptyInstallation(t)
	b := openTab(t, in)
	base := "OPENAI_BASE_URL=" + in.open.URL + "/v1"
	for _, scripts := range []bool{false, true} {
		b.scripts(scripts)
		b.visit("/")
		for i, width := range []int64{390, 800, 1280} {
			b.resize(width)
			b.theme(themes[i%len(themes)])
			if over := evaluate[string](b, overflow); over != "" {
				t.Errorf("%d pixels wide: the document is wider by %s", width, over)
			}
			shown := evaluate[string](b, `[...document.querySelectorAll("#start code")].map(e => e.innerText).join("\n")`)
			if !strings.Contains(shown, base) || !strings.Contains(shown, "ANTHROPIC_BASE_URL="+in.open.URL+"/anthropic") || strings.Contains(shown, "Token") {
				t.Errorf("%d pixels wide: got %s", width, shown)
			}
			if buttons := evaluate[int](b, `[...document.querySelectorAll("#start button")].filter(e => e.offsetWidth > 0).length`); (buttons > 0) != scripts {
				t.Errorf("scripts %t: got %d buttons", scripts, buttons)
			}
		}
	}
	b.checkAccessible("/")
	b.run(chromedp.Click(chromedp.CSS("#start button")))
	eventually(t, b.shows("#start button", "Copied"))
	if got := evaluate[string](b, `getSelection().toString()`); got != base {
		t.Errorf("selected %q, want %q", got, base)
	}
	b.fine("/")
	eventually(t, b.connection("open"))
	evaluate[bool](b, `document.activeElement.blur(), true`)
	in.learn(t, "default", "Ask for the invoice number.")
	eventually(t, func() error {
		if left := evaluate[string](b, `document.querySelector("#start").innerText.trim()`); left != "" {
			return fmt.Errorf("after the first change the page still shows %.80q", left)
		}
		return nil
	})
}

// TestStartNamesTheServer: the addresses are those by which the browser came, with TLS and behind a proxy, and a server with tokens says so.
func TestStartNamesTheServer(t *testing.T) {
	t.Parallel()
	in := emptyInstallation(t)
	host := strings.TrimPrefix(in.open.URL, "http://")
	for name, test := range map[string]struct {
		body string
		want []string
	}{
		"HTTP":            {get(t, in.open, "/").body, []string{"OPENAI_BASE_URL=http://" + host + "/v1<"}},
		"HTTPS":           {get(t, in.open, "/", withHeader("X-Forwarded-Proto", "https")).body, []string{"OPENAI_BASE_URL=https://" + host + "/v1<", "ANTHROPIC_BASE_URL=https://" + host + "/anthropic<"}},
		"another name":    {get(t, in.guarded, "/", in.as("admin"), withHost("debrief.example:4280")).body, []string{"OPENAI_BASE_URL=http://debrief.example:4280/v1<"}},
		"requires tokens": {get(t, in.guarded, "/", in.as("admin")).body, []string{"X-Debrief-Token: dbr_…<", "debrief token new agent"}},
		"hostile name":    {get(t, in.guarded, "/", in.as("admin"), withHost(`"><script>`)).body, nil},
	} {
		for _, text := range test.want {
			if !strings.Contains(test.body, text) {
				t.Errorf("%s: does not show %s", name, text)
			}
		}
		if strings.Contains(test.body, `"><script>`) {
			t.Errorf("%s: the name of the host is not escaped", name)
		}
	}
}
