package console

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
)

var screenshots = flag.String("screenshots", "", "write every page to this directory: screenshots in both themes and two widths, and a PDF")

// TestScreenshots writes screenshots for people to look at.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("writes files: run with -screenshots DIR")
	}
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	in := readOnly(t, false)
	b := openTab(t, in)
	eventually(t, func() error { // the overview samples the health of the roles
		if !strings.Contains(get(t, in.open, "/").body, "healthy") {
			return fmt.Errorf("no role is healthy")
		}
		return nil
	})
	for _, a := range in.mains(t) {
		name := strings.NewReplacer("/{$}", "home", "/", "-", "{", "", "}", "").Replace(strings.TrimPrefix(a.pattern, "/books"))
		b.visit(a.path)
		b.shoot(strings.Trim(name, "-"))
	}
	b.base = in.guarded.URL
	b.visit("/login")
	b.shoot("login")
	b.enter("#token", "dbr_wrong")
	b.click("main button")
	b.shoot("login-wrong-token")
	b.enter("#token", in.secrets["reader"])
	b.click("main button")
	for name, path := range map[string]string{"error-not-found": "/books/default/nowhere", "error-forbidden": "/settings", "error-invalid": "/books/default/executions?outcome=x", "error-no-bullet": "/books/default/bullets/inv-99999", "reader": "/books/default/review"} {
		b.visit(path)
		b.shoot(name)
	}
}

// maxShot is the largest height of a screenshot that the browser can take, in pixels.
const maxShot = 16000

// shoot writes screenshots of the whole page in both themes and two widths, and the page as it is printed.
func (b *tab) shoot(name string) {
	b.test.Helper()
	for _, width := range []int64{390, 1280} {
		for _, theme := range themes {
			b.resize(width)
			b.theme(theme)
			height := min(max(evaluate[int64](b, `document.querySelector("main").getBoundingClientRect().bottom + scrollY | 0`), 600), maxShot)
			send(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
			shot := send(b, page.CaptureScreenshot, page.CaptureScreenshotParams{})
			check(b.test, os.WriteFile(filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", name, width, theme)), shot.Data, 0o644))
		}
	}
	a4 := page.PrintToPDFParams{PaperWidth: 8.27, PaperHeight: 11.69} // inches
	check(b.test, os.WriteFile(filepath.Join(*screenshots, name+".pdf"), send(b, page.PrintToPDF, a4).Data, 0o644))
}
