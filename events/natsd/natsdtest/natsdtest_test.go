package natsdtest

import (
	"os"
	"testing"
)

func TestPrepareDependsOnShort(t *testing.T) {
	want := t.TempDir()
	t.Setenv("TMPDIR", want)
	if dir := memoryDir(); dir != "" && testing.Short() {
		want = dir
	}
	Prepare()
	if got := os.TempDir(); got != want {
		t.Errorf("temporary directory: got %s, want %s", got, want)
	}
}
