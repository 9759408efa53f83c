package console

import (
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/operate/erase"
	"debrief/events"
	"debrief/events/chat"
	"debrief/integration/auditor"
	"debrief/playbook"
	"debrief/playbook/history"
)

// renamed gives places a name that does not depend on long texts: page, expression for the place, and its name.
var renamed = []struct{ page, place, name string }{
	{"/books/{book}/versions/{version}", `^Version # of$`, "Version # of"},
	{"/books/{book}/versions/{version}", `^[^|]*#[^|]*$`, "summary"},
	{"/books/{book}/executions/{handle}", `^Steps \| [a-z]+ # [µm]?s$`, "Steps | call"},
	{"/books/{book}/executions/{handle}", `^Reflection \| [a-z]+ #(?: scored by)?$`, "Reflection | outcome"},
	{"/books/{book}/executions/{handle}", `^(?:[^|]* \| )?(?:success|partial|failure|unknown) #(?: by feedback; it was [a-z]+)?$`, "Facts | verdict"},
	{"/books/{book}/executions/{handle}", `^[^|]* \| #$`, "Facts | named score"},
	{"/books/{book}/executions/{handle}", `^[^|]* \| (Playbook|Shown|Tokens|Cost|Duration)$`, "Facts | $1"},
	{"/books/{book}/executions/{handle}", `^What the model received \| .*tokens? of at most #.*`, "What the model received | tokens"},
	{"/books/{book}/executions/{handle}", `^What the model received \| Parts of the context; omitted.*`, "What the model received | omitted"},
	{"/runs/{run}", `^# points .*`, "headline"},
	{"/runs/{run}", `^Learning curve \| Accuracy over training samples.*`, "Learning curve | marks"},
	{"/runs/{run}", `^Wrong answers \| # of #.*`, "Wrong answers | wrong"},
	{"/runs/{run}", `^Playbook \| .*(disc-[0-9]+)[^|]* \| (.*)`, "Playbook | $1 | $2"},
	{"/runs/{run}", `^Comparison with playbook \| Version.*`, "Comparison | sums"},
	{"/runs/{run}", `^Only in the run.*`, "Comparison | here"},
	{"/runs/{run}", `^Only in : # \| Only in : #$`, "Comparison | there"},
	{"/runs/{run}", `^Only in.*The first # of #.*`, "Comparison | omitted"},
	{"/runs/{run}", `^Cost \| For each of.*`, "Cost | each"},
	{"/runs/{run}", `^Cost \| Of the working time.*`, "Cost | time"},
	{"/runs/{run}/compare", `^runs/(.*)$`, "$1"},
	{"/dead", `^dead/([0-9]+)-[^ ]*( .*)`, "dead/$1$2"},
	{"/books/{book}/review", `^([^|]*) \| (·.*)`, "Waiting | $1 | $2"},
}

// exempt are the numbers that no stream has, or that are no numbers of the server: page, expression for the place, and the reason.
var exempt = []struct{ page, place, reason string }{
	{"", ` \| Dose? not|^Learned in # hours \| Learned in # hours$|: # % interval`, "a constant of the page"},
	{"/{$}", `^Waits for a person \| ((Generator|Reflector|Curator) [a-z]+#|No [a-z]+ runs: |.* messages wait)`, "measured by the processes"},
	{"/{$}", `^Waiting events \| `, "measured by this server since its start"},
	{"/books/{book}", `^Lift is the difference.*`, "a constant of the page"},
	{"/books/{book}/bullets/{id}", `^Experiment \| How strong`, "a constant of the page"},
	{"/books/{book}/bullets/{id}", `^Similar bullets \| .* \| Similarity$`, "a measure of texts: package similar tests it against its definition"},
	{"/books/{book}/review", `^(Question|Answer|Feedback|Text of .*)$`, "a text that somebody wrote"},
	{"/books/{book}/gate", `\| Share of sessions without advice|\| A mean “#|^Shown or on probation \|`, "a constant of the page"},
	{"/books/{book}/gate", `^Candidates \| .* \| Next$`, "a forecast of the gate's decision, which the bench of the gate measures"},
	{"/books/{book}/executions/{handle}", `^What the model received \| execution #.*(no manifest|not stored)`, "an id"},
	{"/books/{book}/executions/{handle}", `\| (Run|User|Session|Task|Model)$`, "an id"},
	{"/books/{book}/executions/{handle}", `^Reflection \| (Error|Cause|Correct approach|Insight|Lesson|Feedback|Doubted outcome)$`, "a text that somebody wrote"},
	{"/books/{book}/sessions/{session}", `^Window \| .* \| (Which|What)`, "a text that somebody wrote"},
	{"/books/{book}/curve", `^Accuracy over executions|^Health \| (head|not confirmed for # days$)|\| Series$|\| Day$|^Health \| Health at`, "a constant of the page, or a date"},
	{"/books/{book}/worth", `^Does the playbook help\?|^Means of both arms|^Leave # %|\| Measure$|^How to read`, "a constant of the page, or a date"},
	{"/books/{book}/worth", `^The question is answered`, "a constant of the page"},
	{"/runs/{run}", `^Began with$|\| Sample$|^Wrong answers \| (Answer|Target|Feedback|Sample)$|^Settings \| |^Data \| head|^Epochs \| Accuracy on`, "an id, a text that somebody wrote, or a constant of the page"},
	{"/status", `^Roles \| `, "measured by the processes"},
	{"/status", `^Checks \| `, "findings of the doctor, which its tests measure"},
	{"/settings", `.*`, "settings of the program"},
}

