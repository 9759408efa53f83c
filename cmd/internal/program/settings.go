package program

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"debrief/events/redact"
)

// settings finds the values of flags that the command line does not set: in the environment, then in the file of --config. It is
// a kong.Resolver.
//
// Two flags are rivals if one of them has the tag "instead" with the name of the other, such as --nats and --data. A flag has no effect
// if its rival comes from a source of higher precedence. Two rivals on the command line are an error.
type settings struct {
	file   string
	values map[string]string // of the file, as written: they are parsed like the values of flags

	origins map[*kong.Flag]string // the variable or the file of each resolved flag
}

// newSettings reads the file that the arguments or DEBRIEF_CONFIG name. It runs before the command line is parsed, because the
// parser asks for the values.
func newSettings(args []string) (*settings, error) {
	s := &settings{file: os.Getenv(variablePrefix + "CONFIG"), origins: map[*kong.Flag]string{}}
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if name, ok := strings.CutPrefix(arg, "--config="); ok {
			s.file = name
		}
		if arg == "--config" && i+1 < len(args) {
			s.file = args[i+1]
		}
	}
	if s.file == "" {
		return s, nil
	}
	data, err := os.ReadFile(s.file)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return s, s.read(data)
}

// read reads the text of the file. A duplicate key and a list are errors; Validate finds unknown keys.
func (s *settings) read(text []byte) error {
	if err := yaml.Unmarshal(text, &s.values); err != nil {
		return fmt.Errorf("--config: %s: %s", s.file, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return nil
}

// Validate implements kong.Resolver. It returns an error for an unknown key.
func (s *settings) Validate(program *kong.Application) error {
	known := map[string]bool{}
	eachFlag(program.Node, func(flag *kong.Flag) { known[flag.Name] = isSetting(flag) })
	for key := range s.values {
		if !known[key] {
			return fmt.Errorf("--config: %s: unknown key %q: keys are flags without the dashes", s.file, key)
		}
	}
	return nil
}

// Resolve implements kong.Resolver. kong calls it for each flag that is not on the command line. It returns nil if neither the
// environment nor the file sets the flag, or if a rival takes precedence. The error for an invalid value names its source.
func (s *settings) Resolve(run *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	set := s.find(run, flag)
	if set.from == fromDefault || s.isBeaten(run, flag, set.from) {
		return nil, nil
	}
	parsed := reflect.New(flag.Target.Type()).Elem() // kong parses the value again; its error would not name the source
	if err := flag.Parse(kong.Scan().PushTyped(set.value, kong.FlagValueToken), parsed); err != nil {
		return nil, fmt.Errorf("%s: %w", set.name, err)
	}
	s.origins[flag] = set.name
	return set.value, nil
}

// source is the source of a setting. A greater one takes precedence.
type source int

const (
	fromDefault source = iota
	fromFile
	fromEnvironment
	fromFlag
)

// flagValue is the value of a flag with its source.
type flagValue struct {
	from        source
	name, value string // of the variable or the file; empty for a flag and a default
}

// find finds the source of a flag. An empty variable sets nothing: deployments pass on variables without a value.
func (s *settings) find(run *kong.Context, flag *kong.Flag) flagValue {
	if onCommandLine(run, flag) {
		return flagValue{from: fromFlag}
	}
	for _, name := range flag.Envs {
		if value := os.Getenv(name); value != "" {
			return flagValue{fromEnvironment, name, value}
		}
	}
	if value := s.values[flag.Name]; value != "" {
		return flagValue{fromFile, s.file, value}
	}
	return flagValue{}
}

// isBeaten reports whether a rival takes precedence over a flag from this source. A rival that is beaten itself does not: then its own rival
// is from a source of still higher precedence, so the recursion ends.
func (s *settings) isBeaten(run *kong.Context, flag *kong.Flag, from source) bool {
	return slices.ContainsFunc(flagsOf(run), func(rival *kong.Flag) bool {
		areRivals := excludes(flag, rival) || excludes(rival, flag)
		if !areRivals {
			return false
		}
		other := s.find(run, rival).from
		return other > from && !s.isBeaten(run, rival, other)
	})
}

// excludes reports whether a flag has the tag "instead" with the name of another one.
func excludes(flag, other *kong.Flag) bool {
	return slices.Contains(strings.Split(flag.Tag.Get("instead"), ","), other.Name)
}

// flagsOf returns the flags of the selected command, in the order of its help.
func flagsOf(run *kong.Context) (all []*kong.Flag) {
	for _, step := range run.Path {
		all = append(all, step.Flags...)
	}
	return all
}

// onCommandLine reports whether the command line sets a flag. A step of the path that is Resolved comes from settings.
func onCommandLine(run *kong.Context, flag *kong.Flag) bool {
	return slices.ContainsFunc(run.Path, func(step *kong.Path) bool { return step.Flag == flag && !step.Resolved })
}

// eachFlag calls fn for the flags of a command and of those below it.
func eachFlag(n *kong.Node, fn func(*kong.Flag)) {
	for _, flag := range n.Flags {
		fn(flag)
	}
	for _, child := range n.Children {
		eachFlag(child, fn)
	}
}

// Setting is one setting of a command, with its value and source. Secrets are not shown.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag, DEBRIEF_…, the file's name, or default
}

// Effective lists the settings of the command that runs, in the order of its help. A command receives them as an argument of Run.
type Effective []Setting

// Origin returns the source of a setting, by the name of its flag, for people: the flag with its dashes, the variable, the file or
// "default".
func (e Effective) Origin(name string) string {
	i := slices.IndexFunc(e, func(s Setting) bool { return s.Name == name })
	switch {
	case i < 0:
		return "default"
	case e[i].Origin == "flag":
		return "--" + name
	}
	return e[i].Origin
}

// isSetting reports whether a flag is a setting. A flag without an environment variable is an action, such as --help.
func isSetting(flag *kong.Flag) bool { return len(flag.Envs) > 0 }

// effective returns the settings of the selected command.
func (s *settings) effective(run *kong.Context) (all Effective) {
	for _, flag := range flagsOf(run) {
		if !isSetting(flag) || flag.Hidden || flag.Name == "config" {
			continue
		}
		origin := "default"
		if onCommandLine(run, flag) {
			origin = "flag"
		} else if from := s.origins[flag]; from != "" {
			origin = from
		}
		all = append(all, Setting{Name: flag.Name, Value: displayValue(flag), Origin: origin})
	}
	return all
}

// displayValue returns a flag's value without secrets.
func displayValue(flag *kong.Flag) string {
	text := fmt.Sprint(flag.Target.Interface())
	kind := flag.Target.Kind()
	isCollection := kind == reflect.Slice || kind == reflect.Map
	switch {
	case text == "", isCollection && flag.Target.Len() == 0:
		return ""
	case flag.Tag.Has("secret"):
		return "(secret)"
	case flag.Name == "nats":
		return redact.Address(text)
	}
	return redact.Text(text) // an address may contain a password
}

const variablePrefix = "DEBRIEF_"

// notSettings matches variables with our prefix that are not settings: those of our tests, those of the clients for Python and
// JavaScript, and a version that deployments set. It also matches the variables that Kubernetes sets in every container for a
// Service whose name begins with debrief.
var notSettings = regexp.MustCompile(`^DEBRIEF_(TEST_.*|DATA|LONG|SEED|VERSION|URL|API_TOKEN|(.*_)?SERVICE_(HOST|PORT.*)|(.*_)?PORT(_[0-9]+_.*)?)$`)

// workers has the flags of all worker programs, because the workers of a deployment may share an environment.
type workers struct {
	Worker
	Model
	Embedding
	Generator
	ServeFlags
	Gateway
	Evaluators Evaluators `embed:""`
	Reflector
	Curator
	Retention
}

// commandSettings lists settings of debrief's commands that a shell may have set when it starts a worker. Another setting of a
// command in a worker's environment is more likely a misspelt setting of the worker.
var commandSettings = []string{"DEBRIEF_BOOK", "DEBRIEF_DATA_DIR", "DEBRIEF_JSON", "DEBRIEF_MAX_STORE", "DEBRIEF_SYNC"}

// checkEnvironment returns an error for an unknown variable with our prefix. A misspelt setting would be ignored otherwise.
func (p Program) checkEnvironment(environment []string) error {
	var known []string
	for _, line := range environment {
		v, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(v, variablePrefix) || value == "" || notSettings.MatchString(v) {
			continue
		}
		if known == nil {
			anyWorker := Program{CLI: new(workers), Vars: kong.Vars{"evaluators": ""}} // a help text has the variable
			known = slices.Concat(commandSettings, p.variables(), anyWorker.variables())
		}
		if !slices.Contains(known, v) {
			return fmt.Errorf("unknown environment variable %s: '%s --help-all' lists the variables", v, p.Name)
		}
	}
	return nil
}

// variables returns the environment variables of all commands.
func (p Program) variables() (names []string) {
	eachFlag(p.parser(p.Commands).Model.Node, func(flag *kong.Flag) { names = append(names, flag.Envs...) })
	return names
}
