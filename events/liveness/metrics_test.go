package liveness

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"debrief/events/bus"
)

func TestMetricsInFull(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := Role{RoleHealth: bus.RoleHealth{Role: "reflector", State: bus.Paused, Since: now.Add(-90 * time.Second)}}
	r.Level = Red
	r.Vitals = bus.Vitals{
		Calls: 4, Took: 2 * time.Second, P50: 500 * time.Millisecond, P95: 750 * time.Millisecond, Stored: 3, Handled: 1, Retried: 7, Dead: 2,
		Settled: now.Add(-1500 * time.Millisecond), Deltas: 5, Rejected: 6,
	}
	r.Work = bus.Work{Lag: bus.Lag{Pending: 8, InFlight: 9}, Oldest: now.Add(-time.Minute), Keep: time.Hour, Bytes: 1 << 40, MaxBytes: 10, Dead: 11}
	var b strings.Builder
	if err := WriteMetrics(&b, Report{Time: now, Roles: []Role{r}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range strings.Split(b.String(), "\n") {
		if l != "" && l[0] != '#' {
			got = append(got, l)
		}
	}
	want := `debrief_role_level{role="reflector"} 2
debrief_role_state{role="reflector",state="running"} 0
debrief_role_state{role="reflector",state="unavailable"} 0
debrief_role_state{role="reflector",state="paused"} 1
debrief_role_state{role="reflector",state="outdated"} 0
debrief_role_state_seconds{role="reflector"} 90
debrief_role_waiting_messages{role="reflector"} 8
debrief_role_in_flight_messages{role="reflector"} 9
debrief_role_oldest_seconds{role="reflector"} 60
debrief_role_settled_seconds{role="reflector"} 1.5
debrief_role_handling_seconds{role="reflector",quantile="0.5"} 0.5
debrief_role_handling_seconds{role="reflector",quantile="0.95"} 0.75
debrief_role_handling_seconds_sum{role="reflector"} 2
debrief_role_handling_seconds_count{role="reflector"} 4
debrief_role_results_total{role="reflector",result="stored"} 3
debrief_role_results_total{role="reflector",result="handled"} 1
debrief_role_results_total{role="reflector",result="retried"} 7
debrief_role_results_total{role="reflector",result="dead"} 2
debrief_deltas_applied_total{role="reflector"} 5
debrief_operations_rejected_total{role="reflector"} 6
debrief_dead_letters{role="reflector"} 11
debrief_stream_bytes{role="reflector"} 1.099511627776e+12
debrief_stream_limit_bytes{role="reflector"} 10
debrief_stream_keep_seconds{role="reflector"} 3600`
	if g := strings.Join(got, "\n"); g != want {
		t.Errorf("got\n%s\nwant\n%s", g, want)
	}
}

// TestMetricsAreWellFormed: each name has its help and its type, once and before its samples, and each line is one of
// the format's.
func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	report := Report{Time: time.Now(), Roles: []Role{
		{RoleHealth: bus.RoleHealth{Role: "curator", State: bus.Running, Since: time.Now()}},
		{RoleHealth: bus.RoleHealth{Role: "odd \"name\\\nof", State: bus.Running, Since: time.Now()}},
	}}
	var b strings.Builder
	if err := WriteMetrics(&b, report); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), "\n") {
		t.Error("the last line does not end")
	}
	sample := regexp.MustCompile(`^([a-z_]+)\{([a-z]+="(?:[^"\\\n]|\\\\|\\"|\\n)*"(?:,[a-z]+="(?:[^"\\\n]|\\\\|\\"|\\n)*")*)\} (?:\d+(?:\.\d+)?(?:e[+-]\d+)?|\+Inf)$`)
	kinds := map[string]string{}
	for _, l := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		if f := strings.Fields(l); f[0] == "#" {
			if f[1] == "TYPE" {
				if kinds[f[2]] != "" {
					t.Errorf("%s has two types", f[2])
				}
				kinds[f[2]] = f[3]
			}
			continue
		}
		m := sample.FindStringSubmatch(l)
		if m == nil {
			t.Errorf("%q is no sample", l)
			continue
		}
		name := m[1]
		if kinds[strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")] == "summary" {
			continue
		}
		kind := kinds[name]
		if kind == "" || (kind == "counter") != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %q", name, kind)
		}
	}
}

// TestTheTableOfMetricsIsWhole compares the package's comment with the code.
func TestTheTableOfMetricsIsWhole(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(debrief_\w+) +(\S+) +(\w+) `).FindAllStringSubmatch(string(text), -1) {
		said[m[1]] = m[3]
	}
	for _, m := range metrics {
		if said[m.name] != m.kind {
			t.Errorf("the table says that %s is a %q, it is a %s", m.name, said[m.name], m.kind)
		}
		delete(said, m.name)
	}
	for name := range said {
		t.Errorf("the table has %s, which does not exist", name)
	}
}

type broken struct{}

var errBroken = errors.New("broken")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestMetricsForNobodyAreAnError(t *testing.T) {
	t.Parallel()
	if err := WriteMetrics(broken{}, Report{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}
