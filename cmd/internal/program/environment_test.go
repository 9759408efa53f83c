package program

import (
	"strings"
	"testing"
)

func TestUnknownVariableIsAnError(t *testing.T) {
	t.Parallel()
	worker := Program{Name: "worker", CLI: &struct {
		Worker
		Own string
	}{}}
	for line, fine := range map[string]bool{
		"DEBRIEF_OWN=x":                          true,
		"DEBRIEF_HEALTH=:1":                      true,
		"DEBRIEF_CURATOR_SLOTS=2":                true, // a setting of another worker
		"DEBRIEF_SERVE_ONLY=true":                true,
		"DEBRIEF_BOOK=x":                         true, // a setting of debrief's commands
		"PATH=/bin":                              true,
		"DEBRIEF_OWNN=":                          true, // empty, so not set
		"DEBRIEF_VERSION=1.2":                    true,
		"DEBRIEF_SERVICE_HOST=10.0.0.1":          true,
		"DEBRIEF_NATS_PORT_4222_TCP_ADDR=10.0.0": true,
		"DEBRIEF_NATS_PORT=tcp://10.0.0.1:4222":  true,
		"DEBRIEF_OWNN=x":                         false,
		"DEBRIEF_CURATOR_SLOT=2":                 false,
		"DEBRIEF_=x":                             false,
		"DEBRIEF_PORTAL=x":                       false,
	} {
		err := worker.checkEnvironment([]string{"HOME=/", line})
		name, _, _ := strings.Cut(line, "=")
		switch {
		case fine && err != nil:
			t.Errorf("%s: got %v", line, err)
		case !fine && (err == nil || !strings.HasPrefix(err.Error(), "unknown environment variable "+name)):
			t.Errorf("%s: got %v, want an error that names it", line, err)
		}
	}
}
