package deploy

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The tests check the files of deploy/ with the programs. For each container of compose.yaml and of the Kubernetes
// manifests they write the mounted files to a directory, and run the program of the image with the container's arguments
// and environment, to validate both.

// container is a container of compose.yaml or of a Kubernetes manifest.
type container struct {
	name   string
	image  string // the target of the Dockerfile
	args   []string
	memory string            // the memory limit
	env    map[string]string // without the variables of the image
	files  map[string]string // contents of mounted files, by path
	dirs   []string          // mounted writable directories
}

// stack is the set of containers that run together.
type stack struct {
	containers []container
	ports      map[string][]int // the ports of each host name
}

// image is a target of deploy/Dockerfile.
type image struct {
	program string
	env     map[string]string
	cmd     []string
}

var dockerLine = regexp.MustCompile(`(?m)^(FROM scratch AS|ENV|ENTRYPOINT|CMD|USER) (.*)$`)

// images reads the Dockerfile.
func images(dir string) (map[string]image, error) {
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	all := map[string]image{}
	target := ""
	for _, m := range dockerLine.FindAllStringSubmatch(string(text), -1) {
		if m[1] == "FROM scratch AS" {
			target = m[2]
			all[target] = image{env: map[string]string{}}
			continue
		}
		i := all[target]
		switch m[1] {
		case "ENV":
			key, value, _ := strings.Cut(m[2], "=")
			i.env[key] = value
		case "ENTRYPOINT":
			i.program = strings.Trim(m[2], `["/]`)
		case "CMD":
			i.cmd = strings.Split(strings.Trim(m[2], `[]"`), `", "`)
		case "USER":
			if m[2] != "65532:65532" {
				return nil, fmt.Errorf("image %s: user must be 65532:65532, got %s", target, m[2])
			}
		}
		all[target] = i
	}
	return all, nil
}

// copyDeploy copies deploy/ to a new directory and adds credentials and a model key, as deploy/compose does.
func copyDeploy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deploy")
	if err := os.CopyFS(dir, deployFiles(t)); err != nil {
		t.Fatal(err)
	}
	secrets := filepath.Join(dir, "secrets")
	cmd := exec.Command(program(t, "debrief"), "credentials", secrets, "--host", "nats", "--host", "nats-0", "--host", "nats-1", "--host", "nats-2")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	if err := os.WriteFile(filepath.Join(secrets, "model.key"), []byte("none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(program(t, "debrief"), "token", "new", "agent", "--file", filepath.Join(secrets, "tokens.yaml"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return dir
}

// deployFiles returns deploy/ without the secrets of a developer.
func deployFiles(t *testing.T) fs.FS {
	t.Helper()
	all := os.DirFS(".")
	names, err := fs.Glob(all, "secrets/*")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "secrets/kustomization.yaml" || n == "secrets/.gitignore" })
	return filteredFS{all, names}
}

// filteredFS is a file system without the hidden names.
type filteredFS struct {
	fs.FS
	hidden []string
}

func (w filteredFS) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(w.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return slices.Contains(w.hidden, name+"/"+e.Name()) }), err
}

// checkStack returns all errors of a stack.
func checkStack(t *testing.T, dir string, s stack) error {
	all, err := images(dir)
	errs := []error{err}
	for _, c := range s.containers {
		i, ok := all[c.image]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: image %q is not a target of the Dockerfile", c.name, c.image))
			continue
		}
		env := maps.Clone(i.env)
		maps.Copy(env, c.env)
		if err := errors.Join(checkConfig(t, i, c, env), checkAddresses(s, c, env)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
		if worker := slices.IndexFunc(s.containers, func(c container) bool { return c.image == "generator" }); c.image == "gateway" && worker >= 0 {
			errs = append(errs, checkUpstream(env, s.containers[worker].env))
		}
	}
	return errors.Join(errs...)
}

// checkUpstream returns an error if the gateway would send the key of the workers' model to another server.
func checkUpstream(gateway, worker map[string]string) error {
	key, url := gateway["DEBRIEF_UPSTREAM_OPENAI_KEY_FILE"], gateway["DEBRIEF_UPSTREAM_OPENAI"]
	if key != "" && (url == "" || url != worker["DEBRIEF_BASE_URL"]) {
		return fmt.Errorf("DEBRIEF_UPSTREAM_OPENAI: got %q, want the server of the key, %q", url, worker["DEBRIEF_BASE_URL"])
	}
	return nil
}

