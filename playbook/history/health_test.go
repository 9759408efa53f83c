package history_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// TestHealthEqualsTheLog draws logs over several days, and compares the health of each day with an audit, which reads the log as JSON and
// shares no code with the product.
func TestHealthEqualsTheLog(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	contradictions, contributions := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		k := drawLog(t, allExtras)
		for range rapid.IntRange(0, 20).Draw(t, "more") {
			k.step(t, allExtras)
		}
		if rapid.Bool().Draw(t, "outcomes in both arms") {
			k.measure()
		}
		at := begin
		var p playbook.Playbook
		var l history.HealthLog
		var text []string // the log as JSON
		for i, d := range k.deltas {
			if i == 0 || d.ChangeID == "" || d.ChangeID != k.deltas[i-1].ChangeID {
				at = at.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "hours")) * time.Hour / 4)
			}
			d.Time = at
			data, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, string(data))
			l.Add(d, &p)
			if _, err := p.Apply(d); err != nil {
				t.Fatal(err)
			}
		}
		now := at.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "days")) * 24 * time.Hour)
		got := map[string]auditHealth{}
		for _, day := range l.Days(&p, now) {
			got[fmt.Sprint(day.Day, " version ", day.Version)] = auditOf(&day.Health)
			contradictions += len(day.Health.Contradictions)
			if day.Contribution != nil {
				contributions++
			}
		}
		if diff := cmp.Diff(audit(t, text, now), got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Fatalf("health -audit +product:\n%s\n%s", diff, strings.Join(text, "\n"))
		}
	})
	if contradictions == 0 || contributions == 0 {
		t.Errorf("got %d contradictions and %d contributions with outcomes in both arms, want some of each: the test compared only zeros", contradictions, contributions)
	}
}

// measure writes a delta with two outcomes in each arm for all bullets.
func (k *logWriter) measure() {
	k.begin("", k.reflection("a", "1"), k.reflection("a", "2"), k.reflection("b", "1"), k.reflection("b", "2"))
	for id := range k.minted {
		op := playbook.Op{Kind: playbook.AddExposures, Bullet: playbook.MintID("others", id+1)}
		for i := range 4 {
			op.Support = append(op.Support, i)
			op.Exposures = append(op.Exposures, playbook.Exposure{Arm: []playbook.Arm{playbook.ArmShown, playbook.ArmWithheld}[i%2], Score: i * 3})
		}
		k.propose(op)
	}
	k.commit(1)
}

// auditHealth has the numbers of history.Health, without texts.
type auditHealth struct {
	Active, Cited, Injections, NoEffect, Stale, Contradictions, Measured, Shown, Withheld int
	Median, Oldest, Estimate, Low, High                                                   float64
}

func auditOf(h *history.Health) auditHealth {
	a := auditHealth{
		Active: h.Active, Cited: h.Cited, Injections: h.Injections, NoEffect: h.NoEffect, Stale: h.Stale, Contradictions: len(h.Contradictions),
		Median: h.MedianDays, Oldest: h.OldestDays,
	}
	if c := h.Contribution; c != nil {
		a.Measured, a.Shown, a.Withheld, a.Estimate, a.Low, a.High = c.Bullets, c.Shown, c.Withheld, c.Estimate, c.Low, c.High
	}
	return a
}

// audited is a bullet of the audit, with all scores one by one.
type audited struct {
	status, text, contests    string
	helpful, harmful, neutral float64
	number                    float64
	shown, withheld, cited    []float64
	created                   time.Time
}

// audit computes the health at the end of each day from the lines of a log in JSON.
func audit(t rapid.TB, lines []string, now time.Time) map[string]auditHealth {
	t.Helper()
	bullets, confirmed := map[string]*audited{}, map[string]time.Time{}
	days := map[string]auditHealth{}
	var open []map[string]any
	var last map[string]any
	for _, line := range lines {
		var d map[string]any
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		if last != nil && dayOf(d) != dayOf(last) {
			end, _ := time.Parse(time.DateOnly, dayOf(last))
			days[dayOf(last)+fmt.Sprint(" version ", last["version"])] = sum(bullets, confirmed, end.Add(24*time.Hour))
		}
		last = d
		if len(open) > 0 && open[0]["change_id"] != d["change_id"] {
			open = nil
		}
		open = append(open, d)
		if d["more"] == true {
			continue
		}
		numbers := map[string]float64{} // of the experiments before the change
		for id, b := range bullets {
			numbers[id] = b.number
		}
		for _, part := range open {
			ops, _ := part["operations"].([]any)
			for _, op := range ops {
				auditOp(t, bullets, confirmed, numbers, op.(map[string]any), timeOf(d))
			}
		}
		open = nil
	}
	if last == nil {
		return days
	}
	end, _ := time.Parse(time.DateOnly, dayOf(last))
	end = end.Add(24 * time.Hour)
	if now.Before(end) {
		end = now
	}
	days[dayOf(last)+fmt.Sprint(" version ", last["version"])] = sum(bullets, confirmed, end)
	return days
}

