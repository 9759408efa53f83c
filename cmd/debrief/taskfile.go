package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/dataset"
)

// taskFile says how a data set is to be understood.
type taskFile struct {
	Form      string            `help:"What its samples are: json (question, context, target), ace (raw ones), formula or finer. Default: told by what they say." enum:",json,ace,formula,finer" default:"" placeholder:"FORM" group:"Data"`
	Field     map[string]string `help:"The name that the file uses for one of id, question, context, target, evaluator and session, such as question=prompt. Can be given several times." placeholder:"OURS=THEIRS" group:"Data"`
	Evaluator string            `help:"How to judge every answer, whatever the samples say: ${evaluators}." placeholder:"NAME" group:"Data"`
}

// options are those of a reader. Check says which evaluators will do; most bounds the samples, 0 is no bound.
func (f taskFile) options(check func(evaluator string) error, most int) (dataset.Options, error) {
	o := dataset.Options{Fields: f.Field, Form: dataset.Form(f.Form), Evaluator: f.Evaluator, Check: check, MaxSamples: most}
	if err := check(f.Evaluator); err != nil {
		return o, app.Exit(app.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	if err := o.Validate(); err != nil {
		return o, app.Exit(app.ExitUsage, fmt.Errorf("--field: %w", err))
	}
	return o, nil
}

// read reads a data set. One without a sample is an error: nothing could be said about it.
func (f taskFile) read(ctx context.Context, name string, check func(evaluator string) error, most int) (*dataset.Set, error) {
	o, err := f.options(check, most)
	if err != nil {
		return nil, err
	}
	in, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("%s: there is no such file", name))
	} else if err != nil {
		return nil, app.Exit(app.ExitUsage, err)
	}
	defer in.Close()
	if info, err := in.Stat(); err == nil && info.IsDir() {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("%s: is a directory: name a file in it", name))
	}
	set, err := dataset.Read(ctx, filepath.Base(name), in, o)
	if err != nil && ctx.Err() == nil {
		err = app.Exit(app.ExitUsage, err)
	}
	return set, err
}
