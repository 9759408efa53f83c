package sliding

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRead is the number of bytes read of one text, from its beginning. Some callers use smaller limits.
const maxRead = 8 << 10

// words yields the words of a text in lower case. A word is a run of letters and digits; a capital after a small
// letter begins a new word, so "ValueError" contains "error". Every ideograph and kana is a word.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, last := -1, rune(0)
		for at, r := range text {
			in, alone := classifyRune(r)
			if start >= 0 && (!in || alone || (unicode.IsUpper(r) && unicode.IsLower(last))) {
				if !yield(strings.ToLower(text[start:at])) {
					return
				}
				start = -1
			}
			switch {
			case alone:
				if !yield(text[at : at+utf8.RuneLen(r)]) {
					return
				}
			case in && start < 0:
				start = at
			}
			last = r
		}
		if start >= 0 {
			yield(strings.ToLower(text[start:]))
		}
	}
}

// classifyRune reports whether a rune is part of a word, and whether it is a word alone.
func classifyRune(r rune) (in, alone bool) {
	if r < utf8.RuneSelf {
		return isLetter(byte(r)) || '0' <= r && r <= '9', false
	}
	if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) {
		return true, true
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.M), false
}

// stem removes the most common endings, so that parse, parses, parsed and parsing have the same stem.
func stem(w string) string {
	if root, ok := strings.CutSuffix(w, "ies"); ok && len(root) > 2 {
		return root + "y"
	}
	if root, ok := strings.CutSuffix(w, "es"); ok && len(root) > 2 {
		w = root
	} else if root, ok := strings.CutSuffix(w, "s"); ok && len(root) > 2 && !strings.HasSuffix(root, "s") {
		w = root
	}
	for _, ending := range []string{"ing", "ed", "e"} {
		if root, ok := strings.CutSuffix(w, ending); ok && len(root) > 2 {
			return root
		}
	}
	return w
}

// isContentWord reports whether a word carries meaning: it is a digit or not a stop word.
func isContentWord(w string) bool {
	if len(w) == 1 {
		return '0' <= w[0] && w[0] <= '9'
	}
	return !stopWords[w]
}

// stopWords are so common that they carry no topic.
var stopWords = set(`a about after again all also an and any are as at be because been before being both but by can cannot could
	d did didn do does doesn doing don done down each few for from further get give go got had has have having he her here hers him his
	how i if in into is isn it its itself just ll let like m make may me might more most much must my need no nor not now of off
	ok on once one only or other our out over own please put re s same shall she should show so some such t take than thank thanks
	that the their them then there these they this those time to too try under until up use used using ve very want was way we well were
	what when where which while who whom why will with would yes yet you your`)

func set(list string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}
