package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/train/dataset"
)

// taskFile are the flags for the format of a data set.
type taskFile struct {
	Field     map[string]string `help:"Map id, question, context, target, evaluator or session to a field. Repeatable." placeholder:"OURS=THEIRS" group:"Data"`
	Evaluator string            `help:"Evaluator of all answers, instead of the samples' own: ${evaluators}." placeholder:"NAME" group:"Data"`
}

// options returns the options of a data set reader. The function check returns an error for an unknown evaluator. limit is the maximum
// number of samples; 0 means no limit.
func (f taskFile) options(check func(evaluator string) error, limit int) (dataset.Options, error) {
	o := dataset.Options{Fields: f.Field, Evaluator: f.Evaluator, Check: check, MaxSamples: limit}
	if err := check(f.Evaluator); err != nil {
		return o, program.Exit(program.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	if err := o.Validate(); err != nil {
		return o, program.Exit(program.ExitUsage, fmt.Errorf("--field: %w", err))
	}
	return o, nil
}

// read reads a data set. A data set without samples is an error.
func (f taskFile) read(ctx context.Context, name string, check func(evaluator string) error, limit int) (*dataset.Set, error) {
	o, err := f.options(check, limit)
	if err != nil {
		return nil, err
	}
	in, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("%s: no such file", name))
	}
	if err != nil {
		return nil, program.Exit(program.ExitUsage, err)
	}
	defer in.Close()
	if info, err := in.Stat(); err == nil && info.IsDir() {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("%s: is a directory: name a file in it", name))
	}
	set, err := dataset.Read(ctx, filepath.Base(name), in, o)
	if err != nil && ctx.Err() == nil {
		err = program.Exit(program.ExitUsage, err)
	}
	return set, err
}
