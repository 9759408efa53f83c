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
// Each process has its own (Watch, Check): over HTTP in every program's /healthz, and in numbers at /metrics (package
// cmd/internal/metrics). For all processes of an
// account Call asks on the core subject ace.health, each process answers for itself (Answer), and Combine joins the
// answers with what the server knows, so that a role that does not run is judged as well. Nothing of this is stored.
package liveness
