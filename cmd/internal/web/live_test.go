package web

import (
	"io"
	"net/http"
	"strings"
)

// hasEvents reports whether the API has the route of server-sent events.
func (in *installation) hasEvents() bool {
	resp, err := http.Get(in.open.URL + "/api/v1/") //nolint:noctx // a test of a local server
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return err == nil && strings.Contains(string(data), `"/api/v1/events"`)
}
