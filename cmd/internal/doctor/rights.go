package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/rights"
	"debrief/events/denied"
)

// deed is what an operator does, and the subjects that it takes to publish.
type deed struct {
	what     string
	subjects []string
}

// deeds of an operator. The subjects stand for all of their kind: any book, any stream.
var deeds = []deed{
	{"hand in tasks", []string{"ace.task.x"}},
	{"give feedback", []string{"ace.feedback.x"}},
	{"ask for edits", []string{"ace.edit.x"}},
	{"call the roll", []string{"ace.health"}},
	{"look at streams", []string{"$JS.API.STREAM.INFO.DELTAS", "$JS.API.DIRECT.GET.DELTAS", "$JS.API.CONSUMER.INFO.EXECUTIONS.reflector"}},
	{"read streams", []string{"$JS.API.CONSUMER.CREATE.DEAD.x", "$JS.API.CONSUMER.MSG.NEXT.DEAD.x"}},
	{"requeue and drop dead letters", []string{"ace.execution.x", "ace.reflection.x", "$JS.API.STREAM.MSG.DELETE.DEAD"}},
	{"remove strays from playbooks", []string{"$JS.API.STREAM.MSG.DELETE.DELTAS"}},
	{"take backups", []string{"$JS.API.STREAM.SNAPSHOT.DELTAS", "$JS.SNAPSHOT.ACK.DELTAS.x.1.1"}},
	{"restore backups", []string{"$JS.API.STREAM.RESTORE.DELTAS", "$JS.SNAPSHOT.RESTORE.DELTAS.x", "$JS.API.STREAM.DELETE.DELTAS"}},
	{"make streams and durables", []string{"$JS.API.STREAM.CREATE.DELTAS", "$JS.API.CONSUMER.CREATE.EXECUTIONS.reflector"}},
}

// list is what the server allows and denies.
type list struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

func (l *list) lets(subject string) bool {
	if l == nil {
		return true
	}
	allowed := len(l.Allow) == 0
	for _, p := range l.Allow {
		allowed = allowed || covers(p, subject)
	}
	for _, p := range l.Deny {
		allowed = allowed && !covers(p, subject)
	}
	return allowed
}

// covers reports whether a subject is one of a pattern's.
func covers(pattern, subject string) bool {
	pattern, _, _ = strings.Cut(pattern, " ") // a queue group follows
	return rights.Covers(pattern, subject)
}

const asOperator = "connect as the operator (--nkey TENANT/operator.nk): the key of a role shows the rights of that role only"

// Rights asks the server what this user may do. Nothing is tried. It reports whether there is any point in going on: who
// may not listen to our inboxes hears no answer.
func (x *Exam) Rights(ctx context.Context, nc *nats.Conn, w *denied.Watch) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	const subject = "$SYS.REQ.USER.INFO"
	m, err := denied.Call(ctx, w, subject, func(ctx context.Context) (*nats.Msg, error) { return nc.RequestWithContext(ctx, subject, nil) })
	if refused := (*denied.Error)(nil); errors.As(err, &refused) && refused.Listen {
		x.Add("rights", Fail, asOperator, "%v", err)
		return false
	}
	if err != nil {
		x.Add("rights", Warn, "let the user publish "+subject, "the server does not say what this user may do: %v", err)
		return true
	}
	var answer struct {
		Data struct {
			User        string `json:"user"`
			Account     string `json:"account"`
			Permissions *struct {
				Publish *list `json:"publish"`
			} `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		x.Add("rights", Warn, "", "the server's answer cannot be read: %v", err)
		return true
	}
	who := fmt.Sprintf("user %q of account %q", answer.Data.User, answer.Data.Account)
	if answer.Data.User == "" {
		who = "this user"
	}
	var publish *list
	if answer.Data.Permissions != nil {
		publish = answer.Data.Permissions.Publish
	}
	var refused []string
	for _, d := range deeds {
		for _, s := range d.subjects {
			if !publish.lets(s) {
				refused = append(refused, d.what+" ("+s+")")
				break
			}
		}
	}
	if len(refused) > 0 {
		x.Add("rights", Warn, asOperator, "%s may not %s", who, strings.Join(refused, ", "))
		return true
	}
	x.Add("rights", OK, "", "%s may do all that an operator does", who)
	return true
}

// Role checks the rights of a role whose connection this is.
func (x *Exam) Role(ctx context.Context, nc *nats.Conn, w *denied.Watch, role string) {
	missing := rights.Missing(ctx, nc, w, role)
	if len(missing) > 0 {
		x.Add("rights of "+role, Fail, rights.Cure, "missing: %s", some(missing))
		return
	}
	x.Add("rights of "+role, OK, "", "these credentials are the %s's, and all of its rights reach the streams", role)
}
