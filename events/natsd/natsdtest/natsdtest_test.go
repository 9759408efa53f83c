package natsdtest

import (
	"os"
	"testing"
)

func TestUseMemoryDependsOnShort(t *testing.T) {
	want := t.TempDir()
	t.Setenv("TMPDIR", want)
	if dir := memoryDir(); dir != "" && testing.Short() {
		want = dir
	}
	UseMemory()
	if got := os.TempDir(); got != want {
		t.Errorf("temporary directory: got %s, want %s", got, want)
	}
}
