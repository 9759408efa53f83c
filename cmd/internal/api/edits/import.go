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
	// Ops add the bullets whose ids the playbook does not have. A bullet without times in the file has none in the playbook, either:
	// the log has the time of the import.
	Ops []book.Op
}

// NewImport reads a file and returns the change that adds its bullets. Secrets in the file are replaced first. An empty format is detected.
// A bullet whose id belongs to a different bullet of the playbook gets a new id.
func NewImport(data []byte, format formats.Format, now *book.Playbook) (*Import, error) {
	isTaken := func(id book.BulletID, section, content string) bool {
		known := now.Bullet(id)
		return known != nil && (known.Section != section || known.Content != content)
	}
	doc, err := formats.Read([]byte(redact.Text(string(data))), format, isTaken)
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
