package formats

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"debrief/playbook"
)

// A block is the part of a file for coding agents, such as CLAUDE.md, that belongs to a playbook. All else in the file belongs to the
// user. Its first line has the name and the version of the playbook, and the ids of its bullets, so that an import can tell which lines
// a person has changed, added or removed:
//
//	<!-- debrief:begin book=shop version=12 bullets=misc-00001,ts-00002 -->
//	## Learned Strategies
//
//	### Others
//	- [misc-00001] Prices are in cents.
//	<!-- debrief:end -->

// Block is a block that was read from a file.
type Block struct {
	Book    string
	Version uint64
	IDs     []playbook.BulletID // that were written
	Lines   []BlockLine         // in the order of the file
}

// BlockLine is a bullet of a block. ID is empty for a line that a person has added.
type BlockLine struct {
	ID      playbook.BulletID
	Section string
	Text    string
}

const blockEnd = "<!-- debrief:end -->"

var (
	blockBegin   = regexp.MustCompile(`(?m)^<!-- debrief:begin book=([A-Za-z0-9_-]{1,64}) version=(\d{1,19}) bullets=([\w,.:/-]*) -->\r?$`)
	anyBegin     = regexp.MustCompile(`(?m)^<!-- debrief:begin\b`)
	anyEnd       = regexp.MustCompile(`(?m)^<!-- debrief:end -->\r?$`)
	blockBullet  = regexp.MustCompile(`^[-*] (?:\[([^\]\s]+)\] )?(.*)$`)
	blockSection = regexp.MustCompile(`^### (.+)$`)
)

var errMarkers = errors.New("the marks debrief:begin and debrief:end must be there once, in this order: restore or remove them")

// findBlock returns the place of the block in a file, or false.
func findBlock(file []byte) (start, end int, found bool, err error) {
	begins, ends := anyBegin.FindAllIndex(file, -1), anyEnd.FindAllIndex(file, -1)
	switch {
	case len(begins)+len(ends) == 0:
		return 0, 0, false, nil
	case len(begins) != 1 || len(ends) != 1 || begins[0][0] > ends[0][0]:
		return 0, 0, false, errMarkers
	}
	return begins[0][0], ends[0][1], true, nil
}

// HasBlock reports whether a file has a block or a part of one.
func HasBlock(file []byte) bool {
	_, _, found, err := findBlock(file)
	return found || err != nil
}

// ForBlock returns the bullets for a block: the active ones that a person wrote or approved, or that an experiment has proven. No other
// bullet may enter a file, because its text is in each prompt of an agent, and no experiment withholds it. Pinned bullets come first, then
// those with the best score. The list ends before their size exceeds limit.
func ForBlock(bullets []*playbook.Bullet, limit int, size func(text string) int) (chosen []*playbook.Bullet) {
	isBarred := func(b *playbook.Bullet) bool {
		isProven := b.Experiment != nil && b.Experiment.Standing == playbook.StandingProven
		return !b.Shown() || !(b.Approved || isProven)
	}
	all := slices.DeleteFunc(slices.Clone(bullets), isBarred)
	slices.SortStableFunc(all, func(a, b *playbook.Bullet) int {
		if a.Pinned != b.Pinned {
			if a.Pinned {
				return -1
			}
			return 1
		}
		return cmp.Or(b.Score()-a.Score(), strings.Compare(string(a.ID), string(b.ID)))
	})
	for _, b := range all {
		if limit -= size(blockText(b)) + size("- ["+string(b.ID)+"] "); limit < 0 {
			break
		}
		chosen = append(chosen, b)
	}
	return chosen
}

// blockText returns the content of a bullet for a block, without "<!--", which could begin a mark of the block.
func blockText(b *playbook.Bullet) string {
	return strings.ReplaceAll(b.Content, "<!--", "‹!--")
}

// WriteBlock returns a file with the block for these bullets. A block that is there already is replaced; otherwise it is appended.
func WriteBlock(file []byte, book string, version uint64, bullets []*playbook.Bullet) ([]byte, error) {
	start, end, found, err := findBlock(file)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(bullets))
	shown := make([]*playbook.Bullet, len(bullets))
	for i, b := range bullets {
		ids[i] = string(b.ID)
		copied := *b
		copied.Content = blockText(b)
		shown[i] = &copied
	}
	block := fmt.Sprintf("<!-- debrief:begin book=%s version=%d bullets=%s -->\n%s\n%s", book, version, strings.Join(ids, ","), strings.TrimSpace(playbook.Render(shown)), blockEnd)
	if found {
		return slices.Concat(file[:start], []byte(block), file[end:]), nil
	}
	file = bytes.TrimRight(file, "\n")
	if len(file) > 0 {
		file = append(slices.Clip(file), "\n\n"...)
	}
	return append(file, block+"\n"...), nil
}

// ReadBlock reads the block of a file.
func ReadBlock(file []byte) (*Block, error) {
	start, end, found, err := findBlock(file)
	if err == nil && !found {
		err = errors.New("the file has no block of a playbook")
	}
	if err != nil {
		return nil, err
	}
	text := string(file[start:end])
	head := blockBegin.FindStringSubmatch(text)
	if head == nil {
		return nil, errMarkers
	}
	b := &Block{Book: head[1]}
	if _, err := fmt.Sscan(head[2], &b.Version); err != nil {
		return nil, errMarkers
	}
	for id := range strings.SplitSeq(head[3], ",") {
		if id != "" {
			b.IDs = append(b.IDs, playbook.BulletID(id))
		}
	}
	section := ""
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for _, line := range lines[1 : len(lines)-1] {
		last := len(b.Lines) - 1
		if m := blockSection.FindStringSubmatch(line); m != nil {
			section = playbook.Section(m[1])
		} else if m := blockBullet.FindStringSubmatch(line); m != nil {
			l := BlockLine{ID: playbook.BulletID(m[1]), Section: section, Text: m[2]}
			if !slices.Contains(b.IDs, l.ID) { // the brackets are a part of the text, as in "[x] done"
				l.ID, l.Text = "", strings.TrimSpace(line[2:])
			}
			b.Lines = append(b.Lines, l)
		} else if rest, ok := strings.CutPrefix(line, "  "); ok && last >= 0 {
			b.Lines[last].Text += "\n" + rest
		}
	}
	return b, nil
}

// Changed compares a block with the bullets that were written to it. It returns lines whose text has changed, new lines, and the ids of
// bullets that have no line.
func (b *Block) Changed(written []*playbook.Bullet) (changed, added []BlockLine, removed []playbook.BulletID) {
	texts := map[playbook.BulletID]string{}
	for _, w := range written {
		texts[w.ID] = strings.TrimSpace(blockText(w))
	}
	seen := map[playbook.BulletID]bool{}
	for _, l := range b.Lines {
		text := strings.TrimSpace(l.Text)
		switch {
		case text == "":
		case l.ID == "" || seen[l.ID]:
			added = append(added, l)
		default:
			seen[l.ID] = true
			if text != texts[l.ID] {
				changed = append(changed, l)
			}
		}
	}
	for _, id := range b.IDs {
		if !seen[id] {
			removed = append(removed, id)
		}
	}
	return changed, added, removed
}