// checked has the results of checkConfig, functions by what they depend on: most containers are the same in all stacks.
var checked sync.Map

// checkConfig runs the program of a container to validate arguments, environment and mounted files, once for equal containers.
func checkConfig(t *testing.T, i image, c container, env map[string]string) error {
	c.name = "" // in no result
	key := fmt.Sprintf("%q", []any{i, c, env})
	check, _ := checked.LoadOrStore(key, sync.OnceValue(func() error { return runConfig(t, i, c, env) }))
	return check.(func() error)()
}

func runConfig(t *testing.T, i image, c container, env map[string]string) error {
	root := t.TempDir()
	hostPaths := func(text string) string { // replaces paths in the container by paths on the host
		for name := range c.files {
			text = strings.ReplaceAll(text, name, root+name)
		}
		for _, name := range c.dirs {
			text = strings.ReplaceAll(text, `"`+name, `"`+root+name)
		}
		return text
	}
	for name, text := range c.files {
		if strings.HasSuffix(name, ".conf") {
			text = hostPaths(text)
		}
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	args := c.args
	if len(args) == 0 {
		args = i.cmd
	}
	cmd := exec.CommandContext(t.Context(), program(t, i.program))
	for _, arg := range args {
		cmd.Args = append(cmd.Args, hostPaths(arg))
	}
	if i.program == "nats-server" {
		cmd.Args = append(cmd.Args, "-t") // reads its configuration and ends
	} else {
		cmd.Args = append(cmd.Args, "--show-config")
	}
	cmd.Env = []string{}
	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+hostPaths(value))
		if strings.HasPrefix(value, "/run/") && hostPaths(value) == value {
			return fmt.Errorf("%s: nothing is mounted at %s", key, value)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", i.program, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	if roleStream[c.image] != "" {
		return checkMemory(c, env, string(out))
	}
	return nil
}

var recallMemory = regexp.MustCompile(`(?m)^recall-memory +(\d+) `)

// checkMemory checks GOMEMLIMIT and --recall-memory of a worker against its memory limit. Recalled executions take more
// memory than their bytes (measured: 104 MB for 64 MiB, 367 MB for 256 MiB), and other data needs memory too.
func checkMemory(c container, env map[string]string, config string) error {
	var errs []error
	if limit := size(env["GOMEMLIMIT"]); limit == 0 || limit >= size(c.memory) {
		errs = append(errs, fmt.Errorf("GOMEMLIMIT: must be below the memory limit of %s, got %q", c.memory, env["GOMEMLIMIT"]))
	}
	if m := recallMemory.FindStringSubmatch(config); m != nil && 3*size(m[1]) > size(c.memory) {
		errs = append(errs, fmt.Errorf("recall-memory: got %s bytes, more than a third of the memory limit of %s", m[1], c.memory))
	}
	return errors.Join(errs...)
}

var units = map[string]int{"": 1, "m": 1 << 20, "g": 1 << 30, "Mi": 1 << 20, "Gi": 1 << 30, "G": 1e9}

// size parses a number of bytes in the formats of compose (256m), Kubernetes (256Mi), Go (230MiB) and nats-server (18G).
func size(text string) int {
	unit := strings.TrimLeft(text, "0123456789")
	return atoi(text) * units[strings.TrimSuffix(unit, "B")]
}

// checkAddresses checks the addresses of a container's server and model, if they are in the stack: the port must exist, and
// the server's certificate must be for the host name.
func checkAddresses(s stack, c container, env map[string]string) error {
	var errs []error
	for _, key := range []string{"DEBRIEF_NATS", "DEBRIEF_BASE_URL"} {
		u, err := url.Parse(env[key])
		if err != nil || u.Host == "" || strings.Contains(u.Hostname(), ".") {
			continue // not in the stack; the program has validated the address
		}
		if port := u.Port(); !slices.Contains(s.ports[u.Hostname()], atoi(port)) {
			errs = append(errs, fmt.Errorf("%s: unknown address %s", key, u.Host))
		}
		if key == "DEBRIEF_NATS" {
			errs = append(errs, checkCertificate(s, u.Hostname(), c.files[env["DEBRIEF_CA"]]))
		}
	}
	return errors.Join(errs...)
}

