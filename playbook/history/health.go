package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"debrief/playbook"
)

// Health has the numbers that show whether a playbook still fits its tasks. They concern active bullets, which are in all prompts.
type Health struct {
	Active int `json:"active" doc:"Active bullets."`
	Cited  int `json:"cited" doc:"Active bullets that an answer has ever cited, or whose effect the Reflector saw."`

	Injections int `json:"injections" doc:"Uses of the active bullets in a prompt on which the Reflector voted."`
	NoEffect   int `json:"no_effect" doc:"Injections in which the Reflector saw no effect."`
	// Contribution is nil while no active bullet has outcomes in both random arms.
	Contribution   *Effect         `json:"contribution,omitempty" doc:"Mean difference in outcome with and without an active bullet, from the random arms of the gate."`
	Contradictions []Contradiction `json:"contradictions,omitempty" doc:"Bullets that contradict an active one."`
	MedianDays     float64         `json:"median_days" doc:"Median time since an active bullet was last confirmed, in days."`
	OldestDays     float64         `json:"oldest_days" doc:"Longest time since an active bullet was last confirmed, in days."`
	Stale          int             `json:"stale" doc:"Active bullets that nothing has confirmed for 30 days."`
	Alarms         []Alarm         `json:"alarms,omitempty" doc:"What a person should look at."`
}

// Contradiction is a bullet that was learned from a failure in which a supported bullet was cited.
type Contradiction struct {
	Bullet playbook.BulletID `json:"bullet"`
	With   playbook.BulletID `json:"with"`
	Since  time.Time         `json:"since"`
}

// Effect is a difference of two mean scores, from -1 to 1, with its 95 % interval.
type Effect struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Bullets  int     `json:"bullets"`  // that were measured
	Shown    int     `json:"shown"`    // outcomes of tasks with one of them, assigned at random
	Withheld int     `json:"withheld"` // outcomes of tasks without it
}

// Alarm is a finding about a playbook that a person should look at.
type Alarm struct {
	Code AlarmCode `json:"code"`
	Text string    `json:"text"`
}

// AlarmCode names the kind of an alarm. It is a label of a metric.
type AlarmCode string

// The alarms.
const (
	AlarmHarm          AlarmCode = "harm"          // the bullets make outcomes worse
	AlarmUncited       AlarmCode = "uncited"       // most bullets were never cited
	AlarmNoEffect      AlarmCode = "no_effect"     // most injections have no effect
	AlarmContradiction AlarmCode = "contradiction" // a contradiction waits for a decision
	AlarmStale         AlarmCode = "stale"         // most bullets were not confirmed for long
)

// AlarmCodes returns the codes of all alarms.
func AlarmCodes() []AlarmCode {
	return []AlarmCode{AlarmHarm, AlarmUncited, AlarmNoEffect, AlarmContradiction, AlarmStale}
}

// Limits of the alarms. Below the minimums the numbers are mostly chance.
const (
	staleAfter       = 30 * 24 * time.Hour
	undecidedAfter   = 7 * 24 * time.Hour
	minAlarmBullets  = 10
	minAlarmVotes    = 100
	maxShareNoEffect = 0.9
	maxShareStale    = 0.5
	minShareCited    = 0.5
)

// HealthLog follows a log. It has the time when each bullet was last confirmed, and the health at the end of each day with a change: a
// playbook has neither. The zero value is at the beginning of a log. It is not safe for concurrent use.
type HealthLog struct {
	parts     playbook.ChangeAssembler
	confirmed map[playbook.BulletID]time.Time
	last      time.Time // of the newest delta
	days      []HealthDay
}

// HealthDay is the health of a playbook at the end of a day.
type HealthDay struct {
	Day     string `json:"day" doc:"Day in UTC, such as 2026-11-28."`
	Version uint64 `json:"version" doc:"Newest version on that day."`
	Health
}

// maxHealthDays is the number of days that a HealthLog keeps.
const maxHealthDays = 366

