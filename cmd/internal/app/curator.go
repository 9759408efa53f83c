package app

import (
	"os"
	"path/filepath"

	"debrief/curator"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/reflector"
)

// Role is a curator of this configuration that knows what models are told in the other roles: where that turns up in what
// was learned, it is no advice. Told is what else they are told. The index of covered ids is in --cache-dir, or else in
// Config.IndexDir.
func (c Curator) Role(m chat.Model, told ...string) *curator.Curator {
	switch c.CacheDir {
	case "":
	case "none":
		c.IndexDir = ""
	default:
		c.IndexDir = c.CacheDir
	}
	return curator.New(m, c.Config, append(told, generator.Told(), reflector.Told())...)
}

// CacheDir returns the directory for files that a program can build again, empty if the user has no cache directory.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "debrief")
}
