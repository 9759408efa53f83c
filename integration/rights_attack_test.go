package integration

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
	"text/tabwriter"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"debrief/events"
)

// attacker is a user with its rights from the server's configuration.
type attacker struct {
	tenant, user string
	allow, deny  []string
	listen       []string
}

func (a *attacker) name() string { return a.tenant + "/" + a.user }

// may reports whether the user may publish to a subject.
func (a *attacker) may(subject string) bool {
	matches := func(pattern string) bool { return subjectMatches(pattern, subject) }
	return slices.ContainsFunc(a.allow, matches) && !slices.ContainsFunc(a.deny, matches)
}

// maySubscribe reports whether the user may subscribe to a subject. A message to such a subject reaches only the user.
func (a *attacker) maySubscribe(subject string) bool {
	return slices.ContainsFunc(a.listen, func(pattern string) bool { return subjectMatches(pattern, subject) })
}

func subjectMatches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s), token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

// attackers reads the users and their rights from the server's configuration.
func (w *attackEnv) attackers() (all []attacker) {
	w.t.Helper()
	o, err := natsserver.ProcessConfigFile(filepath.Join(w.dir, w.conf))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tenant := range w.tenants {
		for _, user := range roleUsers {
			key := w.conn(tenant, user).Opts.Nkey
			i := slices.IndexFunc(o.Nkeys, func(u *natsserver.NkeyUser) bool { return u.Nkey == key })
			if i < 0 {
				w.t.Fatalf("unknown user %s of %s", user, tenant)
			}
			p := o.Nkeys[i].Permissions
			all = append(all, attacker{tenant, user, p.Publish.Allow, p.Publish.Deny, p.Subscribe.Allow})
		}
	}
	return all
}

var apiSubject = regexp.MustCompile(`"(\$JS\.API\.[A-Z_.*>]+)"`)

// apiSubjects returns the subjects of the JetStream API, from the source code of the server.
func apiSubjects(t *testing.T) (subjects []string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/nats-io/nats-server/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "server", "jetstream_api.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range apiSubject.FindAllSubmatch(text, -1) {
		s := string(m[1])
		if strings.HasSuffix(s, ".") {
			s += "*.*" // CONSUMER.MSG.NEXT
		}
		if !slices.Contains(subjects, s) && s != "$JS.API.>" {
			subjects = append(subjects, s)
		}
	}
	if len(subjects) < 40 {
		t.Fatalf("found only %q", subjects)
	}
	return append(subjects, "$JS.FC.NONE.NONE.x.y", "$JS.SNAPSHOT.RESTORE.NONE.x", "$JS.SNAPSHOT.ACK.NONE.x.1.1", "$SRV.PING", "$SRV.INFO.x",
		"debrief.api.context.m", "debrief.api.execution.m", "debrief.api.feedback.m", "debrief.health", "$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING")
}

// sources returns the subjects for a user's requests: those of its rights, with existing names, and all others, with
// unknown names.
func (a *attacker) sources(api []string) (subjects []string) {
	for _, s := range a.allow {
		if strings.HasSuffix(s, "API.>") || s == "_R_.>" {
			continue
		}
		subjects = append(subjects, s)
	}
	for _, s := range api {
		if s = strings.NewReplacer("*", "NONE", ">", "NONE").Replace(s); !slices.Contains(subjects, s) {
			subjects = append(subjects, s)
		}
	}
	return subjects
}

// attack returns subject and body of an attacker's request. Its reply is the target's payload, or an empty message.
func (w *attackEnv) attack(a *attacker, source string, x target) (subject, body string) {
	subject = source
	for role, stream := range durableOf {
		if strings.HasPrefix(source, "$JS.ACK."+stream+".") {
			return w.acks[a.tenant+"/"+role], "+WPI" // still in progress: changes nothing
		}
	}
	if rest, ok := strings.CutPrefix(source, "$JS.API.DIRECT.GET."); ok {
		stream, sub, _ := strings.Cut(rest, ".")
		if at := payloadSubject(stream, x.name); sub == ">" {
			return "$JS.API.DIRECT.GET." + stream + "." + at, ""
		} else if x.kind == "stream" || x.kind == "consumer" {
			return source, `{"last_by_subj":"` + at + `"}`
		}
		return source, `{"seq":1}`
	}
	switch {
	case strings.HasPrefix(source, "$O.blobs."):
		subject = "$O.blobs.C.attack"
	case strings.Contains(source, ".MSG.GET."):
		body = `{"seq":1}`
	case strings.Contains(source, ".MSG.NEXT."):
		body = `{"no_wait":true}`
	case strings.Contains(source, ".MSG.DELETE."):
		body = `{"seq":999999}`
	}
	return strings.NewReplacer("*", "attack", ">", "attack").Replace(subject), body
}