// Add adds the next delta of the log. before is the playbook without it.
func (l *HealthLog) Add(d *playbook.Delta, before *playbook.Playbook) {
	if l.confirmed == nil {
		l.confirmed = map[playbook.BulletID]time.Time{}
	}
	if before.Version() > 0 && startOfDay(d.Time).After(startOfDay(l.last)) {
		l.days = append(l.days, l.dayOf(before, startOfDay(l.last).AddDate(0, 0, 1)))
		l.days = slices.Delete(l.days, 0, max(0, len(l.days)-maxHealthDays))
	}
	if d.Time.After(l.last) {
		l.last = d.Time
	}
	c := change(l.parts.Add(d))
	for _, part := range c {
		for i := range part.Ops {
			l.confirm(&part.Ops[i], before, c.last().Time)
		}
	}
}

// startOfDay returns the beginning of the day of a time, in UTC.
func startOfDay(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// dayOf returns the health of a playbook at the end of the day of the newest delta. now is that end, or earlier.
func (l *HealthLog) dayOf(p *playbook.Playbook, now time.Time) HealthDay {
	return HealthDay{l.last.UTC().Format(time.DateOnly), p.Version(), l.Health(p, now)}
}

// confirm records the time if an operation confirms its bullet, see confirms. before is the playbook before the change.
func (l *HealthLog) confirm(op *playbook.Op, before *playbook.Playbook, at time.Time) {
	switch op.Kind {
	case playbook.AddExposures:
		if b := before.Bullet(op.Bullet); b != nil && op.ExperimentNumber != b.CurrentExperiment().Number {
			return // outcomes of an earlier wording
		}
	case playbook.Remove:
		delete(l.confirmed, op.Bullet)
		return
	case playbook.Merge: // the bullet takes over the confirmations of the sources
		for _, id := range op.Sources {
			if t := l.confirmed[id]; t.After(l.confirmed[op.Bullet]) {
				l.confirmed[op.Bullet] = t
			}
			if id != op.Bullet {
				delete(l.confirmed, id)
			}
		}
	case playbook.Put: // a bullet that is restored keeps its time; an imported one has none yet
		if _, known := l.confirmed[op.Bullet]; known {
			return
		}
	}
	if confirms(op) {
		l.confirmed[op.Bullet] = at
	}
}

// confirms reports whether an operation confirms its bullet: a run or a person asks for the text, the bullet helped a run, or an answer that
// cited it was right.
func confirms(op *playbook.Op) bool {
	switch op.Kind {
	case playbook.Add, playbook.Put, playbook.Update, playbook.Confirm:
		return true
	case playbook.Tag, playbook.Retag:
		return op.NewVote() == playbook.Helpful
	case playbook.AddExposures:
		return slices.ContainsFunc(op.Exposures, func(x playbook.Exposure) bool { return x.Cited && !x.Undo && 2*x.Score >= playbook.MaxScore })
	case playbook.SetStatus:
		return op.Code == playbook.ReasonPerson && (op.Status == playbook.Active || op.Status == "")
	case playbook.Pin:
		return op.Pinned
	}
	return false
}

// Days returns the health at the end of each day with a change, oldest first. The last day ends now. p is the playbook after the last delta.
func (l *HealthLog) Days(p *playbook.Playbook, now time.Time) []HealthDay {
	if p.Version() == 0 {
		return nil
	}
	end := startOfDay(l.last).AddDate(0, 0, 1)
	if now.Before(end) {
		end = now
	}
	return append(slices.Clone(l.days), l.dayOf(p, end))
}

// Health returns the health of the playbook after the last delta.
func (l *HealthLog) Health(p *playbook.Playbook, now time.Time) Health {
	var h Health
	var ages []float64 // in days
	var effect stratified
	for b := range p.All() {
		if contested := p.Bullet(b.Contests); contested != nil && contested.Shown() && b.Status != playbook.Retired {
			h.Contradictions = append(h.Contradictions, Contradiction{b.ID, contested.ID, b.CreatedAt})
		}
		if !b.Shown() {
			continue
		}
		e := b.CurrentExperiment()
		h.Active++
		if b.Helpful+b.Harmful+e.Cited.Count() > 0 {
			h.Cited++
		}
		h.Injections += b.Helpful + b.Harmful + b.Neutral
		h.NoEffect += b.Neutral
		effect.add(&e)
		confirmed, known := l.confirmed[b.ID]
		if !known {
			confirmed = b.CreatedAt
		}
		age := max(0, now.Sub(confirmed))
		ages = append(ages, age.Hours()/24)
		if age > staleAfter {
			h.Stale++
		}
	}
	slices.Sort(ages)
	if n := len(ages); n > 0 {
		h.MedianDays, h.OldestDays = (ages[(n-1)/2]+ages[n/2])/2, ages[n-1]
	}
	slices.SortFunc(h.Contradictions, func(a, b Contradiction) int { return cmp.Compare(a.Bullet, b.Bullet) })
	h.Contribution = effect.effect()
	h.Alarms = h.alarms(now)
	return h
}

// alarms returns the alarms of a playbook with these numbers.
func (h *Health) alarms(now time.Time) (all []Alarm) {
	add := func(code AlarmCode, format string, args ...any) {
		all = append(all, Alarm{code, fmt.Sprintf(format, args...)})
	}
	if c := h.Contribution; c != nil && c.High < 0 {
		add(AlarmHarm, "outcomes with a bullet are worse than without it, by %.0f to %.0f points", -100*c.High, -100*c.Low)
	}
	enough := h.Active >= minAlarmBullets
	if enough && h.Injections >= minAlarmVotes && float64(h.Cited) < minShareCited*float64(h.Active) {
		add(AlarmUncited, "only %d of %d active bullets were ever cited", h.Cited, h.Active)
	}
	if h.Injections >= minAlarmVotes && float64(h.NoEffect) > maxShareNoEffect*float64(h.Injections) {
		add(AlarmNoEffect, "%d of %d injections had no effect", h.NoEffect, h.Injections)
	}
	undecided := 0
	for _, c := range h.Contradictions {
		if now.Sub(c.Since) > undecidedAfter {
			undecided++
		}
	}
	if undecided > 0 {
		add(AlarmContradiction, "contradictions that nobody decided for 7 days: %d", undecided)
	}
	if enough && float64(h.Stale) > maxShareStale*float64(h.Active) {
		add(AlarmStale, "nothing has confirmed %d of %d active bullets for 30 days", h.Stale, h.Active)
	}
	return all
}

// stratified computes the mean difference between the outcomes with and without a bullet, over several bullets. The weight of a bullet is half the
// harmonic mean of the sizes of its arms. The differences of two bullets are not correlated, although the bullets share tasks, because each task draws
// the arms of its bullets independently.
type stratified struct {
	bullets, shown, withheld int
	weights, sum, variance   float64 // sums of the weights, of the weighted differences, and of their variances
}

// add adds a bullet. It ignores a bullet without outcomes in both arms.
func (s *stratified) add(e *playbook.Experiment) {
	shown, withheld := float64(e.Shown.Count()), float64(e.Withheld.Count())
	if shown == 0 || withheld == 0 {
		return
	}
	w := shown * withheld / (shown + withheld)
	s.bullets++
	s.shown += e.Shown.Count()
	s.withheld += e.Withheld.Count()
	s.weights += w
	s.sum += w * (e.Shown.Mean() - e.Withheld.Mean())
	s.variance += w * w * (smoothedVariance(&e.Shown)/shown + smoothedVariance(&e.Withheld)/withheld)
}

// effect returns the mean difference with its normal confidence interval, or nil without a bullet.
func (s *stratified) effect() *Effect {
	if s.bullets == 0 {
		return nil
	}
	const normal = 1.959964 // 97.5 % point of the normal distribution
	mean, half := s.sum/s.weights, normal*math.Sqrt(s.variance)/s.weights
	return &Effect{
		Estimate: mean, Low: max(-1, mean-half), High: min(1, mean+half), Bullets: s.bullets, Shown: s.shown, Withheld: s.withheld,
	}
}

// smoothedVariance returns the variance of scores from 0 to 1, after adding one best and one worst score. Without these, a few equal scores would have
// the variance 0, as if they were certain (Agresti and Caffo, The American Statistician 54, 2000).
func smoothedVariance(s *playbook.Scores) float64 {
	scores := *s
	scores[0]++
	scores[playbook.MaxScore]++
	n, mean, square := float64(scores.Count()), scores.Mean(), 0.0
	for score, count := range scores {
		d := float64(score)/playbook.MaxScore - mean
		square += float64(count) * d * d
	}
	return square / n
}
