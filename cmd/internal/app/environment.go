package app

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"debrief/generator/scoring"
)

const variablePrefix = "DEBRIEF_"

// foreign are variables with our prefix that are no settings: those of our tests, a version that deployments like to set,
// and what Kubernetes sets in every container for a Service whose name begins with debrief.
var foreign = regexp.MustCompile(`^DEBRIEF_(TEST_.*|DATA|LONG|SEED|VERSION|(.*_)?SERVICE_(HOST|PORT.*)|(.*_)?PORT(_[0-9]+_.*)?)$`)

// workers has the flags of all worker programs: they may share an environment, as they do in a deployment.
type workers struct {
	Worker
	Model
	Embedding
	Generator
	Serving
	Evaluators scoring.Config `embed:""`
	Reflector
	Curator
}

// ofDebrief are settings of debrief's commands that a person exports in the shell that starts a worker, too. The others
// are told once, to one command, and are more likely a worker's setting misspelt.
const ofDebrief = "BOOK DATA_DIR HTTP HTTP_TOKEN JSON MAX_STORE SYNC"

// checkEnvironment refuses a variable that looks like a setting and is none: a misspelt one would be left alone in silence.
func (m Program) checkEnvironment(model *kong.Application, environment []string) error {
	known := variables(model.Node, nil)
	all := false
	for _, line := range environment {
		v, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(v, variablePrefix) || value == "" || slices.Contains(known, v) || foreign.MatchString(v) {
			continue
		}
		if !all {
			known, all = append(m.variables(), Program{CLI: new(workers), Vars: kong.Vars{"evaluators": ""}}.variables()...), true
			for name := range strings.FieldsSeq(ofDebrief) {
				known = append(known, variablePrefix+name)
			}
		}
		if !slices.Contains(known, v) {
			return fmt.Errorf("%s: is set, and there is no such setting: '%s --help' names the variables that there are", v, m.Name)
		}
	}
	return nil
}

// variables are all that a program knows.
func (m Program) variables() []string { return variables(m.parser(m.Commands).Model.Node, nil) }

// dropEmpty takes out of the environment what is set to nothing: deployments pass on variables that nobody set.
func dropEmpty(program *kong.Application) {
	for _, name := range variables(program.Node, nil) {
		if os.Getenv(name) == "" {
			_ = os.Unsetenv(name) // fails for no name that a flag can have
		}
	}
}

// variables adds the environment variables of a command and those below it.
func variables(n *kong.Node, names []string) []string {
	for _, flag := range n.Flags {
		names = append(names, flag.Envs...)
	}
	for _, child := range n.Children {
		names = variables(child, names)
	}
	return names
}
