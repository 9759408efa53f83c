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
	"testing"
)

// What deploy/ says of the programs is checked against the programs: every container of compose.yaml and of the
// Kubernetes manifests is laid out in a directory, with the files that are mounted into it, and the program that its
// image holds is asked whether it understands its arguments and its environment.

// container is one of a stack, however that is written down.
type container struct {
	name   string
	image  string // the target of the Dockerfile
	args   []string
	memory string            // the most that it may have
	env    map[string]string // without that of the image
	files  map[string]string // what is mounted, by path
	dirs   []string          // directories that are mounted, to write to
}

// stack is what runs together.
type stack struct {
	containers []container
	reach      map[string][]int // the ports behind a name that containers ask for
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
				return nil, fmt.Errorf("image %s: runs as %s", target, m[2])
			}
		}
		all[target] = i
	}
	return all, nil
}

// deployment is a copy of deploy/ with credentials and a key in it, as deploy/compose makes them.
func deployment(t *testing.T) string {
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
	return dir
}

// deployFiles is deploy/ without the secrets that somebody may have there.
func deployFiles(t *testing.T) fs.FS {
	t.Helper()
	all := os.DirFS(".")
	names, err := fs.Glob(all, "secrets/*")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "secrets/kustomization.yaml" || n == "secrets/.gitignore" })
	return without{all, names}
}

// without is a file system that hides some names of it.
type without struct {
	fs.FS
	hidden []string
}

func (w without) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(w.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return slices.Contains(w.hidden, name+"/"+e.Name()) }), err
}

// checkStack says all that is wrong with a stack.
func checkStack(t *testing.T, dir string, s stack) error {
	all, err := images(dir)
	errs := []error{err}
	for _, c := range s.containers {
		i, ok := all[c.image]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: no target of the Dockerfile makes its image %q", c.name, c.image))
			continue
		}
		env := maps.Clone(i.env)
		maps.Copy(env, c.env)
		if err := errors.Join(understands(t, i, c, env), reaches(s, c, env)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}

// understands asks the program of a container whether it knows all that it is told, and can read it.
func understands(t *testing.T, i image, c container, env map[string]string) error {
	root := t.TempDir()
	inside := func(text string) string { // paths in the container, as paths here
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
			text = inside(text)
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
		cmd.Args = append(cmd.Args, inside(arg))
	}
	if i.program == "nats-server" {
		cmd.Args = append(cmd.Args, "-t") // reads its configuration and ends
	} else {
		cmd.Args = append(cmd.Args, "--show-config")
	}
	cmd.Env = []string{}
	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+inside(value))
		if strings.HasPrefix(value, "/run/") && inside(value) == value {
			return fmt.Errorf("%s: nothing is mounted at %s", key, value)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", i.program, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	if roleStream[c.image] != "" {
		return fits(c, env, string(out))
	}
	return nil
}

var recallMemory = regexp.MustCompile(`(?m)^recall-memory +(\d+) `)

// fits says whether a worker stays within its memory: what it keeps takes more than its bytes (measured: 64 MiB of executions
// to recall are 104 MB, 256 MiB are 367 MB), and there is more to do.
func fits(c container, env map[string]string, config string) error {
	var errs []error
	if collects := size(env["GOMEMLIMIT"]); collects == 0 || collects >= size(c.memory) {
		errs = append(errs, fmt.Errorf("GOMEMLIMIT is %q, want a bit under its limit of %s", env["GOMEMLIMIT"], c.memory))
	}
	if m := recallMemory.FindStringSubmatch(config); m != nil && 3*size(m[1]) > size(c.memory) {
		errs = append(errs, fmt.Errorf("keeps %s bytes to recall, more than a third of its limit of %s", m[1], c.memory))
	}
	return errors.Join(errs...)
}

var units = map[string]int{"": 1, "m": 1 << 20, "g": 1 << 30, "Mi": 1 << 20, "Gi": 1 << 30, "G": 1e9}

// size reads bytes as all of them are written here: 256m is compose's, 256Mi is Kubernetes', 230MiB is Go's and 18G is the
// server's.
func size(text string) int {
	unit := strings.TrimLeft(text, "0123456789")
	return atoi(text) * units[strings.TrimSuffix(unit, "B")]
}

