package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"debrief/playbook"
	"debrief/playbook/text"
)

// readTree reads a file that has a map of items.
func (r *reader) readTree(input string, d dialect) error {
	input = strings.TrimPrefix(input, bom)
	if strings.TrimSpace(input) == "" {
		return fmt.Errorf("%w: the file is empty", ErrNoBullet)
	}
	if err := checkJSON(input); err != nil {
		return err
	}
	top, err := parseObject([]byte(input))
	if err != nil {
		return err
	}
	top = top.unique()
	if raw := top.get("schema_version"); d.of == Kayba && raw != nil && string(raw) != "1" && string(raw) != `"1"` {
		return fmt.Errorf("unsupported schema_version %s; this program supports versions up to 1", text.Clip(string(raw), 20))
	}
	items, err := d.findItems(top)
	if err != nil {
		return err
	}
	keys := make(map[string]bool, len(items))
	for _, m := range items {
		r.names.reserve(m.name)
		keys[m.name] = true
	}
	t := &treeReader{reader: r, dialect: d}
	for _, m := range items {
		t.item(m)
	}
	if d.of == Kayba {
		t.checkSections(top.get("sections"), keys)
	}
	if t.unzoned > 0 {
		r.note(Note{}, "%d times have no time zone; read as UTC", t.unzoned)
	}
	return nil
}

type treeReader struct {
	*reader
	dialect
	unzoned int // number of times without a zone
}

// findItems returns the map of items.
func (d *dialect) findItems(top object) (object, error) {
	for _, m := range top {
		for _, name := range d.maps {
			if m.name != name || !bytes.HasPrefix(m.value, []byte("{")) {
				continue
			}
			items, err := parseObject(m.value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			return items, nil
		}
	}
	return nil, fmt.Errorf("%w of this format: want an object %s", ErrFormat, strings.Join(d.maps, " or "))
}

// item reads one item.
func (t *treeReader) item(m member) {
	at := Note{Item: text.Clip(m.name, playbook.MaxID)}
	members, err := parseObject(m.value)
	if err != nil {
		t.note(at, "%v; item skipped", err)
		return
	}
	members = members.unique()
	b := &playbook.Bullet{Section: playbook.Section("")}
	for i := range t.fields {
		f := &t.fields[i]
		raw := members.get(f.name)
		if raw == nil || f.read == nil {
			continue
		}
		switch warning := f.read(raw, b); warning {
		case "":
		case noZone:
			t.unzoned++
		default:
			t.note(at, "%s: %s", f.name, warning)
		}
	}
	if !t.addBullet(at, b, m.name, b.Content) {
		return
	}
	var id string
	if raw := members.get("id"); raw != nil && (decodeString(raw, &id) != "" || id != m.name) {
		t.note(at, "field id is %s; ignored, the key of the item is its id", text.Clip(string(raw), 60))
	}
}

// checkSections adds notes for listed ids that the map does not contain. The section of a bullet is in its item, so the
// lists have no other use.
func (t *treeReader) checkSections(raw json.RawMessage, keys map[string]bool) {
	if raw == nil {
		return
	}
	at := Note{Item: "sections"}
	sections, err := parseObject(raw)
	if err != nil {
		t.note(at, "%v; ignored", err)
		return
	}
	for _, m := range sections {
		var list []json.RawMessage
		if err := json.Unmarshal(m.value, &list); err != nil || list == nil {
			t.note(at, "%q is not a list of ids; ignored", m.name)
		}
		for _, entry := range list {
			var key string
			if json.Unmarshal(entry, &key) != nil || !keys[key] {
				t.note(at, "%q contains the unknown id %s; ignored", m.name, text.Clip(string(entry), 60))
			}
		}
	}
}
