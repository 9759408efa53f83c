package natsdtest

import "golang.org/x/sys/unix"

// memoryDir returns a directory in memory, or "" if there is none that fits: containers often have 64 MiB, or one
// from which no program can run.
func memoryDir() string {
	const dir = "/dev/shm"
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || s.Type != unix.TMPFS_MAGIC || s.Flags&unix.ST_NOEXEC != 0 || unix.Access(dir, unix.W_OK) != nil {
		return ""
	}
	if s.Bavail*uint64(s.Bsize) < minFree {
		return ""
	}
	return dir
}
