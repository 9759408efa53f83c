package formats

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"debrief/playbook"
	"debrief/playbook/text"
)

// dialect describes one JSON format that has a map of items.
type dialect struct {
	of     Format
	maps   []string // possible names of the map of items; Write uses the first
	fields []field  // members of an item, in order
	// next returns next_id, given the last number used.
	next func(last uint64) uint64
}

// field maps a member of an item to a field of a bullet.
type field struct {
	name string // in the file
	of   string // JSON name of the Bullet's field, used in losses; empty if the member is not one
	// read sets the field of b. A warning describes a repair, or is noZone. Read ignores a member without this function.
	read func(raw json.RawMessage, b *playbook.Bullet) (warning string)
	// write encodes the field, nil if it has no value.
	write func(b *playbook.Bullet) json.RawMessage
	// empty is written for a field without a value. Nil omits the member.
	empty json.RawMessage
}

var kaybaTree = dialect{
	of:   Kayba,
	maps: []string{"skills", "bullets"},
	fields: []field{
		idField(), sectionField("section"), contentField("content"),
		countField("helpful", "helpful", helpful), countField("harmful", "harmful", harmful), countField("neutral", "neutral", neutral),
		timeField("created_at", "created_at", "+00:00", createdAt), timeField("updated_at", "updated_at", "+00:00", updatedAt),
		constant("embedding", "null"), statusField("status"), constant("sources", "[]"),
	},
	next: func(last uint64) uint64 { return last },
}

var sweTree = dialect{
	of:   SweCLI,
	maps: []string{"strategies"},
	fields: []field{
		idField(), sectionField("category"), contentField("content"),
		countField("helpful_count", "helpful", helpful), countField("harmful_count", "harmful", harmful), countField("neutral_count", "neutral", neutral),
		timeField("created_at", "created_at", "", createdAt), nullable(timeField("last_used", "last_used", "", lastUsed)),
	},
	next: func(last uint64) uint64 { return last + 1 },
}

func helpful(b *playbook.Bullet) *int         { return &b.Helpful }
func harmful(b *playbook.Bullet) *int         { return &b.Harmful }
func neutral(b *playbook.Bullet) *int         { return &b.Neutral }
func createdAt(b *playbook.Bullet) *time.Time { return &b.CreatedAt }
func updatedAt(b *playbook.Bullet) *time.Time { return &b.UpdatedAt }
func lastUsed(b *playbook.Bullet) *time.Time  { return &b.LastUsed }

// idField writes the id, which is also the key of the item. Read uses the key.
func idField() field {
	return field{name: "id", write: func(b *playbook.Bullet) json.RawMessage { return encode(b.ID) }}
}

// constant writes the same value for each bullet.
func constant(name, value string) field {
	return field{name: name, write: func(*playbook.Bullet) json.RawMessage { return json.RawMessage(value) }}
}

// nullable writes null for a field without a value.
func nullable(f field) field {
	f.empty = json.RawMessage("null")
	return f
}

// contentField reads a content without cleaning it; the reader does that.
func contentField(name string) field {
	return field{
		name: name, of: "content",
		read: func(raw json.RawMessage, b *playbook.Bullet) string {
			return decodeString(raw, &b.Content)
		},
		write: func(b *playbook.Bullet) json.RawMessage { return encode(b.Content) },
	}
}

func sectionField(name string) field {
	return field{
		name: name, of: "section",
		read: func(raw json.RawMessage, b *playbook.Bullet) string {
			var text string
			warning := decodeString(raw, &text)
			b.Section = playbook.Section(text)
			return warning
		},
		write: func(b *playbook.Bullet) json.RawMessage { return encode(b.Section) },
	}
}

func countField(name, of string, at func(*playbook.Bullet) *int) field {
	return field{
		name: name, of: of,
		read: func(raw json.RawMessage, b *playbook.Bullet) string {
			n, err := count(raw)
			if err != nil {
				return fmt.Sprintf("%v; read as 0", err)
			}
			*at(b) = n
			return ""
		},
		write: func(b *playbook.Bullet) json.RawMessage { return json.RawMessage(strconv.Itoa(*at(b))) },
	}
}

// count decodes a non-negative integer, which JSON may write as 3.0.
func count(raw json.RawMessage) (int, error) {
	number := string(raw)
	if number == "null" {
		return 0, nil
	}
	if whole, zeros, ok := strings.Cut(number, "."); ok && strings.Trim(zeros, "0") == "" {
		number = whole
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is not a non-negative integer", text.Clip(string(raw), 40))
	}
	return n, nil
}

// statusField maps kayba's "invalid" to Retired and back. Kayba has only the statuses active and invalid.
func statusField(name string) field {
	return field{
		name: name, of: "status",
		read: func(raw json.RawMessage, b *playbook.Bullet) string {
			var status string
			if warning := decodeString(raw, &status); warning != "" {
				return warning
			}
			switch status {
			case "", "active":
			case "invalid":
				b.Status = playbook.Retired
			default:
				b.Status = playbook.Retired
				return fmt.Sprintf("unknown status %q; read as retired", text.Clip(status, 40))
			}
			return ""
		},
		write: func(b *playbook.Bullet) json.RawMessage {
			if b.Shown() {
				return encode("active")
			}
			return encode("invalid")
		},
	}
}

// noZone is the warning for a time without a zone. It is reported once per file.
const noZone = "has no time zone"

func timeField(name, of, zone string, at func(*playbook.Bullet) *time.Time) field {
	return field{
		name: name, of: of,
		read: func(raw json.RawMessage, b *playbook.Bullet) string {
			var value string
			if warning := decodeString(raw, &value); warning != "" || value == "" {
				return warning
			}
			t, zoned, err := parseTime(value)
			if err != nil {
				return fmt.Sprintf("invalid time %q; ignored", text.Clip(value, 40))
			}
			*at(b) = t
			if !zoned {
				return noZone
			}
			return ""
		},
		write: func(b *playbook.Bullet) json.RawMessage {
			t := at(b).UTC()
			if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
				return nil
			}
			return encode(isoTime(t) + zone)
		},
	}
}

// isoTime formats a time like Python's isoformat. Nanoseconds, which Python does not have, get nine digits.
func isoTime(t time.Time) string {
	switch ns := t.Nanosecond(); {
	case ns == 0:
		return t.Format("2006-01-02T15:04:05")
	case ns%1000 == 0:
		return t.Format("2006-01-02T15:04:05.000000")
	}
	return t.Format("2006-01-02T15:04:05.000000000")
}

// parseTime parses an ISO 8601 time. A time without a zone is read as UTC.
func parseTime(text string) (t time.Time, zoned bool, err error) {
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, false, nil
		}
	}
	return time.Time{}, false, errors.New("invalid time")
}

// decodeString decodes a string into s; null does not change s.
func decodeString(raw json.RawMessage, s *string) (warning string) {
	if err := json.Unmarshal(raw, s); err != nil {
		return fmt.Sprintf("%s is not a string", text.Clip(string(raw), 40))
	}
	return ""
}