// checkCertificate checks that the servers' certificate is for the host name and signed by the authority.
func checkCertificate(s stack, host, authority string) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(authority)) {
		return errors.New("DEBRIEF_CA: certificate not found")
	}
	for _, c := range s.containers {
		if c.image != "nats" {
			continue
		}
		block, _ := pem.Decode([]byte(c.files["/etc/nats/secrets/server.pem"]))
		if block == nil {
			return errors.New("server.pem: certificate not found")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			return fmt.Errorf("certificate of the server: %w", err)
		}
	}
	return nil
}

func atoi(text string) (n int) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

// healthPort returns the port of a worker's health checks.
func healthPort(i image, env map[string]string) int {
	address := i.env["DEBRIEF_HEALTH"]
	if own, ok := env["DEBRIEF_HEALTH"]; ok {
		address = own
	}
	_, port, _ := net.SplitHostPort(address)
	return atoi(port)
}

// mistake is a wrong change to a file of deploy/.
type mistake struct {
	name, file, old, new string
	want                 string // in the error of the check
}

// TestDeployFilesMatchThePrograms checks all manifests. It also checks that each of the mistakes gives an error.
func TestDeployFilesMatchThePrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	good := copyDeploy(t)
	for _, overlay := range []string{"base", "overlays/one-node", "overlays/keda"} {
		if err := checkKubernetes(t, good, overlay); err != nil {
			t.Errorf("kubernetes/%s:\n%v", overlay, err)
		}
	}
	if err := checkCompose(t, good); err != nil {
		t.Errorf("compose.yaml:\n%v", err)
	}
	for _, c := range mistakes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "deploy")
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, c.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), c.old) {
				t.Fatalf("%s does not contain %q", c.file, c.old)
			}
			if err := os.WriteFile(file, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			switch {
			case strings.HasPrefix(c.file, "compose"):
				err = checkCompose(t, dir)
			case c.file == oneNode:
				err = checkKubernetes(t, dir, "overlays/one-node")
			default:
				err = checkKubernetes(t, dir, "overlays/keda")
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

const (
	kube    = "kubernetes/base/"
	oneNode = "kubernetes/overlays/one-node/kustomization.yaml"
)

var mistakes = []mistake{
	{"unknown flag", kube + "reflector.yaml", "[--log-json,", "[--log-jason,", "--log-jason"},
	{"unknown variable", kube + "settings.env", "DEBRIEF_MODEL", "DEBRIEF_MODLE", "DEBRIEF_MODLE"},
	{"unknown command", kube + "setup.yaml", "[setup,", "[set-up,", "set-up"},
	{"invalid value", kube + "setup.yaml", "60s", "60", "60"},
	{"key not mounted", kube + "curator.yaml", "/run/secrets/curator.nk", "/run/secrets/curator.key", "nothing is mounted at /run/secrets/curator.key"},
	{"unknown secret", kube + "generator.yaml", "secret: {name: model}", "secret: {name: modell}", "modell"},
	{"unknown image", kube + "generator.yaml", "debrief/generator:dev", "debrief/generater:dev", "generater"},
	{"wrong port", kube + "generator.yaml", "containerPort: 8080", "containerPort: 8081", "8081"},
	{"probe of an unknown port name", kube + "generator.yaml", "path: /livez, port: health", "path: /livez, port: healht", "healht"},
	{"probe of an unknown path", kube + "generator.yaml", "/livez", "/alive", "/alive"},
	{"startup probe without streams", kube + "nats.yaml", "{path: /healthz,", `{path: "/healthz?js-server-only=true",`, "startup probe: want"},
	{"selector without pods", kube + "network.yaml", "{debrief/model: client}", "{debrief/model: clients}", "matches no pods"},
	{"worker without access to the server", kube + "reflector.yaml", "debrief/server: client, ", "", "access to the server: got false"},
	{"unknown field", kube + "curator.yaml", "readinessProbe:", "readynessProbe:", ".spec.template.spec.containers[0].readynessProbe: unknown field"},
	{"string for a number", kube + "curator.yaml", "GracePeriodSeconds: 60", `GracePeriodSeconds: "60"`, `terminationGracePeriodSeconds: got str "60", want integer`},
	{"required field missing", kube + "nats.yaml", "  serviceName: nats\n", "", ".spec.serviceName: required"},
	{"unknown kind", kube + "nats.yaml", "kind: PodDisruptionBudget", "kind: PodInterruptionBudget", "unknown kind policy/v1 PodInterruptionBudget"},
	{"grace period too short for work in flight", kube + "reflector.yaml", "GracePeriodSeconds: 60", "GracePeriodSeconds: 30", "30 s"},
	{"recall memory too large", kube + "generator.yaml", "67108864", "134217728", "more than a third of the memory limit of 256Mi"},
	{"GOMEMLIMIT too large", kube + "settings.env", "GOMEMLIMIT=230MiB", "GOMEMLIMIT=256MiB", "GOMEMLIMIT"},
	{"invalid GOMEMLIMIT", kube + "settings.env", "GOMEMLIMIT=230MiB", "GOMEMLIMIT=230Mi", "malformed GOMEMLIMIT"},
	{"more replicas than servers", kube + "setup.yaml", `"3"`, `"5"`, "5 replicas"},
	{"volume too small for max_file", "nats/cluster.conf", "max_file: 18G", "max_file: 24G", "max_file 24G exceeds the volume of 20Gi"},
	{"volume of a single server too small", oneNode, "value: 64Gi", "value: 20Gi", "max_file 64G exceeds the volume of 20Gi"},
	{"grace period too short for lame duck mode", "nats/cluster.conf", `"30s"`, `"2m"`, "twice the lame duck mode of 2m0s"},
	{"wrong port of the server", kube + "settings.env", "tls://nats:4222", "tls://nats:4223", "unknown address nats:4223"},
	{"wrong name of the Service", kube + "nats.yaml", "  name: nats\n  labels: {app.kubernetes.io/name: nats}\nspec:\n  clusterIP", "  name: broker\n  labels: {app.kubernetes.io/name: nats}\nspec:\n  clusterIP", "unknown address nats:4222"},
	{"wrong search path of the servers", kube + "nats.yaml", "[nats.debrief.svc", "[nats.default.svc", "DNS search path [nats.default.svc"},
	{"wrong stream of a scaler", "kubernetes/components/keda/scaled.yaml", "stream: TASKS", "stream: EXECUTIONS", "EXECUTIONS"},
	{"unknown durable", "kubernetes/components/keda/scaled.yaml", "consumer: curator", "consumer: curators", "curators"},
	{"unknown tenant", "kubernetes/components/keda/scaled.yaml", "account: debrief", "account: DEBRIEF", "unknown tenant"},
	{"scaler without a Deployment", "kubernetes/components/keda/scaled.yaml", "scaleTargetRef: {name: reflector}", "scaleTargetRef: {name: reflectors}", "reflectors"},
	{"scaler with a minimum of one worker", "kubernetes/components/keda/scaled.yaml", "minReplicaCount: 2", "minReplicaCount: 1", "minReplicaCount: must be at least 2"},
	{"wrong monitoring endpoint", "kubernetes/components/keda/scaled.yaml", "nats.debrief.svc", "nats.default.svc", "nats.default.svc"},
	{"compose: unknown variable", "compose.yaml", "DEBRIEF_MODEL:", "DEBRIEF_MODELS:", "DEBRIEF_MODELS"},
	{"compose: unknown command", "compose.yaml", "[setup,", "[set-up,", "set-up"},
	{"compose: secret not mounted", "compose.yaml", "secrets: [ca.pem, reflector.nk, model.key]", "secrets: [ca.pem, model.key]", "nothing is mounted at /run/secrets/reflector.nk"},
	{"compose: wrong port of the model", "compose.yaml", "0.0.0.0:8089", "0.0.0.0:8088", "unknown address model:8089"},
	{"compose: unknown service", "compose.yaml", "tls://nats:4222", "tls://natz:4222", "unknown address natz:4222"},
	{"compose: default recall memory", "compose.yaml", "DEBRIEF_RECALL_MEMORY: 67108864", "DEBRIEF_RECALL_TOP: 10", "more than a third of the memory limit of 256m"},
	{"compose: memory limit too small", "compose.yaml", "mem_limit: 256m", "mem_limit: 128m", "GOMEMLIMIT"},
	{"compose: container name prevents scaling", "compose.yaml", "  reflector:\n", "  reflector:\n    container_name: r\n", "container_name"},
	{"compose: writable root file system", "compose.yaml", "read_only: true", "read_only: false", "read_only"},
}
