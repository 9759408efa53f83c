// Package liveness reports the health of the roles: the number and age of waiting messages, recent results, and a verdict of
// green, yellow or red with one sentence for each reason. It only reads.
//
// # The verdict
//
// The verdict is a pure function of measurements. The limit is 60 s (the floor), or three times the 95th percentile
// of the duration of successful handling, whichever is longer. A role is red in these cases:
//
//   - Messages wait, and no message was handled successfully for longer than the limit, counted from when messages began to wait.
//   - Its workers are unavailable for longer than the limit, or paused over useless output for half of the floor.
//   - A message has a newer schema and needs a newer program. The role is red at once.
//   - The last five messages or more became dead letters, and no message was handled successfully for longer than the limit.
//     With fewer dead letters the verdict is yellow.
//   - Messages wait for longer than the limit, and no worker of the role runs.
//   - The oldest waiting message has reached half of the retention of its stream, or the stream is 80 % full.
//   - At least half of the tasks failed, 50 or more, and since then no bullet was added, changed or retired. If it is less
//     than half and at least a fifth, the verdict is yellow.
//   - At least half of the model's replies were not usable, of 40 or more. If 5 or more and at least 5 % were malformed, the
//     verdict is yellow.
//
// A role that waits for its model, because the model is slow or limits the rate, is yellow and not stalled: work goes on, and a call
// without an answer ends with an error.
//
// A role is yellow for an hour after its handler panicked, because that is an error of the program.
//
// The window of the replies is the last 200 of a worker, at most one hour old. Only the first reply to a request counts, so that
// a message that is itself at fault costs five replies and not twenty. A malformed reply is not valid JSON as written: it was
// repaired, and then a part may be lost, or it was not usable. The share describes the model and not the messages:
// with 30 % unusable replies fewer than 1 % of the messages need a second delivery. The fault is over after the limit, or
// three times the mean time between two malformed replies, whichever is longer, without another one.
//
// A message without a lesson is a success, because a run may have no error. If 20 such messages follow each other
// for longer than the limit, the verdict is yellow. Dead letters and retries are not successes.
//
// # Output
//
// Each process reports its own roles (Process.Check), over HTTP at /healthz and as metrics at /metrics (package
// cmd/internal/operate/metrics). For all processes of an account, CollectReports sends a request on the core subject
// debrief.health, and each process replies (ServeReports). Summarize joins the replies with the state of the server, so that
// a role without a process has a verdict too. Nothing is stored.
package liveness
