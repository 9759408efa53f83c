package rules

import (
	"regexp"
	"strings"
	"sync"

	"debrief/playbook/text"
)

// Limits of the texts that a lesson quotes. The text of a recording is not trusted: all of it passes through quote.
const (
	maxQuote = 120 // bytes of an error
	maxName  = 48  // bytes of a tool, program, argument or value
)

// quote returns s as one clean line of at most limit bytes, apart from an ellipsis; see [text.Quotable].
func quote(s string, limit int) string {
	s = text.Quotable(s, limit)
	if s == "" {
		return "?"
	}
	if len(s) > limit+len(text.Ellipsis) {
		s = text.Prefix(s, limit) + text.Ellipsis
	}
	return s
}

// message is the error of a failed act.
type message struct {
	// text is the main line of the error, clean, with a placeholder for each part that differs between two reports of
	// one error. Equal texts are one error.
	text string
	line string // as the tool wrote it
}

// newMessage returns the error in the output of a failed call.
func newMessage(output string) message {
	line := strings.Clone(text.ErrorLine(output))
	return message{line: line, text: quote(replaceVarying(line), maxQuote)}
}

var (
	// missingProgram matches the errors about a missing program, module or package.
	missingProgram = regexp.MustCompile(`No module named|annot find (?:module|package)|no required module|cannot load such file|Can't (?:locate|resolve)|unresolved import|` +
		`package \S+ does not exist|command not found|executable file not found|not recognized as|sh: .*: not found$|^\S*env: .*: No such file|spawn \S+ ENOENT`)
	// missingFile matches the errors about a missing file or directory.
	missingFile = regexp.MustCompile(`[Nn]o such file or directory|ENOENT|FileNotFoundError|^File \S+ not found|(?:[Ff]ile|[Pp]ath|[Dd]irectory):? \S+ does not exist`)
)

// isSame reports whether two messages are one error. If something is missing, its name decides too.
func (m message) isSame(n message) bool {
	if missingProgram.MatchString(m.line) || missingFile.MatchString(m.line) {
		return strings.EqualFold(m.line, n.line)
	}
	return strings.EqualFold(m.text, n.text)
}

// varyingPatterns match the parts that differ between two reports of one error, with a placeholder for each. Earlier
// patterns win. The first pattern keeps its match: a numeric code identifies the error.
var varyingPatterns = []struct{ placeholder, pattern string }{
	{"", `^[45]\d\d\b|(?i:\b(?:http|status|code|errno|exit)(?:/[\d.]+)?(?:[ :=]+(?:code|status))?[ :=]*\d{1,3}\b)|\b(?:[EWFC]|TS)\d{3,4}\b`},
	{"<url>", `\b[a-z][a-z0-9+.-]*://[^\s"'<>]+`},
	{"<email>", `[\w.+-]+@[\w-]+\.[\w.-]+`},
	{"<text>", `"[^"]*"|'[^'\s]*'|` + "`[^`]*`" + `|\B'[^']*'\B`},
	{"<date>", `\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?\b`},
	{"<date>", `\b\d{1,2}[/.]\d{1,2}[/.](?:\d{2}|\d{4})\b`},
	{"<time>", `\b\d{1,2}:\d{2}(?::\d{2})?\b`},
	{"<path>", `(?:\.{0,2}/[\w.@+-]+){2,}/?|(?:[\w.@+-]+/)+[\w.@+-]+|\b[\w-]+\.(?:py|go|js|ts|json|ya?ml|md|txt|sh|toml|cfg|csv|java|rs|c|h|cpp)\b`},
	{"<id>", `\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F-]{22}\b|\b0x[0-9a-fA-F]+\b|\b[A-Za-z][A-Za-z_-]*[A-Za-z_-]?\d{3,}\w*\b|\b\w*\d\w*[A-Za-z]\w*\d\w*\b`},
	{"<n>", `\b\d+(?:[.,]\d+)*\b`},
}

var varyingPattern = sync.OnceValue(func() *regexp.Regexp {
	var kinds []string
	for _, v := range varyingPatterns {
		kinds = append(kinds, "("+v.pattern+")")
	}
	return regexp.MustCompile(strings.Join(kinds, "|"))
})

// replaceVarying replaces the parts of a text that differ from run to run, such as numbers, paths and quoted names, with
// placeholders such as <n>.
func replaceVarying(text string) string {
	var b strings.Builder
	end := 0
	for _, m := range varyingPattern().FindAllStringSubmatchIndex(text, -1) {
		for kind, v := range varyingPatterns {
			isMatch := m[2+2*kind] >= 0
			if !isMatch || v.placeholder == "" {
				continue
			}
			b.WriteString(text[end:m[0]])
			b.WriteString(v.placeholder)
			end = m[1]
			break
		}
	}
	b.WriteString(text[end:])
	return missingNames.ReplaceAllString(b.String(), "${1}<text>${2}")
}

// missingNames match the name of a missing module or command, which has no quotation marks.
var missingNames = regexp.MustCompile(`\b(No module named |command not found: )[\w.-]+|\b[\w.-]+(: (?:command not found|not found)$)`)
