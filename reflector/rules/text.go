package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"debrief/playbook/text"
)

// The text of a trace is not trusted. All of it that enters a finding passes through clean, which returns one line of
// limited length without the characters that have a meaning in a playbook or in the text of a finding.

// clean returns s as a part of a finding's text; see [text.Quotable]. It returns "?" for an empty text.
func clean(s string, n int) string { return cmp.Or(text.Quotable(s, n), "?") }

// key returns the key of a finding, at most maxKey bytes. Parts are escaped, so different parts give different keys. A
// long key ends with a hash of the whole key.
func key(rule string, parts ...string) string {
	k := rule
	for _, p := range parts {
		k += "/" + keyPart.Replace(p)
	}
	printable := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(k, "?"))
	if printable == k && len(k) <= maxKey {
		return k
	}
	sum := sha256.Sum256([]byte(k))
	return text.Prefix(printable, maxKey-17) + "~" + hex.EncodeToString(sum[:8])
}

var keyPart = strings.NewReplacer("%", "%25", "/", "%2F", "~", "%7E")

// quoteError returns the error in an output as findings quote it: its main line, with the parts that differ from run
// to run replaced. So the same error has the same quote in every run.
func quoteError(output string) string { return clean(replaceVarying(errorLine(output)), maxQuote) }

// compileOnce returns a function that compiles an expression at its first call, because most commands need none.
func compileOnce(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// errorWords matches a line that names an error.
var errorWords = compileOnce(`(?i)error|exception|fail|not found|no such|denied|invalid|illegal|cannot|can't|could ?n[o']t|unable|not (?:enough|available|allowed)|timed? ?out|refused|fatal|missing`)

// errorLine returns the line of an output with the error: the error or message of a JSON object, the line behind the
// indented ones of a traceback, the first line that names an error, or the first line. It reads only both ends of a
// long output.
func errorLine(output string) string {
	const end, longest = 16 << 10, 512 // bytes, to limit the time; longest is well over maxQuote
	if len(output) > 2*end {
		output = output[:end] + "\n" + output[len(output)-end:]
	}
	output = strings.TrimSpace(output)
	if field, ok := errorField(output, 2); ok {
		output = field
	}
	inTrace, first := false, ""
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line[:min(len(line), longest)], "\r\n\t ")
		switch {
		case strings.HasPrefix(line, "Traceback (most recent call last)"):
			inTrace = true
		case line == "" || inTrace && line[0] == ' ':
		case inTrace || errorWords().MatchString(line):
			return line
		case first == "":
			first = line
		}
	}
	return first
}

// errorField returns the error of {"error": "…"}, {"error": {"message": "…"}}, {"message": "…"} or {"detail": "…"}.
func errorField(output string, depth int) (string, bool) {
	if depth == 0 || !strings.HasPrefix(output, "{") {
		return "", false
	}
	var object struct{ Error, Message, Detail json.RawMessage }
	if json.Unmarshal([]byte(output), &object) != nil {
		return "", false
	}
	for _, raw := range []json.RawMessage{object.Error, object.Message, object.Detail} {
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return text, true
		}
		if text, ok := errorField(string(raw), depth-1); ok {
			return text, true
		}
	}
	return "", false
}

// varyingPatterns match the parts that differ between two reports of one error, with a placeholder for each. Earlier
// patterns win. The first pattern keeps its match: a numeric code identifies the error.
var varyingPatterns = []struct{ placeholder, pattern string }{
	{"", `(?i:\b(?:http|status|code|errno|exit)(?:/[\d.]+)?(?:[ :=]+(?:code|status))?[ :=]*\d{1,3}\b)`},
	{"<url>", `\b[a-z][a-z0-9+.-]*://[^\s"'<>]+`},
	{"<email>", `[\w.+-]+@[\w-]+\.[\w.-]+`},
	{"<text>", `"[^"]*"|'[^'\s]*'|` + "`[^`]*`" + `|\B'[^']*'\B`},
	{"<date>", `\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?\b`},
	{"<date>", `\b\d{1,2}[/.]\d{1,2}[/.](?:\d{2}|\d{4})\b`},
	{"<time>", `\b\d{1,2}:\d{2}(?::\d{2})?\b`},
	{"<path>", `(?:\.{0,2}/[\w.@+-]+){2,}/?|(?:[\w.@+-]+/){2,}[\w.@+-]+`},
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

// replaceVarying replaces the varying parts of a text with placeholders.
func replaceVarying(text string) string {
	var b strings.Builder
	end := 0
	for _, m := range varyingPattern().FindAllStringSubmatchIndex(text, -1) {
		for kind, v := range varyingPatterns {
			if m[2+2*kind] < 0 || v.placeholder == "" {
				continue
			}
			b.WriteString(text[end:m[0]])
			b.WriteString(v.placeholder)
			end = m[1]
			break
		}
	}
	b.WriteString(text[end:])
	return b.String()
}
