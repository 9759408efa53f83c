package redact

import (
	"slices"
	"strings"
)

// shape is a known format of a key: a prefix, and a number of bytes of an alphabet after it.
type shape struct {
	prefix   string // in shapeTable several, with spaces between them
	alphabet *alphabet
	min, max int // bytes after the prefix; max 0 is unlimited
	// random requires a part that looks random, for prefixes that may also precede normal words with dashes.
	random bool
	kind   string
}

type alphabet [256]bool

// alphabetOf returns the alphabet of the characters. "a-z" is a range.
func alphabetOf(chars string) *alphabet {
	a := new(alphabet)
	for i := 0; i < len(chars); i++ {
		if i+2 < len(chars) && chars[i+1] == '-' {
			for c := int(chars[i]); c <= int(chars[i+2]); c++ {
				a[c] = true
			}
			i += 2
			continue
		}
		a[chars[i]] = true
	}
	return a
}

var (
	alnum     = alphabetOf("A-Za-z0-9")
	wordChars = alphabetOf("A-Za-z0-9_")
	url64     = alphabetOf("A-Za-z0-9_-")
	dotted    = alphabetOf("A-Za-z0-9_.-")
	std64     = alphabetOf("A-Za-z0-9+/=")
	lowerHex  = alphabetOf("a-f0-9")
	upperNum  = alphabetOf("A-Z0-9")
	base32    = alphabetOf("A-Z2-7")
	webhook   = alphabetOf("A-Za-z0-9_/-")
	hexDash   = alphabetOf("a-f0-9-")
	hexWord   = alphabetOf("a-f0-9_")
	lowerNum  = alphabetOf("a-z0-9")
	upperDash = alphabetOf("A-Z0-9-")
	mixed64   = alphabetOf("A-Za-z0-9+/_=-")

	dashed   = alphabetOf("A-Za-z0-9-")
	mixedDot = alphabetOf("A-Za-z0-9+/_.=-")

	url64Padded = alphabetOf("A-Za-z0-9_=-")
	dotPadded   = alphabetOf("A-Za-z0-9_.=-")
)

// shapes has a shape for each prefix in shapeTable.
var shapes = func() (all []shape) {
	for _, sh := range shapeTable {
		for prefix := range strings.FieldsSeq(sh.prefix) {
			sh.prefix = prefix
			all = append(all, sh)
		}
	}
	return all
}()

// shapesAt contains the shapes by the hash of their first three bytes, so that most words are skipped after one look. A nil shape
// stands for the keys of several parts, see redactComposed.
var shapesAt = func() (at [1 << 12][]*shape) {
	add := func(prefix string, sh *shape) {
		if h := prefixHash(prefix); !slices.Contains(at[h], sh) {
			at[h] = append(at[h], sh)
		}
	}
	addAll := func(prefix string, sh *shape) {
		if len(prefix) >= 3 {
			add(prefix, sh)
			return
		}
		for c := range 128 {
			add(prefix+string(rune(c)), sh)
		}
	}
	for i := range shapes {
		addAll(shapes[i].prefix, &shapes[i])
	}
	for _, p := range []string{"eyJ", "SG.", "Bea", "bea", "BEA", "SO", "SA", "SU", "SN", "SC", "SX", "mac", "def"} { // S?: seeds of NATS; machine and default in .netrc
		addAll(p, nil)
	}
	return at
}()

func prefixHash(s string) int {
	return (int(s[0])*61 ^ int(s[1])*7 ^ int(s[2])<<5) & (1<<12 - 1)
}

// redactShape redacts a key at the start of a word.
func (sc *scanner) redactShape(i int) int {
	s := sc.s[i:]
	if len(s) <= 8 { // shorter than any key
		return i
	}
	for _, sh := range shapesAt[prefixHash(s)] {
		if sh == nil {
			return sc.redactComposed(i)
		}
		if !strings.HasPrefix(s, sh.prefix) {
			continue
		}
		n := run(s[len(sh.prefix):], sh.alphabet, 4096)
		body := s[len(sh.prefix) : len(sh.prefix)+n]
		if sh.alphabet == dotted || sh.alphabet == dotPadded || sh.alphabet == webhook { // a full stop ends a sentence
			body = strings.TrimRight(body, ".-/")
			n = len(body)
		}
		end := len(sh.prefix) + n
		wordGoesOn := end < len(s) && classes[s[end]]&word != 0
		isTooLong := sh.max > 0 && (n > sh.max || wordGoesOn) // longer than any key of this shape
		if n < sh.min || isTooLong {
			continue
		}
		if sh.random && !looksRandom(body, 10) {
			continue
		}
		return sc.replace(i-sc.bytesBefore(i, sh), i+end, sh.kind)
	}
	if isDigit(s[0]) {
		return sc.redactComposed(i)
	}
	return i
}

// bytesBefore returns the number of bytes before the prefix that belong to the key.
func (sc *scanner) bytesBefore(i int, sh *shape) int {
	if sh.prefix != "atlasv1." || i == 0 || sc.s[i-1] != '.' {
		return 0
	}
	n := 1
	for n < 15 && i-n-1 >= sc.floor && alnum[sc.s[i-n-1]] {
		n++
	}
	return n
}

