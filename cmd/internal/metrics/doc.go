// Package metrics is what a program tells Prometheus. The roles and the transport know nothing of it: they count in their
// own structs (bus.Vitals, llm.Stats) or tell a small interface of theirs (natskv.Meter, curator.Meter, generator.Meter,
// service.Told), and this package makes metrics of that. Each process has a registry of its own. What a process has no part
// for, it does not export; what it exports is there from the beginning, at 0.
//
// No label tells a book, a bullet, a task or a session: the values of every label are few and known. Labels are bound
// when the program begins, so that counting allocates nothing.
//
// # Metrics
//
// Of the roles that run in the process (package events/liveness has the verdict), with the label role: generator,
// reflector, curator. "Server" marks a value that the server reports: it is the same in every process of the role, and
// absent while the server does not answer, which debrief_server_answers says.
//
//	name                                 unit       kind      what
//	debrief_role_level                   –          gauge     verdict: 0 green, 1 yellow, 2 red
//	debrief_role_state                   –          gauge     state: 1 for the state it is in (running, unavailable, paused, outdated)
//	debrief_role_state_seconds           seconds    gauge     since when
//	debrief_role_waiting_messages        messages   gauge     not delivered yet; server
//	debrief_role_in_flight_messages      messages   gauge     delivered and not settled; server
//	debrief_role_oldest_seconds          seconds    gauge     age of what has waited longest, 0 when nothing waits; server
//	debrief_role_settled_seconds         seconds    gauge     since a message last went well here, or since the role began
//	debrief_role_learned_seconds         seconds    gauge     since that had an effect, events stored or a delta, or since the role began
//	debrief_role_handling_seconds        seconds    summary   quantile: 0.5 and 0.95 of the last 256 calls that went well; _sum and _count of all of them
//	debrief_role_results_total           messages   counter   result: stored, handled (settled, nothing stored by it), retried, dead
//	debrief_deltas_applied_total         deltas     counter   applied to playbooks; the curator's alone
//	debrief_operations_rejected_total    operations counter   asked for and not done; the curator's alone
//	debrief_dead_letters                 messages   gauge     stored, of the role; server
//	debrief_stream_bytes                 bytes      gauge     size of the stream that the role reads; server
//	debrief_stream_limit_bytes           bytes      gauge     its limit, 0 for none; server
//	debrief_stream_keep_seconds          seconds    gauge     how long it keeps a message, 0 for ever; server
//
// Of the models, with the labels role and kind (chat, or the generator's embedding). A call is what a role asks for: it
// may take several requests, and waits for its turn. Without a model they stay at 0.
//
//	debrief_model_calls_total            calls      counter   result: ok, unavailable, refused, too_long, canceled (the caller gave up), failed
//	debrief_model_seconds                seconds    histogram duration of calls, however they ended
//	debrief_model_in_flight_calls        calls      gauge     under way, those that wait included
//	debrief_model_requests_total         requests   counter   on the wire
//	debrief_model_retries_total          requests   counter   of those, after a failure
//	debrief_model_tokens_total           tokens     counter   direction: input, output; as the server counts them
//	debrief_model_cost_dollars_total     US dollars counter   at the prices that the flags name, else 0
//	debrief_model_breaker_state          –          gauge     state: 1 for closed, open or half-open; all 0 without a model
//
// Of the curator:
//
//	debrief_commit_seconds               seconds    histogram from a change that is decided to its delta in the log; _count is commits
//	debrief_commit_conflicts_total       conflicts  counter   races lost to another curator; the change is rebased and tried again
//	debrief_view_delay_seconds           seconds    histogram from a delta in the log to a view that has it: of the oldest in each flush
//	debrief_view_behind_seconds          seconds    gauge     age of what has waited longest for that; 0 when every view is current
//	debrief_gate_decisions_total         bullets    counter   decision: probation, promoted, retired, waiting
//
// Of the generator:
//
//	debrief_follower_delay_seconds       seconds    histogram from a flush of the view to a generator that has it, by two machines' clocks
//	debrief_follower_behind_versions     versions   gauge     how far the book that is furthest behind is; server
//	debrief_context_seconds              seconds    histogram stage: all of a context; of that, recall; and assembly
//	debrief_requests_total               requests   counter   door: nats, http; verb: context, execution, feedback, none; code: as HTTP has it, or other
//	debrief_request_seconds              seconds    histogram door, verb
//
// Of the process:
//
//	debrief_build_info                   –          gauge     1; program, version, goversion
//	debrief_server_answers               –          gauge     1 if the server said, just now, what waits
//	debrief_nats_connected               –          gauge     1 while the connection stands
//	debrief_nats_reconnects_total        reconnects counter   of that connection
//	debrief_nats_messages_total          messages   counter   direction: in, out
//	debrief_nats_bytes_total             bytes      counter   direction: in, out
//	debrief_redactions_total             secrets    counter   replaced in texts; secret: the class, such as key, token, password
//	debrief_store_closed                 –          gauge     1 while nothing can be stored: a full disk, or a stream that acknowledges nothing
//	debrief_store_bytes                  bytes      gauge     what the account's streams take on disk; server
//	debrief_store_limit_bytes            bytes      gauge     how much they may, 0 for no limit or one that is not known; server
//
// and those of client_golang for Go and the process (go_…, process_…). Counters begin at 0 with the process.
package metrics
