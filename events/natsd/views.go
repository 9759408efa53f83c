package natsd

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/minio/highwayhash"
)

// A record with a wrong checksum blocks the server for good as soon as a newer message replaces it: the request that removes the
// old message never releases the lock of its stream, and every later request waits for that lock. A view can be computed again,
// so a view with a damaged file is moved aside before the server reads it.

// dropDamagedViews moves each damaged view of the directory aside, and records it as repaired damage.
func (s *Server) dropDamagedViews() error {
	for _, view := range s.config.Views {
		dirs, err := filepath.Glob(filepath.Join(s.config.Dir, "jetstream", "*", "streams", view))
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			reason := checkStream(dir)
			if reason == nil {
				continue
			}
			if err := s.dropView(view, dir, reason); err != nil {
				return fmt.Errorf("move the damaged stream %s aside: %w", view, err)
			}
		}
	}
	return nil
}

// dropView moves the files of one view aside, and records why.
func (s *Server) dropView(view, dir string, reason error) error {
	if err := moveAside(s.config.Dir, dir, view); err != nil {
		return err
	}
	before := readCheckpoint(s.config.Dir)
	delete(before.Streams, view) // its absence is no loss
	if err := before.write(s.config.Dir); err != nil {
		return err
	}
	return addDamage(s.config.Dir, Damage{
		Time: time.Now().UTC(), Stream: view, Repaired: true,
		Text: fmt.Sprintf("%v; its files were moved to %s, and it is computed again", reason, asideName),
	})
}

// moveAside moves the files of a stream or a consumer out of the store.
func moveAside(dir, from, name string) error {
	aside := filepath.Join(dir, asideName)
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	return os.Rename(from, filepath.Join(aside, fmt.Sprintf("%s.%d", name, time.Now().UnixNano())))
}

// checkStream returns an error if the settings or a message in the directory of a stream have a wrong checksum. The server
// checks its index itself and computes it again.
func checkStream(dir string) error {
	name := filepath.Base(dir)
	settings, err := os.ReadFile(filepath.Join(dir, "meta.inf"))
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(dir, "meta.sum"))
	if err != nil {
		return fmt.Errorf("read the checksum of the settings: %w", err)
	}
	if hex.EncodeToString(checksum(name, settings)) != string(sum) {
		return errors.New("the checksum of its settings is wrong")
	}
	blocks, err := filepath.Glob(filepath.Join(dir, "msgs", "*.blk"))
	if err != nil {
		return err
	}
	for _, file := range blocks {
		number, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(file), ".blk"))
		if err != nil {
			continue // not a block
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := checkBlock(fmt.Sprintf("%s-%d", name, number), data); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

// checksum returns the HighwayHash of parts, with a key from a name, as the server computes it.
func checksum(name string, parts ...[]byte) []byte {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		panic(err) // the key has the wrong length
	}
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}

// A block of the server is a sequence of records, or begins with "cmp" if it is compressed. A record is
//
//	length of the record    4 bytes; the highest bit (hasHeaders) means that the message has headers
//	sequence                8 bytes
//	time                    8 bytes
//	length of the subject   2 bytes
//	subject
//	length of the headers   4 bytes, only with headers
//	headers and data
//	checksum                8 bytes, of everything but the lengths
const (
	recordHeader   = 4 + 8 + 8 + 2
	recordChecksum = 8
	hasHeaders     = 1 << 31
)

var compressed = []byte("cmp")

// checkBlock returns an error for the first damaged record of a block. It does not check a compressed block.
func checkBlock(key string, block []byte) error {
	if bytes.HasPrefix(block, compressed) {
		return nil
	}
	for at := 0; at < len(block); {
		rest := block[at:]
		if len(rest) < recordHeader {
			return fmt.Errorf("the record at byte %d is incomplete", at)
		}
		length := binary.LittleEndian.Uint32(rest)
		n := int(length &^ hasHeaders)
		subjectEnd := recordHeader + int(binary.LittleEndian.Uint16(rest[20:]))
		body := subjectEnd
		if length&hasHeaders != 0 {
			body += 4
		}
		end := n - recordChecksum
		if n > len(rest) || body > end {
			return fmt.Errorf("the record at byte %d has an invalid length", at)
		}
		if !bytes.Equal(checksum(key, rest[4:20], rest[recordHeader:subjectEnd], rest[body:end]), rest[end:n]) {
			return fmt.Errorf("the record at byte %d has a wrong checksum", at)
		}
		at += n
	}
	return nil
}
