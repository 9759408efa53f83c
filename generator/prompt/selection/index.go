package selection

import (
	"strings"
	"sync"

	"debrief/events/chat"
	"debrief/playbook"
)

// Index prepares a playbook for selection. It holds the shown bullets, and with the gate on also those on probation,
// with all data that does not depend on a task. Select may be called concurrently, but not during Update.
type Index struct {
	version   uint64
	gate      playbook.Gate
	rows      []row // in no order
	rowOf     map[playbook.BulletID]int32
	probation int // number of rows on probation

	sections     []section
	sectionIDs   map[string]int32 // index in sections, by name
	freeSections []int32          // unused elements of sections

	titleTokens int // tokens of the title above all bullets
	round       uint32

	selectors sync.Pool // of *selector
}

// row holds the data of a bullet that does not depend on a task.
type row struct {
	bullet        *playbook.Bullet
	effectiveness float64
	used          int64 // result of lastUse
	tokens        int   // tokens of the lines of the bullet
	section       int32
	round         uint32 // the last Update that found the bullet
	pinned        bool
	probation     bool
	words         *wordSet
}

type section struct {
	name   string
	header int // tokens
	rows   int // number of rows in the section
}

// NewIndex returns the index of an empty playbook.
func NewIndex() *Index {
	return &Index{rowOf: make(map[playbook.BulletID]int32), sectionIDs: make(map[string]int32)}
}

// Version returns the version of the playbook at the last Update.
func (x *Index) Version() uint64 { return x.version }

// Len returns the number of bullets that can be selected.
func (x *Index) Len() int { return len(x.rows) }

// Update applies a playbook of any version. Bullets are immutable, so an unchanged pointer is skipped. Update returns
// the selectable bullets that are new or changed, and the ids that were removed, both in no order.
// Callers use them to update other indexes.
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
		at, there := x.rowOf[b.ID]
		if !there {
			at = int32(len(x.rows))
			x.rowOf[b.ID] = at
			x.rows = append(x.rows, row{section: -1})
		}
		r := &x.rows[at]
		if r.round = x.round; r.bullet != b {
			x.index(r, b)
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

// index stores a bullet in a row.
func (x *Index) index(r *row, b *playbook.Bullet) {
	title, header, own := renderedParts(b)
	if r.words == nil || r.bullet.Content != b.Content {
		r.words = newWordSet(b.Content)
	}
	if r.section < 0 || x.sections[r.section].name != b.Section {
		x.leaveSection(r.section)
		r.section = x.joinSection(b.Section, header)
	}
	x.setProbation(r, b.Status == playbook.Probation)
	r.bullet, r.pinned, r.tokens = b, b.Pinned, chat.Tokens(own)
	r.effectiveness, r.used = effectiveness(b), lastUse(b)
	x.titleTokens = chat.Tokens(title)
}

// drop removes a row; the last row moves into its place.
func (x *Index) drop(at int) {
	x.leaveSection(x.rows[at].section)
	x.setProbation(&x.rows[at], false)
	delete(x.rowOf, x.rows[at].bullet.ID)
	last := len(x.rows) - 1
	if at != last {
		x.rows[at] = x.rows[last]
		x.rowOf[x.rows[at].bullet.ID] = int32(at)
	}
	x.rows[last] = row{}
	x.rows = x.rows[:last]
}

// setProbation records whether a row is on probation.
func (x *Index) setProbation(r *row, probation bool) {
	switch {
	case probation && !r.probation:
		x.probation++
	case r.probation && !probation:
		x.probation--
	}
	r.probation = probation
}

// joinSection adds a bullet to a section.
func (x *Index) joinSection(name, header string) int32 {
	at, there := x.sectionIDs[name]
	if !there {
		if n := len(x.freeSections); n > 0 {
			at, x.freeSections = x.freeSections[n-1], x.freeSections[:n-1]
		} else {
			at = int32(len(x.sections))
			x.sections = append(x.sections, section{})
		}
		x.sectionIDs[name] = at
		x.sections[at] = section{name: name, header: chat.Tokens(header)}
	}
	x.sections[at].rows++
	return at
}

// leaveSection removes a bullet from a section; it ignores -1.
func (x *Index) leaveSection(at int32) {
	if at < 0 {
		return
	}
	s := &x.sections[at]
	if s.rows--; s.rows == 0 {
		delete(x.sectionIDs, s.name)
		*s = section{}
		x.freeSections = append(x.freeSections, at)
	}
}

// renderedParts splits the rendered bullet into the title of the playbook, the header of the section and the bullet's
// own lines.
func renderedParts(b *playbook.Bullet) (title, header, own string) {
	once := playbook.Render([]*playbook.Bullet{b})
	own = playbook.Render([]*playbook.Bullet{b, b})[len(once):]
	above := once[:len(once)-len(own)]
	end := strings.IndexByte(above, '\n') + 1
	return above[:end], above[end:], own
}
