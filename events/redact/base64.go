package redact

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

const (
	minBase64 = 20       // characters: less holds no secret that is worth the time
	maxBase64 = 64 << 10 // characters of one text that are decoded
)

var (
	anyBase64 = alphabetOf("A-Za-z0-9+/_-")
	plus64    = alphabetOf("A-Za-z0-9+/")
)

// base64 looks for base64 of a text that holds a secret and replaces all of it.
func (sc *scanner) base64() {
	s := sc.s
	for i := 0; i+minBase64 <= len(s); {
		// The last byte that a run beginning at i needs tells whether there can be one: most text is passed in large steps.
		last := i + minBase64 - 1
		for last >= i && anyBase64[s[last]] {
			last--
		}
		if last >= i {
			i = last + 1
			continue
		}
		end := i + run(s[i:], anyBase64, len(s))
		switch part := s[i:end]; {
		case !strings.ContainsAny(part, "_-"):
			sc.base64In(i, end, plus64, base64.RawStdEncoding)
		case !strings.ContainsAny(part, "+/"):
			sc.base64In(i, end, url64, base64.RawURLEncoding)
		default: // such as a path with one in it
			sc.base64In(i, end, plus64, base64.RawStdEncoding)
			sc.base64In(i, end, url64, base64.RawURLEncoding)
		}
		if sc.first && len(sc.edits) > 0 {
			return
		}
		i = end
	}
}

// base64In looks at the words of s[i:end] in an alphabet.
func (sc *scanner) base64In(i, end int, a *alphabet, enc *base64.Encoding) {
	for i < end {
		n := run(sc.s[i:end], a, end-i)
		if n >= minBase64 {
			if kind := kindIn(sc.s[i:i+n], enc); kind != "" {
				sc.replace(i, i+n+run(sc.s[i+n:], padding, 2), kind)
			}
		}
		i += n + 1
	}
}

var padding = alphabetOf("=")

// kindIn is the kind of the secret in the text that a word is base64 of.
func kindIn(word string, enc *base64.Encoding) string {
	word = word[:min(len(word), maxBase64)]
	word = word[:len(word)-odd(len(word))]
	var buf [48]byte
	for _, n := range []int{4, 64} { // nearly all binary data ends here
		part := word[:min(len(word)&^3, n)]
		if k, err := enc.Decode(buf[:], []byte(part)); err != nil || !printable(buf[:k]) {
			return ""
		}
	}
	text, err := enc.DecodeString(word)
	if err != nil || !printable(text) || !utf8.Valid(text) {
		return ""
	}
	if edits := scan(scanner{s: string(text), first: true, deepest: true}); len(edits) > 0 {
		return edits[0].kind
	}
	return ""
}

// odd is how many characters at the end of a word of n stand for no byte.
func odd(n int) int {
	if n%4 == 1 {
		return 1
	}
	return 0
}

// printable reports whether bytes can be text.
func printable(text []byte) bool {
	for _, c := range text {
		if c < ' ' && !isSpace(c) || c == 0x7f {
			return false
		}
	}
	return true
}
