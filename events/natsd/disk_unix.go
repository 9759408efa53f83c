//go:build unix

package natsd

import "golang.org/x/sys/unix"

// Disk returns the free bytes for this user and the size of the file system that contains dir.
func Disk(dir string) (free, size uint64, err error) {
	var s unix.Statfs_t
	err = unix.Statfs(dir, &s)
	return uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize), err //nolint:unconvert // the types differ on other systems
}
