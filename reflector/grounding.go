package reflector

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook/similar"
)

// This file decides what of a model's output leaves the Reflector. A model reads a playbook's own bullets and texts of
// anybody's, and may hand on either as if it had found it out. What comes back as it went in is no lesson: a bullet would
// vote for itself, and a trace could write into the playbook. So a lesson is dropped that
//
//   - says what a bullet in the prompt says: an echo;
//   - is quoted from the material: a copy. What a person said of the execution, and the expected answer, may be quoted,
//     because they are there to teach;
//   - gives orders to models or has the marks of a prompt or a playbook in it: a forgery, whoever said it.
//
// Copies are told by their shingles, runs of neighbouring words, after Broder, "On the resemblance and containment of
// documents" (1997): containment is the share of the lesson's shingles that one text has. Only what was in the prompt is
// looked at, each word once, so a trace of any length costs the same.

const (
	echoLikeness = 0.88 // of a lesson and a bullet, and nothing that keeps the two apart
	copyShare    = 0.8  // of a lesson's shingles, found in one text
	shingle      = 4    // words
	leastWords   = 6    // of a lesson that is compared by shingles; a shorter one is a copy when it stands there whole
	mostLessons  = 8    // of one execution
	maxLesson    = 2000 // bytes of a lesson
	mostIgnored  = 32   // sentences
)

// ground takes out of an output what must not leave the Reflector, and says so in Ignored.
func (o *Output) ground(e *events.Execution, budget int) {
	lessons := make([]events.Lesson, 0, len(o.Lessons)+1)
	if o.KeyInsight != "" {
		lessons = append(lessons, events.Lesson{Section: o.Section, Content: o.KeyInsight})
	}
	lessons = append(lessons, o.Lessons...)
	if more := len(lessons) - mostLessons; more > 0 {
		o.ignore("%d further lessons: more than %d of one execution", more, mostLessons)
		lessons = lessons[:mostLessons]
	}
	copies := copied(lessons, untrusted(e, budget))
	kept := lessons[:0]
	for i, l := range lessons {
		if why := refusal(l.Content, e.Shown, copies[i]); why != "" {
			o.ignore("lesson %q: %s", inLine(l.Content), why)
			continue
		}
		if forgery(l.Section) != "" {
			o.ignore("section %q: %s", inLine(l.Section), forgery(l.Section))
			l.Section = ""
		}
		kept = append(kept, l)
	}
	o.KeyInsight, o.Lessons = "", kept
	if len(kept) > 0 {
		o.KeyInsight, o.Section, o.Lessons = kept[0].Content, kept[0].Section, kept[1:]
	}
	// These become no bullets, and later prompts quote them.
	for _, f := range []struct {
		name string
		text *string
	}{
		{"error_identification", &o.ErrorIdentification}, {"root_cause_analysis", &o.RootCauseAnalysis}, {"correct_approach", &o.CorrectApproach},
	} {
		if why := forgery(*f.text); why != "" {
			o.ignore("%s %q: %s", f.name, inLine(*f.text), why)
			*f.text = ""
		}
	}
	for i := range o.Records {
		o.groundRecord(&o.Records[i])
	}
	o.Ignored = o.Ignored[:min(len(o.Ignored), mostIgnored)]
}

func (o *Output) groundRecord(r *events.Record) {
	drop := func(text *string) {
		if why := forgery(*text); why != "" {
			o.ignore("records: %q: %s", inLine(*text), why)
			*text = ""
		}
	}
	drop(&r.Synthesis)
	for i := range r.Calls {
		c := &r.Calls[i]
		drop(&c.Line)
		drop(&c.Insights)
		drop(&c.Learning)
		c.Next = slices.DeleteFunc(c.Next, func(next string) bool { return forgery(next) != "" })
	}
}

func (o *Output) ignore(format string, args ...any) {
	o.Ignored = append(o.Ignored, fmt.Sprintf(format, args...))
}

// inLine is the beginning of a text for a sentence about it.
func inLine(text string) string { return clean(text, 80) }

// refusal is why a lesson must not leave the Reflector, "" if it may.
func refusal(lesson string, shown []events.ShownBullet, copiedFrom string) string {
	if len(lesson) > maxLesson {
		return fmt.Sprintf("longer than %d bytes", maxLesson)
	}
	if why := forgery(lesson); why != "" {
		return why
	}
	for i := range shown {
		if echoes(lesson, shown[i].Content) {
			return fmt.Sprintf("says what bullet %s says, which was in the prompt", shown[i].ID)
		}
	}
	if copiedFrom != "" {
		return "copied from the trace (" + copiedFrom + ")"
	}
	return ""
}

// echoes reports whether a lesson says what a bullet says.
func echoes(lesson, bullet string) bool {
	return strings.Join(wordsOf(lesson), " ") == strings.Join(wordsOf(bullet), " ") ||
		similar.Likeness(lesson, bullet) >= echoLikeness && similar.Differ(lesson, bullet) == ""
}

