// Package streams defines the streams, buckets and durables of the pipeline: their names, their configurations and the
// checks of an existing stream. It makes no requests.
package streams

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
)

// Default retention of the streams and buckets, and the window in which the server drops duplicates. 'debrief setup' can change the
// retention. The variable dependencies has the rules between these times.
const (
	keepEvents   = 30 * 24 * time.Hour // tasks, executions and reflections
	keepDead     = 7 * 24 * time.Hour
	keepWindows  = keepEvents            // since the last turn of a session
	keepContexts = 7 * 24 * time.Hour    // agents report within this time
	keepVectors  = keepEvents            // the texts have expired by then
	keepAttempts = keepEvents            // as long as a message can be redelivered
	keepOpen     = 7 * 24 * time.Hour    // a run is open for minutes or hours
	keepCaptures = keepOpen + keepEvents // feedback names a run by its ids as long as its execution is stored
	keepBlobs    = keepOpen + keepEvents + keepDead + blob.Margin
	duplicates   = 2 * time.Minute
)

// Limits of the cache buckets, in messages. At the limit the server drops the oldest ones, of any key. It needs about
// 0.3 KB of memory for each key, so these limits also bound its memory, at 0.5 GB in all. They do not limit the bytes,
// because a server reserves the bytes that a stream may use.
const (
	maxWindows  = 400_000 // interactions and notes: 10,000 sessions with full windows of both
	maxState    = 250_000 // 65,536 for the first copies of each book, at most 2 for each session, at most 2 for each task
	maxContexts = 250_000
	maxVectors  = 250_000
	// maxCaptures counts one value for each call of the last month, and some for each run. 'debrief doctor' warns before it is reached.
	maxCaptures = 4_000_000
)

// MaxOpen is the limit of the bucket of open runs, in values: each run has a few. A full bucket refuses new values, because an open
// run must not be dropped. MaxOpenOfOwner is the part that one owner may use.
const (
	MaxOpen        = 400_000
	MaxOpenOfOwner = MaxOpen / 2
)

// boundedCache limits a stream to a number of messages. At the limit it keeps the newest.
func boundedCache(s jetstream.StreamConfig, messages int64) jetstream.StreamConfig {
	s.Discard, s.MaxMsgs = jetstream.DiscardOld, messages
	return s
}

// Attempts is the stream of the bucket with the numbers of attempts.
const Attempts = "KV_" + events.BucketAttempts

// WindowHistory is the number of interactions that the server keeps of a session. It is the largest window size.
const WindowHistory = 20

// All returns the configurations of all streams and buckets, as Open creates them. The blobs come last, because other messages refer to
// them.
//
// No stream allows rollups: with the header Nats-Rollup a user who may write one subject could remove all messages of its
// stream. A value that replaces the value before it needs a bucket with a history of 1. Therefore the buckets are created as
// streams, and not by the client of JetStream, which always allows rollups. The client also denies the deletion of a message for ever,
// which an erasure needs: only the operator has the right to delete.
func All(replicas int) []jetstream.StreamConfig {
	all := []jetstream.StreamConfig{
		{
			Name: events.StreamTasks, Description: "tasks that wait for a generator",
			Subjects: events.TaskSubjects(""), Retention: jetstream.WorkQueuePolicy, MaxAge: keepEvents,
		},
		{
			Name: events.StreamExecutions, Description: "executions, and later feedback on them",
			Subjects: []string{events.KindExecution.Subject(""), events.KindFeedback.Subject("")}, MaxAge: keepEvents,
		},
		{
			Name: events.StreamReflections, Description: "reflections on executions, and edits by operators",
			Subjects: []string{events.KindReflection.Subject(""), events.KindEdit.Subject("")}, MaxAge: keepEvents,
		},
		{
			Name: events.StreamDeltas, Description: "the changes of the playbooks: the source of truth",
			// Only the operator may delete stray deltas, one by one.
			Subjects: []string{events.KindDelta.Subject("")}, DenyPurge: true,
		},
		{
			Name: events.StreamDead, Description: "dead letters", // each letter has its own subject
			Subjects: []string{events.AllDead}, MaxAge: keepDead, MaxMsgsPerSubject: 1,
		},
		{
			// A redaction is overwritten when a newer one has taken its place, so nothing here drops or replaces messages.
			Name: events.StreamRedactions, Description: "deltas whose texts were erased, in the place of those in " + events.StreamDeltas,
			Subjects: []string{events.RedactionSubject("", 0)}, DenyPurge: true,
		},
		{
			// A key-value bucket by its subjects and headers. It is created as a stream, because CreateKeyValue cannot
			// allow atomic batches, and UpdateKeyValue disables them.
			Name: "KV_" + events.BucketPlaybook, Description: "the current playbooks: a view of " + events.StreamDeltas,
			Subjects: []string{"$KV." + events.BucketPlaybook + ".>"}, MaxMsgsPerSubject: 1,
			AllowAtomicPublish: true,
		},
		boundedCache(jetstream.StreamConfig{
			// The server drops the oldest interaction of a key, so that no client reads, changes and rewrites a list.
			Name: "KV_" + events.BucketWindow, Description: "the last interactions of sessions and the last reflections of books",
			Subjects: []string{"$KV." + events.BucketWindow + ".>"}, MaxMsgsPerSubject: WindowHistory,
			MaxAge: keepWindows,
		}, maxWindows),
		boundedCache(jetstream.StreamConfig{
			Name: "KV_" + events.BucketState, Description: "marks of sessions, last runs of tasks, first copies of events",
			Subjects: []string{"$KV." + events.BucketState + ".>"}, MaxMsgsPerSubject: 1,
			MaxAge: keepWindows,
		}, maxState),
		boundedCache(jetstream.StreamConfig{
			Name: "KV_" + events.BucketContexts, Description: "served contexts, until their executions are reported",
			Subjects: []string{"$KV." + events.BucketContexts + ".>"}, MaxMsgsPerSubject: 1,
			MaxAge: keepContexts,
		}, maxContexts),
		boundedCache(jetstream.StreamConfig{
			Name: "KV_" + events.BucketVectors, Description: "embeddings of texts, by model and text",
			Subjects: []string{"$KV." + events.BucketVectors + ".>"}, MaxMsgsPerSubject: 1,
			MaxAge: keepVectors,
		}, maxVectors),
		{
			Name: "KV_" + events.BucketRuns, Description: "runs over data sets, and their progress",
			Subjects: []string{"$KV." + events.BucketRuns + ".>"}, MaxMsgsPerSubject: 1,
		},
		{
			Name: "KV_" + events.BucketOpen, Description: "open runs of the gateway",
			Subjects: []string{"$KV." + events.BucketOpen + ".>"}, MaxMsgsPerSubject: 1,
			MaxAge: keepOpen, AllowMsgTTL: true, MaxMsgs: MaxOpen, Discard: jetstream.DiscardNew,
		},
		boundedCache(jetstream.StreamConfig{
			Name: "KV_" + events.BucketCaptures, Description: "closed runs of the gateway, by the ids that clients have",
			Subjects: []string{"$KV." + events.BucketCaptures + ".>"}, MaxMsgsPerSubject: 1,
			MaxAge: keepCaptures, AllowMsgTTL: true,
		}, maxCaptures),
		{
			Name: Attempts, Description: "numbers of attempts, by role and message",
			Subjects: []string{"$KV." + events.BucketAttempts + ".>"}, MaxMsgsPerSubject: 1, MaxAge: keepAttempts,
		},
		{
			Name: "KV_" + events.BucketErasures, Description: "tombstones of erased runs",
			Subjects: []string{"$KV." + events.BucketErasures + ".>"}, MaxMsgsPerSubject: 1,
		},
		{ // an object store by its name and its subjects
			Name: blob.Stream, Description: "payloads too large for a message",
			Subjects: []string{blob.Prefix + ".C.>", blob.Prefix + ".M.>"}, MaxAge: keepBlobs,
		},
	}
	for i := range all {
		all[i].Storage = jetstream.FileStorage
		if all[i].MaxMsgs == 0 {
			all[i].Discard = jetstream.DiscardNew // producers of a full stream get an error
		}
		all[i].Replicas = replicas
		all[i].Duplicates = duplicates
		all[i].AllowDirect = true
	}
	return all
}

