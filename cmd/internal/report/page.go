package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/components"
	"debrief/playbook"
)

// Limits of lists on the page. report.json and the lists beside it are complete.
const (
	maxBullets = 200
	maxLosses  = 100
	maxEpochs  = 200
	maxKinds   = 50
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"css":       func() template.CSS { return template.CSS(components.Base + pageCSS) },
	"thousands": components.Thousands,
	"plural":    components.Plural,
	"share":     func(s Score) string { return s.share() },
	"interval":  func(s Score) string { return s.shareInterval() },
	"ratio":     func(n, of int) string { return components.Percent(float64(n) / float64(of)) },
	"set":       setName,
	"cites":     slices.Contains[[]playbook.BulletID],
	"titled":    func(caption, what string, of []count) tally { return tally{caption, what, of} },
	"only":      func(title string, n int, first []string) only { return only{title, n, first} },
	"seconds":   components.Seconds,
	"roleTime":  roleTime,
	"dollars":   dollars,
	"date":      date,
	"decimal":   func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) },
}).Parse(pageHTML + components.ChartTemplate))

// page is the data of the template.
type page struct {
	*Report
	Headline    headline
	Simulated   bool
	Charts      []*components.Chart // accuracy, wide and narrow
	Sizes       []*components.Chart
	Legend      []components.Line
	Curve       *curve
	Shown       []Epoch
	Sections    []section
	Hidden      int // number of omitted bullets
	OfThisKind  []count
	TurnedDown  []count
	Lost        []Loss
	Command     string
	Fingerprint string
	Spent       []roleUsage
	Total       Usage
	Times       []EpochTime
	Learned     bool
	Terms       []term // operations
	Roles       []term
	// Limits mentioned in the text.
	MaxBullets, MaxMarks int
}

// Kind names the mode of the run.
func (p *page) Kind() string {
	switch p.Mode {
	case "offline", "online":
		return "an " + p.Mode + " run"
	case "executions":
		return "a run over recorded executions"
	}
	return "a run"
}

// IsBest reports whether a playbook is the best one.
func (p *page) IsBest(b Book) bool {
	return p.Learned && b.Version == p.Best.Version && b.StateHash == p.Best.StateHash
}

// HasValidation reports whether an epoch has a measurement of the validation set.
func (p *page) HasValidation() bool {
	return slices.ContainsFunc(p.Epochs, func(e Epoch) bool { return e.Validation != nil })
}

// HasLost reports whether an epoch lost a sample.
func (p *page) HasLost() bool {
	return slices.ContainsFunc(p.Epochs, func(e Epoch) bool { return e.Train.Lost > 0 })
}

// Validated reports whether the best playbook was chosen on a validation set.
func (p *page) Validated() bool { return len(p.validated()) > 0 }

// section is a section of the playbook.
type section struct {
	Title   string
	Bullets []Bullet
}

// count is the number of occurrences of something. Share is relative to the most frequent, in percent.
type count struct {
	What  string
	N     int
	Share float64
}

// tally is a table of counts.
type tally struct {
	Caption, What string
	Counts        []count
}

// only lists the bullets that only one of two playbooks has.
type only struct {
	Title string
	N     int
	First []string
}

// roleUsage is the model usage of one role.
type roleUsage struct {
	Role string
	Usage
}

