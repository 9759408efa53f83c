package natsd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2/maybe"
)

// Damage is a loss of data in the store of an embedded server. The server reports a loss only once, at the start
// that detects it, and then continues with the remaining data. So each loss is recorded in the directory until an
// operator accepts it.
type Damage struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream"`
	Text   string    `json:"text"`
	// Repaired is set if no message is lost: the damaged consumer was recreated, or the damaged view is computed again.
	Repaired bool `json:"repaired,omitempty"`
}

func (d Damage) String() string { return fmt.Sprintf("stream %s: %s", d.Stream, d.Text) }

const (
	damageName = "debrief.damage" // a Damage in JSON on each line
	asideName  = "debrief.aside"  // the directory for the files of damaged consumers and views
)

// ReadDamage returns the recorded damage of a directory that was not accepted yet, oldest first.
func ReadDamage(dir string) (all []Damage, err error) {
	data, err := os.ReadFile(filepath.Join(dir, damageName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var d Damage
		if json.Unmarshal(lines.Bytes(), &d) == nil { // a crash may truncate a line
			all = append(all, d)
		}
	}
	return all, lines.Err()
}

// AcceptDamage removes the damage of these streams from what ReadDamage returns, without names that of all streams.
func AcceptDamage(dir string, streams ...string) error {
	known, err := ReadDamage(dir)
	if err != nil || len(known) == 0 {
		return err
	}
	var left []byte // lines of the file
	for _, d := range known {
		if len(streams) == 0 || slices.Contains(streams, d.Stream) {
			continue
		}
		line, err := json.Marshal(d)
		if err != nil {
			return err
		}
		left = append(append(left, line...), '\n')
	}
	return maybe.WriteFile(filepath.Join(dir, damageName), left, 0o600)
}

// addDamage records a loss, unless it is already recorded. It begins a new line after one that a crash truncated, because the record
// would be a part of that line.
func addDamage(dir string, d Damage) error {
	known, err := ReadDamage(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(known, func(k Damage) bool { return k.Stream == d.Stream && k.Text == d.Text }) {
		return nil
	}
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, damageName), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	isCut, err := endsInLine(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if isCut {
		line = append([]byte{'\n'}, line...)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// endsInLine reports whether the last line of a file has no end.
func endsInLine(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
}
