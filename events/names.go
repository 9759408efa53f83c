package events

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/text"
)

// MaxName is the maximum length of a name that an agent chooses, in bytes: of a session, a user or a task. Names are in keys, indexes and
// pages.
const MaxName = 1024

// maxRunID is the maximum length of the id of a run, in bytes.
const maxRunID = 256

// names are the names in an event or a request.
type names struct{ session, user, task string }

// validate returns an error for each invalid name, with its field. Empty names are valid.
func (n names) validate() error {
	return errors.Join(validateName("session", n.session, MaxName), validateName("user", n.user, MaxName), validateName("task", n.task, MaxName))
}

// validateName returns an error if the name in a field is longer than limit, or has a character that no name may have.
func validateName(field, name string, limit int) error {
	switch {
	case len(name) > limit:
		return fmt.Errorf("%s: must have at most %d bytes, got %d", field, limit, len(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("%s: must be valid UTF-8", field)
	case strings.ContainsFunc(name, invalidInName):
		return fmt.Errorf("%s: must not contain line breaks or other control characters", field)
	}
	return nil
}

// invalidInName reports whether a name cannot contain a character: it would break a line of a page, of a log or of a prompt.
func invalidInName(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// validateRunID returns an error if the id of a run is empty or no valid name.
func validateRunID(id string) error {
	if id == "" {
		return fmt.Errorf("run_id: must be 1 to %d bytes, got 0", maxRunID)
	}
	return validateName("run_id", id, maxRunID)
}

// ValidateBook returns an error if no new playbook may have the name b. Unlike Book.Validate it refuses a name that looks like a secret: events
// could not keep it, because secrets in them are redacted.
func ValidateBook(b playbook.Book) error {
	if kind := redact.Kind(string(b)); kind != "" {
		return fmt.Errorf("the name looks like a secret (%s): choose another one", kind)
	}
	return b.Validate()
}

// FitName returns a valid name of a session, a user or a task. It is for names in model calls, traces, hooks and recorded runs, where no caller
// would see a refusal. It does not change a valid name. Otherwise it replaces each invalid character by "_", and the end of a long name by a
// hash of the whole name: equal names stay equal, and different ones stay different.
func FitName(name string) string { return fitName(name, MaxName) }

// FitRunID is like FitName, for the id of a run. An empty id stays empty.
func FitRunID(id string) string { return fitName(id, maxRunID) }

func fitName(name string, limit int) string {
	if validateName("", name, limit) == nil {
		return name
	}
	name = redact.ID(name) // before the cut: half of a secret would not be recognised
	if validateName("", name, limit) == nil {
		return name
	}
	clean := strings.Map(func(r rune) rune {
		if invalidInName(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	sum := sha256.Sum256([]byte(name))
	hash := "~" + hex.EncodeToString(sum[:8])
	return text.Prefix(clean, limit-len(hash)) + hash
}
