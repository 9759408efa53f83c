package deltalog

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"debrief/playbook"
)

// index is the set of keys of all events that a book's log covers, up to a delta. It answers whether an event is
// covered without reading the log.
//
// Most keys are in one sorted run of 16 bytes each, in a file or, without a directory, in memory. The newest keys are in
// a map, the tail, at about 40 bytes each. The tail is merged into the run when it has an eighth of the run's keys, but at least
// minTail and at most maxTail. So a million ids take 16 MB of file and up to 5 MB of memory. A key is as wide as an event's id, so the
// index is exact.
//
// The file is a cache. It is replaced atomically by a rename. A damaged file does not match its checksum, and a file of
// another log refers to a delta that this log does not contain. In both cases the index is rebuilt from the log.
type index struct {
	dir     string // empty: keep everything in memory
	book    playbook.Book
	warn    func(error)
	minTail int // minimum number of keys in the tail before a merge

	seq   uint64 // of the last delta in it, 0 for none
	chain []byte // of the log up to that delta

	run  *io.SectionReader // the sorted keys
	file *os.File          // file of run, nil in memory
	tail map[playbook.CoverKey]struct{}
	// fence has the first key of each page of the run, so that a look-up reads one page.
	fence []playbook.CoverKey
}

const (
	keySize  = int64(len(playbook.CoverKey{}))
	pageKeys = 256     // keys in a page of the run
	minTail  = 1 << 14 // see index.minTail
	maxTail  = 1 << 20
)

func newIndex(dir string, b playbook.Book, minTail int, warn func(error)) *index {
	x := &index{dir: dir, book: b, warn: warn, minTail: minTail}
	x.reset()
	return x
}

// reset removes all keys.
func (x *index) reset() {
	x.close()
	x.seq, x.chain = 0, nil
	x.run, x.fence = io.NewSectionReader(bytes.NewReader(nil), 0, 0), nil
	x.tail = make(map[playbook.CoverKey]struct{})
}

// add indexes the covers of the next delta of the log.
func (x *index) add(r *Record) {
	for i := range r.Covers {
		c := &r.Covers[i]
		x.tail[c.Key()] = struct{}{}
		if c.Evidence != nil && c.Evidence.FeedbackSeq > 0 {
			x.tail[playbook.FeedbackKey(c.Evidence.Sample)] = struct{}{}
		}
	}
	x.seq, x.chain = r.Seq, r.Chain
	if len(x.tail) >= x.tailLimit() {
		x.merge()
	}
}

// keys returns the number of keys in the run.
func (x *index) keys() int64 { return x.run.Size() / keySize }

// tailLimit returns the number of keys at which the tail is merged into the run.
func (x *index) tailLimit() int { return max(x.minTail, min(int(x.keys()/8), maxTail)) }

// has reports whether a key is in the index. It returns an error if the file cannot be read.
func (x *index) has(key playbook.CoverKey) (bool, error) {
	if _, ok := x.tail[key]; ok {
		return true, nil
	}
	page, found := slices.BinarySearchFunc(x.fence, key, compareKeys)
	if found { // it is the first key of a page
		return true, nil
	}
	if page == 0 { // it is less than all keys
		return false, nil
	}
	first := int64(page-1) * pageKeys
	keys := make([]byte, min(pageKeys, x.keys()-first)*keySize)
	if _, err := x.run.ReadAt(keys, first*keySize); err != nil {
		return false, fmt.Errorf("read the index of covered ids of playbook %q: %w", x.book, err)
	}
	_, found = sort.Find(len(keys)/len(key), func(i int) int { return bytes.Compare(key[:], keys[i*len(key):(i+1)*len(key)]) })
	return found, nil
}

func compareKeys(a, b playbook.CoverKey) int { return bytes.Compare(a[:], b[:]) }

// setRun replaces the sorted run of the index. file is the file that contains the run, nil in memory.
func (x *index) setRun(run *io.SectionReader, file *os.File) error {
	var fence []playbook.CoverKey
	for offset := int64(0); offset < run.Size(); offset += pageKeys * keySize {
		var key playbook.CoverKey
		if _, err := run.ReadAt(key[:], offset); err != nil {
			return err
		}
		fence = append(fence, key)
	}
	x.close()
	x.run, x.file, x.fence = run, file, fence
	return nil
}

// merge moves the tail into the run. If the file cannot be written, it keeps the run in memory.
func (x *index) merge() {
	tail := make([]playbook.CoverKey, 0, len(x.tail))
	for key := range x.tail {
		tail = append(tail, key)
	}
	slices.SortFunc(tail, compareKeys)
	if x.dir != "" {
		err := x.mergeToFile(tail)
		if err == nil {
			return
		}
		x.warn(fmt.Errorf("write the index of covered ids of playbook %q: %w; keeping it in memory", x.book, err))
		x.dir = ""
	}
	var run bytes.Buffer
	run.Grow(int((x.keys() + int64(len(tail))) * keySize))
	keys, err := x.mergeTo(&run, tail)
	if err == nil {
		err = x.setRun(io.NewSectionReader(bytes.NewReader(run.Bytes()), 0, keys*keySize), nil)
	}
	if err == nil { // otherwise the tail keeps the new keys, and the next call of has returns the error of the file
		clear(x.tail)
	}
}

