// Package api is the HTTP API for agents and people: contexts, executions and feedback of agents, playbooks, and their operation.
//
//	POST /api/v1/contexts     events.ContextRequest    events.ContextReply
//	POST /api/v1/executions   events.Report            events.StoredReply
//	POST /api/v1/feedback     events.FeedbackRequest   FeedbackReply
//	GET  /api/v1/                                      list of all routes
//	GET  /api/v1/openapi.json                          OpenAPI 3.1 document
//
// Further routes read playbooks, executions, runs, dead letters and the status, and change playbooks.
//
// A run has an id: run_id of a report or a task, else the Idempotency-Key, else the id of the context that it answers, else a random
// one. It is unique for its owner and book. A repeated report is answered with duplicate and the handle of the first. The field task
// is a label that groups runs, and user names the person that the agent works for.
//
// An agent requests the context for its model, and reports the outcome with the id of the context:
//
//	$ curl -s http://127.0.0.1:4280/api/v1/contexts -H 'Content-Type: application/json' \
//	    -d '{"book": "default", "session": "s-1", "query": "Which shelf is highest?", "min_version": 17}'
//	{"context_id":"n1Ssl4rO1aBTtCpPnTCXTg","book":"default","session":"s-1","playbook_version":17,"messages":[{"role":"system",…},…],…}
//
//	$ curl -s http://127.0.0.1:4280/api/v1/executions -H 'Content-Type: application/json' \
//	    -d '{"context_id": "n1Ssl4rO1aBTtCpPnTCXTg", "answer": "Shelf 7.", "cited": ["shr-00003"], "outcome": true}'
//	{"handle":"1003-824a105a"}
//
// With tokens, each request has the header -H "Authorization: Bearer $DEBRIEF_TOKEN".
//
// # Requests and replies
//
// A request that creates something gets 201 and Location, or 200 if it was there before. Idempotency-Key is the id of the edit, run or
// feedback: a repeated request has no further effect. Unknown fields of a body are ignored and listed in the field warnings of the
// reply; with ?strict=1 they are an error. Unknown parameters are an error. A list has items, and
// next if there are more: pass it as the parameter after. The header
// X-Request-Id of a response is that of the request, or else a random id; the log of the server has it.
//
// An error is a Problem (RFC 9457). Package service defines the status codes of errors, and Retry-After for a 503. HTTP adds 401
// and 403 for tokens, 405, 408 for a slow body, 415 for a body that is not JSON, and 421.
//
// # Events
//
// GET /api/v1/events sends changes as text/event-stream, for pages that stay open: ready, version, executions, dead and lag. It keeps
// no history: a client reads its page again at ready, which is the first event of each connection. A stream sends at least one
// line in 15 seconds.
//
// # Data in memory
//
// Lists and curves come from memory: package index has the executions, the logs of the playbooks, the playbooks that were read last and the
// newest changes. It follows the streams, so any number of servers show the same. After a start, the index first reads all stored
// executions. Meanwhile lists of executions read the stream, which takes longer, and the field behind of a curve is above 0.
//
// # The walk of a request
//
// The API never renders HTML and stores nothing itself: events and edits go through the streams. The console and the commands are
// its clients, in the same process or over HTTP.
//
//	handler.go     ServeHTTP                the request id, the log line, the time limit; a panic is a 500
//	route.go       newMux                   the route of a path, with its parameters
//	access.go      authenticate, authorize  the token and its scopes; without tokens the Host header
//	body           Reader.Read              the body, with a minimum rate and a limit of memory
//	call.go        decode, checkQuery       the types of the route; unknown fields become warnings
//	agents.go      createContext            requests of agents: package outcome reads an outcome, package service does the rest
//	books.go       listBullets              reads of playbooks; each kind of resource has such a file
//	index          Books, Executions, Logs  what these read
//	explain        BulletOf, ExecutionOf    what people read about a bullet, an execution or a version
//	edits.go       editPlaybook             changes of playbooks
//	request        EditRequest.Plan         the edit of a request, and the wait for the Curator
//	problem.go     newProblem               the status and the field of an error
//
// # Slow bodies
//
// A body must send 8 KiB, or its rest, in each 2 seconds, and all of it within 30 seconds. Memory is reserved as
// bytes arrive, not by the declared length. All bodies together hold at most 128 MiB; a body that needs more gets 503.
//
// # Access control
//
// A token has a name, an owner, scopes and books; see package tokens. Its name is the author of its edits. It reads and rates the runs
// of its owner. The scopes read, review and operate permit to read the runs of other owners, and review to rate them. Runs that a token
// may not read are reported as not found.
//
// Without tokens the server listens on loopback only. It then accepts only Host headers of the loopback, and returns
// 421 otherwise: a web page can resolve its own name to 127.0.0.1, but it cannot change the Host header. The server refuses
// requests of pages of other sites, and accepts only bodies with the content type JSON, which a browser sends to another site only after
// a preflight request that this server does not answer. With tokens none of this is needed, and any Host header is accepted, so
// that a proxy can be in front. A proxy that authenticates people sends the secret of its token and the person in X-Debrief-Person; then
// pages of other sites are refused here, too, because a browser sends its session with the proxy by itself.
//
// In an untrusted network, serve HTTPS (--tls-cert), or put a proxy with TLS in front of the server, to protect the tokens.
package api
