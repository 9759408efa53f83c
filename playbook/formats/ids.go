package formats

import (
	"fmt"
	"strings"
	"unicode"

	"debrief/playbook"
	"debrief/playbook/text"
)

// checkID returns an error if text is not a valid id.
func checkID(text string) error { return playbook.BulletID(text).Validate() }

func invalidInID(r rune) bool {
	return r == ']' || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// repairID returns a valid id that is similar to id.
func repairID(id string) string {
	id = strings.Map(func(r rune) rune {
		if invalidInID(r) {
			return '-'
		}
		return r
	}, strings.ToValidUTF8(id, "-"))
	if id = strings.TrimSpace(text.Prefix(strings.TrimSpace(id), playbook.MaxID)); id == "" {
		return "bullet"
	}
	return id
}

// namer assigns unique ids to bullets.
type namer struct {
	taken  func(id playbook.BulletID, section, content string) bool
	used   map[string]bool // assigned ids
	inFile map[string]bool // ids of the file's items; a derived id must differ from them
	next   map[string]int  // by id, the next number to try, so that many duplicates of an id take linear time
}

func newNamer(taken func(playbook.BulletID, string, string) bool) *namer {
	if taken == nil {
		taken = func(playbook.BulletID, string, string) bool { return false }
	}
	return &namer{taken: taken, used: map[string]bool{}, inFile: map[string]bool{}, next: map[string]int{}}
}

// reserve records an id of the file, so that it is not derived for another bullet. It must be called for all ids before
// the first call of name.
func (n *namer) reserve(id string) { n.inFile[id] = true }

// name assigns an id to a bullet that has the id given in the file. If the assigned id differs, why has the reason.
func (n *namer) name(given, section, content string) (id playbook.BulletID, why string) {
	free := func(id string) bool {
		return !n.used[id] && !n.taken(playbook.BulletID(id), section, content)
	}
	base := given
	switch err := checkID(given); {
	case err != nil:
		why, base = err.Error(), repairID(given)
		if !n.inFile[base] && free(base) {
			n.used[base] = true
			return playbook.BulletID(base), why
		}
	case free(given):
		n.used[given] = true
		return playbook.BulletID(given), ""
	case n.used[given]:
		why = fmt.Sprintf("duplicate id %s", given)
	default:
		why = fmt.Sprintf("the book has another bullet with the id %s", given)
	}
	for i := max(2, n.next[base]); ; i++ {
		suffix := fmt.Sprintf("-%d", i)
		derived := strings.TrimSpace(text.Prefix(base, playbook.MaxID-len(suffix))) + suffix
		if n.inFile[derived] || !free(derived) {
			continue
		}
		n.used[derived], n.next[base] = true, i+1
		return playbook.BulletID(derived), why
	}
}

// invalidRemoved reports whether cleaning changed more than surrounding white space and carriage returns, which need no
// note.
func invalidRemoved(text, clean string) bool {
	if len(text) == len(clean) {
		return text != clean
	}
	return strings.TrimSpace(strings.ReplaceAll(text, "\r", "")) != clean
}
