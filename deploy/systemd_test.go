package deploy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unitOptions are the options that the units may use, by section. systemd ignores an unknown option.
var unitOptions = map[string][]string{
	"Unit": {"Description", "Wants", "After"},
	"Service": {
		"Type", "RemainAfterExit", "ExecStart", "ExecReload", "Environment", "EnvironmentFile", "LoadCredential", "User", "DynamicUser",
		"StateDirectory", "StateDirectoryMode", "MemoryMax", "LimitNOFILE", "Restart", "RestartSec", "RestartPreventExitStatus", "TimeoutStopSec",
		"NoNewPrivileges", "ProtectSystem", "ProtectHome", "ProtectKernelTunables", "ProtectControlGroups", "PrivateDevices", "PrivateTmp",
		"RestrictSUIDSGID", "RestrictAddressFamilies", "CapabilityBoundingSet",
	},
	"Install": {"WantedBy"},
}

// unit has the values of each option of a unit, in order.
type unit map[string][]string

// parseUnit reads a unit. It returns an error for an unknown section or option.
func parseUnit(text string) (unit, error) {
	u, section := unit{}, ""
	for n, line := range strings.Split(text, "\n") {
		key, value, assigned := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
			if unitOptions[section] == nil {
				return nil, fmt.Errorf("line %d: unknown section %q", n+1, section)
			}
		case !assigned || !slices.Contains(unitOptions[section], key):
			return nil, fmt.Errorf("line %d: unknown option %q in section %q", n+1, key, section)
		default:
			u[key] = append(u[key], value)
		}
	}
	return u, nil
}

// TestSystemdUnits starts each program with the arguments, environment and credentials of its unit, to validate its settings.
// If systemd is installed, it verifies the units, too.
func TestSystemdUnits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	if _, err := parseUnit("[Service]\nRestrt=always"); err == nil {
		t.Error("a misspelt option gives no error")
	}
	files, err := filepath.Glob("systemd/*.service")
	if err != nil || len(files) != 7 {
		t.Fatalf("got the units %q, want all in one, the server, setup, three workers and the gateway: %v", files, err)
	}
	secrets := filepath.Join(t.TempDir(), "secrets")
	if out, err := exec.Command(program(t, "debrief"), "credentials", secrets).CombinedOutput(); err != nil {
		t.Fatalf("credentials: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(secrets, "model.key"), []byte("none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program(t, "debrief"), "token", "new", "agent", "--file", filepath.Join(secrets, "tokens.yaml")).CombinedOutput(); err != nil {
		t.Fatalf("token: %v\n%s", err, out)
	}
	verified := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		u, err := parseUnit(string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if err := checkUnit(t, u, secrets); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		// An instance of a template has a file name with its instance.
		name := strings.Replace(filepath.Base(file), "@.", "@1.", 1)
		local := strings.ReplaceAll(string(text), "/usr/local/bin", binaries)
		local = regexp.MustCompile(`(?m)^User=.*$`).ReplaceAllString(local, "User=root") // the test machine has no such users
		if err := os.WriteFile(filepath.Join(verified, name), []byte(local), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd is not installed: the units are only parsed")
		return
	}
	units, err := filepath.Glob(filepath.Join(verified, "*.service"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// checkUnit runs the program of a unit with its environment, so that the program validates all settings.
func checkUnit(t *testing.T, u unit, secrets string) error {
	t.Helper()
	if len(u["ExecStart"]) != 1 {
		return fmt.Errorf("ExecStart: want one, got %q", u["ExecStart"])
	}
	command := strings.Fields(u["ExecStart"][0])
	name := filepath.Base(command[0])
	if name == "nats-server" {
		return nil // TestDeployFilesMatchThePrograms checks its configuration
	}
	credentials := t.TempDir()
	for _, c := range u["LoadCredential"] {
		id, source, _ := strings.Cut(c, ":")
		data, err := os.ReadFile(strings.Replace(source, "/etc/debrief/secrets", secrets, 1))
		if err != nil {
			return fmt.Errorf("LoadCredential: %w", err)
		}
		if err := os.WriteFile(filepath.Join(credentials, id), data, 0o600); err != nil {
			return err
		}
	}
	var env []string
	for _, file := range u["EnvironmentFile"] {
		if strings.HasPrefix(file, "-") {
			continue // may be missing
		}
		text, err := os.ReadFile(filepath.Join("systemd", filepath.Base(file)))
		if err != nil {
			return fmt.Errorf("EnvironmentFile: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "#") {
				env = append(env, strings.TrimSpace(line))
			}
		}
	}
	for _, variable := range u["Environment"] {
		env = append(env, strings.ReplaceAll(variable, "%d", credentials))
	}
	if name == "gateway" {
		all := map[string]string{}
		for _, variable := range env {
			key, value, _ := strings.Cut(variable, "=")
			all[key] = value
		}
		if err := checkUpstream(all, all); err != nil {
			return err
		}
	}
	args := append(command[1:], "--show-config")
	wanted := []string{"tls://localhost:4222", filepath.Join(credentials, "nkey")}
	if i := slices.Index(args, "--config"); i >= 0 { // all in one process, without keys
		args[i+1] = filepath.Join("systemd", filepath.Base(args[i+1]))
		wanted = []string{args[i+1], "/var/lib/debrief", "127.0.0.1:4280"}
	}
	cmd := exec.Command(program(t, name), args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %q: %w\n%s", name, args, err, out)
	}
	for _, want := range wanted {
		if !strings.Contains(string(out), want) {
			return fmt.Errorf("%s: got the settings\n%s\nwithout %s", name, out, want)
		}
	}
	return nil
}

// TestConfigurationFile uncomments each setting of debrief.yaml, and checks its name and, unless it is an example, its default.
func TestConfigurationFile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	t.Parallel()
	text, err := os.ReadFile("systemd/debrief.yaml")
	if err != nil {
		t.Fatal(err)
	}
	setting := regexp.MustCompile(`(?m)^#([a-z][a-z-]*:.*)$`)
	if n := len(setting.FindAll(text, -1)); n < 10 {
		t.Fatalf("got %d settings in comments, want 10", n)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "debrief.yaml")
	all := strings.ReplaceAll(setting.ReplaceAllString(string(text), "$1"), "/etc/debrief/", dir+"/")
	key := os.WriteFile(filepath.Join(dir, "model.key"), []byte("none\n"), 0o600)
	if err := errors.Join(key, os.WriteFile(file, []byte(all), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program(t, "debrief"), "token", "new", "agent", "--file", filepath.Join(dir, "tokens.yaml")).CombinedOutput()
	if err != nil {
		t.Fatalf("token: %v\n%s", err, out)
	}
	if out, err := exec.Command(program(t, "debrief"), "credentials", dir).CombinedOutput(); err != nil { // with a certificate
		t.Fatalf("credentials: %v\n%s", err, out)
	}
	config := func(args ...string) map[string]string {
		cmd := exec.Command(program(t, "debrief"), append([]string{"up", "--show-config"}, args...)...)
		cmd.Env = []string{"HOME=" + dir}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		values := map[string]string{}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 2 {
				values[f[0]] = f[1]
			}
		}
		return values
	}
	got, defaults := config("--config", file), config()
	for _, name := range []string{"memory", "max-store", "sync", "log-level", "listen"} {
		if got[name] == "" || got[name] != defaults[name] {
			t.Errorf("%s: the file has %q, the default is %q", name, got[name], defaults[name])
		}
	}
}
