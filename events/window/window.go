// Package window stores recent data for prompts in key-value buckets: the last turns of a session, reflections, the last runs at a task,
// marks of users, contexts of outside agents, and embeddings.
//
// A window is a key with history. One put adds a value, and the server drops the oldest value. No writer reads and changes a
// list, so writers need no lock and lose no updates. The exceptions are the marks of a session and the records of ClaimFirstCopy,
// which use compare-and-swap.
//
// The buckets are a cache with limited age: the streams contain the same data. An unreadable entry is counted and skipped.
package window

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
)

// A key of windows has a history. A key of states has one value.
const (
	windows bucket = events.BucketWindow
	states  bucket = events.BucketState
)

// Store reads and writes the buckets of one account. It is safe for concurrent use.
type Store struct {
	js        jetstream.JetStream
	direct    *direct.Reader
	retention retention
}

// New returns a store for a connection. The buckets must exist. A read waits up to 5 s for the server, and so does
// a write if the caller's context has no deadline.
func New(nc *nats.Conn, js jetstream.JetStream) *Store {
	return &Store{js: js, direct: direct.NewReader(nc, natserr.WatchOf(js))}
}

// Add appends an interaction to its session. The server drops a copy of the same execution within its duplicate
// window, which is two minutes in our configuration. A later copy would take another place in the window, so
// callers use ClaimFirstCopy before Add.
func (s *Store) Add(ctx context.Context, b playbook.Book, owner, session string, i *events.Interaction) error {
	err := validate(b, owner, session)
	if err == nil && i.ID == "" {
		err = errors.New("id: is empty")
	}
	if err == nil {
		id := events.Hash("window", string(b), owner, session, string(i.ID))
		err = s.put(ctx, windows, events.SessionKey(b, owner, session), i, jetstream.WithMsgID(string(id)))
	}
	if err != nil {
		return fmt.Errorf("add interaction %s to %s: %w", i.Execution, sessionName(b, session), err)
	}
	return nil
}

// Interactions returns the last interactions of a session, sorted by turn, time and id. Each execution is included
// once, with its first copy. Of the rounds at one task only the last is included. damaged counts unreadable
// entries, also those with a newer schema. The list of an unknown session is empty.
func (s *Store) Interactions(ctx context.Context, b playbook.Book, owner, session string) (list []*events.Interaction, damaged int, err error) {
	if err = validate(b, owner, session); err == nil {
		list, damaged, err = history(ctx, s, events.SessionKey(b, owner, session), func(i *events.Interaction) events.ID { return i.ID })
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read interactions of %s: %w", sessionName(b, session), err)
	}
	list = lastRounds(list)
	slices.SortFunc(list, func(i, j *events.Interaction) int {
		return cmp.Or(cmp.Compare(i.Turn, j.Turn), i.At.Compare(j.At), cmp.Compare(i.ID, j.ID))
	})
	return list, damaged, nil
}

// lastRounds keeps only the last of the rounds at each task.
func lastRounds(list []*events.Interaction) []*events.Interaction {
	last := make(map[events.ID]*events.Interaction)
	for _, i := range list {
		if i.First == "" {
			continue
		}
		if old := last[i.First]; old == nil || i.Round > old.Round {
			last[i.First] = i
		}
	}
	return slices.DeleteFunc(list, func(i *events.Interaction) bool {
		later := last[cmp.Or(i.First, i.ID)] // the first round itself has no First
		return later != nil && later != i
	})
}

// AddNote appends a note to the list of its book, and to the list of its session if it has one. Only the session's
// copy contains the records of steps, so a note without text is not added to the book. After an error the note may
// be in only one of the lists. It is safe to call AddNote again soon after.
func (s *Store) AddNote(ctx context.Context, b playbook.Book, n *events.Note) error {
	err := errors.Join(b.Validate(), events.ValidateOwner(n.Owner))
	if err == nil && n.ID == "" {
		err = errors.New("id: is empty")
	}
	if err == nil && n.HasText() {
		withoutRecords := *n
		withoutRecords.Records = nil
		err = s.addNote(ctx, events.BookNotesKey(b), &withoutRecords)
	}
	if err == nil && n.Session != "" {
		err = s.addNote(ctx, events.NotesKey(b, n.Owner, n.Session), n)
	}
	if err != nil {
		return fmt.Errorf("add note %s to %s: %w", n.Reflection, sessionName(b, n.Session), err)
	}
	return nil
}

func (s *Store) addNote(ctx context.Context, key string, n *events.Note) error {
	id := events.Hash("note", key, string(n.ID))
	return s.put(ctx, windows, key, n, jetstream.WithMsgID(string(id)))
}

// Notes returns the last notes of a book and of a session, up to limit of each. Each note is included once. They are sorted
// by time and id, the newest last. The session has a limit of its own, because other sessions may be much busier. An empty
// session has no notes. damaged counts the unreadable entries of both lists.
func (s *Store) Notes(ctx context.Context, b playbook.Book, owner, session string, limit int) (list []*events.Note, damaged int, err error) {
	keys := []string{events.BookNotesKey(b)}
	if session != "" {
		keys = append(keys, events.NotesKey(b, owner, session))
	}
	if err := errors.Join(b.Validate(), events.ValidateOwner(owner)); err != nil {
		return nil, 0, fmt.Errorf("read notes of %s: %w", sessionName(b, session), err)
	}
	byTime := func(m, n *events.Note) int { return cmp.Or(m.At.Compare(n.At), cmp.Compare(m.ID, n.ID)) }
	seen := map[events.ID]bool{}
	for _, key := range keys {
		notes, bad, err := history(ctx, s, key, func(n *events.Note) events.ID { return n.ID })
		if err != nil {
			return nil, 0, fmt.Errorf("read notes of %s: %w", sessionName(b, session), err)
		}
		damaged += bad
		notes = slices.DeleteFunc(notes, func(n *events.Note) bool { return !n.HasText() })
		slices.SortFunc(notes, byTime)
		for _, n := range notes[max(0, len(notes)-max(0, limit)):] {
			if !seen[n.ID] {
				seen[n.ID] = true
				list = append(list, n)
			}
		}
	}
	slices.SortFunc(list, byTime)
	return list, damaged, nil
}

// RecordNotes returns the last notes of a session that have records of steps, oldest first.
func (s *Store) RecordNotes(ctx context.Context, b playbook.Book, owner, session string) ([]*events.Note, error) {
	err := validate(b, owner, session)
	var notes []*events.Note
	if err == nil {
		notes, _, err = history(ctx, s, events.NotesKey(b, owner, session), func(n *events.Note) events.ID { return n.ID })
	}
	if err != nil {
		return nil, fmt.Errorf("read records of %s: %w", sessionName(b, session), err)
	}
	return slices.DeleteFunc(notes, func(n *events.Note) bool { return len(n.Records) == 0 }), nil
}

func validate(b playbook.Book, owner, session string) error {
	err := errors.Join(b.Validate(), events.ValidateOwner(owner))
	if session == "" {
		return errors.Join(err, errors.New("session: is empty"))
	}
	return err
}

// sessionName describes a session in errors. The session name may be long, so it is truncated.
func sessionName(b playbook.Book, session string) string {
	return fmt.Sprintf("session %.80q of book %q", session, string(b))
}
