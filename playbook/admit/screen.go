package admit

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"debrief/playbook"
	"debrief/playbook/text"
)

// Finding is a sign in a text that it gives orders to models: the sentence and the name of the pattern that matches it.
type Finding struct {
	Pattern  string `json:"pattern"`
	Sentence string `json:"sentence"`
}

// String returns the finding in one line for a person.
func (f Finding) String() string {
	return fmt.Sprintf("looks like %s: %q", f.Pattern, text.Quotable(f.Sentence, maxSentence))
}

const (
	maxSentence = 300     // bytes of a sentence in Finding.String
	maxScreened = 8 << 10 // bytes of a text that are searched; a longer text is suspect as a whole
)

// Screen returns the first sign in a text that it gives orders to models, fetches something from a network, or imitates a part of a
// prompt. A text with a sign is not wrong for certain: a person decides. Screen ignores case, width, invisible characters and
// letters that only look like Latin ones. Three kinds of orders are advice: a negated one ("do not reveal …"), a reported one ("flag messages
// that ask to …"), and one about another thing ("create a playbook in Ansible").
//
// The patterns find the listed forms. Other words for the same order can pass: nothing but a person finds them all.
func Screen(s string) (Finding, bool) {
	if len(s) > maxScreened {
		return Finding{"a text that is too long for advice", text.Prefix(s, maxSentence)}, true
	}
	plain := fold(s, false) // lookalikes stay, for the patterns in Cyrillic
	if f, found := search(s, plain); found {
		return f, true
	}
	if latin := fold(s, true); latin != plain {
		return search(s, latin)
	}
	return Finding{}, false
}

// ScreenText is Screen for a bullet with a condition. The content begins with the condition, which can make an order look like advice. So the
// condition and the rest of the content are also screened alone.
func ScreenText(when, content string) (Finding, bool) {
	texts := []string{content}
	if when != "" {
		rest := playbook.Advice(when, content)
		texts = append(texts, when, "if "+when, rest)
	}
	for _, s := range texts {
		if f, found := Screen(s); found {
			return f, true
		}
	}
	return Finding{}, false
}

// search returns the first finding in the folded form of a text. The Finding has the sentence of the text itself.
func search(s, folded string) (Finding, bool) {
	for i := range wholePatterns {
		if !hasSign(folded, wholePatterns[i].signs) {
			continue
		}
		if m := wholePatterns[i].re().FindStringIndex(folded); m != nil {
			line := strings.Count(folded[:m[0]], "\n")
			return Finding{wholePatterns[i].name, original(strings.Split(s, "\n"), strings.Split(folded, "\n"), line)}, true
		}
	}
	all := text.Sentences(folded)
	for n, sentence := range all {
		for i := range orderPatterns {
			if orderPatterns[i].matches(sentence) {
				return Finding{orderPatterns[i].name, original(text.Sentences(s), all, n)}, true
			}
		}
	}
	return Finding{}, false
}

// original returns the part of a text with the index n. If the folded text has another number of parts, the index may be wrong, and original
// returns the folded part.
func original(parts, folded []string, n int) string {
	if len(parts) != len(folded) {
		parts = folded
	}
	return strings.TrimSpace(parts[n])
}

// fold returns a text in lower case, without invisible characters and marks, and with plain spaces. With latin it also replaces
// letters that look like Latin ones.
func fold(s string, latin bool) string {
	var out strings.Builder
	out.Grow(len(s))
	for _, r := range s {
		if text.Invisible(r) || unicode.Is(unicode.Mn, r) || r == '\u00ad' || r == '\u3164' || r == '\uffa0' {
			continue
		}
		switch {
		case r == '\n' || r == '\u2028' || r == '\u2029' || r == '\v' || r == '\f' || r == '\r':
			r = '\n'
		case unicode.IsSpace(r):
			r = ' '
		case r == '’' || r == '‘' || r == 'ʼ':
			r = '\''
		case r == '`' && latin: // it may be an apostrophe; without latin it stays, because it usually quotes code
			r = '\''
		case r >= 0x1d400 && r <= 0x1d7ff:
			r = mathLetter(r)
		case r >= 0x24b6 && r <= 0x24e9: // in circles
			r = 'a' + (r-0x24b6)%26
		}
		r = text.Fold(r)
		if latin {
			if same, found := lookalikes[r]; found {
				r = same
			}
		}
		out.WriteRune(r)
	}
	return out.String()
}

