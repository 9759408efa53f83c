package main

import (
	"fmt"
	"os"
	"strings"
)

// home has the names that the owner chooses, from home.env.
type home struct{ registry, homepage, maintainer, python, npm string }

// readHome reads a file of KEY=value lines and comments. It returns an error for an unknown, repeated or missing key.
func readHome(file string) (home, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return home{}, err
	}
	var h home
	missing := map[string]*string{
		"REGISTRY": &h.registry, "HOMEPAGE": &h.homepage, "MAINTAINER": &h.maintainer, "PYTHON_PACKAGE": &h.python, "NPM_PACKAGE": &h.npm,
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		field := missing[key]
		if field == nil || value == "" {
			return home{}, fmt.Errorf("%s: unknown, repeated or empty key in %q", file, line)
		}
		*field = value
		delete(missing, key)
	}
	for key := range missing {
		return home{}, fmt.Errorf("%s: %s is required", file, key)
	}
	return h, nil
}
