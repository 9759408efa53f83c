package app

import (
	"os"
	"path/filepath"

	"debrief/curator"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/reflector"
)

// New returns a curator of this configuration. It rejects lessons that repeat the instructions of the models; more
// adds further instructions. The index of covered ids is in --cache-dir, or else in Config.IndexDir.
func (c Curator) New(m chat.Model, more ...string) *curator.Curator {
	switch c.CacheDir {
	case "":
	case "none":
		c.IndexDir = ""
	default:
		c.IndexDir = c.CacheDir
	}
	return curator.New(m, c.Config, append(more, generator.AllInstructions(), reflector.PromptText())...)
}

// CacheDir returns the directory for files that a program can build again, empty if the user has no cache directory.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "debrief")
}
