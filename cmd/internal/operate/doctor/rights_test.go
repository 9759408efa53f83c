package doctor

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/operate/rights"
	"debrief/events"
)

// TestRoles has a server whose users may subscribe only to the inboxes of some roles.
func TestRoles(t *testing.T) {
	t.Parallel()
	inboxes := func(roles ...string) *server.Permissions {
		allow := []string{"unused"} // an empty list allows everything
		for _, role := range roles {
			allow = append(allow, "_INBOX_"+role+".>")
		}
		return &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: allow},
			Publish:   &server.SubjectPermission{Allow: []string{rights.SubjectUserInfo}},
		}
	}
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{
			{Username: "reflector", Password: "x", Permissions: inboxes(events.RoleReflector)},
			{Username: "two", Password: "x", Permissions: inboxes(events.RoleGenerator, events.RoleCurator)},
			{Username: "none", Password: "x", Permissions: inboxes()},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	for _, test := range []struct {
		name, user string
		refuse     string // role whose connection is refused
		want       []string
	}{
		{"one role", "reflector", "", []string{"rights of reflector"}},
		{"two roles", "two", "", []string{"rights of generator", "rights of curator"}},
		{"no role", "none", "", nil},
		{"refused meanwhile", "two", events.RoleReflector, []string{"rights of generator"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			x := new(Report)
			x.Add("rights", Fail, asOperator, "denied")
			x.Roles(t.Context(), func(role string) (*nats.Conn, error) {
				if role == test.refuse {
					return nil, errors.New("refused")
				}
				return nats.Connect(srv.ClientURL(), nats.UserInfo(test.user, "x"), nats.CustomInboxPrefix("_INBOX_"+role))
			})
			if want := map[bool]Result{true: Fail, false: Warn}[test.want == nil]; x.Checks[0].Result != want {
				t.Errorf("got %q for the rights of an operator, want %q", x.Checks[0].Result, want)
			}
			var got []string
			for _, c := range x.Checks[1:] {
				got = append(got, c.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got checks %v, want %v", got, test.want)
			}
		})
	}
}
