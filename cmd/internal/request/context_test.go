package request

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/generator"
)

func TestContext(t *testing.T) {
	t.Parallel()
	other := generator.Config{}.WithDefaults()
	other.Limits.Total /= 2
	errorReply := func(code string) nats.Header {
		return nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {"some text"}}
	}
	for _, test := range []struct {
		name      string
		cfg       generator.Config
		query     string
		noService bool
		header    nats.Header
		data      string

		local, invalid, notFound, fails bool
	}{
		{name: "service", query: "?", data: `{"turn":7}`},
		{name: "default configuration", cfg: generator.Config{}.WithDefaults(), query: "?", data: `{"turn":7}`},
		{name: "no service", query: "?", noService: true, local: true},
		{name: "other configuration", cfg: other, query: "?", data: `{"turn":7}`, local: true},
		{name: "invalid for the service", query: "?", header: errorReply("400"), invalid: true, fails: true},
		{name: "not found by the service", query: "?", header: errorReply("404"), notFound: true, fails: true},
		{name: "error of the service", query: "?", header: errorReply("500"), fails: true},
		{name: "unreadable reply", query: "?", data: `{`, fails: true},
		{name: "invalid without a service", noService: true, local: true, invalid: true, fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, nc := bustest.Open(t, bus.Policy{})
			if !test.noService {
				sub, err := nc.Subscribe(events.ServiceSubject(events.VerbContext, "b", ""), func(m *nats.Msg) {
					if err := m.RespondMsg(&nats.Msg{Header: test.header, Data: []byte(test.data)}); err != nil {
						t.Error(err)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = sub.Unsubscribe() })
			}
			reply, local, err := Context(t.Context(), conn, test.cfg, &events.ContextRequest{Book: "b", Query: test.query, DryRun: true})
			if local != test.local || (err != nil) != test.fails {
				t.Fatalf("got local %t, error %v", local, err)
			}
			var invalid interface{ Invalid() bool }
			var missing interface{ NotFound() bool }
			if (errors.As(err, &invalid) && invalid.Invalid()) != test.invalid || (errors.As(err, &missing) && missing.NotFound()) != test.notFound {
				t.Errorf("got error %v, want invalid %t, not found %t", err, test.invalid, test.notFound)
			}
			if err == nil && (reply.Turn == 7) == local {
				t.Errorf("got turn %d, built locally: %t", reply.Turn, local)
			}
		})
	}
}
