package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kaptinlin/jsonrepair"
)

const (
	maxAnswer = 1 << 20 // bytes of an answer; a longer one is an error
	maxRepair = 1 << 32 // sum of repairCost in an answer: a value of 64 KB without quotes, about 2 s
	maxDepth  = 64      // nested brackets
	maxSpans  = 1000    // JSON values in one answer; later ones are ignored
)

// value is a part of an answer that looks like a JSON object or list.
type value struct {
	text   string
	fenced bool // a code fence opens directly before it
	open   bool // its closing bracket is missing

	raw      json.RawMessage // the value as valid JSON; nil if it is not readable
	repaired bool            // raw is the result of a repair
	err      error           // the reason why the value is not readable
}

func (v value) isObject() bool { return v.text[0] == '{' }

// readValues looks for the reply in an answer: the object that has a field under one of its names. Models write a draft before
// the reply, so the last complete object with the field is the reply. Without such an object, readValues returns a nil reply and
// all values.
func readValues(r Reply, field string) (reply Object, values []value, err error) {
	left := int64(maxRepair)
	return readWithin(r, field, &left)
}

// readWithin is readValues with the part of maxRepair that is left.
func readWithin(r Reply, field string, left *int64) (Object, []value, error) {
	if len(r.Text) > maxAnswer || len(r.Thoughts) > maxAnswer {
		return nil, nil, fmt.Errorf("the answer is %d bytes long, at most %d are read", max(len(r.Text), len(r.Thoughts)), maxAnswer)
	}
	text := strings.ToValidUTF8(StripThinking(r.Text), "\uFFFD")
	if text == "" && !r.Truncated() {
		text = strings.ToValidUTF8(StripThinking(r.Thoughts), "\uFFFD")
	}
	values, err := findValues(text)
	if err != nil {
		return nil, nil, err
	}
	for _, open := range []bool{false, true} { // all complete values before those without an end
		for i := range slices.Backward(values) {
			v := &values[i]
			if v.open != open {
				continue
			}
			v.read(r, left)
			if reply := objectWith(v.raw, field); reply != nil {
				v.recordRepair(r)
				return reply, nil, nil
			}
		}
	}
	if inner := unescape(text); inner != "" {
		inside := r
		inside.Text = inner
		if reply, _, err := readWithin(inside, field, left); err == nil && reply != nil {
			return reply, nil, nil
		}
	}
	return nil, values, nil
}

// escaped matches the beginning of a JSON object whose quotes are escaped, such as {\"a\": 1}.
var escaped = regexp.MustCompile(`\{(\s|\\+[nrt])*\\+"`)

// unescape returns a JSON object that a text contains with escaped quotes, without the escapes. It returns "" for a text without
// one.
func unescape(text string) string {
	at, end := escaped.FindStringIndex(text), strings.LastIndexByte(text, '}')
	if at == nil || end < at[0] {
		return ""
	}
	var inner string
	quoted := `"` + strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(text[at[0]:end+1]) + `"`
	if json.Unmarshal([]byte(quoted), &inner) != nil {
		return ""
	}
	return inner
}

// findValues returns the values in a text, in order. Values do not contain each other.
func findValues(text string) (values []value, err error) {
	// An unclosed bracket costs a scan to the end of the text. Such brackets are nested, and maxDepth limits the
	// nesting, so there are few of them.
	for i := 0; i < len(text) && len(values) < maxSpans; {
		next := strings.IndexAny(text[i:], "{[")
		if next < 0 {
			break
		}
		i += next
		if !jsonStart.MatchString(text[i:min(len(text), i+maxKey)]) {
			i++
			continue
		}
		n, closed, err := matchBrackets(text[i:])
		if err != nil {
			return nil, err
		}
		v := value{text: text[i : i+n], fenced: fence.MatchString(text[max(0, i-maxFence):i]), open: !closed}
		if end := strings.LastIndex(v.text, "\n```"); v.open && v.fenced && end > 0 { // the fence closes, and the value does not
			v.text = v.text[:end]
		}
		switch {
		case text[i] == '{', closed, strings.HasPrefix(strings.TrimLeft(v.text[1:], " \t\r\n"), "{"):
			values = append(values, v)
		default: // a bracket in prose: continue after it
			n = 1
		}
		i += n
	}
	return values, nil
}

var (
	// jsonStart distinguishes JSON, also malformed JSON, from brackets in prose and code such as {context} or
	// [see].
	jsonStart = regexp.MustCompile(`^(\{\s*(["'“”‘’}]|//|/\*|[\w$-]+\s*:)|\[\s*(["'“”‘’{\[\]]|-?\d))`)
	fence     = regexp.MustCompile("```[ \\t]*\\w*\\s*$")
)

