package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"debrief/events/bus"
	"debrief/events/deltalog"
)

const monitoring = "../deploy/monitoring/"

// series holds the exported metrics of a process, with the values of each label. Histograms and summaries are split as
// Prometheus stores them.
type series map[string]map[string][]string

// TestMonitoring checks the alert rules and the dashboard with the metrics of a 'debrief up' that has learned.
func TestMonitoring(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	url := startLearning(t)
	var now []reading
	eventually(t, 20*time.Second, "the generator has what was learned", func() error {
		now = scrape(t, url)
		for _, r := range now {
			if r.labels.Get(labels.MetricName) == "debrief_follower_behind_versions" && r.value > 0 {
				return fmt.Errorf("it is %v versions behind", r.value)
			}
		}
		return nil
	})
	rules := alertRules(t)
	t.Run("names what is exported", func(t *testing.T) { checkQueries(t, rules, seriesOf(now)) })
	t.Run("alerts when it should", func(t *testing.T) { checkAlertCases(t, rules, now) })
}

// checkQueries checks that each query is valid PromQL and selects exported series.
func checkQueries(t *testing.T, alerts []alert, have series) {
	rules, panels := map[string]string{}, panelQueries(t)
	for _, a := range alerts {
		rules[a.Alert] = a.Expr
	}
	for what, query := range all(rules, panels) {
		for _, err := range check(query, have) {
			t.Errorf("%s: %s: %v", what, query, err)
		}
	}
	t.Logf("%d alerts and %d panels have valid queries", len(rules), len(panels))
	if len(rules) < 15 || len(panels) < 20 {
		t.Errorf("got %d alerts and %d queries of panels, want more", len(rules), len(panels))
	}
	for name, control := range map[string]string{
		"a metric that is misspelt": `debrief_role_levle == 2`,
		"a label that is not there": `debrief_role_level{rolle="curator"}`,
		"a value that is not there": `debrief_role_state{state="pausing"} == 1`,
		"a value of no series":      `debrief_model_calls_total{result=~"oops|alas"}`,
		"a sum by no label":         `sum by (book) (debrief_role_level)`,
		"what is no PromQL":         `rate(debrief_commit_seconds_count)`,
		"half of a query":           `debrief_role_level ==`,
	} {
		if errs := check(control, have); len(errs) == 0 {
			t.Errorf("%s: %s: got no error", name, control)
		}
	}
}

// startLearning starts 'debrief up' with the simulated model, submits a task that gives an insight, and returns the URL of
// the metrics.
func startLearning(t *testing.T) string {
	t.Helper()
	bin, dir, health, listen := program(t, "debrief"), t.TempDir(), freeAddress(t), freeAddress(t)
	prices := filepath.Join(dir, "prices.yaml")
	if err := os.WriteFile(prices, []byte("date: 2026-04-01\nmodels: {simulated-invoice-desk: {input: 1, output: 2}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "up", func() *exec.Cmd {
		return exec.Command(bin, "up", "--simulated", "--data", dir, "--listen", listen, "--http", "127.0.0.1:0", "--health", health,
			"--metrics-playbooks", string(desk), "--metrics-prices", prices)
	})
	awaitReady(t, health)
	conn := connect(t, "nats://"+listen)
	for _, task := range invoices(rand.New(rand.NewPCG(1, 1)), 3) {
		if _, err := conn.Publish(t.Context(), task, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	store := deltalog.New(conn.JetStream())
	eventually(t, 20*time.Second, "a delta in the view", func() error {
		books, err := store.BooksWithView(t.Context())
		if err == nil && len(books) == 0 {
			err = errors.New("book not found")
		}
		return err
	})
	return "http://" + health + "/metrics"
}

// reading is one value of a process's metrics.
type reading struct {
	labels labels.Labels // with the name
	value  float64
}

// scrape reads the metrics of a process. Histograms and summaries are split as Prometheus stores them.
func scrape(t *testing.T, url string) (all []reading) {
	t.Helper()
	status, text, err := get(t.Context(), url)
	if err != nil || status != http.StatusOK {
		t.Fatalf("got %d, %v", status, err)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		for _, m := range f.Metric {
			own := labels.NewBuilder(labels.EmptyLabels())
			for _, l := range m.Label {
				own.Set(l.GetName(), l.GetValue())
			}
			note := func(name string, value float64, pairs ...string) {
				b := labels.NewBuilder(own.Labels()).Set(labels.MetricName, name)
				for i := 0; i+1 < len(pairs); i += 2 {
					b.Set(pairs[i], pairs[i+1])
				}
				all = append(all, reading{b.Labels(), value})
			}
			switch {
			case m.Histogram != nil:
				for _, b := range m.Histogram.Bucket {
					note(name+"_bucket", float64(b.GetCumulativeCount()), "le", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
				}
				note(name+"_sum", m.Histogram.GetSampleSum())
				note(name+"_count", float64(m.Histogram.GetSampleCount()))
			case m.Summary != nil:
				for _, q := range m.Summary.Quantile {
					note(name, q.GetValue(), "quantile", strconv.FormatFloat(q.GetQuantile(), 'g', -1, 64))
				}
				note(name+"_sum", m.Summary.GetSampleSum())
				note(name+"_count", float64(m.Summary.GetSampleCount()))
			case m.Counter != nil:
				note(name, m.Counter.GetValue())
			case m.Gauge != nil:
				note(name, m.Gauge.GetValue())
			default:
				note(name, m.GetUntyped().GetValue())
			}
		}
	}
	return append(all, reading{labels.FromStrings(labels.MetricName, "up"), 1}) // added by Prometheus for every target
}

// seriesOf collects the labels and their values.
func seriesOf(all []reading) series {
	have := series{}
	for _, r := range all {
		name := r.labels.Get(labels.MetricName)
		if have[name] == nil {
			have[name] = map[string][]string{"job": nil, "instance": nil} // added by Prometheus
		}
		r.labels.Range(func(l labels.Label) {
			if l.Name != labels.MetricName {
				have[name][l.Name] = append(have[name][l.Name], l.Value)
			}
		})
	}
	return have
}

// check returns the errors of a query: invalid PromQL, or unknown metrics, labels and values.
func check(query string, have series) (errs []error) {
	expr, err := parser.ParseExpr(query)
	if err != nil {
		return []error{err}
	}
	known := map[string]bool{}
	selected := 0
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, is := n.(*parser.VectorSelector)
		if !is {
			return nil
		}
		selected++
		values, there := have[v.Name]
		if !there {
			errs = append(errs, fmt.Errorf("unknown metric %q", v.Name))
			return nil
		}
		for l := range values {
			known[l] = true
		}
		for _, m := range v.LabelMatchers {
			if m.Name == labels.MetricName {
				continue
			}
			got, there := values[m.Name]
			switch {
			case !there:
				errs = append(errs, fmt.Errorf("%s has no label %q", v.Name, m.Name))
			case got != nil && !slices.ContainsFunc(got, m.Matches):
				errs = append(errs, fmt.Errorf("%s has no series with %s", v.Name, m))
			case m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp:
				for _, alternative := range m.SetMatches() { // each of a|b
					if got != nil && !slices.Contains(got, alternative) {
						errs = append(errs, fmt.Errorf("%s has no series with %s %q", v.Name, m.Name, alternative))
					}
				}
			}
		}
		return nil
	})
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		var by []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			by = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				by = append(slices.Clone(n.VectorMatching.MatchingLabels), n.VectorMatching.Include...)
			}
		}
		for _, l := range by {
			if !known[l] {
				errs = append(errs, fmt.Errorf("unknown label %q", l))
			}
		}
		return nil
	})
	if selected == 0 {
		errs = append(errs, errors.New("no metric"))
	}
	return errs
}

