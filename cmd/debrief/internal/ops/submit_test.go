package ops

import (
	"reflect"
	"testing"
	"time"

	"debrief/events/chat/openai"
)

// TestSubmitWaitsAsLongAsALocalModelMayTake compares the default of --wait-timeout with the time-out of a model at a local server.
func TestSubmitWaitsAsLongAsALocalModelMayTake(t *testing.T) {
	t.Parallel()
	field, ok := reflect.TypeFor[Submit]().FieldByName("WaitTimeout")
	if !ok {
		t.Fatal("no field WaitTimeout")
	}
	got, err := time.ParseDuration(field.Tag.Get("default"))
	if want := (openai.Config{BaseURL: "http://127.0.0.1:11434/v1"}).WithDefaults().Timeout; err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
