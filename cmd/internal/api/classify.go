package api

import (
	"errors"
	"net/http"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/train/replay"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/service"
	"debrief/playbook/history"
	"debrief/playbook/text"
)

// classify adds a status to the errors of the packages that the API shares with commands. It returns other errors unchanged.
// The order of the cases counts: an exit code also stands for errors of earlier cases.
func classify(err error) error {
	if errors.As(err, new(*statusError)) {
		return err
	}
	if field, ok := errors.AsType[*request.FieldError](err); ok {
		out := &statusError{status: http.StatusBadRequest, code: CodeInvalid, field: field.Field, text: field.Text}
		if field.NotFound {
			out.status, out.code = http.StatusNotFound, CodeNotFound
		}
		return out
	}
	out := &statusError{text: err.Error()}
	switch {
	case index.IsDamaged(err), errors.As(err, new(*request.ModelError)), errors.As(err, new(*bus.DeniedError)):
		out.status, out.code = http.StatusServiceUnavailable, CodeUnavailable
	case errors.Is(err, history.ErrBulletNotFound), errors.Is(err, explain.ErrExecutionNotFound), errors.Is(err, bus.ErrNotFound), errors.Is(err, replay.ErrRunNotFound):
		out.status, out.code = http.StatusNotFound, CodeNotFound
	case errors.As(err, new(*request.PendingError)), errors.As(err, new(*request.NoReplyError)):
		out.status, out.code = http.StatusGatewayTimeout, CodeTimeout
	case errors.Is(err, bus.ErrDuplicate):
		out.status, out.code = http.StatusConflict, CodeConflict
	case errors.As(err, new(*events.RefusedError)), errors.As(err, new(*bus.DeadLetterError)):
		out.status, out.code = http.StatusUnprocessableEntity, CodeRefused
	case service.ErrorResponse(err).Code != http.StatusInternalServerError: // newProblem gets the status from package service
		return err
	case program.ExitCode(err) == program.ExitUsage:
		out.status, out.code = http.StatusBadRequest, CodeInvalid
	case program.ExitCode(err) == program.ExitRefused: // an unknown version, from package explain: the first case has the broken logs
		out.status, out.code = http.StatusNotFound, CodeNotFound
	default:
		return err
	}
	return out
}

// readError returns the error of a request that stores nothing. It replaces the general texts for an unavailable server and a timeout,
// which advise the client to send its data again. It returns other errors unchanged.
func readError(err error) error {
	var unavailable interface{ Unavailable() bool }
	if errors.As(err, new(*statusError)) || errors.As(err, &unavailable) { // they have texts of their own
		return err
	}
	switch code := service.ErrorResponse(err).Code; {
	case code == http.StatusServiceUnavailable && bus.Unreachable(err):
		return &statusError{status: code, code: CodeUnavailable, text: "NATS server unavailable: try again"}
	case code == http.StatusGatewayTimeout:
		return &statusError{status: code, code: CodeTimeout, text: "timeout: the NATS server did not answer in time, try again"}
	}
	return err
}

// clip returns the beginning of a text of the client for an error.
func clip(s string) string { return text.Clip(s, 40) }
