package redact

import "strings"

const (
	maxBlock = 64 << 10 // bytes of a private key
	maxTitle = 48       // bytes between BEGIN and the dashes behind it
)

// block looks for a private key between its BEGIN and END, with line breaks or with \n. Of one that is cut off, what
// looks like its lines goes.
func (sc *scanner) block(i int) int {
	s := sc.s[i:]
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	if !strings.HasPrefix(s, begin) {
		return i
	}
	title, _, ok := strings.Cut(s[len(begin):min(len(s), len(begin)+maxTitle)], dashes)
	if !ok || !strings.Contains(title, "PRIVATE KEY") {
		return i
	}
	body := i + len(begin) + len(title) + len(dashes)
	if sc.pem >= 0 && sc.pem < body {
		sc.pem = -1
		if at := strings.Index(sc.s[body:], end); at >= 0 {
			sc.pem = body + at
		}
	}
	if sc.pem >= body && sc.pem-body <= maxBlock {
		to := sc.pem + len(end)
		if at := strings.Index(sc.s[to:min(len(sc.s), to+maxTitle)], dashes); at >= 0 {
			to += at + len(dashes)
		}
		return sc.replace(i, to, "private key")
	}
	to := body + run(sc.s[body:], keyLines, maxBlock)
	return sc.replace(i, to, "private key")
}

// keyLines is what the lines of a key are made of, \n included.
var keyLines = alphabetOf("A-Za-z0-9+/=\\\n\r")
