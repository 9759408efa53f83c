package natserr

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestIsConflict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{nats.ErrTimeout, false},
		{&jetstream.APIError{Code: 400, ErrorCode: 10071}, true},
		{fmt.Errorf("publish: %w", &jetstream.APIError{Code: 400, ErrorCode: 10164}), true},
		{&jetstream.APIError{Code: 400, ErrorCode: 10070}, false},
	} {
		if got := IsConflict(test.err); got != test.want {
			t.Errorf("%v: got %t, want %t", test.err, got, test.want)
		}
	}
}

func TestAsTimeout(t *testing.T) {
	t.Parallel()
	expired := fmt.Errorf("read: %w", context.DeadlineExceeded)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name        string
		ctx         context.Context
		err         error
		wantTimeout bool
	}{
		{"timeout of the client", t.Context(), expired, true},
		{"context of the caller", ended, expired, false},
		{"another error", t.Context(), nats.ErrNoResponders, false},
	} {
		got := AsTimeout(test.ctx, test.err)
		if errors.Is(got, nats.ErrTimeout) != test.wantTimeout || !test.wantTimeout && got != test.err {
			t.Errorf("%s: got %v, want a timeout: %t", test.name, got, test.wantTimeout)
		}
	}
	if err := AsTimeout(t.Context(), nil); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}
