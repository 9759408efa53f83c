package natsd

import (
	"strings"
	"testing"
	"time"
)

func TestValidateNamesTheField(t *testing.T) {
	for _, test := range []struct {
		name string
		c    Config
		want string // the field, "" if valid
	}{
		{"the zero config", Config{}, ""},
		{"loopback without credentials", Config{Listen: "127.0.0.1:4222"}, ""},
		{"loopback, IPv6", Config{Listen: "[::1]:4222"}, ""},
		{"loopback by name", Config{Listen: "localhost:4222"}, ""},
		{"no host is loopback", Config{Listen: ":4222"}, ""},
		{"everywhere with a password", Config{Listen: "0.0.0.0:4222", User: "u", Password: "p"}, ""},
		{"everywhere with a token", Config{Listen: "[::]:4222", Token: "t"}, ""},
		{"everywhere without credentials", Config{Listen: "0.0.0.0:4222"}, "Listen"},
		{"a name without credentials", Config{Listen: "broker:4222"}, "Listen"},
		{"a port alone", Config{Listen: "4222"}, "Listen"},
		{"a port that is none", Config{Listen: ":70000"}, "Listen"},
		{"sync by duration", Config{Sync: "100ms"}, ""},
		{"sync by a word", Config{Sync: "sometimes"}, "Sync"},
		{"sync never", Config{Sync: "0s"}, "Sync"},
		{"negative store", Config{MaxStore: -1}, "MaxStore"},
		{"user without password", Config{User: "u"}, "User, Password"},
		{"password without user", Config{Password: "hunter2"}, "User, Password"},
		{"user and token", Config{User: "u", Password: "hunter2", Token: "hunter2"}, "User, Token"},
		{"a hash as password", Config{User: "u", Password: "$2a$11$hunter2"}, "Password, Token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.c.Validate()
			if test.want == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.want+": ") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want one error, of %s", err, test.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains the password: %v", err)
			}
			if _, err := Start(test.c); err == nil {
				t.Error("Start took it")
			}
		})
	}
}

func TestOptionsReachTheServer(t *testing.T) {
	o := Config{Dir: "d"}.WithDefaults().options()
	if !o.SyncAlways || o.SyncInterval != 0 || !o.DontListen || !o.NoSigs || o.JetStreamMaxStore != 16<<30 || o.JetStreamMaxMemory != 256<<20 {
		t.Errorf("defaults: got %+v", o)
	}
	o = Config{Dir: "d", Sync: "100ms", MaxStore: 5, Listen: ":4222"}.WithDefaults().options()
	if o.SyncAlways || o.SyncInterval != 100*time.Millisecond || o.JetStreamMaxStore != 5 || o.JetStreamMaxMemory != 256<<20 || o.Host != "127.0.0.1" || o.Port != 4222 {
		t.Errorf("as asked: got %+v", o)
	}

	for sync, always := range map[string]bool{"": true, SyncAlways: true, "100ms": false} {
		s, err := Start(Config{Dir: t.TempDir(), Sync: sync})
		if err != nil {
			t.Fatal(err)
		}
		if js := s.srv.Load().JetStreamConfig(); js.SyncAlways != always || always != (js.SyncInterval == 2*time.Minute) || js.MaxStore != 16<<30 {
			t.Errorf("sync %q: the server runs with %+v", sync, js)
		}
		s.Close()
	}
}
