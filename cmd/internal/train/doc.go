// Package train has the commands demo, train, eval and learn. The flags of a command are the fields of a struct, and its method Run is the
// command.
//
// The commands demo and train submit the tasks of a data set to the workers. The workers answer and learn as in production, and
// they never learn from the tasks of a validation set or a test set. Package replay is the engine of both commands. Package report has the
// results of a run and its folder.
//
// # The walk of a run over a data set
//
//	train.go            Run        makes a replay.Config of the flags, and starts the roles unless other processes run them
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
//
// # The walk of recorded runs
//
//	learn.go            Run        compares the stored runs, and waits for the roles
//	learn_files.go                 reads the files of the arguments, with package runs
//	learn_runs.go                  stores the runs as executions
//	learn_lessons.go               compares all stored runs, and adds the lessons to the playbook
package train
