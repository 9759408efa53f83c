package curator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/playbook"
)

// Trust is how far a source is believed. Who names no source, and who is not named in the configuration, is trusted.
type Trust string

// The levels.
const (
	Trusted Trust = "trusted"
	// Limited sources count up to their share of what is behind a bullet.
	Limited Trust = "limited"
	// Untrusted sources count for nothing, and what they want said waits for a person.
	Untrusted Trust = "untrusted"
)

// halfShare is what a limited source may have of a bullet's support where the configuration does not say, in percent: a
// bullet has as much from others.
const halfShare = 50

// freeVotes is how much of a bullet's support may come from a limited source whatever its share: a share of nothing
// would let no bullet begin.
const freeVotes = 2

// credit is what the configuration says of a source.
type credit struct {
	level Trust
	share int // percent
}

// trust is what is known of sources, by name.
type trust map[string]credit

// parseTrust reads SOURCE=LEVEL[:SHARE].
func parseTrust(list []string) (trust, error) {
	known := make(trust, len(list))
	for _, text := range list {
		at := strings.LastIndex(text, "=") // a source may hold one
		if at < 1 {
			return nil, fmt.Errorf("--trust: want SOURCE=LEVEL[:SHARE], got %q", text)
		}
		source := text[:at]
		level, share, limit := strings.Cut(text[at+1:], ":")
		s := credit{Trust(level), halfShare}
		if s.level != Trusted && s.level != Limited && s.level != Untrusted {
			return nil, fmt.Errorf("--trust: level %q of source %q is none of trusted, limited, untrusted", level, source)
		}
		if limit {
			n, err := strconv.Atoi(strings.TrimSuffix(share, "%"))
			if err != nil || n < 1 || n > 99 || s.level != Limited {
				return nil, fmt.Errorf("--trust: share %q of source %q: limited sources alone have one, from 1 to 99 percent", share, source)
			}
			s.share = n
		}
		if _, twice := known[source]; twice {
			return nil, fmt.Errorf("--trust: source %q is named twice", source)
		}
		known[source] = s
	}
	return known, nil
}

// source is where what is covered comes from, "" if nobody says.
func (d *draft) source(cover int) string {
	if cover < len(d.covers) && d.covers[cover].Evidence != nil {
		return d.covers[cover].Evidence.Source
	}
	return ""
}

// level is how far the source of what is covered is believed.
func (d *draft) level(cover int) Trust { return cmp.Or(d.trust[d.source(cover)].level, Trusted) }

// mistrusts is why the support of one reflection for a bullet does not count, or nil.
func (d *draft) mistrusts(b *playbook.Bullet, cover int) *refusal {
	source := d.source(cover)
	switch s := d.trust[source]; s.level {
	case Untrusted:
		return no("source %q is not trusted: its vote on bullet %q does not count", source, b.ID)
	case Limited:
		from := 1 // with this one
		for _, o := range b.Backing {
			if o.Source == source {
				from += o.N
			}
		}
		all := b.Helpful + b.Harmful + b.Neutral + b.TheCase().Seconded + 1 + 1 // with who made it, and with this one
		if from > freeVotes && from*100 > s.share*all {
			return no("source %q has its share of what is behind bullet %q: %d of %d, and no more than %d %%", source, b.ID, from-1, all-1, s.share)
		}
	}
	return nil
}

// least is how far the least trusted source behind an operation is believed, and its name. A model says itself which
// reflections a proposal rests on; so one that is not trusted is enough to doubt it.
func (d *draft) least(support []int) (Trust, string) {
	worst, name := Trusted, ""
	for _, i := range support {
		switch l := d.level(i); {
		case l == Untrusted:
			return l, d.source(i)
		case l == Limited:
			worst, name = l, d.source(i)
		}
	}
	return worst, name
}

// believed are those of an operation's supports that may stand behind a bullet, and why the last of the others may not.
func (d *draft) believed(b *playbook.Bullet, support []int) (on []int, why *refusal) {
	for _, i := range support {
		if refused := d.mistrusts(b, i); refused != nil {
			why = refused
		} else {
			on = append(on, i)
		}
	}
	return on, why
}

// A session, or a source that is not trusted, that makes more bullets in so short a time is a burst: what comes after
// waits for a person. A curator remembers who made how many while it runs; several curators count each for itself.
const (
	defaultBurst = 20
	burstWindow  = 10 * time.Minute
)