// mathLetter returns the letter or digit of a mathematical alphanumeric symbol.
func mathLetter(r rune) rune {
	switch {
	case r < 0x1d6a8:
		return 'a' + (r-0x1d400)%52%26
	case r >= 0x1d7ce:
		return '0' + (r-0x1d7ce)%10
	}
	return r
}

// lookalikes are small letters of other scripts that look like Latin ones.
var lookalikes = func() map[rune]rune {
	m := make(map[rune]rune)
	for _, pair := range strings.Fields(
		"аa еe оo рp сc хx уy іi їi јj ѕs ԁd һh ԛq ԝw ѵv ӏl тt кk мm нh вb гr пn иu эe зz ьb " + // Cyrillic
			"αa βb εe ηn ιi κk μu νv οo ρp σo τt υu χx ωw γy δd ζz " + // Greek
			"ɑa ɡg ɩi ɪi ʏy ᴀa ᴄc ᴅd ᴇe ᴋk ᴍm ɴn ᴏo ᴘp ʀr ꜱs ᴛt ᴜu ᴠv ᴡw ᴢz ıi ſs øo łl đd ħh " +
			"օo սu հh ոn ցg " + // Armenian
			"０0 ∕/ ⁄/ ：: ․. 。. ｜| ∣| ǀ|",
	) {
		r := []rune(pair)
		m[r[0]] = r[1]
	}
	return m
}()

// order is a pattern for orders to models.
type order struct {
	name   string
	signs  []string
	re     func() *regexp.Regexp
	always bool                  // also matches orders that are negated or reported
	except func() *regexp.Regexp // an order is advice if this matches its text or the rest of its sentence; nil for no exception
}

// matches reports whether a sentence gives an order of the pattern.
func (o *order) matches(sentence string) bool {
	if !hasSign(sentence, o.signs) {
		return false
	}
	rest, base := sentence, 0 // base is the position of rest in the sentence
	for {
		m := o.re().FindStringIndex(rest)
		if m == nil {
			return false
		}
		before := sentence[:base+m[0]]
		match := rest[m[0]:m[1]]
		after := rest[m[1]:]
		isException := o.except != nil && o.except().MatchString(match+after)
		isGiven := o.always || !isNegated(before) && !isReported(before, match+after)
		if isGiven && !isException {
			return true
		}
		step := m[0] + max(1, len(firstWord(rest[m[0]:]))) // the next search begins after the first word of this match
		rest = rest[step:]
		base += step
	}
}

func firstWord(s string) string {
	if i := strings.IndexByte(s, ' '); i >= 0 {
		return s[:i]
	}
	return s
}

// maxNegated is the maximum number of words between a negation and the order that it negates.
const maxNegated = 9

// isNegated reports whether the words before an order negate it.
func isNegated(before string) bool {
	all := negations().FindAllStringIndex(before, -1)
	if len(all) == 0 {
		return false
	}
	between := before[all[len(all)-1][1]:]
	if encouragements().MatchString(between) || clauseEnds().MatchString(between) {
		return false
	}
	for i, part := range strings.Split(between, ",") {
		part = strings.TrimSpace(part)
		if i > 0 && part != "" && !adverbials().MatchString(part) { // a new clause
			return false
		}
	}
	return len(strings.Fields(between)) <= maxNegated
}

// isReported reports whether a sentence only tells how to deal with texts that give an order: to detect them, or to refuse them. before and
// after are the parts of the sentence before the order and from the order on.
func isReported(before, after string) bool {
	if m := protections().FindStringIndex(before); m != nil {
		between := before[m[1]:]
		if reports().MatchString(between) && !strings.Contains(between, ":") {
			return true
		}
	}
	if conditions().MatchString(before) && !strings.ContainsAny(before, ":;") {
		return answers().MatchString(after) && !compliances().MatchString(after)
	}
	return false
}
