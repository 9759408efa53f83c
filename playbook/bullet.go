package playbook

import (
	"cmp"
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

	"debrief/playbook/text"
)

// Book is the name of a playbook. It is also a token of NATS subjects and keys.
type Book string

var bookName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate returns an error if the name cannot be a token of a subject.
func (b Book) Validate() error {
	if !bookName.MatchString(string(b)) {
		return fmt.Errorf("book %.80q: a name is 1 to 64 of A-Z a-z 0-9 _ -", string(b))
	}
	return nil
}

// BulletID identifies a bullet within its book. Usually it is "<slug>-<number>", created by MintID.
type BulletID string

// MaxID is the maximum length of an id, in bytes.
const MaxID = 256

// Validate returns an error if the id is invalid. A prompt shows an id as [id]: it must not end the bracket or the line.
func (id BulletID) Validate() error {
	s := string(id)
	switch {
	case s == "":
		return errors.New("id is empty")
	case len(s) > MaxID:
		return fmt.Errorf("id is longer than %d bytes", MaxID)
	case !utf8.ValidString(s):
		return errors.New("id is not valid UTF-8")
	case strings.TrimSpace(s) != s:
		return errors.New("id has leading or trailing white space")
	case strings.ContainsFunc(s, func(r rune) bool { return r == ']' || unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return errors.New("id contains ']' or a control character")
	}
	return nil
}

// ValidateImported returns an error for an id that an import must not bring: an invalid one, or one with an invisible character, which looks like
// another id. Validate accepts invisible characters, because a log may have such an id.
func (id BulletID) ValidateImported() error {
	if strings.ContainsFunc(string(id), text.Invisible) {
		return errors.New("id contains an invisible character")
	}
	return id.Validate()
}

// MaxNumber is the largest number of a minted id. An id with a larger number, such as a timestamp, is never minted, so its number does not count.
// maxImported is the largest number of an imported id that counts. It leaves enough numbers for new bullets, which get numbers above all others.
const (
	MaxNumber   = 1_000_000_000_000_000
	maxImported = MaxNumber - 1_000_000_000_000
)

// CheckNumber returns an error if the number of an imported bullet leaves too few numbers for new bullets.
func (id BulletID) CheckNumber() error {
	if n := id.Number(); n > maxImported {
		return fmt.Errorf("id number %d is too large: the maximum is %d", n, int64(maxImported))
	}
	return nil
}

// Number returns the number at the end of the id. It is 0 if there is none, or if it is above MaxNumber.
func (id BulletID) Number() uint64 {
	i := strings.LastIndexByte(string(id), '-')
	if i < 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(id[i+1:]), 10, 63)
	if err != nil || n > MaxNumber {
		return 0
	}
	return n
}

// Key returns the id as one token of a key: the id itself if it is valid there, else "x-" and the first 22 characters of
// the base64url of its SHA-256. The hash cannot be reversed; the value stored under the key contains the id.
func (id BulletID) Key() string {
	if bookName.MatchString(string(id)) {
		return string(id)
	}
	sum := sha256.Sum256([]byte(id))
	return "x-" + base64.RawURLEncoding.EncodeToString(sum[:])[:22]
}

// Status is the state of a bullet. It decides whether generators see the bullet. The values are stored, so they must not change.
type Status string

const (
	// Active bullets are shown. The empty status means active.
	Active Status = "active"
	// Candidate bullets are not shown: they wait for a confirmation, for example because they contradict a trusted bullet.
	Candidate Status = "candidate"
	// Probation bullets are shown to a random half of the tasks, until their record is good. Only a strict gate uses it.
	Probation Status = "probation"
	// Retired bullets are not shown: they were harmful, useless, or replaced.
	Retired Status = "retired"
	// Quarantined bullets are not shown until a person decides.
	Quarantined Status = "quarantined"
)

// Valid reports whether the status is known or empty.
func (s Status) Valid() bool {
	switch s {
	case "", Active, Candidate, Probation, Retired, Quarantined:
		return true
	}
	return false
}

// Bullet is one learned piece of advice. A Bullet inside a Playbook is immutable: Apply replaces it.
type Bullet struct {
	ID      BulletID `msgpack:"id" json:"id"`
	Section string   `msgpack:"section" json:"section"`
	// When is the condition under which the advice holds, learned with it. It is empty for advice that always holds.
	When string `msgpack:"when,omitempty" json:"when,omitempty"`
	// Content is the condition and the advice, as a reader sees them: "When WHEN: ADVICE". The same advice under another condition is
	// therefore another content. See CleanText.
	Content string `msgpack:"content" json:"content"`

	// Numbers of samples (see Evidence.Sample) whose reflection judged the bullet helpful, harmful or neither.
	Helpful int `msgpack:"helpful,omitempty" json:"helpful"`
	Harmful int `msgpack:"harmful,omitempty" json:"harmful"`
	Neutral int `msgpack:"neutral,omitempty" json:"neutral"`

	Status Status `msgpack:"status,omitempty" json:"status,omitempty"` // empty means active
	Pinned bool   `msgpack:"pinned,omitempty" json:"pinned,omitempty"`

	// The state hash covers the fields above, and none of those below.

	// Experiment has the measured effect of the bullet, nil if nothing was measured.
	Experiment *Experiment `msgpack:"experiment,omitempty" json:"experiment,omitempty"`
	// SupportBySource counts the executions that support the bullet, by source; executions without a source are left out.
	SupportBySource []SourceSupport `msgpack:"support_by_source,omitempty" json:"support_by_source,omitempty"`
	// InferredSupport counts the supporting executions whose outcome was only inferred, see Evidence.Inferred.
	InferredSupport int `msgpack:"inferred,omitempty" json:"inferred_support,omitempty"`
	// OnlyInferred is set if executions with inferred outcomes have requested the text, and nothing else has: no other execution and no person.
	OnlyInferred bool `msgpack:"only_inferred,omitempty" json:"only_inferred,omitempty"`
	// LearnedFrom has the sequences of the reflections that requested the text. If there are many, it has only the first and the newest ones.
	LearnedFrom []uint64 `msgpack:"from,omitempty" json:"learned_from,omitempty"`
	// Approved is set if a person wrote or approved exactly this text.
	Approved bool `msgpack:"approved,omitempty" json:"approved,omitempty"`
	// Replaces is the bullet that this one corrects, or empty.
	Replaces BulletID `msgpack:"replaces,omitempty" json:"replaces,omitempty"`
	// Contests is a supported bullet that this one contradicts, or empty: it was cited in the failure from which this one was learned.
	Contests BulletID `msgpack:"contests,omitempty" json:"contests,omitempty"`

	// Commit times of the deltas that added the bullet, last changed it, and last added votes to it.
	CreatedAt time.Time `msgpack:"created" json:"created_at"`
	UpdatedAt time.Time `msgpack:"updated" json:"updated_at"`
	LastUsed  time.Time `msgpack:"used,omitempty" json:"last_used,omitzero"`
}

// AwaitsPerson reports whether a person can approve or reject the bullet: it is in quarantine, or it is a candidate that only
// inferred outcomes support. A reported outcome also releases such a candidate.
func (b *Bullet) AwaitsPerson() bool {
	return b.Status == Quarantined || b.Status == Candidate && b.OnlyInferred
}

// Shown reports whether the bullet is active, so that generators always see it.
func (b *Bullet) Shown() bool { return b.Status == Active || b.Status == "" }

// Established reports whether the bullet belongs to the stable part of a prompt; see Standing.Established.
func (b *Bullet) Established() bool {
	return b.Status != Probation && (b.Experiment == nil || b.Experiment.Standing.Established())
}

// Score returns helpful minus harmful. It orders bullets in Top.
func (b *Bullet) Score() int { return b.Helpful - b.Harmful }

// MaxContent and MaxSection are the maximum lengths of content and section name, in bytes.
const (
	MaxContent = 64 << 10
	MaxSection = 200
)

var (
	errEmptyContent = errors.New("content: is empty")
	errLongContent  = fmt.Errorf("content: is longer than %d bytes", MaxContent)
)

// CleanContent normalizes text to valid content of a bullet: valid UTF-8, no control characters except newline and tab,
// no surrounding white space. It returns an error if the result is empty or too long. Every content is a result of CleanContent.
func CleanContent(text string) (string, error) {
	text = strings.TrimSpace(removeControl(text, "\n\t"))
	switch {
	case text == "":
		return "", errEmptyContent
	case len(text) > MaxContent:
		return "", errLongContent
	}
	return text, nil
}

// Section normalizes a name to that of a section: one line, lower case, words joined by "_". An empty result becomes
// "misc".
func Section(name string) string {
	name = strings.ToLower(removeControl(name, ""))
	name = strings.ReplaceAll(name, "&", "and")
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '#' || r == '_' || r == '[' || r == ']' }), "_")
	if len(name) > MaxSection {
		name = strings.TrimRight(text.Prefix(name, MaxSection), "_")
	}
	return cmp.Or(name, "misc")
}

