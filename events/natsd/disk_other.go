//go:build !unix

package natsd

import "errors"

// Disk is not implemented on this system.
func Disk(string) (free, size uint64, err error) {
	return 0, 0, errors.New("free disk space: not implemented on this operating system")
}
