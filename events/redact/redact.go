// Package redact replaces credentials in text with a visible mark, such as "[redacted: github token]", before the
// text is stored or shown to a model. It is applied to all input: to every event that is published or handled, to
// requests of outside agents, and to the values of package window (Fields).
//
// It finds keys with a known format (shapes.go), private keys (blocks.go), values that are assigned to the name of a
// secret or of a cookie (assignments.go), and passwords in options of commands (options.go) and netrc files
// (netrc.go). It finds them in plain text, in URL encoding (%3D), in JSON escapes (\", \u003d),
// in both nested up to four levels (views.go), and in base64 (base64.go). Valid JSON stays valid.
//
// Personal makes it find personal data too.
//
// Not covered: hex, other encodings and encryption; base64 of a text without a recognizable secret; numbers in
// JSON; secrets that only people can recognize, such as a password in a sentence. Entropy is not used, so hashes,
// ids and encoded images are not changed.
//
// All look-ahead and look-behind is limited, so the time is linear for hostile text too. Text without secrets and
// escapes is returned unchanged and without an allocation.
package redact

import (
	"cmp"
	"slices"
	"strings"
)

// A mark replaces a secret. It contains the kind in lower case letters and spaces.
const (
	markBegin = "[redacted: "
	markEnd   = ']'
	maxKind   = 32 // bytes of a kind
)

// edit replaces text[from:to] with the mark of a kind.
type edit struct {
	from, to int
	kind     string
}

// Text returns s with a mark in place of each secret. A second call does not change the result. Valid UTF-8 and
// valid JSON stay valid.
func Text(s string) string {
	if isShortWord(s) && !personal.Load() {
		return s
	}
	edits := find(scanner{s: s})
	if len(edits) == 0 {
		return s
	}
	edits = keepJSON(s, merge(edits))
	var out strings.Builder
	done := 0
	for _, e := range edits {
		out.WriteString(s[done:e.from])
		out.WriteString(markBegin)
		out.WriteString(e.kind)
		out.WriteByte(markEnd)
		done = e.to
		count(e.kind)
	}
	out.WriteString(s[done:])
	return out.String()
}

// minKey is a lower limit of the length of keys with a known format, in bytes.
const minKey = 16

// isShortWord reports whether s is a word that is too short for a key, such as the id of a bullet. Every other secret has a character that
// is not part of a word.
func isShortWord(s string) bool {
	if len(s) >= minKey {
		return false
	}
	for i := range len(s) {
		if !dotted[s[i]] { // letters, digits, full stops, dashes and underscores
			return false
		}
	}
	return true
}

// Kind returns the kind of a secret in s, such as "github token". It is empty if Text returns s unchanged.
func Kind(s string) string {
	if edits := find(scanner{s: s, first: true}); len(edits) > 0 {
		return edits[0].kind
	}
	return ""
}

// Marked reports whether s contains a mark.
func Marked(s string) bool { return strings.Contains(s, markBegin) }

// find returns the secrets of a text and of its views, unsorted and possibly overlapping.
func find(sc scanner) []edit {
	edits := sc.findWithoutDecoding()
	for v := decoded(sc.s, nil); v != nil; v = decoded(v.text, v) {
		if sc.first && len(edits) > 0 {
			break
		}
		inView := scanner{s: v.text, first: sc.first, isLastView: v.depth == maxDepth}
		for _, e := range inView.findWithoutDecoding() {
			edits = append(edits, edit{v.origin(e.from), v.origin(e.to), e.kind})
		}
	}
	return edits
}

// findWithoutDecoding returns the secrets of a text that are recognizable without decoding escapes.
func (sc scanner) findWithoutDecoding() []edit {
	sc.scan()
	if !sc.first || len(sc.edits) == 0 {
		sc.redactBase64()
	}
	if personal.Load() {
		sc.edits = append(sc.edits, findPersonal(sc.s)...)
	}
	return sc.edits
}

// merge sorts edits and joins those that overlap.
func merge(edits []edit) []edit {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	out := edits[:1]
	for _, e := range edits[1:] {
		if last := &out[len(out)-1]; e.from < last.to {
			last.to = max(last.to, e.to)
			continue
		}
		out = append(out, e)
	}
	return out
}

