package bustest

import (
	"flag"
	"os"
	"testing"
)

func TestPrepareUsesMemoryUnlessTestsMeasure(t *testing.T) {
	disk, memory := t.TempDir(), memoryDir()
	if memory == "" {
		memory = disk
	}
	for _, c := range []struct{ name, long, bench, want string }{
		{"tests", "", "", memory},
		{"long forms", "1", "", disk},
		{"benchmarks", "", ".", disk},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", disk)
			t.Setenv("DEBRIEF_LONG", c.long)
			if err := flag.Set("test.bench", c.bench); err != nil {
				t.Fatal(err)
			}
			defer flag.Set("test.bench", "")
			Prepare()
			if got := os.TempDir(); got != c.want {
				t.Errorf("temporary directory: got %s, want %s", got, c.want)
			}
		})
	}
}
