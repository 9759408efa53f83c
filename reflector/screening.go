package reflector

import (
	"fmt"
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
// correct approach. Their copied sentences are taken out. A field without another sentence is marked, so that people can read it, and
// neither the note nor the Curator's prompt contains it.
//
// Copies are found by shingles, which are runs of neighbouring words, after Broder, "On the resemblance and containment of
// documents" (1997). Containment is the share of the lesson's shingles that occur in one text. Only text in the prompt is
// searched, so the cost does not depend on the length of the trace.

const (
	echoSimilarity   = 0.88 // of a lesson and a bullet; see rejectReason
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
	var untrusted []source
	if len(lessons)+len(a.Records) > 0 {
		untrusted = untrustedTexts(e, other, cfg)
	}
	kept := lessons[:0]
	for _, l := range lessons {
		if reason := rejectReason(l.Content, e, prepare); reason != "" {
			a.ignore("lesson %q: %s", shorten(l.Content), reason)
			continue
		}
		if _, suspect := admit.Screen(l.Section); suspect {
			l.Section = ""
		}
		kept = append(kept, markLesson(l, copySource(l.Content, untrusted)))
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

// markCopies takes the sentences that are copied from a text of the run out of the error, the cause and the correct approach of a reflection. It
// marks a field that has no other sentence. Call it after finishSample, which may set these fields.
func markCopies(e *events.Execution, ref *events.Reflection, other *otherRun, cfg Config) {
	if ref.ErrorIdentification == "" && ref.RootCauseAnalysis == "" && ref.CorrectApproach == "" {
		return
	}
	texts := untrustedTexts(e, other, cfg)
	mark := func(name string, s *string) {
		if !hasCopy(*s, texts) {
			return
		}
		if own := withoutCopies(*s, texts); own != "" && !hasCopy(own, texts) {
			*s = own
			ref.Ignored = append(ref.Ignored, name+": copied sentences were left out")
		} else {
			ref.Copied = append(ref.Copied, name)
		}
	}
	mark(events.FieldError, &ref.ErrorIdentification)
	mark(events.FieldCause, &ref.RootCauseAnalysis)
	mark(events.FieldApproach, &ref.CorrectApproach)
}

// hasCopy reports whether a text or a sentence of it is copied. A part of a sentence counts as one if it ends at a point, as in "3.5".
func hasCopy(s string, texts []source) bool {
	parts := []string{s}
	for _, sentence := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(".!?\n", r) }) {
		if n := len(slices.Collect(words(sentence))); n >= minShingledWords {
			parts = append(parts, sentence)
		}
	}
	return slices.ContainsFunc(parts, func(part string) bool { return copySource(part, texts) != "" })
}

// minOwnWords is the number of words that at least one sentence beside the copied ones must have. A number of a list or a heading has fewer.
const minOwnWords = 3

// withoutCopies returns the sentences of a text that are not copied, with an ellipsis for the others, or "" if all are copied or too short.
func withoutCopies(s string, texts []source) string {
	var own []string
	isEmpty := true
	for _, sentence := range text.Sentences(s) {
		switch isCopied := hasCopy(sentence, texts); {
		case !isCopied:
			own = append(own, sentence)
			isEmpty = isEmpty && len(slices.Collect(words(sentence))) < minOwnWords
		case len(own) == 0 || own[len(own)-1] != text.Ellipsis:
			own = append(own, text.Ellipsis)
		}
	}
	if isEmpty {
		return ""
	}
	return strings.Join(own, " ")
}

// screenRecords clears the texts of records that would be marked in a lesson, because prompts of the session quote them without a
// review. In place of a cleared record, these prompts have one that is derived from the step without a model.
func (a *analysis) screenRecords(untrusted []source) {
	screened := func(s string) string {
		if s == "" {
			return ""
		}
		if l := markLesson(events.Lesson{Content: s}, copySource(s, untrusted)); l.Code != "" {
			a.ignore("records: %s", l.Reason)
			return ""
		}
		return s
	}
	for i := range a.Records {
		r := &a.Records[i]
		r.Synthesis = screened(r.Synthesis)
		for k := range r.Calls {
			c := &r.Calls[k]
			c.Line = screened(c.Line)
			c.Insights = screened(c.Insights)
			c.Learning = screened(c.Learning)
			c.Next = slices.DeleteFunc(c.Next, func(s string) bool { return screened(s) == "" })
		}
	}
}

func (a *analysis) ignore(format string, args ...any) {
	a.Ignored = append(a.Ignored, fmt.Sprintf(format, args...))
}

// shorten returns the beginning of a text for use in a message.
func shorten(s string) string { return text.Quotable(s, 80) }

// rejectReason returns why a lesson must be dropped, "" if it may stay. A lesson repeats a bullet or a reflection in the prompt, as an echo, if its
// text is similar and gives the same advice, or if its words are the same.
func rejectReason(lesson string, e *events.Execution, prepare func(string) *similar.Text) string {
	if len(lesson) > maxLesson {
		return fmt.Sprintf("longer than %d bytes", maxLesson)
	}
	prepared, own := similar.Prepare(lesson), slices.Collect(words(lesson))
	repeats := func(shown string) bool {
		saysSame := prepared.SimilarityTo(prepare(shown)) >= echoSimilarity && similar.Difference(lesson, shown).Kind == similar.Same
		return saysSame || slices.Equal(own, slices.Collect(words(shown)))
	}
	for i := range e.Shown {
		if repeats(e.Shown[i].Content) {
			return fmt.Sprintf("repeats bullet %s, which was in the prompt", e.Shown[i].ID)
		}
	}
	for _, p := range shownNotes(e) {
		for line := range strings.Lines(p.Text) {
			if _, shown, _ := strings.Cut(strings.TrimSpace(line), ": "); repeats(shown) {
				return fmt.Sprintf("repeats reflection %s, which was in the prompt", p.Ref)
			}
		}
	}
	return ""
}

// untrustedTexts returns the quotations of a prompt that a lesson must not be copied from. Feedback and the expected
// answer are included only if they look like an order to models.
func untrustedTexts(e *events.Execution, other *otherRun, cfg Config) []source {
	run := *e // without the bullets, which are not texts of the run, and without earlier rounds, whose answers are added below
	run.Shown, run.Manifest, run.PreviousRounds = nil, nil, nil
	texts := material(&run, other, cfg)
	for i := range e.PreviousRounds {
		texts = append(texts, chat.Quotation{Name: quoteAnswer, Text: excerpt(e.PreviousRounds[i].Answer, shortText)})
	}
	return sourcesOf(slices.DeleteFunc(texts, func(q chat.Quotation) bool {
		if q.Name != quoteTarget && q.Name != quoteFeedback && q.Name != quoteOtherNote {
			return false
		}
		_, looksLikeOrder := admit.Screen(q.Text)
		return !looksLikeOrder
	}))
}

// foldedText is a text as its folded words, for the search for copies.
type foldedText struct {
	words    []string
	flat     string          // the words, each between spaces
	order    []string        // the shingles, in the order of the text
	shingles map[string]bool // the set of these
}

func newFoldedText(s string) foldedText {
	t := foldedText{words: slices.Collect(words(s)), shingles: map[string]bool{}}
	t.flat = " " + strings.Join(t.words, " ") + " "
	for i := range len(t.words) - shingleWords + 1 {
		shingle := strings.Join(t.words[i:i+shingleWords], " ")
		t.order = append(t.order, shingle)
		t.shingles[shingle] = true
	}
	return t
}

// source is a text that a lesson may be copied from.
type source struct {
	chat.Quotation
	foldedText
}

func sourcesOf(quotations []chat.Quotation) []source {
	list := make([]source, len(quotations))
	for i, q := range quotations {
		list[i] = source{q, newFoldedText(q.Text)}
	}
	return list
}

// copySource returns the name of the source that a lesson is copied from, or "".
func copySource(lesson string, sources []source) string {
	l := newFoldedText(excerpt(lesson, maxLesson))
	for i := range sources {
		if len(l.words) > 0 && l.isCopiedFrom(&sources[i]) {
			return sources[i].Name
		}
	}
	return ""
}

// isCopiedFrom reports whether a lesson is copied from a source. A lesson with a number that the source lacks is not a copy: it corrects the text.
func (l *foldedText) isCopiedFrom(s *source) bool {
	if len(l.words) < minShingledWords {
		return strings.Contains(s.flat, l.flat)
	}
	found := 0
	for shingle := range l.shingles {
		if s.shingles[shingle] {
			found++
		}
	}
	isContained := float64(found) >= copyContainment*float64(len(l.shingles))
	isOtherNumber := func(w string) bool { return unicode.IsDigit([]rune(w)[0]) && !strings.Contains(s.flat, " "+w+" ") }
	if isContained && !slices.ContainsFunc(l.words, isOtherNumber) {
		return true
	}
	switch s.Name {
	case quoteTrace, quoteOther, quoteContext, quoteBoth, quoteSystem, quoteTools:
		return l.isQuotedFrom(s)
	}
	return false
}

// isQuotedFrom reports whether copiedRun neighbouring words of the lesson are in a source.
func (l *foldedText) isQuotedFrom(s *source) bool {
	n := 0 // shingles in a row, which have shingleWords-1 words more than shingles
	for _, shingle := range l.order {
		if !s.shingles[shingle] {
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
