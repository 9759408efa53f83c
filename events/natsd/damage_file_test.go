package natsd

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDamageAfterTruncatedLine: a crash may truncate the last line of the file, but neither the records before it nor the next one.
func TestDamageAfterTruncatedLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add := func(stream string) {
		if err := addDamage(dir, Damage{Stream: stream, Text: "lost"}); err != nil {
			t.Fatal(err)
		}
	}
	add("A")
	add("B")
	path := filepath.Join(dir, damageName)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-5); err != nil {
		t.Fatal(err)
	}
	add("C")
	add("D")
	all, err := ReadDamage(dir)
	if err != nil || len(all) != 3 || all[0].Stream != "A" || all[1].Stream != "C" || all[2].Stream != "D" {
		t.Errorf("got %v, %v; want A, C and D", all, err)
	}
}
