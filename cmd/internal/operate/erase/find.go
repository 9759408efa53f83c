package erase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/direct"
	"debrief/events/erasure"
	"debrief/events/streams"
	"debrief/playbook"
)

// searched are the streams in the order of the search: the ids that are found in one are needed for the next. Messages are removed in the
// reverse order, so that a search after an interruption finds the same. Descriptions of agents, which have no run, are removed before the
// messages that refer to them. Payloads are removed after these messages, because a message without its payload cannot be decoded.
var searched = []string{
	events.StreamExecutions,
	events.StreamTasks,
	events.StreamReflections,
	"KV_" + events.BucketContexts,
	"KV_" + events.BucketOpen,
	"KV_" + events.BucketCaptures,
	"KV_" + events.BucketWindow,
	"KV_" + events.BucketState,
	events.StreamDead,
	"KV_" + events.BucketPlaybook,
	events.StreamDeltas,
	events.StreamRedactions,
}

// wholeBooks are streams whose messages are removed only with the whole playbook. eraseLogs removes the texts of single runs from the log.
var wholeBooks = []string{"KV_" + events.BucketPlaybook, events.StreamDeltas, events.StreamRedactions}

// found is what the erased runs have left.
type found struct {
	// The logs of the playbooks, from searchOldLogs and searchLogs.
	logs    map[playbook.Book]oldLog // of the erased playbooks
	books   []playbook.Book          // with a log
	learned map[playbook.Book]bool   // whose log has evidence of erased runs, or changes of an erasure; others can only have copies of texts
	handled map[bookEdit]bool        // edits whose effect was in the log before an erasure made the playbook forget
	forgets map[bookSelector]bool    // selectors for each playbook to forget

	// The erased runs, from the logs and the streams. They decide which messages are removed.
	runs       map[string]bool // ids and handles of the runs, and of messages only about them
	sessions   map[string]bool // keys of their sessions in the bucket of states
	executions int             // number of stored executions

	// The messages and payloads, from search and findBlobs.
	messages     map[string][]uint64        // sequences by stream, in the order in which they were found
	known        map[string]map[uint64]bool // the same as sets
	blobs        map[string]bool            // names of the payloads that these messages refer to
	kept         map[string]bool            // names of the payloads that other messages refer to
	descriptions []uint64                   // sequences of the descriptions of agents, which are payloads without a run; see searched
}

// oldLog is the log of an erased playbook. The deltas of a log are linked, so it goes as a whole: also what was added after the request.
type oldLog struct {
	erased time.Time // when the erasure was requested
	end    uint64    // sequence of the last delta, 0 if none is stored
	isNew  bool      // the playbook has a new log
	read   time.Time // when this was read
}

// bookSelector selects what one playbook must forget.
type bookSelector struct {
	book     playbook.Book
	selector playbook.Selector
}

type bookEdit struct {
	book playbook.Book
	id   string
}

func newFound() *found {
	return &found{
		learned: map[playbook.Book]bool{}, logs: map[playbook.Book]oldLog{}, handled: map[bookEdit]bool{}, runs: map[string]bool{}, sessions: map[string]bool{}, forgets: map[bookSelector]bool{},
		messages: map[string][]uint64{}, known: map[string]map[uint64]bool{}, blobs: map[string]bool{}, kept: map[string]bool{},
	}
}

// count returns the number of messages.
func (f *found) count() (n int) {
	n = len(f.descriptions)
	for _, seqs := range f.messages {
		n += len(seqs)
	}
	return n
}

// isEmpty reports whether a search has found nothing.
func (f *found) isEmpty() bool { return f.count() == 0 && len(f.forgets) == 0 }

// find searches the logs of the playbooks and all streams. It repeats the search until it finds no other run.
func (e *Eraser) find(ctx context.Context) (*found, error) {
	f := newFound()
	if err := e.searchOldLogs(ctx, f); err != nil {
		return nil, err
	}
	if err := e.searchLogs(ctx, f); err != nil {
		return nil, err
	}
	for {
		ids, messages := len(f.runs), f.count()
		clear(f.kept) // the next round may find more runs, so that it keeps fewer payloads
		for _, stream := range searched {
			e.progress("search " + stream)
			if err := e.search(ctx, stream, f); err != nil {
				return nil, err
			}
		}
		if len(f.runs) == ids && f.count() == messages {
			return f, e.findBlobs(ctx, f)
		}
	}
}

// search adds the messages of a stream.
func (e *Eraser) search(ctx context.Context, stream string, f *found) error {
	err := e.read(ctx, stream, func(m direct.Message) error {
		if f.known[stream][m.Seq] {
			return nil
		}
		message := &stored{stream: stream, Message: m}
		if !e.mustRemove(ctx, message, f) {
			addAll(f.kept, message.blobs)
			return nil
		}
		f.addMessage(stream, m.Seq)
		addAll(f.blobs, message.blobs)
		return nil
	})
	if err != nil {
		return fmt.Errorf("search %s: %w", stream, err)
	}
	return nil
}

// mustRemove reports whether a message is of an erased run or playbook, or has their texts. It adds the ids in the message to those of the
// erased runs.
func (e *Eraser) mustRemove(ctx context.Context, m *stored, f *found) bool {
	about, ids := e.aboutStored(ctx, m)
	switch {
	case slices.Contains(wholeBooks, m.stream):
		return f.isOfOldLog(m, about.Book)
	case e.isErased(&about, f):
		f.addRun(&about, ids)
		if kind, _, _ := events.ParseSubject(m.Subject); kind == events.KindExecution {
			f.executions++
		}
		return true
	case m.other != nil && e.isErased(m.other, f): // only the message is removed: its own run stays
		f.addIDs(ids)
		return true
	}
	return f.touches(m, &about)
}

