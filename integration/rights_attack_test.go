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

// attacker is a user with its rights, as the server has them.
type attacker struct {
	tenant, user string
	allow, deny  []string
	listen       []string
}

func (a *attacker) name() string { return a.tenant + "/" + a.user }

// may reports whether the user may publish to a subject itself.
func (a *attacker) may(subject string) bool {
	matches := func(pattern string) bool { return subjectMatches(pattern, subject) }
	return slices.ContainsFunc(a.allow, matches) && !slices.ContainsFunc(a.deny, matches)
}

// hears reports whether the user may subscribe to a subject: what it has sent there, it sends to itself.
func (a *attacker) hears(subject string) bool {
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

// attackers reads the users and their rights from the server's file.
func (w *attacked) attackers() (all []attacker) {
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
				w.t.Fatalf("the server has no user %s of %s", user, tenant)
			}
			p := o.Nkeys[i].Permissions
			all = append(all, attacker{tenant, user, p.Publish.Allow, p.Publish.Deny, p.Subscribe.Allow})
		}
	}
	return all
}

var apiSubject = regexp.MustCompile(`"(\$JS\.API\.[A-Z_.*>]+)"`)

// apiSubjects are the subjects of the JetStream API, from the source of the server that the tests run.
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
		"ace.api.context.m", "ace.api.execution.m", "ace.api.feedback.m", "ace.health", "$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING")
}

// sources are the subjects that a user sends requests to: those of its rights, with existing names, and all others, with
// names of nothing.
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

