package redact

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

const (
	minBase64 = 20       // minimum characters of a word: a shorter one has no room for a secret
	maxBase64 = 64 << 10 // characters of a word that are decoded, at most
)

var (
	anyBase64 = alphabetOf("A-Za-z0-9+/_-")
	plus64    = alphabetOf("A-Za-z0-9+/")
)

// redactBase64 redacts each base64 word whose decoded text contains a secret.
func (sc *scanner) redactBase64() {
	s := sc.s
	for i := 0; i+minBase64 <= len(s); {
		// A word at i has at least minBase64 characters. Look among them, from the last one, for a character that is not base64, and
		// continue after it: so most text is skipped in large steps.
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
			sc.redactBase64Words(i, end, plus64, base64.RawStdEncoding)
		case !strings.ContainsAny(part, "+/"):
			sc.redactBase64Words(i, end, url64, base64.RawURLEncoding)
		default: // such as a path that contains base64
			sc.redactBase64Words(i, end, plus64, base64.RawStdEncoding)
			sc.redactBase64Words(i, end, url64, base64.RawURLEncoding)
		}
		if sc.first && len(sc.edits) > 0 {
			return
		}
		i = end
	}
}

// redactBase64Words redacts the words of s[i:end] in an alphabet.
func (sc *scanner) redactBase64Words(i, end int, a *alphabet, enc *base64.Encoding) {
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

// kindIn returns the kind of the secret in a base64 word, or "".
func kindIn(word string, enc *base64.Encoding) string {
	word = word[:min(len(word), maxBase64)]
	if len(word)%4 == 1 { // the last character encodes no complete byte
		word = word[:len(word)-1]
	}
	var buf [48]byte
	for _, n := range []int{4, 64} { // nearly all binary data is recognized by its first characters
		part := word[:min(len(word)&^3, n)]
		if k, err := enc.Decode(buf[:], []byte(part)); err != nil || !isPrintable(buf[:k]) {
			return ""
		}
	}
	text, err := enc.DecodeString(word)
	if err != nil || !isPrintable(text) || !utf8.Valid(text) {
		return ""
	}
	if edits := (scanner{s: string(text), first: true, isLastView: true}).findWithoutDecoding(); len(edits) > 0 {
		return edits[0].kind
	}
	return ""
}

// isPrintable reports whether bytes may be text.
func isPrintable(text []byte) bool {
	for _, c := range text {
		if c < ' ' && !isSpace(c) || c == 0x7f {
			return false
		}
	}
	return true
}
