package playbook

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Book names a playbook. Several books live side by side; a name is also a token of a subject and of a key.
type Book string

var bookName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate reports whether the name can be a token of a subject.
func (b Book) Validate() error {
	if !bookName.MatchString(string(b)) {
		return fmt.Errorf("book %.80q: a name is 1 to 64 of A-Z a-z 0-9 _ -", string(b))
	}
	return nil
}

// BulletID names a bullet within its book, normally "<slug>-<number>" as minted by MintID.
type BulletID string

// MaxID bounds an id, in bytes.
const MaxID = 256

// Validate reports what makes an id unfit: what would break a line or a bracket of a prompt, or hide that two ids
// differ.
func (id BulletID) Validate() error {
	text := string(id)
	switch {
	case text == "":
		return errors.New("the id is empty")
	case len(text) > MaxID:
		return fmt.Errorf("the id is longer than %d bytes", MaxID)
	case !utf8.ValidString(text):
		return errors.New("the id is no valid UTF-8")
	case strings.TrimSpace(text) != text:
		return errors.New("the id has white space around it")
	case strings.ContainsFunc(text, func(r rune) bool { return r == ']' || unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return errors.New("the id holds a bracket or a control character")
	}
	return nil
}

// MaxNumber bounds the numbers that count as minted. An id with a greater one, such as a timestamp, never meets a minted
// one. A bullet from elsewhere may bring a number up to maxForeign: the numbers above are left to new bullets.
const (
	MaxNumber  = 1_000_000_000_000_000
	maxForeign = MaxNumber - 1_000_000_000_000
)

// CheckForeign returns an error if a bullet that comes with this id would leave too few numbers for new bullets.
func (id BulletID) CheckForeign() error {
	if n := id.Number(); n > maxForeign {
		return fmt.Errorf("the number %d leaves too few for new bullets: use one up to %d", n, int64(maxForeign))
	}
	return nil
}

// Number is the number at the end of a minted id, 0 if it has none.
func (id BulletID) Number() uint64 {
	_, digits, ok := cutLast(string(id), "-")
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > MaxNumber {
		return 0
	}
	return n
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// Key is the id as one token of a key: the id itself where it fits, else "x-" and the first 22 characters of the
// base64url of its SHA-256. The true id is in the stored value.
func (id BulletID) Key() string {
	if bookName.MatchString(string(id)) {
		return string(id)
	}
	sum := sha256.Sum256([]byte(id))
	return "x-" + base64.RawURLEncoding.EncodeToString(sum[:])[:22]
}

// Status says whether a bullet is shown to generators. Stored; append only.
type Status string

const (
	// Active bullets are shown. The empty status means active.
	Active Status = "active"
	// Candidate bullets are counted but not shown: what a rule has seen, before the counts say that it matters; and,
	// where a gate is on, new advice that waits for probation.
	Candidate Status = "candidate"
	// Probation bullets are shown to a share of the tasks, by chance, until the difference that they make is known.
	Probation Status = "probation"
	// Retired bullets did harm, were of no use, or lost their place; they are not shown.
	Retired Status = "retired"
	// Quarantined bullets wait for a person and are not shown.
	Quarantined Status = "quarantined"
)

// Valid reports whether it is one of the statuses, or none.
func (s Status) Valid() bool {
	switch s {
	case "", Active, Candidate, Probation, Retired, Quarantined:
		return true
	}
	return false
}

// Rule ties a bullet to what a rule counts.
type Rule struct {
	// Key identifies what was seen, such as "order/A/B".
	Key string `msgpack:"y" json:"key"`
	// Base is the key of the bullet that counts the same runs without the condition.
	Base string `msgpack:"b,omitempty" json:"base,omitempty"`
	// Text is the content with placeholders for the counts.
	Text string `msgpack:"t" json:"text"`
	// CountOnly bullets are never shown.
	CountOnly bool `msgpack:"c,omitempty" json:"count_only,omitempty"`
	// Paired bullets count pairs of runs at one task, one that succeeded and one that failed.
	Paired bool `msgpack:"p,omitempty" json:"paired,omitempty"`
}

// Bullet is one learned piece of advice. A Bullet inside a Playbook is immutable: Apply replaces it.
type Bullet struct {
	ID      BulletID `msgpack:"id" json:"id"`
	Section string   `msgpack:"section" json:"section"`
	Content string   `msgpack:"content" json:"content"`

	// How often a sample's reflection found the bullet helpful, harmful or neither.
	Helpful int `msgpack:"helpful,omitempty" json:"helpful"`
	Harmful int `msgpack:"harmful,omitempty" json:"harmful"`
	Neutral int `msgpack:"neutral,omitempty" json:"neutral"`

	Status Status `msgpack:"status,omitempty" json:"status,omitempty"`
	Pinned bool   `msgpack:"pinned,omitempty" json:"pinned,omitempty"`

	// Rule is set on what a rule found, so that the next sighting counts here.
	Rule *Rule `msgpack:"rule,omitempty" json:"rule,omitempty"`

	// Case is the evidence on whether the bullet helps, nil where there is none. Backing counts its support by source,
	// as far as sources have names. Replaces is the bullet that it would stand in for, where it came as a correction of
	// one. None of them is part of any state hash.
	Case     *Case     `msgpack:"case,omitempty" json:"case,omitempty"`
	Backing  []Backing `msgpack:"from,omitempty" json:"backing,omitempty"`
	Replaces BulletID  `msgpack:"for,omitempty" json:"replaces,omitempty"`

	// Commit times of the deltas that made, last changed and last tagged the bullet. Not part of any state hash.
	CreatedAt time.Time `msgpack:"created" json:"created_at"`
	UpdatedAt time.Time `msgpack:"updated" json:"updated_at"`
	LastUsed  time.Time `msgpack:"used,omitempty" json:"last_used,omitzero"`
}

// Shown reports whether generators get the bullet to see.
func (b *Bullet) Shown() bool { return b.Status == Active || b.Status == "" }

// Score is helpful minus harmful, the order of bullets in a prompt.
func (b *Bullet) Score() int { return b.Helpful - b.Harmful }

// MaxContent and MaxSection bound a bullet, in bytes.
const (
	MaxContent = 64 << 10
	MaxSection = 200
)

var (
	errEmptyContent = errors.New("content: is empty")
	errLongContent  = fmt.Errorf("content: is longer than %d bytes", MaxContent)
)

// CleanContent is text as the content of a bullet: valid UTF-8, no control characters but newline and tab, no white
// space around it. It is the only way content enters a playbook; what it cannot hold is an error.
func CleanContent(text string) (string, error) {
	text = strings.TrimSpace(strip(text, "\n\t"))
	switch {
	case text == "":
		return "", errEmptyContent
	case len(text) > MaxContent:
		return "", errLongContent
	}
	return text, nil
}

// Section is text as the name of a section: one line, lower case, words joined by "_", "misc" when nothing is left.
func Section(text string) string {
	text = strings.ToLower(strip(text, ""))
	text = strings.ReplaceAll(text, "&", "and")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '#' || r == '_' || r == '[' || r == ']' }), "_")
	if len(text) > MaxSection {
		text = strings.TrimRight(strings.ToValidUTF8(text[:MaxSection], ""), "_")
	}
	if text == "" {
		return "misc"
	}
	return text
}

