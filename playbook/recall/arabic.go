package recall

import (
	"bytes"
	"unicode/utf8"
)

// isArabic reports whether a character is in the block of the Arabic script.
func isArabic(r rune) bool { return r >= 0x600 && r <= 0x6ff }

// classifyArabic returns a character of the Arabic script in its usual form, and its class. Digits become ASCII digits.
func classifyArabic(r rune) (folded rune, c class) {
	switch {
	case r >= '٠' && r <= '٩':
		return r - '٠' + '0', digit
	case r >= '۰' && r <= '۹': // Persian
		return r - '۰' + '0', digit
	case r >= 0x610 && r <= 0x61a, r >= 0x64b && r <= 0x65f, r == 0x670, r >= 0x6d6 && r <= 0x6dc, r >= 0x6df && r <= 0x6e8, r == 'ـ':
		return r, ignored // a vowel or another mark, and the line that stretches a word
	case r == 'أ' || r == 'إ' || r == 'آ' || r == 'ٱ':
		return 'ا', lower
	case r == 'ى' || r == 'ی': // the last one is Persian
		return 'ي', lower
	case r == 'ک': // Persian
		return 'ك', lower
	case r == 'ة':
		return 'ه', lower
	case r == 0x600, r == '،', r == '؛', r == '؟', r == '٪', r == '٫', r == '٬', r == '٭', r == '۔':
		return r, separator
	}
	return r, lower
}

// Parts that are written together with Arabic words: articles, conjunctions, prepositions, pronouns and endings. The longer ones are first.
// The letters are in their usual form, see classifyArabic.
var (
	arabicPrefixes = []string{"وال", "بال", "كال", "فال", "ولل", "لل", "ال", "و", "ب", "ل"}
	arabicSuffixes = []string{"يه", "تنا", "تها", "تهم", "تي", "نا", "ها", "هم", "كم", "ات", "ان", "ين", "ون", "ه", "ي", "ا"}
)

// minArabic is the minimum number of letters of an Arabic stem.
const minArabic = 3

// stemArabic removes at most one prefix and one suffix of an Arabic word, as the light stemmer of Larkey, Ballesteros and Connell, "Light
// stemming for Arabic information retrieval" (2007). It also removes pronouns. It returns words of other scripts unchanged.
func stemArabic(word []byte) []byte {
	if r, _ := utf8.DecodeRune(word); !isArabic(r) {
		return word
	}
	letters := utf8.RuneCount(word)
	for _, p := range arabicPrefixes {
		n := utf8.RuneCountInString(p)
		if letters-n >= minArabic && bytes.HasPrefix(word, []byte(p)) {
			word = word[len(p):]
			letters -= n
			break
		}
	}
	for _, s := range arabicSuffixes {
		n := utf8.RuneCountInString(s)
		if letters-n >= minArabic && bytes.HasSuffix(word, []byte(s)) {
			return word[:len(word)-len(s)]
		}
	}
	return word
}