// mergeTo writes the keys of the run and of the sorted tail without duplicates and returns their number.
func (x *index) mergeTo(w io.Writer, tail []playbook.CoverKey) (keys int64, err error) {
	run := bufio.NewReaderSize(io.NewSectionReader(x.run, 0, x.run.Size()), 1<<16)
	out := bufio.NewWriterSize(w, 1<<16) // Flush returns the error of any Write
	put := func(key playbook.CoverKey) {
		_, _ = out.Write(key[:])
		keys++
	}
	for range x.keys() {
		var old playbook.CoverKey
		if _, err := io.ReadFull(run, old[:]); err != nil {
			return 0, err
		}
		for len(tail) > 0 && compareKeys(tail[0], old) < 0 {
			put(tail[0])
			tail = tail[1:]
		}
		if len(tail) > 0 && tail[0] == old {
			tail = tail[1:]
		}
		put(old)
	}
	for _, key := range tail {
		put(key)
	}
	return keys, out.Flush()
}

// The file contains the SHA-256 of the rest, the sequence of the last delta, its chain hash, the number of keys, and the
// keys.
const (
	headerSize = int64(sha256.Size + 8 + sha256.Size + 8)
	indexExt   = ".ids"
)

func (x *index) path() string { return filepath.Join(x.dir, string(x.book)+indexExt) }

// mergeToFile moves the tail into a new file, which becomes the run.
func (x *index) mergeToFile(tail []playbook.CoverKey) error {
	if err := os.MkdirAll(x.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(x.dir, string(x.book)+".*.tmp")
	if err != nil {
		return err
	}
	keys, err := x.write(f, tail)
	if err == nil {
		err = os.Rename(f.Name(), x.path())
	}
	if err == nil {
		err = x.setRun(io.NewSectionReader(f, headerSize, keys*keySize), f)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return err
	}
	clear(x.tail)
	return nil
}

// write writes the whole file and returns its number of keys.
func (x *index) write(f *os.File, tail []playbook.CoverKey) (int64, error) {
	if _, err := f.Seek(headerSize, io.SeekStart); err != nil {
		return 0, err
	}
	keys, err := x.mergeTo(f, tail)
	if err != nil {
		return 0, err
	}
	header := make([]byte, sha256.Size, headerSize) // the first field is filled below
	header = binary.BigEndian.AppendUint64(header, x.seq)
	header = append(header, x.chain...)
	header = binary.BigEndian.AppendUint64(header, uint64(keys))
	sum := sha256.New()
	sum.Write(header[sha256.Size:])
	if _, err := io.Copy(sum, io.NewSectionReader(f, headerSize, keys*keySize)); err != nil {
		return 0, err
	}
	copy(header, sum.Sum(nil))
	_, err = f.WriteAt(header, 0)
	return keys, err
}

var errDamaged = errors.New("file is damaged")

// load reads the file of an empty index. If the file is missing, the index stays empty.
func (x *index) load() error {
	if x.dir == "" {
		return nil
	}
	f, err := os.Open(x.path())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = x.read(f)
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("read the index of covered ids of playbook %q: %w", x.book, err)
	}
	return nil
}

// read makes the file the run of the index, after it has compared the checksum.
func (x *index) read(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header := make([]byte, headerSize)
	if _, err := f.ReadAt(header, 0); err != nil {
		return errDamaged
	}
	keys := binary.BigEndian.Uint64(header[headerSize-8:])
	if info.Size() < headerSize || keys != uint64(info.Size()-headerSize)/uint64(keySize) {
		return errDamaged
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, sha256.Size, info.Size()-sha256.Size)); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), header[:sha256.Size]) {
		return errDamaged
	}
	if err := x.setRun(io.NewSectionReader(f, headerSize, int64(keys)*keySize), f); err != nil {
		return err
	}
	x.seq = binary.BigEndian.Uint64(header[sha256.Size:])
	x.chain = slices.Clone(header[sha256.Size+8 : headerSize-8])
	return nil
}

// save writes the tail to the file, unless the tail is small: then the next start quickly reads it from the log.
func (x *index) save() {
	if x.dir != "" && len(x.tail) > x.tailLimit()/16 {
		x.merge()
	}
}

// close closes the file. Afterwards only reset and setRun may be called.
func (x *index) close() {
	if x.file != nil {
		x.file.Close()
		x.file = nil
	}
}
