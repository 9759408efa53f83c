package redact

import "strings"

const (
	maxBlock = 64 << 10 // bytes of a private key
	maxTitle = 48       // bytes between BEGIN and the dashes after it
)

// redactBlock redacts a private key from BEGIN to END, with line breaks or with \n. Without an END it redacts the lines
// that look like a key.
func (sc *scanner) redactBlock(i int) int {
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
	if sc.pem >= 0 && sc.pem < body { // not the next END any more; each END is searched for once, also with many BEGINs
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

// keyLines are the characters in the lines of a key, including \n.
var keyLines = alphabetOf("A-Za-z0-9+/=\\\n\r")
