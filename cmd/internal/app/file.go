package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// file resolves flags from the file that --config names. It is strict: a key that is no flag of any command is an
// error, and so is a key given twice.
type file struct {
	loaded bool
	name   string
	values map[string]any
}

// Validate implements kong.Resolver.
func (f *file) Validate(app *kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (f *file) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if err := f.load(ctx); err != nil {
		return nil, err
	}
	for _, env := range flag.Envs {
		if _, set := os.LookupEnv(env); set {
			return nil, nil // the environment wins
		}
	}
	return f.values[flag.Name], nil
}

func (f *file) load(ctx *kong.Context) error {
	if f.loaded {
		return nil
	}
	f.loaded = true
	for _, flag := range ctx.Flags() {
		if flag.Name == "config" {
			f.name, _ = ctx.FlagValue(flag).(string)
		}
	}
	if f.name == "" {
		return nil
	}
	in, err := os.Open(f.name)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	defer in.Close()
	if err := yaml.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&f.values); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("--config: %s: %s", f.name, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	known := map[string]bool{}
	collect(ctx.Model.Node, known)
	for key, v := range f.values {
		if !known[key] {
			return fmt.Errorf("--config: %s: unknown key %q: keys are flags without the dashes", f.name, key)
		}
		switch v.(type) {
		case string, bool, int, float64, []any:
		default:
			return fmt.Errorf("--config: %s: %s: want a plain value", f.name, key)
		}
	}
	return nil
}

func collect(n *kong.Node, known map[string]bool) {
	for _, flag := range n.Flags {
		known[flag.Name] = flag.Name != "config" && flag.Name != "help" && flag.Name != "version"
	}
	for _, child := range n.Children {
		collect(child, known)
	}
}