// own returns the states that the user's rights allow a request to change.
func own(tenant, subject string) (names []string) {
	for prefix, state := range map[string]string{
		"debrief.task.": "stream TASKS", "debrief.round.": "stream TASKS", "debrief.execution.": "stream EXECUTIONS", "debrief.feedback.": "stream EXECUTIONS", "debrief.reflection.": "stream REFLECTIONS", "debrief.edit.": "stream REFLECTIONS",
		"debrief.delta.": "stream DELTAS", "debrief.dead.": "stream DEAD", "$KV.playbook.": "stream KV_playbook", "$KV.window.": "stream KV_window", "$KV.state.": "stream KV_state",
		"$KV.contexts.": "stream KV_contexts", "$KV.vectors.": "stream KV_vectors", "$KV.attempts.": "stream KV_attempts", "$KV.openruns.": "stream KV_openruns", "$KV.captures.": "stream KV_captures", "$O.blobs.": "stream OBJ_blobs",
		"$KV.erasures.": "stream KV_erasures", "$JS.API.STREAM.PURGE.KV_playbook": "stream KV_playbook",
		"debrief.head.": "announcement", "_INBOX_operator.": "inbox operator",
		"$JS.API.CONSUMER.MSG.NEXT.TASKS.generator":      "consumer TASKS/generator",
		"$JS.API.CONSUMER.MSG.NEXT.EXECUTIONS.reflector": "consumer EXECUTIONS/reflector",
		"$JS.API.CONSUMER.MSG.NEXT.REFLECTIONS.curator":  "consumer REFLECTIONS/curator",
	} {
		if strings.HasPrefix(subject, prefix) {
			names = append(names, tenant+" "+state)
		}
	}
	return names
}

// The results of a cell.
const (
	closed  = "."
	open    = "OPEN"
	granted = "own" // the user may publish to the target, or receives the message
)

// row holds the results for one source of one user.
type row struct {
	attacker, source string
	answered         bool     // whether the source answers the user
	cells            []string // by target
	other            []string // other changed states
}

// attackFrom sends one request of a user to a source for each target, with the target as reply subject. It compares the
// states before and after.
func (w *attackEnv) attackFrom(a *attacker, source string, before map[string]string) (row, map[string]string) {
	w.t.Helper()
	r := row{attacker: a.name(), source: source, cells: make([]string, len(targets))}
	nc := w.conn(a.tenant, a.user)
	var subject string
	for i, x := range targets {
		var body string
		subject, body = w.attack(a, source, x)
		reply := x.subject
		if x.kind == "ack" {
			if reply = w.acks[a.tenant+"/"+strings.Trim(x.subject, "%")]; reply == subject {
				continue
			}
		}
		if r.cells[i] = closed; a.may(reply) || a.maySubscribe(reply) {
			r.cells[i] = granted
			continue
		}
		m := &nats.Msg{Subject: subject, Reply: reply, Data: []byte(body), Header: nats.Header{}}
		if x.kind == "trace" {
			m.Header.Set("Nats-Trace-Dest", reply)
			m.Reply = ""
		}
		if err := nc.PublishMsg(m); err != nil {
			w.t.Fatal(err)
		}
	}
	// The reply to a later request of the same user to the same source comes after all earlier replies.
	if a.may(subject) {
		_, body := w.attack(a, source, targets[0])
		_, err := nc.Request(subject, []byte(body), 250*time.Millisecond)
		r.answered = err == nil
	} else if err := nc.Flush(); err != nil {
		w.t.Fatal(err)
	}
	// Effects may be delayed: read the state until it is the same twice.
	for after := w.state(); ; after = w.state() {
		names := changed(before, after)
		if before = after; len(names) == 0 {
			break
		}
		r.note(a, names, own(a.tenant, subject))
	}
	return r, w.restore(before)
}