// untrusted are the quotations of a prompt that a lesson must not be copied from. A person's words are, where they give
// orders to models themselves: who teaches does not speak to the machinery.
func untrusted(e *events.Execution, budget int) []chat.Quotation {
	texts := material(e, budget)
	for i := range e.Tries {
		texts = append(texts, chat.Quotation{Name: quoteAnswer, Text: excerpt(e.Tries[i].Answer, shortText)})
	}
	return slices.DeleteFunc(texts, func(q chat.Quotation) bool {
		switch q.Name {
		case quoteBullets, quoteTries:
			return true
		case quoteTarget, quoteFeedback:
			return forgery(q.Text) == ""
		}
		return false
	})
}

// suspect is a lesson as it is looked for in texts.
type suspect struct {
	words    []string
	shingles map[uint64]int // and their numbers
	figures  map[uint64]int // numbers in it
}

// copied is, for each lesson, the name of a text that it is quoted from, "" where there is none. A lesson that has a
// number which the text lacks is none of its copies: it corrects it.
func copied(lessons []events.Lesson, texts []chat.Quotation) []string {
	from := make([]string, len(lessons))
	suspects := make([]suspect, len(lessons))
	seed := maphash.MakeSeed()
	short := false
	for i, l := range lessons {
		s := suspect{wordsOf(excerpt(l.Content, maxLesson)), map[uint64]int{}, map[uint64]int{}}
		short = short || len(s.words) < leastWords
		var run runOf
		for _, w := range s.words {
			h := maphash.String(seed, w)
			if unicode.IsDigit([]rune(w)[0]) {
				s.figures[h] = len(s.figures)
			}
			if mark, full := run.next(h); full {
				if _, twice := s.shingles[mark]; !twice {
					s.shingles[mark] = len(s.shingles)
				}
			}
		}
		suspects[i] = s
	}
	if len(lessons) == 0 {
		return from
	}
	for _, q := range texts {
		var flat strings.Builder
		shingles, figures := make([]map[uint64]bool, len(lessons)), make([]map[uint64]bool, len(lessons))
		for i := range lessons {
			shingles[i], figures[i] = map[uint64]bool{}, map[uint64]bool{}
		}
		var run runOf
		eachWord(q.Text, func(w string) {
			if short {
				flat.WriteByte(' ')
				flat.WriteString(w)
			}
			h := maphash.String(seed, w)
			mark, full := run.next(h)
			for i := range suspects {
				if _, in := suspects[i].figures[h]; in {
					figures[i][h] = true
				}
				if full {
					if _, in := suspects[i].shingles[mark]; in {
						shingles[i][mark] = true
					}
				}
			}
		})
		all := flat.String() + " "
		for i := range suspects {
			s := &suspects[i]
			switch {
			case len(s.words) == 0:
			case len(s.words) < leastWords:
				if strings.Contains(all, " "+strings.Join(s.words, " ")+" ") {
					from[i] = cmp.Or(from[i], q.Name)
				}
			case float64(len(shingles[i])) >= copyShare*float64(len(s.shingles)) && len(figures[i]) == len(s.figures):
				from[i] = cmp.Or(from[i], q.Name)
			}
		}
	}
	return from
}

// runOf is a window over the hashes of words.
type runOf struct {
	last [shingle]uint64
	n    int
}

// next takes a word's hash. Full says that the mark is that of a whole shingle.
func (r *runOf) next(h uint64) (mark uint64, full bool) {
	r.last[r.n%shingle] = h
	r.n++
	for k := range shingle {
		mark = (mark ^ r.last[(r.n+k)%shingle]) * 0x100000001b3 // FNV-1a's prime
	}
	return mark, r.n >= shingle
}

// wordsOf are the words of a text; see eachWord.
func wordsOf(text string) (words []string) {
	eachWord(text, func(w string) { words = append(words, w) })
	return words
}

// eachWord finds runs of letters and digits in lower case. What readers do not see is not there, what JSON escapes is
// what it stands for, and scripts without spaces have a word a character.
func eachWord(text string, found func(string)) {
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			found(word.String())
			word.Reset()
		}
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == '\\' && len(text) > 1 {
			if c, n := unescaped(text); n > 0 {
				r, size = c, n
			}
		}
		text = text[size:]
		r = fold(r)
		switch {
		case unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Mn, r):
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end()
			found(string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			word.WriteRune(r)
		default:
			end()
		}
	}
	end()
}

// unescaped is the character of a JSON escape that the text begins with, and its length.
func unescaped(text string) (rune, int) {
	switch text[1] {
	case 'n', 'r', 't', 'b', 'f', '"', '\\', '/':
		return ' ', 2
	case 'u':
		if len(text) >= 6 {
			var r rune
			if _, err := fmt.Sscanf(text[2:6], "%4x", &r); err == nil {
				return r, 6
			}
		}
	}
	return 0, 0
}

