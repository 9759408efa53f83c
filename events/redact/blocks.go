package redact

import "strings"

const (
	maxBlock = 64 << 10 // bytes of a private key
	maxTitle = 48       // bytes between BEGIN and the dashes after it
	maxMinus = 4        // dashes before those of BEGIN
)

// redactBlock redacts a private key from BEGIN to END, with line breaks or with \n. Without an END it redacts the lines
// that look like a key. More dashes before BEGIN are the minus of a diff.
func (sc *scanner) redactBlock(at int) int {
	i := at
	for i-at < maxMinus && strings.HasPrefix(sc.s[i:], "------") {
		i++
	}
	s := sc.s[i:]
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	if !strings.HasPrefix(s, begin) {
		return at
	}
	title, _, ok := strings.Cut(s[len(begin):min(len(s), len(begin)+maxTitle)], dashes)
	if !ok || !strings.Contains(title, "PRIVATE KEY") {
		return at
	}
	body := i + len(begin) + len(title) + len(dashes)
	if sc.pem >= 0 && sc.pem < body { // not the next END any more; each END is searched for once, also with many BEGINs
		sc.pem = -1
		if n := strings.Index(sc.s[body:], end); n >= 0 {
			sc.pem = body + n
		}
	}
	if sc.pem >= body && sc.pem-body <= maxBlock {
		to := sc.pem + len(end)
		if n := strings.Index(sc.s[to:min(len(sc.s), to+maxTitle)], dashes); n >= 0 {
			to += n + len(dashes)
		}
		return sc.replace(i, to, "private key")
	}
	return sc.replace(i, body+keyBody(sc.s[body:]), "private key")
}

// keyBody returns the length of the lines after BEGIN that look like a key, for a text that is cut before the END.
func keyBody(s string) int {
	s = s[:min(len(s), maxBlock)]
	n := 0
	if end := run(s, indents, len(s)); lineEnds(s[end:]) {
		n = end
	}
	for {
		n += run(s[n:], keyLines, len(s))
		line := lineStart(s[:n])
		if line == 0 { // still in the line of BEGIN
			return n
		}
		to := line + keyLine(s[line:])
		if to <= n {
			return n
		}
		n = to
	}
}

// keyLine returns the length of a line of a key at the start of s, without its end: a header, or a part of the key after
// a margin. It is 0 for another line.
func keyLine(s string) int {
	n := margin(s)
	for _, name := range keyHeaders {
		if strings.HasPrefix(s[n:], name) {
			if end := strings.IndexAny(s[n:min(len(s), n+maxHeader)], "\r\n\\\""); end >= 0 {
				return n + end
			}
			return min(len(s), n+maxHeader)
		}
	}
	length := run(s[n:], keyText, len(s))
	n += length
	rest := s[n:]
	if length >= minKey || lineEnds(strings.TrimLeft(rest, " \t")) {
		return n + run(rest, indents, len(rest))
	}
	if length > 0 && (strings.IndexByte("\"'`\\", rest[0]) >= 0 || strings.HasPrefix(rest, "...") || strings.HasPrefix(rest, "…")) {
		return n // the end of a string, or the mark of a cut
	}
	return 0
}

// margin returns the length of what precedes the text of a line: an indentation, the marks of a quote or a comment, the
// number of the line, the minus of a diff.
func margin(s string) int {
	s = s[:min(len(s), maxMargin)]
	if len(s) > 1 && s[0] == '-' && keyText[s[1]] {
		return 1
	}
	n := skipMarks(s, 0)
	number := n
	for number < len(s) && isDigit(s[number]) {
		number++
	}
	if number == n {
		return n
	}
	for _, mark := range [...]string{"→", "│", "-"} {
		if strings.HasPrefix(s[number:], mark) {
			return skipMarks(s, number+len(mark))
		}
	}
	if after := skipMarks(s, number); after > number {
		return after
	}
	return n // the digits are a part of the key
}

// skipMarks returns the position after spaces, tabs and other characters of a margin.
func skipMarks(s string, i int) int {
	for {
		i += run(s[i:], margins, len(s))
		if !strings.HasPrefix(s[i:], `\t`) {
			return i
		}
		i += len(`\t`)
	}
}

// lineStart returns the position after the last line break in s, or 0.
func lineStart(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '\n' {
			return i + 1
		}
		if isEscapedBreak(s[i:]) {
			return i + 2
		}
	}
	return 0
}

// lineEnds reports whether s is at the end of a line.
func lineEnds(s string) bool {
	return s == "" || s[0] == '\n' || s[0] == '\r' || isEscapedBreak(s)
}

// isEscapedBreak reports whether s begins with \n or \r.
func isEscapedBreak(s string) bool {
	return len(s) > 1 && s[0] == '\\' && (s[1] == 'n' || s[1] == 'r')
}

const (
	maxMargin = 64  // bytes of a margin
	maxHeader = 256 // bytes of a header
)

// keyHeaders are the names of the headers between BEGIN and the key.
var keyHeaders = []string{"Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Charset:", "Hash:"}

var (
	keyText  = alphabetOf("A-Za-z0-9+/=")
	keyLines = alphabetOf("A-Za-z0-9+/=\\\n\r") // the lines of a key without margins, including \n
	margins  = alphabetOf(" \t>|:#*")
	indents  = alphabetOf(" \t")
)
