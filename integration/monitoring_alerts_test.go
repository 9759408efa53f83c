package integration

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	query "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// seriesChange sets the values of the selected series during a day: a constant value, a growth per minute from that value,
// or no samples.
type seriesChange struct {
	selector string
	value    float64
	grows    float64 // per minute
	gone     bool
}

// alertCase describes a day of two processes with all roles. Series without a change keep their value.
type alertCase struct {
	alert   string
	what    string // the situation; empty if the alert's name describes it
	changes []seriesChange
}

// firingCases are situations in which the alert must fire.
var firingCases = []alertCase{
	{"DebriefNothingLearned", "", []seriesChange{{selector: `debrief_role_level{role="reflector"}`, value: 2}}},
	{"DebriefLearnsNothingNew", "", []seriesChange{
		{selector: `debrief_role_since_effect_seconds{role="curator"}`, value: 7 * 3600},
		{selector: `debrief_role_results_total{role="curator", result="handled"}`, grows: 1},
	}},
	{"DebriefRoleUnwell", "one of two is paused", []seriesChange{{selector: `debrief_role_state{role="reflector", state="paused", instance="a"}`, value: 1}}},
	{"DebriefLagGrows", "", []seriesChange{
		{selector: `debrief_role_waiting_messages{role="generator"}`, value: 200, grows: 1},
		{selector: `debrief_role_oldest_seconds{role="generator"}`, value: 1000},
	}},
	{"DebriefOldestNearExpiry", "", []seriesChange{{selector: `debrief_role_oldest_seconds{role="reflector"}`, value: 16 * 86400}}},
	{"DebriefNoWorker", "", []seriesChange{{selector: `debrief_role_level{role="reflector"}`, gone: true}}},
	{"DebriefTargetDown", "", []seriesChange{{selector: `up{instance="b"}`, value: 0}}},
	{"DebriefDeadLetters", "", []seriesChange{{selector: `debrief_dead_letters{role="reflector"}`, grows: 0.1}}},
	{"DebriefDeadLettersWait", "", []seriesChange{{selector: `debrief_dead_letters{role="generator"}`, value: 3}}},
	{"DebriefManyRetries", "", []seriesChange{
		{selector: `debrief_role_results_total{role="generator", result="retried"}`, grows: 5},
		{selector: `debrief_role_results_total{role="generator", result="stored"}`, grows: 10},
	}},
	{"DebriefStreamNearFull", "", []seriesChange{
		{selector: `debrief_stream_bytes{role="generator"}`, value: 900},
		{selector: `debrief_stream_limit_bytes{role="generator"}`, value: 1000},
	}},
	{"DebriefStoreNearFull", "", []seriesChange{{selector: `debrief_store_bytes`, value: 900}, {selector: `debrief_store_limit_bytes`, value: 1000}}},
	{"DebriefStoreClosed", "", []seriesChange{{selector: `debrief_store_closed`, value: 1}}},
	{"DebriefCallsNotCaptured", "", []seriesChange{{selector: `debrief_gateway_captures_total{result="lost", instance="a"}`, grows: 0.2}}},
	{"DebriefCallsWithoutAdvice", "", []seriesChange{
		{selector: `debrief_gateway_degraded_total{class="chat", reason="deadline"}`, grows: 2},
		{selector: `debrief_gateway_requests_total{class="chat", status="2xx"}`, grows: 20},
	}},
	{"DebriefPlaybookCallsNotCaptured", "", []seriesChange{
		{selector: `debrief_playbook_gateway_calls_total{playbook="desk", reason="deadline"}`, grows: 1},
		{selector: `debrief_playbook_gateway_calls_total{playbook="desk", reason="captured"}`, grows: 2},
	}},
	{"DebriefPlaybookWaits", "", []seriesChange{{selector: `debrief_playbook_oldest_seconds{playbook="desk", role="reflector"}`, value: 4000}}},
	{"DebriefPlaybookUnhealthy", "", []seriesChange{{selector: `debrief_playbook_alarm{playbook="desk", alarm="harm"}`, value: 1}}},
	{"DebriefBreakerOpen", "", []seriesChange{{selector: `debrief_model_breaker_state{role="reflector", kind="chat", state="open"}`, value: 1}}},
	{"DebriefModelErrors", "", []seriesChange{
		{selector: `debrief_model_calls_total{role="reflector", kind="chat", result="unavailable"}`, grows: 1},
		{selector: `debrief_model_calls_total{role="reflector", kind="chat", result="ok"}`, grows: 5},
	}},
	{"DebriefModelSlow", "", []seriesChange{{selector: `debrief_model_seconds_bucket{role="reflector", kind="chat", le=~"120|300|600|\\+Inf"}`, grows: 10}}},
	{"DebriefModelRetries", "", []seriesChange{
		{selector: `debrief_model_retries_total{role="curator", kind="chat"}`, grows: 3},
		{selector: `debrief_model_requests_total{role="curator", kind="chat"}`, grows: 10},
	}},
	{"DebriefViewStale", "", []seriesChange{{selector: `debrief_view_behind_seconds`, value: 90}}},
	{"DebriefFollowerStale", "", []seriesChange{{selector: `debrief_follower_behind_versions{instance="a"}`, value: 2}}},
	{"DebriefCommitsRace", "", []seriesChange{{selector: `debrief_commit_conflicts_total`, grows: 5}, {selector: `debrief_commit_seconds_count`, grows: 5}}},
	{"DebriefRefused", "", []seriesChange{
		{selector: `debrief_requests_total{endpoint="http", verb="context", code="503"}`, grows: 1},
		{selector: `debrief_requests_total{endpoint="http", verb="context", code="200"}`, grows: 5},
	}},
	{"DebriefDisconnected", "", []seriesChange{{selector: `debrief_nats_connected{instance="a"}`, value: 0}}},
	{"DebriefReconnectStorm", "", []seriesChange{{selector: `debrief_nats_reconnects_total{instance="a"}`, grows: 1}}},
	{"DebriefServerSilent", "", []seriesChange{{selector: `debrief_server_answers`, value: 0}}},
	{"DebriefMemoryGrows", "", []seriesChange{{selector: `process_resident_memory_bytes{instance="b"}`, value: 230e6}}},
}

