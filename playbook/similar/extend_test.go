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
