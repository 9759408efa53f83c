// Package metrics exports a program's metrics to Prometheus. The roles and the transport do not depend on it. They count in
// their own structs (bus.RoleStats, openai.Stats) or report to a small interface (deltalog.Meter, curator.Meter, generator.Meter,
// service.Observer), and this package converts that to metrics. Each process has one registry. It exports only the metrics of
// its parts, and exports them from the start with the value 0.
//
// Labels never contain a book, a bullet, a task or a session: each label has a small, fixed set of values. Labels are bound
// at the start of the program, so that counting does not allocate.
//
// # Metrics
//
// Of the roles that run in the process (package events/liveness computes the level), with the label role: generator,
// reflector, curator. "Server" marks a value that the server reports. It is the same in every process of the role. It is
// absent while the server does not respond, which debrief_server_answers shows.
//
//	name                                 unit       kind      meaning
//	debrief_role_level                   –          gauge     level: 0 green, 1 yellow, 2 red
//	debrief_role_state                   –          gauge     state: 1 for the current state (running, unavailable, paused, outdated)
//	debrief_role_state_seconds           seconds    gauge     time in the current state
//	debrief_role_waiting_messages        messages   gauge     not delivered yet; server
//	debrief_role_in_flight_messages      messages   gauge     delivered and not acknowledged; server
//	debrief_role_oldest_seconds          seconds    gauge     age of the oldest waiting message, 0 without one; server
//	debrief_role_settled_seconds         seconds    gauge     since the last success in this process, or since the start of the role
//	debrief_role_learned_seconds         seconds    gauge     since the last success with an effect (stored events or a delta), or since the start
//	debrief_role_handling_seconds        seconds    summary   quantile: 0.5 and 0.95 of the last 256 successful calls; _sum and _count of all successful calls
//	debrief_role_results_total           messages   counter   result: stored, handled (acknowledged without stored events), retried, dead
//	debrief_deltas_applied_total         deltas     counter   applied to playbooks; curator only
//	debrief_dead_letters                 messages   gauge     stored dead letters of the role; server
//	debrief_stream_bytes                 bytes      gauge     size of the stream that the role reads; server
//	debrief_stream_limit_bytes           bytes      gauge     limit of that stream, 0 for none; server
//	debrief_stream_keep_seconds          seconds    gauge     retention of that stream, 0 for unlimited; server
//
// Of the models, with the labels role and kind (chat, or the generator's embedding). A call is one call by a role. It may
// take several requests, and it may wait for the rate limits. Without a model these metrics stay at 0.
//
//	debrief_model_calls_total            calls      counter   result: ok, unavailable, refused, too_long, canceled (by the caller), failed
//	debrief_model_seconds                seconds    histogram duration of calls with any result
//	debrief_model_in_flight_calls        calls      gauge     in progress, including waiting ones
//	debrief_model_requests_total         requests   counter   sent to the server
//	debrief_model_retries_total          requests   counter   repeated after a failure; also in requests_total
//	debrief_model_tokens_total           tokens     counter   direction: input, output; as reported by the server
//	debrief_model_cost_dollars_total     US dollars counter   at the prices of the flags, else 0
//	debrief_model_breaker_state          –          gauge     state: 1 for closed, open or half-open; all 0 without a model
//
// Of the curator:
//
//	debrief_commit_seconds               seconds    histogram from the decision about a change to its delta in the log; _count is the number of commits
//	debrief_commit_conflicts_total       conflicts  counter   conflicts with another curator; the change is rebased and retried
//	debrief_view_delay_seconds           seconds    histogram from a delta in the log to the view that contains it; of the oldest delta in each flush
//	debrief_view_behind_seconds          seconds    gauge     age of the oldest delta that is not in its view; 0 if every view is current
//	debrief_operations_rejected_total    operations counter   requested and rejected; reason: a code of playbook.Reason
//	debrief_gate_decisions_total         bullets    counter   decision: probation, promoted, retired, waiting; reason: a code of playbook.Reason
//
// Of the generator:
//
//	debrief_follower_delay_seconds       seconds    histogram from a flush of the view to its arrival in a generator; compares the clocks of two machines
//	debrief_follower_behind_versions     versions   gauge     lag of the book that is furthest behind its view; server
//	debrief_context_seconds              seconds    histogram stage: all (building a context), and its parts recall and assembly
//	debrief_requests_total               requests   counter   door: nats, http; verb: context, execution, feedback, none; code: HTTP status, or other
//	debrief_request_seconds              seconds    histogram door, verb
//
// Of the process:
//
//	debrief_build_info                   –          gauge     1; program, version, goversion
//	debrief_server_answers               –          gauge     1 if the server reported the backlog at this scrape
//	debrief_nats_connected               –          gauge     1 while connected to the server
//	debrief_nats_reconnects_total        reconnects counter   of the connection to the server
//	debrief_nats_messages_total          messages   counter   direction: in, out
//	debrief_nats_bytes_total             bytes      counter   direction: in, out
//	debrief_redactions_total             secrets    counter   replaced in texts; secret: the kind, such as key, token, password
//	debrief_store_closed                 –          gauge     1 while nothing can be stored: a full disk, or a stream that does not acknowledge
//	debrief_store_bytes                  bytes      gauge     disk use of the account's streams; server
//	debrief_store_limit_bytes            bytes      gauge     limit of that use, 0 for no limit or an unknown one; server
//
// and those of Go (go_…) and, on Linux, of the process (process_…), with the names of client_golang. Counters start at 0 with
// the process.
package metrics
