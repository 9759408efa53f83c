package request

import (
	"context"
	"iter"
	"slices"

	"debrief/cmd/internal/api/explain"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/formats"
	"debrief/playbook/history"
)

// expectations returns, for each bullet that the operations change, its section and content before them. A bullet that does not exist has
// neither.
func expectations(p *playbook.Playbook, ops []playbook.Op) []events.Expectation {
	var all []events.Expectation
	done := map[playbook.BulletID]bool{}
	for _, op := range ops {
		if done[op.Bullet] {
			continue
		}
		done[op.Bullet] = true
		was := events.Expectation{Bullet: op.Bullet}
		if b := p.Bullet(op.Bullet); b != nil {
			was.Section, was.Content = b.Section, b.Content
		}
		all = append(all, was)
	}
	return all
}

// StoredSection returns the stored form of a section. It replaces secrets first, because Section changes the characters
// that identify them.
func StoredSection(text string) string { return playbook.Section(redact.ID(text)) }

// Import is the change that adds the bullets of a file to a playbook.
type Import struct {
	*formats.Document
	// Ops add the bullets whose ids the playbook does not have. A bullet without times in the file has none in the playbook, either:
	// the log has the time of the import.
	Ops []playbook.Op
}

// NewImport reads a file and returns the change that adds its bullets. Secrets in the file are replaced first. An empty format is detected.
// A bullet whose id belongs to a different bullet of the playbook gets a new id.
func NewImport(data []byte, format formats.Format, newest *playbook.Playbook) (*Import, error) {
	isTaken := func(id playbook.BulletID, section, content string) bool {
		known := newest.Bullet(id)
		return known != nil && (known.Section != section || known.Content != content)
	}
	doc, err := formats.Read([]byte(redact.Text(string(data))), format, isTaken)
	if err != nil {
		return nil, err
	}
	imported := &Import{Document: doc}
	for _, b := range doc.Bullets {
		if newest.Bullet(b.ID) == nil {
			imported.Ops = append(imported.Ops, playbook.Op{Kind: playbook.Put, Bullet: b.ID, PutBullet: b})
		}
	}
	return imported, nil
}

// Parts returns the operations of each edit. The bullets of one edit become visible at once.
func (im *Import) Parts() iter.Seq[[]playbook.Op] { return slices.Chunk(im.Ops, PerEdit) }

// PlanForget returns the state of a playbook without the selected executions. It changes nothing.
func PlanForget(ctx context.Context, conn *bus.Conn, log history.Log, selector playbook.Selector) (*history.Forgetting, error) {
	if err := curator.ResolveSample(ctx, conn, log, &selector); err != nil {
		return nil, err
	}
	then, err := history.Forget(log, selector)
	return then, explain.LogError(err)
}
