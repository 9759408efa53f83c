package app

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

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
const commandSettings = "BOOK DATA_DIR JSON MAX_STORE SYNC"

// checkEnvironment returns an error for an unknown variable with our prefix. A misspelt setting would be ignored
// otherwise.
func (m Program) checkEnvironment(model *kong.Application, environment []string) error {
	known := variables(model.Node, nil)
	all := false
	for _, line := range environment {
		v, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(v, variablePrefix) || value == "" || slices.Contains(known, v) || notSettings.MatchString(v) {
			continue
		}
		if !all {
			known, all = append(m.variables(), Program{CLI: new(workers), Vars: kong.Vars{"evaluators": ""}}.variables()...), true
			for name := range strings.FieldsSeq(commandSettings) {
				known = append(known, variablePrefix+name)
			}
		}
		if !slices.Contains(known, v) {
			return fmt.Errorf("unknown environment variable %s%s: '%s --help-all' lists the variables", v, suggestion(v, known), m.Name)
		}
	}
	return nil
}

// variables returns the environment variables of all commands.
func (m Program) variables() []string { return variables(m.parser(m.Commands).Model.Node, nil) }

// dropEmpty removes empty variables from the environment. Deployments pass on variables without a value.
func dropEmpty(program *kong.Application) {
	for _, name := range variables(program.Node, nil) {
		if os.Getenv(name) == "" {
			_ = os.Unsetenv(name) // never fails for the name of a flag
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