// note enters changed states into the cells, except the allowed ones.
func (r *row) note(a *attacker, names, allowed []string) {
	known := slices.Clone(allowed)
	for i, x := range targets {
		if r.cells[i] != granted && slices.Contains(names, a.tenant+" "+x.state) && !slices.Contains(allowed, a.tenant+" "+x.state) {
			r.cells[i] = open
			known = append(known, a.tenant+" "+x.state, a.tenant+" "+x.with)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) && !slices.Contains(r.other, name) {
			r.other = append(r.other, name)
		}
	}
}

// attackAll attacks as each user, from the subjects of its rights and from others, and returns the rows.
func (w *attackEnv) attackAll(api []string) (rows []row) {
	w.t.Helper()
	state := w.state()
	for _, a := range w.attackers() {
		for _, source := range a.sources(api) {
			var r row
			r, state = w.attackFrom(&a, source, state)
			rows = append(rows, r)
		}
	}
	return rows
}

// printRows formats the table. The sources that are denied to a user share one line.
func printRows(rows []row) string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprint(tw, "\nuser\tsource\tanswered")
	for _, x := range targets {
		fmt.Fprint(tw, "\t"+x.name)
	}
	fmt.Fprintln(tw)
	var last string
	refused := map[string]int{}
	for _, r := range rows {
		if !r.answered && !slices.Contains(r.cells, open) {
			refused[r.attacker]++
		}
	}
	for _, r := range rows {
		if r.attacker != last {
			last = r.attacker
			fmt.Fprintf(tw, "%s\t%d sources without an answer, nothing open\t\n", r.attacker, refused[r.attacker])
		}
		if !r.answered && !slices.Contains(r.cells, open) {
			continue
		}
		fmt.Fprintf(tw, "\t%s\t%v\t%s\t%s\n", r.source, r.answered, strings.Join(r.cells, "\t"), strings.Join(r.other, ", "))
	}
	tw.Flush()
	return b.String()
}

// newAttackEnv creates the files of a server with higher limits, for the victims.
func newAttackEnv(t *testing.T, tenants ...string) *attackEnv {
	t.Helper()
	s := newTLSServer(t, tenants)
	s.file("limits.conf", "limits.conf", "max_streams: 32", "max_streams: 64", "max_mem: 16M", "max_mem: 64M")
	return &attackEnv{tlsServer: s, t: t, replicas: 1, tenants: tenants}
}

// syncRarely replaces the sync interval of a server, because these tests have no power loss.
var syncRarely = []string{"sync_interval: always", "sync_interval: 1m"}