// placeOf returns the name of the place of a number.
func placeOf(page string, n *number) string {
	for _, r := range renamed {
		if expression := regexp.MustCompile(r.place); (r.page == "" || r.page == page) && expression.MatchString(n.place) {
			return expression.ReplaceAllString(n.place, r.name)
		}
	}
	return n.place
}

// isExempt reports whether no audit computes the numbers of a place.
func isExempt(page, place string) bool {
	return slices.ContainsFunc(exempt, func(e struct{ page, place, reason string }) bool {
		return (e.page == "" || e.page == page) && regexp.MustCompile(e.place).MatchString(place)
	})
}

// agrees reports whether the shown numbers are the expected ones, as far as they have decimals.
func agrees(shown []auditor.Number, want auditor.Expected) bool {
	equal := func(n auditor.Number, v float64) bool {
		tolerance := 0.5001 * math.Pow(10, -float64(n.Decimals))
		if v != 0 && n.Decimals > 0 {
			tolerance = max(tolerance, math.Abs(v)*0.002) // three digits of an e-value
		}
		return math.Abs(n.Value-v) <= want.Slack+max(tolerance, math.Abs(v)*0.005*float64(boolean(math.Abs(v) >= 100 && n.Decimals == 0 && v != math.Trunc(v))))
	}
	if want.Among {
		return !slices.ContainsFunc(shown, func(n auditor.Number) bool {
			return !slices.ContainsFunc(want.Values, func(v float64) bool { return equal(n, v) })
		})
	}
	return slices.EqualFunc(shown, want.Values, equal)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareNumbers compares a page with the audit. It returns what differs, what the page lacks, and what no audit covers.
func compareNumbers(page string, shown []number, audit auditor.Page) (problems []string) {
	got := map[string][]number{}
	for _, n := range shown {
		place := placeOf(page, &n)
		if _, ok := audit[place]; !ok && isExempt(page, place) {
			continue
		}
		got[place] = append(got[place], n)
	}
	for place, numbers := range got {
		rest := slices.Clone(audit[place])
		if len(rest) == 0 {
			problems = append(problems, fmt.Sprintf("%s shows %q, and no audit covers it", place, numbers[0].text))
			continue
		}
		for _, n := range numbers {
			i := slices.IndexFunc(rest, func(e auditor.Expected) bool { return agrees(n.values, e) })
			if i < 0 {
				problems = append(problems, fmt.Sprintf("%s shows %q, and the audit has %v", place, n.text, rest))
				continue
			}
			rest = slices.Delete(rest, i, i+1)
		}
		if len(rest) > 0 && !rest[0].Among {
			problems = append(problems, fmt.Sprintf("%s lacks %v", place, rest))
		}
	}
	for _, place := range slices.Sorted(maps.Keys(audit)) {
		if _, ok := got[place]; !ok && !audit[place][0].Among {
			problems = append(problems, fmt.Sprintf("%s is missing, and the audit has %v", place, audit[place]))
		}
	}
	slices.Sort(problems)
	return problems
}

// startAudited starts an installation with mixed traffic: that of the other tests, and what more adds.
func startAudited(t *testing.T) *installation {
	t.Helper()
	in := &installation{secrets: map[string]string{}, ended: make(chan error, 1)}
	t.Cleanup(in.close)
	s := &seeding{TB: t, installation: in, say: plain, builder: in.startServers(t)}
	s.before()
	s.merges()
	s.controlled()
	in.startRoles(t)
	s.after()
	s.edit("mixed", &events.Edit{Forget: &playbook.Selector{Session: "s-forgotten"}, Reason: "a mistake"})
	s.publish(&events.Feedback{Book: "default", ID: events.NewID(), Execution: s.stored["t-4"], Outcome: events.Outcome{Label: events.Failure, Feedback: "No."}})
	s.settle()
	post(t, in.open, "/erasures", map[string][]string{"kind": {"user"}, "name": {"cleo"}, "again": {"cleo"}, "from": {"/erasures"}})
	eventually(t, func() error {
		_, err := erase.New(in.conn, nil).Run(context.Background())
		if err == nil && strings.Contains(get(t, in.open, "/erasures").body, ">pending<") {
			err = fmt.Errorf("the erasure is pending")
		}
		return err
	})
	s.settle()
	in.seeded.dead = in.deadLetters(t, "default") // the erasure has stored them again
	return in
}

// merges stores a playbook whose bullets were merged, reworded, removed and forgotten, with corrected votes and a large change.
func (s *seeding) merges() {
	s.Helper()
	cover := func(session string, n int, outcome string) playbook.Cover {
		return playbook.Cover{ID: string(events.NewID()), Seq: uint64(n), Evidence: &playbook.Evidence{
			Execution: fmt.Sprintf("%d-0badcafe", 9000+n), Sample: fmt.Sprint("sample-", n), Session: session, Excerpt: "Which room?", Outcome: outcome, Score: map[string]float64{"success": 1, "partial": 0.5}[outcome], Reflector: "r1",
		}}
	}
	shown := func(score int) playbook.Exposure {
		return playbook.Exposure{Arm: playbook.ArmShown, Score: score, Cited: score > 4}
	}
	held := func(score int) playbook.Exposure {
		return playbook.Exposure{Arm: playbook.ArmWithheld, Score: score}
	}
	add := func(id, text string, support ...int) playbook.Op {
		return playbook.Op{Kind: playbook.Add, Bullet: playbook.BulletID(id), Section: "rooms", Content: text, Standing: playbook.StandingNew, Support: support}
	}
	s.commit(s, "mixed",
		&playbook.Delta{Author: history.Curator, Time: s.ago(40 * 24 * 60), Covers: []playbook.Cover{cover("s-1", 1, "success"), cover("s-forgotten", 2, "failure"), cover("s-3", 3, "partial")}, Ops: []playbook.Op{
			add("room-1", "Ask for the size of the room.", 0), add("room-2", "Ask how large the room is.", 1, 2), add("room-3", "Name the floor.", 1), add("room-4", "Greet.", 2), add("room-5", "Ask for the number of guests.", 0),
		}},
		&playbook.Delta{Author: history.Curator, Time: s.ago(39 * 24 * 60), Covers: []playbook.Cover{cover("s-4", 4, "success"), cover("s-5", 5, "failure"), cover("s-6", 6, "success")}, Ops: []playbook.Op{
			{Kind: playbook.Tag, Bullet: "room-1", Helpful: 2, Support: []int{0, 2}},
			{Kind: playbook.Tag, Bullet: "room-2", Harmful: 1, Support: []int{1}},
			{Kind: playbook.Tag, Bullet: "room-5", Neutral: 1, Support: []int{1}},
			{Kind: playbook.AddExposures, Bullet: "room-1", ExperimentNumber: 1, Exposures: []playbook.Exposure{shown(10), held(3), shown(7)}, Support: []int{0, 1, 2}},
		}},
		&playbook.Delta{Author: history.Curator, Time: s.ago(38 * 24 * 60), Covers: []playbook.Cover{cover("s-4", 4, "failure")}, Ops: []playbook.Op{
			{Kind: playbook.Retag, Bullet: "room-1", OldVote: playbook.Helpful, Harmful: 1, Support: []int{0}},
			{Kind: playbook.AddExposures, Bullet: "room-1", ExperimentNumber: 1, Exposures: []playbook.Exposure{{Arm: playbook.ArmShown, Score: 10, Cited: true, Undo: true}, shown(0)}, Support: []int{0, 0}},
		}},
		&playbook.Delta{Author: history.Curator, Time: s.ago(20 * 24 * 60), Covers: []playbook.Cover{cover("s-7", 7, "success")}, Ops: []playbook.Op{
			{Kind: playbook.Merge, Bullet: "room-2", Sources: []playbook.BulletID{"room-1", "room-2"}, Content: "Ask for the size of the room, in square metres.", Standing: playbook.StandingNew, Support: []int{0}},
			{Kind: playbook.Confirm, Bullet: "room-5", Support: []int{0}},
			{Kind: playbook.AddExposures, Bullet: "room-5", ExperimentNumber: 1, Exposures: []playbook.Exposure{shown(10)}, Support: []int{0}},
		}},
		&playbook.Delta{Author: "grace", Time: s.ago(2 * 24 * 60), Reason: "rule 12", Covers: []playbook.Cover{{ID: string(events.NewID()), Seq: 1}}, Ops: []playbook.Op{
			{Kind: playbook.Remove, Bullet: "room-4"},
			{Kind: playbook.Update, Bullet: "room-3", Content: "Name the floor first.", Standing: playbook.StandingKept, Code: playbook.ReasonPerson},
			{Kind: playbook.SetStatus, Bullet: "room-5", Status: playbook.Retired, Code: playbook.ReasonPerson},
		}},
		&playbook.Delta{Author: "grace", Time: s.ago(60), ChangeID: "large", More: true, Ops: []playbook.Op{add("room-6", "Offer a cot."), add("room-8", "The price of breakfast: name it to each guest.")}},
		&playbook.Delta{Author: "grace", Time: s.ago(60), ChangeID: "large", Covers: []playbook.Cover{{ID: string(events.NewID()), Seq: 2}}, Ops: []playbook.Op{add("room-7", "Name the price of breakfast.")}},
	)
}

// controlled stores the runs of a playbook with a control group, of several sessions, owners and shares.
func (s *seeding) controlled() {
	s.Helper()
	s.commit(s, "control", &playbook.Delta{Author: "ada", Time: s.ago(3 * 24 * 60), Control: "30%", ControlSalt: []byte("0123456789abcdef"), Ops: []playbook.Op{
		{Kind: playbook.Add, Bullet: "c-1", Section: "others", Content: "Weigh the parcel twice."},
	}})
	for i := range 140 {
		session, held := i/2, i/2%3 == 0
		outcome := events.Outcome{Label: events.Success, Score: 1}
		switch bad := i%5 == 0 || held && i%2 == 0; {
		case i%11 == 0:
			outcome = events.Outcome{}
		case i%13 == 0:
			outcome = events.Outcome{Score: 0.25, Label: events.Partial}
		case bad:
			outcome = events.Outcome{Label: events.Failure}
		case i%17 == 0:
			outcome.Inferred = true
		}
		e := &events.Execution{
			Book: "control", ID: events.NewID(), RunID: fmt.Sprint("c-", i), Session: fmt.Sprint("c-", session), Turn: i%2 + 1, User: map[bool]string{true: "cleo"}[i%20 == 7], Question: "Is it heavy?", Answer: "Yes.", ContextID: events.NewID(),
			Control: &events.Control{Held: held, Share: 300}, Outcome: outcome, Usage: chat.Usage{Calls: 1, InputTokens: 500 + i, OutputTokens: 20, CachedTokens: 3 * i, Cost: 0.001 + float64(i)/1e5},
			Origin: events.Origin{Source: "agent/bot"}, Started: s.ago(600 - i), Duration: time.Duration(1000+i) * time.Millisecond, Version: 1, Model: "simulated",
		}
		if !held {
			e.Shown, e.Cited = []events.ShownBullet{{ID: "c-1"}}, []playbook.BulletID{"c-1"}[:i%2]
		}
		h := s.publish(e)
		if i%9 == 0 {
			s.publish(&events.Feedback{Book: "control", ID: events.NewID(), Execution: h, Outcome: events.Outcome{Label: []events.Label{events.Success, events.Failure, events.Partial}[i/9%3]}})
		}
	}
}

// auditedPages returns a path for each page of the console, and further ones of the other playbooks.
func (in *installation) auditedPages(t *testing.T) []address {
	all := in.selection(t)
	for _, book := range []string{"support", "mixed", "control", "invoices-1"} {
		for _, v := range pages {
			if rest, ok := strings.CutPrefix(v.pattern, "/books/{book}"); ok && !strings.Contains(rest, "{") && rest != "/restore" {
				all = append(all, address{v.pattern, "/books/" + book + rest, false})
			}
		}
	}
	for _, path := range []string{"mixed/bullets/room-1", "mixed/bullets/room-2", "mixed/bullets/room-3", "mixed/bullets/room-4", "mixed/bullets/room-5", "mixed/bullets/room-6", "control/bullets/c-1"} {
		all = append(all, address{"/books/{book}/bullets/{id}", "/books/" + path, false})
	}
	for _, v := range []int{1, 2, 3, 4, 5, 7} {
		all = append(all, address{"/books/{book}/versions/{version}", fmt.Sprint("/books/mixed/versions/", v), false})
	}
	return append(all,
		address{"/books/{book}/versions", "/books/mixed/versions?changes=all", false}, address{"/books/{book}/diff", "/books/mixed/diff?from=2&to=6", false},
		address{"/books/{book}/executions", "/books/control/executions?outcome=failure", false}, address{"/books/{book}/sessions/{session}", "/books/control/sessions/c-4", false},
	)
}

// TestAuditFindsDefects checks the check: a wrong number, a missing one and one that no audit covers.
func TestAuditFindsDefects(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	const path = "/books/default/gate"
	page := get(t, in.open, path).body
	c, err := auditor.ReadConsole(t.Context(), in.conn.JetStream(), time.Now())
	check(t, err)
	audit, _ := c.Page(path)
	for _, test := range []struct{ name, before, after, problem string }{
		{"unchanged", "", "", ""},
		{"wrong number", "0.39 in 23", "0.39 in 24", "Mean shown shows"},
		{"missing number", "0.39 in 23", "–", "Mean shown is missing"},
		{"new sentence", "<h2>Experiments</h2>", "<h2>Experiments</h2><p>There are 7 widgets.</p>", `"There are 7 widgets.", and no audit covers it`},
		{"new number in a fact", "<dt>Candidates</dt>", "<dt>Widgets</dt><dd>3</dd></div><div><dt>Candidates</dt>", "Widgets shows"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(page, test.before, test.after, 1)
			if problems := fmt.Sprint(compareNumbers("/books/{book}/gate", numbersOf(t, changed), audit)); !strings.Contains(problems, test.problem) || test.problem == "" && problems != "[]" {
				t.Errorf("got %s, want %q", problems, test.problem)
			}
		})
	}
}

