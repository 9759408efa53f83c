package reflector

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// This file screens the reply of the model. The model reads bullets of the playbook and untrusted text, and may repeat
// either as a lesson. Then a bullet would support itself, and a trace could write into the playbook. So a lesson is
// dropped if it
//
//   - repeats a bullet in the prompt: an echo;
//   - is copied from the material. Feedback of a person and the expected answer may be copied: they are meant to teach;
//   - gives orders to models or contains markers of a prompt or a playbook: an injection, whatever its source.
//
// Copies are found by shingles, which are runs of neighbouring words, after Broder, "On the resemblance and containment of
// documents" (1997). Containment is the share of the lesson's shingles that occur in one text. Only text in the prompt is
// searched, each word once, so the cost does not depend on the length of the trace.

const (
	echoSimilarity   = 0.88 // of a lesson and a bullet; see isEcho
	copyContainment  = 0.8  // share of a lesson's shingles in one text that counts as a copy
	shingleWords     = 4    // words in a shingle
	minShingledWords = 6    // words; a shorter lesson is a copy only if a text contains all of it
	maxLessons       = 8    // of one execution
	maxLesson        = 2000 // bytes of a lesson
	maxIgnored       = 32   // sentences
)

// screen removes lessons and texts that must not leave the Reflector, and adds the reasons to Ignored.
func (o *Output) screen(e *events.Execution, other *otherRun, budget int) {
	lessons := make([]events.Lesson, 0, len(o.Lessons)+1)
	if o.KeyInsight != "" {
		lessons = append(lessons, events.Lesson{Section: o.Section, Content: o.KeyInsight})
	}
	lessons = append(lessons, o.Lessons...)
	if more := len(lessons) - maxLessons; more > 0 {
		o.ignore("%d lessons dropped: more than %d for one execution", more, maxLessons)
		lessons = lessons[:maxLessons]
	}
	var copies []string
	if len(lessons) > 0 {
		copies = copySources(lessons, untrustedTexts(e, other, budget))
	}
	kept := lessons[:0]
	for i, l := range lessons {
		if why := rejectReason(l.Content, e.Shown, copies[i]); why != "" {
			o.ignore("lesson %q: %s", shorten(l.Content), why)
			continue
		}
		if detectInjection(l.Section) != "" {
			o.ignore("section %q: %s", shorten(l.Section), detectInjection(l.Section))
			l.Section = ""
		}
		kept = append(kept, l)
	}
	o.KeyInsight, o.Lessons = "", kept
	if len(kept) > 0 {
		o.KeyInsight, o.Section, o.Lessons = kept[0].Content, kept[0].Section, kept[1:]
	}
	// These texts do not become bullets, but later prompts quote them.
	for _, f := range []struct {
		name string
		text *string
	}{
		{"error_identification", &o.ErrorIdentification}, {"root_cause_analysis", &o.RootCauseAnalysis}, {"correct_approach", &o.CorrectApproach},
	} {
		if why := detectInjection(*f.text); why != "" {
			o.ignore("%s %q: %s", f.name, shorten(*f.text), why)
			*f.text = ""
		}
	}
	for i := range o.Records {
		o.screenRecord(&o.Records[i])
	}
	o.Ignored = o.Ignored[:min(len(o.Ignored), maxIgnored)]
}

// screenRecord clears the injections in a record of a step.
func (o *Output) screenRecord(r *events.Record) {
	drop := func(text *string) {
		if why := detectInjection(*text); why != "" {
			o.ignore("records: %q: %s", shorten(*text), why)
			*text = ""
		}
	}
	drop(&r.Synthesis)
	for i := range r.Calls {
		c := &r.Calls[i]
		drop(&c.Line)
		drop(&c.Insights)
		drop(&c.Learning)
		c.Next = slices.DeleteFunc(c.Next, func(next string) bool { return detectInjection(next) != "" })
	}
}

func (o *Output) ignore(format string, args ...any) {
	o.Ignored = append(o.Ignored, fmt.Sprintf(format, args...))
}

// shorten returns the beginning of a text for use in a message.
func shorten(s string) string { return text.Quotable(s, 80) }

// rejectReason returns why a lesson must be dropped, "" if it may stay.
func rejectReason(lesson string, shown []events.ShownBullet, copiedFrom string) string {
	if len(lesson) > maxLesson {
		return fmt.Sprintf("longer than %d bytes", maxLesson)
	}
	if why := detectInjection(lesson); why != "" {
		return why
	}
	c := newCompared(lesson)
	for i := range shown {
		if c.isEcho(shown[i].Content) {
			return fmt.Sprintf("repeats bullet %s, which was in the prompt", shown[i].ID)
		}
	}
	if copiedFrom != "" {
		return "copied from the trace (" + copiedFrom + ")"
	}
	return ""
}

// compared is a lesson that is prepared once for the comparison with many bullets.
type compared struct {
	text     string
	prepared *similar.Text
	words    []string
}

func newCompared(lesson string) *compared {
	return &compared{lesson, similar.Prepare(lesson), slices.Collect(words(lesson))}
}

// isEcho reports whether the lesson has the same meaning as a bullet.
func (c *compared) isEcho(bullet string) bool {
	if c.prepared.Similarity(bullet, echoSimilarity) >= echoSimilarity && similar.Difference(c.text, bullet).Kind == similar.Same {
		return true
	}
	i := 0
	for w := range words(bullet) {
		if i == len(c.words) || w != c.words[i] {
			return false
		}
		i++
	}
	return i == len(c.words)
}

// untrustedTexts returns the quotations of a prompt that a lesson must not be copied from. Feedback and the expected
// answer are included only if they contain an injection.
func untrustedTexts(e *events.Execution, other *otherRun, budget int) []chat.Quotation {
	run := *e // without the texts of the playbook and of earlier rounds, which are never a source
	run.Shown, run.PreviousRounds = nil, nil
	texts := material(&run, other, budget)
	for i := range e.PreviousRounds {
		texts = append(texts, chat.Quotation{Name: quoteAnswer, Text: excerpt(e.PreviousRounds[i].Answer, shortText)})
	}
	return slices.DeleteFunc(texts, func(q chat.Quotation) bool {
		return (q.Name == quoteTarget || q.Name == quoteFeedback) && detectInjection(q.Text) == ""
	})
}

// lessonIndex indexes a lesson for the search in texts.
type lessonIndex struct {
	words    []string
	shingles map[uint64]int // hash of a shingle to its number
	numbers  map[uint64]int // hash of a number in the lesson to its position
}

// copySources returns for each lesson the name of a text that it is copied from, or "". A lesson with a number that
// the text lacks is not a copy of it: it corrects the text.
func copySources(lessons []events.Lesson, texts []chat.Quotation) []string {
	from := make([]string, len(lessons))
	indexes := make([]lessonIndex, len(lessons))
	seed := maphash.MakeSeed()
	short := false
	for i, l := range lessons {
		s := lessonIndex{slices.Collect(words(excerpt(l.Content, maxLesson))), map[uint64]int{}, map[uint64]int{}}
		short = short || len(s.words) < minShingledWords
		var run wordWindow
		for _, w := range s.words {
			h := maphash.String(seed, w)
			if unicode.IsDigit([]rune(w)[0]) {
				s.numbers[h] = len(s.numbers)
			}
			if mark, full := run.add(h); full {
				if _, twice := s.shingles[mark]; !twice {
					s.shingles[mark] = len(s.shingles)
				}
			}
		}
		indexes[i] = s
	}
	for _, q := range texts {
		var flat strings.Builder
		shingles, numbers := make([]map[uint64]bool, len(lessons)), make([]map[uint64]bool, len(lessons))
		for i := range lessons {
			shingles[i], numbers[i] = map[uint64]bool{}, map[uint64]bool{}
		}
		var run wordWindow
		for w := range words(q.Text) {
			if short {
				flat.WriteByte(' ')
				flat.WriteString(w)
			}
			h := maphash.String(seed, w)
			mark, full := run.add(h)
			for i := range indexes {
				if _, in := indexes[i].numbers[h]; in {
					numbers[i][h] = true
				}
				if full {
					if _, in := indexes[i].shingles[mark]; in {
						shingles[i][mark] = true
					}
				}
			}
		}
		all := flat.String() + " "
		for i := range indexes {
			s := &indexes[i]
			switch {
			case len(s.words) == 0:
			case len(s.words) < minShingledWords:
				if strings.Contains(all, " "+strings.Join(s.words, " ")+" ") {
					from[i] = cmp.Or(from[i], q.Name)
				}
			case float64(len(shingles[i])) >= copyContainment*float64(len(s.shingles)) && len(numbers[i]) == len(s.numbers):
				from[i] = cmp.Or(from[i], q.Name)
			}
		}
	}
	return from
}

// wordWindow is a sliding window over the hashes of words.
type wordWindow struct {
	hashes [shingleWords]uint64
	n      int
}

// add adds the hash of a word and returns the hash of the shingle. Full is false until the window is full.
func (r *wordWindow) add(h uint64) (mark uint64, full bool) {
	r.hashes[r.n%shingleWords] = h
	r.n++
	for k := range shingleWords {
		mark = (mark ^ r.hashes[(r.n+k)%shingleWords]) * 0x100000001b3 // FNV-1a's prime
	}
	return mark, r.n >= shingleWords
}

// words yields the words of a text, folded. It skips invisible characters and marks, and decodes JSON escapes.
func words(s string) iter.Seq[string] {
	folded := make([]byte, 0, len(s))
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == '\\' && len(s) > 1 {
			if c, n := unescape(s); n > 0 {
				r, size = c, n
			}
		}
		s = s[size:]
		if r < utf8.RuneSelf || !unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Mn, r) {
			folded = utf8.AppendRune(folded, text.Fold(r))
		}
	}
	return text.Words(string(folded))
}

