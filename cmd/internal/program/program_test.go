package program

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/bus"
)

func TestUserErrorSaysHowToFixAFullStore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		code jetstream.ErrorCode
		want string
	}{
		{"store", 10047, "--max-store"},
		{"account", bus.AccountFull, "free space"},
		{"sealed stream", bus.StreamSealed, "sealed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := userError(&bus.FullError{Err: &jetstream.APIError{Code: 503, ErrorCode: test.code}})
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, want %q in it", err, test.want)
			}
		})
	}
}
