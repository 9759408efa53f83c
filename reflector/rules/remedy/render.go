package remedy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"debrief/playbook/text"
)

// lessonOf returns the lesson about one error with a remedy.
func lessonOf(st *errorStat, m *remedyStat, line string) Lesson {
	sum := sha256.Sum256([]byte(st.tool + "\x00" + st.text))
	return Lesson{
		Key: "error/" + hex.EncodeToString(sum[:12]), Section: Section,
		Content: text.Prefix(sentence(st, m, line), MaxContent), Evidence: []Evidence{evidenceOf(st, m, line)},
	}
}

// sentence returns the content of a lesson.
func sentence(st *errorStat, m *remedyStat, line string) string {
	tool := "`" + st.tool + "`"
	condition := fmt.Sprintf("If %s answers \"%s\", ", tool, line)
	switch {
	case m.rank == rankSame && m.reader && !m.lookup: // reading first does no harm
		return fmt.Sprintf("Before %s, call `%s` with the same `%s`. Otherwise %s can answer \"%s\".", tool, m.do, m.shared, tool, line)
	case m.do != "":
		return condition + m.say + ", then call " + tool + " again."
	case m.rank == rankRetry:
		return condition + m.say + ". It worked the next time."
	}
	return condition + m.say + "."
}
