package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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

const asOperator = "connect as the operator (--nkey TENANT/operator.nk): the key of a role only has the rights of that role"

// Rights requests the rights of this user from the server, and checks whether they include those of an operator. It publishes nothing
// else. It reports whether further checks are possible: a user without the right to its inbox receives no replies.
func (x *Report) Rights(ctx context.Context, nc *nats.Conn, w *natserr.Watch) bool {
	own, err := rights.ReadUserInfo(ctx, nc, w)
	if isOfRole(err) {
		x.Add("rights", Fail, asOperator, "%v", err)
		return false
	}
	if err != nil {
		x.Add("rights", Warn, "let the user publish "+rights.SubjectUserInfo, "cannot read the rights of this user: %v", err)
		return true
	}
	user := fmt.Sprintf("user %q of account %q", own.User, own.Account)
	if own.User == "" {
		user = "this user"
	}
	var refused []string
	for _, t := range tasks {
		i := slices.IndexFunc(t.subjects, func(s string) bool { return !own.MayPublish(s) })
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

// isOfRole reports whether an error denies the inbox of a connection: the credentials belong to another user.
func isOfRole(err error) bool {
	refused, ok := errors.AsType[*natserr.DeniedError](err)
	return ok && refused.Subscribe
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
		own, err := rights.ReadUserInfo(ctx, nc, natserr.NewWatch(nc))
		if isOfRole(err) {
			continue
		}
		x.excuseRole()
		x.role(own, err, role)
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

// role checks the rights of a role that the server reports. err is the error of that request.
func (x *Report) role(own *rights.UserInfo, err error, role string) {
	name := "rights of " + role
	if err != nil {
		x.Add(name, Fail, rights.Hint, "cannot read them: %v", err)
		return
	}
	if missing := own.Missing(role); len(missing) > 0 {
		x.Add(name, Fail, rights.Hint, "missing: %s", joinSome(missing))
		return
	}
	x.Add(name, OK, "", "these credentials belong to the %s and have all of its rights", role)
}
