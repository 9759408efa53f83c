package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// widths are those of a phone, a tablet and a large screen, in pixels.
var widths = []int64{390, 800, 1600}

// themes are those of a system.
var themes = []string{"light", "dark"}

// overflow returns how much wider the document is than the window, with the widest element outside of what scrolls.
const overflow = `(() => {
	const root = document.documentElement, over = root.scrollWidth - root.clientWidth
	if (over <= 0) return ""
	const widest = [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll, svg")).reduce((a, e) => a.getBoundingClientRect().right < e.getBoundingClientRect().right ? e : a)
	return over + " pixels: " + widest.outerHTML.slice(0, 200)
})()`

// TestPagesInBrowser loads every page with and without scripts, looks at it in each width, and checks that it is accessible in each theme.
func TestPagesInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, scripts := range []bool{true, false} {
		t.Run(fmt.Sprint("scripts ", scripts), func(t *testing.T) {
			t.Parallel()
			in := readOnly(t, false)
			b := openTab(t, in)
			b.scripts(scripts)
			titles := map[string]string{}
			for _, a := range firstOnly(in.mains(t)) {
				b.checkPage(a.path, titles)
				b.fine(a.path)
				if scripts {
					b.checkAccessible(a.path)
				}
			}
		})
	}
}

// checkPage visits a page, and looks at it in each width, by turns in both themes. The titles are those of the pages before.
func (b *tab) checkPage(path string, titles map[string]string) {
	b.test.Helper()
	b.resize(widths[0])
	b.visit(path)
	if b.status != 200 {
		b.test.Errorf("%s: got status %d", path, b.status)
	}
	for i, width := range widths {
		if i > 0 {
			b.resize(width)
		}
		b.theme(themes[i%len(themes)])
		if over := evaluate[string](b, overflow); over != "" {
			b.test.Errorf("%s, %d pixels wide: the document is wider by %s", path, width, over)
		}
	}
	title := evaluate[string](b, `document.title`)
	if other, ok := titles[title]; ok || title == "" || !strings.HasSuffix(title, "Debrief") {
		b.test.Errorf("%s: title %q is that of %q", path, title, other)
	}
	titles[title] = path
	if n := evaluate[int](b, `document.querySelectorAll("h1").length`); n != 1 {
		b.test.Errorf("%s: got %d elements h1", path, n)
	}
}

// TestLoginInBrowser logs in and out as a person does, in both themes, with and without scripts. It also looks at the pages of errors.
func TestLoginInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("opens further pages: run without -short")
	}
	t.Parallel()
	in := readOnly(t, false)
	b := openTab(t, in)
	b.base = in.guarded.URL
	const path, main = `location.pathname + location.search`, `document.querySelector("main").innerText`
	look := func(name string, texts ...string) {
		t.Helper()
		for _, width := range widths {
			b.resize(width)
			if over := evaluate[string](b, overflow); over != "" {
				t.Errorf("%s, %d pixels wide: the document is wider by %s", name, width, over)
			}
		}
		page := evaluate[string](b, main)
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("%s does not show %q: %s", name, text, page)
			}
		}
	}
	for _, scripts := range []bool{true, false} {
		for _, theme := range themes {
			name := fmt.Sprintf("%s, scripts %v: ", theme, scripts)
			b.scripts(scripts)
			b.theme(theme)
			b.visit("/books/default/review?after=")
			look(name+"login", "Log in to Debrief")
			if at := evaluate[string](b, path); !strings.HasPrefix(at, "/login?next=") {
				t.Errorf("%sa page without a token: the browser is at %s", name, at)
			}
			if scripts {
				b.checkAccessible(name + "login")
			}
			b.enter("#token", "dbr_wrong")
			b.click("main button")
			look(name+"a wrong token", "does not know this token")
			if scripts {
				b.checkAccessible(name + "a wrong token")
			}
			b.enter("#token", in.secrets["reader"])
			b.click("main button")
			look(name+"review", "Review of default")
			if at := evaluate[string](b, path); at != "/books/default/review?after=" {
				t.Errorf("%safter the login the browser is at %s", name, at)
			}
			if found := evaluate[bool](b, `document.cookie.includes("token") || document.documentElement.outerHTML.includes("dbr_")`); found {
				t.Errorf("%sthe page has the secret", name)
			}
			for url, text := range map[string]string{"/books/default/nowhere": "Not Found", "/settings": "Forbidden", "/books/default/executions?outcome=x": "Bad Request"} {
				b.visit(url)
				look(name+url, text)
				if scripts {
					b.checkAccessible(name + url)
				}
			}
			b.click(`form[action="/logout"] button`)
			look(name+"logout", "Log in to Debrief")
			b.visit("/status")
			if at := evaluate[string](b, path); at != "/login?next=%2Fstatus" {
				t.Errorf("%safter the logout the browser is at %s", name, at)
			}
		}
	}
}

