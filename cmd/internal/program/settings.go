package program

import (
	"errors"
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

// settings resolves the flags that the command line does not set: from the environment, then from the file of --config. It is a
// kong.Resolver.
type settings struct {
	file   string
	values map[string]string // of the file, as written: they are parsed like the values of flags

	origins map[*kong.Flag]string // the variable or the file of each resolved flag
}

// newSettings reads the file that the arguments or DEBRIEF_CONFIG name. It must be known before the command line is parsed.
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

// read reads the text of the file. An unknown key, a duplicate key and a list are errors.
func (s *settings) read(text []byte) error {
	if err := yaml.Unmarshal(text, &s.values); err != nil {
		return fmt.Errorf("--config: %s: %s", s.file, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return nil
}

// Validate implements kong.Resolver. It returns an error for an unknown key.
func (s *settings) Validate(program *kong.Application) error {
	known := map[string]bool{}
	eachFlag(program.Node, func(flag *kong.Flag) { known[flag.Name] = len(flag.Envs) > 0 })
	for key := range s.values {
		if !known[key] {
			return fmt.Errorf("--config: %s: unknown key %q: keys are flags without the dashes", s.file, key)
		}
	}
	return nil
}

// Resolve implements kong.Resolver.
func (s *settings) Resolve(run *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	set := s.find(run, flag)
	if set.from == fromDefault || s.beaten(run, flag, set.from) {
		return nil, nil
	}
	scratch := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.Scan().PushTyped(set.value, kong.FlagValueToken), scratch); err != nil {
		return nil, fmt.Errorf("%s: %w", set.name, err)
	}
	s.origins[flag] = set.name
	return set.value, nil
}

// source is the source of a setting, in order of precedence.
type source int

const (
	fromDefault source = iota
	fromFile
	fromEnvironment
	fromFlag
)

// found is the source of a flag, with its name and the value there.
type found struct {
	from        source
	name, value string
}

// find finds the source of a flag. An empty variable sets nothing: deployments pass on variables without a value.
func (s *settings) find(run *kong.Context, flag *kong.Flag) found {
	if onCommandLine(run, flag) {
		return found{from: fromFlag}
	}
	for _, name := range flag.Envs {
		if value := os.Getenv(name); value != "" {
			return found{fromEnvironment, name, value}
		}
	}
	if value := s.values[flag.Name]; value != "" {
		return found{fromFile, s.file, value}
	}
	return found{}
}

// beaten reports whether a rival of a flag comes from a source of higher precedence, and is not beaten itself.
func (s *settings) beaten(run *kong.Context, flag *kong.Flag, from source) bool {
	return slices.ContainsFunc(flagsOf(run), func(rival *kong.Flag) bool {
		if !excludes(flag, rival) && !excludes(rival, flag) {
			return false
		}
		other := s.find(run, rival).from
		return other > from && !s.beaten(run, rival, other)
	})
}

// excludes reports whether the tag instead of a flag names another one.
func excludes(flag, other *kong.Flag) bool {
	return slices.Contains(strings.Split(flag.Tag.Get("instead"), ","), other.Name)
}

// checkRivals returns an error for two flags on the command line that exclude each other.
func checkRivals(run *kong.Context) error {
	for _, flag := range flagsOf(run) {
		for _, other := range flagsOf(run) {
			if excludes(flag, other) && onCommandLine(run, flag) && onCommandLine(run, other) {
				return fmt.Errorf("--%s: is set, and so is --%s: choose one", flag.Name, other.Name)
			}
		}
	}
	return nil
}

// flagsOf returns the flags of the selected command, in the order of its help.
func flagsOf(run *kong.Context) (all []*kong.Flag) {
	for _, step := range run.Path {
		all = append(all, step.Flags...)
	}
	return all
}

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

// checkZeros returns an error for a number that is set to 0 although its default is another one. A library would replace
// it with the default.
func checkZeros(run *kong.Context) error {
	var errs []error
	for _, flag := range flagsOf(run) {
		if v := flag.Target; flag.HasDefault && !flag.Tag.HasDefault && v.IsZero() && !flag.Tag.Has("zero") && (v.CanInt() || v.CanFloat()) {
			errs = append(errs, fmt.Errorf("--%s: must not be 0; leave it out for the default, which is %s", flag.Name, flag.Default))
		}
	}
	return errors.Join(errs...)
}

// Setting is one setting of a command, with its value and source. Secrets are not shown.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag, DEBRIEF_…, the file's name, or default
}

// Effective are the settings of the command that runs, in the order of its help. A command gets them as an argument of Run.
type Effective []Setting

// Origin returns the source of a setting by the name of its flag.
func (e Effective) Origin(name string) string {
	for _, s := range e {
		if s.Name == name && s.Origin == "flag" {
			return "--" + name
		}
		if s.Name == name {
			return s.Origin
		}
	}
	return "default"
}

// effective returns the settings of the selected command. A flag without a variable is none, such as --help.
func (s *settings) effective(run *kong.Context) (all Effective) {
	for _, flag := range flagsOf(run) {
		if len(flag.Envs) == 0 || flag.Hidden || flag.Name == "config" {
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
	switch kind := flag.Target.Kind(); {
	case text == "", (kind == reflect.Slice || kind == reflect.Map) && flag.Target.Len() == 0:
		return ""
	case flag.Tag.Has("secret"):
		return "(secret)"
	case flag.Name == "nats":
		return redact.Address(text)
	}
	return redact.Text(text) // an address may contain a password
}

const variablePrefix = "DEBRIEF_"

// notSettings matches variables with our prefix that are not settings: those of our tests, those of the clients
// for Python and JavaScript, a version that deployments set, and the variables that Kubernetes sets in every container for a Service whose name begins with debrief.
var notSettings = regexp.MustCompile(`^DEBRIEF_(TEST_.*|DATA|LONG|SEED|VERSION|URL|API_TOKEN|(.*_)?SERVICE_(HOST|PORT.*)|(.*_)?PORT(_[0-9]+_.*)?)$`)

// workers has the flags of all worker programs. They may share an environment, as they do in a deployment.
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
}

// commandSettings are settings of debrief's commands that may also be set in the shell that starts a worker. Other
// settings of commands are used once, and are in a worker's environment more likely a misspelt setting.
var commandSettings = []string{"DEBRIEF_BOOK", "DEBRIEF_DATA_DIR", "DEBRIEF_JSON", "DEBRIEF_MAX_STORE", "DEBRIEF_SYNC"}

// checkEnvironment returns an error for an unknown variable with our prefix. A misspelt setting would be ignored otherwise.
func (m Program) checkEnvironment(environment []string) error {
	var known []string
	for _, line := range environment {
		v, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(v, variablePrefix) || value == "" || notSettings.MatchString(v) {
			continue
		}
		if known == nil {
			known = slices.Concat(commandSettings, m.variables(), Program{CLI: new(workers), Vars: kong.Vars{"evaluators": ""}}.variables())
		}
		if !slices.Contains(known, v) {
			return fmt.Errorf("unknown environment variable %s: '%s --help-all' lists the variables", v, m.Name)
		}
	}
	return nil
}

// variables returns the environment variables of all commands.
func (m Program) variables() (names []string) {
	eachFlag(m.parser(m.Commands).Model.Node, func(flag *kong.Flag) { names = append(names, flag.Envs...) })
	return names
}
