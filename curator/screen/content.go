// Package screen checks texts before they become bullets of a playbook. It refuses secrets, text of our own prompts and texts that
// are too short. Package admit finds orders to models; they wait for a person. Package screen also holds the form of a refusal: a
// reason code with a sentence.
package screen

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/text"
)

// Rules decides which texts are allowed as bullets. No bullet may contain a secret. A bullet from a model or a lesson must also not repeat
// our prompts, and it must have at least minWords words. For a bullet by a person only RefuseSecretOp counts.
//
// Rules knows the word sequences of our prompts. It is safe for concurrent use.
type Rules struct{ shingles map[string]struct{} }

// A text restates our prompts if restatedRun words in a row are in a prompt, or if restatedShare of its shingles are. A shingle is a sequence
// of shingleWords words.
const (
	shingleWords  = 4
	restatedRun   = 12 // words
	restatedShare = 0.6
	minShingles   = 4 // with fewer shingles, restatedShare is not checked
)

// minWords is the minimum length of a bullet.
const minWords = 4

// NewRules returns rules that know the given prompt texts.
func NewRules(texts ...string) *Rules {
	c := &Rules{shingles: make(map[string]struct{})}
	for _, prompt := range texts {
		eachShingle(prompt, func(run string) { c.shingles[run] = struct{}{} })
	}
	return c
}

// eachShingle calls fn for every sequence of shingleWords words, in lower case and without punctuation.
func eachShingle(content string, fn func(string)) {
	words := slices.Collect(text.Words(strings.ToLower(content)))
	for i := 0; i+shingleWords <= len(words); i++ {
		fn(strings.Join(words[i:i+shingleWords], " "))
	}
}

// Refuse returns the reason if the text is not allowed as the content of a bullet, or nil.
func (c *Rules) Refuse(content string) *Refusal {
	if refusal := c.RefuseMaterial(content); refusal != nil {
		return refusal
	}
	if tooShort(content) {
		return Refusef(playbook.ReasonTooShort, "content: must have at least %d words: name the case, the action and the reason", minWords)
	}
	return nil
}

// RefuseMaterial returns the reason if the text must not even be part of a prompt as material for a bullet, or nil.
func (c *Rules) RefuseMaterial(content string) *Refusal {
	if refusal := refuseSecret(content); refusal != nil {
		return refusal
	}
	if c.restatesPrompt(content) {
		return Refusef(playbook.ReasonRestated, "content: repeats our own prompt")
	}
	return nil
}

// Suspect marks an operation whose text looks like an order to models: it sets the code and a sentence with the pattern. The draft
// puts such a text into quarantine. An operation that is marked already keeps its mark.
func Suspect(op *playbook.Op) {
	if IsSuspect(op) {
		return
	}
	if found, suspect := admit.ScreenText(op.When, op.Content); suspect {
		op.Code, op.Reason = playbook.ReasonInjection, found.String()
	}
}

// IsSuspect reports whether an operation is marked as an order to models or as a copy of a text.
func IsSuspect(op *playbook.Op) bool {
	return op.Code == playbook.ReasonInjection || op.Code == playbook.ReasonCopied
}

// refuseSecret returns the reason if the text seems to contain a secret, or nil.
func refuseSecret(text string) *Refusal {
	if kind := secretKind(text); kind != "" {
		return Refusef(playbook.ReasonSecret, "content: seems to contain a secret (%s)", kind)
	}
	return nil
}

// restatesPrompt reports whether the text repeats our own prompts; see restatedRun.
func (c *Rules) restatesPrompt(content string) bool {
	all, known := 0, 0 // shingles of the text, and those that are in a prompt
	run := 0           // known shingles that follow each other, up to the current one
	hasLongRun := false
	eachShingle(content, func(s string) {
		all++
		if _, ok := c.shingles[s]; !ok {
			run = 0
			return
		}
		known++
		run++
		runWords := run + shingleWords - 1
		hasLongRun = hasLongRun || runWords >= restatedRun
	})
	return hasLongRun || all >= minShingles && float64(known) >= restatedShare*float64(all)
}

// tooShort reports whether the text has fewer than minWords words. In scripts without spaces between words, each character
// counts as a word.
func tooShort(content string) bool {
	words := len(strings.Fields(content))
	for _, r := range content {
		if text.Unspaced(r) {
			words++
		}
	}
	return words < minWords
}

// longTokens match tokens that are long enough to be a key without a known format.
var longTokens = regexp.MustCompile(`[A-Za-z0-9+_=-]{32,}`)

// secretKind returns the kind of secret that the text seems to contain, or "". It is stricter than redact.Kind because the
// log is kept for ever: a long random token also counts as a secret.
func secretKind(text string) string {
	if kind := redact.Kind(text); kind != "" {
		return kind
	}
	for _, token := range longTokens.FindAllString(text, -1) {
		if looksRandom(token) {
			return "long random token"
		}
	}
	return ""
}

// Redact returns the text without its secrets, for records that are kept for ever.
func Redact(text string) string {
	return longTokens.ReplaceAllStringFunc(redact.Text(text), func(token string) string {
		if looksRandom(token) {
			return "[redacted: random token]"
		}
		return token
	})
}

// looksRandom reports whether a token looks randomly generated: it mixes upper case, lower case and digits, changes between
// them often, and has a high entropy. Identifiers, which change case only at the beginning of words, and hexadecimal hashes do not look
// random.
func looksRandom(token string) bool {
	const upper, lower, digit = 0, 1, 2
	var counts [3]int
	var freq [128]int
	changes, last := 0, -1
	for _, r := range []byte(token) {
		freq[r&0x7f]++
		kind := -1
		switch {
		case r >= 'A' && r <= 'Z':
			kind = upper
		case r >= 'a' && r <= 'z':
			kind = lower
		case r >= '0' && r <= '9':
			kind = digit
		}
		if kind < 0 {
			continue
		}
		counts[kind]++
		beginsWord := last == upper && kind == lower // as in "Word"
		if kind != last && last >= 0 && !beginsWord {
			changes++
		}
		last = kind
	}
	n := float64(len(token))
	entropy := 0.0 // bits in one character
	for _, c := range freq {
		if c > 0 {
			entropy -= float64(c) / n * math.Log2(float64(c)/n)
		}
	}
	isMixed := min(counts[upper], counts[lower]) >= 4 && counts[digit] >= 2
	return isMixed && float64(changes) >= 0.3*n && entropy >= 4
}

// RefuseSecretOp returns the reason if the operation would write a secret into the log, or nil. It also applies to operations
// by a person.
func RefuseSecretOp(op *playbook.Op) *Refusal {
	texts := []string{op.Content}
	if op.PutBullet != nil {
		texts = append(texts, op.PutBullet.Content)
	}
	for _, content := range texts {
		if refusal := refuseSecret(content); refusal != nil {
			return refusal
		}
	}
	return nil
}
