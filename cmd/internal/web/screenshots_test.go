package web

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

var screenshots = flag.String("screenshots", "", "write a screenshot of every page, in both themes and two widths, to this directory")

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
		b.visit(a.path)
		for _, width := range []int64{390, 1280} {
			for _, theme := range themes {
				b.resize(width)
				b.theme(theme)
				height := min(max(evaluate[int64](b, `document.querySelector("main").getBoundingClientRect().bottom + scrollY | 0`), 600), 2400)
				send(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
				shot := send(b, page.CaptureScreenshot, page.CaptureScreenshotParams{})
				name := strings.NewReplacer("/{$}", "home", "/", "-", "{", "", "}", "").Replace(strings.TrimPrefix(a.pattern, "/books"))
				file := filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", strings.Trim(name, "-"), width, theme))
				if err := os.WriteFile(file, shot.Data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
