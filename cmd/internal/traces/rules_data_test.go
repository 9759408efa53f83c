package traces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/reflector"
	"debrief/reflector/rules"
)

// ruleOf returns the rule of a key.
func ruleOf(key string) string {
	name, _, _ := strings.Cut(key, "/")
	return name
}

// TestFindingsInCodingRuns compares the findings with those from reading the five recordings. The runs have no outcome, so
// the patterns do not become bullets.
func TestFindingsInCodingRuns(t *testing.T) {
	t.Parallel()
	want := map[string]map[string][]string{ // by recording and rule: what is behind the rule in the keys
		"ctf-crypto-katy": {
			"error":         {"python/EXECUTION TIMED OUT/never", "python/EXECUTION TIMED OUT/then submit"},
			"related-reads": {"decompile/arguments"},
		},
		"ctf-web-i-got-id": {},
		"function-calling-simple": {
			"read-before-write":  {"open .py test/edit .py test/file"},
			"search-before-read": {"find_file/open .py test"},
			"grep-then-read":     {"find_file/open .py test"},
			"tests-after-edit":   {"edit .py test/python .py test"},
			"read-tests-first":   {"open .py test/python .py test"},
		},
		"marshmallow-1867-function-calling": {
			"error":              {"edit/Your proposed edit has introduced new syntax error(s). Please read this error message carefully and then retry editing the file./again with replacement_text"},
			"list-before-read":   {"ls/open .py"},
			"read-before-write":  {"open .py/edit .py/file"},
			"search-before-read": {"find_file/open .py"},
			"grep-then-read":     {"find_file/open .py"},
			"tests-after-edit":   {"create .py test/python .py test", "edit .py test/python .py test", "edit .py/python .py test"},
			"test-first":         {"python .py test/edit .py"},
		},
		"pydicom-1458": {
			"error": {
				"python/AttributeError: Unable to convert the pixel data as the following required elements are missing from the dataset: PixelRepresentation/again",
				"edit/Your proposed edit has introduced new syntax error(s). Please understand the fixes and retry your edit commmand./again with arguments",
			},
			"repeat":             {"edit"},
			"read-before-write":  {"open .py/edit .py/file"},
			"search-before-read": {"find_file/open .py"},
			"grep-then-read":     {"find_file/open .py"},
			"tests-after-edit":   {"create .py test/python .py test", "edit .py test/python .py test", "edit .py/python .py test"},
			"test-first":         {"python .py test/edit .py"},
		},
	}
	for name, wantKeys := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := read(t, name+".traj", dataFile(t, "swe-agent/"+name+".traj"))[0]
			got := map[string][]string{}
			for _, f := range rules.Inspect(e) {
				rule, rest, _ := strings.Cut(f.Key, "/")
				got[rule] = append(got[rule], rest)
				bullet := f.Confidence >= 0.7
				if f.Vote != events.Neutral || f.Confidence < 0.6 || bullet != (rule == "error" || rule == "repeat") {
					t.Errorf("%s: got vote %s at %v", f.Key, f.Vote, f.Confidence)
				}
				for part := range strings.SplitSeq(rest, "/") { // the text names what the key tells apart
					word, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(part, "again with "), "then "), " .")
					if part != "never" && part != "again" && !strings.Contains(f.Text, word) {
						t.Errorf("%s does not name %q: %s", f.Key, word, f.Text)
					}
				}
			}
			for _, keys := range got {
				slices.Sort(keys)
			}
			for _, keys := range wantKeys {
				slices.Sort(keys)
			}
			if !reflect.DeepEqual(got, wantKeys) {
				t.Errorf("got  %q\nwant %q", got, wantKeys)
			}
		})
	}
}