// request is the subject and the body of an attacker's request that has the server send a target its payload, or an empty
// message.
func (w *attacked) attack(a *attacker, source string, x target) (subject, body string) {
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

// own are the states that a request itself changes by the user's right.
func own(tenant, subject string) (names []string) {
	for prefix, state := range map[string]string{
		"ace.task.": "stream TASKS", "ace.execution.": "stream EXECUTIONS", "ace.feedback.": "stream EXECUTIONS", "ace.reflection.": "stream REFLECTIONS",
		"ace.delta.": "stream DELTAS", "ace.dead.": "stream DEAD", "$KV.playbook.": "stream KV_playbook", "$KV.window.": "stream KV_window",
		"$KV.contexts.": "stream KV_contexts", "$KV.vectors.": "stream KV_vectors", "$KV.attempts.": "stream KV_attempts", "$O.blobs.": "stream OBJ_blobs",
		"ace.head.": "announcement", "_INBOX_operator.": "inbox operator",
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
	granted = "own" // the user has the right to publish there, or receives it itself
)

// row is the result of one source of one user.
type row struct {
	attacker, source string
	answered         bool     // the server answers the user there
	cells            []string // by target
	other            []string // states that changed and are no target's
}

// assault sends, from one source of one user, a request with each target as its reply subject, and compares the state.
func (w *attacked) assault(a *attacker, source string, before map[string]string) (row, map[string]string) {
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
		if r.cells[i] = closed; a.may(reply) || a.hears(reply) {
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
	// An answer to the same user from the same place comes after the answers before it.
	if a.may(subject) {
		_, body := w.attack(a, source, targets[0])
		_, err := nc.Request(subject, []byte(body), 250*time.Millisecond)
		r.answered = err == nil
	} else if err := nc.Flush(); err != nil {
		w.t.Fatal(err)
	}
	// Effects may be late: the state must be the same twice.
	for after := w.state(); ; after = w.state() {
		names := changed(before, after)
		if before = after; len(names) == 0 {
			break
		}
		r.note(a, names, own(a.tenant, subject))
	}
	return r, w.restore(before)
}

// note enters changes into the cells, except those that the request itself makes by the user's right.
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

// assaults attacks as all users, and returns the rows.
func (w *attacked) assaults() (rows []row) {
	w.t.Helper()
	api := apiSubjects(w.t)
	state := w.state()
	for _, a := range w.attackers() {
		for _, source := range a.sources(api) {
			var r row
			r, state = w.assault(&a, source, state)
			rows = append(rows, r)
		}
	}
	return rows
}

// print writes the table, without the sources that are refused to a user: they have a line together.
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

// newAttacked makes the files of a server with more room, for the victims.
func newAttacked(t *testing.T, tenants ...string) *attacked {
	t.Helper()
	s := newSecured(t, tenants)
	s.file("limits.conf", "limits.conf", "max_streams: 16", "max_streams: 64", "max_mem: 16M", "max_mem: 64M")
	return &attacked{secured: s, t: t, replicas: 1, tenants: tenants}
}

// unsynced has a server not flush every write: nobody cuts the power.
var unsynced = []string{"sync_interval: always", "sync_interval: 1m"}

// oneAccount puts all users of a tenant into the account of its streams, with the same rights: the configuration that is
// known to be open.
func (s *secured) oneAccount(tenant string) {
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

// TestNobodyWritesThroughAReplySubject attacks as every user of two tenants, at every subject of the JetStream API and every
// subject of its rights, with every dangerous reply subject. With -v it prints the table.
func TestNobodyWritesThroughAReplySubject(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of attacks: not in -short")
	}
	t.Parallel()
	w := newAttacked(t, "m", "other")
	w.serve(unsynced...)
	w.prepare()
	w.checkClosed()
}

// TestNobodyWritesThroughAReplySubjectOfACluster is the same on three servers, with three replicas.
func TestNobodyWritesThroughAReplySubjectOfACluster(t *testing.T) {
	if os.Getenv(longEnv) == "" {
		t.Skip("thousands of attacks on a cluster: set " + longEnv + "=1")
	}
	t.Parallel()
	w := newAttacked(t, "m", "other")
	w.replicas = 3
	w.serveCluster(unsynced...)
	w.prepare()
	w.checkClosed()
}

// checkClosed expects that nothing is open but to the operator, and that the test would notice.
func (w *attacked) checkClosed() {
	t := w.t
	t.Helper()
	began := time.Now()
	rows := w.assaults()
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
				t.Errorf("%s: the answer of %s is executed at %s", r.attacker, r.source, targets[i].subject)
			}
		}
		if len(r.other) > 0 {
			t.Errorf("%s: a request to %s changed %s", r.attacker, r.source, r.other)
		}
	}
	for _, user := range roleUsers {
		if answered[user] == 0 {
			t.Errorf("%s: no source answers, so the test shows nothing", user)
		}
	}
	// The operator is a user of the streams' account. When this closes, the documentation may say so.
	if byOperator == 0 {
		t.Error("the operator writes nothing through an answer: the documentation says that it can")
	}
	t.Logf("%d cells in %s%s", len(rows)*len(targets), took.Round(time.Millisecond), printRows(rows))
	w.control()
}

// control has, for each target, a user with the right to it, or a client in the server's process, do directly what the
// attacks try: the state must change.
func (w *attacked) control() {
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
				w.t.Errorf("control: nobody may publish to %s", subject)
			}
			continue // shown by the control with one account
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

// TestOneAccountIsOpen is the positive control: the same attacks on the same rights in one account. Each kind of target is
// open to a role, but for those that the server closes by itself.
func TestOneAccountIsOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of attacks: not in -short")
	}
	t.Parallel()
	w := newAttacked(t, "m")
	w.oneAccount("m")
	w.serve(unsynced...)
	w.prepare()
	rows := w.assaults()
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
		// The server refuses $JS.ACK as a reply subject, and checks the rights to a trace destination.
		if shut := x.kind == "ack" || x.kind == "trace"; (holes[i] == 0) != shut {
			errs = append(errs, fmt.Errorf("%s: %d sources are open in one account", x.name, holes[i]))
		}
	}
	t.Logf("%s", printRows(rows))
	if err := errors.Join(errs...); err != nil {
		t.Errorf("the attacks show nothing about:\n%v", err)
	}
}
