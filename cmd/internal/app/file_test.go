package app

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// FuzzFile reads anything as a file of settings: each key is a flag's and each value a plain one, or it is refused in one
// line that says which file.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"", "nats: nats://127.0.0.1:4222\nreplicas: 3\n", "log-level: debug\nlog-json: true", "# nothing\n", "replicas: 1\nreplicas: 2",
		"password: \"x\"\n", "unknown: 1", "nats: [a, b]", "nats: {a: b}", "- a", "nats: &a x\ncreds: *a", "nats: !!binary aGk=", "1: 2",
		strings.Repeat("[", 20000), strings.Repeat("a:\n ", 100), "nats: \"\x00\"", "\xff\xfe", "%YAML 9.9\n---\n", "ack-wait: 30s\n---\nack-wait: 1s",
	} {
		f.Add(seed)
	}
	var cli struct {
		Common
		NATS
	}
	parser, err := kong.New(&cli, kong.Vars{"version": "v"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &file{name: "settings.yaml"}
		err := s.read(strings.NewReader(text))
		if err == nil {
			err = s.Validate(parser.Model)
		}
		if err == nil {
			for key, value := range s.values {
				switch value.(type) {
				case string, bool, int, float64:
				default:
					t.Errorf("%q: %s is a %T", text, key, value)
				}
			}
			return
		}
		if !strings.HasPrefix(err.Error(), "--config: settings.yaml: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got error %q", text, err)
		}
	})
}
