// Package train has the commands that run tasks: demo, train, eval and learn. Their flags are the fields of a struct, and
// Run is the command. Package replay has the engine of the command train. It stays separate because it knows no flags and
// no output.
//
// It never learns in another way than production: the engine submits tasks to the workers, and the workers learn. It never
// lets a held-out task teach. Package report has the results; the console shows them as the page that the folder of a run has.
//
// # The walk of a run over a data set
//
//	train.go            Run        flags to a replay.Config; roles start in the same process, or others work
//	dataset/dataset.go             tasks from a file, with targets and evaluators
//	replay/replay.go    Run        the phases of a run: tasks without learning, epochs, held-out tasks
//	replay/submit.go               publishes the tasks of a phase, a few ahead
//	replay/tracker.go              follows executions and deltas until each task is learned
//	replay/commit.go               closes batches, so that the same seed gives the same playbook
//	replay/state.go                the finished samples, for the resume of a stopped run
//	replay/summary.go              curves and intervals of package stats
//	report/folder.go               the folder of the run: report.json, lists and the page
package train
