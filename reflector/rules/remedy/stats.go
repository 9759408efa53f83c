package remedy

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"debrief/events"
	"debrief/playbook/text"
)

// Limits of the analysis. Beyond them, the first ones are kept.
const (
	maxErrors     = 4096
	maxRemedies   = 32      // of one error
	maxKey        = 256     // bytes of the key of a remedy
	maxTaskMarks  = 1 << 20 // pairs of a counter and a task
	maxExamples   = 5
	maxQuietRuns  = 2000 // runs without an error that are used for comparison
	maxTools      = 4096 // with a comparison
	maxBetween    = 64   // names between the acts of one tool
	maxComparison = 1024 // pairs of acts of one tool
)

// counter counts the runs of one kind and their tasks.
type counter struct {
	runs  int
	tasks int
	id    uint64 // in taskSet
}

// taskSet counts different tasks for many counters in bounded memory. If it is full, counts stay too low and never
// become too high.
type taskSet struct {
	seed  maphash.Seed
	marks map[taskMark]struct{}
	ids   uint64
}

type taskMark struct{ counter, task uint64 }

func (s *taskSet) add(c *counter, task uint64) {
	c.runs++
	if c.id == 0 {
		s.ids++
		c.id = s.ids
	}
	mark := taskMark{c.id, task}
	if _, ok := s.marks[mark]; !ok && len(s.marks) < maxTaskMarks {
		s.marks[mark] = struct{}{}
		c.tasks++
	}
}

// errorStat counts the runs with one error of one tool.
type errorStat struct {
	tool, text string
	own        map[string]bool // names that the calls used, in lower case
	met        counter
	repeated   int // runs in which another attempt had the error again
	unchanged  int // runs in which an attempt with equal arguments had the error again
	recovered  int // attempts with equal arguments that worked
	solved     int // attempts
	again      int // attempts
	remedies   map[string]*remedyStat
	examples   []events.ID
}

// remedyStat counts the runs with one remedy of an error.
type remedyStat struct {
	remedy
	worked   counter
	failed   int                        // runs
	solved   int                        // attempts
	again    int                        // attempts
	named    int                        // attempts that worked and whose error has the value
	objects  map[string]map[uint64]bool // of the attempts that worked: values by the name of an argument that both calls have
	examples []events.ID
}

// minObjects is the number of different objects for which a value must have worked that no error names.
const minObjects = 3

// forObjects reports whether a value worked for different objects: users, orders or files. A constant among the arguments
// can be the one object of all runs.
func (m *remedyStat) forObjects() bool {
	for _, values := range m.objects {
		if len(values) < minObjects {
			return false
		}
	}
	return len(m.objects) > 0
}

// maxOwn is the maximum number of names that an error keeps.
const maxOwn = 64

// use adds the names of an act that a lesson may quote.
func (s *errorStat) use(a *act) {
	add := func(name string) {
		if len(s.own) < maxOwn && isName(name) {
			s.own[strings.ToLower(strings.Clone(name))] = true
		}
	}
	for w := range strings.FieldsSeq(a.name) {
		add(w)
	}
	for _, name := range slices.Sorted(maps.Keys(a.decode().fields)) {
		add(name)
	}
}

// remedy returns the counters of a remedy. It returns nil if the remedy is a new one and there are maxRemedies.
func (s *errorStat) remedy(r remedy) *remedyStat {
	r.key, r.of = shortKey(r.key), shortKey(r.of)
	st := s.remedies[r.key]
	if st == nil && len(s.remedies) < maxRemedies {
		st = &remedyStat{remedy: r}
		s.remedies[r.key] = st
	}
	return st
}

// shortKey limits the length of a key, whose parts come from a recording.
func shortKey(key string) string {
	if len(key) <= maxKey {
		return key
	}
	return strings.Clone(text.Prefix(key, maxKey))
}

// sighting collects the facts of one run about one error, so that a run counts once.
type sighting struct {
	stat           *errorStat
	repeated       bool
	unchanged      bool
	worked, failed []*remedyStat
}

func (g *sighting) add(t *attempt) {
	st := g.stat
	r := t.result()
	switch r {
	case unclear:
		return
	case solved:
		st.solved++
		if t.unchanged {
			st.recovered++
		}
	case again:
		st.again++
		g.repeated = true
		g.unchanged = g.unchanged || t.unchanged
	}
	for _, m := range t.remedies {
		if !NamesOnly(m.say) {
			continue
		}
		rs := st.remedy(m)
		switch {
		case rs == nil:
		case r == solved:
			rs.solved++
			rs.confirm(m, t)
			if !slices.Contains(g.worked, rs) {
				g.worked = append(g.worked, rs)
			}
		default:
			rs.again++
			if !slices.Contains(g.failed, rs) {
				g.failed = append(g.failed, rs)
			}
		}
	}
}

// confirm notes what speaks for a value in an attempt that worked.
func (m *remedyStat) confirm(r remedy, t *attempt) {
	if r.rank != rankValue {
		return
	}
	if enumerates(t.failed.message.line, r.value) {
		m.named++
	}
	if m.objects == nil {
		m.objects = map[string]map[uint64]bool{}
	}
	for name, object := range t.objects() {
		if m.objects[name] == nil && len(m.objects) < maxChanged {
			m.objects[name] = map[uint64]bool{}
		}
		if values := m.objects[name]; values != nil && len(values) < minObjects {
			values[object] = true
		}
	}
}

// count adds the sighting to the counters.
func (g *sighting) count(tasks *taskSet, task uint64, id events.ID) {
	st := g.stat
	tasks.add(&st.met, task)
	st.examples = example(st.examples, id)
	if g.repeated {
		st.repeated++
	}
	if g.unchanged {
		st.unchanged++
	}
	for _, rs := range g.worked {
		tasks.add(&rs.worked, task)
		rs.examples = example(rs.examples, id)
	}
	for _, rs := range g.failed {
		rs.failed++
	}
}

func example(list []events.ID, id events.ID) []events.ID {
	if len(list) < maxExamples {
		list = append(list, id)
	}
	return list
}

// pairStat counts pairs of acts of one tool that both worked, and the names of the acts between them.
type pairStat struct {
	pairs   int
	between map[string]int
}

// addPairs counts the pairs of acts of a run that worked.
func addPairs(stats map[string]*pairStat, acts []act) {
	last := map[string]int{}
	for i := range acts {
		a := &acts[i]
		from, ok := last[a.name]
		last[a.name] = i
		if a.state != worked || !ok || acts[from].state != worked || acts[from].step == a.step || i-from > maxDistance+1 {
			continue
		}
		st := stats[a.name]
		if st == nil {
			if len(stats) >= maxTools {
				continue
			}
			st = &pairStat{between: map[string]int{}}
			stats[a.name] = st
		}
		if st.pairs < maxComparison {
			st.add(actsBetween(acts[from+1:i], &acts[from], a))
		}
	}
}

func (st *pairStat) add(between []*act) {
	st.pairs++
	var seen []string
	for _, a := range between {
		if slices.Contains(seen, a.name) {
			continue
		}
		seen = append(seen, a.name)
		if _, ok := st.between[a.name]; ok || len(st.between) < maxBetween {
			st.between[a.name]++
		}
	}
}
