//go:build !unix

package replay

// exited always returns false, because a portable test does not exist. The caller then waits until the lease of the process expires.
func exited(int) bool { return false }
