package remedy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"debrief/playbook/text"
)

// lessonOf returns the lesson about one error with a remedy.
func lessonOf(st *errorStat, c *choice) Lesson {
	evidence := evidenceOf(st, c.main)
	if c.with != nil {
		evidence = evidenceOf(st, c.with) // its runs have both
		evidence.Remedy = c.main.say + ", then " + c.with.say
	}
	return Lesson{
		Key: lessonKey("error", st.tool, st.text), Section: Section,
		Content: text.Prefix(sentence(st, c), MaxContent), Evidence: []Evidence{evidence},
	}
}

// sentence returns the content of a lesson.
func sentence(st *errorStat, c *choice) string {
	tool, m := "`"+st.tool+"`", c.main
	condition := fmt.Sprintf("If %s answers \"%s\", ", tool, st.text)
	switch {
	case m.rank == rankSame && m.reader && !m.lookup && c.with == nil: // reading first does no harm
		return fmt.Sprintf("Before %s, call `%s` with the same `%s`. Otherwise %s can answer \"%s\".", tool, m.do, m.shared, tool, st.text)
	case m.do != "" && c.with != nil:
		return condition + m.say + ", then " + c.with.say + "."
	case m.do != "":
		return condition + m.say + ", then call " + tool + " again."
	case m.rank == rankRetry:
		return condition + m.say + ". It worked the next time."
	}
	return condition + m.say + "."
}

// knownError is one item of the lesson about the known errors of a tool.
type knownError struct {
	item     string
	evidence Evidence
}

// minRepeats is the number of runs in which agents repeated an error, so that it is worth a warning.
const minRepeats = 2

// knownOf returns the item of an error: with its trivial remedy, or a warning if agents repeated the call unchanged. It
// returns false for an error that agents did not repeat.
func knownOf(st *errorStat, c *choice) (knownError, bool) {
	item := fmt.Sprintf("\"%s\"", st.text)
	switch {
	case st.named:
		return knownError{}, false
	case st.repeated < minRepeats:
		return knownError{}, false // agents react to the error text without help
	case c != nil:
		return knownError{item + " (" + c.main.say + ")", evidenceOf(st, c.main)}, true
	case st.met.tasks < minTasks || st.unchanged < minRepeats || st.recovered > 0:
		return knownError{}, false
	}
	return knownError{item + " (the same call fails again)", evidenceOf(st, nil)}, true
}

// knownLesson returns the lesson about the known errors of one tool, the most frequent ones first. Errors that do not
// fit into MaxContent are left out.
func knownLesson(tool string, errors []knownError) Lesson {
	slices.SortStableFunc(errors, func(a, b knownError) int { return cmp.Compare(b.evidence.Runs, a.evidence.Runs) })
	l := Lesson{Key: lessonKey("known-errors", tool), Section: Section, Content: "Known errors of `" + tool + "`: "}
	for i, k := range errors {
		if i > 0 {
			k.item = "; " + k.item
		}
		if len(l.Content)+len(k.item)+1 > MaxContent {
			break
		}
		l.Content += k.item
		l.Evidence = append(l.Evidence, k.evidence)
	}
	l.Content += "."
	return l
}

// maxLessonKey is the maximum length of Lesson.Key in bytes.
const maxLessonKey = 200

// lessonKey joins escaped parts. A long key ends with a hash of the whole key.
func lessonKey(kind string, parts ...string) string {
	key := kind
	for _, p := range parts {
		key += "/" + keyPart.Replace(p)
	}
	if len(key) <= maxLessonKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return text.Prefix(key, maxLessonKey-17) + "~" + hex.EncodeToString(sum[:8])
}

var keyPart = strings.NewReplacer("%", "%25", "/", "%2F", "~", "%7E")
