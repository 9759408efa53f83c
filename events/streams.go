package events

// Names of the streams. TASKS is a work queue. All streams except DELTAS and REDACTIONS drop messages by age.
const (
	StreamTasks       = "TASKS"
	StreamExecutions  = "EXECUTIONS"
	StreamReflections = "REFLECTIONS"
	StreamDeltas      = "DELTAS"
	StreamDead        = "DEAD"
	// StreamRedactions has the deltas whose texts were erased, in the place of the deltas that DELTAS no longer has.
	StreamRedactions = "REDACTIONS"

	BucketPlaybook = "playbook" // KV: the current bullets of each book, computed from DELTAS
	BucketWindow   = "window"   // KV with history: recent turns and notes
	BucketState    = "state"    // KV: marks of sessions, last runs, first copies
	BucketContexts = "contexts" // KV: contexts for outside agents, until they report
	BucketVectors  = "vectors"  // KV: embeddings of texts
	BucketRuns     = "runs"     // KV: progress of replays
	BucketAttempts = "attempts" // KV: number of attempts for each message
	BucketOpen     = "openruns" // KV: open runs of the gateway
	BucketCaptures = "captures" // KV: closed runs of the gateway, by the ids that clients have
	BucketErasures = "erasures" // KV: tombstones of erased runs
	BucketBlobs    = "blobs"    // object store: payloads too large for a message
)

// Names of the roles. A role is also the name of its durable consumer. The lag of that consumer is the number for
// autoscaling.
const (
	RoleGenerator = "generator"
	RoleReflector = "reflector"
	RoleCurator   = "curator"
)

// Users of a server with authentication. Each role is a user with the name of the role. These are the other users.
const (
	UserGateway  = "gateway"  // the HTTP server for agents and people
	UserOperator = "operator" // the tools of an operator
	UserAgent    = "agent"    // outside agents; they may only call the service
)

// inboxPrefix begins the subject of each inbox of a client.
const inboxPrefix = "_INBOX"

// InboxPrefix returns the prefix of a user's inboxes. With it a server can keep other users from subscribing to them.
func InboxPrefix(user string) string { return inboxPrefix + "_" + user }

// Keys of structured log fields. All packages that handle messages use them.
const (
	LogTrace    = "trace"    // the trace id
	LogEvent    = "event"    // the id of the event
	LogBook     = "book"     // the name of the playbook
	LogRole     = "role"     // the role that handles the message
	LogSeq      = "seq"      // the sequence of the message in its stream
	LogDelivery = "delivery" // the number of deliveries so far
	LogVersion  = "version"  // the version of the playbook
)
