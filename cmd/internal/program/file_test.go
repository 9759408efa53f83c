package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// FuzzFile reads any bytes as a settings file. Either every key is a flag with a plain value, or the error is one
// line with the name of the file.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"", "nats: nats://127.0.0.1:4222\nreplicas: 3\n", "log-level: debug\nlog-json: true", "# nothing\n", "replicas: 1\nreplicas: 2",
		"password: \"x\"\n", "password: ", "password: ~", "ack-wait: 60", "user: 2001-01-01", "user: yes", "user: 1e400", "unknown: 1", "nats: [a, b]", "nats: {a: b}", "- a", "nats: &a x\ncreds: *a", "nats: !!binary aGk=", "1: 2",
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
		s := &settings{file: "settings.yaml"}
		err := s.read([]byte(text))
		if err == nil {
			err = s.Validate(parser.Model)
		}
		if err == nil {
			return
		}
		if !strings.HasPrefix(err.Error(), "--config: settings.yaml: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got error %q", text, err)
		}
	})
}

// TestFileValuesAreParsedLikeFlags: values are accepted and rejected like the values of flags.
func TestFileValuesAreParsedLikeFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`text: 7`:                    "7",
		`text: 007`:                  "007",
		`text: 1.50`:                 "1.50",
		`text: 12345678901234567890`: "12345678901234567890",
		`text: yes`:                  "yes",
		`text: true`:                 "true",
		`text: 2001-01-01`:           "2001-01-01",
		`text: "7"`:                  "7",
		`count: 7`:                   "7",
		`count: "7"`:                 "7",
		`share: 1`:                   "1",
		`share: .5`:                  "0.5",
		`wait: 1m`:                   "1m0s",
		`on: true`:                   "true",
		`on: yes`:                    "true",
		`on: 1`:                      "true",
		`list: a,7`:                  "[a 7]",

		`wait: 60`:     `FILE: --wait`,
		`wait: true`:   `FILE: --wait`,
		`count: 1.5`:   `FILE: --count`,
		`on: perhaps`:  `FILE: --on`,
		`level: loud`:  `--level must be one of`,
		`own: 3`:       `must be even`,
		`list: [a, b]`: `--config: FILE: yaml`,
		`text: {a: b}`: `--config: FILE: yaml`,
	} {
		name := filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(name, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cli := new(holder)
		_, err := Program{Name: "program", CLI: cli}.parse([]string{"--config", name})
		key, _, _ := strings.Cut(line, ":")
		got := fmt.Sprint(map[string]any{
			"text": cli.Text, "count": cli.Count, "share": cli.Share, "wait": cli.Wait, "on": cli.On, "list": cli.List, "level": cli.Level, "own": cli.Own,
		}[key])
		if want = strings.ReplaceAll(want, "FILE", name); strings.Contains(want, ": ") || strings.Contains(want, "must") {
			if got = fmt.Sprint(err); !strings.Contains(got, want) || strings.Contains(got, "\n") {
				t.Errorf("%s: got %s, want %s in it", line, got, want)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", line, got, err, want)
		}
	}
}

// holder has a flag of each kind.
type holder struct {
	Common
	Text  string
	Count int
	Share float64
	Wait  time.Duration
	On    bool
	List  []string
	Level string `enum:"low,high" default:"low"`
	Own   even
}

type even int

// Validate implements kong's check.
func (e even) Validate() error {
	if e%2 != 0 {
		return fmt.Errorf("must be even, got %d", e)
	}
	return nil
}
