package replay

import (
	"strings"
	"testing"
)

func TestInvalidTriesNameTheRange(t *testing.T) {
	t.Parallel()
	if err := (Config{Tries: 0}).Validate(); err != nil {
		t.Errorf("0: got %v", err)
	}
	if err := (Config{Tries: -1}).Validate(); err == nil || !strings.Contains(err.Error(), "--tries: must be 0 to") {
		t.Errorf("-1: got %v, want the range from 0", err)
	}
}
