package formats

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"debrief/playbook"
)

// The lines of a text; see the package comment for the rules.
var (
	countedLine   = regexp.MustCompile(`^\[([^\]]+)\]\s*helpful=(\d+)\s*harmful=(\d+)\s*::\s*`)
	malformedLine = regexp.MustCompile(`^\[[^\]]+\]\s*(?:helpful|harmful)=`)
	plainLine     = regexp.MustCompile(`^\[(\pL[\pL\pN_.:/-]+)\](?:[ \t]+|$)`)
	numberedID    = regexp.MustCompile(`-\d+$`)
)

// kind is the kind of a line.
type kind int

const (
	other     kind = iota
	header         // begins a section
	counted        // begins a bullet with counters
	plain          // begins a bullet without counters, in a file that has none
	malformed      // begins like a bullet, with invalid counters
)

// line is one parsed line of a text.
type line struct {
	kind             kind
	id, body         string // of a bullet; body is the part of the content on this line
	helpful, harmful int
}

// classify parses a line without its line end, by the rules in the package comment. Of the bullets only one with counters may be indented.
func classify(text string) line {
	trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
	if strings.HasPrefix(text, "##") {
		return line{kind: header}
	}
	if m := countedLine.FindStringSubmatch(trimmed); m != nil {
		helpful, err := strconv.Atoi(m[2])
		harmful, err2 := strconv.Atoi(m[3])
		if err != nil || err2 != nil {
			return line{kind: malformed}
		}
		return line{kind: counted, id: m[1], body: trimmed[len(m[0]):], helpful: helpful, harmful: harmful}
	}
	if malformedLine.MatchString(trimmed) {
		return line{kind: malformed}
	}
	if m := plainLine.FindStringSubmatch(text); m != nil {
		hasBody := len(m[0]) < len(text) // else the content may begin on the next line, but only after a numbered id
		if hasBody || numberedID.MatchString(m[1]) {
			return line{kind: plain, id: m[1], body: text[len(m[0]):]}
		}
	}
	return line{}
}

// eachLine calls fn for each line, without its line end. n is the number of the line, from 1.
func eachLine(text string, fn func(n int, text string, l line)) {
	n := 0
	for raw := range strings.Lines(text) {
		n++
		raw = strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r")
		fn(n, raw, classify(raw))
	}
}

// readText reads a text.
func (r *reader) readText(text string) (list []rawBullet, err error) {
	begins := plain // the kind of line that begins a bullet: counted if any bullet has counters
	eachLine(text, func(_ int, _ string, l line) {
		if l.kind == counted {
			begins = counted
		}
	})
	section := "general"
	outside := 0         // number of lines before, after and between bullets
	var content []string // the lines of the last bullet so far, nil after its end
	end := func() {      // ends the last bullet
		if content != nil {
			list[len(list)-1].Content = strings.Join(content, "\n")
		}
		content = nil
	}
	eachLine(text, func(n int, text string, l line) {
		switch {
		case l.kind == begins:
			end()
			b := playbook.Bullet{ID: playbook.BulletID(l.id), Section: section, Helpful: l.helpful, Harmful: l.harmful}
			list = append(list, rawBullet{b, Note{Line: n, Item: repairID(l.id)}})
			content = []string{l.body}
		case l.kind == header:
			end()
			section = sectionOf(text)
		case l.kind == malformed:
			end()
			r.note(Note{Line: n}, "malformed bullet: the counters are not non-negative integers; ignored")
		case content != nil && begins == plain: // without counters, every other line belongs to the bullet above it
			content = append(content, text)
		case content != nil && l.kind == other && strings.HasPrefix(text, "  "): // with counters, only an indented line does
			content = append(content, text[2:])
		case l.kind == plain:
			end()
			r.note(Note{Line: n}, "bullet without counters; ignored")
		case strings.TrimSpace(text) == "":
			end()
		case content != nil:
			end()
			r.note(Note{Line: n}, "line after a bullet without indentation; ignored")
		default:
			outside++
		}
	})
	end()
	if outside > 0 {
		r.note(Note{}, "lines outside bullets: %d; ignored", outside)
	}
	return list, nil
}

// aliases maps sections that the authors write differently in headers and in their table of slugs.
var aliases = map[string]string{
	"problem-solving_heuristics":               "problem_solving_heuristics",
	"problem-solving_heuristics_and_workflows": "problem_solving_heuristics_and_workflows",
}

// sectionOf returns the section of a header.
func sectionOf(title string) string {
	title = strings.TrimSpace(strings.TrimLeft(title, "#"))
	section := playbook.Section(strings.TrimSpace(strings.TrimRight(title, ":")))
	if alias, ok := aliases[section]; ok {
		return alias
	}
	return section
}

// headerFor returns the title of a section's header. It is in capitals, as the authors write it, if sectionOf returns the section for that
// title. For some sections no title is read as the same section; writeText then adds a Loss.
func headerFor(section string) string {
	title := strings.ReplaceAll(section, "_", " ")
	if upper := strings.ToUpper(title); sectionOf(upper) == section {
		return upper
	}
	return title
}

// writeText writes a text, one section after the other.
func (w *writer) writeText() ([]byte, error) {
	var out strings.Builder
	order, bullets := w.bySection()
	for i, section := range order {
		if i > 0 {
			out.WriteByte('\n')
		}
		title := headerFor(section)
		out.WriteString("## " + title + "\n")
		for _, b := range bullets[section] {
			fmt.Fprintf(&out, "[%s] helpful=%d harmful=%d :: %s\n", b.ID, b.Helpful, b.Harmful, w.escape(b))
			if got := sectionOf(title); got != section {
				w.addLoss(b.ID, "section", "Read returns section %q as %q", section, got)
			}
		}
	}
	return []byte(out.String()), nil
}

// escape returns the content of a bullet with indented lines, and with a backslash before each that looks like a header
// or a bullet.
func (w *writer) escape(b *playbook.Bullet) string {
	lines := strings.Split(b.Content, "\n")
	for i, text := range lines[1:] {
		trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
		if kind := classify(trimmed).kind; kind != other && kind != plain { // in a file with counters, a plain line begins no bullet
			text = text[:len(text)-len(trimmed)] + `\` + trimmed
			w.addLoss(b.ID, "content", "line %d looks like a header or a bullet; escaped with a backslash", i+2)
		}
		lines[i+1] = "  " + text
	}
	if n := len(lines); n > 1 {
		w.addLoss(b.ID, "content", "the content has %d lines; the tools of ace read only the first as the bullet", n)
	}
	return strings.Join(lines, "\n")
}
