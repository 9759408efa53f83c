// Package liveness says whether learning is alive: per role what waits and since when, what became of the last work, and
// a verdict of green, yellow or red with a sentence for each reason. It reads and judges; it changes nothing.
//
// # The verdict
//
// Judge is pure: numbers in, verdict out. A role is red when
//
//   - messages wait and none went well for longer than the floor (60 s) or three times the 95th percentile of handling what goes well,
//     whichever is longer, counted from when work began to wait;
//   - its workers are paused over useless output, or cannot reach what they need, for as long as that; a message of a
//     newer schema, which is for a newer program, is red at once;
//   - the last five messages or more all became dead letters, and none went well for as long as that (yellow: fewer);
//   - messages wait and no worker of the role runs, for as long as that;
//   - the oldest of them has waited half of the age at which its stream drops it, or its stream is 80 % full.
//
// A message that was handled and taught nothing has gone well: a run without a flaw is no fault of the reflector's. When
// 20 in a row taught nothing for as long as that, the verdict is yellow. Dead letters and retries are never progress.
//
// # Where it shows
//
// Each process has its own (Watch, Check): over HTTP in every program's /healthz and /metrics. For all processes of an
// account Call asks on the core subject ace.health, each process answers for itself (Answer), and Combine joins the
// answers with what the server knows, so that a role that does not run is judged as well. Nothing of this is stored.
//
// # Metrics
//
// In the text format of Prometheus, per role of the process, with the label role and those named here:
//
//	name                                unit       kind     what
//	debrief_role_level                  –          gauge    verdict: 0 green, 1 yellow, 2 red
//	debrief_role_state                  –          gauge    state: 1 for the state it is in (running, unavailable, paused, outdated)
//	debrief_role_state_seconds          seconds    gauge    since when
//	debrief_role_waiting_messages       messages   gauge    not delivered yet; the same in every process of the role
//	debrief_role_in_flight_messages     messages   gauge    delivered and not settled; the same in every process
//	debrief_role_oldest_seconds         seconds    gauge    age of what has waited longest, 0 when nothing waits; the same in every process
//	debrief_role_settled_seconds        seconds    gauge    since a message last went well here; absent before the first
//	debrief_role_learned_seconds        seconds    gauge    since that had an effect: events stored or a delta; absent before the first
//	debrief_role_handling_seconds       seconds    summary  quantile: 0.5 and 0.95 of the last 256 calls that went well; _sum and _count of all of them
//	debrief_role_results_total          messages   counter  result: stored, handled (settled, nothing stored by it), retried, dead
//	debrief_deltas_applied_total        deltas     counter  applied to playbooks; the curator's
//	debrief_operations_rejected_total   operations counter  asked for and not done; the curator's
//	debrief_dead_letters                messages   gauge    stored, of the role; the same in every process
//	debrief_stream_bytes                bytes      gauge    size of the stream that the role reads; the same in every process
//	debrief_stream_limit_bytes          bytes      gauge    its limit, 0 for none
//	debrief_stream_keep_seconds         seconds    gauge    how long it keeps a message, 0 for ever
//
// Counters begin at 0 with the process.
package liveness