func timeOf(d map[string]any) time.Time {
	at, _ := time.Parse(time.RFC3339, d["time"].(string))
	return at
}

func dayOf(d map[string]any) string { return strings.Split(d["time"].(string), "T")[0] }

func number(m map[string]any, name string) float64 {
	n, _ := m[name].(float64)
	return n
}

func str(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

func auditOp(t rapid.TB, bullets map[string]*audited, confirmed map[string]time.Time, numbers map[string]float64, op map[string]any, at time.Time) {
	id := str(op, "bullet_id")
	b := bullets[id]
	votes := func(vote string, by float64) {
		switch vote {
		case "helpful":
			b.helpful = max(0, b.helpful+by)
		case "harmful":
			b.harmful = max(0, b.harmful+by)
		case "neutral":
			b.neutral = max(0, b.neutral+by)
		}
	}
	reword := func() {
		if b.text != str(op, "content") {
			b.text, b.number = str(op, "content"), b.number+1
			b.shown, b.withheld, b.cited = nil, nil, nil
		}
	}
	list, _ := op["support"].([]any)
	support := float64(len(list))
	kind := str(op, "type")
	if kind != "ADD" && kind != "PUT" && b == nil {
		return
	}
	switch kind {
	case "ADD":
		b = &audited{status: str(op, "status"), text: str(op, "content"), contests: str(op, "contests"), created: at}
		if str(op, "standing") != "" {
			b.number = 1
		}
		bullets[id] = b
		confirmed[id] = at
	case "PUT":
		put := op["bullet"].(map[string]any)
		b = &audited{
			status: str(put, "status"), text: str(put, "content"), contests: str(put, "contests"),
			helpful: number(put, "helpful"), harmful: number(put, "harmful"), neutral: number(put, "neutral"), created: timeOf(map[string]any{"time": put["created_at"]}),
		}
		if e, ok := put["experiment"].(map[string]any); ok {
			b.number = number(e, "number")
			for name, scores := range map[string]*[]float64{"shown": &b.shown, "withheld": &b.withheld, "cited": &b.cited} {
				for score, n := range e[name].([]any) {
					for range int(n.(float64)) {
						*scores = append(*scores, float64(score)/10)
					}
				}
			}
		}
		bullets[id] = b
		if _, known := confirmed[id]; !known {
			confirmed[id] = at
		}
	case "UPDATE":
		reword()
		confirmed[id] = at
	case "TAG":
		b.helpful += number(op, "helpful")
		b.harmful += number(op, "harmful")
		b.neutral += number(op, "neutral")
		if number(op, "helpful") > 0 {
			confirmed[id] = at
		}
	case "RETAG":
		votes(str(op, "old_vote"), -support)
		b.helpful += number(op, "helpful")
		b.harmful += number(op, "harmful")
		b.neutral += number(op, "neutral")
		if number(op, "helpful") > 0 {
			confirmed[id] = at
		}
	case "CONFIRM":
		confirmed[id] = at
	case "PIN":
		if op["pinned"] == true {
			confirmed[id] = at
		}
	case "REMOVE":
		delete(bullets, id)
		delete(confirmed, id)
	case "STATUS":
		b.status = str(op, "status")
		if op["restart"] == true {
			b.number++
			b.shown, b.withheld, b.cited = nil, nil, nil
		}
		if str(op, "code") == "person" && b.status == "active" {
			confirmed[id] = at
		}
	case "MERGE":
		reword()
		for _, source := range op["source_ids"].([]any) {
			name := source.(string)
			if other := bullets[name]; other != nil && name != id {
				b.helpful += other.helpful
				b.harmful += other.harmful
				b.neutral += other.neutral
				if confirmed[name].After(confirmed[id]) {
					confirmed[id] = confirmed[name]
				}
				delete(bullets, name)
				delete(confirmed, name)
			}
		}
	case "EXPOSURES":
		outcomes, _ := op["exposures"].([]any)
		for _, o := range outcomes {
			x := o.(map[string]any)
			score := number(x, "score") / 10
			count := func(scores *[]float64) {
				if x["undo"] != true {
					*scores = append(*scores, score)
				} else if i := slices.Index(*scores, score); i >= 0 {
					*scores = slices.Delete(slices.Clone(*scores), i, i+1)
				}
			}
			if number(op, "experiment") == b.number {
				switch str(x, "arm") {
				case "shown":
					count(&b.shown)
				case "withheld":
					count(&b.withheld)
				}
				if x["cited"] == true {
					count(&b.cited)
				}
			}
			if before, known := numbers[id]; x["cited"] == true && x["undo"] != true && score >= 0.5 && (!known || before == number(op, "experiment")) {
				confirmed[id] = at
			}
		}
	default:
		t.Fatalf("unknown operation %s", kind)
	}
}

// sum adds up the audited bullets.
func sum(bullets map[string]*audited, confirmed map[string]time.Time, now time.Time) (h auditHealth) {
	shown := func(b *audited) bool { return b != nil && (b.status == "" || b.status == "active") }
	var ages []float64
	var weights, estimate, variance float64
	for id, b := range bullets {
		if shown(bullets[b.contests]) && b.status != "retired" {
			h.Contradictions++
		}
		if !shown(b) {
			continue
		}
		h.Active++
		if b.helpful+b.harmful+float64(len(b.cited)) > 0 {
			h.Cited++
		}
		h.Injections += int(b.helpful + b.harmful + b.neutral)
		h.NoEffect += int(b.neutral)
		age := now.Sub(confirmed[id]).Hours() / 24
		ages = append(ages, math.Max(age, 0))
		if age > 30 {
			h.Stale++
		}
		if n, m := float64(len(b.shown)), float64(len(b.withheld)); n > 0 && m > 0 {
			w := 1 / (1/n + 1/m)
			h.Measured++
			h.Shown += len(b.shown)
			h.Withheld += len(b.withheld)
			weights += w
			estimate += w * (mean(b.shown) - mean(b.withheld))
			variance += w * w * (varianceOf(b.shown)/n + varianceOf(b.withheld)/m)
		}
	}
	if len(ages) > 0 {
		slices.Sort(ages)
		h.Oldest = ages[len(ages)-1]
		h.Median = (ages[len(ages)/2] + ages[(len(ages)-1)/2]) / 2
	}
	if weights > 0 {
		h.Estimate = estimate / weights
		h.Low = math.Max(-1, h.Estimate-1.959964*math.Sqrt(variance)/weights)
		h.High = math.Min(1, h.Estimate+1.959964*math.Sqrt(variance)/weights)
	}
	return h
}

func mean(scores []float64) (m float64) {
	for _, s := range scores {
		m += s / float64(len(scores))
	}
	return m
}

func varianceOf(scores []float64) (v float64) {
	all := append([]float64{0, 1}, scores...)
	for _, s := range all {
		v += (s - mean(all)) * (s - mean(all)) / float64(len(all))
	}
	return v
}

// TestContributionInterval simulates experiments on bullets that share tasks and tasks of different difficulty. The 95 % interval contains
// the true mean effect in about 95 % of them.
func TestContributionInterval(t *testing.T) {
	t.Parallel()
	const worlds, bullets, tasks = 1500, 8, 60
	for name, effect := range map[string]float64{"no effect": 0, "helps": 0.3, "harms": -0.2} {
		random := rand.New(rand.NewPCG(1, 2))
		covered := 0
		for range worlds {
			var scores [bullets][2]playbook.Scores // withheld, shown
			for range tasks {
				difficulty := 0.3 + 0.4*random.Float64()
				var arms [bullets]int
				shown := 0
				for i := range arms {
					if random.Float64() < 0.8 {
						arms[i] = 1
						shown++
					}
				}
				success := random.Float64() < difficulty+effect*float64(shown)/bullets
				for i, arm := range arms {
					if success {
						scores[i][arm][playbook.MaxScore]++
					} else {
						scores[i][arm][0]++
					}
				}
			}
			p := new(playbook.Playbook)
			d := &playbook.Delta{Version: 1}
			for i := range scores {
				id := playbook.MintID("others", uint64(i+1))
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{
					ID: id, Section: "others", Content: fmt.Sprint("text ", i), Experiment: &playbook.Experiment{Number: 1, Shown: scores[i][1], Withheld: scores[i][0]},
				}})
			}
			if _, err := p.Apply(d); err != nil {
				t.Fatal(err)
			}
			h := new(history.HealthLog).Health(p, time.Now())
			if c := h.Contribution; c != nil && c.Low <= effect/bullets && effect/bullets <= c.High {
				covered++
			}
		}
		share := float64(covered) / worlds
		t.Logf("%s: the interval contains the effect in %.1f %%", name, 100*share)
		if share < 0.93 || share > 0.99 {
			t.Errorf("%s: the interval contains the effect in %.1f %%, want about 95", name, 100*share)
		}
	}
}

