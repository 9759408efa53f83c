package playbook

import (
	"errors"
	"fmt"
	"strings"
)

// MaxWhen is the maximum length of a condition, in bytes.
const MaxWhen = 300

var errLongWhen = fmt.Errorf("when: is longer than %d bytes", MaxWhen)

// CleanWhen normalizes a condition: one line without control characters, without "when" or "if" at its beginning and without
// punctuation at its end. The word "always" gives the empty condition. It returns an error if the condition is too long.
func CleanWhen(condition string) (string, error) {
	words := strings.Fields(removeControl(condition, ""))
	for len(words) > 0 && isWhen(words[0]) {
		words = words[1:]
	}
	condition = strings.TrimRight(strings.Join(words, " "), " .,:;")
	switch {
	case strings.EqualFold(condition, "always"):
		return "", nil
	case len(condition) > MaxWhen:
		return "", errLongWhen
	}
	return condition, nil
}

func isWhen(word string) bool {
	word = strings.TrimRight(word, ".,:;")
	return word == "" || strings.EqualFold(word, "when") || strings.EqualFold(word, "if")
}

// CleanText normalizes a condition and a text. The content is "When CONDITION: TEXT", or the text alone without a condition; a text that
// begins with the condition already stays as it is. Every condition and content of a bullet is a result of CleanText.
func CleanText(when, text string) (condition, content string, err error) {
	condition, err = CleanWhen(when)
	if err != nil {
		return "", "", err
	}
	content, err = CleanContent(text)
	if err != nil {
		return "", "", err
	}
	content, err = CleanContent(compose(condition, content))
	return condition, content, err
}

// compose puts a condition before a text, unless it is there already.
func compose(when, text string) string {
	if when == "" {
		return text
	}
	return beginning(when) + Advice(when, text)
}

// beginning returns a condition in the form in which a content begins with it.
func beginning(when string) string { return "When " + when + ": " }

// Advice returns a content without the condition at its beginning.
func Advice(when, content string) string {
	start := beginning(when)
	if when == "" || len(content) <= len(start) || !strings.EqualFold(content[:len(start)], start) {
		return content
	}
	return content[len(start):]
}

// Advice returns the content without the condition.
func (b *Bullet) Advice() string { return Advice(b.When, b.Content) }

// validateText returns an error for a condition or a content that CleanText would change.
func validateText(when, content string) error {
	cleanWhen, clean, err := CleanText(when, content)
	switch {
	case err != nil:
		return err
	case cleanWhen != when:
		return errors.New("when: invalid form")
	case clean != content:
		return errors.New("content: contains invalid characters, or does not begin with the condition")
	}
	return nil
}
