package formats

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"debrief/playbook"
)

// The lines of the text formats; see the package comment for the rules.
var (
	countedLine   = regexp.MustCompile(`^\[([^\]]+)\]\s*helpful=(\d+)\s*harmful=(\d+)\s*::\s*`)
	malformedLine = regexp.MustCompile(`^\[[^\]]+\]\s*(?:helpful|harmful)=`)
	plainLine     = regexp.MustCompile(`^\[(\pL[\pL\pN_.:/-]+)\](?:[ \t]+|$)`)
	numberedID    = regexp.MustCompile(`-\d+$`)
	codeOpens     = regexp.MustCompile("(?:^|[^`\\\\])```[A-Za-z0-9_+.#-]*$")
)

type kind int

const (
	other     kind = iota
	blank          // only white space
	header         // begins a section
	bullet         // begins a bullet
	malformed      // begins like a bullet, with invalid counters
)

// line is one parsed line of a text.
type line struct {
	kind             kind
	id, body         string // of a bullet; body is the part of the content on this line
	title            string // of a header
	counted          bool   // the bullet has counters
	helpful, harmful int
}

// numbered reports whether the line certainly begins a bullet: it has counters, or an id with a number.
func (l *line) numbered() bool {
	return l.kind == bullet && (l.counted || numberedID.MatchString(l.id))
}

func classify(text string, f Format) line {
	trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
	indented := len(trimmed) < len(text)
	switch {
	case trimmed == "":
		return line{kind: blank}
	case strings.HasPrefix(trimmed, "##") && (f == ACE || !indented):
		return line{kind: header, title: trimmed}
	case trimmed[0] != '[':
		return line{}
	}
	if m := countedLine.FindStringSubmatch(trimmed); m != nil {
		helpful, err1 := strconv.Atoi(m[2])
		harmful, err2 := strconv.Atoi(m[3])
		if err1 != nil || err2 != nil {
			return line{kind: malformed}
		}
		return line{kind: bullet, id: m[1], body: trimmed[len(m[0]):], counted: true, helpful: helpful, harmful: harmful}
	}
	if malformedLine.MatchString(trimmed) {
		return line{kind: malformed}
	}
	if f == AppWorld && !indented {
		if m := plainLine.FindStringSubmatch(trimmed); m != nil && (len(m[0]) < len(trimmed) || numberedID.MatchString(m[1])) {
			return line{kind: bullet, id: m[1], body: trimmed[len(m[0]):]}
		}
	}
	return line{}
}

// defaultSection returns the section of bullets above the first header.
func defaultSection(f Format) string {
	if f == ACE {
		return "general"
	}
	return "others"
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

// headerFor returns the title of a section's header, in capitals if sectionOf then returns the same section. The authors
// write capitals. For some sections sectionOf does not return the same section for any title.
func headerFor(section string) string {
	title := strings.ReplaceAll(section, "_", " ")
	if upper := strings.ToUpper(title); sectionOf(upper) == section {
		return upper
	}
	return title
}
