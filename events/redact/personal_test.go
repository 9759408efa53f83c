package redact

import "testing"

// TestPersonal is not parallel, and turns the setting off again: it holds for the whole process.
func TestPersonal(t *testing.T) {
	Personal(true)
	defer Personal(false)
	for _, test := range []struct{ name, text, want string }{
		{"e-mail", "write to ann.lee+x@mail.example.co.uk today", "write to [redacted: email address] today"},
		{"e-mail in JSON", `{"to": "ann@example.com"}`, `{"to": "[redacted: email address]"}`},
		{"international phone", "call +49 (30) 1234 5678.", "call [redacted: phone number]."},
		{"phone with 00", "call 0044 20 7946 0958", "call [redacted: phone number]"},
		{"phone of North America", "call (212) 555-0187 or 415.555.2671", "call [redacted: phone number] or [redacted: phone number]"},
		{"card", "pay with 4111 1111 1111 1111", "pay with [redacted: card number]"},
		{"card with its date", "4111 1111 1111 1111 12/27", "[redacted: card number] 12/27"},
		{"card with its code", "4111111111111111 123", "[redacted: card number] 123"},
		{"account before a word", "AT611904300234573201 EUR 50", "[redacted: bank account] EUR 50"},
		{"account in groups before a word", "BE68 5390 0754 7034 EUR", "[redacted: bank account] EUR"},
		{"card alone", "4111111111111111", "[redacted: card number]"},
		{"number that is no card", "order 4111111111111112", "order 4111111111111112"},
		{"card as a number in JSON, which stays", `{"card": 4111111111111111}`, `{"card": 4111111111111111}`},
		{"account", "to DE89 3704 0044 0532 0130 00 please", "to [redacted: bank account] please"},
		{"account with wrong digits", "to DE88370400440532013000", "to DE88370400440532013000"},
		{"ordinary numbers", "2026-11-28 12:30:05, 3.14159265, 10.0.0.1, v1.2.3-4, 1234567890123", "2026-11-28 12:30:05, 3.14159265, 10.0.0.1, v1.2.3-4, 1234567890123"},
		{"ids", "412-ab12cd34 call_Ab12Cd34 0f8fad5b-d9cb-469f-a165-70867728950e", "412-ab12cd34 call_Ab12Cd34 0f8fad5b-d9cb-469f-a165-70867728950e"},
		{"code", "user@localhost git@github 5@x", "user@localhost git@github 5@x"},
	} {
		got := Text(test.text)
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		if again := Text(got); again != got {
			t.Errorf("%s: a second call gives %q", test.name, again)
		}
	}
	for _, user := range []string{"ann@example.com", "415.555.2671", "212-555-0187", "NO9386011117947"} {
		if got := ID(user); got == user || got != ID(user) {
			t.Errorf("name of a user: got %q, want the same pseudonym each time", got)
		}
	}
	if got := ID("desk-7"); got != "desk-7" {
		t.Errorf("name of a session: got %q, want it unchanged", got)
	}
}

// TestPersonalIsOff checks that personal data stays by default: the text of a task may need it.
func TestPersonalIsOff(t *testing.T) {
	const text = "write to ann@example.com"
	if got := Text(text); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}