// TestNumbersOfAllPages compares every number of every page with an audit that reads the messages of the streams and shares no code with
// the product. A number that no audit covers fails the test, unless the list exempt has its place.
func TestNumbersOfAllPages(t *testing.T) {
	if testing.Short() {
		t.Skip("reads all pages: run without -short")
	}
	t.Parallel()
	in := startAudited(t)
	counted := map[string][2]int{} // places and numbers by page
	for _, a := range in.auditedPages(t) {
		var problems []string
		for end := time.Now().Add(1 * time.Second); ; time.Sleep(50 * time.Millisecond) { // the index reads what was written last
			shown := numbersOf(t, get(t, in.open, a.path).body)
			c, err := auditor.ReadConsole(context.Background(), in.conn.JetStream(), time.Now())
			check(t, err)
			audit, ok := c.Page(a.path)
			if !ok {
				t.Fatalf("%s has no audit", a.path)
			}
			problems = compareNumbers(a.pattern, shown, audit)
			n := counted[a.pattern]
			for _, x := range shown {
				n[0], n[1] = n[0]+1, n[1]+len(x.values)
			}
			if len(problems) == 0 || time.Now().After(end) {
				counted[a.pattern] = n
				break
			}
		}
		for _, p := range problems {
			t.Errorf("%s: %s", a.path, p)
		}
	}
	page := get(t, in.open, "/books/mixed/curve").body // the audit has no sentence, so it does not see this list
	for _, want := range []string{"Perhaps one rule in other words, or a contradiction", `href="/books/mixed/bullets/room-7">room-7</a>`, "The price of breakfast: name it to each guest."} {
		if _, list, _ := strings.Cut(page, `<ul id="subjects">`); !strings.Contains(list, want) {
			t.Errorf("the list of bullets on one subject lacks %q: %s", want, list)
		}
	}
	for _, v := range pages {
		t.Logf("NUMBERS %-45s %4d places, %4d numbers", v.pattern, counted[v.pattern][0], counted[v.pattern][1])
	}
}
