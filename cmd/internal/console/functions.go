package console

import (
	"fmt"
	"html/template"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/train/report"
	"debrief/curator/gate"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/text"
)

// functions are the functions that templates can call.
var functions = template.FuncMap{
	"thousands":   thousands,
	"count":       func(n uint64) string { return thousands(int(n)) },
	"plural":      plural,
	"percent":     percent,
	"points":      points,
	"seconds":     seconds,
	"decimal":     func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) },
	"ago":         func(t time.Time) string { return ago(t, time.Now()) },
	"when":        func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"machine":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"known":       func(t time.Time) bool { return !t.IsZero() },
	"clip":        text.Clip,
	"explained":   explained,
	"in":          slices.Contains[[]string, string],
	"join":        join,
	"path":        api.Path,
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
	"minus":       func(n, m int) int { return n - m },
	"lift":        lift,
	"static":      func(file string) string { return "/static/" + file + "?v=" + staticHash() },
}

// withParameter returns a path and query with changed parameters. Pairs are names and values: name, value, name, value. An empty value
// removes the parameter. The parameter "after" is always removed, because a changed list begins with its first part.
func withParameter(here string, pairs ...string) (string, error) {
	u, err := url.Parse(here)
	if err != nil {
		return "", fmt.Errorf("query: %w", err)
	}
	if len(pairs)%2 != 0 {
		return "", fmt.Errorf("query %q: a name without a value", here)
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

// join lists texts of any type, separated by commas.
func join(list any) string {
	var texts []string
	for _, v := range reflect.ValueOf(list).Seq2() {
		texts = append(texts, v.String())
	}
	return strings.Join(texts, ", ")
}

// first returns the first n items of a slice, or all if it has fewer.
func first(items any, n int) any {
	v := reflect.ValueOf(items)
	if v.Kind() != reflect.Slice || v.Len() <= n {
		return items
	}
	return v.Slice(0, n).Interface()
}

// lift returns the chart of the lift of a bullet in an experiment. It returns nil without an experiment, and if one of the two arms has no
// outcomes.
func lift(r *gate.Row) *interval {
	if r == nil || !r.Lift.IsMeasured() {
		return nil
	}
	return &interval{Value: r.Lift.Estimate, Low: r.Lift.Low, High: r.Lift.High, From: -1, To: 1}
}

// meanings explain the states and the standings of bullets.
var meanings = map[string]string{
	string(playbook.Active):          "It is in the prompts of new tasks that it fits.",
	string(playbook.Probation):       "A random half of the tasks gets it, until its effect is measured.",
	string(playbook.Candidate):       "It is in no prompt: it waits until a second execution asks for it.",
	string(playbook.Quarantined):     "It is in no prompt: it waits for a person.",
	string(playbook.Retired):         "It is in no prompt any more: it did harm, had no effect, or was replaced.",
	string(playbook.StandingNew):     "Too few outcomes to judge it.",
	string(playbook.StandingSuspect): "Outcomes with it are worse than without it.",
	string(playbook.StandingTrusted): "Tasks that cite it mostly succeed.",
	string(playbook.StandingProven):  "A random comparison shows that it helps.",
	string(playbook.StandingKept):    "A person decided on it, so the gate leaves it alone.",
}

// explained explains a state or a standing of a bullet in a sentence, "" for another word.
func explained(word any) string { return meanings[fmt.Sprint(word)] }
