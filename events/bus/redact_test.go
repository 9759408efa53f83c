package bus

import (
	"strings"
	"testing"

	"debrief/events"
)

// A payload that cannot be decoded has no secret in a dead letter, also if the replacement is as long as the secret.
func TestLetterOfAnUndecodablePayloadHasNoSecret(t *testing.T) {
	t.Parallel()
	replaced := 0
	for n := 16; n < 80; n++ {
		secret := strings.Repeat("aB3dE5gH", 10)[:n]
		l := &events.DeadLetter{Subject: "debrief.task.b", Data: []byte("\xc1 api_key=" + secret + " end")}
		was := len(l.Data)
		redactLetter(l)
		if strings.Contains(string(l.Data), secret) {
			t.Errorf("%d bytes: got %q", n, l.Data)
		}
		if len(l.Data) == was {
			replaced++
		}
	}
	if replaced == 0 {
		t.Error("no replacement has the length of its secret")
	}
}
