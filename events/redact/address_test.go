package redact

import "testing"

func TestAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                          "",
		"nats://host:4222":          "nats://host:4222",
		"host":                      "host",
		"nats://token@host:4222":    "nats://…@host:4222",
		"tls://ann:secret@host":     "tls://…@host",
		"token@host:4222":           "…@host:4222",
		"nats://a:b@c@host":         "nats://…@host",
		"nats://a:b/c@host":         "nats://…@host",
		"nats://a:b,c@host":         "nats://…@host",
		"nats://token@host:nowhere": "nats://…@host:nowhere",

		"nats://token@one,nats://two:4222,ann:secret@three": "nats://…@one,nats://…@three",
		"nats://one:4222,nats://two:4222":                   "nats://one:4222,nats://two:4222",
		"nats://a:b@one, nats://c@two":                      "nats://…@one, nats://…@two",
	} {
		if got := Address(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