const (
	maxKey   = 256 // bytes that jsonStart examines
	maxFence = 32  // bytes before the value that fence examines
)

// matchBrackets returns the length of the JSON value at the start of s, and whether it is closed. Brackets in strings are
// ignored. A closing bracket also closes all brackets opened since its partner. Strings may contain line breaks,
// because models write them.
func matchBrackets(s string) (n int, closed bool, err error) {
	var stack [maxDepth]byte
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth == maxDepth {
				return 0, false, fmt.Errorf("the JSON is nested more than %d deep", maxDepth)
			}
			stack[depth] = c + 2 // in ASCII both closing brackets are two after the opening ones
			depth++
		case c == '}' || c == ']':
			for d := depth - 1; d >= 0; d-- {
				if stack[d] == c {
					depth = d
					break
				}
			}
			if depth == 0 {
				return i + 1, true, nil
			}
		}
	}
	return len(s), false, nil
}

// best returns the preferred readable value: fenced values come before others, and longer before shorter ones. If none is
// readable, it returns the error of the first. Without values it returns the error none.
func best(r Reply, values []value, none error) (json.RawMessage, error) {
	slices.SortStableFunc(values, func(a, b value) int {
		switch {
		case a.fenced && !b.fenced:
			return -1
		case b.fenced && !a.fenced:
			return 1
		}
		return cmp.Compare(len(b.text), len(a.text))
	})
	for i := range values {
		if v := &values[i]; v.raw != nil {
			v.recordRepair(r)
			return v.raw, nil
		}
	}
	if len(values) > 0 {
		return nil, values[0].err
	}
	return nil, none
}

// recordRepair records that the reply was repaired, if this value was. Call it for the value that becomes the reply.
func (v *value) recordRepair(r Reply) {
	if v.repaired && r.Repaired != nil {
		*r.Repaired = true
	}
}

// read sets raw to valid JSON of the same kind, or else err. left is the part of maxRepair that is left.
func (v *value) read(r Reply, left *int64) {
	invalid := json.Unmarshal([]byte(v.text), &v.raw)
	switch {
	case invalid == nil:
		return
	case r.Truncated():
		v.err = errors.New("the answer was cut off before its JSON was complete")
		return
	}
	cost := repairCost(v.text)
	if cost > *left {
		v.err = fmt.Errorf("the JSON is invalid (%w) and takes too long to repair", invalid)
		return
	}
	*left -= cost
	repaired, err := jsonrepair.Repair(v.text)
	// Reject a repair that is invalid, or that has changed the kind of the value.
	sameKind := repaired != "" && repaired[0] == v.text[0]
	if err != nil || !sameKind || !json.Valid([]byte(repaired)) {
		v.err = fmt.Errorf("the JSON is invalid: %w", invalid)
		return
	}
	v.raw, v.repaired = json.RawMessage(repaired), true
}

// repairCost is a measure of the longest time that jsonrepair may need for a text. The time is quadratic, and cubic for quotes without a
// partner: from each of them jsonrepair reads on to the end of the text. A text of 64 KB with nothing else would take hours.
func repairCost(text string) int64 {
	var open, squares int64 // number of quotes since the last one that may end a value, and the sum of the squares of these numbers
	for i, c := range text {
		if !strings.ContainsRune("\"'`´‘’“”", c) || strings.HasSuffix(text[:i], `\`) {
			continue
		}
		open++
		after := strings.TrimLeft(text[i+utf8.RuneLen(c):], " \t\r\n")
		if after == "" || strings.ContainsRune(",:}]", rune(after[0])) {
			squares, open = squares+open*open, 0
		}
	}
	n := int64(len(text))
	return n * (n + 4*(squares+open*open))
}

var (
	thinkOpen  = regexp.MustCompile(`(?i)^<think(ing)?>`)
	thinkClose = regexp.MustCompile(`(?i)</think(ing)?>`)
)

// StripThinking returns an answer without the thoughts of a reasoning model, which precede it in <think> tags. Some
// servers omit the opening tag. Without a closing tag the result is empty. Tags after the beginning of the answer
// are kept.
func StripThinking(text string) string {
	for {
		text = strings.TrimSpace(text)
		end := thinkClose.FindStringIndex(text)
		switch {
		case thinkOpen.MatchString(text):
			if end == nil {
				return ""
			}
		case end == nil, strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["), strings.HasPrefix(text, "```"):
			return text
		case strings.ContainsAny(text[:end[0]], "{[") && !strings.ContainsAny(text[end[1]:], "{["):
			return text // the tag is inside JSON
		}
		text = text[end[1]:]
	}
}
