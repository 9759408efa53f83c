package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"debrief/playbook"
)

const bom = "\ufeff" // byte order mark

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
		if asText, textErr := detectText(text); textErr == nil { // a text may begin with a brace
			return asText, nil
		}
	}
	return f, err
}

// detectText returns the format of a text that is not JSON.
func detectText(text string) (Format, error) {
	var hasHeader, hasBullet, isCertain bool
	eachLine(text, func(_ int, _ string, l line) {
		hasHeader = hasHeader || l.kind == header
		hasBullet = hasBullet || l.kind == plain
		isNumbered := l.kind == plain && numberedID.MatchString(l.id)
		isCertain = isCertain || isNumbered || l.kind == counted
	})
	switch {
	case isCertain || hasBullet && hasHeader: // a log file with lines such as "[INFO] started" has no headers
		return ACE, nil
	case strings.Contains(text, "\x00") || !utf8.ValidString(text):
		return "", fmt.Errorf("%w: %w in a binary file", ErrFormat, ErrNoBullet)
	}
	title, _, _ := strings.Cut(playbook.RenderWithVotes([]*playbook.Bullet{{}}), "\n") // the first line of each playbook in markdown
	if strings.HasPrefix(strings.TrimSpace(text), title) {
		return "", fmt.Errorf("%w: markdown can only be written", ErrFormat)
	}
	return "", fmt.Errorf("%w: the text has no line like \"[id] helpful=0 harmful=0 :: content\" or \"[slug-00001] content\"", ErrNoBullet)
}

// detectJSON returns the format of a text that is one JSON object, or that has a JSON object in its first line.
func detectJSON(text string) (Format, error) {
	var top map[string]json.RawMessage
	err := decode(text, &top)
	first, _, hasMore := strings.Cut(text, "\n")
	if err != nil && (!hasMore || json.Unmarshal([]byte(first), &top) != nil) {
		return "", fmt.Errorf("%w: %w", ErrFormat, err)
	}
	isOneObject := err == nil // else top is the first line
	isNative := string(top["format"]) == `"`+native+`"`
	isBullet := top["id"] != nil && top["section"] != nil && top["content"] != nil
	isObject := func(name string) bool { return bytes.HasPrefix(top[name], []byte("{")) }
	switch {
	case isNative && top["bullets"] != nil:
		return JSON, nil
	case isNative || isBullet: // the header, or a bullet without a header
		return JSONL, nil
	case isOneObject && (isObject("skills") || isObject("bullets")):
		return Kayba, nil
	case isOneObject && isObject("strategies"):
		return SweCLI, nil
	}
	return "", fmt.Errorf("%w: the JSON has no object \"skills\", \"bullets\" or \"strategies\" (kayba, swecli) and not \"format\":%q", ErrFormat, native)
}
