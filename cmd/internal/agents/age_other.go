//go:build !linux

package agents

import "time"

// age returns about how long this process has existed.
func age() time.Duration { return usualStart }