// TestFindingsInServiceRuns checks in how many of the 150 runs each rule has a finding, and that findings with different keys
// have different texts. Rules for actions that do not occur in customer service, such as an installation, have none.
func TestFindingsInServiceRuns(t *testing.T) {
	t.Parallel()
	raw, _ := rawRuns(t)
	got := map[string]int{}
	for _, e := range read(t, tauFile, raw) {
		fired := map[string]bool{}
		for _, f := range rules.Inspect(e) {
			fired[ruleOf(f.Key)] = true
			if tool := strings.Split(f.Key, "/")[1]; !strings.Contains(f.Text, "`"+tool+"`") {
				t.Errorf("%s: %q does not name %q", f.Key, f.Text, tool)
			}
		}
		for rule := range fired {
			got[rule]++
		}
	}
	want := map[string]int{
		"used": 124, "did": 124, "order": 124, "error": 27, "erred": 27, "check-precondition": 12, "repeat": 9,
		"read-before-write": 88, "related-reads": 32, "explore": 20,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// learned returns the playbook that a Reflector and a Curator build from the runs, one run at a time.
func learned(t *testing.T, runs []*events.Execution) *playbook.Playbook {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{Linger: time.Millisecond})
	for _, e := range runs {
		if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- reflector.New(nil, reflector.Config{Slots: 1}).Run(ctx, conn) }()
	go func() { done <- curator.New(nil, curator.Config{}).Run(ctx, conn) }()
	defer func() {
		stop()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}()
	deadline := time.Now().Add(30 * time.Second)
	await(t, conn, deadline, events.RoleReflector, events.StreamExecutions)
	await(t, conn, deadline, events.RoleCurator, events.StreamReflections)
	w, err := deltalog.New(conn.JetStream()).Writer(t.Context(), "book")
	if err != nil {
		t.Fatal(err)
	}
	return w.State().Playbook()
}

// await waits until a role has processed all messages of its stream.
func await(t *testing.T, conn *bus.Conn, deadline time.Time, role, stream string) {
	t.Helper()
	for {
		s, err := conn.JetStream().Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		lag, err := conn.Lag(t.Context(), role)
		if err != nil {
			t.Fatal(err)
		}
		if lag.Floor >= s.CachedInfo().State.LastSeq {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the %s is not done: %+v", role, lag)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// taskRun is a run of the raw file with its task and number. The file has three runs of each of 50 tasks.
type taskRun struct {
	rawRun
	TaskID int `json:"task_id"`
	calls  []rawCall
}

func (r *taskRun) vote() (v votes) {
	if r.Reward == 1 {
		v.helpful = 1
	} else {
		v.harmful = 1
	}
	return v
}

func failed(c rawCall) bool { return strings.HasPrefix(c.output, "Error") }

// TestBulletCountsOnTauBench builds a playbook from the 150 runs as 'debrief learn' does. It counts the runs for and against
// each bullet of a rule, shown or not, again from the raw file, without the code under test: no reader, no rules, no
// classifier.
func TestBulletCountsOnTauBench(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	raw := dataFile(t, tauFile)
	var all []*taskRun
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	var runs []*taskRun // that have something to learn from: two calls, or an error
	for _, r := range all {
		if r.calls = rawCalls(r.rawRun); len(r.calls) > 1 || len(r.calls) == 1 && failed(r.calls[0]) {
			runs = append(runs, r)
		}
	}
	pairs := pairsAgain(runs)
	p := learned(t, read(t, tauFile, raw))

	shown, counted := map[string]int{}, map[string]int{}
	for b := range p.All() {
		if b.Rule == nil {
			t.Errorf("%s is no rule's: %s", b.ID, b.Content)
			continue
		}
		rule := ruleOf(b.Rule.Key)
		counted[rule]++
		if b.Shown() {
			shown[rule]++
		}
		got := votes{b.Helpful, b.Harmful, b.Neutral}
		want, known := pairs[b.Rule.Key], rule == "pair"
		if !known {
			var seen func(*taskRun) bool
			if seen, known = recount(t, b.Rule.Key); known {
				for _, r := range runs {
					if seen(r) {
						v := r.vote()
						want.helpful += v.helpful
						want.harmful += v.harmful
					}
				}
			}
		}
		if !known {
			t.Errorf("nothing here can count %q", b.Rule.Key)
		} else if got != want || got.runs() == 0 {
			t.Errorf("%s: got %+v, want %+v", b.Rule.Key, got, want)
		}
		if !b.Shown() {
			continue
		}
		base := votes{}
		if rule == "order" {
			after := b.Rule.Key[strings.LastIndexByte(b.Rule.Key, '/')+1:]
			for _, r := range runs {
				if first(r.rawRun, after) >= 0 {
					v := r.vote()
					base.helpful += v.helpful
					base.harmful += v.harmful
				}
			}
			if pro, contra := float64(want.helpful)/float64(base.helpful), float64(want.harmful)/float64(base.harmful); pro <= contra {
				t.Errorf("%s is shown at %v of %v", b.Rule.Key, want, base)
			}
			if says := fmt.Sprintf("%d of %d successful runs that used `%s` did, %d of %d failed ones", want.helpful, base.helpful, after, want.harmful, base.harmful); !strings.Contains(b.Content, says) {
				t.Errorf("%s: %q does not contain %q", b.Rule.Key, b.Content, says)
			}
		} else if says := fmt.Sprintf("(runs: %d, of which %d succeeded and %d failed)", want.runs(), want.helpful, want.harmful); !strings.Contains(b.Content, says) {
			t.Errorf("%s: %q does not contain %q", b.Rule.Key, b.Content, says)
		}
	}
	for key, want := range pairs {
		if b := p.ByRule(key); b == nil {
			t.Errorf("%s: %+v is counted here and no bullet", key, want)
		}
	}
	if want := map[string]int{"error": 19, "repeat": 6, "order": 2}; !maps.Equal(shown, want) {
		t.Errorf("got %v shown, want %v", shown, want)
	}
	t.Logf("shown %v of %v", shown, counted)
}

// recount returns a function that detects the finding of a key in a run. It returns false if there is none for the key.
func recount(t *testing.T, key string) (func(*taskRun) bool, bool) {
	t.Helper()
	parts := strings.Split(key, "/")
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			t.Fatal(key, err)
		}
	}
	switch rule, n := parts[0], len(parts); {
	case rule == "used" || rule == "did":
		return func(r *taskRun) bool { return first(r.rawRun, parts[1]) >= 0 }, n == 2
	case rule == "order":
		return func(r *taskRun) bool { return before(r.rawRun, parts[1], parts[2]) }, n == 3
	case rule == "repeat":
		return func(r *taskRun) bool { return repeated(r.rawRun, parts[1]) }, n == 2
	case rule == "error":
		return func(r *taskRun) bool { return errorAgain(r, parts[1], answer(parts[2]), parts[3]) }, n == 4
	case rule == "erred":
		return func(r *taskRun) bool {
			return slices.ContainsFunc(r.calls, func(c rawCall) bool {
				return c.tool == parts[1] && failed(c) && answer(parts[2]).MatchString(c.output)
			})
		}, n == 3
	case rule == "check-precondition":
		return func(r *taskRun) bool { return checked(r, parts[1], answer(parts[2]), parts[3]) }, n == 4
	case rule == "read-before-write":
		return func(r *taskRun) bool {
			i := first(r.rawRun, parts[2])
			return i >= 0 && slices.ContainsFunc(r.calls[:i], func(c rawCall) bool {
				v, ok := parsed(c.arguments)[parts[3]]
				return ok && c.tool == parts[1] && !failed(c) && reflect.DeepEqual(v, parsed(r.calls[i].arguments)[parts[3]])
			})
		}, n == 4
	case rule == "related-reads":
		return func(r *taskRun) bool { return different(r, parts[1]) >= 3 }, n == 3
	case rule == "explore":
		return func(r *taskRun) bool { return different(r, parts[1]) >= 2 }, n == 3
	}
	return nil, false
}

// answer returns a pattern for the tool results that a quotation stands for.
func answer(quote string) *regexp.Regexp {
	p := regexp.QuoteMeta(quote)
	for placeholder, pattern := range map[string]string{"<id>": `\S+`, "<n>": `[\d.,]+`, "<date>": `[\d-]+`, "<text>": `.+`} {
		p = strings.ReplaceAll(p, placeholder, pattern)
	}
	return regexp.MustCompile(`^` + p + `$`)
}

// errorAgain reports whether the tool returned the error, the next call did not return it, and the result is that of the key.
func errorAgain(r *taskRun, tool string, said *regexp.Regexp, what string) bool {
	for i, c := range r.calls {
		if c.tool != tool || !failed(c) || !said.MatchString(c.output) {
			continue
		}
		next, again, other := -1, -1, -1
		for j := len(r.calls) - 1; j > i; j-- {
			if r.calls[j].tool == tool {
				next = j
			}
			if !failed(r.calls[j]) {
				other = j
				if r.calls[j].tool == tool {
					again = j
				}
			}
		}
		if next >= 0 && failed(r.calls[next]) && said.MatchString(r.calls[next].output) {
			continue
		}
		var came string
		switch {
		case again >= 0:
			was, is := parsed(c.arguments), parsed(r.calls[again].arguments)
			names := map[string]bool{}
			for name := range was {
				names[name] = true
			}
			for name := range is {
				names[name] = true
			}
			maps.DeleteFunc(names, func(name string, _ bool) bool { return reflect.DeepEqual(was[name], is[name]) })
			if came = "again"; len(names) > 0 {
				came = "again with " + strings.Join(slices.Sorted(maps.Keys(names)), ",")
			}
		case other >= 0 && what != "never":
			came = "then " + r.calls[other].tool
		default:
			came = "never"
		}
		if came == what {
			return true
		}
	}
	return false
}

// checked reports whether a change was refused, a lookup followed within four calls, and the change then succeeded.
func checked(r *taskRun, tool string, said *regexp.Regexp, with string) bool {
	looks := regexp.MustCompile(`^(?:get|search|list)_|^calculate$`)
	for i, c := range r.calls {
		if c.tool != tool || !failed(c) || !said.MatchString(c.output) {
			continue
		}
		again := slices.IndexFunc(r.calls[i+1:], func(d rawCall) bool { return d.tool == tool && !failed(d) })
		for j := i + 1; again >= 0 && j < i+1+again && j <= i+4; j++ {
			if d := r.calls[j]; looks.MatchString(d.tool) && !failed(d) {
				if d.tool == with {
					return true
				}
				break
			}
		}
	}
	return false
}

// different returns the number of successful calls of a tool with different arguments before the first change.
func different(r *taskRun, tool string) int {
	changing := regexp.MustCompile(`^(?:book|cancel|update|send)_`)
	var seen []map[string]any
	for _, c := range r.calls {
		if changing.MatchString(c.tool) && !failed(c) {
			break
		}
		args := parsed(c.arguments)
		if c.tool == tool && !failed(c) && !slices.ContainsFunc(seen, func(m map[string]any) bool { return reflect.DeepEqual(m, args) }) {
			seen = append(seen, args)
		}
	}
	return len(seen)
}

// pairsAgain compares each run, in order, with the last run of its task that had another outcome.
func pairsAgain(runs []*taskRun) map[string]votes {
	type end struct {
		task int
		good bool
	}
	last := map[end][]string{}
	sums := map[string]votes{}
	for _, r := range runs {
		var calls []string
		for _, c := range r.calls {
			call := c.tool + "(" + strings.Join(slices.Sorted(maps.Keys(parsed(c.arguments))), ", ") + ")"
			if len(calls) == 0 || calls[len(calls)-1] != call {
				calls = append(calls, call)
			}
		}
		good := r.Reward == 1
		if other, ok := last[end{r.TaskID, !good}]; ok {
			a, b := calls, other
			if !good {
				a, b = b, a
			}
			i := 0
			for i < len(a) && i < len(b) && a[i] == b[i] {
				i++
			}
			if i < len(a) || i < len(b) {
				name := func(list []string, i int, none string) string {
					if i < 0 || i >= len(list) {
						return none
					}
					return list[i]
				}
				bare := func(call string) string { return strings.SplitN(call, "(", 2)[0] }
				after, did, not := bare(name(a, i-1, "the start")), name(a, i, "nothing more"), name(b, i, "nothing more")
				if bare(did) != bare(not) {
					did, not = bare(did), bare(not)
				}
				v := sums["pair/"+after+"/"+did+"/"+not]
				v.helpful++
				sums["pair/"+after+"/"+did+"/"+not] = v
				v = sums["pair/"+after+"/"+not+"/"+did]
				v.harmful++
				sums["pair/"+after+"/"+not+"/"+did] = v
			}
		}
		last[end{r.TaskID, good}] = calls
	}
	return sums
}

// TestSuccessfulRunsWithFailedCalls uses real runs that succeeded although tool calls failed.
func TestSuccessfulRunsWithFailedCalls(t *testing.T) {
	t.Parallel()
	raw, runs := rawRuns(t)
	recovered := 0
	for i, e := range read(t, tauFile, raw) {
		if runs[i].Reward != 1 || !slices.ContainsFunc(rawCalls(runs[i]), failed) {
			continue
		}
		recovered++
		found := rules.Inspect(e)
		if len(found) == 0 {
			t.Errorf("%s: nothing found", e.TaskID)
		}
		for _, f := range found {
			if f.Vote != events.Helpful {
				t.Errorf("%s: %s votes %s", e.TaskID, f.Key, f.Vote)
			}
		}
	}
	if recovered < 3 {
		t.Errorf("got %d such runs, want some", recovered)
	}
}