// Required returns the names of the streams that a role or the gateway needs, or nil for all.
func Required(role string) []string {
	if role == events.UserGateway { // it publishes tasks and edits and reads the view; other streams may be missing for a time
		return []string{events.StreamTasks, events.StreamReflections, "KV_" + events.BucketPlaybook, "KV_" + events.BucketOpen, "KV_" + events.BucketCaptures}
	}
	names := map[string][]string{
		events.RoleGenerator: {"KV_" + events.BucketPlaybook, "KV_" + events.BucketWindow, "KV_" + events.BucketState, "KV_" + events.BucketContexts, "KV_" + events.BucketVectors},
		events.RoleReflector: {"KV_" + events.BucketWindow, "KV_" + events.BucketState, events.StreamTasks},
		events.RoleCurator:   {events.StreamDeltas, events.StreamRedactions, "KV_" + events.BucketPlaybook},
	}[role]
	if names == nil {
		return nil
	}
	return append(names, Input(role), Output(role), events.StreamDead, Attempts)
}

// OfKind returns the stream of a kind of event.
func OfKind(k events.Kind) string {
	switch k {
	case events.KindTask:
		return events.StreamTasks
	case events.KindExecution, events.KindFeedback:
		return events.StreamExecutions
	case events.KindReflection, events.KindEdit:
		return events.StreamReflections
	case events.KindDelta:
		return events.StreamDeltas
	case events.KindRedaction:
		return events.StreamRedactions
	}
	return events.StreamDead
}

// Input returns the stream that a role consumes.
func Input(role string) string {
	switch role {
	case events.RoleGenerator:
		return events.StreamTasks
	case events.RoleReflector:
		return events.StreamExecutions
	}
	return events.StreamReflections
}

// Roles are the roles with a durable. Do not change it.
var Roles = []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator}

// Output returns the stream that a role writes.
func Output(role string) string {
	switch role {
	case events.RoleGenerator:
		return events.StreamExecutions
	case events.RoleReflector:
		return events.StreamReflections
	}
	return events.StreamDeltas
}

// MetadataRestored is the key in a stream's metadata that holds its last sequence at a restore from a backup. The
// server has forgotten the message ids of the time before, but the effects of these messages may be stored. So every
// message up to that sequence counts as a repeat.
const MetadataRestored = "debrief-restored"

// MetadataRestoring is the key in the metadata of the stream Attempts, which no backup has, from before a restore changes the first stream
// until it has restored the last one. Its value is the time. After an interruption some streams are missing: their new messages would get
// sequences that the log of the playbooks has already, and nothing would be learned from them.
const MetadataRestoring = "debrief-restoring"

// MaxDeliver is the limit of deliveries of every durable: -1 means none, because the worker counts the attempts. At a limit the
// server would stop redelivering a message, and the message would be lost.
const MaxDeliver = -1