// reaches looks whether what a container is to ask is there: the server, under a name that its certificate has, and the
// model, where that is in the stack.
func reaches(s stack, c container, env map[string]string) error {
	var errs []error
	for _, key := range []string{"DEBRIEF_NATS", "DEBRIEF_BASE_URL"} {
		u, err := url.Parse(env[key])
		if err != nil || u.Host == "" || strings.Contains(u.Hostname(), ".") {
			continue // nobody in the stack; whether it is an address, the program has said
		}
		if port := u.Port(); !slices.Contains(s.reach[u.Hostname()], atoi(port)) {
			errs = append(errs, fmt.Errorf("%s: nobody is at %s", key, u.Host))
		}
		if key == "DEBRIEF_NATS" {
			errs = append(errs, certified(s, u.Hostname(), c.files[env["DEBRIEF_CA"]]))
		}
	}
	return errors.Join(errs...)
}

// certified says whether the servers' certificate is for a name, and of an authority.
func certified(s stack, host, authority string) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(authority)) {
		return errors.New("DEBRIEF_CA: no certificate")
	}
	for _, c := range s.containers {
		if c.image != "nats" {
			continue
		}
		block, _ := pem.Decode([]byte(c.files["/etc/nats/secrets/server.pem"]))
		if block == nil {
			return errors.New("the server has no certificate")
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

// healthPort is where a worker of an image answers health checks.
func healthPort(i image, env map[string]string) int {
	address := i.env["DEBRIEF_HEALTH"]
	if own, ok := env["DEBRIEF_HEALTH"]; ok {
		address = own
	}
	_, port, _ := net.SplitHostPort(address)
	return atoi(port)
}

// change is one thing done wrong in a file of deploy/.
type change struct {
	what, file, old, new string
	want                 string // what the check says of it
}

// TestWhatDeploySaysIsWhatTheProgramsKnow also shows that the check sees what is wrong: each change makes it fail.
func TestWhatDeploySaysIsWhatTheProgramsKnow(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	good := deployment(t)
	for _, overlay := range []string{"base", "overlays/one-node", "overlays/keda"} {
		if err := checkKubernetes(t, good, overlay); err != nil {
			t.Errorf("kubernetes/%s:\n%v", overlay, err)
		}
	}
	if err := checkCompose(t, good); err != nil {
		t.Errorf("compose.yaml:\n%v", err)
	}
	for _, c := range changes {
		t.Run(c.what, func(t *testing.T) {
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
				t.Fatalf("%s does not have %q any more", c.file, c.old)
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
				t.Errorf("got %v, want something about %q", err, c.want)
			}
		})
	}
}

const (
	kube    = "kubernetes/base/"
	oneNode = "kubernetes/overlays/one-node/kustomization.yaml"
)

var changes = []change{
	{"a flag that no program has", kube + "reflector.yaml", "[--log-json,", "[--log-jason,", "--log-jason"},
	{"a variable that no program has", kube + "settings.env", "DEBRIEF_MODEL", "DEBRIEF_MODLE", "DEBRIEF_MODLE"},
	{"a command that the tool does not have", kube + "setup.yaml", "[setup,", "[set-up,", "set-up"},
	{"a value that is none", kube + "setup.yaml", "60s", "60", "60"},
	{"a key that is not mounted", kube + "curator.yaml", "/run/secrets/curator.nk", "/run/secrets/curator.key", "nothing is mounted at /run/secrets/curator.key"},
	{"a secret that nobody makes", kube + "generator.yaml", "secret: {name: model}", "secret: {name: modell}", "modell"},
	{"an image that nobody builds", kube + "generator.yaml", "debrief/generator:dev", "debrief/generater:dev", "generater"},
	{"a port that the worker does not have", kube + "generator.yaml", "containerPort: 8080", "containerPort: 8081", "8081"},
	{"a probe of a port without a name", kube + "generator.yaml", "path: /livez, port: health", "path: /livez, port: healht", "healht"},
	{"a probe that nobody answers", kube + "generator.yaml", "/livez", "/alive", "/alive"},
	{"a server that is up before its streams are", kube + "nats.yaml", "{path: /healthz,", `{path: "/healthz?js-server-only=true",`, "nothing waits for its streams"},
	{"a selector that selects nothing", kube + "network.yaml", "{debrief/model: client}", "{debrief/model: clients}", "selects nothing"},
	{"a worker that may not reach the server", kube + "reflector.yaml", "debrief/server: client, ", "", "may not reach"},
	{"a field that Kubernetes does not have", kube + "curator.yaml", "readinessProbe:", "readynessProbe:", ".spec.template.spec.containers[0].readynessProbe: there is no such field"},
	{"a text for a number", kube + "curator.yaml", "GracePeriodSeconds: 45", `GracePeriodSeconds: "45"`, `terminationGracePeriodSeconds: got str "45", want integer`},
	{"a field that Kubernetes needs", kube + "nats.yaml", "  serviceName: nats\n", "", ".spec.serviceName: is missing"},
	{"a kind that Kubernetes does not have", kube + "nats.yaml", "kind: PodDisruptionBudget", "kind: PodInterruptionBudget", "there is no policy/v1 PodInterruptionBudget"},
	{"a grace shorter than the work in flight has", kube + "reflector.yaml", "GracePeriodSeconds: 45", "GracePeriodSeconds: 30", "30 s"},
	{"a generator that keeps more than it has room for", kube + "generator.yaml", "67108864", "134217728", "more than a third of its limit of 256Mi"},
	{"a worker that outgrows its limit", kube + "settings.env", "GOMEMLIMIT=230MiB", "GOMEMLIMIT=256MiB", "GOMEMLIMIT"},
	{"a limit that Go does not understand", kube + "settings.env", "GOMEMLIMIT=230MiB", "GOMEMLIMIT=230Mi", "malformed GOMEMLIMIT"},
	{"more replicas than servers", kube + "setup.yaml", `"3"`, `"5"`, "5 replicas"},
	{"servers that may store more than there is room for", "nats/cluster.conf", "max_file: 18G", "max_file: 24G", "may store 24G on a volume of 20Gi"},
	{"one server that may", oneNode, "value: 64Gi", "value: 20Gi", "may store 64G on a volume of 20Gi"},
	{"servers that are killed before they are done", "nats/cluster.conf", `"30s"`, `"2m"`, "lame duck mode alone takes 2m0s"},
	{"a server that clients do not find", kube + "settings.env", "tls://nats:4222", "tls://nats:4223", "nobody is at nats:4223"},
	{"a Service of another name", kube + "nats.yaml", "  name: nats\n  labels: {app.kubernetes.io/name: nats}\nspec:\n  clusterIP", "  name: broker\n  labels: {app.kubernetes.io/name: nats}\nspec:\n  clusterIP", "nobody is at nats:4222"},
	{"servers that do not find each other", kube + "nats.yaml", "[nats.debrief.svc", "[nats.default.svc", "looks for names in [nats.default.svc"},
	{"a stream that is not the role's", "kubernetes/components/keda/scaled.yaml", "stream: TASKS", "stream: EXECUTIONS", "EXECUTIONS"},
	{"a durable that does not exist", "kubernetes/components/keda/scaled.yaml", "consumer: curator", "consumer: curators", "curators"},
	{"an account that is no tenant", "kubernetes/components/keda/scaled.yaml", "account: debrief", "account: DEBRIEF", "no tenant"},
	{"a scaler without a Deployment", "kubernetes/components/keda/scaled.yaml", "scaleTargetRef: {name: reflector}", "scaleTargetRef: {name: reflectors}", "reflectors"},
	{"a scaler that takes the second worker away", "kubernetes/components/keda/scaled.yaml", "minReplicaCount: 2", "minReplicaCount: 1", "leaves 1 of the two workers"},
	{"a server that does not show its lag there", "kubernetes/components/keda/scaled.yaml", "nats.debrief.svc", "nats.default.svc", "nats.default.svc"},
	{"compose: a variable that no program has", "compose.yaml", "DEBRIEF_MODEL:", "DEBRIEF_MODELS:", "DEBRIEF_MODELS"},
	{"compose: a command that the tool does not have", "compose.yaml", "[setup,", "[set-up,", "set-up"},
	{"compose: a secret that is not given", "compose.yaml", "secrets: [ca.pem, reflector.nk, model.key]", "secrets: [ca.pem, model.key]", "nothing is mounted at /run/secrets/reflector.nk"},
	{"compose: a model that listens elsewhere", "compose.yaml", "0.0.0.0:8089", "0.0.0.0:8088", "nobody is at model:8089"},
	{"compose: a service that is not there", "compose.yaml", "tls://nats:4222", "tls://natz:4222", "nobody is at natz:4222"},
	{"compose: a generator that keeps what it does by itself", "compose.yaml", "DEBRIEF_RECALL_MEMORY: 67108864", "DEBRIEF_RECALL_TOP: 10", "more than a third of its limit of 256m"},
	{"compose: a worker with less room", "compose.yaml", "mem_limit: 256m", "mem_limit: 128m", "GOMEMLIMIT"},
	{"compose: a name that keeps a service from scaling", "compose.yaml", "  reflector:\n", "  reflector:\n    container_name: r\n", "container_name"},
	{"compose: a service that may write", "compose.yaml", "read_only: true", "read_only: false", "read_only"},
}
