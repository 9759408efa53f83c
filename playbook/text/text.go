// Package text finds and stems words, and shortens texts. It is pure: it keeps no state and does no I/O.
//
// Choose a function that shortens by the destination:
//
//   - [Prefix] for a name or an id, without an ellipsis.
//   - [Clip] for a text that keeps its line breaks; [Excerpt] also removes the white space around it.
//   - [Ends] for a question, of which the end matters too. [Cut] gives both parts, for another mark between them.
//   - [Line] for a header, a log or an error: one line.
//   - [Quotable] for a quotation in a sentence: one line without quotation marks. [Quote] replaces other characters.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fold returns a character in its [Narrow] form and in lower case. Characters with the same upper case, such as ς and σ, have the same result.
func Fold(r rune) rune {
	r = Narrow(r)
	switch {
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A'
	case r < utf8.RuneSelf:
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// Narrow returns the ASCII character that a full-width one stands for, such as A for Ａ. It returns other characters
// unchanged.
func Narrow(r rune) rune {
	if r >= 0xff01 && r <= 0xff5e {
		return r - 0xff01 + '!'
	}
	return r
}

// Valid returns a text with U+FFFD in place of each run of invalid UTF-8. It is faster than strings.ToValidUTF8 for a valid text.
func Valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Clean returns a text for a prompt: Valid, with U+FFFD also in place of each NUL, which ends a text in some model servers.
func Clean(s string) string { return strings.ReplaceAll(Valid(s), "\x00", "\uFFFD") }

// Unspaced reports whether a character belongs to a script that has no spaces between words.
func Unspaced(r rune) bool {
	return r >= 0xe00 && // the first character of Thai, which comes first of these scripts
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Set returns the set of the words in a list that is separated by white space.
func Set(list string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// none matches the words for an empty text.
var none = Pattern(`(?i)\A[^\pL\pN]*(?:none|null|nil|no|false|n/?a|nothing|empty|not applicable|(?:it )?always(?: holds)?)?[^\pL\pN]*\z`)

// UnlessNone returns a text of a model, or "" if the model wrote words for an empty text, such as "None.", "n/a" or "It always holds."
func UnlessNone(s string) string {
	if none().MatchString(s) {
		return ""
	}
	return s
}
