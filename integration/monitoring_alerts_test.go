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

// told is how series went in the day that an alert looks back on: each that the selector selects had a value all the time,
// or grew from it by so much a minute, or was not there.
type told struct {
	selector string
	value    float64
	grows    float64
	gone     bool
}

// situation is a day of two processes that run all roles. What is not told of stood still.
type situation struct {
	alert string
	what  string // that has happened; empty for what the alert's name says
	told  []told
}

// grave are the situations in which the alert has to fire.
var grave = []situation{
	{"DebriefNothingLearned", "", []told{{selector: `debrief_role_level{role="reflector"}`, value: 2}}},
	{"DebriefLearnsNothingNew", "", []told{
		{selector: `debrief_role_learned_seconds{role="curator"}`, value: 7 * 3600},
		{selector: `debrief_role_results_total{role="curator", result="handled"}`, grows: 1},
	}},
	{"DebriefRoleUnwell", "one of two is paused", []told{{selector: `debrief_role_state{role="reflector", state="paused", instance="a"}`, value: 1}}},
	{"DebriefLagGrows", "", []told{
		{selector: `debrief_role_waiting_messages{role="generator"}`, value: 200, grows: 1},
		{selector: `debrief_role_oldest_seconds{role="generator"}`, value: 1000},
	}},
	{"DebriefOldestNearExpiry", "", []told{{selector: `debrief_role_oldest_seconds{role="reflector"}`, value: 16 * 86400}}},
	{"DebriefNoWorker", "", []told{{selector: `debrief_role_level{role="reflector"}`, gone: true}}},
	{"DebriefTargetDown", "", []told{{selector: `up{instance="b"}`, value: 0}}},
	{"DebriefDeadLetters", "", []told{{selector: `debrief_dead_letters{role="reflector"}`, grows: 0.1}}},
	{"DebriefDeadLettersWait", "", []told{{selector: `debrief_dead_letters{role="generator"}`, value: 3}}},
	{"DebriefManyRetries", "", []told{
		{selector: `debrief_role_results_total{role="generator", result="retried"}`, grows: 5},
		{selector: `debrief_role_results_total{role="generator", result="stored"}`, grows: 10},
	}},
	{"DebriefStreamNearFull", "", []told{
		{selector: `debrief_stream_bytes{role="generator"}`, value: 900},
		{selector: `debrief_stream_limit_bytes{role="generator"}`, value: 1000},
	}},
	{"DebriefStoreNearFull", "", []told{{selector: `debrief_store_bytes`, value: 900}, {selector: `debrief_store_limit_bytes`, value: 1000}}},
	{"DebriefStoreClosed", "", []told{{selector: `debrief_store_closed`, value: 1}}},
	{"DebriefBreakerOpen", "", []told{{selector: `debrief_model_breaker_state{role="reflector", kind="chat", state="open"}`, value: 1}}},
	{"DebriefModelErrors", "", []told{
		{selector: `debrief_model_calls_total{role="reflector", kind="chat", result="unavailable"}`, grows: 1},
		{selector: `debrief_model_calls_total{role="reflector", kind="chat", result="ok"}`, grows: 5},
	}},
	{"DebriefModelSlow", "", []told{{selector: `debrief_model_seconds_bucket{role="reflector", kind="chat", le=~"120|300|600|\\+Inf"}`, grows: 10}}},
	{"DebriefModelRetries", "", []told{
		{selector: `debrief_model_retries_total{role="curator", kind="chat"}`, grows: 3},
		{selector: `debrief_model_requests_total{role="curator", kind="chat"}`, grows: 10},
	}},
	{"DebriefViewStale", "", []told{{selector: `debrief_view_behind_seconds`, value: 90}}},
	{"DebriefFollowerStale", "", []told{{selector: `debrief_follower_behind_versions{instance="a"}`, value: 2}}},
	{"DebriefCommitsRace", "", []told{{selector: `debrief_commit_conflicts_total`, grows: 5}, {selector: `debrief_commit_seconds_count`, grows: 5}}},
	{"DebriefRefused", "", []told{
		{selector: `debrief_requests_total{door="http", verb="context", code="503"}`, grows: 1},
		{selector: `debrief_requests_total{door="http", verb="context", code="200"}`, grows: 5},
	}},
	{"DebriefDisconnected", "", []told{{selector: `debrief_nats_connected{instance="a"}`, value: 0}}},
	{"DebriefReconnectStorm", "", []told{{selector: `debrief_nats_reconnects_total{instance="a"}`, grows: 1}}},
	{"DebriefServerSilent", "", []told{{selector: `debrief_server_answers`, value: 0}}},
	{"DebriefMemoryGrows", "", []told{{selector: `process_resident_memory_bytes{instance="b"}`, value: 230e6}}},
}

