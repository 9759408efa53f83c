package edits

import (
	"iter"
	"slices"

	"debrief/cmd/internal/api/request"
	"debrief/events/redact"
	"debrief/playbook/formats"

	book "debrief/playbook"
)

// Import is the change that adds the bullets of a file to a playbook.
type Import struct {
	*formats.Document
	// Ops add the bullets that the playbook does not have. A bullet without times in the file keeps none: the log has the
	// time of the import.
	Ops []book.Op
}

// NewImport reads a file without its secrets and returns the change that adds its bullets. An empty format is detected. A
// bullet whose id belongs to another bullet of the playbook gets a new id.
func NewImport(data []byte, format formats.Format, now *book.Playbook) (*Import, error) {
	doc, err := formats.Read([]byte(redact.Text(string(data))), format, func(id book.BulletID, section, content string) bool {
		there := now.Bullet(id)
		return there != nil && (there.Section != section || there.Content != content)
	})
	if err != nil {
		return nil, err
	}
	made := &Import{Document: doc}
	for _, b := range doc.Bullets {
		if now.Bullet(b.ID) == nil {
			made.Ops = append(made.Ops, book.Op{Kind: book.Put, Bullet: b.ID, PutBullet: b})
		}
	}
	return made, nil
}

// Parts returns the operations of each edit. The bullets of one edit become visible at once.
func (im *Import) Parts() iter.Seq[[]book.Op] { return slices.Chunk(im.Ops, request.PerEdit) }
