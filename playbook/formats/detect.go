package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"debrief/playbook"
)

const bom = "\ufeff"

// Detect returns the format of a file. Errors wrap ErrNoBullet for an empty file and for a text without bullets, else
// ErrFormat.
func Detect(data []byte) (Format, error) {
	text := strings.TrimPrefix(string(data), bom)
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return "", fmt.Errorf("%w: the file is empty", ErrNoBullet)
	case trimmed[0] == '[' && json.Valid([]byte(trimmed)):
		return "", fmt.Errorf("%w: a JSON list is not supported", ErrFormat)
	case trimmed[0] != '{':
		return detectText(text)
	}
	f, err := detectJSON(trimmed)
	if err != nil {
		if f, err := detectText(text); err == nil { // a text with a brace at its start
			return f, nil
		}
	}
	return f, err
}

func detectText(text string) (Format, error) {
	var headers, plainBullets, certain bool
	eachLine(text, func(_ int, _ string, l line) {
		headers = headers || l.kind == header
		plainBullets = plainBullets || l.kind == plain
		isNumbered := l.kind == plain && numberedID.MatchString(l.id)
		certain = certain || isNumbered || l.kind == counted
	})
	switch {
	case certain || plainBullets && headers: // log files, whose lines begin with [INFO], have no headers
		return ACE, nil
	case strings.Contains(text, "\x00") || !utf8.ValidString(text):
		return "", fmt.Errorf("%w: %w in a binary file", ErrFormat, ErrNoBullet)
	}
	heading, _, _ := strings.Cut(playbook.RenderWithVotes([]*playbook.Bullet{{}}), "\n")
	if strings.HasPrefix(strings.TrimSpace(text), heading) {
		return "", fmt.Errorf("%w: markdown can only be written", ErrFormat)
	}
	return "", fmt.Errorf("%w: the text has no line like \"[id] helpful=0 harmful=0 :: content\" or \"[slug-00001] content\"", ErrNoBullet)
}

// detectJSON returns the format of a JSON object, or of the first of several lines.
func detectJSON(text string) (Format, error) {
	var top map[string]json.RawMessage
	err := decode(text, &top)
	first, _, more := strings.Cut(text, "\n")
	if err != nil && (!more || json.Unmarshal([]byte(first), &top) != nil) {
		return "", fmt.Errorf("%w: %w", ErrFormat, err)
	}
	isNative := string(top["format"]) == `"`+native+`"`
	isBullet := top["id"] != nil && top["section"] != nil && top["content"] != nil
	isObject := func(name string) bool { return bytes.HasPrefix(top[name], []byte("{")) }
	switch {
	case isNative && top["bullets"] != nil:
		return JSON, nil
	case isNative || isBullet: // the header, or a bullet without a header
		return JSONL, nil
	case err == nil && (isObject("skills") || isObject("bullets")):
		return Kayba, nil
	case err == nil && isObject("strategies"):
		return SweCLI, nil
	}
	return "", fmt.Errorf("%w: the JSON has no object \"skills\", \"bullets\" or \"strategies\" (kayba, swecli) and not \"format\":%q", ErrFormat, native)
}
