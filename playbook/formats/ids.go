package formats

import (
	"fmt"
	"strings"
	"unicode"

	"debrief/playbook"
	"debrief/playbook/text"
)

// repairID returns a valid id that is similar to id.
func repairID(id string) string {
	id = strings.Map(func(r rune) rune {
		switch {
		case r == ']' || unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			return '-'
		case text.Invisible(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(id, "-"))
	id = strings.TrimSpace(text.Prefix(strings.TrimSpace(id), playbook.MaxID))
	if id == "" {
		return "bullet"
	}
	return id
}

// namer assigns unique ids to bullets.
type namer struct {
	taken  func(id playbook.BulletID, section, content string) bool
	used   map[string]bool // assigned ids
	inFile map[string]bool // ids of the bullets in the file; a derived id must differ from them
	next   map[string]int  // by id: the next number to try, so that many duplicates of an id take linear time
}

// newNamer returns a namer for the bullets of one file. taken may be nil, see Read.
func newNamer(taken func(playbook.BulletID, string, string) bool) *namer {
	if taken == nil {
		taken = func(playbook.BulletID, string, string) bool { return false }
	}
	return &namer{taken: taken, used: map[string]bool{}, inFile: map[string]bool{}, next: map[string]int{}}
}

// reserve records an id of the file, so that it is not derived for another bullet. It must be called for all ids before
// the first call of name.
func (n *namer) reserve(id string) { n.inFile[id] = true }

// name assigns an id to a bullet whose id in the file is given. If the assigned id is another one, reason says why, else it is "".
func (n *namer) name(given, section, content string) (id playbook.BulletID, reason string) {
	isFree := func(id string) bool {
		return !n.used[id] && !n.taken(playbook.BulletID(id), section, content)
	}
	base := given
	switch err := playbook.BulletID(given).ValidateImported(); {
	case err != nil:
		base = repairID(given)
		reason = err.Error()
		if !n.inFile[base] && isFree(base) {
			n.used[base] = true
			return playbook.BulletID(base), reason
		}
	case isFree(given):
		n.used[given] = true
		return playbook.BulletID(given), ""
	case n.used[given]:
		reason = fmt.Sprintf("duplicate id %s", given)
	default:
		reason = fmt.Sprintf("the book has another bullet with the id %s", given)
	}
	for i := max(2, n.next[base]); ; i++ {
		suffix := fmt.Sprintf("-%d", i)
		derived := strings.TrimSpace(text.Prefix(base, playbook.MaxID-len(suffix))) + suffix
		if n.inFile[derived] || !isFree(derived) {
			continue
		}
		n.used[derived], n.next[base] = true, i+1
		return playbook.BulletID(derived), reason
	}
}