// redactAzure redacts a client secret of Azure, at its tilde: three bytes, a digit and "Q~" before 31 to 34 bytes.
func (sc *scanner) redactAzure(i int) int {
	from := i - 5
	if from < sc.floor {
		return i
	}
	if run(sc.s[from:], azureChars, 3) < 3 || !isDigit(sc.s[i-2]) || sc.s[i-1] != 'Q' {
		return i
	}
	escaped := from > 1 && sc.s[from-2] == '\\' // the byte before the secret is the n of an escaped line break
	if from > 0 && azureChars[sc.s[from-1]] && !escaped {
		return i
	}
	rest := sc.s[i+1:]
	rest = strings.TrimRight(rest[:run(rest, azureChars, 64)], ".")
	if len(rest) < 31 || len(rest) > 34 || !looksRandom(rest, 8) {
		return i
	}
	return sc.replace(from, i+1+len(rest), "azure secret")
}

var azureChars = alphabetOf("A-Za-z0-9_~.-")

// redactComposed redacts keys that have several parts.
func (sc *scanner) redactComposed(i int) int {
	s := sc.s[i:]
	switch c := s[0]; {
	case isDigit(c):
		return sc.redactNumbered(i)
	case c == 'e' && strings.HasPrefix(s, "eyJ"):
		if n := parts(s, 16, 4, 16); n > 0 {
			return sc.replace(i, i+n, "jwt")
		}
	case c == 'S' && strings.HasPrefix(s, "SG."):
		if n := parts(s, 2, 16, 16); n > 0 {
			return sc.replace(i, i+n, "sendgrid key")
		}
	case c == 'm', c == 'd':
		return sc.redactNetrc(i)
	case c == 'S':
		n := run(s, base32, 64)
		isWord := n == len(s) || classes[s[n]]&word == 0
		if n == 58 && isWord && strings.IndexByte("OAUNCX", s[1]) >= 0 {
			return sc.replace(i, i+n, "nats seed")
		}
	case len(s) > len("bearer ") && (strings.EqualFold(s[:len("bearer ")], "bearer ") || strings.EqualFold(s[:len("bearer+")], "bearer+")):
		from := len("bearer ")
		n := run(s[from:], bearerChars, 4096)
		if cred := strings.TrimRight(s[from:from+n], "."); len(cred) >= 16 && looksRandom(cred, 12) {
			return sc.replace(i+from, i+from+len(cred), "bearer token")
		}
	}
	return i
}

var bearerChars = alphabetOf("A-Za-z0-9_.~+/=-")

// redactNumbered redacts keys that begin with a number. In the token of a Telegram bot a colon follows, and 33 to 37 bytes that begin with
// AA. In the token of a Facebook app a bar and 27 to 40 bytes follow.
func (sc *scanner) redactNumbered(i int) int {
	s := sc.s[i:]
	n := 0
	for n < len(s) && n < 17 && isDigit(s[n]) {
		n++
	}
	rest := s[n:]
	switch {
	case n >= 8 && n <= 10 && strings.HasPrefix(rest, ":AA"):
		if m := run(rest[1:], url64, 64); m >= 33 && m <= 37 {
			return sc.replace(i, i+n+1+m, "telegram token")
		}
	case (n == 15 || n == 16) && strings.HasPrefix(rest, "|"):
		if m := run(rest[1:], url64, 64); m >= 27 && m <= 40 && looksRandom(rest[1:1+m], 8) {
			return sc.replace(i, i+n+1+m, "facebook token")
		}
	}
	return i
}

// parts returns the length of consecutive parts with dots between them, or 0 if a part is missing or shorter than its least length. The last part extends as far as possible.
func parts(s string, least ...int) int {
	end := 0
	for k := range least {
		n := run(s[end:], url64, 16384)
		if n < least[k] {
			return 0
		}
		end += n
		if k == len(least)-1 {
			return end
		}
		if end >= len(s) || s[end] != '.' {
			return 0
		}
		end++
	}
	return 0
}

// run returns the length of the prefix of s in the alphabet, up to limit bytes.
func run(s string, a *alphabet, limit int) int {
	n := 0
	for n < len(s) && n < limit && a[s[n]] {
		n++
	}
	return n
}

// looksRandom reports whether s has a part of minLen or more letters and digits that looks random. Such a part has
// digits among its letters, or it changes between capitals, small letters and digits more often than concatenated
// words.
func looksRandom(s string, minLen int) bool {
	const (
		none = iota // ends a part
		small
		capital
		digit
	)
	var letters, digits, changes int
	last := none
	for i := 0; i <= len(s); i++ {
		kind := none // also after the last byte
		switch {
		case i < len(s) && isLower(s[i]):
			kind = small
		case i < len(s) && isUpper(s[i]):
			kind = capital
		case i < len(s) && isDigit(s[i]):
			kind = digit
		}
		switch kind {
		case none:
			n := letters + digits
			isMixed := letters >= 2 && digits >= 2
			changesOften := n >= 12 && changes*100 >= n*35 // per cent of the characters
			if n >= minLen && (isMixed || changesOften) {
				return true
			}
			letters, digits = 0, 0
			changes = 0
		case digit:
			digits++
		default:
			letters++
		}
		if kind != last && kind != none && last != none {
			changes++
		}
		last = kind
	}
	return false
}
