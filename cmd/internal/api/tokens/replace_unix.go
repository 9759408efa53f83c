//go:build unix

package tokens

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/google/renameio/v2"
)

// replaceFile replaces a file by a new one. A new file of root gets the owner of the old one, so that the gateway, which usually runs as another
// user, can still read it.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(mode), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer f.Cleanup() //nolint:errcheck // without an effect after the replacement
	if old, err := os.Stat(path); err == nil && os.Geteuid() == 0 {
		if s, ok := old.Sys().(*syscall.Stat_t); ok {
			if err := f.Chown(int(s.Uid), int(s.Gid)); err != nil {
				return err
			}
		}
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
