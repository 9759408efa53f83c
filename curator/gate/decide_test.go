package gate_test

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/curator/gate"
	"debrief/playbook"
)

// bullets is the state of a decider test. decisions is the number of decisions that still fit into the delta.
type bullets struct {
	all       map[playbook.BulletID]*playbook.Bullet
	codes     []string
	decisions int
}

func (s *bullets) All() iter.Seq[*playbook.Bullet]              { return maps.Values(s.all) }
func (s *bullets) Bullet(id playbook.BulletID) *playbook.Bullet { return s.all[id] }
func (s *bullets) clone() *bullets                              { return &bullets{all: maps.Clone(s.all)} }

func (s *bullets) decider(mode playbook.Gate) *gate.Decider {
	return &gate.Decider{
		Mode: mode, State: s, Typical: func(playbook.BulletID) playbook.Typical { return playbook.Typical{Rate: 0.7} }, Apply: s.set,
	}
}

func (s *bullets) set(ops []playbook.Op) bool {
	if s.decisions == 0 {
		return false
	}
	s.decisions--
	for i := range ops {
		op := &ops[i]
		s.all[op.Bullet] = s.all[op.Bullet].Apply(op, nil)
		s.codes = append(s.codes, fmt.Sprint(op.Bullet, " ", op.Code))
	}
	return true
}

// decide lets the gate decide in as many deltas as the limit requires, like the Curator.
func (s *bullets) decide(t *testing.T, mode playbook.Gate, limit int, changed ...playbook.BulletID) {
	t.Helper()
	set := map[playbook.BulletID]struct{}{}
	for _, id := range changed {
		set[id] = struct{}{}
	}
	for range 1000 {
		s.decisions = limit
		if !s.decider(mode).Decide(set) {
			return
		}
	}
	t.Fatal("the decisions do not end")
}

// statuses returns the status and the standing of each bullet.
func (s *bullets) statuses() map[playbook.BulletID]string {
	out := map[playbook.BulletID]string{}
	for id, b := range s.all {
		status := b.Status
		if status == "" {
			status = playbook.Active
		}
		out[id] = strings.TrimSpace(fmt.Sprint(status, " ", b.CurrentExperiment().Standing))
	}
	return out
}

func newBullets(list ...playbook.Bullet) *bullets {
	s := &bullets{all: map[playbook.BulletID]*playbook.Bullet{}}
	for i := range list {
		s.all[list[i].ID] = &list[i]
	}
	return s
}

// The records of the tests.
func record(s playbook.Standing, marks string, confirmations int) *playbook.Experiment {
	e := &playbook.Experiment{Number: 1, Standing: s, Recent: marks, Confirmations: confirmations}
	e.Cited[playbook.MaxScore], e.Cited[0] = strings.Count(marks, "+"), strings.Count(marks, "-")
	return e
}

const (
	fails  = "---------------"
	drifts = "+++++++++++++++++-------"
)

