package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"debrief/playbook"
)

// native is the value of "format" in the project's own files.
const native = "debrief-playbook"

const bom = "\ufeff"

// Detect returns the format of a file. A text is ace if one of its bullets has counters, else appworld. Errors wrap
// ErrNoBullet for an empty file and for a text without bullets, else ErrFormat.
func Detect(data []byte) (Format, error) {
	text := strings.TrimPrefix(string(data), bom)
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return "", fmt.Errorf("%w: the file is empty", ErrNoBullet)
	case trimmed[0] == '{':
		f, err := detectJSON(trimmed)
		if err != nil {
			if t, textErr := detectText(text); textErr == nil { // a text with a brace at its start
				return t, nil
			}
		}
		return f, err
	case trimmed[0] == '[' && json.Valid([]byte(trimmed)):
		return "", fmt.Errorf("%w: a JSON list is not supported", ErrFormat)
	}
	return detectText(text)
}

func detectText(text string) (Format, error) {
	var counters, headers, plain, numbered bool
	for line := range strings.Lines(text) {
		switch l := classify(strings.TrimRight(line, "\r\n"), AppWorld); l.kind {
		case header:
			headers = true
		case bullet:
			counters = counters || l.counted
			plain = true
			numbered = numbered || l.numbered()
		}
	}
	switch {
	case counters:
		return ACE, nil
	case plain && (headers || numbered): // the condition excludes log files, whose lines begin with [INFO]
		return AppWorld, nil
	case strings.Contains(text, "\x00") || !utf8.ValidString(text):
		return "", fmt.Errorf("%w: %w in a binary file", ErrFormat, ErrNoBullet)
	}
	heading, _, _ := strings.Cut(playbook.RenderWithVotes([]*playbook.Bullet{{}}), "\n")
	if strings.HasPrefix(strings.TrimSpace(text), heading) {
		return "", fmt.Errorf("%w: markdown can only be written", ErrFormat)
	}
	return "", fmt.Errorf("%w: the text has no line like \"[id] helpful=0 harmful=0 :: content\" or \"[slug-00001] content\"", ErrNoBullet)
}

func detectJSON(text string) (Format, error) {
	if err := checkJSON(text); err != nil {
		first, _, more := strings.Cut(text, "\n")
		if more && json.Valid([]byte(first)) {
			return detectLine(first)
		}
		return "", fmt.Errorf("%w: %w", ErrFormat, err)
	}
	o, err := parseObject([]byte(text))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFormat, err)
	}
	isObject := func(name string) bool { return bytes.HasPrefix(o.get(name), []byte("{")) }
	switch {
	case isNative(o) && o.get("bullets") != nil:
		return JSON, nil
	case isNative(o):
		return JSONL, nil
	case isObject("skills"), isObject("bullets"):
		return Kayba, nil
	case isObject("strategies"):
		return SweCLI, nil
	}
	return detectLine(text) // a file of one line
}

// detectLine reports JSONL if the first line of a file is a header or a bullet.
func detectLine(line string) (Format, error) {
	o, err := parseObject([]byte(line))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrFormat, err)
	case isNative(o), o.get("id") != nil && o.get("section") != nil && o.get("content") != nil:
		return JSONL, nil
	}
	return "", fmt.Errorf("%w: the JSON has no object \"skills\", \"bullets\" or \"strategies\" (kayba, swecli) and not \"format\":%q", ErrFormat, native)
}

func isNative(o object) bool {
	var name string
	return json.Unmarshal(o.get("format"), &name) == nil && name == native
}
