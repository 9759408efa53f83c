package cli

import (
	"errors"
	"fmt"
	"testing"

	"debrief/cmd/internal/app"
	"debrief/events/client"
	"debrief/generator"
)

func TestRequestError(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, test := range []struct {
		name string
		err  error
		code int
	}{
		{"none", nil, 0},
		{"invalid", &generator.RequestError{Err: other}, app.ExitUsage},
		{"invalid, wrapped", fmt.Errorf("build: %w", &generator.RequestError{Err: other}), app.ExitUsage},
		{"not found", &generator.NotFoundError{Err: other}, app.ExitRefused},
		{"invalid for the service", &client.Error{Code: 400}, app.ExitUsage},
		{"not found by the service", &client.Error{Code: 404}, app.ExitRefused},
		{"busy service", &client.Error{Code: 503}, app.ExitUnreachable},
		{"other", other, app.ExitFailed},
	} {
		if err := RequestError(test.err); app.ExitCode(err) != test.code || !errors.Is(err, test.err) {
			t.Errorf("%s: got %v with exit code %d, want %d", test.name, err, app.ExitCode(err), test.code)
		}
	}
}