// page writes the report as one self-contained HTML page without scripts, fonts or network access. All texts are
// escaped.
func (r *Report) page(w io.Writer) error {
	print, err := r.fingerprint()
	if err != nil {
		return err
	}
	r = r.tidy()
	p := &page{
		Report: r, Headline: r.headline(), Simulated: r.Run.simulated(), Curve: newCurve(r),
		Shown: r.Epochs[:min(len(r.Epochs), maxEpochs)], Lost: r.Losses[:min(len(r.Losses), maxLosses)],
		OfThisKind: counts(r.Operations), TurnedDown: counts(r.Rejected),
		Command: r.command(), Fingerprint: print,
		MaxBullets: maxBullets, MaxMarks: maxMarks,
		Spent: []roleUsage{{"Generator", r.Cost.Generator}, {"Reflector", r.Cost.Reflector}, {"Curator", r.Cost.Curator}},
		Total: r.Cost.total(), Times: r.Timing.Epochs[:min(len(r.Timing.Epochs), maxEpochs)], Learned: r.learned(), Terms: operationTerms(r.Operations), Roles: roles,
	}
	p.draw()
	p.choose()
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

func (p *page) draw() {
	c := p.Curve
	if len(c.Train)+len(c.Validation)+len(c.Test) > 0 {
		p.Charts = []*components.Chart{c.accuracyChart(p.Report, "wide", 720, 330), c.accuracyChart(p.Report, "narrow", 340, 260)}
		p.Legend = p.Charts[0].Lines
	}
	if len(c.Bullets) > 1 {
		p.Sizes = []*components.Chart{c.sizeChart("Bullets", c.Bullets), c.sizeChart("Tokens, estimated", c.Tokens)}
	}
}

// choose selects the bullets that were shown most, grouped by section.
func (p *page) choose() {
	bullets := slices.Clone(p.Bullets)
	slices.SortStableFunc(bullets, func(a, b Bullet) int {
		return cmp.Or(cmp.Compare(b.Shown, a.Shown), cmp.Compare(b.Helpful-b.Harmful, a.Helpful-a.Harmful))
	})
	p.Hidden = max(len(bullets)-maxBullets, 0)
	bullets = bullets[:len(bullets)-p.Hidden]
	slices.SortStableFunc(bullets, func(a, b Bullet) int { return cmp.Compare(a.Section, b.Section) })
	for _, b := range bullets {
		title := cmp.Or(playbook.SectionTitle(b.Section), "Without a section")
		if n := len(p.Sections); n == 0 || p.Sections[n-1].Title != title {
			p.Sections = append(p.Sections, section{Title: title})
		}
		s := &p.Sections[len(p.Sections)-1]
		s.Bullets = append(s.Bullets, b)
	}
}

// counts returns the most frequent kinds first. Kinds beyond maxKinds are one count at the end.
func counts(of map[string]int) []count {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b))
	})
	var out []count
	for i, name := range names {
		if i == maxKinds {
			rest := count{What: fmt.Sprintf("%d others", len(names)-i)}
			for _, name := range names[i:] {
				rest.N += of[name]
			}
			return append(out, rest)
		}
		out = append(out, count{What: name, N: of[name], Share: components.Round(100 * float64(of[name]) / float64(max(of[names[0]], 1)))})
	}
	return out
}

func (c *Cost) total() (all Usage) {
	for _, u := range []Usage{c.Generator, c.Reflector, c.Curator} {
		all.Calls += u.Calls
		all.InputTokens += u.InputTokens
		all.OutputTokens += u.OutputTokens
		all.Dollars += u.Dollars
		all.Seconds += u.Seconds
	}
	return all
}

// simulated reports whether the model was simulated.
func (r *Run) simulated() bool { return strings.Contains(strings.ToLower(r.Model), "simulated") }

// command returns the POSIX shell command that repeats the run, one argument on each line. Settings with names in
// capitals are positional arguments, all others are flags.
func (r *Report) command() string {
	words := []string{"debrief train"}
	var arguments []string
	for _, s := range r.Settings {
		switch {
		case s.Value == "":
		case s.Name == strings.ToUpper(s.Name) && !strings.HasPrefix(s.Name, "-"):
			arguments = append(arguments, quote(s.Value))
		default:
			words = append(words, quote("--"+strings.TrimLeft(s.Name, "-")+"="+s.Value))
		}
	}
	return strings.Join(append(words, arguments...), " \\\n  ")
}

// setName returns the name of a set or file for people.
func setName(set string) string {
	switch set {
	case "train":
		return "Training set"
	case "validation":
		return "Validation set"
	case "test":
		return "Test set"
	case "generator-prompt", "reflector-prompt":
		return "Instructions of the " + strings.TrimSuffix(set, "-prompt")
	}
	return set
}

// quote quotes a text for a POSIX shell.
func quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@%+", r)
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// roleTime formats a duration of a role, "–" without one.
func roleTime(s float64) string {
	if s == 0 {
		return "–"
	}
	return components.Seconds(s)
}

func dollars(d float64) string {
	if d == 0 {
		return "–"
	}
	return "$" + strconv.FormatFloat(d, 'f', 4, 64)
}

func date(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2 January 2006, 15:04:05 UTC")
}

// BuildPlatform returns the Go version and platform of the program, for a Config.
func BuildPlatform() string { return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH }
