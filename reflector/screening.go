package reflector

import (
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// This file screens the reply of the model. The model reads bullets of the playbook and untrusted text, and may repeat
// either as a lesson. Then a bullet would support itself, and a trace could write into the playbook. So a lesson is
// dropped if it repeats a bullet in the prompt: an echo. It is marked, so that it waits in quarantine for a person, if it
//
//   - is copied from the material. Feedback of a person and the expected answer may be copied: they are meant to teach;
//   - gives orders to models or contains markers of a prompt or a playbook, whatever its source; see admit.Screen.
//
// The error and the correct approach of a reflection are shown in the session without a bullet, and the Curator gets the cause and the
// correct approach. They are marked too if a sentence of them is copied, and the note and the Curator's prompt do not contain
// a marked text.
//
// Copies are found by shingles, which are runs of neighbouring words, after Broder, "On the resemblance and containment of
// documents" (1997). Containment is the share of the lesson's shingles that occur in one text. Only text in the prompt is
// searched, each word once, so the cost does not depend on the length of the trace.

const (
	echoSimilarity   = 0.88 // of a lesson and a bullet; see isEcho
	copyContainment  = 0.8  // share of a lesson's shingles in one text that counts as a copy
	shingleWords     = 4    // words in a shingle
	minShingledWords = 6    // words; a shorter lesson is a copy only if a text contains all of it
	copiedRun        = 8    // neighbouring words in a lesson that count as a copy of a long text; the rest of the lesson does not matter
	maxLessons       = 3    // of one execution
	maxLesson        = 2000 // bytes of a lesson
	maxIgnored       = 32   // sentences
)

// screen removes and marks lessons, and adds the reasons for removals to Ignored. prepare prepares the bullets of the prompt for comparison.
func (a *analysis) screen(e *events.Execution, other *otherRun, cfg Config, prepare func(string) *similar.Text) {
	lessons := make([]events.Lesson, 0, len(a.Lessons)+1)
	if a.KeyInsight != "" {
		lessons = append(lessons, events.Lesson{Section: a.Section, When: a.When, Content: a.KeyInsight})
	}
	lessons = append(lessons, a.Lessons...)
	if more := len(lessons) - maxLessons; more > 0 {
		a.ignore("%d lessons dropped: more than %d for one execution", more, maxLessons)
		lessons = lessons[:maxLessons]
	}
	lessons = a.addConditions(lessons)
	var untrusted []chat.Quotation
	if len(lessons)+len(a.Records) > 0 {
		untrusted = untrustedTexts(e, other, cfg)
	}
	contents := make([]string, len(lessons))
	for i, l := range lessons {
		contents[i] = l.Content
	}
	copies := copySources(contents, untrusted)
	kept := lessons[:0]
	for i, l := range lessons {
		if reason := rejectReason(l.Content, e.Shown, prepare); reason != "" {
			a.ignore("lesson %q: %s", shorten(l.Content), reason)
			continue
		}
		if _, suspect := admit.Screen(l.Section); suspect {
			l.Section = ""
		}
		kept = append(kept, markLesson(l, copies[i]))
	}
	a.KeyInsight, a.When, a.Lessons = "", "", kept
	for i, l := range kept {
		if l.Code == "" { // prompts quote the key insight, so it must not be a marked lesson
			a.KeyInsight, a.When = l.Content, l.When
			a.Section = l.Section
			a.Lessons = slices.Delete(slices.Clone(kept), i, i+1)
			break
		}
	}
	a.screenRecords(untrusted)
	a.Ignored = a.Ignored[:min(len(a.Ignored), maxIgnored)]
}

// addConditions puts the condition of each lesson before its text, once: a text may begin with it in other words. It drops a lesson with an
// invalid condition, because the text without the condition would be other advice.
func (a *analysis) addConditions(lessons []events.Lesson) []events.Lesson {
	kept := lessons[:0]
	for _, l := range lessons {
		when, content, err := playbook.CleanText(l.When, similar.WithoutCondition(l.When, l.Content))
		if err != nil {
			a.ignore("lesson %q: %v", shorten(l.Content), err)
			continue
		}
		l.When, l.Content = when, content
		kept = append(kept, l)
	}
	return kept
}

// markLesson marks a lesson that looks like an order to models or that is copied from a text of the run.
func markLesson(l events.Lesson, copiedFrom string) events.Lesson {
	if found, suspect := admit.ScreenText(l.When, l.Content); suspect {
		l.Code, l.Reason = playbook.ReasonInjection, found.String()
	} else if copiedFrom != "" {
		l.Code, l.Reason = playbook.ReasonCopied, "copied from the trace ("+copiedFrom+")"
	}
	return l
}

// markCopies marks the error, the cause and the correct approach of a reflection if a sentence of them is copied from a text of the run.
// Call it after finishSample, which may set these fields.
func markCopies(e *events.Execution, ref *events.Reflection, other *otherRun, cfg Config) {
	if ref.ErrorIdentification == "" && ref.RootCauseAnalysis == "" && ref.CorrectApproach == "" {
		return
	}
	texts := untrustedTexts(e, other, cfg)
	mark := func(name, s string) {
		parts := []string{s}
		for _, sentence := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(".!?\n", r) }) {
			if n := len(slices.Collect(words(sentence))); n >= minShingledWords {
				parts = append(parts, sentence)
			}
		}
		if slices.ContainsFunc(copySources(parts, texts), func(from string) bool { return from != "" }) {
			ref.Copied = append(ref.Copied, name)
		}
	}
	mark(events.FieldError, ref.ErrorIdentification)
	mark(events.FieldCause, ref.RootCauseAnalysis)
	mark(events.FieldApproach, ref.CorrectApproach)
}

// screenRecords clears the texts of records that would be marked in a lesson, because prompts of the session quote them without a
// review. In place of a cleared record, these prompts have one that is derived from the step without a model.
func (a *analysis) screenRecords(untrusted []chat.Quotation) {
	var texts []*string
	for i := range a.Records {
		r := &a.Records[i]
		texts = append(texts, &r.Synthesis)
		for k := range r.Calls {
			c := &r.Calls[k]
			texts = append(texts, &c.Line, &c.Insights, &c.Learning)
			for n := range c.Next {
				texts = append(texts, &c.Next[n])
			}
		}
	}
	texts = slices.DeleteFunc(texts, func(s *string) bool { return *s == "" })
	all := make([]string, len(texts))
	for i, s := range texts {
		all[i] = *s
	}
	for i, from := range copySources(all, untrusted) {
		if l := markLesson(events.Lesson{Content: all[i]}, from); l.Code != "" {
			a.ignore("records: %s", l.Reason)
			*texts[i] = ""
		}
	}
	for i := range a.Records {
		for k := range a.Records[i].Calls {
			c := &a.Records[i].Calls[k]
			c.Next = slices.DeleteFunc(c.Next, func(s string) bool { return s == "" })
		}
	}
}

func (a *analysis) ignore(format string, args ...any) {
	a.Ignored = append(a.Ignored, fmt.Sprintf(format, args...))
}

// shorten returns the beginning of a text for use in a message.
func shorten(s string) string { return text.Quotable(s, 80) }

// rejectReason returns why a lesson must be dropped, "" if it may stay.
func rejectReason(lesson string, shown []events.ShownBullet, prepare func(string) *similar.Text) string {
	if len(lesson) > maxLesson {
		return fmt.Sprintf("longer than %d bytes", maxLesson)
	}
	c := prepareLesson(lesson)
	for i := range shown {
		if c.isEcho(shown[i].Content, prepare) {
			return fmt.Sprintf("repeats bullet %s, which was in the prompt", shown[i].ID)
		}
	}
	return ""
}

// preparedLesson is a lesson that is prepared once for the comparison with many bullets.
type preparedLesson struct {
	text     string
	prepared *similar.Text
	words    []string
}

func prepareLesson(lesson string) *preparedLesson {
	return &preparedLesson{lesson, similar.Prepare(lesson), slices.Collect(words(lesson))}
}

// isEcho reports whether the lesson repeats a bullet: its text is similar and gives the same advice, or its words are the same.
func (c *preparedLesson) isEcho(bullet string, prepare func(string) *similar.Text) bool {
	if c.prepared.SimilarityTo(prepare(bullet)) >= echoSimilarity && similar.Difference(c.text, bullet).Kind == similar.Same {
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
func untrustedTexts(e *events.Execution, other *otherRun, cfg Config) []chat.Quotation {
	run := *e // without the bullets, which are not texts of the run, and without earlier rounds, whose answers are added below
	run.Shown, run.PreviousRounds = nil, nil
	texts := material(&run, other, cfg)
	for i := range e.PreviousRounds {
		texts = append(texts, chat.Quotation{Name: quoteAnswer, Text: excerpt(e.PreviousRounds[i].Answer, shortText)})
	}
	return slices.DeleteFunc(texts, func(q chat.Quotation) bool {
		switch q.Name {
		case quoteTarget, quoteFeedback, quoteOtherNote:
		default:
			return false
		}
		_, looksLikeOrder := admit.Screen(q.Text)
		return !looksLikeOrder
	})
}

// lessonIndex indexes a lesson for the search in texts.
type lessonIndex struct {
	words    []string
	shingles map[uint64]bool // by hash
	order    []uint64        // hashes of all shingles, as they follow each other
	numbers  map[uint64]bool // by hash: the words of the lesson that begin with a digit
}

func newLessonIndex(lesson string, seed maphash.Seed) lessonIndex {
	x := lessonIndex{words: slices.Collect(words(excerpt(lesson, maxLesson))), shingles: map[uint64]bool{}, numbers: map[uint64]bool{}}
	var window wordWindow
	for _, w := range x.words {
		h := maphash.String(seed, w)
		if unicode.IsDigit([]rune(w)[0]) {
			x.numbers[h] = true
		}
		if shingle, full := window.add(h); full {
			x.order = append(x.order, shingle)
			x.shingles[shingle] = true
		}
	}
	return x
}

// isShort reports whether the lesson is too short for a comparison by shingles.
func (x *lessonIndex) isShort() bool { return len(x.words) < minShingledWords }

// match has the shingles and numbers of a lesson that one text has, by hash.
type match struct{ shingles, numbers map[uint64]bool }

// copySources returns for each lesson the name of a text that it is copied from, or "". A lesson with a number that
// the text lacks is not a copy of it: it corrects the text.
func copySources(lessons []string, texts []chat.Quotation) []string {
	from := make([]string, len(lessons))
	if len(lessons) == 0 {
		return from
	}
	indexes := make([]lessonIndex, len(lessons))
	seed := maphash.MakeSeed()
	anyShort := false
	for i, l := range lessons {
		indexes[i] = newLessonIndex(l, seed)
		anyShort = anyShort || indexes[i].isShort()
	}
	for _, q := range texts {
		var flat strings.Builder // the words of the text, for short lessons
		found := make([]match, len(lessons))
		for i := range found {
			found[i] = match{shingles: map[uint64]bool{}, numbers: map[uint64]bool{}}
		}
		var window wordWindow
		for w := range words(q.Text) {
			if anyShort {
				flat.WriteByte(' ')
				flat.WriteString(w)
			}
			h := maphash.String(seed, w)
			shingle, full := window.add(h)
			for i := range indexes {
				if indexes[i].numbers[h] {
					found[i].numbers[h] = true
				}
				if full && indexes[i].shingles[shingle] {
					found[i].shingles[shingle] = true
				}
			}
		}
		flat.WriteByte(' ')
		for i := range indexes {
			if from[i] == "" && indexes[i].isCopied(q.Name, flat.String(), found[i]) {
				from[i] = q.Name
			}
		}
	}
	return from
}

// isCopied reports whether the lesson is copied from the text with this name. flat has the words of the text, each between spaces.
func (x *lessonIndex) isCopied(name, flat string, found match) bool {
	if len(x.words) == 0 {
		return false
	}
	if x.isShort() {
		return strings.Contains(flat, " "+strings.Join(x.words, " ")+" ")
	}
	isContained := float64(len(found.shingles)) >= copyContainment*float64(len(x.shingles))
	if isContained && len(found.numbers) == len(x.numbers) {
		return true
	}
	switch name {
	case quoteTrace, quoteOther, quoteContext, quoteBoth, quoteSystem, quoteTools:
		return x.quotes(found.shingles)
	}
	return false
}

// quotes reports whether copiedRun neighbouring words of the lesson are in a text with these shingles.
func (x *lessonIndex) quotes(found map[uint64]bool) bool {
	n := 0 // shingles in a row, which have shingleWords-1 words more than shingles
	for _, shingle := range x.order {
		if !found[shingle] {
			n = 0
			continue
		}
		n++
		if n+shingleWords-1 >= copiedRun {
			return true
		}
	}
	return false
}

// wordWindow is a sliding window over the hashes of words.
type wordWindow struct {
	hashes [shingleWords]uint64
	n      int // words so far
}

// add adds the hash of a word and returns the hash of the last shingleWords words. full is false while there are fewer words.
func (r *wordWindow) add(h uint64) (shingle uint64, full bool) {
	r.hashes[r.n%shingleWords] = h
	r.n++
	for k := range shingleWords {
		shingle = (shingle ^ r.hashes[(r.n+k)%shingleWords]) * 0x100000001b3 // FNV-1a's prime
	}
	return shingle, r.n >= shingleWords
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
