package report

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium. Its only network access is a proxy that returns nothing and records the requests.
type browser struct {
	bin   string
	proxy string

	mu    sync.Mutex
	asked []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	b := &browser{}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if bin, err := exec.LookPath(name); err == nil {
			b.bin = bin
			break
		}
	}
	if b.bin == "" {
		t.Skip("the page was not looked at in a browser: no chromium, chromium-browser or google-chrome in PATH")
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.asked = append(b.asked, r.Host+" "+r.URL.String())
		b.mu.Unlock()
		http.Error(w, "no way out", http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	b.proxy = proxy.Listener.Addr().String()
	return b
}

// canaries returns the requests that only an attack makes. The browser itself may check for updates.
func (b *browser) canaries() (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.asked {
		if strings.Contains(a, "canary.invalid") {
			out = append(out, a)
		}
	}
	return out
}

// dom returns the document after rendering, and the errors of the browser.
func (b *browser) dom(t *testing.T, url string, args ...string) (dom, console string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-extensions",
		"--user-data-dir=" + t.TempDir(), "--proxy-server=" + b.proxy, "--enable-logging=stderr",
		"--virtual-time-budget=5000", "--dump-dom",
	}, args...)
	cmd := exec.CommandContext(ctx, b.bin, append(args, url)...)
	cmd.WaitDelay = 5 * time.Second
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", b.bin, url, err, errs.String())
	}
	return string(out), strings.Join(regexp.MustCompile(`.*CONSOLE.*`).FindAllString(errs.String(), -1), "\n")
}

// file writes a page to disk and returns its URL.
func file(t *testing.T, page string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), pageFile)
	if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + name
}

func TestABrowserShowsThePage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	r := example()
	dom, console := b.dom(t, file(t, render(t, r)))
	if console != "" {
		t.Errorf("the browser complains: %s", console)
	}
	c := newCurve(r)
	// Two accuracy charts (wide and narrow), the size charts and the legend, which also has an interval.
	want := 2*(len(c.Train)+len(c.Validation)+len(c.Test)) + len(c.Bullets) + len(c.Tokens) + 3
	if got := strings.Count(dom, `class="mark"`); got != want {
		t.Errorf("got %d marks, want %d", got, want)
	}
	has(t, words(dom), "30.7 % → 79.9 %", "The model was simulated.", "How to repeat the run", "Time and cost")
	if !strings.HasSuffix(strings.TrimSpace(dom), "</html>") {
		t.Errorf("got a page that ends %q", dom[max(len(dom)-100, 0):])
	}
}

// TestTextsAreEscapedInBrowser has a control: without escaping, the same attack succeeds.
func TestTextsAreEscapedInBrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	careless := regexp.MustCompile(`alert\(.\)`).ReplaceAllString(attack, "document.title='taken'") // a dialogue would wait for a click
	if dom, _ := b.dom(t, file(t, "<!DOCTYPE html><body>"+careless)); !strings.Contains(dom, "<title>taken</title>") || len(b.canaries()) == 0 {
		t.Fatalf("the attack does nothing where nobody keeps it from it: %v, %s", b.canaries(), dom)
	}
	b.mu.Lock()
	b.asked = nil
	b.mu.Unlock()

	dom, console := b.dom(t, file(t, render(t, poisoned(careless))))
	if strings.Contains(dom, "<title>taken</title>") || console != "" {
		t.Errorf("something ran, or tried to: %s", console)
	}
	if got := b.canaries(); len(got) != 0 {
		t.Errorf("requests left: %q", got)
	}
	if plain, _ := b.dom(t, file(t, render(t, poisoned("x")))); shape(dom) != shape(plain) {
		t.Error("the attack changed what the browser makes of the page")
	}
}

// TestPageFitsPhone measures the page in frames with the width of phones.
func TestPageFitsPhone(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	long := poisoned(strings.Repeat("W", 300))
	for _, r := range []*Report{example(), long} {
		page := render(t, r)
		mux := http.NewServeMux()
		mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte(page))
		})
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			for _, width := range []int{320, 400, 1000} {
				_, _ = fmt.Fprintf(w, `<iframe src="/page" width="%d" height="900" style="border:0"></iframe>`, width)
			}
			_, _ = w.Write([]byte(`<script>onload = () => {
				for (const f of document.querySelectorAll("iframe")) {
					const d = f.contentDocument
					const widest = [...d.querySelectorAll("body *")].filter(e => !e.closest("svg, .scroll")).reduce((a, e) => a.getBoundingClientRect().right < e.getBoundingClientRect().right ? e : a)
					f.title = f.width + " wide: " + (d.documentElement.scrollWidth - d.documentElement.clientWidth) + " over"
					f.name = widest.outerHTML.slice(0, 200)
				}
				document.title = "measured"
			}</script>`))
		})
		server := httptest.NewServer(mux)
		dom, _ := b.dom(t, server.URL, "--proxy-bypass-list=<-loopback>;"+strings.Split(server.Listener.Addr().String(), ":")[0])
		server.Close()
		for _, width := range []int{320, 400, 1000} {
			if want := fmt.Sprintf(`title="%d wide: 0 over"`, width); !strings.Contains(dom, want) {
				t.Errorf("want %s in %s", want, dom[:min(len(dom), 3000)])
			}
		}
	}
}
