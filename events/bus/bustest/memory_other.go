//go:build !linux

package bustest

// memoryDir returns "": other systems have no file system in memory at a fixed path.
func memoryDir() string { return "" }
