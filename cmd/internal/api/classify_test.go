package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestReadError checks that the error of a request that stores nothing has no advice about stored data.
func TestReadError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err    error
		status int
		code   Code
	}{
		{fmt.Errorf("read: %w", nats.ErrTimeout), http.StatusServiceUnavailable, CodeUnavailable},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), http.StatusGatewayTimeout, CodeTimeout},
		{notFound("gone"), http.StatusNotFound, CodeNotFound},
		{errors.New("other"), http.StatusInternalServerError, CodeInternal},
	} {
		got, _ := newProblem(readError(test.err))
		if got.Status != test.status || got.Code != test.code || strings.Contains(got.Detail, "stored") {
			t.Errorf("%v: got %+v", test.err, got)
		}
	}
}
