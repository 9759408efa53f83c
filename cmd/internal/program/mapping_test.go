package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"debrief/curator"
	"debrief/curator/gate"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat/openai"
	"debrief/events/liveness"
	"debrief/generator"
	"debrief/generator/prompt/assembly"
	"debrief/generator/scoring"
	"debrief/reflector"
)

// libraries pairs the structs of flags with the configurations that they stand for.
var libraries = []struct {
	flags, config any    // config has the defaults
	flagsOnly     string // flags without a field in the configuration
	fieldsOnly    string // fields that no flag sets
}{
	{Generator{}, generator.Config{}.WithDefaults(), "GeneratorPrompt", "Instructions ModelName Rounds Scorer Meter"},
	{Limits{}, assembly.Limits{}.WithDefaults(), "", ""},
	{Evaluators{}, scoring.Config{}.WithDefaults(), "", ""},
	{Reflector{}, reflector.Config{}.WithDefaults(), "ReflectorPrompt", "Instructions"},
	{Curator{}, curator.Config{}.WithDefaults(), "", "Instructions Meter"},
	{Gate{}, gate.Config{}.WithDefaults(), "", ""},
}

// TestFlagsCoverTheLibraries checks that each field of a configuration has a flag, and that each flag has a field of the
// same type.
func TestFlagsCoverTheLibraries(t *testing.T) {
	t.Parallel()
	for _, l := range libraries {
		flags, config := reflect.TypeOf(l.flags), reflect.TypeOf(l.config)
		f, c := leaves(flags, ""), leaves(config, "")
		for name, typ := range f {
			switch other := c[name]; {
			case slices.Contains(strings.Fields(l.flagsOnly), name):
			case other == nil:
				t.Errorf("%s.%s: no field in %s", flags, name, config)
			case other != typ:
				t.Errorf("%s.%s: got type %s, want %s", flags, name, typ, other)
			}
		}
		for name := range c {
			if f[name] == nil && !slices.Contains(strings.Fields(l.fieldsOnly), name) {
				t.Errorf("%s.%s: no flag in %s", config, name, flags)
			}
		}
	}
}

// leaves returns the fields of a struct and of its nested structs, by path. Structs of other kinds than configurations are
// pointers, slices and interfaces here.
func leaves(t reflect.Type, prefix string) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type.Kind() != reflect.Struct {
			all[prefix+f.Name] = f.Type
			continue
		}
		for name, typ := range leaves(f.Type, prefix+f.Name+".") {
			all[name] = typ
		}
	}
	return all
}

// everything has all flags of libraries.
type everything struct {
	Common
	NATS
	Health
	Model
	Embedding
	Generator
	Evaluators Evaluators `embed:""`
	Reflector
	Curator
}

func (e *everything) Check() error {
	e.Model.Model, e.APIKey, e.EmbedModel = "m", "k", "e"
	_, chatting := e.Client(events.RoleGenerator)
	_, embedding := e.Embedder(e.Model)
	return errors.Join(e.NATS.Check(), e.Health.Check(), chatting, embedding)
}

// TestDefaultsAreThoseOfTheLibraries compares the values of flags that are not set, and the defaults in the help, with the
// libraries.
func TestDefaultsAreThoseOfTheLibraries(t *testing.T) {
	t.Parallel()
	cli := new(everything)
	p, err := Program{Name: "p", CLI: cli}.parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[any]any{
		cli.AckWait: bus.Policy{}.WithDefaults().AckWait, cli.AlarmAfter: liveness.Floor, cli.MaxConcurrent: openai.Config{}.WithDefaults().MaxConcurrent,
		cli.Timeout: time.Duration(0), cli.EmbedTimeout: openai.Config{}.EmbedderDefaults().Timeout,
	} {
		if got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	for _, l := range libraries {
		fresh := reflect.New(reflect.TypeOf(l.flags))
		parser, err := kong.New(fresh.Interface(), kong.PostBuild(func(k *kong.Kong) error { setDefaults(k.Model.Node); return nil }))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(nil); err != nil {
			t.Fatal(err)
		}
		config := reflect.New(reflect.TypeOf(l.config))
		copyFields(config.Interface(), fresh.Elem().Interface())
		if got := config.Elem().Interface(); !reflect.DeepEqual(got, l.config) {
			t.Errorf("%T: got %+v, want %+v", l.flags, got, l.config)
		}
	}
	for _, flag := range flagsOf(p.kong) { // the tag zero-value defaults only; others would be written twice
		if d := flag.Tag.Default; d != "" && d != "0" && !slices.Contains([]string{"log-level", "redact", "replicas"}, flag.Name) {
			t.Errorf("--%s: the default %s is written in the tag, want it from the library", flag.Name, d)
		}
	}
}

// TestErrorsOfLibrariesNameTheFlag sets each numeric flag to invalid values in a settings file. The error must name the flag.
func TestErrorsOfLibrariesNameTheFlag(t *testing.T) {
	t.Parallel()
	p, err := Program{Name: "p", CLI: new(everything)}.parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, flag := range flagsOf(p.kong) {
		unit := ""
		switch typ := flag.Target.Type().String(); {
		case typ == "time.Duration":
			unit = "s"
		case !flag.Target.CanInt() && !flag.Target.CanFloat():
			continue
		}
		tried++
		name := filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(name, fmt.Appendf(nil, "%s: -7%s\n", flag.Name, unit), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Program{Name: "p", CLI: new(everything)}.parse([]string{"--config", name})
		if err == nil {
			err = p.check()
		}
		want := "--" + flag.Name
		if err == nil || !strings.Contains(err.Error(), want+":") && !strings.Contains(err.Error(), want+",") {
			t.Errorf("--%s=-7%s: got %v, want %s in it", flag.Name, unit, err, want)
		}
	}
	if tried < 30 {
		t.Errorf("only %d flags were tried", tried)
	}
}

// TestZeroIsNotTheDefault: a number of 0 is an error if the library would replace it with another value.
func TestZeroIsNotTheDefault(t *testing.T) {
	t.Parallel()
	for line, fine := range map[string]bool{
		"--generator-slots=0": false, "--gate-alpha=0": false, "--ack-wait=0s": false,
		"--weight-recency=0": true, "--max-tokens=0": true, "--reflections=-1": true,
	} {
		_, err := Program{Name: "p", CLI: new(everything)}.parse([]string{line})
		name, _, _ := strings.Cut(line, "=")
		if (err == nil) != fine || err != nil && !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: got %v", line, err)
		}
	}
}