// removeControl replaces invalid UTF-8 by U+FFFD, line breaks and tabs by spaces, and removes other control characters.
// It does not change the characters in keep.
func removeControl(text, keep string) string {
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

// slugs are the short names of the sections in the ACE authors' playbooks (ace-agent/ace, ace-agent/ace-appworld).
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

// MintID returns the id of the n-th bullet of a book: the section's slug and the number with at least five digits. The
// slug of an unknown section is the first four letters of a single word, or the initials of up to five words.
func MintID(section string, n uint64) BulletID {
	slug, ok := slugs[section]
	if !ok {
		words := strings.FieldsFunc(section, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
		if len(words) == 1 {
			slug = words[0][:min(4, len(words[0]))]
		} else {
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

// hash returns the hash of the bullet for the checksum of a playbook. It covers the same fields as the state hash.
func (b *Bullet) hash() Checksum {
	var buf [1024]byte // on the stack, and longer than most bullets
	sum := sha256.Sum256(b.appendState(buf[:0]))
	return Checksum(sum[:16])
}

// appendState appends the fields that the state hash covers. Strings have a length prefix, so that different bullets have
// different encodings.
func (b *Bullet) appendState(buf []byte) []byte {
	status := b.Status
	if status == "" {
		status = Active
	}
	for _, s := range [...]string{string(b.ID), b.Section, b.When, b.Content, string(status)} {
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