// isOfOldLog reports whether a message of wholeBooks is of a playbook that was erased, and has no new log since.
func (f *found) isOfOldLog(m *stored, b playbook.Book) bool {
	log, ok := f.logs[b]
	switch {
	case !ok:
		return false
	case m.stream == events.StreamDeltas:
		return m.Seq <= log.end
	case m.Stored().Before(log.erased): // so it is not of a new log
		return true
	case m.stream == events.StreamRedactions:
		seq, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 10, 64) // of the delta
		return err == nil && seq <= log.end
	}
	return !log.isNew && m.Stored().Before(log.read) // a part of the view
}

// isErased reports whether a message is about an erased run: by its names, or by the ids of the run.
func (e *Eraser) isErased(about *erasure.About, f *found) bool {
	return e.filter.Erased(about) || slices.ContainsFunc(about.Runs, func(run string) bool { return f.runs[run] })
}

// touches reports whether a message of another run, or of none, has texts of an erased run. Then the message is removed, and its own run
// stays.
func (f *found) touches(m *stored, about *erasure.About) bool {
	isFound := func(id string) bool { return f.runs[id] }
	kind, book, _ := events.ParseSubject(m.Subject)
	switch {
	case kind == events.KindEdit: // it may have texts of a bullet that is gone; the log has its effect
		return f.handled[bookEdit{book, about.Edit}]
	case kind == events.KindDead: // its message is unreadable
		return len(about.Runs) == 0 && mentions(m.Data, isFound)
	case kind != "":
		return false
	case mentions([]byte(m.Subject), isFound): // a part of an open run, or a reference to it
		return true
	}
	switch m.stream {
	case "KV_" + events.BucketState: // a summary, as earlier versions stored it, covers all turns of its session, and marks have copies of turns
		isMarks := strings.HasSuffix(m.Subject, ".marks")
		return f.sessions[strings.TrimSuffix(m.Subject, ".summary")] || isMarks && mentions(m.Data, isFound)
	case "KV_" + events.BucketContexts: // a context has texts of the turns that were recalled
		return mentions(m.Data, isFound)
	}
	return false
}

func addAll(set map[string]bool, names []string) {
	for _, name := range names {
		set[name] = true
	}
}

func (f *found) addMessage(stream string, seq uint64) {
	if f.known[stream] == nil {
		f.known[stream] = map[uint64]bool{}
	}
	f.known[stream][seq] = true
	f.messages[stream] = append(f.messages[stream], seq)
}

// addRun adds the ids of a run, other ids about it, and its session.
func (f *found) addRun(a *erasure.About, ids []string) {
	f.addIDs(a.Runs)
	f.addIDs(ids)
	if a.Session != "" && a.Book.Validate() == nil {
		f.sessions["$KV."+events.BucketState+"."+events.SessionKey(a.Book, a.Owner, a.Session)] = true
	}
}

// addIDs adds ids and handles of runs, except empty ones.
func (f *found) addIDs(ids []string) {
	for _, id := range ids {
		if id != "" {
			f.runs[id] = true
		}
	}
}

// findBlobs adds the blobs that only erased runs use. It also adds payloads of erased runs whose message is gone: an answered task, or a
// publish that was refused.
func (e *Eraser) findBlobs(ctx context.Context, f *found) error {
	store := blob.New(e.conn.JetStream())
	subjects := map[string][]string{} // of the copies of each blob
	if err := store.All(ctx, func(name, subject string) { subjects[name] = append(subjects[name], subject) }); err != nil {
		return fmt.Errorf("search the payloads: %w", err)
	}
	for name, all := range subjects {
		all = slices.DeleteFunc(all, func(subject string) bool { return subject == "" })
		isErased := f.blobs[name] || slices.ContainsFunc(all, func(subject string) bool { return e.isErasedPayload(ctx, name, subject, f) })
		if f.kept[name] || !isErased {
			continue
		}
		seqs, err := store.Messages(ctx, name)
		if err != nil {
			return fmt.Errorf("find payload %s: %w", name, err)
		}
		if len(all) == 0 { // no copy has a subject: it is the description of an agent
			f.descriptions = append(f.descriptions, seqs...)
			continue
		}
		for _, seq := range seqs {
			f.addMessage(blob.Stream, seq)
		}
	}
	return nil
}

// isErasedPayload reports whether a blob is the payload of an erased run. It decodes the blob as if a message on the subject had it.
func (e *Eraser) isErasedPayload(ctx context.Context, name, subject string, f *found) bool {
	header := events.SchemaHeader()
	header[events.HeaderBlob] = []string{name}
	kind, _, _ := events.ParseSubject(subject)
	about, _ := e.aboutStored(ctx, &stored{stream: streams.OfKind(kind), Message: direct.Message{Subject: subject, Header: header}})
	return e.isErased(&about, f)
}

// read calls fn for every message of a stream. A stream that does not exist has none.
func (e *Eraser) read(ctx context.Context, stream string, fn func(direct.Message) error) error {
	return e.unlessMissing(ctx, stream, direct.Read(ctx, e.conn.NATS(), stream, direct.Query{Subject: ">"}, fn))
}

// unlessMissing returns the error of a read, or nil if the stream does not exist. A stream without a leader gives the same error to readers, but may
// hold data of erased runs.
func (e *Eraser) unlessMissing(ctx context.Context, stream string, err error) error {
	if errors.Is(err, nats.ErrNoResponders) {
		if _, missing := e.conn.JetStream().Stream(ctx, stream); errors.Is(missing, jetstream.ErrStreamNotFound) {
			return nil
		}
	}
	return err
}
