package wire

import "encoding/json"

// failure returns the message of the error in an object, in one of the shapes of model providers, and "" without an error.
func failure(d *document, v int) string {
	switch e := d.get(v, "error"); d.kind(e) {
	case kindString:
		return d.text(e)
	case kindObject:
		for _, key := range []string{"message", "code", "type"} {
			if text := d.textAt(e, key); text != "" {
				return text
			}
		}
		return "the response contains an error without a message"
	}
	return ""
}

// foreign returns the reply for JSON of another program than a model: an error of a proxy or server, or unknown JSON.
func foreign(d *document) *Reply {
	for _, key := range []string{"message", "detail"} {
		if text := d.textAt(root, key); text != "" {
			return &Reply{Finish: FinishFailed, Error: text}
		}
	}
	return &Reply{Error: "response is not of the API of the request"}
}

// failed marks a reply as failed.
func (r *Reply) failed(message string) { r.Finish, r.Error = FinishFailed, message }

// errorTypes are the types of errors of the Messages API by HTTP status.
var errorTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
}

// ErrorBody returns the body of an error response in the shape of the API. The Messages API has no place for a code.
func ErrorBody(api API, status int, code, message string) []byte {
	detail := map[string]any{"message": message, "type": messagesErrorType(status)}
	body := map[string]any{"type": "error", "error": detail}
	if api != Messages {
		detail["type"], detail["code"], detail["param"] = openAIErrorType(status), code, nil
		body = map[string]any{"error": detail}
	}
	b, _ := json.Marshal(body) // texts always have a JSON form
	return b
}

func messagesErrorType(status int) string {
	if t, ok := errorTypes[status]; ok {
		return t
	}
	if status < 500 {
		return "invalid_request_error"
	}
	return "api_error"
}

func openAIErrorType(status int) string {
	switch {
	case status == 429:
		return "rate_limit_error"
	case status < 500:
		return "invalid_request_error"
	}
	return "server_error"
}
