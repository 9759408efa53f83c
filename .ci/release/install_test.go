package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// runsFile has two runs with the same error of a tool, as in README.md: enough to learn from, without a model.
const runsFile = `{"question": "Cancel order 7", "outcome": "success", "steps": [{"tool_calls": [{"tool": "cancel", "arguments": "{\"id\": 7}", "output": "Error: id must be text", "outcome": "failure"}]}, {"tool_calls": [{"tool": "cancel", "arguments": "{\"id\": \"7\"}", "output": "ok"}]}]}
{"question": "Cancel order 8", "outcome": "success", "steps": [{"tool_calls": [{"tool": "cancel", "arguments": "{\"id\": 8}", "output": "Error: id must be text", "outcome": "failure"}]}, {"tool_calls": [{"tool": "cancel", "arguments": "{\"id\": \"8\"}", "output": "ok"}]}]}
`

// learned is in the playbook after 'debrief learn' has read the runs.
const learned = "id must be text"

// installScript begins each script of a container. The clean system has no init, so the service is the command of its unit,
// with its user.
const installScript = `set -eu
service() { # starts the command of the unit, and waits until it is ready
  setpriv --reuid debrief --regid debrief --clear-groups env -i HOME=/var/lib/debrief $(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/debrief.service) >/tmp/log 2>&1 &
  ready
}
ready() { for i in $(seq 300); do curl -sf http://127.0.0.1:4280/readyz >/dev/null && return; sleep 0.1; done; cat /tmp/log >&2; return 1; }
stop() { kill $!; wait $! || true; }
learn() { debrief learn /test/runs.jsonl --book orders | grep 'id must be text'; }
shown() { debrief playbook show --book orders | grep 'id must be text'; }
now() { date +%s%N; }
command -v go && { echo 'the system has Go' >&2; exit 1; }
`

const debScript = installScript + `
began=$(now)
dpkg -i /one/debrief_*.deb
echo "installed in $((($(now) - began) / 1000000)) ms"
debrief --version | grep '^v0.1.0,'
[ "$(stat -c '%U %a' /var/lib/debrief)" = 'debrief 750' ]
service
learn
echo "learned $((($(now) - began) / 1000000)) ms after the begin"
stop
echo '# mine' >>/etc/debrief/debrief.yaml
dpkg -i /two/debrief_*.deb
debrief --version | grep '^v0.2.0,'
tail -1 /etc/debrief/debrief.yaml | grep '^# mine$'
service
shown
stop
dpkg --remove debrief
[ -d /var/lib/debrief ] && [ -e /etc/debrief/debrief.yaml ]
dpkg --purge debrief
! getent passwd debrief
left=$(find / -xdev -name '*debrief*' -not -path '/root/*') # of the user: marks of learn
[ -z "$left" ] || { echo "left: $left" >&2; exit 1; }
`

const rpmScript = installScript + `
rpm -i --nodeps /one/debrief-*.rpm # Debian's database has no packages of rpm
debrief --version | grep '^v0.1.0,'
service
learn
stop
echo '# mine' >>/etc/debrief/debrief.yaml
rpm -U --nodeps /two/debrief-*.rpm
debrief --version | grep '^v0.2.0,'
tail -1 /etc/debrief/debrief.yaml | grep '^# mine$'
service
shown
stop
rpm -e debrief
[ ! -e /usr/bin/debrief ] && [ -d /var/lib/debrief ] && [ -e /etc/debrief/debrief.yaml.rpmsave ]
`

const tarScript = installScript + `
began=$(now)
tar -C /opt -xzf /one/debrief_*_linux_*.tar.gz
export PATH="$(echo /opt/debrief_*):$PATH"
debrief up >/tmp/log 2>&1 &
ready
learn
echo "learned $((($(now) - began) / 1000000)) ms after the begin"
stop
rm -rf /opt/debrief_*
tar -C /opt -xzf /two/debrief_*_linux_*.tar.gz
export PATH="$(echo /opt/debrief_*):$PATH"
debrief --version | grep '^v0.2.0,'
debrief up >/tmp/log 2>&1 &
ready
shown
stop
`

// baseImage imports a clean Debian with curl and rpm, and without Go, from debootstrap. It skips the test if the machine cannot.
func baseImage(t *testing.T) string {
	t.Helper()
	requireDocker(t)
	if _, err := exec.LookPath("debootstrap"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs debootstrap and root to create a clean system")
	}
	const image = "debrief-release-test:bookworm"
	if exec.Command("docker", "image", "inspect", image).Run() == nil {
		return image
	}
	dir := t.TempDir()
	command(t, dir, "debootstrap", "--variant=minbase", "--include=curl,rpm", "bookworm", "root")
	command(t, dir, "bash", "-c", "tar -C root -c . | docker import - "+image)
	return image
}

func requireDocker(t *testing.T) {
	t.Helper()
	if err := exec.Command("docker", "info").Run(); err != nil {
		t.Skip("no container engine")
	}
}

// TestInstall installs each kind of package on a clean system without network: start with one command, learn with one, upgrade
// to the next version with the data in place, remove.
func TestInstall(t *testing.T) {
	long(t)
	image := baseImage(t)
	one, two, dir := built(t, "0.1.0"), built(t, "0.2.0"), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "runs.jsonl"), []byte(runsFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the service has another user
		t.Fatal(err)
	}
	for kind, script := range map[string]string{"deb": debScript, "rpm": rpmScript, "tar": tarScript} {
		t.Run(kind, func(t *testing.T) {
			t.Log(command(t, dir, "docker", "run", "--rm", "--network", "none", "-v", one+":/one:ro", "-v", two+":/two:ro", "-v", dir+":/test:ro",
				image, "bash", "-c", script))
		})
	}
}

