package rules

import (
	"regexp"
	"strings"
)

// cause is the cause of a failure that an installation or a look at the files can remedy.
type cause uint8

const (
	unknownCause   cause = iota
	missingModule        // a module or package of a programming language
	missingCommand       // a program
	missingFile          // a file or directory
)

// causes find the cause in the line of an error. The first group with a text is the name of the missing object.
var causes = []struct {
	cause   cause
	pattern *regexp.Regexp
}{
	{missingModule, anyOf(
		`No module named ['"]?([\w.\-]+)`,
		`[Cc]annot find (?:module|package) ['"]([^'"]+)['"]`,
		`cannot find (?:module providing )?package ['"]?([\w./\-@]+)`,
		`no required module provides package ([\w./\-]+)`,
		`cannot load such file -- ([^\s(]+)`,
		`Can't locate ([\w/.:]+) in @INC`,
		`Module not found: Error: Can't resolve ['"]([^'"]+)['"]`,
		"unresolved import ['\"`]([\\w:]+)",
		`error: package ([\w.]+) does not exist`,
	)},
	{missingCommand, anyOf(
		`command not found: (\S+)`,
		`([^\s:'"]+)['"]?: command not found(?:[^:]|$)`,
		`(?:exec: "([^"]+)": )?executable file not found`,
		`['"]([^'"]+)['"] is not recognized as`,
		`^(?:/\S*/)?(?:da|ba|a|z|k)?sh: (?:(?:line )?\d+: )?([^\s:]+): not found$`,
		`^(?:/usr/bin/)?env: ['"‘]?([^\s:'"’]+)['"’]?: No such file or directory`,
		`spawn (\S+) ENOENT`,
	)},
	{missingFile, anyOf(
		`(?:ENOENT: no such file or directory, \w+|FileNotFoundError:.*?|No such file or directory: b?) ?['"]([^'"]+)['"]`,
		`['"‘]([^'"‘’]+)['"’]: (?:\[Errno 2\] )?[Nn]o such file or directory`,
		`(?:open|stat|lstat|chdir|mkdir|remove|unlink|readlink) ([^\s:]+): no such file or directory`,
		`([^\s:]+): (?:\[Errno 2\] )?No such file or directory`,
		`[Nn]o such file or directory|ENOENT|FileNotFoundError`,
		`^File ['"]?([^'"\s]+)['"]? not found`,
		`(?:[Ff]ile|[Pp]ath|[Dd]irectory):? ['"]?([^'"\s]+)['"]? does not exist`,
	)},
}

func anyOf(patterns ...string) *regexp.Regexp { return regexp.MustCompile(strings.Join(patterns, "|")) }

// causeOf returns the cause of a failure and the name of the missing object, "" if the line does not name it.
func causeOf(line string) (c cause, missing string) {
	for _, c := range causes {
		groups := c.pattern.FindStringSubmatch(line)
		if groups == nil {
			continue
		}
		for _, name := range groups[1:] {
			if name != "" && len(name) <= maxPath {
				return c.cause, name
			}
		}
		return c.cause, ""
	}
	return unknownCause, ""
}
