package console

import (
	"fmt"
	"html/template"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/console/components"
	"debrief/cmd/internal/train/report"
	"debrief/curator/gate"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/text"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"thousands":   components.Thousands,
	"count":       func(n uint64) string { return components.Thousands(int(n)) },
	"plural":      components.Plural,
	"percent":     components.Percent,
	"points":      components.Points,
	"seconds":     components.Seconds,
	"decimal":     func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) },
	"ago":         func(t time.Time) string { return components.Ago(t, time.Now()) },
	"when":        func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"machine":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"known":       func(t time.Time) bool { return !t.IsZero() },
	"clip":        text.Clip,
	"in":          func(list []string, s string) bool { return slices.Contains(list, s) },
	"join":        func(list []string) string { return strings.Join(list, ", ") },
	"path":        pathOf,
	"query":       withParameter,
	"dict":        dict,
	"operation":   func(e history.Event) string { return explain.DescribeEvent(&e, e.Bullet) },
	"capital":     capital,
	"took":        took,
	"number":      func(v *uint64) uint64 { return *v },
	"cost":        cost,
	"first":       first,
	"bytes":       size,
	"pvalue":      pvalue,
	"mostShown":   mostShown,
	"cites":       slices.Contains[[]playbook.BulletID],
	"meaning":     func(kind string) string { return explain.OperationMeaning(playbook.OpKind(kind)) },
	"fingerprint": func(r *report.Report) (string, error) { return r.Fingerprint() },
	"styles":      styles,
	"less":        func(n, m int) int { return n - m },
	"lift":        lift,
	"static":      func(file string) string { return "/static/" + file + "?v=" + staticHash() },
}

// withParameter returns a path and query with parameters set: name, value, name, value. An empty value removes the parameter. Changes
// remove the parameter after, because they begin a new list.
func withParameter(here string, pairs ...string) (string, error) {
	u, err := url.Parse(here)
	if err != nil || len(pairs)%2 != 0 {
		return "", fmt.Errorf("query %q: want names and values: %w", here, err)
	}
	q := u.Query()
	q.Del("after")
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	u.RawQuery = q.Encode()
	return u.RequestURI(), nil
}

// dict returns a map of names and values, for the parameters of a shared part.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: name %d is not a text", i/2)
		}
		m[name] = pairs[i+1]
	}
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: a name without a value")
	}
	return m, nil
}

// pvalue formats a probability with four decimals.
func pvalue(p float64) string {
	if p < 0.0001 {
		return "below 0.0001"
	}
	return strconv.FormatFloat(p, 'f', 4, 64)
}

// first returns at most n items of a list.
func first(items any, n int) any {
	v := reflect.ValueOf(items)
	if v.Kind() != reflect.Slice || v.Len() <= n {
		return items
	}
	return v.Slice(0, n).Interface()
}

// lift returns the chart of the lift of a bullet in an experiment, nil if it has no outcomes with or without it.
func lift(r gate.Row) *components.Interval {
	if r.Lift == nil || r.Lift.Shown == 0 || r.Lift.Withheld == 0 {
		return nil
	}
	return &components.Interval{Value: r.Lift.Estimate, Low: r.Lift.Low, High: r.Lift.High, From: -1, To: 1}
}

// cost formats an amount in dollars, "–" for none.
func cost(dollars float64) string {
	if dollars == 0 {
		return "–"
	}
	if dollars < 0.1 {
		return "$" + strconv.FormatFloat(dollars, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(dollars, 'f', 2, 64)
}

// took formats a duration with three digits, "–" for none.
func took(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return unitStart.ReplaceAllString(d.Round(unit).String(), "$1\u00a0$2")
}

// unitStart matches the end of a number before its unit.
var unitStart = regexp.MustCompile(`(\d)([a-zµ])`)

// size formats a number of bytes: "18.6 kB".
func size(n uint64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	v, i := float64(n), 0
	for ; v >= 1000 && i < len(units)-1; i++ {
		v /= 1000
	}
	if i == 0 {
		return strconv.FormatUint(n, 10) + "\u00a0B"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + "\u00a0" + units[i]
}
