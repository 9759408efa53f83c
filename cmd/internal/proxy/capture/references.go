package capture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// reference names a run, or the reply of one of its calls.
type reference struct {
	Run  events.ID `msgpack:"r" redact:"-"`
	Call int       `msgpack:"n,omitempty"` // 0 for the run itself
}

// storedReference is a reference with the last token of its key, and its sequence in the bucket.
type storedReference struct {
	reference
	token string
	seq   uint64
}

// maxReferences is the number of references of one key that are read. So of the runs that began with equal texts, only this many are
// found.
const maxReferences = 32

const newest = "newest" // token of a reference that names the newest run of a session or conversation

// referenceWrite is a reference to store.
type referenceWrite struct {
	bucket *bucket
	key    string
	token  string
	ref    reference
	ttl    time.Duration // 0 is the age of the bucket
}

// openReference returns a reference by which the next call finds an open run. Its token is the run.
func (s *Store) openReference(key string, ref reference) referenceWrite {
	return referenceWrite{bucket: &s.open, key: key, token: string(ref.Run), ref: ref}
}

// closedReference returns a reference by which the next call or turn finds a closed run. Its token is the run.
func (s *Store) closedReference(key string, ref reference) referenceWrite {
	return referenceWrite{bucket: &s.closed, key: key, token: string(ref.Run), ref: ref, ttl: referenceTTL}
}

// idReference returns a reference by an id that clients know. It is in the bucket of the closed runs, and lives as long as the closed run.
func (s *Store) idReference(key, token string, ref reference) referenceWrite {
	return referenceWrite{bucket: &s.closed, key: key, token: token, ref: ref}
}

// putReferences stores references.
func (s *Store) putReferences(ctx context.Context, writes []referenceWrite) error {
	var all errgroup.Group
	for _, w := range writes {
		all.Go(func() error {
			stored := w.ref // put redacts the value in place
			seq, err := w.bucket.put(ctx, w.key+"."+w.token, &stored, w.ttl)
			if err == nil {
				s.recent.addReference(w.bucket.prefix()+w.key, storedReference{w.ref, w.token, seq})
			}
			return err
		})
	}
	return all.Wait()
}

// beginReferences returns the references to a new run: by its first texts, its session, its turn and its trace.
func (ac *ActiveCall) beginReferences() (writes []referenceWrite) {
	r, keys := ac.match.run, ac.call.keys()
	ref := reference{Run: r.ID}
	for _, slot := range r.Slots { // key.token, see freeSlot
		dot := strings.LastIndexByte(slot, '.')
		w := ac.store.openReference(slot[:dot], ref)
		w.token = slot[dot+1:]
		writes = append(writes, w)
	}
	if r.Named {
		turn := fmt.Sprintf("%s/%d", r.Session, r.TurnNumber)
		writes = append(writes, ac.store.idReference(keys.key(kindSession, r.Session), newest, ref))
		writes = append(writes, ac.store.idReference(keys.key(kindTurn, turn), string(r.ID), ref))
	}
	if id := events.TraceID(ac.call.Trace); id != "" {
		writes = append(writes, ac.store.idReference(keys.key(kindTrace, id), string(r.ID), ref))
	}
	return writes
}

// freeSlot returns the full key for one more reference of a key: with an unused token, or with that of the oldest reference. The tokens are
// numbers below maxReferences, because many runs may begin with equal texts.
func freeSlot(key string, stored []storedReference) string {
	if len(stored) < maxReferences {
		first := rand.IntN(maxReferences)
		for i := range maxReferences {
			token := strconv.Itoa((first + i) % maxReferences)
			if indexOfToken(stored, token) < 0 {
				return key + "." + token
			}
		}
	}
	return key + "." + stored[0].token
}

// replyReferences returns the references to a reply: by the conversation up to it, its id, and the conversation of the provider.
func (ac *ActiveCall) replyReferences(reply *modelapi.Reply) (writes []referenceWrite) {
	ref, keys := reference{Run: ac.Run, Call: ac.attempt.Call}, ac.call.keys()
	key := ac.replyKey(reply)
	switch {
	case key != "" && ac.Closed:
		writes = append(writes, ac.store.closedReference(key, ref))
	case key != "":
		writes = append(writes, ac.store.openReference(key, ref))
	}
	if reply.ID != "" && (reply.Complete() || isPending(ac.call, reply)) {
		writes = append(writes, ac.store.idReference(keys.key(kindResponse, reply.ID), string(ac.Run), ref))
	}
	if c := ac.call.Request.Conversation; c != "" && reply.Complete() {
		writes = append(writes, ac.store.idReference(keys.key(kindConversation, c), newest, ref))
	}
	return writes
}

// replyKey returns the key of a reply to the call, or "" if it is not complete.
func (ac *ActiveCall) replyKey(reply *modelapi.Reply) string {
	if !reply.Complete() {
		return ""
	}
	return ac.call.keys().reply(ac.place.chain, reply.Calls, reply.Text)
}

// closedReferences returns the references by which the next turn finds a closed run: by its first texts and its last reply.
func (s *Store) closedReferences(r *run) []referenceWrite {
	ref := reference{Run: r.ID, Call: r.lastReply()}
	writes := []referenceWrite{s.closedReference(r.Start, ref)}
	if a := r.attemptAt(ref.Call); a != nil {
		writes = append(writes, s.closedReference(a.Reply, ref))
	}
	return writes
}

// openReferences returns the stored keys of the references to an open run.
func (r *run) openReferences() []string {
	keys := slices.Clone(r.Slots)
	for _, a := range r.Attempts {
		if a.Reply != "" {
			keys = append(keys, a.Reply+"."+string(r.ID))
		}
	}
	return keys
}