// TestNamedScoresInBrowser reads the named scores of an outcome on the page of its execution, on a phone, with and without scripts.
func TestNamedScoresInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("opens a further page: run without -short")
	}
	t.Parallel()
	in := readOnly(t, false)
	b := openTab(t, in)
	b.resize(widths[0])
	for _, scripts := range []bool{true, false} {
		b.scripts(scripts)
		path := "/books/default/executions/" + in.seeded.executions[0]
		b.visit(path)
		b.fine(path)
		shown := evaluate[string](b, `document.querySelector("aside[aria-label='Outcome and facts']").innerText.replace(/\s+/g, " ")`)
		if want := "scored by exact correct 1.00 tone 0.25 exact match"; !strings.Contains(shown, want) {
			t.Errorf("scripts %v: got %q, want %q in it", scripts, shown, want)
		}
	}
}

// TestBrowserReportsProblems checks the checks: a page that breaks the rules is found.
func TestBrowserReportsProblems(t *testing.T) {
	if testing.Short() {
		t.Skip("checks the checks: run without -short")
	}
	t.Parallel()
	in := readOnly(t, false)
	b := openTab(t, in)
	b.resize(390)
	b.visit("/status")
	b.fine("/status")
	evaluate[bool](b, `(() => {
		const wide = document.createElement("p"), styled = document.createElement("div")
		wide.className = "code"; wide.textContent = "wide"; wide.style.width = "900px"
		styled.innerHTML = '<p style="color: red" onclick="x()">styled</p>'
		document.querySelector("main").append(wide, styled)
		fetch("http://other.invalid/").catch(() => 0)
		console.error("broken")
		return true
	})()`)
	if over := evaluate[string](b, overflow); !strings.Contains(over, "wide") {
		t.Errorf("a wide element was not found: %q", over)
	}
	eventually(t, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		found := strings.Join(b.problems, "\n")
		for _, want := range []string{"console.error", "style-src", "connect-src"} {
			if !strings.Contains(found, want) {
				return fmt.Errorf("%s was not reported in %q", want, found)
			}
		}
		return nil
	})
}

// TestThemeOfPerson checks that the chosen theme wins over that of the system, and that it needs no script.
func TestThemeOfPerson(t *testing.T) {
	if testing.Short() {
		t.Skip("opens further pages: run without -short")
	}
	t.Parallel()
	in := readOnly(t, false)
	b := openTab(t, in)
	b.scripts(false)
	b.resize(1200)
	const background = `getComputedStyle(document.body).backgroundColor`
	paper := map[string]string{}
	for _, theme := range themes {
		b.theme(theme)
		b.visit("/status")
		paper[theme] = evaluate[string](b, background)
	}
	if paper["light"] == paper["dark"] {
		t.Fatalf("both themes have the background %s", paper["light"])
	}
	for _, theme := range themes {
		b.click(fmt.Sprintf(`button[name=theme][value=%s]`, theme))
		for _, system := range themes {
			b.theme(system)
			if got := evaluate[string](b, background); got != paper[theme] {
				t.Errorf("theme %s in a %s system: got background %s, want %s", theme, system, got, paper[theme])
			}
		}
		if path := evaluate[string](b, `location.pathname`); path != "/status" {
			t.Errorf("the theme was changed on /status, and the browser is at %s", path)
		}
	}
	b.click(`button[name=theme][value=system]`)
	b.theme("dark")
	if got := evaluate[string](b, background); got != paper["dark"] {
		t.Errorf("the theme of the system: got background %s, want %s", got, paper["dark"])
	}
}

// TestPrint prints a page in a dark system, with the dark theme of a person: on white paper, without forms.
func TestPrint(t *testing.T) {
	if testing.Short() {
		t.Skip("opens further pages: run without -short")
	}
	t.Parallel()
	in := readOnly(t, false)
	b := openTab(t, in)
	dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
	const background, light = `getComputedStyle(document.body).backgroundColor`, "rgb(251, 251, 249)"
	for _, path := range []string{"/books/default/bullets/inv-00001", "/books/default/executions/" + in.seeded.executions[0]} {
		b.visit(path)
		for _, theme := range []string{"system", "dark"} {
			b.resize(1600) // with the buttons of themes
			dark.Media = "screen"
			send(b, emulation.SetEmulatedMedia, dark)
			b.click(fmt.Sprintf(`button[name=theme][value=%s]`, theme))
			if got := evaluate[string](b, background); got == light {
				t.Errorf("%s, theme %s: the screen is light", path, theme)
			}
			b.resize(800) // about the width of a sheet of paper
			dark.Media = "print"
			send(b, emulation.SetEmulatedMedia, dark)
			if got := evaluate[string](b, background); got != light {
				t.Errorf("%s, theme %s: got paper %s, want %s", path, theme, got, light)
			}
			if over := evaluate[string](b, overflow); over != "" {
				t.Errorf("%s: the paper is too narrow by %s", path, over)
			}
			if shown := evaluate[string](b, `[...document.querySelectorAll("form, button, nav, .narrow")].filter(e => e.getClientRects().length).map(e => e.outerHTML.slice(0, 120)).join()`); shown != "" {
				t.Errorf("%s: the paper has %s", path, shown)
			}
		}
	}
}
