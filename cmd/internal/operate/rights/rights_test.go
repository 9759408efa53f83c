package rights_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"debrief/cmd/internal/operate/rights"
	"debrief/events"
)

// TestImportsEqualRights has a server parse the configuration: each role's account imports exactly the subjects that
// its user may publish, from its own tenant.
func TestImportsEqualRights(t *testing.T) {
	t.Parallel()
	tenants := []rights.Tenant{tenant(t, "acme"), tenant(t, "globex")}
	dir := t.TempDir()
	limits, err := os.ReadFile("../../../../deploy/nats/limits.conf")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "limits.conf"), string(limits))
	write(t, filepath.Join(dir, "secrets", "accounts.conf"), rights.Conf(tenants))
	write(t, filepath.Join(dir, "server.conf"), `include "secrets/accounts.conf"`)
	o, err := server.ProcessConfigFile(filepath.Join(dir, "server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.DontListen = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	for _, tenant := range tenants {
		for _, user := range rights.Users() {
			account := tenant.Name
			if user.Name != events.UserOperator {
				account += "/" + user.Name
			}
			i := slices.IndexFunc(o.Nkeys, func(u *server.NkeyUser) bool { return u.Nkey == tenant.Keys[user.Name] })
			if i < 0 || o.Nkeys[i].Account.Name != account {
				t.Fatalf("the server has no user %s in account %s", user.Name, account)
			}
			// Published with the right, but not to another account.
			local := map[string][]string{
				events.UserOperator: {"debrief.>", "$KV.>", "$O.blobs.>", "$JS.API.>", "$JS.ACK.>", "$JS.SNAPSHOT.>", "_INBOX_operator.>"},
				events.UserGateway:  {"_INBOX_gateway.>"},
				events.RoleCurator:  {"debrief.peers.curator", "debrief.peers.curator.*"},
			}[user.Name]
			var want []string
			for _, subject := range o.Nkeys[i].Permissions.Publish.Allow {
				if subject != "_R_.>" && subject != rights.SubjectUserInfo && !slices.Contains(local, subject) {
					want = append(want, subject)
				}
			}
			got := imported(t, s, account, tenant.Name)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: imports\n%q\nmay publish\n%q", account, got, want)
			}
		}
	}
}

// imported returns the subjects that an account imports as services, all from accounts of its tenant.
func imported(t *testing.T, s *server.Server, account, tenant string) (subjects []string) {
	t.Helper()
	z, err := s.Accountz(&server.AccountzOptions{Account: account})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range z.Account.Imports {
		if i.Account == server.DEFAULT_SYSTEM_ACCOUNT {
			continue
		}
		if i.Invalid || i.Type.String() != "service" || i.Account != tenant && filepath.Dir(i.Account) != tenant {
			t.Errorf("%s imports %+v", account, i)
		}
		if s := string(i.Subject); !slices.Contains(subjects, s) {
			subjects = append(subjects, s)
		}
	}
	slices.Sort(subjects)
	return subjects
}

func TestTenantsRoundTrip(t *testing.T) {
	t.Parallel()
	want := []rights.Tenant{tenant(t, "b"), tenant(t, "a-1")}
	conf := rights.Conf(want)
	got, err := rights.Tenants(conf)
	if err != nil || rights.Conf(got) != conf {
		t.Errorf("got %v, error %v, want %v", got, err, want)
	}
}

func tenant(t *testing.T, name string) rights.Tenant {
	t.Helper()
	x := rights.Tenant{Name: name, Keys: map[string]string{}}
	for _, user := range rights.Users() {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		if x.Keys[user.Name], err = pair.PublicKey(); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
