package modelapi

import "encoding/json"

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
		detail["type"] = openAIErrorType(status)
		detail["code"] = code
		detail["param"] = nil
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
