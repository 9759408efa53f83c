package explain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/program"
	"debrief/events/deltalog"
	"debrief/events/streams"
	"debrief/playbook"
	"debrief/playbook/history"
)

// LogError adds the exit code to the error of a broken log. It returns other errors unchanged.
func LogError(err error) error {
	if errors.Is(err, deltalog.ErrBrokenLog) {
		return program.Exit(program.ExitRefused, err)
	}
	return err
}

// VersionHelp documents the formats of a version on the command line.
const VersionHelp = `Formats of a version:

  17               number; 0 is the empty playbook
  17@ab12cd        label; an error if version 17 has another hash
  2026-11-20       last version at or before a time; also with a time of
                   day, as '2026-11-20 15:04' or 2026-11-20T15:04:05Z
  90m, 36h, 7d     last version at or before that time ago
  before-import    name from 'debrief playbook tag'
  newest           the newest version`

// Version is one version of a playbook, with its chain hash and time.
type Version struct {
	Number uint64
	chain  []byte
	time   time.Time
}

// Label returns the number and the beginning of the hash, such as 17@ab12cd.
func (v Version) Label() string { return playbook.VersionLabel(v.Number, v.chain) }

// FindVersion finds a version of a playbook in its log; see VersionHelp for the formats. It reads only versions, times, hashes and names.
func FindVersion(name playbook.Book, point string, log deltalog.Log) (Version, error) {
	want, err := parsePoint(point, time.Now())
	if err != nil {
		return Version{}, program.Exit(program.ExitUsage, err)
	}
	versions := []Version{{}} // by number; version 0 is not in the log
	names := map[string]uint64{}
	before := 0 // index of the last version at or before want.time
	err = log(func(r *deltalog.Record) error {
		for _, n := range r.Names {
			names[n.Name] = n.Version
		}
		if !r.Time.After(want.time) {
			before = len(versions)
		}
		versions = append(versions, Version{r.Version, r.Chain, r.Time})
		return nil
	})
	if err != nil {
		return Version{}, LogError(err)
	}
	number, ok := versions[len(versions)-1].Number, true // the newest
	switch want.by {
	case byNumber:
		number = want.version
	case byTime:
		number, ok = uint64(before), before > 0
	case byName:
		number, ok = names[want.name]
	}
	if !ok || number >= uint64(len(versions)) {
		return Version{}, program.Exit(program.ExitRefused, fmt.Errorf("playbook %q: %w", name, want.notFoundError(versions)))
	}
	found := versions[number]
	if !strings.HasPrefix(hex.EncodeToString(found.chain), want.chain) {
		return Version{}, program.Exit(program.ExitRefused, fmt.Errorf("playbook %q: version %d is %s, not %s: the label belongs to another installation", name, found.Number, found.Label(), point))
	}
	return found, nil
}

// notFoundError returns the error for a wanted version that is not one of the versions of the log, by number.
func (w *wantedVersion) notFoundError(versions []Version) error {
	switch w.by {
	case byNumber:
		return &history.VersionNotFoundError{Version: w.version, Newest: versions[len(versions)-1].Number}
	case byTime:
		first := versions[min(1, len(versions)-1)]
		return fmt.Errorf("no version at %s: the first is from %s", w.time.Local().Format(time.DateTime), first.time.Local().Format(time.DateTime))
	}
	return fmt.Errorf("no version named %q: see 'debrief playbook log --names'", w.name)
}

// The formats of a version.
const (
	byNumber = iota
	byTime
	byName
	byNewest
)

// wantedVersion is the parsed text of a version. by tells which of the other fields is set.
type wantedVersion struct {
	by      int
	version uint64
	chain   string // prefix of the hash of version, in hex; "" if the number alone was given
	time    time.Time
	name    string
}

// parsePoint parses a version; see VersionHelp for the formats. Durations are relative to now.
func parsePoint(text string, now time.Time) (wantedVersion, error) {
	number, chain, _ := strings.Cut(text, "@")
	if v, err := strconv.ParseUint(number, 10, 64); err == nil {
		if strings.Trim(chain, "0123456789abcdef") != "" {
			return wantedVersion{}, fmt.Errorf("version %q: invalid label: want one such as 17@ab12cd", text)
		}
		return wantedVersion{by: byNumber, version: v, chain: chain}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			if layout == time.DateOnly {
				t = t.AddDate(0, 0, 1).Add(-time.Nanosecond) // the end of that day
			}
			return wantedVersion{by: byTime, time: t}, nil
		}
	}
	var ago streams.Age
	if ago.UnmarshalText([]byte(text)) == nil {
		return wantedVersion{by: byTime, time: now.Add(-time.Duration(ago))}, nil
	}
	if text == "newest" {
		return wantedVersion{by: byNewest}, nil
	}
	if (playbook.Name{Name: text}).Validate() == nil {
		return wantedVersion{by: byName, name: text}, nil
	}
	return wantedVersion{}, fmt.Errorf("version %q: want a number, a label such as 17@ab12cd, a time such as 2026-11-20, an age such as 36h or 7d, or a name", text)
}

// ParseSince parses the flag --since: a time, or a duration before now. Empty text returns the zero time.
func ParseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	p, err := parsePoint(text, time.Now())
	if err != nil || p.by != byTime {
		return time.Time{}, program.Exit(program.ExitUsage, fmt.Errorf("--since: want a time such as 2026-11-20 or '2026-11-20 15:04', or an age such as 90m or 7d, got %q", text))
	}
	if d, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return d, nil // the start of the day; parsePoint returns its end
	}
	return p.time, nil
}