// silentCases are similar situations in which the alert must not fire.
var silentCases = []alertCase{
	{"DebriefNothingLearned", "one of two is red", []seriesChange{{selector: `debrief_role_level{role="reflector", instance="a"}`, value: 2}}},
	{"DebriefOldestNearExpiry", "a stream that keeps for ever", []seriesChange{
		{selector: `debrief_role_oldest_seconds{role="generator"}`, value: 1e6},
		{selector: `debrief_stream_retention_seconds{role="generator"}`, value: 0},
	}},
	{"DebriefStreamNearFull", "a stream without a limit", []seriesChange{
		{selector: `debrief_stream_bytes{role="generator"}`, value: 1e12},
		{selector: `debrief_stream_limit_bytes{role="generator"}`, value: 0},
	}},
	{"DebriefStoreNearFull", "no limit", []seriesChange{{selector: `debrief_store_bytes`, value: 1e12}, {selector: `debrief_store_limit_bytes`, value: 0}}},
	{"DebriefDeadLetters", "old ones", []seriesChange{{selector: `debrief_dead_letters{role="reflector"}`, value: 3}}},
	{"DebriefLagGrows", "many wait, and fewer every minute", []seriesChange{
		{selector: `debrief_role_waiting_messages{role="generator"}`, value: 20000, grows: -10},
		{selector: `debrief_role_oldest_seconds{role="generator"}`, value: 1000},
	}},
	{"DebriefPlaybookCallsNotCaptured", "one in ten", []seriesChange{
		{selector: `debrief_playbook_gateway_calls_total{playbook="desk", reason="deadline"}`, grows: 1},
		{selector: `debrief_playbook_gateway_calls_total{playbook="desk", reason="captured"}`, grows: 9},
	}},
	{"DebriefModelErrors", "one in a hundred fails", []seriesChange{
		{selector: `debrief_model_calls_total{role="reflector", kind="chat", result="unavailable"}`, grows: 1},
		{selector: `debrief_model_calls_total{role="reflector", kind="chat", result="ok"}`, grows: 99},
	}},
	{"DebriefModelSlow", "a model of a second", []seriesChange{{selector: `debrief_model_seconds_bucket{kind="chat", le=~"1|2.5|5|10|20|30|60|120|300|600|\\+Inf"}`, grows: 10}}},
	{"DebriefServerSilent", "there is no connection either, which is another alert", []seriesChange{
		{selector: `debrief_server_answers`, value: 0},
		{selector: `debrief_nats_connected`, value: 0},
	}},
}

