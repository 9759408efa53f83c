//go:build unix

package main

import "golang.org/x/sys/unix"

// freeBytes is how much of a directory's disk is left for us.
func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return uint64(s.Bavail) * uint64(s.Bsize), err
}