// unescape decodes the JSON escape at the beginning of text. It returns the character and the length of the escape,
// which is 0 for any other text.
func unescape(text string) (rune, int) {
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

// injections are patterns that never occur in advice for human tasks, each with the reason for the rejection.
var injections = []struct {
	why     string
	pattern func() *regexp.Regexp
}{
	{"prompt injection: orders the reader to ignore its instructions", joinPattern(
		`\b(?:ignore|disregard|forget|override|overrule)\b[^.\n]{0,100}?\b(?:instructions?|directives?|guidelines|guardrails|bullets?|playbook|the above|the (?:foregoing|preceding)`,
		`|(?:system|your|previous|prior|initial|original|earlier) prompts?|(?:all|any|every|your|previous|prior|earlier|these|those|other) (?:the )?(?:\w+ )?rules?`,
		`|(?:all|everything|anything|any|whatever|what)(?: of)?(?: the| that| you)?(?: is| was| were| came| stands)? (?:above|before|previous|prior|preceding|said|told|earlier))\b`,
		`|\b(?:ignore|disregard|forget)\b[^\n]{0,200}?\b(?:remember|memori[sz]e|learn|add)\b[^\n]{0,24}?[:–]|\b(?:ignore|disregard|forget) all (?:of (?:this|it|that|the)\b|and\b)`,
		`|\b(?:ignoriere?n?|vergiss|missachte|ignora|ignorez?|olvida|oubliez?|dimentica)\b[^.\n]{0,60}(?:anweisung|instrucci[oó]n|instruction|istruzion|regeln|reglas|règles)`,
		`|(?:忽略|无视|無視)[^。\n]{0,30}(?:指令|指示|说明|規則|规则)|игнорируй[^.\n]{0,40}инструкци`)},
	{"prompt injection: imitates a part of a prompt", joinPattern(
		`(?m:^[\s#>*_-]*(?:system|assistant|developer|human)[\s*_]*(?:message|prompt|note|override)?[\s*_]*:)`,
		`|<\|[a-z_]+\|>|\[/?inst\]|<</?sys>>|</?(?:system|assistant|user|instructions?|prompt)>|(?m:^\s*#{2,}\s*(?:instruction|system|response|task))`)},
	{"contains markers of a playbook or a prompt", joinPattern(
		`\[\[(?:begin|end)\b|\[[a-z][a-z0-9_]*-\d{3,}\]|\b(?:helpful|harmful|neutral)\s*[=:]\s*\d|(?m:^\s*#{1,6}\s)`,
		`|"(?:operations|bullet_tags|skill_tags|key_insight|final_answer|bullet_ids|extracted_learnings)"\s*:|"type"\s*:\s*"(?:add|update|tag|merge|remove|delete|retag|trial)"`)},
	{"prompt injection: gives orders about the playbook", joinPattern(
		`\b(?:add|insert|append|create|write|store|save|put|remember|remove|delete|clear|erase|wipe|rewrite|replace|update)\b[^.\n]{0,50}\b(?:bullets?|playbook|key_insight)\b`,
		`|\b(?:tag|mark|rate|vote|label|count)\b[^.\n]{0,60}\b(?:as )?(?:helpful|harmful)\b`)},
	{"prompt injection: gives orders to a model", joinPattern(
		`\byou are (?:now|no longer|from now on)\b|\bfrom now on,? (?:you|always obey)\b|\bpretend (?:to be|that you|you)\b|\bas an? (?:ai|language model|large language model)\b`,
		`|\bact as (?:an?|the)\b[^.\n]{0,40}\b(?:ai|assistant|language model|root|dan|system)\b|\b(?:new|real|true|actual|updated) instructions?\s*(?::|are\b|follow)`,
		`|\b(?:reveal|print|repeat|output|leak|show|send)\b[^.\n]{0,60}\b(?:system prompt|your (?:instructions|prompt|secrets?))\b|\b(?:dear|attention|note to|hey|hello),? (?:all )?(?:the )?(?:ai|llms?|language models?|models?|assistants?|reflectors?|curators?|generators?)\b`,
		`|\b(?:the )?(?:reflector|curator|generator) (?:must|should|shall|has to|is to|will)\b|\bdeveloper mode\b|\bjailbreak`)},
}

// joinPattern returns a function that compiles the pattern at its first call: together they take a millisecond, and most
// commands need none.
func joinPattern(parts ...string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.Join(parts, "")) })
}

// detectInjection returns the reason if a text gives orders to models or imitates a prompt, else "".
func detectInjection(s string) string {
	if s == "" {
		return ""
	}
	folded := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return text.Fold(r)
	}, excerpt(s, 2*maxLesson))
	for i := range injections {
		if injections[i].pattern().MatchString(folded) {
			return injections[i].why
		}
	}
	return ""
}
