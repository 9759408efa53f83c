package redact

import "strings"

const (
	maxBlock  = 64 << 10 // bytes of a private key
	maxTitle  = 48       // bytes between BEGIN or END and the dashes after it
	maxMinus  = 4        // dashes before those of BEGIN or END: the minus of a diff
	maxGap    = 128      // bytes between two parts of a key
	maxHeader = 256      // bytes of a header

	maxLineNumber = 6 // digits of the number of a line
)

// keyHeaders are the names of the headers between BEGIN and the key.
var keyHeaders = []string{"Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Charset:", "Hash:"}

var (
	gapChars = alphabetOf(" \t\n\r\"'`,.>|:#*-")
	decimal  = alphabetOf("0-9")
)

// redactBlock redacts a private key from BEGIN to END. If the text has only one of the two, it redacts the parts of the key after
// BEGIN or before END.
func (sc *scanner) redactBlock(at int) int {
	i := at
	for i-at < maxMinus && strings.HasPrefix(sc.s[i:], "------") {
		i++
	}
	const begin, end = "-----BEGIN ", "-----END "
	if n := keyMarker(sc.s[i:], end); n > 0 {
		return sc.redactBeforeEnd(i, i+n)
	}
	n := keyMarker(sc.s[i:], begin)
	if n == 0 {
		return at
	}
	body := i + n
	if sc.pem >= 0 && sc.pem < body { // find the next END; each one is searched for once, also with many BEGINs
		sc.pem = -1
		if n := strings.Index(sc.s[body:], end); n >= 0 {
			sc.pem = body + n
		}
	}
	if sc.pem >= body && sc.pem-body <= maxBlock {
		to := sc.pem + len(end)
		if n := strings.Index(sc.s[to:min(len(sc.s), to+maxTitle)], "-----"); n >= 0 {
			to += n + len("-----")
		}
		return sc.replace(i, to, "private key")
	}
	return sc.replace(i, body+keyBody(sc.s[body:]), "private key")
}

// keyMarker returns the length of the line "-----BEGIN … PRIVATE KEY …-----" or "-----END …" at the start of s, or 0.
func keyMarker(s, begin string) int {
	if !strings.HasPrefix(s, begin) {
		return 0
	}
	title, _, ok := strings.Cut(s[len(begin):min(len(s), len(begin)+maxTitle)], "-----")
	if !ok || !strings.Contains(title, "PRIVATE KEY") {
		return 0
	}
	return len(begin) + len(title) + len("-----")
}

// redactBeforeEnd redacts the parts of a key before its END, which is s[end:to]. The text is cut after the BEGIN, so the first part may be
// short only at the start of the text.
func (sc *scanner) redactBeforeEnd(end, to int) int {
	from := max(sc.lastEnd, end-maxBlock)
	sc.lastEnd = to
	s := sc.s[from:end]
	first := -1 // the first part of the key
	for i := gap(s); i < len(s); {
		n, isShort := keyPart(s[i:])
		next := i + max(n, 1)
		next += gap(s[next:])
		switch {
		case n > 0 && (!isShort || from+i == 0):
			if first < 0 {
				first = i
			}
		case n == 0 || next < len(s): // not the last part of the key, which may be short too
			first = -1
		}
		i = next
	}
	if first < 0 {
		return to
	}
	return sc.replace(from+first, to, "private key")
}

// keyBody returns the length of the parts of a key after BEGIN. The text is cut before the END. The last part may be short.
func keyBody(s string) int {
	s = s[:min(len(s), maxBlock)]
	for end := 0; ; {
		from := end + gap(s[end:])
		n, isShort := keyPart(s[from:])
		to := from + n
		switch between := s[end:from]; {
		case n == 0:
			return end
		case !isShort:
			end = to
		default:
			continues := joinsLines(between) || end > 0 && strings.Trim(between, " \t") == ""
			if continues && isCutOrLineEnd(s[to:]) {
				return to
			}
			return end
		}
	}
}

// keyPart returns the length of a part of a key at the start of s: the text up to the end of the line, or a header. A short part may be
// a word that does not belong to the key.
func keyPart(s string) (n int, isShort bool) {
	for _, name := range keyHeaders {
		if strings.HasPrefix(s, name) {
			s = s[:min(len(s), maxHeader)]
			if end := strings.IndexAny(s, "\r\n\\\""); end >= 0 {
				return end, false
			}
			return len(s), false
		}
	}
	n = run(s, std64, len(s))
	return n, n < minKey
}

// gap returns the length of a separator between two parts of a key: spaces, line breaks, margins, and the end and start of string literals.
func gap(s string) int {
	i := 0
	for i < min(len(s), maxGap) {
		n := gapUnit(s[i:])
		if n == 0 {
			break
		}
		i += n
	}
	return i
}

// gapUnit returns the length of a unit of a gap at the start of s: a character, an escape such as \n, or the number of a line.
func gapUnit(s string) int {
	if n := gapMark(s); n > 0 {
		return n
	}
	digits := run(s, decimal, maxLineNumber)
	if digits > 0 && gapMark(s[digits:]) > 0 && s[digits] != '\n' {
		return digits
	}
	return 0
}

// gapMark is gapUnit without the numbers of lines.
func gapMark(s string) int {
	switch {
	case s == "":
		return 0
	case gapChars[s[0]]:
		return 1
	case isEscapedSpace(s):
		return 2
	case s[0] == '\\':
		return 1
	case s[0] == '+' && len(s) > 1 && !std64[s[1]]: // joins string literals
		return 1
	}
	for _, arrow := range []string{"→", "│"} { // between the number of a line and its text
		if strings.HasPrefix(s, arrow) {
			return len(arrow)
		}
	}
	return 0
}

// joinsLines reports whether a gap goes on to the next line, and neither to the next item of a list nor to a text after a string.
func joinsLines(gap string) bool {
	quotes := strings.Count(gap, `"`) + strings.Count(gap, "'") + strings.Count(gap, "`")
	return quotes%2 == 0 && !strings.Contains(gap, ",") &&
		(strings.ContainsAny(gap, "\n\r") || strings.Contains(gap, `\n`) || strings.Contains(gap, `\r`))
}

// isCutOrLineEnd reports whether s begins with the end of a line or of a string, or with the mark of a cut.
func isCutOrLineEnd(s string) bool {
	s = strings.TrimLeft(s, " \t")
	return s == "" || strings.IndexByte("\n\r\"'`\\", s[0]) >= 0 || strings.HasPrefix(s, "...") || strings.HasPrefix(s, "…")
}
