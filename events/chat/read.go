package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kaptinlin/jsonrepair"
)

const (
	maxAnswer = 1 << 20  // bytes of an answer; a longer one is an error
	maxRepair = 64 << 10 // bytes repaired per answer: jsonrepair is quadratic and takes up to 2 s for this size
	maxDepth  = 64       // nested brackets
	maxSpans  = 1000     // JSON values in one answer; later ones are ignored
)

// ParseObject returns the JSON object in a model's answer. Models wrap JSON in thoughts, prose and code fences, and omit
// quotes, commas and brackets. Of several objects ParseObject selects a fenced one before others, and the longest of these, and
// repairs small errors. A list with one object is accepted as that object. An answer that the length limit
// truncated is never repaired, because the repair would invent the missing end.
//
// Errors are written for the model to read. ParseObject does not check the fields of the object.
func ParseObject(r Reply) (json.RawMessage, error) {
	objects, lists, err := find(r)
	if err != nil {
		return nil, err
	}
	raw, err := best(r, objects, errors.New("there is no JSON object in the answer"))
	if len(objects) > 0 || len(lists) == 0 {
		return raw, err
	}

	raw, err = best(r, lists, nil) // there is no object, but a list
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	if len(items) == 1 && items[0][0] == '{' {
		return items[0], nil
	}
	return nil, fmt.Errorf("the answer is a JSON list of %d, want one JSON object", len(items))
}

// ParseObjectOrList is like ParseObject, but also accepts a list.
func ParseObjectOrList(r Reply) (json.RawMessage, error) {
	objects, lists, err := find(r)
	if err != nil {
		return nil, err
	}
	return best(r, append(objects, lists...), errors.New("there is neither a JSON object nor a list in the answer"))
}

// span is a part of an answer that looks like JSON.
type span struct {
	text   string
	fenced bool // a code fence opens directly before it
	open   bool // its closing bracket is missing
}

// find returns the JSON spans of an answer. Spans do not contain each other.
func find(r Reply) (objects, lists []span, err error) {
	if len(r.Text) > maxAnswer {
		return nil, nil, fmt.Errorf("the answer is %d bytes long, at most %d are read", len(r.Text), maxAnswer)
	}
	text := strings.ToValidUTF8(StripThinking(r.Text), "\uFFFD")

	// An unclosed bracket costs a scan to the end of the text. Such brackets are nested, and maxDepth limits the
	// nesting, so there are few of them.
	for i := 0; i < len(text) && len(objects)+len(lists) < maxSpans; {
		next := strings.IndexAny(text[i:], "{[")
		if next < 0 {
			break
		}
		i += next
		if !jsonStart.MatchString(text[i:min(len(text), i+maxKey)]) {
			i++
			continue
		}
		n, closed, err := match(text[i:])
		if err != nil {
			return nil, nil, err
		}
		s := span{text: text[i : i+n], fenced: fence.MatchString(text[max(0, i-maxFence):i]), open: !closed}
		switch {
		case text[i] == '{':
			objects = append(objects, s.withoutFence())
		case closed || strings.HasPrefix(strings.TrimLeft(s.text[1:], " \t\r\n"), "{"):
			lists = append(lists, s.withoutFence())
		default: // a bracket in prose: continue after it
			n = 1
		}
		i += n
	}
	return objects, lists, nil
}

var (
	// jsonStart distinguishes JSON, also malformed JSON, from brackets in prose and code such as {context} or
	// [see].
	jsonStart = regexp.MustCompile(`^(\{\s*(["'“”‘’}]|//|/\*|[\w$-]+\s*:)|\[\s*(["'“”‘’{\[\]]|-?\d))`)
	fence     = regexp.MustCompile("```[ \\t]*\\w*\\s*$")
)

const (
	maxKey   = 256 // bytes that jsonStart examines
	maxFence = 32  // bytes before the span that fence examines
)

// withoutFence removes the closing fence from a fenced span without a closing bracket.
func (s span) withoutFence() span {
	if s.open && s.fenced {
		if end := strings.LastIndex(s.text, "\n```"); end > 0 {
			s.text = s.text[:end]
		}
	}
	return s
}

// match returns the length of the JSON value at the start of s, and whether it is closed. Brackets in strings are
// ignored. A closing bracket also closes all brackets opened since its partner. Strings may contain line breaks,
// because models write them.
func match(s string) (n int, closed bool, err error) {
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

// best returns the first valid span: fenced spans come before others, and longer before shorter ones. If none is valid, it
// returns the error of the first. Without spans it returns the error none.
func best(r Reply, spans []span, none error) (json.RawMessage, error) {
	slices.SortStableFunc(spans, func(a, b span) int {
		switch {
		case a.fenced && !b.fenced:
			return -1
		case b.fenced && !a.fenced:
			return 1
		}
		return cmp.Compare(len(b.text), len(a.text))
	})
	err := none
	left := maxRepair
	for i, s := range spans {
		raw, problem := s.read(r, &left)
		if problem == nil {
			return raw, nil
		}
		if i == 0 {
			err = problem
		}
	}
	return nil, err
}

// read returns the span as valid JSON of the same kind. left is the number of bytes that may still be repaired.
func (s span) read(r Reply, left *int) (json.RawMessage, error) {
	var v json.RawMessage
	invalid := json.Unmarshal([]byte(s.text), &v)
	switch {
	case invalid == nil:
		return v, nil
	case r.Truncated():
		return nil, errors.New("the answer was cut off before its JSON was complete")
	case len(s.text) > *left:
		return nil, fmt.Errorf("the JSON is invalid (%w) and too long to repair", invalid)
	}
	*left -= len(s.text)
	repaired, err := jsonrepair.Repair(s.text)
	// Reject a repair that is invalid, or that has changed the kind of the value.
	sameKind := repaired != "" && repaired[0] == s.text[0]
	if err != nil || !sameKind || !json.Valid([]byte(repaired)) {
		return nil, fmt.Errorf("the JSON is invalid: %w", invalid)
	}
	if r.Repaired != nil {
		*r.Repaired = true
	}
	return json.RawMessage(repaired), nil
}

var (
	thinking = regexp.MustCompile(`(?i)^<think(ing)?>`)
	thought  = regexp.MustCompile(`(?i)</think(ing)?>`)
)

// StripThinking returns an answer without the thoughts of a reasoning model, which precede it in <think> tags. Some
// servers omit the opening tag. Without a closing tag the result is empty. Tags after the beginning of the answer
// are kept.
func StripThinking(text string) string {
	for {
		text = strings.TrimSpace(text)
		end := thought.FindStringIndex(text)
		switch {
		case thinking.MatchString(text):
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
