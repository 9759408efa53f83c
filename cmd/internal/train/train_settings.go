package train

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/train/replay"
	"debrief/cmd/internal/train/report"
	"debrief/events/redact"
)

// config returns the configuration of the run. It returns an error for invalid combinations of flags.
func (p *Training) config() (replay.Config, error) {
	cfg := replay.Config{
		Epochs: p.Epochs, Batch: p.Batch, Rounds: p.ReflectorConfig.Rounds, Tries: p.Tries,
		Shuffle: p.Order == "seeded", Seed: p.Seed, ValidateEvery: p.ValidateEvery, Patience: p.Patience, SnapshotEvery: p.SnapshotEvery,
	}
	switch {
	case p.Online:
		cfg.Mode = replay.Online
	case p.Executions != "":
		cfg.Mode = replay.Executions
		cfg.Batch = cmp.Or(p.Batch, 32)
	}
	err := p.checkCombinations()
	if err == nil {
		err = cfg.Validate()
	}
	return cfg, program.Exit(program.ExitUsage, err)
}

// checkCombinations returns an error for flags that exclude or require each other.
func (p *Training) checkCombinations() error {
	switch {
	case p.Online && p.Executions != "":
		return errors.New("--online: is set, and so is --executions: choose one")
	case p.Executions == "" && p.Dataset == "":
		return errors.New("DATASET: required: name a file of tasks, or --executions BOOK")
	case p.Executions != "" && p.Dataset != "":
		return errors.New("--executions: runs no tasks: remove DATASET; --test FILE compares the two playbooks")
	case p.Simulated && p.Named():
		return errors.New("--simulated: is set, and so is --model: choose one")
	case p.Patience > 0 && p.Validation == "":
		return errors.New("--patience: requires validation tasks: name their file with --validation")
	case p.Epochs < 1:
		return fmt.Errorf("--epochs: must be at least 1, got %d", p.Epochs)
	case p.Executions != "" && !p.Simulated && p.Model.Model == "" && p.ReflectorModel == "":
		return errors.New("--executions: model required for the reflector: set --model or --reflector-model")
	}
	return nil
}

// resultFlags are the flags that change the result of a run, in addition to those of the groups Context and Gate.
var resultFlags = []string{
	"validation", "test", "online", "executions", "from", "epochs", "batch", "rounds", "tries", "order", "seed", "validate-every", "patience",
	"snapshot-every", "max-samples", "evaluator", "evaluator-program", "field", "simulated", "model", "generator-model", "reflector-model",
	"curator-model", "judge-model", "temperature", "generator-prompt", "reflector-prompt", "judge-rubric", "max-tokens", "no-schema",
	"embed-model", "trace-budget", "evidence-budget", "token-budget", "trust", "burst",
}

// settings returns the settings that change the result of the run and differ from their defaults. They are in the report, and an
// interrupted run continues only with the same settings.
func (p *Training) settings(flags []*kong.Flag) ([]report.Setting, error) {
	all := []report.Setting{}
	if p.Dataset != "" {
		all = append(all, report.Setting{Name: "DATASET", Value: filepath.Base(p.Dataset)})
	}
	for _, f := range flags {
		isInGroup := f.Group != nil && (f.Group.Key == "Context" || f.Group.Key == "Gate")
		changesResult := isInGroup || slices.Contains(resultFlags, f.Name)
		isUnset := f.Target.IsZero() && !f.HasDefault
		if !changesResult || isUnset {
			continue
		}
		values, err := p.valuesOf(f)
		if err != nil {
			return nil, err
		}
		if slices.Equal(values, []string{defaultOf(f)}) {
			continue
		}
		for _, value := range values {
			all = append(all, report.Setting{Name: f.Name, Value: redact.Text(value)}) // an argument of an evaluator program may be a key
		}
	}
	return all, nil
}

// valuesOf returns the values of a flag for the report: files without their folder, and a prompt with the hash of its content.
func (p *Training) valuesOf(f *kong.Flag) (values []string, err error) {
	text := fmt.Sprint(f.Target.Interface())
	switch f.Name {
	case "evaluator-program":
		for _, evaluator := range p.Evaluators.Programs {
			values = append(values, evaluator.Name+"="+strings.Join(evaluator.Command, " "))
		}
		return values, nil
	case "field":
		for _, ours := range slices.Sorted(maps.Keys(p.Field)) {
			values = append(values, ours+"="+p.Field[ours])
		}
		return values, nil
	case "validation", "test":
		text = filepath.Base(text)
	case "generator-prompt", "reflector-prompt", "judge-rubric":
		content, err := os.ReadFile(text)
		if err != nil {
			return nil, program.Exit(program.ExitUsage, fmt.Errorf("--%s: %w", f.Name, err))
		}
		text = fmt.Sprintf("%s (SHA-256 %.6x)", filepath.Base(text), sha256.Sum256(content))
	}
	return []string{text}, nil
}

// defaultOf returns the default of a flag in the form of valuesOf: 168h as 168h0m0s.
func defaultOf(f *kong.Flag) string {
	if d, err := time.ParseDuration(f.Default); err == nil && f.Default != "0" {
		return d.String()
	}
	return f.Default
}

// stem returns the first part of the default name of the run: the name of the playbook or of the file, with letters and digits only.
func (p *Training) stem() string {
	name := p.Executions
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(p.Dataset), filepath.Ext(p.Dataset))
	}
	name = regexp.MustCompile(`[^a-zA-Z0-9_]`).ReplaceAllString(name, "-")
	if name == "" || name == "-" {
		name = "stdin"
	}
	return name[:min(len(name), 40)]
}
