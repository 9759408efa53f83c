package console

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/api"
)

// address is a page with a path that exists.
type address struct {
	pattern string // of the page
	path    string
	main    bool // the first of the page
}

// parameter matches a parameter in the pattern of a page, with the segment before it.
var parameter = regexp.MustCompile(`([a-z]*)/\{([a-z]+)\}`)

// variants are queries that change what a page shows.
var variants = map[string][]string{
	"/books/{book}":            {"?q=invoice&state=shown&sort=lift", "?at=2", "?q=nothing", "?section=payment&limit=x"},
	"/books/{book}/versions":   {"?after=3"},
	"/books/{book}/executions": {"?outcome=failure", "?doubted=true", "?task=t-5", "?outcome=partial&before=2020-01-01T00:00:00Z"},
	"/books/{book}/diff":       {"?from=1&to=3", "?from=3&to=3"},
	"/books/{book}/restore":    {"?to=3", "?to=before-release"},
	"/runs/{run}/compare":      {"?with=invoices-1", "?with=nowhere"},
	"/status":                  {"?checks=1"},
	"/dead":                    {"?role=reflector", "?role=curator&book=support"},
}

// addresses returns paths of every page: of each object that was seeded, and with queries.
func (in *installation) addresses(t testing.TB) (all []address) {
	t.Helper()
	values := map[string][]string{
		"books": {"default"}, "bullets": in.seeded.bullets, "executions": in.seeded.executions, "sessions": in.seeded.sessions, "versions": in.seeded.versions, "runs": in.seeded.runs, "dead": in.seeded.dead,
	}
	for _, v := range pages {
		paths := []string{strings.TrimSuffix(v.pattern, "{$}")}
		for {
			p := parameter.FindStringSubmatch(paths[0])
			if p == nil {
				break
			}
			if len(values[p[1]]) == 0 {
				t.Errorf("page %s: no stored object for its parameter %s", v.pattern, p[2])
				paths = nil
				break
			}
			var filled []string
			for _, path := range paths {
				for _, value := range values[p[1]] {
					filled = append(filled, strings.Replace(path, p[0], p[1]+api.Path(value), 1))
				}
			}
			paths = filled
		}
		if needed := v.pattern == "/books/{book}/restore"; !needed {
			for i, path := range paths {
				all = append(all, address{v.pattern, path, i == 0})
			}
		}
		for i, query := range variants[v.pattern] {
			all = append(all, address{v.pattern, paths[0] + query, i == 0 && v.pattern == "/books/{book}/restore"})
		}
	}
	return append(all, address{"/books/{book}/versions", "/books/support/versions", false})
}

// mains returns one path of every page.
func (in *installation) mains(t testing.TB) []address {
	return slices.DeleteFunc(in.addresses(t), func(a address) bool { return !a.main })
}

// selection returns up to four paths of every page.
func (in *installation) selection(t testing.TB) (all []address) {
	byPattern := map[string][]address{}
	for _, a := range in.addresses(t) {
		byPattern[a.pattern] = append(byPattern[a.pattern], a)
	}
	for _, a := range in.mains(t) {
		some := byPattern[a.pattern]
		if n := len(some); n > 4 {
			some = slices.Concat(some[:2], some[n-2:])
		}
		all = append(all, some...)
	}
	return all
}

// firstOnly returns one page of a short run, else all.
func firstOnly(all []address) []address {
	if testing.Short() {
		return all[:1]
	}
	return all
}

// TestPagesShowTheParts reads texts of pages that a person decides by.
func TestPagesShowTheParts(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	for _, row := range []struct {
		path  string
		texts []string
	}{
		{"/books/default/review", []string{"Approving retires", "Contradicts", "Where it was learned"}},
		{"/books/default/bullets/inv-00010", []string{"Learned from", "Helped or harmed", "In no execution yet."}},
		{"/books/default/bullets/inv-00001", []string{"it helped in 1 and harmed in 0.", "A random comparison shows that it helps."}},
		{"/books/default/curve", []string{
			"Ever cited", "Contribution", "of 2 bullets, 84 outcomes with", "No effect", "Last confirmed", "contradicts <a class=\"code\" href=\"/books/default/bullets/inv-00001\">",
		}},
		{"/books/default/executions/" + in.seeded.executions[5], []string{"Another answer to the task", "In the drawer.", "I guessed."}},
		{"/books/default/executions/" + in.seeded.executions[2], []string{"Compared with", `<a class="code" href="/books/default/executions/` + in.seeded.executions[0] + `"`, "another run of the task"}},
		{"/books/default/versions", []string{"Versions that change bullets."}},
		{"/books/default/versions?changes=all", []string{"All versions."}},
	} {
		page := get(t, in.open, row.path).body
		for _, text := range row.texts {
			if !strings.Contains(page, text) {
				t.Errorf("%s: does not show %q", row.path, text)
			}
		}
	}
}
