package reflector

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text of a trace is anybody's. What of it gets into a bullet is one line of bounded length without the characters that
// mean something to a playbook or to a finding's text: clean is the only way in.

// clean is s as a part of a finding's text: one line, at most n runes and a mark where it was cut, no control or invisible characters, no
// backticks, quotes or braces that could end the quotation or pass for a placeholder.
func clean(s string, n int) string {
	var b strings.Builder
	left, space := n, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case !unicode.IsPrint(r) || r == utf8.RuneError:
			continue
		}
		if left == 0 || left == 1 && space {
			b.WriteString("…")
			break
		}
		if space {
			b.WriteByte(' ')
			left--
		}
		b.WriteRune(plain(r))
		left--
		space = false
	}
	if b.Len() == 0 {
		return "?"
	}
	return b.String()
}

func plain(r rune) rune {
	switch r {
	case '`', '"', '“', '”':
		return '\''
	case '{':
		return '('
	case '}':
		return ')'
	}
	return r
}

// key is a finding's key of at most maxKey bytes. Parts cannot run into one another, and what does not fit gives way to
// a hash of the whole, so that different things keep different keys.
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
	end := min(len(printable), maxKey-17)
	for end < len(printable) && !utf8.RuneStart(printable[end]) {
		end--
	}
	return printable[:end] + "~" + hex.EncodeToString(sum[:8])
}

var keyPart = strings.NewReplacer("%", "%25", "/", "%2F", "~", "%7E")

// quoteError is an error as a finding quotes it: the line that says what is wrong, with what differs from run to run
// replaced, so that the same error reads the same in every run.
func quoteError(output string) string { return clean(general(errorLine(output)), maxQuote) }

// speaks is a line that names an error.
var speaks = regexp.MustCompile(`(?i)error|exception|fail|not found|no such|denied|invalid|illegal|cannot|can't|could ?n[o']t|unable|not (?:enough|available|allowed)|timed? ?out|refused|fatal|missing`)

// errorLine is the line of an output that says what is wrong: of a JSON object its error or message, of a traceback the
// line behind the indented ones, else the first line that names an error, else the first line. Of a long output it sees
// both ends.
func errorLine(output string) string {
	const end, longest = 16 << 10, 512 // an output of any length costs a bounded time; longest is well over maxQuote
	if len(output) > 2*end {
		output = output[:end] + "\n" + output[len(output)-end:]
	}
	output = strings.TrimSpace(output)
	if said, ok := errorField(output, 2); ok {
		output = said
	}
	inTrace, first := false, ""
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line[:min(len(line), longest)], "\r\n\t ")
		switch {
		case strings.HasPrefix(line, "Traceback (most recent call last)"):
			inTrace = true
		case line == "" || inTrace && line[0] == ' ':
		case inTrace || speaks.MatchString(line):
			return line
		case first == "":
			first = line
		}
	}
	return first
}

// errorField is the error that a tool wrote as {"error": "…"}, {"error": {"message": "…"}}, {"message": "…"} or
// {"detail": "…"}.
func errorField(output string, depth int) (string, bool) {
	if depth == 0 || !strings.HasPrefix(output, "{") {
		return "", false
	}
	var said struct{ Error, Message, Detail json.RawMessage }
	if json.Unmarshal([]byte(output), &said) != nil {
		return "", false
	}
	for _, raw := range []json.RawMessage{said.Error, said.Message, said.Detail} {
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

// varying is what differs between two reports of one error, with the placeholder for each kind; earlier kinds win. The
// first kind stays: a number that is a code is the error.
var varying = []struct{ placeholder, pattern string }{
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

var varies = func() *regexp.Regexp {
	var kinds []string
	for _, v := range varying {
		kinds = append(kinds, "("+v.pattern+")")
	}
	return regexp.MustCompile(strings.Join(kinds, "|"))
}()

// general is text with placeholders for what varies.
func general(text string) string {
	var b strings.Builder
	end := 0
	for _, m := range varies.FindAllStringSubmatchIndex(text, -1) {
		for kind, v := range varying {
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
