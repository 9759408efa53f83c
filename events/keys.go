package events

import (
	"fmt"
	"strings"

	"debrief/events/redact"
	"debrief/playbook"
)

// Keys of the bucket playbook.

// HeadKey returns the key of the head of a book: its version and metadata.
func HeadKey(b playbook.Book) string { return string(b) + ".head" }

// BulletKey returns the key of a bullet.
func BulletKey(b playbook.Book, id playbook.BulletID) string {
	return string(b) + ".bullet." + id.Key()
}

// Keys of the buckets window and state. No session can have one of the reserved names that begin with "_".

// SessionKey returns the key for the turns of a session of an owner. Its history contains the last ones.
func SessionKey(b playbook.Book, owner, session string) string {
	return string(b) + "." + ownerToken(owner) + "." + keyToken(session)
}

// keyToken returns a session name as one token of a key. A name that begins with "_" or with "x-", the mark of a hash, is hashed. A name that
// contains a secret is redacted.
func keyToken(name string) string {
	name = redact.ID(name)
	if strings.HasPrefix(name, "_") || strings.HasPrefix(name, "x-") {
		return "x-" + string(Hash("session", name))
	}
	return playbook.BulletID(name).Key()
}

// MarksKey returns the key for the marks of a session, such as pins.
func MarksKey(b playbook.Book, owner, session string) string {
	return SessionKey(b, owner, session) + ".marks"
}

// NotesKey returns the key for the notes on reflections of a session of an owner. Its history contains the last ones.
func NotesKey(b playbook.Book, owner, session string) string {
	return SessionKey(b, owner, session) + ".reflections"
}

// BookNotesKey returns the key for the notes on reflections of a book, of all owners. Its history contains the last ones.
func BookNotesKey(b playbook.Book) string { return string(b) + "._reflections" }

// FirstCopiesKey returns one of the keys that record the first copy of each event.
func FirstCopiesKey(b playbook.Book, part uint16) string {
	return fmt.Sprintf("%s._first.%04x", b, part)
}

// RunKey returns the key for an owner's last run at a task with this label. The task is a hash, because a task name may
// contain any character.
func RunKey(b playbook.Book, owner string, task ID, l Label) string {
	return string(b) + "._runs." + ownerToken(owner) + "." + string(task) + "." + string(l)
}
