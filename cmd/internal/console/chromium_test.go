package console

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium is the one browser of the package.
var chromium struct {
	sync.Mutex
	ctx    context.Context
	cancel []context.CancelFunc
	tabs   []*tab // not in use
}

// browsers are the names of programs that the tests can use.
var browsers = []string{"chromium", "chromium-browser", "google-chrome"}

// tab is a page of the browser. It records what a page must not do. Its methods fail the test.
type tab struct {
	ctx  context.Context
	test *testing.T
	base string // URL of the server

	mu       sync.Mutex
	problems []string
	requests []string // to other hosts
	status   int64    // of the last document
}

// openTab returns a tab for the open server of an installation until the end of the test.
func openTab(t *testing.T, in *installation) *tab {
	t.Helper()
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.ctx == nil {
		startBrowser(t)
	}
	var b *tab
	if n := len(chromium.tabs); n > 0 {
		b, chromium.tabs = chromium.tabs[n-1], chromium.tabs[:n-1]
	} else {
		b = newTab(t)
	}
	b.test, b.base = t, in.open.URL
	b.clear()
	b.resize(1600) // the test before may have left something else
	b.theme("light")
	t.Cleanup(func() {
		b.scripts(true)
		send(b, network.ClearBrowserCookies, cdp.Empty{})
		b.run(chromedp.Navigate("about:blank"))
		chromium.Lock()
		defer chromium.Unlock()
		chromium.tabs = append(chromium.tabs, b)
	})
	return b
}

// startBrowser starts the browser, or skips the test if none is installed.
func startBrowser(t *testing.T) {
	t.Helper()
	var program string
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skipf("the pages were not tested in a browser: none of %s is installed", strings.Join(browsers, ", "))
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	chromium.ctx, chromium.cancel = ctx, []context.CancelFunc{cancel, stop}
	check(t, chromedp.Do(ctx))
}

// closeBrowser ends the browser at the end of the package.
func closeBrowser() {
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.ctx != nil {
		_ = chromedp.Cancel(chromium.ctx) // the process is killed in any case
	}
	for _, cancel := range chromium.cancel {
		cancel()
	}
}

// newTab opens a tab and listens to it.
func newTab(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext()) // with cookies of its own
	chromium.cancel = append([]context.CancelFunc{cancel}, chromium.cancel...)
	b := &tab{ctx: ctx}
	check(t, chromedp.Listen(ctx, b.event))
	b.test = t
	send(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}) // several tabs have the focus
	send(b, network.Enable, network.EnableParams{})
	send(b, log.Enable, cdp.Empty{})
	send(b, audits.Enable, cdp.Empty{})
	return b
}

// event records an event of the browser.
func (b *tab) event(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		for _, a := range e.Args {
			b.problems = append(b.problems, fmt.Sprintf("console.%s: %s", e.Type, a.Value))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelError && e.Entry.Level != log.EntryLevelWarning {
			return // a recommendation
		}
		b.problems = append(b.problems, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	case *audits.EventIssueAdded:
		if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			b.problems = append(b.problems, fmt.Sprintf("content security policy: %s by %s", d.ViolatedDirective, d.BlockedURL))
		}
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "about" && u.Scheme != "data" && "http://"+u.Host != b.base {
			b.requests = append(b.requests, e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Type == network.ResourceTypeDocument {
			b.status = e.Response.Status
		}
	case *page.EventJavascriptDialogOpening:
		b.problems = append(b.problems, "dialog: "+e.Message)
	}
}

// clear forgets what was recorded.
func (b *tab) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems, b.requests, b.status = nil, nil, 0
}

// run runs actions. It ends the test if one fails.
func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.test.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.test.Fatalf("browser: %v", err)
	}
}

// send sends a command of the protocol to the tab. It ends the test if it fails.
func send[P, R any](b *tab, c cdp.Command[P, R], params P) (result R) {
	b.test.Helper()
	b.run(func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		result, err = cdp.Call(ctx, t, c, params)
		return none, err
	})
	return result
}

// evaluate returns the value of an expression in the page. It waits for a promise. If the tab loads another page meanwhile, it
// evaluates the expression in that one.
func evaluate[T any](b *tab, expression string) (value T) {
	b.test.Helper()
	b.run(func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		for {
			value, err = chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise)(ctx, t)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "navigated") {
				return none, err
			}
		}
	})
	return value
}

// visit loads a page and waits until it is complete.
func (b *tab) visit(path string) {
	b.test.Helper()
	b.clear()
	b.run(chromedp.Navigate(b.base + path))
}

// click clicks an element that loads another page, and waits for that page. If the page replaces the element before it is clicked, as it
// does with its live parts, the new element is clicked.
func (b *tab) click(selector string) {
	b.test.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector)))
		if err == nil {
			return
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), "node with given id") {
			b.test.Fatalf("browser: click %s: %v", selector, err)
		}
	}
}

// runAndWait evaluates an expression that loads another page, and waits for that page.
func (b *tab) runAndWait(expression string) {
	b.test.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		_, err = chromedp.Evaluate[bool](expression)(ctx, t)
		return none, err
	}); err != nil {
		b.test.Fatalf("browser: %s: %v", expression, err)
	}
}

// resize sets the width of the window in pixels. Widths below 600 are those of phones.
func (b *tab) resize(width int64) {
	b.test.Helper()
	send(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 400, DeviceScaleFactor: 1, Mobile: width < 600})
}

// theme sets the theme of the system.
func (b *tab) theme(name string) {
	b.test.Helper()
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// scripts turns the execution of scripts on or off for the next pages.
func (b *tab) scripts(on bool) {
	b.test.Helper()
	send(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
}

// fine reports what the page did that it must not do.
func (b *tab) fine(page string) {
	b.test.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.test.Errorf("%s: %s", page, p)
	}
	for _, r := range b.requests {
		b.test.Errorf("%s: request to another host: %s", page, r)
	}
}
