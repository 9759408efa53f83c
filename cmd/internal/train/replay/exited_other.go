//go:build !unix

package replay

// exited reports whether a process of this machine has ended. Without a portable test the lease of the process expires.
func exited(int) bool { return false }
