//go:build !unix

package tokens

import (
	"io/fs"

	"github.com/google/renameio/v2/maybe"
)

// replaceFile replaces a file by a new one.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	return maybe.WriteFile(path, data, mode)
}
