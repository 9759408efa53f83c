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
	maxAnswer = 1 << 20  // bytes of an answer; longer ones are not read
	maxRepair = 64 << 10 // bytes repaired per answer: jsonrepair is quadratic and takes up to 2 s for so many
	maxDepth  = 64       // brackets within brackets
	maxSpans  = 1000     // stretches of JSON in one answer; what comes after them is not looked at
)

// Object is the JSON object in a model's answer. Models wrap it in thoughts, prose and fences, and forget quotes, commas
// and brackets: of several objects the one in a fence is taken, else the longest, and small damage is repaired. A list
// of one object passes for the object. An answer that was cut by the length limit is read but never repaired, as the
// repair would invent its end.
//
// Errors are written for the model to read. Which fields the object has and whether they are null is not looked at.
func Object(r Reply) (json.RawMessage, error) {
	objects, lists, err := find(r)
	if err != nil {
		return nil, err
	}
	raw, err := best(r, objects, errors.New("there is no JSON object in the answer"))
	if err == nil || len(objects) > 0 || len(lists) == 0 {
		return raw, err
	}

	raw, err = best(r, lists, nil)
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

// ObjectOrList is Object where a list will do as well.
func ObjectOrList(r Reply) (json.RawMessage, error) {
	objects, lists, err := find(r)
	if err != nil {
		return nil, err
	}
	return best(r, append(objects, lists...), errors.New("there is neither a JSON object nor a list in the answer"))
}

// span is a stretch of an answer that is meant as JSON.
type span struct {
	text   string
	fenced bool // a fence opens right before it
	open   bool // its last bracket is missing
}

// find is every span of an answer, none within another.
func find(r Reply) (objects, lists []span, err error) {
	if len(r.Text) > maxAnswer {
		return nil, nil, fmt.Errorf("the answer is %d bytes long, at most %d are read", len(r.Text), maxAnswer)
	}
	text := strings.ToValidUTF8(Spoken(r.Text), "\uFFFD")

	// A bracket that nothing closes costs a walk to the end of the text. There are few: they lie within one another, and
	// maxDepth ends the reading of a text that has many.
	for i := 0; i < len(text) && len(objects)+len(lists) < maxSpans; {
		next := strings.IndexAny(text[i:], "{[")
		if next < 0 {
			break
		}
		i += next
		if !meant.MatchString(text[i:min(len(text), i+maxKey)]) {
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
		default: // a bracket in prose: what follows it counts
			n = 1
		}
		i += n
	}
	return objects, lists, nil
}

var (
	// meant tells the beginning of JSON, however sloppy, from brackets in prose and code such as {context} or [see].
	meant = regexp.MustCompile(`^(\{\s*(["'“”‘’}]|//|/\*|[\w$-]+\s*:)|\[\s*(["'“”‘’{\[\]]|-?\d))`)
	fence = regexp.MustCompile("```[ \\t]*\\w*\\s*$")
)

const (
	maxKey   = 256 // how far meant looks ahead
	maxFence = 32  // how far fence looks back
)

// withoutFence ends a fenced span that lacks its bracket where its fence ends.
func (s span) withoutFence() span {
	if s.open && s.fenced {
		if end := strings.LastIndex(s.text, "\n```"); end > 0 {
			s.text = s.text[:end]
		}
	}
	return s
}

// match is how far the brackets at the start of s reach, and whether they are closed. Brackets in strings are text; a
// closing one ends what was opened since its partner; strings may run over several lines, as models write them so.
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
			stack[depth] = c + 2 // both brackets are followed, two further on, by their partners
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

// best is the first of the likeliest spans that can be read; none is the error when there are no spans.
func best(r Reply, spans []span, none error) (json.RawMessage, error) {
	slices.SortStableFunc(spans, func(a, b span) int {
		if a.fenced != b.fenced {
			if a.fenced {
				return -1
			}
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

// read is the span as valid JSON of the same kind. left is how many bytes may still be repaired.
func (s span) read(r Reply, left *int) (json.RawMessage, error) {
	var v json.RawMessage
	invalid := json.Unmarshal([]byte(s.text), &v)
	switch {
	case invalid == nil:
		return v, nil
	case r.Cut():
		return nil, errors.New("the answer was cut off before its JSON was complete")
	case len(s.text) > *left:
		return nil, fmt.Errorf("the JSON is invalid (%w) and too long to repair", invalid)
	}
	*left -= len(s.text)
	repaired, err := jsonrepair.Repair(s.text)
	// What the repair takes for another kind of value, or leaves broken, was not what was meant.
	if err != nil || repaired == "" || repaired[0] != s.text[0] || !json.Valid([]byte(repaired)) {
		return nil, fmt.Errorf("the JSON is invalid: %w", invalid)
	}
	return json.RawMessage(repaired), nil
}

var (
	thinking = regexp.MustCompile(`(?i)^<think(ing)?>`)
	thought  = regexp.MustCompile(`(?i)</think(ing)?>`)
)

// Spoken is an answer without the thoughts that reasoning models write before it, in <think> tags. Some servers swallow
// the opening tag; a thought that never ends leaves nothing. Tags within an answer that has begun are part of it.
func Spoken(text string) string {
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
			return text // the tag is quoted by JSON that began before it and has no more after it
		}
		text = text[end[1]:]
	}
}
