package streams

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

// stored returns the streams of a server with the default configuration.
func stored() (all []*jetstream.StreamInfo) {
	for _, c := range All(1) {
		all = append(all, &jetstream.StreamInfo{Config: c, State: jetstream.StreamState{Bytes: 100 << 20, Msgs: 5000}})
	}
	return all
}

const days = int64(day)

// TestDefaultsSatisfyTheDependencies: a setup of new streams, and another one, raise no age.
func TestDefaultsSatisfyTheDependencies(t *testing.T) {
	t.Parallel()
	steps, err := Plan(3, nil, nil)
	if err != nil || len(steps) != len(All(1)) {
		t.Fatalf("got %d steps and error %v", len(steps), err)
	}
	for _, s := range steps {
		if !s.Create || s.Config.Replicas != 3 {
			t.Errorf("%s: got %+v", s.Stream, s)
		}
		for _, c := range s.Changes {
			if c.Why != "" {
				t.Errorf("%s is raised to %s: %s", c.Setting, c.To, c.Why)
			}
		}
	}
	if steps, err = Plan(1, stored(), nil); err != nil || len(steps) != 0 {
		t.Errorf("existing streams: got %+v and error %v", steps, err)
	}
}

// TestPlanRaisesWhatOthersNeed chooses one age. The ages of everything that its messages refer to follow, and no other limit changes.
func TestPlanRaisesWhatOthersNeed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		chosen Setting
		want   map[string]string // by the name of the setting
	}{
		"executions for long": {Setting{Name: "executions-age", Value: 90 * days}, map[string]string{
			"executions-age": "90d", "captures-age": "97d", "state-age": "90d", "attempts-age": "90d", "blobs-age": "105d",
		}},
		"tasks for ever": {Setting{Name: "tasks-age"}, map[string]string{"tasks-age": "0", "attempts-age": "0", "blobs-age": "0"}},
		"open runs":      {Setting{Name: "openruns-age", Value: 20 * days}, map[string]string{"openruns-age": "20d", "contexts-age": "20d", "captures-age": "50d", "blobs-age": "58d"}},
		"shorter":        {Setting{Name: "executions-age", Value: days}, map[string]string{"executions-age": "1d"}},
		"a size":         {Setting{Name: "deltas-size", Value: 1 << 30}, map[string]string{"deltas-size": "1GiB"}},
		"a cache":        {Setting{Name: "captures-values"}, map[string]string{"captures-values": "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps, err := Plan(1, stored(), []Setting{test.chosen})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, s := range steps {
				for _, c := range s.Changes {
					got[c.Setting] = c.To
					if (c.Why == "") != (c.Setting == test.chosen.Name) {
						t.Errorf("%s: got the reason %q", c.Setting, c.Why)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlanNamesInvalidSettings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		chosen       []Setting
		field, words string
	}{
		"unknown":                        {[]Setting{{Name: "nothing-age", Value: days}}, "nothing-age", "unknown"},
		"the log has no age":             {[]Setting{{Name: "deltas-age", Value: days}}, "deltas-age", "unknown"},
		"too short":                      {[]Setting{{Name: "dead-age", Value: int64(time.Minute)}}, "dead-age", "at least 1h"},
		"too small":                      {[]Setting{{Name: "dead-size", Value: 1 << 20}}, "dead-size", "at least 64MiB"},
		"smaller than its content":       {[]Setting{{Name: "dead-size", Value: 99 << 20}}, "dead-size", "which the stream holds"},
		"fewer values than stored":       {[]Setting{{Name: "vectors-values", Value: 4999}}, "vectors-values", "at least 5000"},
		"shorter than executions":        {[]Setting{{Name: "captures-age", Value: 7 * days}}, "captures-age", "at least 37d, which is openruns-age + executions-age"},
		"shorter than chosen executions": {[]Setting{{Name: "state-age", Value: 60 * days}, {Name: "executions-age", Value: 90 * days}}, "state-age", "at least 90d"},
		"blobs of tasks that stay":       {[]Setting{{Name: "blobs-age", Value: 99 * days}, {Name: "tasks-age"}}, "blobs-age", "at least 0 (no limit)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps, err := Plan(1, stored(), test.chosen)
			if err == nil || len(steps) != 0 {
				t.Fatalf("got %+v and error %v", steps, err)
			}
			if !strings.Contains(err.Error(), test.field+": ") || !strings.Contains(err.Error(), test.words) {
				t.Errorf("got %v, want %s with %q", err, test.field, test.words)
			}
		})
	}
}

// TestOrderOfSteps: a stream that others refer to is raised before them, and lowered after them.
func TestOrderOfSteps(t *testing.T) {
	t.Parallel()
	order := func(existing []*jetstream.StreamInfo, chosen ...Setting) (names []string) {
		steps, err := Plan(1, existing, chosen)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range InOrder(steps) {
			names = append(names, s.Stream)
		}
		return names
	}
	longer := order(stored(), Setting{Name: "executions-age", Value: 90 * days})
	if want := []string{"OBJ_blobs", "KV_attempts", "KV_captures", "KV_state", "EXECUTIONS"}; !slices.Equal(longer, want) {
		t.Errorf("longer: got %v, want %v", longer, want)
	}
	shorter := order(stored(), Setting{Name: "executions-age", Value: days}, Setting{Name: "captures-age", Value: 8 * days})
	if want := []string{"EXECUTIONS", "KV_captures"}; !slices.Equal(shorter, want) {
		t.Errorf("shorter: got %v, want %v", shorter, want)
	}
}

func TestTextsOfAgesAndSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"30d": "30d", "720h": "30d", "36h": "36h", "90m": "1h30m0s", "0": "0", "0s": "0", "1e9d": "", "-1h": "", "d": "", "70000d": "", "9": ""} {
		var a Age
		if err := a.UnmarshalText([]byte(text)); (err == nil) != (want != "") || err == nil && a.String() != want {
			t.Errorf("age %q: got %s and error %v, want %q", text, a, err, want)
		}
	}
	for text, want := range map[string]string{"64MiB": "64MiB", "0.5GiB": "512MiB", "0": "0", "1000": "1000", "1KB": "", "-1": "", "": "", "GiB": "", "9e30TiB": "", "512 MiB": "512MiB", "NaN": "", "NaNGiB": "", "Inf": "", "5GiB junk": "", "5 GiB 1": ""} {
		var b Size
		if err := b.UnmarshalText([]byte(text)); (err == nil) != (want != "") || err == nil && b.String() != want {
			t.Errorf("size %q: got %s and error %v, want %q", text, b, err, want)
		}
	}
}

// TestDependenciesNameStreams: each rule is about streams that exist and have an age that can be chosen, and no stream is on both sides.
func TestDependenciesNameStreams(t *testing.T) {
	t.Parallel()
	var aged, users []string
	for _, s := range Settings() {
		if s.limit == LimitAge {
			aged = append(aged, s.stream)
		}
	}
	for _, d := range dependencies {
		users = append(users, d.users...)
	}
	for _, d := range dependencies {
		if !slices.Contains(aged, d.stream) || slices.Contains(users, d.stream) {
			t.Errorf("%s: is not in %v, or is in %v", d.stream, aged, users)
		}
	}
	for _, user := range users {
		if !slices.Contains(aged, user) {
			t.Errorf("%s: is not in %v", user, aged)
		}
	}
	if slices.Contains(aged, events.StreamDeltas) {
		t.Error("the log of the playbooks has an age")
	}
}