// harmless are situations in which the alert must not fire, though much is as if.
var harmless = []situation{
	{"DebriefNothingLearned", "one of two is red", []told{{selector: `debrief_role_level{role="reflector", instance="a"}`, value: 2}}},
	{"DebriefOldestNearExpiry", "a stream that keeps for ever", []told{
		{selector: `debrief_role_oldest_seconds{role="generator"}`, value: 1e6},
		{selector: `debrief_stream_keep_seconds{role="generator"}`, value: 0},
	}},
	{"DebriefStreamNearFull", "a stream without a limit", []told{
		{selector: `debrief_stream_bytes{role="generator"}`, value: 1e12},
		{selector: `debrief_stream_limit_bytes{role="generator"}`, value: 0},
	}},
	{"DebriefStoreNearFull", "no limit", []told{{selector: `debrief_store_bytes`, value: 1e12}, {selector: `debrief_store_limit_bytes`, value: 0}}},
	{"DebriefDeadLetters", "old ones", []told{{selector: `debrief_dead_letters{role="reflector"}`, value: 3}}},
	{"DebriefLagGrows", "many wait, and fewer every minute", []told{
		{selector: `debrief_role_waiting_messages{role="generator"}`, value: 20000, grows: -10},
		{selector: `debrief_role_oldest_seconds{role="generator"}`, value: 1000},
	}},
	{"DebriefModelErrors", "one in a hundred fails", []told{
		{selector: `debrief_model_calls_total{role="reflector", kind="chat", result="unavailable"}`, grows: 1},
		{selector: `debrief_model_calls_total{role="reflector", kind="chat", result="ok"}`, grows: 99},
	}},
	{"DebriefModelSlow", "a model of a second", []told{{selector: `debrief_model_seconds_bucket{kind="chat", le=~"1|2.5|5|10|20|30|60|120|300|600|\\+Inf"}`, grows: 10}}},
	{"DebriefServerSilent", "there is no connection either, which is another alert", []told{
		{selector: `debrief_server_answers`, value: 0},
		{selector: `debrief_nats_connected`, value: 0},
	}},
}

// alertsWhenItShould evaluates each alert with Prometheus' own engine: none fires while all is well, each does in its
// situation, with the labels that its text names.
func alertsWhenItShould(t *testing.T, alerts []alert, now []reading) {
	engine := query.NewEngine(query.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	ask := func(a alert, told ...told) query.Vector {
		t.Helper()
		d := day{t: t, now: now, told: told}
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
	for _, s := range slices.Concat(grave, harmless) { // one that is about nothing would show nothing
		if !slices.ContainsFunc(alerts, func(a alert) bool { return a.Alert == s.alert }) {
			t.Errorf("there is no alert %s", s.alert)
		}
		for _, x := range s.told {
			if !slices.ContainsFunc(now, func(r reading) bool { return x.about(t, at(r, "a")) || x.about(t, at(r, "b")) }) {
				t.Errorf("%s: %s selects nothing", s.alert, x.selector)
			}
		}
	}
	named := regexp.MustCompile(`\$labels\.(\w+)`)
	shown := map[string]bool{}
	for _, a := range alerts {
		if got := ask(a); len(got) > 0 {
			t.Errorf("%s fires while all is well: %v", a.Alert, got)
		}
		for _, s := range grave {
			if s.alert != a.Alert {
				continue
			}
			shown[a.Alert] = true
			got := ask(a, s.told...)
			if len(got) == 0 {
				t.Errorf("%s does not fire, %s", a.Alert, s.what)
				continue
			}
			for _, m := range named.FindAllStringSubmatch(a.Annotations["summary"]+a.Annotations["description"], -1) {
				if got[0].Metric.Get(m[1]) == "" {
					t.Errorf("%s: its text names the label %q, and it has %s", a.Alert, m[1], got[0].Metric)
				}
			}
		}
		if !shown[a.Alert] {
			t.Errorf("%s: no situation shows that it fires", a.Alert)
		}
		for _, s := range harmless {
			if s.alert == a.Alert {
				if got := ask(a, s.told...); len(got) > 0 {
					t.Errorf("%s fires, though: %s: %v", a.Alert, s.what, got)
				}
			}
		}
	}
}

// minutes is how long the day is, with a sample in each.
const minutes = 24 * 60

// day is the storage that a situation is in.
type day struct {
	t    *testing.T
	now  []reading
	told []told
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
			went := told{value: r.value}
			for _, x := range d.told {
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

// about reports whether a series is one of those that were told of.
func (x told) about(t *testing.T, of labels.Labels) bool {
	m, err := parser.ParseMetricSelector(x.selector)
	if err != nil {
		t.Fatal(err)
	}
	return selects(of, m)
}

// at is the series of a reading as one of the processes has it.
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

// sample is a value at a time in milliseconds.
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