// fold is a character in lower case, and of those that are as wide as two the usual one.
func fold(r rune) rune {
	if r >= 0xFF01 && r <= 0xFF5E {
		r -= 0xFF01 - '!'
	}
	return unicode.ToLower(r)
}

// forgeries are what a lesson for people's work never has in it, each with the sentence that says so.
var forgeries = []struct {
	why     string
	pattern *regexp.Regexp
}{
	{"orders a reader to drop its instructions", pattern(
		`\b(?:ignore|disregard|forget|override|overrule)\b[^.\n]{0,100}?\b(?:instructions?|directives?|guidelines|guardrails|bullets?|playbook|the above|the (?:foregoing|preceding)`,
		`|(?:system|your|previous|prior|initial|original|earlier) prompts?|(?:all|any|every|your|previous|prior|earlier|these|those|other) (?:the )?(?:\w+ )?rules?`,
		`|(?:all|everything|anything|any|whatever|what)(?: of)?(?: the| that| you)?(?: is| was| were| came| stands)? (?:above|before|previous|prior|preceding|said|told|earlier))\b`,
		`|\b(?:ignore|disregard|forget)\b[^\n]{0,200}?\b(?:remember|memori[sz]e|learn|add)\b[^\n]{0,24}?[:–]|\b(?:ignore|disregard|forget) all (?:of (?:this|it|that|the)\b|and\b)`,
		`|\b(?:ignoriere?n?|vergiss|missachte|ignora|ignorez?|olvida|oubliez?|dimentica)\b[^.\n]{0,60}(?:anweisung|instrucci[oó]n|instruction|istruzion|regeln|reglas|règles)`,
		`|(?:忽略|无视|無視)[^。\n]{0,30}(?:指令|指示|说明|規則|规则)|игнорируй[^.\n]{0,40}инструкци`)},
	{"speaks as a part of a prompt", pattern(
		`(?m:^[\s#>*_-]*(?:system|assistant|developer|human)[\s*_]*(?:message|prompt|note|override)?[\s*_]*:)`,
		`|<\|[a-z_]+\|>|\[/?inst\]|<</?sys>>|</?(?:system|assistant|user|instructions?|prompt)>|(?m:^\s*#{2,}\s*(?:instruction|system|response|task))`)},
	{"has the marks of a playbook or a prompt", pattern(
		`\[\[(?:begin|end)\b|\[[a-z][a-z0-9_]*-\d{3,}\]|\b(?:helpful|harmful|neutral)\s*[=:]\s*\d|(?m:^\s*#{1,6}\s)`,
		`|"(?:operations|bullet_tags|skill_tags|key_insight|final_answer|bullet_ids|extracted_learnings)"\s*:|"type"\s*:\s*"(?:add|update|tag|merge|remove|delete|retag|trial)"`)},
	{"gives orders about the playbook", pattern(
		`\b(?:add|insert|append|create|write|store|save|put|remember|remove|delete|clear|erase|wipe|rewrite|replace|update)\b[^.\n]{0,50}\b(?:bullets?|playbook|key_insight)\b`,
		`|\b(?:tag|mark|rate|vote|label|count)\b[^.\n]{0,60}\b(?:as )?(?:helpful|harmful)\b`)},
	{"gives orders to a model", pattern(
		`\byou are (?:now|no longer|from now on)\b|\bfrom now on,? (?:you|always obey)\b|\bpretend (?:to be|that you|you)\b|\bas an? (?:ai|language model|large language model)\b`,
		`|\bact as (?:an?|the)\b[^.\n]{0,40}\b(?:ai|assistant|language model|root|dan|system)\b|\b(?:new|real|true|actual|updated) instructions?\s*(?::|are\b|follow)`,
		`|\b(?:reveal|print|repeat|output|leak|show|send)\b[^.\n]{0,60}\b(?:system prompt|your (?:instructions|prompt|secrets?))\b|\b(?:dear|attention|note to|hey|hello),? (?:all )?(?:the )?(?:ai|llms?|language models?|models?|assistants?|reflectors?|curators?|generators?)\b`,
		`|\b(?:the )?(?:reflector|curator|generator) (?:must|should|shall|has to|is to|will)\b|\bdeveloper mode\b|\bjailbreak`)},
}

func pattern(parts ...string) *regexp.Regexp { return regexp.MustCompile(strings.Join(parts, "")) }

// forgery is why a text is an order to models or a piece of a prompt, "" if it is none.
func forgery(text string) string {
	if text == "" {
		return ""
	}
	plain := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return fold(r)
	}, excerpt(text, 2*maxLesson))
	for i := range forgeries {
		if forgeries[i].pattern.MatchString(plain) {
			return forgeries[i].why
		}
	}
	return ""
}
