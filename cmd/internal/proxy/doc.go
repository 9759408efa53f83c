// Package proxy is the HTTP server in front of model providers. It passes the calls of agents to the APIs of OpenAI and
// Anthropic, adds the advice of a playbook to calls, and captures the runs of agents. Other handlers of the same port are mounted:
// the API and the console. Advice, capture, the API and the console work as soon as a NATS server is connected.
//
//	/v1/…                          API of OpenAI, or of Anthropic if the request has anthropic-version or is /v1/messages
//	/anthropic/v1/…                API of Anthropic
//	/books/{book}/v1/…             the same for another book
//	/books/{book}/anthropic/v1/…
//	other paths                    mounted handlers
//
// An exchange is one HTTP request with its response. A call is an exchange that asks a model. A turn is a message of a user in a
// conversation. A run is the work on one turn: the calls that continue each other.
//
// # Pass-through
//
// In ModeOff, the bodies of requests and responses are not changed, nor are headers, except hop-by-hop headers. Queries,
// trailers, upgrades to WebSocket and status codes pass, and all methods but TRACE, CONNECT and unknown ones. Redirects are not
// followed. The gateway answers the header Expect. In every mode it removes request headers that begin with X-Debrief-, and adds its
// id to Debrief-Hops, so that it refuses a call that comes back to it.
//
// A path passes only if it cannot be read as another one: no dot segments, escaped slashes, backslashes, semicolons or escaped
// percent signs. The gateway's own key goes only to the paths of the model APIs. Telemetry (/v1/traces, /v1/logs, /v1/metrics)
// never passes.
//
// Responses are sent as they arrive, without a time limit. If the upstream cuts a response, it is cut for the client, too. A client
// that disconnects cancels the upstream call.
//
// In other modes, calls of the three model APIs go through the Middleware. A failure of the Middleware never fails a call: the
// request then passes unchanged, and the header X-Debrief-Degraded of the response has the reason.
//
// The Middleware receives a copy of the response. It stores a call while the model works, so an event stream begins at once. The client
// receives the last bytes after the call is stored, or after the deadline. So if the process is killed, the calls whose responses a client
// has are stored. If storing fails after a stream has begun, only the metrics have the reason.
//
// # Advice
//
// A call that begins a run gets advice for its last user turn. The text is the same in all calls of the run, and in all later
// calls of the conversation, so a provider's prompt cache keeps its prefixes. The modes differ in the place of the advice:
//
//	tail     at the end of the user's message: nothing before the last user turn changes
//	system   at the end of the system prompt: the advice of the first turn, for the whole conversation
//	observe  nowhere; the runs are captured
//
// Sessions in the control group of a playbook (playbook.Share) get no advice in any mode, not even that of earlier turns. The Generator
// decides which sessions these are.
//
// A later call gets the text without the bullets and reflections that package admit refuses by then, for example those that a person has
// rejected or forgotten. A provider that stores the conversation itself (previous_response_id) keeps the text that it got.
//
// A call passes unchanged and uncaptured if it has no user text, or if it is a helper call: it asks for a title or a summary of a
// conversation. A message inside a conversation that says nothing, such as "go on", gets no new advice. If a call is not advised or not
// captured, Edit.Degraded has the reason.
//
// # Limits
//
// The gateway never changes a call in ModeOff, never fails a call because learning fails, and never sends a token to a provider.
//
// # The walk of one call
//
//	front.go    Listen, Connect   put the gateway together for a program: it listens, and mounts the API and the console beside it
//	gateway.go  ServeHTTP         methods, web pages, mounted handlers
//	route.go    findRoute         provider, playbook and model API of the path
//	proxy.go    serveModel        checks, the call, ReverseProxy with rewrite and modifyResponse; point sets the address of the provider
//	access.go   authorize         token, key of the provider, loops
//	call.go     begin, offer      the body goes to the Middleware, within the deadline; recordedBody holds back the last bytes
//	errors.go   writeFailure      an error of the gateway itself; finish logs each exchange
//
// The Middleware is an advisor, with the runs of package capture:
//
//	advice.go   Begin             parse the call, find its run, ask for advice, insert it
//	advice_select.go  queryOf     the text that selects advice; which calls are helper calls
//	advice_repeat.go  admitted    the advice of earlier calls, without lines that may not be shown
//	capture/open.go   Begin       the run that the call continues, or a new one
//	capture/open.go  Start, Finish  store the beginning with the context of the advice while the model works, and the end with the reply
//	capture/doc.go                the other files of package capture, in the order of a call
//
// # Errors of the gateway
//
// An error has the shape of the API that the client uses, and the header X-Debrief-Error with one of these codes:
//
//	400  invalid_book, invalid_control, invalid_mode, invalid_outcome, invalid_path, incomplete_body
//	401  token_required, key_required
//	403  book_forbidden, origin_forbidden, path_forbidden, scope_forbidden
//	404  unknown_path
//	405  method_not_allowed
//	408  slow_body
//	421  host_forbidden
//	426  websocket
//	502  upstream_unreachable
//	508  loop
//
// # Access control
//
// Without tokens the server listens on the loopback only. It then accepts only Host headers of the loopback, because a web page can
// resolve its own name to 127.0.0.1, and no requests that a browser sends for another site. With tokens each model call
// needs one: in X-Debrief-Token, or in place of the API key. Then the gateway's own key replaces it. No token reaches an upstream.
//
// Keys, bodies and queries are never logged.
package proxy
