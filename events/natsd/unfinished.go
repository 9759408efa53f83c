package natsd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2/maybe"
	"github.com/minio/highwayhash"
)

// glob returns the files in dir whose paths below it match a pattern. It takes the characters of dir as they are.
func glob(dir, pattern string) ([]string, error) {
	files, err := fs.Glob(os.DirFS(dir), pattern)
	for i, file := range files {
		files[i] = filepath.Join(dir, file)
	}
	return files, err
}

// finishCreations writes the missing checksums of the settings of streams. If the server is killed while it creates a stream, the settings
// are stored without their checksum. The server does not load such a stream at its next start. It can create the stream again, but it does
// not replace the settings, so the stream and its messages would be missing after each start. A wrong checksum is damage, and stays.
func finishCreations(dir string) error {
	settings, err := glob(dir, "jetstream/*/streams/*/meta.inf")
	if err != nil {
		return err
	}
	for _, path := range settings {
		stream := filepath.Dir(path)
		sum := filepath.Join(stream, "meta.sum")
		if _, err := os.Stat(sum); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the settings of a stream: %w", err)
		}
		if !json.Valid(text) {
			continue // the server reports it
		}
		key := sha256.Sum256([]byte(filepath.Base(stream)))
		hash, err := highwayhash.NewDigest64(key[:])
		if err != nil {
			return err
		}
		hash.Write(text)
		if err := maybe.WriteFile(sum, []byte(hex.EncodeToString(hash.Sum(nil))), 0o600); err != nil {
			return fmt.Errorf("write the checksum of the settings of a stream: %w", err)
		}
	}
	return nil
}
