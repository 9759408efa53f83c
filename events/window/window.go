// Package window keeps what prompts need of the recent past in key-value buckets: the last interactions of a session,
// the last reflections of a session and of a book, the last runs at a task, what a person marked, the contexts that
// outside agents were served, and embeddings that were paid for.
//
// A window is a key with history: to add is one put, and the server forgets the oldest. Nothing is read, changed and
// written back, so writers need no lock and lose nothing to one another. The exception are the marks of a session, a
// short list that people change by compare-and-swap.
//
// All of it is a cache, bounded by age, that the streams can fill again; it is not a record of anything. Who reads a
// window gets what can be read of it: an entry that cannot is counted and passed over.
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
	"debrief/events/denied"
	"debrief/playbook"
)

const windows bucket = events.BucketWindow

// Store is the windows of one account.
type Store struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	watch *denied.Watch
}

// New is the store that a connection reaches. The buckets must exist. A read waits 5 s for an answer of the server, and
// so does a write where the caller's context has no deadline.
func New(nc *nats.Conn, js jetstream.JetStream) *Store { return &Store{nc, js, denied.Of(js)} }

func interactionID(i *events.Interaction) events.ID { return i.ID }

func noteID(n *events.Note) events.ID { return n.ID }

// Add appends an interaction to its session. The same execution again within the server's duplicate window, two minutes
// as we set it up, is dropped there. A later copy takes a place in the window: the caller asks First before.
func (s *Store) Add(ctx context.Context, b playbook.Book, session string, i *events.Interaction) error {
	err := valid(b, session)
	if err == nil && i.ID == "" {
		err = errors.New("id: is empty")
	}
	if err == nil {
		id := events.Hash("window", string(b), session, string(i.ID))
		err = s.put(ctx, windows, events.SessionKey(b, session), i, jetstream.WithMsgID(string(id)))
	}
	if err != nil {
		return fmt.Errorf("add interaction %s to %s: %w", i.Execution, name(b, session), err)
	}
	return nil
}

// Interactions are the last of a session, each execution once, by turn, then time, then id. Of two with one execution
// id the first counts, of the rounds at one task the last, in the place of the first. Damaged counts the entries that cannot be read, also those of a newer schema. A session that
// nobody has seen has none.
func (s *Store) Interactions(ctx context.Context, b playbook.Book, session string) (list []*events.Interaction, damaged int, err error) {
	if err = valid(b, session); err == nil {
		list, damaged, err = history(ctx, s, events.SessionKey(b, session), interactionID)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read interactions of %s: %w", name(b, session), err)
	}
	list = lastRounds(list)
	slices.SortFunc(list, func(i, j *events.Interaction) int {
		return cmp.Or(cmp.Compare(i.Turn, j.Turn), i.At.Compare(j.At), cmp.Compare(i.ID, j.ID))
	})
	return list, damaged, nil
}

// lastRounds leaves of the rounds at one task the last.
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
		later := last[cmp.Or(i.First, i.ID)]
		return later != nil && later != i
	})
}

// AddNote appends a note to those of its book, and to those of its session if it has one. What it says of an execution's
// steps is the session's alone, so a note of nothing else is not among the book's. After an error it may be among the
// first and not the second; to add it again soon is safe.
func (s *Store) AddNote(ctx context.Context, b playbook.Book, n *events.Note) error {
	err := b.Validate()
	if err == nil && n.ID == "" {
		err = errors.New("id: is empty")
	}
	if err == nil && n.Worded() {
		words := *n
		words.Records = nil
		err = s.addNote(ctx, b, "", &words)
	}
	if err == nil && n.Session != "" {
		err = s.addNote(ctx, b, n.Session, n)
	}
	if err != nil {
		return fmt.Errorf("add note %s to %s: %w", n.Reflection, name(b, n.Session), err)
	}
	return nil
}

func (s *Store) addNote(ctx context.Context, b playbook.Book, session string, n *events.Note) error {
	id := events.Hash("note", string(b), session, string(n.ID))
	return s.put(ctx, windows, events.NotesKey(b, session), n, jetstream.WithMsgID(string(id)))
}

// Notes are the last notes of a book and the last of a session, so many of each at most, each once, by time, then id:
// the newest is last. The session has its own share because others can be much busier. An empty session has none.
// Damaged counts the entries of both that cannot be read.
func (s *Store) Notes(ctx context.Context, b playbook.Book, session string, most int) (list []*events.Note, damaged int, err error) {
	byTime := func(m, n *events.Note) int { return cmp.Or(m.At.Compare(n.At), cmp.Compare(m.ID, n.ID)) }
	seen := map[events.ID]bool{}
	add := func(session string) error {
		notes, bad, err := history(ctx, s, events.NotesKey(b, session), noteID)
		notes = slices.DeleteFunc(notes, func(n *events.Note) bool { return !n.Worded() })
		slices.SortFunc(notes, byTime)
		for _, n := range notes[max(0, len(notes)-max(0, most)):] {
			if !seen[n.ID] {
				seen[n.ID] = true
				list = append(list, n)
			}
		}
		damaged += bad
		return err
	}
	if err = b.Validate(); err == nil {
		err = add("")
	}
	if err == nil && session != "" {
		err = add(session)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read notes of %s: %w", name(b, session), err)
	}
	slices.SortFunc(list, byTime)
	return list, damaged, nil
}

// Records are the second layers of a session's executions, by handle, as the last notes of the session have them.
func (s *Store) Records(ctx context.Context, b playbook.Book, session string) (map[events.Handle][]events.Record, error) {
	err := valid(b, session)
	var notes []*events.Note
	if err == nil {
		notes, _, err = history(ctx, s, events.NotesKey(b, session), noteID)
	}
	if err != nil {
		return nil, fmt.Errorf("read records of %s: %w", name(b, session), err)
	}
	found := make(map[events.Handle][]events.Record)
	for _, n := range notes {
		if len(n.Records) > 0 {
			found[n.Execution] = n.Records
		}
	}
	return found, nil
}

func valid(b playbook.Book, session string) error {
	if session == "" {
		return errors.Join(b.Validate(), errors.New("session: is empty"))
	}
	return b.Validate()
}

// name is a session as errors call it. It may be long.
func name(b playbook.Book, session string) string {
	return fmt.Sprintf("session %.80q of book %q", session, string(b))
}
