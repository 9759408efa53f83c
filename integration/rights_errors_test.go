package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"debrief/events"
)

// TestWrongCredentialsErrorsHaveAFix checks that each connection with wrong rights gives one line with a fix, in the worker
// and in the doctor.
func TestWrongCredentialsErrorsHaveAFix(t *testing.T) {
	if testing.Short() {
		t.Skip("a dozen processes: not in -short")
	}
	t.Parallel()
	s := newTLSServer(t, []string{"m"})
	s.file("limits.conf", "limits.conf")
	// The generator lacks the rights to acknowledge and to its results, as after an upgrade without a new accounts.conf.
	for subject, reason := range map[string]string{
		"$JS.ACK.TASKS.generator.>": "its durable: acknowledgements", "debrief.execution.*": "its results, and executions that agents report to its service",
	} {
		s.edit("secrets/accounts.conf", `      "`+subject+`" # `+reason+"\n", "")
	}
	// An account without JetStream and without imports.
	s.edit("secrets/accounts.conf", "accounts: {\n", "accounts: {\n  empty: { users: [{user: nobody, password: nothing}] }\n")
	s.serve(syncRarely...)
	s.debrief("m", "setup", "--wait-server", "10s")
	run(t, program(t, "debrief"), "credentials", filepath.Join(s.dir, "others"))

	ca := filepath.Join(s.dir, "secrets", "ca.pem")
	stranger := []string{"--nats", s.url, "--ca", ca, "--nkey", filepath.Join(s.dir, "others", "debrief", "curator.nk")}
	bare := []string{"--nats", s.url, "--ca", ca, "--user", "nobody", "--password", "nothing"}
	for name, test := range map[string]struct {
		program string
		args    []string
		want    string // in the only line
		passes  bool   // exit code 0
	}{
		"credentials that the server does not know": {
			program: "curator", args: stranger, want: `refused the credentials: check --nkey, --creds, --user or --token; for a new key, reload the server's accounts.conf`,
		},
		"the same, of the doctor": {program: "debrief doctor", args: stranger, want: `refused the credentials: check --nkey`},
		"another role's key": {
			program: "curator", args: s.flags("m", events.RoleGenerator),
			want: `the credentials do not belong to the curator: use --nkey TENANT/curator.nk`,
		},
		"a role's key where the operator's is needed": {
			program: "debrief setup", args: s.flags("m", events.RoleGenerator), want: `the credentials do not belong to the operator: use --nkey`,
		},
		"an account without JetStream": {
			program: "curator", args: bare, want: `has no JetStream in this user's account.*connect with a key of 'debrief credentials'`,
		},
		"the same, of doctor": {program: "debrief doctor", args: bare, want: `FAIL +jetstream +not enabled`},
		"a right that is missing, of the doctor": {
			program: "debrief doctor", args: s.flags("m", events.RoleGenerator),
			want: `FAIL +rights of generator +missing: debrief\.execution\.\*; \$JS\.ACK\.TASKS\.generator\.>\n +fix: write accounts\.conf again with 'debrief credentials DIR'`,
		},
		"none is missing": {
			program: "debrief doctor", args: s.flags("m", events.RoleReflector),
			want: `ok +rights of reflector +these credentials belong to the reflector`, passes: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(test.program)
			cmd := exec.Command(program(t, words[0]), append(words[1:], test.args...)...)
			timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
			out, err := cmd.CombinedOutput()
			if (err == nil) != test.passes || !regexp.MustCompile(test.want).Match(out) {
				t.Errorf("got error %v and\n%s\nwant %s", err, out, test.want)
			}
			if lines := strings.Count(strings.TrimSpace(string(out)), "\n") + 1; words[len(words)-1] != "doctor" && lines != 1 {
				t.Errorf("got %d lines, want 1:\n%s", lines, out)
			}
		})
	}
	t.Run("a right that is missing, of the worker", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, events.RoleGenerator, events.RoleGenerator, append(s.flags("m", events.RoleGenerator), "--model", "simulated-invoice-desk", "--base-url", startModel(t, 0))...)
		log, err := os.ReadFile(w.log)
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(`(?m)^.*debrief\.execution\.\*.*rights of this user are missing: write accounts\.conf again.*$`)
		if !want.Match(log) {
			t.Errorf("got\n%s\nwant %s", log, want)
		}
	})
}