// scanner scans a text once. A method such as redactShape gets the position of a byte that may begin a secret or separate a name from
// it. It records the secret and returns the position after it, or it returns the same position.
type scanner struct {
	s     string
	edits []edit // the secrets so far
	floor int    // end of the last mark or secret; no secret contains text before it
	// cookies is the end of the last list of cookies: an equals sign before it follows the name of a cookie.
	cookies int
	// unquoted is the end of the last value without quotes, so that values within it are not scanned again.
	unquoted int
	// pem is the position of the next END of a private key, or -1 if the text has no further one.
	pem int
	// lastEnd is the position after the last END of a private key that had no BEGIN.
	lastEnd int

	first      bool // stop at the first secret
	isLastView bool // the text is not scanned again with its escapes decoded
}

// replace records the secret s[from:to]. It returns the position at which the scan continues.
func (sc *scanner) replace(from, to int, kind string) int {
	sc.edits = append(sc.edits, edit{from, to, kind})
	sc.floor = to
	if sc.first {
		return len(sc.s)
	}
	return to
}

// Classes of bytes. Keys with a known format begin only at the start of a word.
const (
	word      = 1 << iota
	starter   // may begin a key with a known format
	separator // between a name and its value
	special   // begins a mark, a block or an escaped line break, or is the tilde in a secret of Azure
)

var classes = func() (t [256]uint8) {
	for c := range t {
		if alnum[byte(c)] || c == '_' || c == '-' {
			t[c] |= word
		}
		if c >= '0' && c <= '9' {
			t[c] |= starter
		}
	}
	for i := range shapes {
		t[shapes[i].prefix[0]] |= starter
	}
	for _, c := range []byte("SeBbm") { // keys that redactComposed handles
		t[c] |= starter
	}
	t['='] |= separator
	t[':'] |= separator
	t['['] |= special
	t['\\'] |= special
	t['-'] |= special
	t['~'] |= special
	return t
}()

// scan looks for secrets at each byte that may begin one, and otherwise skips to the end of the word.
func (sc *scanner) scan() {
	s := sc.s
	for i := 0; i < len(s); {
		class := classes[s[i]]
		next := i
		switch {
		case class&special != 0:
			next = sc.skipSpecial(i)
		case class&separator != 0:
			next = sc.redactAssignment(i)
		case class&starter != 0:
			next = sc.redactShape(i)
		}
		if next > i { // redacted or skipped
			i = next
			continue
		}
		i++
		if class&word == 0 {
			continue
		}
		for i < len(s) && classes[s[i]]&word != 0 { // to the end of the word
			i++
		}
	}
}

// skipSpecial skips a mark, and an escaped line break, which ends a word although its last byte is a letter. At a dash
// it redacts a private key or the value of an option, and at a tilde a secret of Azure around it.
func (sc *scanner) skipSpecial(i int) int {
	s := sc.s
	switch s[i] {
	case '[':
		if n := markAt(s[i:]); n > 0 {
			sc.floor = i + n
			return i + n
		}
	case '\\':
		if isEscapedSpace(s[i:]) {
			return i + 2
		}
	case '-':
		if next := sc.redactBlock(i); next > i {
			return next
		}
		return sc.redactOption(i)
	case '~':
		return sc.redactAzure(i)
	}
	return i
}

// markAt returns the length of the mark at the start of s, or 0.
func markAt(s string) int {
	if !strings.HasPrefix(s, markBegin) {
		return 0
	}
	for i := len(markBegin); i < len(s) && i <= len(markBegin)+maxKind; i++ {
		switch c := s[i]; {
		case c == markEnd:
			return i + 1
		case c != ' ' && (c < 'a' || c > 'z'):
			return 0
		}
	}
	return 0
}

// isEscapedSpace reports whether s begins with \n, \r or \t.
func isEscapedSpace(s string) bool {
	return len(s) > 1 && s[0] == '\\' && strings.IndexByte("nrt", s[1]) >= 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

func isLetter(c byte) bool { return isUpper(c) || isLower(c) }
func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
