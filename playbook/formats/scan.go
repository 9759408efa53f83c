package formats

import "strings"

// block is a header, a bullet with all its lines, or a line that resembles a bullet.
type block struct {
	line
	lineNo int    // number of the first line, from 1
	body   string // of a bullet: its content before cleaning
	note   string // of a line that resembles a bullet: the reason why it is not one
}

// scan splits a text into blocks in linear time. Outside is the number of other lines that are not blank and belong to no
// bullet.
func scan(text string, f Format) (blocks []block, outside int) {
	s := scanner{format: f, text: text}
	at := 0
	for raw := range strings.Lines(text) {
		s.starts = append(s.starts, at)
		at += len(raw)
	}
	s.starts = append(s.starts, at)
	if f == AppWorld && strings.Contains(text, "```") {
		s.findCode()
	}
	for i := 0; i < s.count(); {
		i = s.step(i)
	}
	return s.blocks, s.outside
}

type scanner struct {
	format Format
	text   string
	starts []int // offset of each line, and of the end

	blocks      []block
	outside     int
	afterBullet bool // the line before belongs to a bullet

	// For each line, the index of the next line, itself included, that closes a code block (closes) or certainly begins a
	// bullet (breaks). Nil in a text without code.
	closes, breaks []int
}

func (s *scanner) count() int { return len(s.starts) - 1 }

// line returns a line without its line end.
func (s *scanner) line(i int) string {
	return strings.TrimSuffix(strings.TrimSuffix(s.text[s.starts[i]:s.starts[i+1]], "\n"), "\r")
}

// step reads the block that begins at line i and returns the index of the line after it.
func (s *scanner) step(i int) (next int) {
	text := s.line(i)
	l := classify(text, s.format)
	b := block{line: l, lineNo: i + 1}
	next = i + 1
	switch {
	case l.kind == bullet:
		next = s.bulletEnd(i, l.body)
		b.body = s.content(l.body, i+1, next)
	case l.kind == header:
	case l.kind == malformed:
		b.note = "malformed bullet: the counters are not non-negative integers"
	case s.format == ACE && classify(text, AppWorld).kind == bullet:
		b.note = "bullet without counters"
	case s.afterBullet && l.kind == other:
		b.note = "line after a bullet without indentation"
	case l.kind == other:
		s.outside++
	}
	if l.kind == bullet || l.kind == header || b.note != "" {
		s.blocks = append(s.blocks, b)
	}
	s.afterBullet = l.kind == bullet
	return next
}

// content joins the content of a bullet's first line and of the lines from i to end.
func (s *scanner) content(first string, i, end int) string {
	if i == end {
		return first
	}
	var out strings.Builder
	out.WriteString(first)
	for ; i < end; i++ {
		out.WriteByte('\n')
		if s.format == ACE {
			out.WriteString(s.line(i)[2:])
		} else {
			out.WriteString(s.line(i))
		}
	}
	return out.String()
}

// bulletEnd returns the index after the last line of the bullet that begins on line i with body.
func (s *scanner) bulletEnd(i int, body string) int {
	if s.format == ACE {
		for i++; i < s.count() && strings.HasPrefix(s.line(i), "  "); i++ {
			if k := classify(s.line(i), ACE).kind; k != other && k != blank {
				break
			}
		}
		return i
	}
	end := s.codeEnd(i, body) + 1
	for i = end; i < s.count(); i++ {
		text := s.line(i)
		switch classify(text, AppWorld).kind {
		case blank: // part of the bullet only if another line of the bullet follows
		case other:
			i = s.codeEnd(i, text)
			end = i + 1
		default:
			return end
		}
	}
	return end
}

// codeEnd returns the line that closes the code block opened by text on line i. It returns i if text opens none.
func (s *scanner) codeEnd(i int, text string) int {
	if s.closes == nil || !opensCode(text) {
		return i
	}
	if c := s.closes[i+1]; c < s.count() && c < s.breaks[i+1] {
		return c
	}
	return i
}

// opensCode reports whether a line ends with backquotes that open a code block. Backquotes that close code on the same
// line do not count.
func opensCode(text string) bool {
	return codeOpens.MatchString(text) && strings.Count(text, "```")%2 == 1
}

func closesCode(text string) bool { return strings.TrimSpace(text) == "```" }

// findCode fills closes and breaks.
func (s *scanner) findCode() {
	n := s.count()
	s.closes, s.breaks = make([]int, n+1), make([]int, n+1)
	s.closes[n], s.breaks[n] = n, n
	for i := n - 1; i >= 0; i-- {
		s.closes[i], s.breaks[i] = s.closes[i+1], s.breaks[i+1]
		text := s.line(i)
		if closesCode(text) {
			s.closes[i] = i
		}
		if l := classify(text, AppWorld); l.numbered() {
			s.breaks[i] = i
		}
	}
}
