package screen

import (
	"strings"
	"testing"

	"debrief/events/redact"
	"debrief/playbook/text"
)

// letters are the characters of the keys in these tests; the keys are not real.
const letters = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"

func TestSecretsAreDetected(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ what, text string }{
		{"private key", "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"},
		{"aws access key", "AKIA" + "IOSFODNN7EXAMPLE"},
		{"google key", "AIza" + letters[:35]},
		{"google token", "ya29." + letters[:34]},
		{"github token", "ghp_" + letters[:36]},
		{"github token", "github_pat_" + letters + "_x"},
		{"gitlab token", "glpat-" + letters[:20]},
		{"slack token", "xoxb-" + "123456789012-" + letters[:24]},
		{"slack webhook", "https://hooks.slack.com/services/" + "T000/B000/" + letters[:20]},
		{"openai key", "sk-" + letters},
		{"openai key", "sk-proj-" + letters},
		{"anthropic key", "sk-ant-" + "api03-" + letters},
		{"stripe key", "sk_live_" + letters[:24]},
		{"jwt", "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpM"},
		{"authorization", "Authorization: Bearer " + "0123456789abcdefghij"},
		{"password", "postgres://app:" + "hunter22@db.example.com/x"},
		{"password", "password=" + "hunter2hunter2"},
		{"secret", `"api_key": "` + `q8w7e6r5t4"`},
		{"long random token", letters[:36]},
	} {
		text := "Call the service with " + test.text + " when it refuses."
		if got := secretKind(text); got != test.what {
			t.Errorf("%s: got %q", test.text, got)
		}
		if clean := Redact(text); secretKind(clean) != "" || !redact.Marked(clean) || !strings.HasPrefix(clean, "Call the service with ") {
			t.Errorf("%s: redacted: got %q", test.what, clean)
		}
	}
}

func TestTextWithoutSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"The token is in the header Authorization: Bearer <token>; get one by login first.",
		"Set password=<your password> and api_key=os.environ['API_KEY'] before the first call.",
		"Commit 3f786850e387550fdab836ed7e6dc881de23001b broke it: sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.",
		"Call get_user_details_by_reservation_id_2024 and SearchDirectFlightsBetweenTwoAirportsV2 first.",
		"See https://docs.example.com/v2/Reference/GetUserDetailsByReservationId2024 and id 123e4567-e89b-12d3-a456-426614174000.",
		"TestTheHandlerOfReservationsThatWereChangedTwice100 fails on a Monday.",
		"Clone with git@github.com:org/repo.git or https://user@example.com/x.git.",
	} {
		if what := secretKind(text); what != "" {
			t.Errorf("%q: got secret %q, want none", text, what)
		}
	}
}

func TestTruncatedTextHasNoSecret(t *testing.T) {
	t.Parallel()
	key := "sk-" + letters
	if got := text.Excerpt(Redact(key), 50); strings.Contains(got, key) || !redact.Marked(got) {
		t.Errorf("got %q", got)
	}
}
