package program

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestSoftLimit(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, test := range []struct {
		name                string
		most, allowed, want int64
	}{
		{"no cgroup limit", gib, math.MaxInt64, gib},
		{"large cgroup", gib, 8 * gib, gib},
		{"small cgroup", gib, gib, gib / 4 * 3},
		{"no limit at all", math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{"limited by the cgroup only", math.MaxInt64, 4 * gib, 3 * gib},
	} {
		if got := softLimit(test.most, test.allowed); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}

func TestCgroupMemory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		v2, v1 string // content of the files; empty: no file
		want   int64
	}{
		{"no files", "", "", math.MaxInt64},
		{"version 2", "1048576\n", "", 1 << 20},
		{"version 1", "", "2097152\n", 2 << 20},
		{"version 2 first", "1048576\n", "2097152\n", 1 << 20},
		{"no limit in version 2", "max\n", "", math.MaxInt64},
		{"limit only in version 1", "max\n", "2097152\n", 2 << 20},
		{"zero", "0\n", "", math.MaxInt64},
		{"larger than an int64", "9999999999999999999\n", "", math.MaxInt64},
	} {
		dir := t.TempDir()
		files := []string{filepath.Join(dir, "v2"), filepath.Join(dir, "v1")}
		for i, text := range []string{test.v2, test.v1} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := cgroupMemory(files); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}
