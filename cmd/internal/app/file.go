package app

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

const configEnv = "DEBRIEF_CONFIG"

// file resolves flags from the file of --config. It is strict: an unknown key and a duplicate key are errors.
type file struct {
	name   string
	values map[string]string // as written: they are parsed like the values of flags
}

// configFile returns the file named by --config or the environment, "" if there is none. The last flag wins. It is
// needed before the command line is parsed, because the parser reads the file.
func configFile(args []string) string {
	file := os.Getenv(configEnv)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if name, ok := strings.CutPrefix(arg, "--config="); ok {
			file = name
		}
		if arg == "--config" && i+1 < len(args) {
			file = args[i+1]
		}
	}
	return file
}

func loadFile(name string) (*file, error) {
	f := &file{name: name}
	if name == "" {
		return f, nil
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	defer in.Close()
	return f, f.read(in)
}

// maxFile limits the size of a settings file, in bytes. YAML can need a thousand times the size of a value in memory.
const maxFile = 64 << 10

func (f *file) read(in io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("longer than %d bytes", maxFile)
	}
	var nodes map[string]yaml.Node
	if err == nil {
		err = yaml.Unmarshal(data, &nodes)
	}
	if err != nil {
		return fmt.Errorf("--config: %s: %s", f.name, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	f.values = map[string]string{}
	for key, n := range nodes {
		if n.Kind == yaml.AliasNode {
			n = *n.Alias
		}
		if n.Kind != yaml.ScalarNode || !slices.Contains(plainTags, n.ShortTag()) {
			return fmt.Errorf("--config: %s: %s: must be a plain value", f.name, key)
		}
		f.values[key] = n.Value
	}
	return nil
}

// plainTags are the YAML types that are accepted as a value. The flag decides about the type: YAML reads a port as a
// number and a duration without a unit as an integer.
var plainTags = []string{"!!str", "!!bool", "!!int", "!!float", "!!timestamp"}

// Validate implements kong.Resolver. It returns an error for an unknown key.
func (f *file) Validate(app *kong.Application) error {
	var known []string
	collect(app.Node, &known)
	for key := range f.values {
		if !slices.Contains(known, key) {
			return fmt.Errorf("--config: %s: unknown key %q%s: keys are flags without the dashes", f.name, key, suggestion(key, known))
		}
	}
	return nil
}

// Resolve implements kong.Resolver. Variables of the environment override the file.
func (f *file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, set := os.LookupEnv(env); set {
			return nil, nil
		}
	}
	if value, set := f.values[flag.Name]; set {
		return value, nil
	}
	return nil, nil
}

// unconfigured are the flags that no file and no environment sets.
var unconfigured = []string{"config", "help", "help-all", "version", "show-config", "probe"}

func collect(n *kong.Node, known *[]string) {
	for _, flag := range n.Flags {
		if !slices.Contains(unconfigured, flag.Name) {
			*known = append(*known, flag.Name)
		}
	}
	for _, child := range n.Children {
		collect(child, known)
	}
}