// checkAlertCases evaluates each alert with the engine of Prometheus. No alert may fire on a healthy system. Each must fire in
// its cases, with the labels that its text uses.
func checkAlertCases(t *testing.T, alerts []alert, now []reading) {
	engine := query.NewEngine(query.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	ask := func(a alert, changes ...seriesChange) query.Vector {
		t.Helper()
		d := day{t: t, now: now, changes: changes}
		q, err := engine.NewInstantQuery(t.Context(), d, nil, a.Expr, time.UnixMilli(minutes*60_000))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		v, err := q.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", a.Alert, err)
		}
		return slices.Clone(v)
	}
	for _, s := range slices.Concat(firingCases, silentCases) { // a case must change existing series
		if !slices.ContainsFunc(alerts, func(a alert) bool { return a.Alert == s.alert }) {
			t.Errorf("unknown alert %s", s.alert)
		}
		for _, x := range s.changes {
			if !slices.ContainsFunc(now, func(r reading) bool { return x.about(t, at(r, "a")) || x.about(t, at(r, "b")) }) {
				t.Errorf("%s: %s selects no series", s.alert, x.selector)
			}
		}
	}
	named := regexp.MustCompile(`\$labels\.(\w+)`)
	shown := map[string]bool{}
	for _, a := range alerts {
		if got := ask(a); len(got) > 0 {
			t.Errorf("%s fires on a healthy system: %v", a.Alert, got)
		}
		for _, s := range firingCases {
			if s.alert != a.Alert {
				continue
			}
			shown[a.Alert] = true
			got := ask(a, s.changes...)
			if len(got) == 0 {
				t.Errorf("%s does not fire, %s", a.Alert, s.what)
				continue
			}
			for _, m := range named.FindAllStringSubmatch(a.Annotations["summary"]+a.Annotations["description"], -1) {
				if got[0].Metric.Get(m[1]) == "" {
					t.Errorf("%s: unknown label %q in the text, the alert has %s", a.Alert, m[1], got[0].Metric)
				}
			}
		}
		if !shown[a.Alert] {
			t.Errorf("%s: add a case in which it fires", a.Alert)
		}
		for _, s := range silentCases {
			if s.alert == a.Alert {
				if got := ask(a, s.changes...); len(got) > 0 {
					t.Errorf("%s must not fire: %s: %v", a.Alert, s.what, got)
				}
			}
		}
	}
}

// minutes is the length of a day. Each minute has a sample.
const minutes = 24 * 60

// day is the storage for an alertCase.
type day struct {
	t       *testing.T
	now     []reading
	changes []seriesChange
}

func (d day) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: d.selected}, nil
}

func (d day) selected(_ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, r := range d.now {
		for _, instance := range []string{"a", "b"} {
			of := at(r, instance)
			if !selects(of, matchers) {
				continue
			}
			went := seriesChange{value: r.value}
			for _, x := range d.changes {
				if x.about(d.t, of) {
					went = x
				}
			}
			if went.gone {
				continue
			}
			var samples []chunks.Sample
			for i := max(hints.Start/60_000, 0); i <= min(hints.End/60_000, minutes); i++ {
				samples = append(samples, sample{i * 60_000, went.value + went.grows*float64(i)})
			}
			set.all = append(set.all, storage.NewListSeries(of, samples))
		}
	}
	return set
}

// about reports whether the selector selects a series.
func (x seriesChange) about(t *testing.T, of labels.Labels) bool {
	m, err := parser.ParseMetricSelector(x.selector)
	if err != nil {
		t.Fatal(err)
	}
	return selects(of, m)
}

// at returns the labels of a reading for one of the processes.
func at(r reading, instance string) labels.Labels {
	return labels.NewBuilder(r.labels).Set("instance", instance).Set("job", "debrief").Labels()
}

func selects(of labels.Labels, all []*labels.Matcher) bool {
	return !slices.ContainsFunc(all, func(m *labels.Matcher) bool { return !m.Matches(of.Get(m.Name)) })
}

type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at <= len(s.all) }
func (s *seriesSet) At() storage.Series                { return s.all[s.at-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample is a value with a time in milliseconds.
type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
