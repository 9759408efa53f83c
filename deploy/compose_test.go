package deploy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"debrief/integration/programs"
)

// The parts of compose.yaml that are checked.
type (
	composeFile struct {
		Services map[string]service
		Volumes  map[string]any
		Secrets  map[string]struct{ File string }
	}
	service struct {
		Image, Restart string
		ContainerName  string `yaml:"container_name"`
		Build          *struct{ Target string }
		Command        []string
		ReadOnly       bool     `yaml:"read_only"`
		CapDrop        []string `yaml:"cap_drop"`
		SecurityOpt    []string `yaml:"security_opt"`
		MemLimit       string   `yaml:"mem_limit"`
		StopGrace      string   `yaml:"stop_grace_period"`
		Ports          []string
		Volumes        []string
		Environment    map[string]string
		DependsOn      dependencies `yaml:"depends_on"`
		Secrets        []secretMount
	}
	secretMount  struct{ Source, Target string }
	dependencies []string
)

// UnmarshalYAML reads the short and the long form of a secret.
func (g *secretMount) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*g = secretMount{Source: n.Value}
	} else if err := n.Decode((*struct{ Source, Target string })(g)); err != nil {
		return err
	}
	if g.Target == "" {
		g.Target = g.Source
	}
	if !path.IsAbs(g.Target) {
		g.Target = "/run/secrets/" + g.Target
	}
	return nil
}

// UnmarshalYAML reads the short and the long form of depends_on.
func (d *dependencies) UnmarshalYAML(n *yaml.Node) error {
	var names map[string]any
	if n.Kind == yaml.SequenceNode {
		return n.Decode((*[]string)(d))
	}
	if err := n.Decode(&names); err != nil {
		return err
	}
	for name := range names {
		*d = append(*d, name)
	}
	return nil
}

var fallback = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)

