package rights

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events/natserr"
)

// Hint is the hint for missing rights.
const Hint = "write accounts.conf again with 'debrief credentials DIR' of this version, and reload the servers (SIGHUP, or a restart)"

// SubjectUserInfo is the subject on which a server tells a user its rights.
const SubjectUserInfo = "$SYS.REQ.USER.INFO"

// infoTimeout limits the wait for the reply of the server.
const infoTimeout = 2 * time.Second

// UserInfo is the user of a connection with its rights, as the server reports them.
type UserInfo struct {
	User        string `json:"user"`
	Account     string `json:"account"`
	Permissions *struct {
		Publish *Permissions `json:"publish"`
	} `json:"permissions"`
}

// Permissions are patterns of subjects.
type Permissions struct {
	Allow []string `json:"allow"` // empty allows all subjects that are not denied
	Deny  []string `json:"deny"`
}

// ReadUserInfo requests the rights of the user of a connection from the server. A user without the right to its inbox gets a
// *natserr.DeniedError.
func ReadUserInfo(ctx context.Context, nc *nats.Conn, w *natserr.Watch) (*UserInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	m, err := natserr.Call(ctx, w, SubjectUserInfo, func(ctx context.Context) (*nats.Msg, error) { return nc.RequestWithContext(ctx, SubjectUserInfo, nil) })
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data UserInfo `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return nil, fmt.Errorf("invalid reply of the server: %w", err)
	}
	return &answer.Data, nil
}

// MayPublish reports whether the user may publish to a subject, or to every subject of a pattern.
func (u *UserInfo) MayPublish(subject string) bool {
	return u.Permissions == nil || u.Permissions.Publish.allows(subject)
}

// allows reports whether a user with these permissions may publish to a subject. Without permissions, which are nil, it may.
func (p *Permissions) allows(subject string) bool {
	if p == nil {
		return true
	}
	matches := func(pattern string) bool {
		pattern, _, _ = strings.Cut(pattern, " ") // remove a queue group
		return Covers(pattern, subject)
	}
	isAllowed := len(p.Allow) == 0 || slices.ContainsFunc(p.Allow, matches)
	return isAllowed && !slices.ContainsFunc(p.Deny, matches)
}

// Missing returns the subjects to which the user must be able to publish as a role, and may not.
func (u *UserInfo) Missing(role string) (subjects []string) {
	for _, of := range Users() {
		for _, g := range of.Publish {
			if of.Name == role && !u.MayPublish(g.Subject) {
				subjects = append(subjects, g.Subject)
			}
		}
	}
	return subjects
}