// mergeAccounts moves all users of a tenant into the account of its streams, with the same rights. This configuration is
// known to be vulnerable.
func (s *tlsServer) mergeAccounts(tenant string) {
	s.t.Helper()
	name := filepath.Join(s.dir, "secrets", "accounts.conf")
	text, err := os.ReadFile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	conf, _, _ := strings.Cut(string(text), "\ngenerator_exports:")
	conf += "\naccounts: { " + tenant + ": { jetstream: $tenant_limits, users: [\n"
	for _, m := range regexp.MustCompile(`users: \[(\{nkey: .*\})\]`).FindAllStringSubmatch(string(text), -1) {
		conf += m[1] + "\n"
	}
	if err := os.WriteFile(name, []byte(conf+"] } }\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// TestReplySubjectsGiveNoAccess sends requests as each user of two tenants, to each subject of the JetStream API and of the
// user's rights, with each dangerous reply subject. No reply may have an effect. With -v it prints the table.
func TestReplySubjectsGiveNoAccess(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of attacks: not in -short")
	}
	t.Parallel()
	w := newAttackEnv(t, "m", "other")
	w.serve(syncRarely...)
	w.prepare()
	w.expectClosed()
}

// TestReplySubjectsGiveNoAccessOnCluster repeats the test on three servers, with three replicas.
func TestReplySubjectsGiveNoAccessOnCluster(t *testing.T) {
	if os.Getenv(longEnv) == "" {
		t.Skip("thousands of attacks on a cluster: set " + longEnv + "=1")
	}
	t.Parallel()
	w := newAttackEnv(t, "m", "other")
	w.replicas = 3
	w.serveCluster(syncRarely...)
	w.prepare()
	w.expectClosed()
}

// expectClosed checks that only the operator has access, and that the test can detect access.
func (w *attackEnv) expectClosed() {
	t := w.t
	t.Helper()
	began := time.Now()
	rows := w.attackAll(apiSubjects(t))
	took := time.Since(began)
	answered, byOperator := map[string]int{}, 0
	for _, r := range rows {
		_, user, _ := strings.Cut(r.attacker, "/")
		if r.answered {
			answered[user]++
		}
		for i, cell := range r.cells {
			switch {
			case cell != open:
			case user == events.UserOperator:
				byOperator++
			default:
				t.Errorf("%s: the reply of %s has an effect at %s", r.attacker, r.source, targets[i].subject)
			}
		}
		if len(r.other) > 0 {
			t.Errorf("%s: a request to %s changed %s", r.attacker, r.source, r.other)
		}
	}
	for _, user := range roleUsers {
		if answered[user] == 0 {
			t.Errorf("%s: no source answers, so the test is not meaningful", user)
		}
	}
	// The operator is a user of the streams' account. If this fails, update the documentation.
	if byOperator == 0 {
		t.Error("the operator has no access by replies, but the documentation states that it has")
	}
	t.Logf("%d cells in %s%s", len(rows)*len(targets), took.Round(time.Millisecond), printRows(rows))
	w.control()
}

// control publishes to each target directly, as a user with the right or as a client in the server's process. The state of
// the target must change.
func (w *attackEnv) control() {
	w.t.Helper()
	tenant := w.tenants[0]
	all := w.attackers()
	for _, x := range targets {
		subject := x.subject
		if x.kind == "ack" {
			subject = w.acks[tenant+"/"+strings.Trim(x.subject, "%")]
		}
		i := slices.IndexFunc(all, func(a attacker) bool { return a.tenant == tenant && a.may(subject) })
		if i < 0 {
			if x.kind != "inbox" {
				w.t.Errorf("control: no user may publish to %s", subject)
			}
			continue // covered by the control with one account
		}
		before := w.state()
		if err := w.conn(tenant, all[i].user).PublishRequest(subject, events.InboxPrefix(all[i].user)+".control", []byte(x.body)); err != nil {
			w.t.Fatal(err)
		}
		eventually(w.t, 20*time.Second, "control: "+x.name, func() error {
			if names := changed(before, w.state()); !slices.Contains(names, tenant+" "+x.state) {
				return fmt.Errorf("%s publishes to %s: only %q changed", all[i].user, subject, names)
			}
			return nil
		})
		w.restore(w.state())
	}
}

// TestReplySubjectsGiveAccessInOneAccount is the positive control: the same attacks with the same rights in one account. Each
// kind of target must be open to a role, except those that the server protects.
func TestReplySubjectsGiveAccessInOneAccount(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of attacks: not in -short")
	}
	t.Parallel()
	w := newAttackEnv(t, "m")
	w.mergeAccounts("m")
	w.serve(syncRarely...)
	w.prepare()
	rows := w.attackAll(nil)
	holes := make([]int, len(targets))
	for _, r := range rows {
		for i, cell := range r.cells {
			if cell == open && !strings.HasSuffix(r.attacker, events.UserOperator) {
				holes[i]++
			}
		}
	}
	var errs []error
	for i, x := range targets {
		// The server rejects $JS.ACK as a reply subject, and checks the rights to a trace destination.
		if shut := x.kind == "ack" || x.kind == "trace"; (holes[i] == 0) != shut {
			errs = append(errs, fmt.Errorf("%s: %d sources are open in one account", x.name, holes[i]))
		}
	}
	t.Logf("%s", printRows(rows))
	if err := errors.Join(errs...); err != nil {
		t.Errorf("the attacks do not reach:\n%v", err)
	}
}
