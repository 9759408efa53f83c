package cli

import (
	"errors"

	"debrief/cmd/internal/app"
)

// RequestError adds the exit code to the error of a refused request: ExitUsage for an invalid one, and ExitRefused if its
// object was not found. It returns other errors unchanged.
func RequestError(err error) error {
	var invalid interface{ Invalid() bool }
	var missing interface{ NotFound() bool }
	switch {
	case errors.As(err, &invalid) && invalid.Invalid():
		return app.Exit(app.ExitUsage, err)
	case errors.As(err, &missing) && missing.NotFound():
		return app.Exit(app.ExitRefused, err)
	}
	return err
}