// maker is who bullets come from: a session, or a source that is not trusted.
type maker struct {
	source bool
	name   string
}

func (m maker) String() string {
	if m.source {
		return fmt.Sprintf("source %q", m.name)
	}
	return fmt.Sprintf("session %q", m.name)
}

// burst is how many bullets one maker may make in burstWindow; below 1 is no limit. The zero value remembers nobody.
type burst struct {
	most   int
	recent map[maker]int
}

// makers are those behind an operation, each once.
func (d *draft) makers(support []int) (all []maker) {
	add := func(m maker) {
		if m.name != "" && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	for _, i := range support {
		if i < len(d.covers) && d.covers[i].Evidence != nil {
			add(maker{name: d.covers[i].Evidence.Session})
			if d.level(i) != Trusted {
				add(maker{source: true, name: d.source(i)})
			}
		}
	}
	return all
}

// stem puts a new bullet into quarantine that is one of too many.
func (d *draft) stem(op *playbook.Op) {
	if d.burst.most < 1 {
		return
	}
	for _, m := range d.makers(op.Support) {
		if d.burst.recent[m]+d.born[m] >= d.burst.most {
			op.Status = playbook.Quarantined
			op.Reason = fmt.Sprintf("%s has made more than %d bullets in %d minutes", clip(m.String(), maxName), d.burst.most, int(burstWindow.Minutes()))
			return
		}
	}
}

// births remembers who made bullets lately.
type births struct {
	at map[maker][]birth
}

type birth struct {
	time time.Time
	n    int
}

// recent counts them and forgets what is past.
func (b *births) recent(now time.Time) map[maker]int {
	counts := map[maker]int{}
	for m, list := range b.at {
		list = slices.DeleteFunc(list, func(c birth) bool { return now.Sub(c.time) >= burstWindow })
		if b.at[m] = list; len(list) == 0 {
			delete(b.at, m)
		}
		for _, c := range list {
			counts[m] += c.n
		}
	}
	return counts
}

func (b *births) note(born map[maker]int, now time.Time) {
	for m, n := range born {
		if b.at == nil {
			b.at = map[maker][]birth{}
		}
		b.at[m] = append(b.at[m], birth{now, n})
	}
}

// A bullet's votes hold while the chance that they speak of is at least holdsAt even at the lower end of its 95 %
// interval (Wilson 1927), of at least minVotes.
const (
	minVotes = 5
	holdsAt  = 0.5
	wilsonZ  = 1.96
)

// votesHold reports whether votes speak for a bullet beyond doubt.
func votesHold(helpful, harmful int) bool {
	n := float64(helpful + harmful)
	if helpful+harmful < minVotes {
		return false
	}
	p, z := float64(helpful)/n, wilsonZ
	low := (p + z*z/(2*n) - z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))) / (1 + z*z/n)
	return low >= holdsAt
}

// minAgree is how many executions must agree, at least, against a bullet whose votes hold: one can be planted, and two
// can be one that was asked twice.
const (
	minAgree = 3
	maxAgree = 1000 // more than one delta covers
)

// toOverturn is how many executions must agree to change a bullet whose votes hold: as many as would put its record in
// doubt had they voted that it is harmful, which is what they say.
func toOverturn(b *playbook.Bullet) int {
	n := minAgree
	for n < maxAgree && votesHold(b.Helpful, b.Harmful+n) {
		n++
	}
	return n
}

// contradicted is the first of the bullets whose words an operation would end although its votes hold and too few
// executions say so.
func (d *draft) contradicted(op *playbook.Op) *playbook.Bullet {
	ids := []playbook.BulletID{op.Bullet}
	if op.Kind == playbook.Merge {
		ids = append(ids, op.Sources...)
	}
	agree := map[string]bool{}
	for _, i := range op.Support {
		if i < len(d.covers) && d.covers[i].Evidence != nil {
			agree[d.covers[i].Evidence.Execution] = true
		}
	}
	for _, id := range ids {
		b := d.get(id)
		if b == nil || b.Rule != nil || !votesHold(b.Helpful, b.Harmful) || len(agree) >= toOverturn(b) {
			continue
		}
		if op.Kind == playbook.Remove || playbook.WordingOf(op.Content) != playbook.WordingOf(b.Content) {
			return b
		}
	}
	return nil
}

func contradicts(b *playbook.Bullet) string {
	return fmt.Sprintf("contradicts bullet %q, which %d of %d outcomes support", b.ID, b.Helpful, b.Helpful+b.Harmful)
}
