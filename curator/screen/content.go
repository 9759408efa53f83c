// Package screen checks texts before they become bullets of a playbook. It refuses secrets, instructions to a model, text of
// our own prompts and texts that are too short. It also holds the form of a refusal: a reason code with a sentence.
package screen

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/text"
)

// No bullet may contain a secret. A bullet from a model or a lesson must also not contain instructions to a model or text
// of our prompts, and it needs at least minWords words. These further rules do not apply to bullets by a person.

// Rules decides which texts are allowed. It knows the word sequences of our prompts. It is safe for concurrent use.
type Rules struct{ shingles map[string]struct{} }

// A text restates our prompts if a sequence of restatedRun words is in a prompt, or if at least restatedShare of all its
// shingles (sequences of shingleWords words) are in a prompt.
const (
	shingleWords  = 4 // words
	restatedRun   = 12
	restatedShare = 0.6
	minShingles   = 4 // with fewer shingles, restatedShare is not checked
	minWords      = 4 // minimum length of a bullet
)

// NewRules returns rules that know the given prompt texts.
func NewRules(texts ...string) *Rules {
	c := &Rules{shingles: make(map[string]struct{})}
	for _, text := range texts {
		eachShingle(text, func(run string) { c.shingles[run] = struct{}{} })
	}
	return c
}

// eachShingle calls fn for every sequence of shingleWords words, in lower case and without punctuation.
func eachShingle(text string, fn func(string)) {
	words := normalizedWords(text)
	for i := 0; i+shingleWords <= len(words); i++ {
		fn(strings.Join(words[i:i+shingleWords], " "))
	}
}

func normalizedWords(s string) []string {
	return slices.Collect(text.Words(strings.ToLower(s)))
}

// Refuse returns the reason if the text is not allowed as the content of a bullet, or nil.
func (c *Rules) Refuse(content string) *Refusal {
	if why := c.RefuseMaterial(content); why != nil {
		return why
	}
	if tooShort(content) {
		return Refusef(playbook.ReasonTooShort, "content: must have at least %d words: name the case, the action and the reason", minWords)
	}
	return nil
}

// RefuseMaterial returns the reason if the text must not even be part of a prompt as material for a bullet, or nil.
func (c *Rules) RefuseMaterial(content string) *Refusal {
	if why := RefuseSecret(content); why != nil {
		return why
	}
	if kind := findInjection(content); kind != "" {
		return Refusef(playbook.ReasonInjection, "content: contains instructions to a model (%s)", kind)
	}
	if c.restatesPrompt(content) {
		return Refusef(playbook.ReasonRestated, "content: repeats our own prompt")
	}
	return nil
}

// RefuseSecret returns the reason if the text seems to contain a secret, or nil.
func RefuseSecret(text string) *Refusal {
	if kind := secretKind(text); kind != "" {
		return Refusef(playbook.ReasonSecret, "content: seems to contain a secret (%s)", kind)
	}
	return nil
}

// restatesPrompt reports whether the text repeats our own prompts; see restatedRun.
func (c *Rules) restatesPrompt(content string) bool {
	all, ours, run := 0, 0, 0
	long := false
	eachShingle(content, func(s string) {
		all++
		if _, known := c.shingles[s]; !known {
			run = 0
			return
		}
		ours++
		run++
		long = long || run+shingleWords-1 >= restatedRun
	})
	return long || all >= minShingles && float64(ours) >= restatedShare*float64(all)
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

type textPattern struct {
	name string
	re   *regexp.Regexp
}

// injectionPatterns match text that instructs a model instead of describing a task. They take milliseconds to compile, so
// they are compiled on first use.
var injectionPatterns = sync.OnceValue(func() []textPattern {
	return []textPattern{
		{"ignore instructions", regexp.MustCompile(`(?i)\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:above|before|previous|prior|earlier|preceding|your|all|any|every|the)\b[^.\n]{0,30}\b(?:instructions?|prompts?|rules|directions|guidelines|orders|guardrails)\b`)},
		{"ignore instructions", regexp.MustCompile(`(?i)\b(?:ignore|disregard|forget)\s+(?:all|any|every|everything)\s+(?:of\s+)?(?:the\s+)?(?:above|before|previous|prior|earlier|preceding)\b`)},
		{"change of role", regexp.MustCompile(`(?i)\b(?:you are now|from now on,? you(?: are| will|'re)|pretend (?:to be|that you)|act as (?:an? )?(?:unrestricted|jailbroken|different)|enter (?:developer|jailbreak|god) mode)\b`)},
		{"reveal the prompt", regexp.MustCompile(`(?i)\b(?:reveal|print|repeat|show|output|leak)\b[^.\n]{0,30}\b(?:system prompt|your (?:instructions|prompt|rules))\b`)},
		{"write bullets", regexp.MustCompile(`(?i)\badd (?:a |the |this )?(?:new )?bullet\b`)},
		{"chat markers", regexp.MustCompile(`(?i)<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id)[^>]{0,20}\|?>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant)(?:_prompt)?>`)},
		{"chat markers", regexp.MustCompile(`(?im)^\s*(?:#+\s*)?(?:system|assistant)\s*(?:prompt|message)?\s*:`)},
	}
})

// findInjection returns the name of the first injection pattern that matches the text, or "".
func findInjection(text string) string {
	for _, p := range injectionPatterns() {
		if p.re.MatchString(text) {
			return p.name
		}
	}
	return ""
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

// looksRandom reports whether a token looks randomly generated: it mixes upper case, lower case and digits, switches between
// them often, and has a high entropy. Identifiers, which switch case at word boundaries, and hexadecimal hashes do not
// look random.
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
		if kind != last && last >= 0 && !(last == upper && kind == lower) { // a capital letter begins a word
			changes++
		}
		last = kind
	}
	n := float64(len(token))
	entropy := 0.0
	for _, c := range freq {
		if c > 0 {
			entropy -= float64(c) / n * math.Log2(float64(c)/n)
		}
	}
	return min(counts[upper], counts[lower]) >= 4 && counts[digit] >= 2 && float64(changes) >= 0.3*n && entropy >= 4
}

// RefuseSecretOp returns the reason if the operation would write a secret into the log, or nil. It also applies to operations
// by a person.
func RefuseSecretOp(op *playbook.Op) *Refusal {
	texts := []string{op.Content}
	if op.PutBullet != nil {
		texts = append(texts, op.PutBullet.Content)
	}
	for _, text := range texts {
		if why := RefuseSecret(text); why != nil {
			return why
		}
	}
	return nil
}
