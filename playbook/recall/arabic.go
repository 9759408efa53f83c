package recall

import (
	"bytes"
	"unicode/utf8"
)

// Words in Arabic script are written without most vowels, and with articles, prepositions and pronouns attached. The letters are folded, and
// the attached parts removed, as in the light stemmer of Larkey, Ballesteros and Connell, "Light stemming for Arabic information retrieval"
// (2007), with the attached pronouns. A stem has at least three letters.

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

// Parts that are attached to Arabic words, the longer ones first, in folded letters.
var (
	arabicPrefixes = []string{"وال", "بال", "كال", "فال", "ولل", "لل", "ال", "و", "ب", "ل"}
	arabicSuffixes = []string{"يه", "تنا", "تها", "تهم", "تي", "نا", "ها", "هم", "كم", "ات", "ان", "ين", "ون", "ه", "ي", "ا"}
)

// minArabic is the minimum number of letters of an Arabic stem.
const minArabic = 3

// stemArabic removes one attached beginning and one ending of a folded word. It returns words of other scripts unchanged.
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
