//go:build !linux

package hooks

import "time"

// age returns about how long this process exists.
func age() time.Duration { return usualStart }
