package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/operate/rights"
	"debrief/events/natserr"
	"debrief/events/streams"
)

// task is a task of an operator, with the subjects that it publishes to.
type task struct {
	name     string
	subjects []string
}

// tasks are the tasks of an operator. Each subject is an example: it stands for all books, or for all streams.
var tasks = []task{
	{"submit tasks", []string{"debrief.task.x"}},
	{"give feedback", []string{"debrief.feedback.x"}},
	{"request edits", []string{"debrief.edit.x"}},
	{"request the health of roles", []string{"debrief.health"}},
	{"inspect streams", []string{"$JS.API.STREAM.INFO.DELTAS", "$JS.API.DIRECT.GET.DELTAS", "$JS.API.CONSUMER.INFO.EXECUTIONS.reflector"}},
	{"read streams", []string{"$JS.API.CONSUMER.CREATE.DEAD.x", "$JS.API.CONSUMER.MSG.NEXT.DEAD.x"}},
	{"requeue and drop dead letters", []string{"debrief.execution.x", "debrief.reflection.x", "$JS.API.STREAM.MSG.DELETE.DEAD"}},
	{"remove strays from playbooks", []string{"$JS.API.STREAM.MSG.DELETE.DELTAS"}},
	{"erase texts from playbooks", []string{"debrief.redaction.x.1", "$JS.API.STREAM.MSG.DELETE.REDACTIONS"}},
	{"take backups", []string{"$JS.API.STREAM.SNAPSHOT.DELTAS", "$JS.SNAPSHOT.ACK.DELTAS.x.1.1"}},
	{"restore backups", []string{"$JS.API.STREAM.RESTORE.DELTAS", "$JS.SNAPSHOT.RESTORE.DELTAS.x", "$JS.API.STREAM.DELETE.DELTAS"}},
	{"create streams and durables", []string{"$JS.API.STREAM.CREATE.DELTAS", "$JS.API.CONSUMER.CREATE.EXECUTIONS.reflector"}},
}

// permissions are patterns of subjects, as the server reports them.
type permissions struct {
	Allow []string `json:"allow"` // empty allows all subjects that are not denied
	Deny  []string `json:"deny"`
}

// allows reports whether a user with these permissions may publish to a subject. Without permissions, which are nil, it may.
func (p *permissions) allows(subject string) bool {
	if p == nil {
		return true
	}
	matches := func(pattern string) bool { return covers(pattern, subject) }
	isAllowed := len(p.Allow) == 0 || slices.ContainsFunc(p.Allow, matches)
	return isAllowed && !slices.ContainsFunc(p.Deny, matches)
}

// covers reports whether a pattern of the server matches a subject.
func covers(pattern, subject string) bool {
	pattern, _, _ = strings.Cut(pattern, " ") // remove a queue group
	return rights.Covers(pattern, subject)
}

const asOperator = "connect as the operator (--nkey TENANT/operator.nk): the key of a role only has the rights of that role"

// Rights requests the rights of this user from the server, and checks whether they include those of an operator. It publishes nothing
// else. It reports whether further checks are possible: a user without the right to its inbox receives no replies.
func (x *Report) Rights(ctx context.Context, nc *nats.Conn, w *natserr.Watch) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	const subject = "$SYS.REQ.USER.INFO"
	m, err := natserr.Call(ctx, w, subject, func(ctx context.Context) (*nats.Msg, error) { return nc.RequestWithContext(ctx, subject, nil) })
	if refused, ok := errors.AsType[*natserr.DeniedError](err); ok && refused.Subscribe {
		x.Add("rights", Fail, asOperator, "%v", err)
		return false
	}
	if err != nil {
		x.Add("rights", Warn, "let the user publish "+subject, "cannot read the rights of this user: %v", err)
		return true
	}
	var answer struct {
		Data struct {
			User        string `json:"user"`
			Account     string `json:"account"`
			Permissions *struct {
				Publish *permissions `json:"publish"`
			} `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		x.Add("rights", Warn, "", "invalid reply of the server: %v", err)
		return true
	}
	user := fmt.Sprintf("user %q of account %q", answer.Data.User, answer.Data.Account)
	if answer.Data.User == "" {
		user = "this user"
	}
	var publish *permissions
	if answer.Data.Permissions != nil {
		publish = answer.Data.Permissions.Publish
	}
	var refused []string
	for _, t := range tasks {
		i := slices.IndexFunc(t.subjects, func(s string) bool { return !publish.allows(s) })
		if i >= 0 {
			refused = append(refused, t.name+" ("+t.subjects[i]+")")
		}
	}
	if len(refused) > 0 {
		x.Add("rights", Warn, asOperator, "%s has no right to %s", user, strings.Join(refused, ", "))
		return true
	}
	x.Add("rights", OK, "", "%s has all rights of an operator", user)
	return true
}

// Roles is for a user to whom Rights has returned false. It looks for the role that these credentials belong to: the one whose inbox they
// may subscribe to. It checks the rights of that role, and turns the failed check of an operator's rights into a warning. dial connects
// with the inbox of a role. If dial fails, Roles ends without a check.
func (x *Report) Roles(ctx context.Context, dial func(role string) (*nats.Conn, error)) {
	for _, role := range streams.Roles {
		nc, err := dial(role)
		if err != nil {
			return
		}
		defer nc.Close()
		watch := natserr.NewWatch(nc)
		if mayReceive(ctx, nc, watch) {
			x.excuseRole()
			x.Role(ctx, nc, watch, role)
		}
	}
}

// excuseRole turns the failed check of an operator's rights into a warning.
func (x *Report) excuseRole() {
	for i := range x.Checks {
		if c := &x.Checks[i]; c.Name == "rights" && c.Result == Fail {
			c.Result, c.Text = Warn, "these are the credentials of a role: the checks of an operator were skipped"
		}
	}
}

// mayReceive reports whether the user of a connection may subscribe to its inbox.
func mayReceive(ctx context.Context, nc *nats.Conn, w *natserr.Watch) bool {
	const subject = "$JS.API.INFO" // any subject serves, because each reply needs the inbox
	_, err := natserr.Call(ctx, w, subject, func(ctx context.Context) (*nats.Msg, error) { return nc.RequestWithContext(ctx, subject, nil) })
	refused, ok := errors.AsType[*natserr.DeniedError](err)
	return !ok || !refused.Subscribe
}

// Role checks the rights of a role on a connection with its credentials.
func (x *Report) Role(ctx context.Context, nc *nats.Conn, w *natserr.Watch, role string) {
	missing := rights.Missing(ctx, nc, w, role)
	if len(missing) > 0 {
		x.Add("rights of "+role, Fail, rights.Hint, "missing: %s", joinSome(missing))
		return
	}
	x.Add("rights of "+role, OK, "", "these credentials belong to the %s and have all of its rights", role)
}