// TestDecisions checks the decisions with room for all of them, and with room for one in each delta.
func TestDecisions(t *testing.T) {
	t.Parallel()
	type list = []playbook.Bullet
	for name, test := range map[string]struct {
		mode    playbook.Gate
		bullets list
		changed []playbook.BulletID
		want    map[playbook.BulletID]string
	}{
		"failed correction": {"", list{
			{ID: "a-1", Status: "retired", Experiment: record("trusted", "+++", 0)},
			{ID: "a-2", Replaces: "a-1", Experiment: record("new", fails, 0)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "active trusted", "a-2": "retired suspect"}},
		"failed correction of a failed bullet": {"", list{
			{ID: "a-1", Status: "retired", Experiment: record("suspect", fails, 0)},
			{ID: "a-2", Replaces: "a-1", Experiment: record("new", fails, 0)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "retired suspect", "a-2": "retired suspect"}},
		"failed correction of a bullet that a person retired": {"", list{
			{ID: "a-1", Status: "retired", Experiment: record("kept", "+++", 0)},
			{ID: "a-2", Replaces: "a-1", Experiment: record("new", fails, 0)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "retired kept", "a-2": "retired suspect"}},
		"failed correction of a bullet that had replaced one which a person shows again": {"", list{
			{ID: "a-1", Experiment: record("kept", "+++", 0)},
			{ID: "a-2", Status: "retired", Replaces: "a-1", Experiment: record("trusted", "+++", 0)},
			{ID: "a-3", Replaces: "a-2", Experiment: record("new", fails, 0)},
		}, []playbook.BulletID{"a-3"}, map[playbook.BulletID]string{"a-1": "active kept", "a-2": "retired trusted", "a-3": "retired suspect"}},
		"suspended correction": {"", list{
			{ID: "a-1", Status: "retired", Experiment: record("trusted", "+++", 0)},
			{ID: "a-2", Replaces: "a-1", Experiment: record("new", "----", 0)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "active trusted", "a-2": "candidate new"}},
		"suspended bullet, requested again": {"", list{
			{ID: "a-1", Status: "candidate", Experiment: record("new", "----", 1)},
		}, []playbook.BulletID{"a-1"}, map[playbook.BulletID]string{"a-1": "active new"}},
		"suspended bullet with more failures, requested again": {"", list{
			{ID: "a-1", Status: "candidate", Experiment: record("new", "-----------", 1)},
			{ID: "a-2", Status: "candidate", Experiment: record("new", "-----------", 2)},
		}, []playbook.BulletID{"a-1", "a-2"}, map[playbook.BulletID]string{"a-1": "candidate new", "a-2": "active new"}},
		"correction of, and advice against a bullet with a few failures among many successes": {"", list{
			{ID: "a-1", Experiment: record("trusted", "--------++++++++++++++++++++++++", 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 0)},
			{ID: "a-3", Status: "candidate", Contests: "a-1", Experiment: record("new", "", 1)},
		}, []playbook.BulletID{"a-2", "a-3"}, map[playbook.BulletID]string{"a-1": "active trusted", "a-2": "candidate new", "a-3": "active new"}},
		"confirmed advice against a bullet, requested by too few of its failures": {"", list{
			{ID: "a-1", Experiment: record("trusted", "---------+++++++++++++++++++++++", 0)},
			{ID: "a-2", Status: "candidate", Contests: "a-1", Experiment: record("new", "", 1)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "active trusted", "a-2": "candidate new"}},
		"confirmed correction of a bullet that fails of late": {"", list{
			{ID: "a-1", Experiment: record("trusted", "------+++++++++++++++++++++++---", 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 1)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "retired trusted", "a-2": "active new"}},
		"confirmed correction": {"", list{
			{ID: "a-1", Experiment: record("new", "++", 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 1)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "retired new", "a-2": "active new"}},
		"corrections of trusted bullets, requested by two executions": {"", list{
			{ID: "a-1", Experiment: record("trusted", "--+++++++++++++", 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 1)},
			{ID: "a-3", Experiment: record("proven", "--+++++++++++++", 0)},
			{ID: "a-4", Status: "candidate", Replaces: "a-3", Experiment: record("new", "", 1)},
		}, []playbook.BulletID{"a-2", "a-4"}, map[playbook.BulletID]string{
			"a-1": "active trusted", "a-2": "candidate new", "a-3": "active proven", "a-4": "candidate new",
		}},
		"corrections of trusted bullets, requested by most of their failures": {"", list{
			{ID: "a-1", Experiment: record("trusted", "---++++++++++++", 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 2)},
			{ID: "a-3", Experiment: record("proven", "---++++++++++++", 0)},
			{ID: "a-4", Status: "candidate", Replaces: "a-3", Experiment: record("new", "", 2)},
		}, []playbook.BulletID{"a-2", "a-4"}, map[playbook.BulletID]string{
			"a-1": "retired trusted", "a-2": "active new", "a-3": "retired proven", "a-4": "active new",
		}},
		"correction of a bullet with many successes, requested by all its failures": {"", list{
			{ID: "a-1", Experiment: record("trusted", "----"+strings.Repeat("+", 60), 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 3)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "active trusted", "a-2": "candidate new"}},
		"confirmed correction of a bullet that a person keeps": {"", list{
			{ID: "a-1", Experiment: record("kept", "+++", 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 5)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "active kept", "a-2": "candidate new"}},
		"confirmed correction of a pinned bullet": {"", list{
			{ID: "a-1", Pinned: true, Experiment: record("trusted", "+++", 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 5)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "active trusted", "a-2": "candidate new"}},
		"confirmed correction in strict mode": {"strict", list{
			{ID: "a-1", Experiment: record("new", "++", 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 1)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "active new", "a-2": "probation new"}},
		"correction with a good record in strict mode": {"strict", list{
			{ID: "a-1", Experiment: record("trusted", "+++", 0)},
			{ID: "a-2", Status: "probation", Replaces: "a-1", Experiment: record("new", "+++", 1)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "retired trusted", "a-2": "active trusted"}},
		"unconfirmed candidate": {"", list{
			{ID: "a-2", Status: "candidate", Contests: "a-1", Experiment: record("new", "", 0)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-2": "candidate new"}},
		"drift releases the best correction": {"", list{
			{ID: "a-1", Experiment: record("trusted", drifts, 0)},
			{ID: "a-2", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 0)},
			{ID: "a-3", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 0)},
			{ID: "a-4", Status: "candidate", Contests: "a-1", Experiment: record("new", "", 0)},
			{ID: "a-5", Status: "candidate", Contests: "a-9", Experiment: record("new", "", 0)},
		}, []playbook.BulletID{"a-1"}, map[playbook.BulletID]string{
			"a-1": "retired suspect", "a-2": "candidate new", "a-3": "active new", "a-4": "active new", "a-5": "candidate new",
		}},
		"drift without a candidate": {"", list{
			{ID: "a-1", Experiment: record("trusted", drifts, 0)},
		}, []playbook.BulletID{"a-1"}, map[playbook.BulletID]string{"a-1": "active suspect"}},
		"drift in strict mode": {"strict", list{
			{ID: "a-1", Experiment: record("trusted", drifts, 0)},
			{ID: "a-4", Status: "candidate", Contests: "a-1", Experiment: record("new", "", 0)},
		}, []playbook.BulletID{"a-1"}, map[playbook.BulletID]string{"a-1": "probation suspect", "a-4": "probation new"}},
		"one request for a retired bullet": {"", list{
			{ID: "a-1", Status: "retired", Experiment: record("suspect", fails, 1)},
		}, []playbook.BulletID{"a-1"}, map[playbook.BulletID]string{"a-1": "retired suspect"}},
		"two requests for a retired bullet": {"", list{
			{ID: "a-1", Status: "retired", Experiment: record("suspect", fails, 2)},
		}, []playbook.BulletID{"a-1"}, map[playbook.BulletID]string{"a-1": "active new"}},
		"two requests in strict mode": {"strict", list{
			{ID: "a-1", Status: "retired", Experiment: record("suspect", fails, 2)},
		}, []playbook.BulletID{"a-1"}, map[playbook.BulletID]string{"a-1": "probation new"}},
		"two requests for a bullet that a person retired": {"", list{
			{ID: "a-1", Status: "retired", Experiment: record("kept", fails, 2)},
		}, []playbook.BulletID{"a-1"}, map[playbook.BulletID]string{"a-1": "retired kept"}},
		"two requests for a failed correction of a bullet that works": {"", list{
			{ID: "a-1", Experiment: record("trusted", "+++", 0)},
			{ID: "a-2", Status: "retired", Replaces: "a-1", Experiment: record("suspect", fails, 2)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "active trusted", "a-2": "retired suspect"}},
		"two requests for a failed correction of a bullet that fails of late": {"", list{
			{ID: "a-1", Experiment: record("trusted", "++++++++---", 0)},
			{ID: "a-2", Status: "retired", Replaces: "a-1", Experiment: record("suspect", fails, 2)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "retired trusted", "a-2": "active new"}},
		"two requests for a failed correction of a bullet that a person keeps": {"", list{
			{ID: "a-1", Experiment: record("kept", "+++", 0)},
			{ID: "a-2", Status: "retired", Replaces: "a-1", Experiment: record("suspect", fails, 2)},
		}, []playbook.BulletID{"a-2"}, map[playbook.BulletID]string{"a-1": "active kept", "a-2": "retired suspect"}},
		"two requests for a bullet whose correction is shown": {"", list{
			{ID: "a-1", Status: "retired", Experiment: record("trusted", "+++", 2)},
			{ID: "a-2", Replaces: "a-1", Experiment: record("new", "", 0)},
		}, []playbook.BulletID{"a-1"}, map[playbook.BulletID]string{"a-1": "retired trusted", "a-2": "active new"}},
		"bullets that the gate leaves alone": {"", list{
			{ID: "a-1", Pinned: true, Experiment: record("new", fails, 0)},
			{ID: "a-2", Experiment: record("kept", fails, 0)},
			{ID: "a-3", Status: "quarantined", Experiment: record("new", fails, 9)},
		}, []playbook.BulletID{"a-1", "a-2", "a-3", "a-99"}, map[playbook.BulletID]string{
			"a-1": "active new", "a-2": "active kept", "a-3": "quarantined new",
		}},
	} {
		for _, limit := range []int{100, 1} {
			s := newBullets(test.bullets...).clone()
			s.decide(t, test.mode, limit, test.changed...)
			if diff := cmp.Diff(test.want, s.statuses()); diff != "" {
				t.Errorf("%s, %d decisions in a delta (-want +got):\n%s%q", name, limit, diff, s.codes)
			}
			if s.decide(t, test.mode, 100, test.changed...); !maps.Equal(s.statuses(), test.want) {
				t.Errorf("%s: the same decisions once more changed the bullets to %v", name, s.statuses())
			}
		}
	}
}

// TestWaitingCandidatesAreLimited checks that the candidates with the fewest confirmations retire, the oldest first.
func TestWaitingCandidatesAreLimited(t *testing.T) {
	t.Parallel()
	var list []playbook.Bullet
	for i := range 300 {
		b := playbook.Bullet{ID: playbook.MintID("others", uint64(i+1)), Status: playbook.Candidate, Replaces: "a-1", Experiment: record("new", "", 0)}
		if i < 10 {
			b.Experiment = record("new", "", 3)
		}
		list = append(list, b)
	}
	list = append(list, playbook.Bullet{ID: "a-1", Experiment: record("kept", "", 0)}) // so that they go on waiting
	s := newBullets(list...)
	s.decide(t, "", 1000, "misc-00300")
	var retired []playbook.BulletID
	for id, b := range s.all {
		if b.Status == playbook.Retired {
			retired = append(retired, id)
		}
	}
	slices.Sort(retired)
	if len(retired) != 44 || retired[0] != "misc-00011" || retired[43] != "misc-00054" {
		t.Errorf("retired: %v, want the 44 oldest without confirmations", retired)
	}
	if want := "misc-00054 " + string(playbook.ReasonTooMany); s.codes[0] != want {
		t.Errorf("the first operation is %q, want %q", s.codes[0], want)
	}
}

func TestReleaseShowsWithheldBullets(t *testing.T) {
	t.Parallel()
	for mode, want := range map[playbook.Gate]map[playbook.BulletID]string{
		playbook.GateGuard: {
			"a-1": "active trusted", "a-2": "candidate new", "a-3": "active new", "a-4": "candidate new", "a-5": "candidate new", "a-6": "retired suspect",
		},
		playbook.GateOff: {
			"a-1": "active trusted", "a-2": "candidate new", "a-3": "active new", "a-4": "active new", "a-5": "candidate new", "a-6": "retired suspect",
		},
	} {
		s := newBullets(
			playbook.Bullet{ID: "a-1", Experiment: record("trusted", "+++", 0)},
			playbook.Bullet{ID: "a-2", Status: "probation", Replaces: "a-1", Experiment: record("new", "", 0)},
			playbook.Bullet{ID: "a-3", Status: "probation", Experiment: record("new", "", 0)},
			playbook.Bullet{ID: "a-4", Status: "candidate", Contests: "a-1", Experiment: record("new", "", 0)},
			playbook.Bullet{ID: "a-5", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 0)},
			playbook.Bullet{ID: "a-6", Status: "retired", Experiment: record("suspect", "", 0)},
		)
		s.decisions = 100
		s.decider(mode).Release()
		if diff := cmp.Diff(want, s.statuses()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	p := playbook.Restore(1, 9, func(yield func(*playbook.Bullet) bool) {
		for _, b := range []playbook.Bullet{
			{ID: "a-1", Experiment: record("trusted", "++++", 0)},
			{ID: "a-2", Experiment: record("suspect", "-", 0)},
			{ID: "a-3", Experiment: record("new", "+", 0)},
			{ID: "a-4", Experiment: record("new", "+-", 0)},
			{ID: "a-5", Status: "probation", Experiment: record("new", "", 0)},
			{ID: "a-6", Status: "candidate", Contests: "a-1", Experiment: record("new", "", 1)},
			{ID: "a-7", Status: "candidate", Replaces: "a-1", Experiment: record("new", "", 2)},
			{ID: "a-8", Status: "retired", Experiment: record("suspect", fails, 0)},
			{ID: "a-9", Experiment: record("kept", fails, 0)},
		} {
			if !yield(&b) {
				return
			}
		}
	})
	ids := func(list []gate.Row) (all []playbook.BulletID) {
		for _, b := range list {
			if b.Next == "" {
				t.Errorf("bullet %s has no next step", b.ID)
			}
			all = append(all, b.ID)
		}
		return all
	}
	tested, waiting := gate.Rows(p, gate.Config{}, 0)
	if got, want := ids(tested), []playbook.BulletID{"a-5", "a-2", "a-4", "a-3", "a-9", "a-1"}; !slices.Equal(got, want) {
		t.Errorf("tested: got %v, want %v", got, want)
	}
	if got, want := ids(waiting), []playbook.BulletID{"a-7", "a-6"}; !slices.Equal(got, want) {
		t.Errorf("waiting: got %v, want %v", got, want)
	}
}
