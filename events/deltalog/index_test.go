package deltalog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/playbook"
)

// recordOf returns the next delta of a log, which covers these edits.
func recordOf(x *index, ids ...string) *Record {
	r := &Record{Seq: x.seq + 1, Chain: bytes.Repeat([]byte{byte(x.seq + 1)}, 32)}
	for _, id := range ids {
		r.Covers = append(r.Covers, playbook.Cover{ID: id})
	}
	return r
}

func keyOf(id string) playbook.CoverKey { return (&playbook.Cover{ID: id}).Key() }

func lookUp(t rapid.TB, x *index, id string) bool {
	t.Helper()
	ok, err := x.has(keyOf(id))
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// TestIndexContainsTheAddedIDs: after random additions, merges, saves and loads, in memory and in a file.
func TestIndexContainsTheAddedIDs(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"in memory": "", "in a file": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			rapid.Check(t, func(t *rapid.T) {
				n++
				open := func() *index {
					tail := rapid.IntRange(1, 20).Draw(t, "tail")
					return newIndex(dir, playbook.Book(fmt.Sprint("b", n)), tail, func(err error) { t.Fatal(err) })
				}
				x := open()
				added, saved := map[string]bool{}, map[string]bool{}
				for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
					ids := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,2}`), 0, 5).Draw(t, "ids")
					x.add(recordOf(x, ids...))
					for _, id := range ids {
						added[id] = true
					}
					if len(x.tail) == 0 {
						saved = map[string]bool{}
						for id := range added {
							saved[id] = true
						}
					}
					if dir == "" || i%10 != 9 {
						continue
					}
					x.close()
					x = open()
					if err := x.load(); err != nil {
						t.Fatal(err)
					}
					added = map[string]bool{}
					for id := range saved {
						added[id] = true
					}
				}
				for a := range 27 * 26 {
					id := string(rune('a' + a%26))
					if a >= 26 {
						id += string(rune('a' + a/26 - 1))
					}
					if got := lookUp(t, x, id); got != added[id] {
						t.Fatalf("%q: found %t, want %t, with %d in the run and %d in the tail", id, got, added[id], x.keys(), len(x.tail))
					}
				}
				x.close()
			})
		})
	}
}

// TestDamagedIndexFileIsRejected: truncated at any length, or with any one byte changed.
func TestDamagedIndexFileIsRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := newIndex(dir, "b", 1, func(err error) { t.Error(err) })
	x.add(recordOf(x, "a", "b", "c"))
	x.close()
	good, err := os.ReadFile(x.path())
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(x.path(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := newIndex(dir, "b", 1, nil).load(); !errors.Is(err, errDamaged) {
			t.Errorf("%s: got %v, want %v", what, err, errDamaged)
		}
	}
	for i := range good {
		try(fmt.Sprint("cut to ", i), good[:i])
		flipped := bytes.Clone(good)
		flipped[i] ^= 1
		try(fmt.Sprint("byte ", i, " changed"), flipped)
	}
	try("more after the end", append(bytes.Clone(good), make([]byte, keySize)...))
}

// TestIndexStaysInMemoryIfTheFileCannotBeWritten: the index loses no key.
func TestIndexStaysInMemoryIfTheFileCannotBeWritten(t *testing.T) {
	t.Parallel()
	for name, breakDir := range map[string]func(dir string) error{
		"a file in place of the directory": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"the directory is removed later":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "cache")
			warned := 0
			x := newIndex(dir, "b", 2, func(error) { warned++ })
			if breakDir == nil {
				x.add(recordOf(x, "early", "too"))
				breakDir = func(dir string) error {
					return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
				}
			} else {
				x.add(recordOf(x, "early"))
			}
			if err := breakDir(dir); err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				x.add(recordOf(x, fmt.Sprint("id", i)))
			}
			for _, id := range []string{"early", "id0", "id9"} {
				if !lookUp(t, x, id) {
					t.Errorf("%s: not found", id)
				}
			}
			if warned != 1 {
				t.Errorf("got %d warnings, want 1", warned)
			}
		})
	}
}

// BenchmarkIndex builds an index, opens it and looks up ids, half of them known.
func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{1_000_000, 10_000_000} {
		for _, dir := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d/file=%t", n, dir), func(b *testing.B) { benchIndex(b, n, dir) })
		}
	}
}

func benchIndex(b *testing.B, n int, inFile bool) {
	if testing.Short() && n > 1_000_000 {
		b.Skip("10 million ids take some 20 s: run without -short")
	}
	dir := ""
	if inFile {
		dir = b.TempDir()
	}
	before := heap()
	x := newIndex(dir, "b", minTail, func(err error) { b.Error(err) })
	began, ids := time.Now(), make([]string, 0, 256)
	for i := range n {
		if ids = append(ids, strconv.Itoa(i)); len(ids) == 256 || i == n-1 {
			x.add(recordOf(x, ids...))
			ids = ids[:0]
		}
	}
	measured := map[string]float64{"build-s": time.Since(began).Seconds(), "heap-MB": float64(heap()-before) / (1 << 20)}
	if inFile {
		x.merge()
		info, err := os.Stat(x.path())
		if err != nil {
			b.Fatal(err)
		}
		measured["file-MB"] = float64(info.Size()) / (1 << 20)
		x.close()
		x = newIndex(dir, "b", minTail, nil)
		began = time.Now()
		if err := x.load(); err != nil {
			b.Fatal(err)
		}
		measured["open-s"] = time.Since(began).Seconds()
	}
	for b.Loop() {
		i := rand.IntN(2 * n)
		if ok, err := x.has(keyOf(strconv.Itoa(i))); err != nil || ok != (i < n) {
			b.Fatal(i, ok, err)
		}
	}
	for unit, value := range measured {
		b.ReportMetric(value, unit)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// SmallIndexes makes the indexes of a store merge and save early.
func (s *Store) SmallIndexes() { s.minTail = 4 }

// SmallHeads sets the size of the recent bullets in the heads that the store writes. A bullet of the tests takes 100 to 200 bytes.
func (s *Store) SmallHeads(size int) { s.maxRecent = size }