// strip drops invalid UTF-8 and every control character that is not in keep; a carriage return becomes nothing.
func strip(text, keep string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Map(func(r rune) rune {
		switch {
		case strings.ContainsRune(keep, r):
			return r
		case r == '\n' || r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0):
			return -1
		}
		return r
	}, text)
}

// slugs are the short names of the sections that the ACE authors' playbooks use (ace-agent/ace, ace-agent/ace-appworld).
var slugs = map[string]string{
	"formulas_and_calculations":                "calc",
	"code_snippets_and_templates":              "code",
	"common_mistakes_to_avoid":                 "err",
	"problem_solving_heuristics":               "prob",
	"context_clues_and_indicators":             "ctx",
	"others":                                   "misc",
	"meta_strategies":                          "meta",
	"strategies_and_hard_rules":                "shr",
	"apis_to_use_for_specific_information":     "api",
	"useful_code_snippets_and_templates":       "code",
	"common_mistakes_and_correct_strategies":   "cms",
	"problem_solving_heuristics_and_workflows": "psw",
	"verification_checklist":                   "vc",
	"troubleshooting_and_pitfalls":             "ts",
}

// MintID is the id of the n-th bullet of a book: the section's slug and the number, five digits wide. The slug of a
// section that the field has no name for is the first four letters of a single word or the initials of up to five.
func MintID(section string, n uint64) BulletID {
	slug, ok := slugs[section]
	if !ok {
		words := strings.FieldsFunc(section, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
		switch {
		case len(words) == 1:
			slug = words[0][:min(4, len(words[0]))]
		default:
			for _, w := range words[:min(5, len(words))] {
				slug += w[:1]
			}
		}
	}
	if slug == "" {
		slug = "misc"
	}
	return BulletID(fmt.Sprintf("%s-%05d", slug, n))
}

// checksum is a hash of what the state hash covers of one bullet, the bullet's part of the playbook's checksum.
func (b *Bullet) checksum() Checksum {
	var buf [1024]byte // on the stack; most bullets are shorter
	sum := sha256.Sum256(b.appendState(buf[:0]))
	return Checksum(sum[:16])
}

// appendState writes what the state hash covers. Fields are length-prefixed, so that no content can pass for another
// field.
func (b *Bullet) appendState(buf []byte) []byte {
	status := b.Status
	if status == "" {
		status = Active
	}
	for _, s := range [...]string{string(b.ID), b.Section, b.Content, string(status)} {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	for _, n := range [...]int{b.Helpful, b.Harmful, b.Neutral} {
		buf = binary.AppendVarint(buf, int64(n))
	}
	if b.Pinned {
		return append(buf, 1)
	}
	return append(buf, 0)
}
