//go:build unix

package natsd

import "golang.org/x/sys/unix"

// Disk returns how many bytes of a directory's file system are free for this user, and its size.
func Disk(dir string) (free, size uint64, err error) {
	var s unix.Statfs_t
	err = unix.Statfs(dir, &s)
	return uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize), err
}
