package formats

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"debrief/playbook"
)

// Block is the part of a file for coding agents, such as CLAUDE.md, that belongs to a playbook. The rest of the file belongs to the
// user. The first line of the block has the name and the version of the playbook, and the ids of the bullets. With these, an import finds the
// lines that a person has changed, added or removed:
//
//	<!-- debrief:begin book=shop version=12 bullets=misc-00001,ts-00002 -->
//	## Learned Strategies
//
//	### Others
//	- [misc-00001] Prices are in cents.
//	<!-- debrief:end -->
type Block struct {
	Book    string
	Version uint64
	IDs     []playbook.BulletID // in the first line
	Lines   []BlockLine         // in the order of the file
}

// BlockLine is a bullet of a block.
type BlockLine struct {
	ID      playbook.BulletID // empty for a line without an id of Block.IDs, which a person has added
	Section string
	Text    string // may have several lines
}

const blockEnd = "<!-- debrief:end -->"

var (
	blockBegin   = regexp.MustCompile(`(?m)^<!-- debrief:begin book=([A-Za-z0-9_-]{1,64}) version=(\d{1,19}) bullets=([\w,.:/%+-]*) -->\r?$`)
	anyBegin     = regexp.MustCompile(`(?m)^<!-- debrief:begin\b`)
	anyEnd       = regexp.MustCompile(`(?m)^<!-- debrief:end -->\r?$`)
	blockBullet  = regexp.MustCompile(`^[-*] (?:\[([^\]]+)\] )?(.*)$`)
	blockSection = regexp.MustCompile(`^### (.+)$`)
	plainBlockID = regexp.MustCompile(`^[\w.:/-]+$`) // any other id is escaped in the first line
)

var errMarkers = errors.New("the marks debrief:begin and debrief:end must be there once, in this order: restore or remove them")

// findBlock returns the place of the block in a file. found is false without a block. An incomplete block is an error.
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
// those with the best score. The list ends before the sum of their sizes exceeds limit.
func ForBlock(bullets []*playbook.Bullet, limit int, size func(text string) int) (chosen []*playbook.Bullet) {
	var pinned, others []*playbook.Bullet
	for _, b := range bullets {
		isProven := b.CurrentExperiment().Standing == playbook.StandingProven
		switch {
		case !b.Shown() || !b.Approved && !isProven:
		case b.Pinned:
			pinned = append(pinned, b)
		default:
			others = append(others, b)
		}
	}
	slices.SortFunc(pinned, playbook.CompareScores)
	slices.SortFunc(others, playbook.CompareScores)
	for _, b := range slices.Concat(pinned, others) {
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

// WriteBlock returns a file with a block of these bullets. It replaces the block of the file, or appends one.
func WriteBlock(file []byte, book string, version uint64, bullets []*playbook.Bullet) ([]byte, error) {
	start, end, found, err := findBlock(file)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(bullets))
	written := make([]*playbook.Bullet, len(bullets))
	for i, b := range bullets {
		ids[i] = string(b.ID)
		if !plainBlockID.MatchString(ids[i]) {
			ids[i] = url.QueryEscape(ids[i])
		}
		copied := *b
		copied.Content = blockText(b)
		written[i] = &copied
	}
	begin := fmt.Sprintf("<!-- debrief:begin book=%s version=%d bullets=%s -->", book, version, strings.Join(ids, ","))
	block := begin + "\n" + strings.TrimSpace(playbook.Render(written)) + "\n" + blockEnd
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
	version, err := strconv.ParseUint(head[2], 10, 64)
	if err != nil {
		return nil, errMarkers
	}
	b := &Block{Book: head[1], Version: version}
	for id := range strings.SplitSeq(head[3], ",") {
		if id, err = url.QueryUnescape(id); err != nil {
			return nil, errMarkers
		}
		if id != "" {
			b.IDs = append(b.IDs, playbook.BulletID(id))
		}
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	b.addLines(lines[1 : len(lines)-1])
	return b, nil
}

// addLines adds the bullets in the lines between the two marks.
func (b *Block) addLines(lines []string) {
	section := ""
	blank := 0 // blank lines since the last line of a bullet: an editor may remove the spaces of a line
	for _, line := range lines {
		last := len(b.Lines) - 1
		if m := blockSection.FindStringSubmatch(line); m != nil {
			section, blank = playbook.Section(m[1]), 0
		} else if m := blockBullet.FindStringSubmatch(line); m != nil {
			l := BlockLine{ID: playbook.BulletID(m[1]), Section: section, Text: m[2]}
			if !slices.Contains(b.IDs, l.ID) { // brackets with something else are a part of the text, as in "[x] done"
				l.ID, l.Text = "", strings.TrimSpace(line[2:])
			}
			b.Lines, blank = append(b.Lines, l), 0
		} else if rest, ok := strings.CutPrefix(line, "  "); ok && last >= 0 {
			b.Lines[last].Text += strings.Repeat("\n", blank+1) + rest
			blank = 0
		} else if line == "" {
			blank++
		}
	}
}

// Changed compares a block with the bullets that were written to it. It returns the lines whose text has changed, the new lines, and the ids of
// bullets without a line. A second line with one id is new.
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