// TestInstallImage does the same with the image of debrief and a volume.
func TestInstallImage(t *testing.T) {
	long(t)
	requireDocker(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "runs.jsonl"), []byte(runsFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h, err := readHome("home.env")
	if err != nil {
		t.Fatal(err)
	}
	server := fmt.Sprintf("debrief-release-test-%d", os.Getpid())
	t.Cleanup(func() {
		_ = exec.Command("docker", "rm", "-f", server).Run() // best effort: the test may have failed before it existed
		_ = exec.Command("docker", "volume", "rm", server).Run()
	})
	nats, http := freeAddress(t), freeAddress(t)
	for _, step := range []struct {
		version string
		act     []string
	}{
		{"0.1.0", []string{"learn", "/test/runs.jsonl", "--book", "orders"}},
		{"0.2.0", []string{"playbook", "show", "--book", "orders"}},
	} {
		began := time.Now()
		image := h.registry + "/debrief:" + step.version
		t.Cleanup(func() { _ = exec.Command("docker", "rmi", image).Run() }) // best effort
		command(t, dir, "docker", "load", "-q", "-i", one(t, built(t, step.version), "*_images_"+runtime.GOARCH+".tar"))
		command(t, dir, "docker", "run", "-d", "--name", server, "--network", "host", "-v", server+":/data", image,
			"up", "--data", "/data", "--listen", nats, "--http", http)
		waitFor(t, http, server)
		out := command(t, dir, "docker", append([]string{"run", "--rm", "--network", "host", "-v", dir + ":/test:ro", image},
			append(step.act, "--nats", "nats://"+nats)...)...)
		if !strings.Contains(out, learned) {
			t.Errorf("%s: got\n%s\nwithout %q", step.version, out, learned)
		}
		t.Logf("%s: %.1f s", step.version, time.Since(began).Seconds())
		command(t, dir, "docker", "rm", "-f", server)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// waitFor waits until a server answers.
func waitFor(t *testing.T, address, container string) {
	t.Helper()
	for range 300 {
		if exec.Command("curl", "-sf", "http://"+address+"/readyz").Run() == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	out, _ := exec.Command("docker", "logs", container).CombinedOutput()
	t.Fatalf("%s does not answer\n%s", address, out)
}

// TestClientsInstallOffline installs the wheel and the npm tarball without a network index, and reports a run with each.
func TestClientsInstallOffline(t *testing.T) {
	long(t)
	dist, dir := built(t, "0.1.0"), t.TempDir()
	command(t, dir, "tar", "-xzf", one(t, dist, "debrief_0.1.0_linux_*.tar.gz"), "--strip-components=1")
	nats, http := freeAddress(t), freeAddress(t)
	up := exec.Command(filepath.Join(dir, "debrief"), "up", "--data", filepath.Join(dir, "data"), "--listen", nats, "--http", http)
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = up.Process.Signal(os.Interrupt) // best effort
		_ = up.Wait()
	})
	waitFor(t, http, "")
	t.Setenv("DEBRIEF_URL", "http://"+http)
	for tool, script := range map[string]string{
		"python3": `python3 -m venv py && py/bin/pip install -q --no-index "$1"/debrief-0.1.0-py3-none-any.whl && cd / &&
"$2"/py/bin/python -c 'import debrief
with debrief.run("Where is the globe?") as run:
    run.answer, run.outcome = "Shelf 7.", True
assert run.handle, run.degraded
print(run.handle, debrief.__file__)'`,
		"npm": `mkdir js && cd js && npm init -y >/dev/null && npm install --offline --no-audit --silent "$1"/debrief-npm-0.1.0.tgz && cat >agent.mjs <<'END'
import { Client } from "debrief";
let seen;
await new Client().run("Where is the map?", async (run) => { seen = run; return "Shelf 9."; });
if (!seen.handle) throw new Error(seen.degraded);
console.log(seen.handle);
END
node agent.mjs`,
	} {
		t.Run(tool, func(t *testing.T) {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skip(err)
			}
			t.Log(command(t, dir, "bash", "-c", script, "-", dist, dir))
		})
	}
}

// TestOtherArchitecture starts the program for the other architecture of Linux under an emulator. It learns from two runs.
func TestOtherArchitecture(t *testing.T) {
	long(t)
	arch, emulator := "arm64", "qemu-aarch64"
	if runtime.GOARCH == arch {
		arch, emulator = "amd64", "qemu-x86_64"
	}
	path, err := exec.LookPath(emulator)
	if err != nil {
		path, err = exec.LookPath(emulator + "-static")
	}
	if err != nil {
		t.Skipf("no %s: install qemu-user", emulator)
	}
	dir := t.TempDir()
	b := &build{root: "../.."}
	if _, err := b.goCommand(platform{"linux", arch}, "build", "-trimpath", "-o", filepath.Join(dir, "debrief"), "./cmd/debrief"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "runs.jsonl"), []byte(runsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := command(t, dir, path, "./debrief", "--version"); !strings.Contains(out, "go1.") {
		t.Errorf("got the version %q", out)
	}
	command(t, dir, path, "./debrief", "learn", "runs.jsonl", "--data", "data", "--book", "orders")
	if out := command(t, dir, path, "./debrief", "playbook", "show", "--data", "data", "--book", "orders"); !strings.Contains(out, learned) {
		t.Errorf("got the playbook %q, want %q in it", out, learned)
	}
}
