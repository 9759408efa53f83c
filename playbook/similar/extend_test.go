package similar

import "testing"

func TestIsExtension(t *testing.T) {
	t.Parallel()
	tests := []struct {
		of, longer string
		want       bool
	}{
		{"wait 10 s", "wait 10 s", true},
		{"wait 10 s", "wait 10 s, and wait 30 s for pallets", true},
		{"wait 10 s", "for pallets, wait 10 s and call", true},
		{"wait 10 s", "wait 10 s, never longer", true},
		{"do not wait 10 s", "do not wait 10 s for pallets", true},
		{"", "wait 10 s", true},
		{"wait 10 s", "", false},
		{"wait 10 s", "do not wait 10 s", false},
		{"wait 10 s", "wait 20 s in place of 10 s", false},
		{"wait 10 s", "wait 20 s", false},
		{"do not wait 10 s", "wait 10 s", false},
	}
	for _, test := range tests {
		if got := IsExtension(test.of, test.longer); got != test.want {
			t.Errorf("IsExtension(%q, %q) = %t", test.of, test.longer, got)
		}
	}
	if !IsNarrower("the order is packed", "the order is packed and weighs over 30 kg") || IsNarrower("the order is packed", "the order is not packed") {
		t.Error("IsNarrower")
	}
}

func TestWithoutCondition(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ condition, text, want string }{
		{"the customer is gold", "When the customer is gold, take 9 % off.", "take 9 % off."},
		{"the customer is gold", "if the Customer is gold: ask first, then take 9 % off.", "ask first, then take 9 % off."},
		{"the customer is gold, and the order is open", "When the customer is gold, and the order is open, take 9 % off.", "take 9 % off."},
		{
			"A customer wants to cancel an open order and get_order shows an item of the family Aurora",
			"When a customer asks to cancel an open order with an item of the family Aurora, call exchange_order with new_sku VOUCHER.",
			"call exchange_order with new_sku VOUCHER.",
		},
		{"the customer is gold", "Take 9 % off, when the customer is gold: always.", "Take 9 % off, when the customer is gold: always."},
		{"the customer is gold", "When the customer is not gold, take 1 % off.", "When the customer is not gold, take 1 % off."},
		{"the order weighs over 30 kg", "When the order weighs over 40 kg, split it.", "When the order weighs over 40 kg, split it."},
		{"the tool answers 409 or 503", "When it answers 503, wait.", "When it answers 503, wait."},
		{"the customer is gold", "When the parcel is late, add the fee.", "When the parcel is late, add the fee."},
		{"the customer is gold", "When the customer is gold:", "When the customer is gold:"},
		{"", "When the customer is gold, take 9 % off.", "When the customer is gold, take 9 % off."},
	} {
		if got := WithoutCondition(test.condition, test.text); got != test.want {
			t.Errorf("%q, %q: got %q, want %q", test.condition, test.text, got, test.want)
		}
	}
}

func TestCorrectsLimit(t *testing.T) {
	t.Parallel()
	const limit = "A refund of 105.10 EUR or more needs a note: already 105.10 EUR is refused."
	for _, tt := range []struct {
		name, before, after string
		want                bool
	}{
		{"one number in two places", limit, "A refund of 104.10 EUR or more needs a note: already 104.10 EUR is refused.", true},
		{"an inflection too", limit, "Refunds of 104.10 EUR or more need a note: already 104.10 EUR is refused.", true},
		{"only one of the places", limit, "A refund of 104.10 EUR or more needs a note: already 105.10 EUR is refused.", false},
		{"two rows of a table", "Above 100 EUR the fee is 5 %.", "Above 500 EUR the fee is 2 %.", false},
		{"another word", limit, "An exchange of 104.10 EUR or more needs a note: already 104.10 EUR is refused.", false},
		{"another order", "Change EUR to USD above 5.", "Change USD to EUR above 6.", false},
		{"two numbers exchanged", "Above level 2 use zone 5.", "Above level 5 use zone 3.", false},
		{"a code", "When the status code is 404: Retry once.", "When the status code is 503: Retry once.", false},
		{"a version", "With version 2 call init.", "With version 3 call init.", false},
		{"a range", "From 10 to 20 EUR add a note.", "From 20 to 30 EUR add a note.", false},
		{"a negation", "A refund above 5 EUR needs a note.", "A refund above 6 EUR needs no note.", false},
		{"another number added", "A refund above 5 EUR needs a note.", "A refund above 5 EUR or 6 EUR needs a note.", false},
		{"the same text", limit, limit, false},
		{"nothing", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := CorrectsLimit(tt.before, tt.after); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
