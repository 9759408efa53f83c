package selection

import (
	"strings"
	"sync"

	"debrief/events/chat"
	"debrief/playbook"
)

// Index is one playbook laid out for selection: of each bullet that generators are shown, and where its gate is on of
// those on probation, what does not depend on a task. Select may be called by several goroutines at once, but not beside Update.
type Index struct {
	version   uint64
	gate      playbook.Gate
	rows      []row // in no order
	at        map[playbook.BulletID]int32
	probation int // how many rows are on it

	sections []section
	named    map[string]int32 // into sections
	free     []int32          // places in sections that nothing is in

	title int // tokens of what stands above all bullets
	round uint32

	choices sync.Pool // of *choice, for what selecting one needs
}

// row is what is known of a bullet before there is a task.
type row struct {
	bullet        *playbook.Bullet
	effectiveness float64
	used          int64 // as lastUse has it
	tokens        int   // of its own lines
	section       int32
	round         uint32 // of the last Update that found it
	pinned        bool
	probation     bool
	wording       *wording
}

type section struct {
	name   string
	header int // tokens
	rows   int // how many are in it
}

// NewIndex is an index of the empty playbook.
func NewIndex() *Index {
	return &Index{at: make(map[playbook.BulletID]int32), named: make(map[string]int32)}
}

// Version is the version of the playbook that the index was brought to last.
func (x *Index) Version() uint64 { return x.version }

// Len counts the bullets that can be selected.
func (x *Index) Len() int { return len(x.rows) }

// Update brings the index to a playbook, the next version or any other. Bullets are immutable, so one that is the same
// pointer as before is not looked at again. It returns what can be selected now and is new or another than before, and
// what could be and cannot any more, both in no order, for indexes that are kept beside this one.
func (x *Index) Update(p *playbook.Playbook) (changed []*playbook.Bullet, dropped []playbook.BulletID) {
	x.version = p.Version()
	x.gate, _ = p.Gate()
	x.round++
	found := 0
	for b := range p.All() {
		if !b.Shown() && !(x.gate == playbook.GateOn && b.Status == playbook.Probation) {
			continue
		}
		found++
		at, there := x.at[b.ID]
		if !there {
			at = int32(len(x.rows))
			x.at[b.ID] = at
			x.rows = append(x.rows, row{section: -1})
		}
		r := &x.rows[at]
		if r.round = x.round; r.bullet != b {
			x.lay(r, b)
			changed = append(changed, b)
		}
	}
	for at := len(x.rows) - 1; len(x.rows) > found; at-- {
		if r := &x.rows[at]; r.round != x.round {
			dropped = append(dropped, r.bullet.ID)
			x.drop(at)
		}
	}
	return changed, dropped
}

// lay makes a row that of a bullet.
func (x *Index) lay(r *row, b *playbook.Bullet) {
	title, header, own := lines(b)
	if r.wording == nil || r.bullet.Content != b.Content {
		r.wording = newWording(b.Content)
	}
	if r.section < 0 || x.sections[r.section].name != b.Section {
		x.leave(r.section)
		r.section = x.enter(b.Section, header)
	}
	x.judge(r, b.Status == playbook.Probation)
	r.bullet, r.pinned, r.tokens = b, b.Pinned, chat.Tokens(own)
	r.effectiveness, r.used = effectiveness(b), lastUse(b)
	x.title = chat.Tokens(title)
}

// drop forgets a row; the last one takes its place.
func (x *Index) drop(at int) {
	x.leave(x.rows[at].section)
	x.judge(&x.rows[at], false)
	delete(x.at, x.rows[at].bullet.ID)
	last := len(x.rows) - 1
	if at != last {
		x.rows[at] = x.rows[last]
		x.at[x.rows[at].bullet.ID] = int32(at)
	}
	x.rows[last] = row{}
	x.rows = x.rows[:last]
}

// judge notes whether a row is on probation.
func (x *Index) judge(r *row, probation bool) {
	switch {
	case probation && !r.probation:
		x.probation++
	case r.probation && !probation:
		x.probation--
	}
	r.probation = probation
}

// enter counts a bullet in a section.
func (x *Index) enter(name, header string) int32 {
	at, there := x.named[name]
	if !there {
		if n := len(x.free); n > 0 {
			at, x.free = x.free[n-1], x.free[:n-1]
		} else {
			at = int32(len(x.sections))
			x.sections = append(x.sections, section{})
		}
		x.named[name] = at
		x.sections[at] = section{name: name, header: chat.Tokens(header)}
	}
	x.sections[at].rows++
	return at
}

// leave takes a bullet out of a section; -1 is none.
func (x *Index) leave(at int32) {
	if at < 0 {
		return
	}
	s := &x.sections[at]
	if s.rows--; s.rows == 0 {
		delete(x.named, s.name)
		*s = section{}
		x.free = append(x.free, at)
	}
}

// lines is a bullet as a prompt shows it, in the parts that Render repeats once for everything, for each section and for
// each bullet.
func lines(b *playbook.Bullet) (title, header, own string) {
	once := playbook.Render([]*playbook.Bullet{b})
	own = playbook.Render([]*playbook.Bullet{b, b})[len(once):]
	above := once[:len(once)-len(own)]
	end := strings.IndexByte(above, '\n') + 1
	return above[:end], above[end:], own
}