// alert is an alert rule of Prometheus.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// alertRules reads the rules. Each must have a severity, a summary and a description.
func alertRules(t *testing.T) (all []alert) {
	t.Helper()
	text, err := os.ReadFile(monitoring + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	for _, r := range all {
		if seen[r.Alert] {
			t.Errorf("alert %s: twice", r.Alert)
		}
		seen[r.Alert] = true
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("alert %s: severity is %q, want critical or warning", r.Alert, s)
		}
		if _, err := model.ParseDuration(r.For); r.For != "" && err != nil {
			t.Errorf("alert %s: for: %v", r.Alert, err)
		}
		for _, a := range []string{"summary", "description"} {
			if r.Annotations[a] == "" {
				t.Errorf("alert %s: no %s", r.Alert, a)
			}
		}
	}
	return all
}

// panelQueries returns the queries of the dashboard's panels and variables by place, with Grafana's variables replaced.
func panelQueries(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(monitoring + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	type panel struct {
		Title   string
		Type    string
		Targets []struct{ Expr, RefID string }
		Panels  []panel
	}
	var board struct {
		Panels     []panel
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	filled := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")
	queries := map[string]string{}
	var walk func([]panel)
	walk = func(panels []panel) {
		for _, p := range panels {
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("panel %q: query required", p.Title)
			}
			for i, target := range p.Targets {
				queries[fmt.Sprintf("panel %q, %d", p.Title, i+1)] = filled.Replace(target.Expr)
			}
			walk(p.Panels)
		}
	}
	walk(board.Panels)
	ofLabel := regexp.MustCompile(`^label_values\((.+), *(\w+)\)$`)
	for _, v := range board.Templating.List {
		if m := ofLabel.FindStringSubmatch(v.Query); m != nil {
			queries["variable "+v.Name] = "count by (" + m[2] + ") (" + filled.Replace(m[1]) + ")"
		} else if v.Type == "query" {
			t.Errorf("variable %s: invalid query %q", v.Name, v.Query)
		}
	}
	return queries
}

func all(of ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, m := range of {
		maps.Copy(sum, m)
	}
	return sum
}

// TestScrapeExampleFilesExist checks that the files in the example scrape configuration exist.
func TestScrapeExampleFilesExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(monitoring + "prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		RuleFiles     []string         `yaml:"rule_files"`
		ScrapeConfigs []map[string]any `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.RuleFiles) == 0 || len(file.ScrapeConfigs) == 0 {
		t.Errorf("got %d rule files and %d jobs, want at least 1", len(file.RuleFiles), len(file.ScrapeConfigs))
	}
	for _, name := range file.RuleFiles {
		if _, err := os.Stat(filepath.Join(monitoring, name)); err != nil {
			t.Error(err)
		}
	}
}
