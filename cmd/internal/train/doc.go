// Package train has the commands that run tasks: demo, train, eval and learn. Their flags are the fields of a struct, and
// Run is the command. Package replay has the engine of the commands train and demo. It knows no flags and no output.
//
// The engine never learns in another way than production: it submits tasks to the workers, and the workers learn. It never
// learns from a held-out task. Package report has the results. The folder of a run has them as a page, which the console shows, too.
//
// # The walk of a run over a data set
//
//	train.go            Run        flags to a replay.Config; roles start in the same process, or others work
//	dataset/dataset.go             tasks from a file, with targets and evaluators
//	replay/replay.go    Run        opens or resumes the run, and processes the samples in its mode
//	replay/measure.go              measures the validation set and the test set, without learning
//	replay/epoch.go                learns from one window of samples after the other
//	replay/submit.go               publishes tasks, a few ahead, and waits until their samples are complete
//	replay/tracker.go              follows executions, reflections and dead letters
//	replay/gather.go               has the Curator learn from all reflections of a window together
//	replay/state.go                the owner and the progress of a run, for its resume
//	replay/summary.go              fills in the report, with the intervals of report/stats.go
//	report/folder.go               the folder of the run: report.json, lists and the page
package train