// checkCompose returns all errors of compose.yaml with an empty environment.
func checkCompose(t *testing.T, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	if err != nil {
		return err
	}
	var f composeFile
	if err := yaml.Unmarshal(fallback.ReplaceAll(text, []byte("$1")), &f); err != nil {
		return err
	}
	s := stack{ports: map[string][]int{}}
	var errs []error
	for name, v := range f.Services {
		c, err := f.container(dir, name, v)
		s.containers = append(s.containers, c)
		s.ports[name] = listenPorts(v)
		if err := errors.Join(err, v.checkLimits(), f.checkDependencies(v)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(append(errs, checkStack(t, dir, s))...)
}

// listenPorts returns the ports that a service publishes, and the port of its flag --address.
func listenPorts(s service) (ports []int) {
	for _, p := range s.Ports {
		ports = append(ports, atoi(p[strings.LastIndexByte(p, ':')+1:]))
	}
	if i := slices.Index(s.Command, "--address"); i >= 0 && i+1 < len(s.Command) {
		_, port, _ := strings.Cut(s.Command[i+1], ":")
		ports = append(ports, atoi(port))
	}
	return ports
}

func (f composeFile) container(dir, name string, s service) (container, error) {
	repository, _, _ := strings.Cut(s.Image, ":")
	c := container{name: name, image: path.Base(repository), args: s.Command, memory: s.MemLimit, env: s.Environment, files: map[string]string{}}
	if c.image == "debrief" && len(c.args) == 0 {
		c.args = []string{"status"} // the operator chooses the command; any one works for the check
	}
	var errs []error
	if s.Build != nil && s.Build.Target != c.image {
		errs = append(errs, fmt.Errorf("target %s is built as image %s", s.Build.Target, s.Image))
	}
	mount := func(from, to string) {
		text, err := os.ReadFile(filepath.Join(dir, from))
		if err != nil {
			errs = append(errs, err)
		}
		c.files[to] = string(text)
	}
	for _, g := range s.Secrets {
		if _, ok := f.Secrets[g.Source]; !ok {
			errs = append(errs, fmt.Errorf("unknown secret %s", g.Source))
			continue
		}
		mount(f.Secrets[g.Source].File, g.Target)
	}
	for _, v := range s.Volumes {
		from, to, _ := strings.Cut(v, ":")
		to, readOnly := strings.CutSuffix(to, ":ro")
		if _, ok := f.Volumes[from]; ok {
			c.dirs = append(c.dirs, to)
			continue
		}
		if !readOnly {
			errs = append(errs, fmt.Errorf("volume %s: must be read-only", from))
		}
		mount(from, to)
	}
	return c, errors.Join(errs...)
}

// checkLimits checks the settings required of all services: rights, memory, restart, and whether they can be scaled.
func (s service) checkLimits() error {
	var errs []error
	if !s.ReadOnly {
		errs = append(errs, errors.New("read_only: required"))
	}
	if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
		errs = append(errs, fmt.Errorf("has unneeded rights: cap_drop %v, security_opt %v", s.CapDrop, s.SecurityOpt))
	}
	if s.MemLimit == "" || s.Restart == "" {
		errs = append(errs, fmt.Errorf("mem_limit and restart: required, got %q and %q", s.MemLimit, s.Restart))
	}
	isServer := strings.Contains(s.Image, "/nats:") || strings.Contains(s.Image, "/gateway:") // with an address on this machine
	if s.ContainerName != "" || len(s.Ports) > 0 && !isServer {
		errs = append(errs, fmt.Errorf("cannot be scaled: container_name %q, ports %v", s.ContainerName, s.Ports))
	}
	return errors.Join(errs...)
}

func (f composeFile) checkDependencies(s service) error {
	var errs []error
	for _, on := range s.DependsOn {
		if _, ok := f.Services[on]; !ok {
			errs = append(errs, fmt.Errorf("depends_on: unknown service %s", on))
		}
	}
	return errors.Join(errs...)
}

// TestComposeRunsToAnAppliedDelta runs deploy/compose with five reflectors until a bullet is in the playbook, and then
// removes the stack. It needs a container engine and compose.
func TestComposeRunsToAnAppliedDelta(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	if out, err := exec.Command("docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput(); err != nil {
		t.Skipf("container engine not available: %s", out)
	}
	if exec.Command("docker", "compose", "version").Run() != nil && exec.Command("docker-compose", "version").Run() != nil {
		t.Skip("docker compose not found")
	}
	program(t, "nats-server") // builds all programs; the script then uses the build cache
	project := fmt.Sprintf("debrief-test-%d", os.Getpid())
	secrets := filepath.Join(t.TempDir(), "secrets")
	script := func(args ...string) *exec.Cmd {
		cmd := exec.Command("./compose", args...)
		cmd.Env = append(os.Environ(), "COMPOSE_PROJECT_NAME="+project, "REGISTRY="+project, "TAG=test", "NATS_LISTEN=127.0.0.1:", "GATEWAY_LISTEN=127.0.0.1:",
			"BIN_DIR="+binaries, "SECRETS_DIR="+secrets, programs.WithoutRevision)
		for _, name := range []string{"DEBRIEF_MODEL", "DEBRIEF_BASE_URL", "OPENAI_API_KEY"} {
			cmd.Env = append(cmd.Env, name+"=")
		}
		return cmd
	}
	t.Cleanup(func() {
		if out, err := script("down", "--volumes", "--rmi", "all", "--timeout", "5").CombinedOutput(); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	out, err := script("up", "--scale", "reflector=5").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		logs, _ := script("logs", "--tail", "20").CombinedOutput()
		t.Fatalf("up: %v\n%s", err, logs)
	}
	checkGateway(t, string(out))
	// All programs must become healthy: a generator, a curator, a gateway and five reflectors.
	var status []byte
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		status, err = exec.Command("docker", "ps", "--filter", "label=com.docker.compose.project="+project, "--format", "{{.Image}} {{.Status}}").CombinedOutput()
		if err != nil || strings.Count(string(status), "(healthy)") == 8 {
			break
		}
	}
	if strings.Count(string(status), "/reflector:") != 5 || strings.Count(string(status), "(healthy)") != 8 {
		t.Errorf("got %v\n%s\nwant five reflectors, a generator, a curator and a gateway, healthy", err, status)
	}
	if want := "For currency CHF the currency fee is 8 %"; !strings.Contains(string(out), want) {
		t.Errorf("the output does not contain the bullet %q", want)
	}
}

// settings matches the settings of an agent in the output of 'up'.
var settings = regexp.MustCompile(`OPENAI_BASE_URL=(\S+) OPENAI_API_KEY=(\S+)`)

// checkGateway calls a model with the settings that 'up' prints, and without a token.
func checkGateway(t *testing.T, out string) {
	t.Helper()
	found := settings.FindStringSubmatch(out)
	if found == nil {
		t.Errorf("the output has no settings for agents")
		return
	}
	for token, want := range map[string]int{found[2]: http.StatusOK, "another": http.StatusUnauthorized} {
		body := `{"model": "simulated-invoice-desk", "messages": [{"role": "user", "content": "Hello, who are you?"}]}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, found[1]+"/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Errorf("call a model through the gateway: %v", err)
			continue
		}
		reply, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("call a model through the gateway: got %s: %s, want %d", resp.Status, reply, want)
		}
	}
}

// TestComposeKeepsTheModel runs the script with a fake engine that records its calls. A later command, such as one that
// scales a role, must not give the workers another model, which would write to the same playbooks.
func TestComposeKeepsTheModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash not found")
	}
	program(t, "nats-server") // builds all programs; the script then uses the build cache
	dir := t.TempDir()
	for name, text := range map[string]string{
		"docker":         "if [[ $1 = compose ]]; then exit 1; fi\necho " + runtime.GOARCH,
		"docker-compose": `echo "${*: -3} $DEBRIEF_MODEL $DEBRIEF_BASE_URL $SIMULATED" >>"$TOLD"; echo "\"version\":$(wc -l <"$TOLD")"`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/usr/bin/env bash\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	told, secrets := filepath.Join(dir, "told"), filepath.Join(dir, "secrets")
	const ours, openAI, llama = "http://model:8089/v1", "https://api.openai.com/v1", "http://host:11434/v1"
	for _, step := range []struct {
		command, model, url string // model and url: the environment
		want                string // the call of the engine
		output              string
	}{
		{"up -d curator", "", "", "up -d curator simulated-invoice-desk " + ours + " 1", "simulated-invoice-desk"},
		{"up --scale curator=2", "gpt-4o-mini", "", "-d --scale curator=2 gpt-4o-mini " + openAI + " 0", "start with gpt-4o-mini at " + openAI},
		{"up -d --scale curator=5", "", "", "-d --scale curator=5 gpt-4o-mini " + openAI + " 0", "start with gpt-4o-mini at " + openAI},
		{"-f mine.yaml up -d", "", "", "mine.yaml up -d gpt-4o-mini " + openAI + " 0", ""},
		{"up -d curator", "llama3", llama, "up -d curator llama3 " + llama + " 0", "start with llama3 at " + llama},
		{"ps -q curator", "", "", "ps -q curator llama3 " + llama + " 0", ""},
		{"ps -q curator", "llama3", "", "ps -q curator llama3 " + llama + " 0", ""},
		{"ps -q curator", "gpt-4o-mini", "", "ps -q curator gpt-4o-mini " + openAI + " 0", ""}, // not with the address of the other model
		{"down --volumes --timeout 9", "", "", "--volumes --timeout 9 llama3 " + llama + " 0", "left: images debrief/{nats,debrief,generator,reflector,curator,gateway}:dev;"},
		{"down --timeout 9", "", "", "down --timeout 9 llama3 " + llama + " 0", "left: the data in volume debrief_store;"},
		{"down --rmi all", "", "", "down --rmi all llama3 " + llama + " 0", "credentials in " + secrets},
		{"up -d curator", "simulated-invoice-desk", "", "up -d curator simulated-invoice-desk " + ours + " 1", "a simulated model"},
	} {
		cmd := exec.Command("./compose", strings.Fields(step.command)...)
		cmd.Env = append(os.Environ(), "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"), "TOLD="+told, "BIN_DIR="+binaries,
			"SECRETS_DIR="+secrets, programs.WithoutRevision, "DEBRIEF_MODEL="+step.model, "DEBRIEF_BASE_URL="+step.url, "OPENAI_API_KEY=a-key")
		out, err := cmd.CombinedOutput()
		lines, _ := os.ReadFile(told)
		if err != nil || !strings.Contains("\n"+string(lines), "\n"+step.want+"\n") || !strings.Contains(string(out), step.output) {
			t.Errorf("%s with model %q at %q: got %v\n%s\ncall of the engine:\n%s\nwant %q, and output %q",
				step.command, step.model, step.url, err, out, lines, step.want, step.output)
		}
		if err := os.Remove(told); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(secrets, "model.env")
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("got %v, %v, want a file with mode 0600", info, err)
	}
	if text, _ := os.ReadFile(file); strings.Contains(string(text), "key") {
		t.Errorf("the model's key is in %s", text)
	}
	if text, _ := os.ReadFile(filepath.Join(secrets, "model.key")); string(text) != "a-key\n" {
		t.Errorf("got %q as the key", text)
	}
}
