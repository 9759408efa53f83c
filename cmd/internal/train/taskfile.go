package train

import (
	"context"
	"fmt"
	"path/filepath"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train/dataset"
	"debrief/cmd/internal/train/replay"
	"debrief/cmd/internal/train/report"
	"debrief/generator/scoring"
)

// taskFile are the flags for the format of a data set.
type taskFile struct {
	Field     map[string]string `help:"Map id, question, context, target, evaluator or session; ACE files need none. Repeatable." placeholder:"OURS=THEIRS" group:"Data"`
	Evaluator string            `help:"Evaluator of all answers, instead of the samples' own: ${evaluators}." placeholder:"NAME" group:"Data"`
}

// read reads a data set, or standard input for '-'. A data set without samples is an error. The function check returns an error for an
// unknown evaluator. limit is the maximum number of samples; 0 means no limit.
func (f taskFile) read(ctx context.Context, name string, check func(evaluator string) error, limit int) (*dataset.Set, error) {
	o := dataset.Options{Fields: f.Field, Evaluator: f.Evaluator, Check: check, MaxSamples: limit}
	if err := check(f.Evaluator); err != nil {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	if err := o.Validate(); err != nil {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("--field: %w", err))
	}
	in, err := openFile(name)
	if err != nil {
		return nil, program.Exit(program.ExitUsage, err)
	}
	defer in.Close()
	if info, err := in.Stat(); err == nil && info.IsDir() {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("%s: is a directory: name a file in it", name))
	}
	set, err := dataset.Read(ctx, filepath.Base(name), interruptible(ctx, in), o)
	if err != nil && ctx.Err() == nil {
		err = program.Exit(program.ExitUsage, err)
	}
	return set, err
}

// readSets reads the data sets that the flags name.
func (p *Training) readSets(ctx context.Context) (sets replay.Sets, err error) {
	if p.Dataset != "" {
		if sets.Train, err = p.readTasks(ctx, replay.Train, p.Dataset, p.MaxSamples); err != nil {
			return sets, err
		}
	}
	if p.Validation != "" {
		if sets.Validation, err = p.readTasks(ctx, replay.Validation, p.Validation, 0); err != nil {
			return sets, err
		}
	}
	if p.Test != "" {
		sets.Test, err = p.readTasks(ctx, replay.Test, p.Test, 0)
	}
	return sets, err
}

// readTasks reads at most limit tasks of a file; 0 means no limit. It prints the tasks that it could not read.
func (p *Training) readTasks(ctx context.Context, set, name string, limit int) (*replay.Set, error) {
	d, err := p.read(ctx, name, scoring.Check, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", set, err)
	}
	for _, bad := range d.Problems {
		term.Fprintf(term.Stderr, "%s: %s was not read: %s\n", name, bad.Place, bad.Reason)
	}
	return &replay.Set{
		Data:  report.Data{Set: set, File: filepath.Base(name), SHA256: d.SHA256, Samples: len(d.Tasks), Unread: d.Invalid},
		Tasks: d.Tasks,
	}, nil
}
