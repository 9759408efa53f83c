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

// AcceptDamage removes the recorded damage of the streams. Without names it removes the damage of all streams.
func AcceptDamage(dir string, streams ...string) error {
	known, err := ReadDamage(dir)
	if err != nil || len(known) == 0 {
		return err
	}
	return writeDamage(dir, slices.DeleteFunc(known, func(d Damage) bool { return len(streams) == 0 || slices.Contains(streams, d.Stream) }))
}

// addDamage records a loss, unless it is already recorded.
func addDamage(dir string, d Damage) error {
	known, err := ReadDamage(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(known, func(k Damage) bool { return k.Stream == d.Stream && k.Text == d.Text }) {
		return nil
	}
	return writeDamage(dir, append(known, d))
}

// writeDamage replaces the recorded damage.
func writeDamage(dir string, all []Damage) error {
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	for _, d := range all {
		if err := out.Encode(d); err != nil {
			return err
		}
	}
	return maybe.WriteFile(filepath.Join(dir, damageName), lines.Bytes(), 0o600)
}
