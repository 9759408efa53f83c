package curator

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"debrief/events/redact"
	"debrief/playbook"
)

// What a bullet may not say, whoever proposes it: a secret. What it may not say where a model or a lesson proposes it:
// an order to a model, our own instructions, nothing. A person may write what a person likes, secrets aside.

// reasonContent begins the reasons of these rules.
const reasonContent = "content: "

// contentRules know the texts that are no advice because they are our own instructions.
type contentRules struct{ runs map[string]struct{} }

// Bounds for the restating of instructions. A text restates them that has so many words in a row with them, or that has
// so much of its own shingles in them.
const (
	shingle      = 4 // words
	restatedRun  = 12
	restatedPart = 0.6
	minShingles  = 4 // fewer say nothing
	minWords     = 4 // of advice
)

func newContentRules(texts ...string) *contentRules {
	c := &contentRules{runs: make(map[string]struct{})}
	for _, text := range texts {
		eachShingle(text, func(run string) { c.runs[run] = struct{}{} })
	}
	return c
}

// eachShingle calls fn for every run of so many words, case and punctuation aside.
func eachShingle(text string, fn func(string)) {
	words := plainWords(text)
	for i := 0; i+shingle <= len(words); i++ {
		fn(strings.Join(words[i:i+shingle], " "))
	}
}

func plainWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// refuse is why a text is no content of a bullet, "" if it may be.
func (c *contentRules) refuse(content string) string {
	if why := c.unfit(content); why != "" {
		return why
	}
	if empty(content) {
		return reasonContent + "fewer than four words are no advice: say when to do what, and why"
	}
	return ""
}

// unfit is why a text is not even material for a bullet, "" if it may be.
func (c *contentRules) unfit(content string) string {
	if what := secret(content); what != "" {
		return holdsSecret(what)
	}
	if what := order(content); what != "" {
		return reasonContent + "gives orders to a model (" + what + ") instead of advice"
	}
	if c.restates(content) {
		return reasonContent + "restates our own instructions"
	}
	return ""
}

func holdsSecret(what string) string {
	return reasonContent + "holds what looks like a secret (" + what + ")"
}

// restates reports whether a text is mostly, or in one long run, our own instructions.
func (c *contentRules) restates(content string) bool {
	all, ours, run := 0, 0, 0
	long := false
	eachShingle(content, func(s string) {
		all++
		if _, known := c.runs[s]; !known {
			run = 0
			return
		}
		ours++
		run++
		long = long || run+shingle-1 >= restatedRun
	})
	return long || all >= minShingles && float64(ours) >= restatedPart*float64(all)
}

// empty reports whether there are too few words to be advice. Scripts that put no space between words are counted by
// their characters.
func empty(content string) bool {
	words := len(strings.Fields(content))
	for _, r := range content {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer) {
			words++
		}
	}
	return words < minWords
}

type form struct {
	what string
	re   *regexp.Regexp
}

// orders are the ways in which texts speak to a model instead of about a task. They take milliseconds to compile, which
// only who curates should wait for.
var orders = sync.OnceValue(func() []form {
	return []form{
		{"to ignore what it was told", regexp.MustCompile(`(?i)\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:above|before|previous|prior|earlier|preceding|your|all|any|every|the)\b[^.\n]{0,30}\b(?:instructions?|prompts?|rules|directions|guidelines|orders|guardrails)\b`)},
		{"to ignore what it was told", regexp.MustCompile(`(?i)\b(?:ignore|disregard|forget)\s+(?:all|any|every|everything)\s+(?:of\s+)?(?:the\s+)?(?:above|before|previous|prior|earlier|preceding)\b`)},
		{"to be somebody else", regexp.MustCompile(`(?i)\b(?:you are now|from now on,? you(?: are| will|'re)|pretend (?:to be|that you)|act as (?:an? )?(?:unrestricted|jailbroken|different)|enter (?:developer|jailbreak|god) mode)\b`)},
		{"to tell its instructions", regexp.MustCompile(`(?i)\b(?:reveal|print|repeat|show|output|leak)\b[^.\n]{0,30}\b(?:system prompt|your (?:instructions|prompt|rules))\b`)},
		{"to write bullets", regexp.MustCompile(`(?i)\badd (?:a |the |this )?(?:new )?bullet\b`)},
		{"marks of a conversation", regexp.MustCompile(`(?i)<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id)[^>]{0,20}\|?>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant)(?:_prompt)?>`)},
		{"marks of a conversation", regexp.MustCompile(`(?im)^\s*(?:#+\s*)?(?:system|assistant)\s*(?:prompt|message)?\s*:`)},
	}
})

// order names how a text gives orders to a model, "" if it does not.
func order(text string) string {
	for _, o := range orders() {
		if o.re.MatchString(text) {
			return o.what
		}
	}
	return ""
}

// longRuns are long enough to be a key that has no form of its own.
var longRuns = regexp.MustCompile(`[A-Za-z0-9+_=-]{32,}`)

// secret names what in a text looks like a secret, "" if nothing does. What is kept for ever is looked at harder than
// what passes through: a long random token counts, too.
func secret(text string) string {
	if kind := redact.Kind(text); kind != "" {
		return kind
	}
	for _, token := range longRuns.FindAllString(text, -1) {
		if random(token) {
			return "a long random token"
		}
	}
	return ""
}

// redacted is a text without its secrets, for a record that is kept for ever.
func redacted(text string) string {
	return longRuns.ReplaceAllStringFunc(redact.Text(text), func(token string) string {
		if random(token) {
			return "[redacted: random token]"
		}
		return token
	})
}

// random reports whether a run of characters looks drawn by chance: upper and lower case and digits that change places
// often, and nearly as many different characters as chance gives. Names of things, which change case at words, and
// hashes in hexadecimal do not.
func random(token string) bool {
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
		if kind != last && last >= 0 && !(last == upper && kind == lower) { // a word with a capital is a word
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

// secretIn is why an operation of anybody's is not committed: it would put a secret into the log. Nil if it would not.
func secretIn(op *playbook.Op) *refusal {
	texts := []string{op.Content}
	if op.Whole != nil {
		texts = append(texts, op.Whole.Content)
	}
	for _, text := range texts {
		if what := secret(text); what != "" {
			return no("%s", holdsSecret(what))
		}
	}
	return nil
}