// TestHealthAlarms: each alarm is raised by its own reason, and not just below its limit.
func TestHealthAlarms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	health := func(n int, change func(i int, b *playbook.Bullet)) history.Health {
		p, d := new(playbook.Playbook), &playbook.Delta{Version: 1}
		for i := range n {
			b := &playbook.Bullet{ID: playbook.MintID("others", uint64(i+1)), Section: "others", Content: fmt.Sprint("text ", i), Helpful: 5, Neutral: 5, CreatedAt: now.Add(-day)}
			change(i, b)
			d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Put, Bullet: b.ID, PutBullet: b})
		}
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
		return new(history.HealthLog).Health(p, now)
	}
	arms := func(shown, withheld playbook.Scores) *playbook.Experiment {
		return &playbook.Experiment{Number: 1, Shown: shown, Withheld: withheld}
	}
	contests := func(age time.Duration, status playbook.Status) func(int, *playbook.Bullet) {
		return func(i int, b *playbook.Bullet) {
			if i == 1 {
				b.Contests, b.Status, b.CreatedAt = playbook.MintID("others", 1), status, now.Add(-age)
			}
		}
	}
	uncited := func(cited int) func(int, *playbook.Bullet) {
		return func(i int, b *playbook.Bullet) {
			b.Neutral = 10
			if i >= cited {
				b.Helpful = 0
			}
		}
	}
	for name, test := range map[string]struct {
		health history.Health
		want   history.AlarmCode
	}{
		"well":  {health(12, func(int, *playbook.Bullet) {}), ""},
		"empty": {health(0, nil), ""},
		"worse with the bullets": {health(2, func(_ int, b *playbook.Bullet) {
			b.Experiment = arms(playbook.Scores{0: 30, 10: 10}, playbook.Scores{0: 3, 10: 17})
		}), history.AlarmHarm},
		"perhaps worse": {health(2, func(_ int, b *playbook.Bullet) {
			b.Experiment = arms(playbook.Scores{0: 6, 10: 4}, playbook.Scores{0: 1, 10: 2})
		}), ""},
		"better": {health(2, func(_ int, b *playbook.Bullet) {
			b.Experiment = arms(playbook.Scores{0: 3, 10: 37}, playbook.Scores{0: 15, 10: 5})
		}), ""},
		"worse, but retired": {health(2, func(_ int, b *playbook.Bullet) {
			b.Status, b.Experiment = playbook.Retired, arms(playbook.Scores{0: 99}, playbook.Scores{10: 99})
		}), ""},
		"mostly uncited":                 {health(12, uncited(5)), history.AlarmUncited},
		"half cited":                     {health(12, uncited(6)), ""},
		"mostly uncited, but small":      {health(9, uncited(4)), ""},
		"no effect":                      {health(2, func(_ int, b *playbook.Bullet) { b.Helpful, b.Neutral = 5, 50 }), history.AlarmNoEffect},
		"no effect in 90 %":              {health(2, func(_ int, b *playbook.Bullet) { b.Helpful, b.Neutral = 10, 90 }), ""},
		"no effect, but few votes":       {health(2, func(_ int, b *playbook.Bullet) { b.Helpful, b.Neutral = 1, 48 }), ""},
		"an old contradiction":           {health(2, contests(8*day, playbook.Candidate)), history.AlarmContradiction},
		"a new contradiction":            {health(2, contests(6*day, playbook.Candidate)), ""},
		"a retired contradiction":        {health(2, contests(8*day, playbook.Retired)), ""},
		"nothing confirmed":              {health(12, func(i int, b *playbook.Bullet) { b.CreatedAt = now.Add(-time.Duration(25+i) * day) }), ""},
		"most not confirmed for 30 days": {health(12, func(i int, b *playbook.Bullet) { b.CreatedAt = now.Add(-time.Duration(26+i) * day) }), history.AlarmStale},
	} {
		var codes []string
		for _, a := range test.health.Alarms {
			codes = append(codes, string(a.Code))
			if !slices.Contains(history.AlarmCodes(), a.Code) || a.Text == "" {
				t.Errorf("%s: got alarm %+v", name, a)
			}
		}
		if got := strings.Join(codes, " "); got != string(test.want) {
			t.Errorf("%s: got alarms %q, want %q: %+v", name, got, test.want, test.health)
		}
	}
}
