package deltalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"debrief/events"
	"debrief/events/direct"
	"debrief/playbook"
)

// Texts reads the texts of the bullets in the prompts of executions, which the executions do not contain. It keeps the texts that it
// used last. It is safe for concurrent use.
type Texts struct {
	store *Store

	known *lru.Cache[textKey, string]
	// lost has the texts that neither the view nor a version had: without it each execution would read the log again.
	lost *lru.Cache[lostKey, struct{}]
}

// textKey identifies a text; its wording is the hash of the text.
type textKey struct {
	book    playbook.Book
	bullet  playbook.BulletID
	wording uint32
}

// lostKey is a text that a version does not have. An execution may name the wrong version, and another version may have the text.
type lostKey struct {
	textKey
	version uint64
}

// maxTexts is the number of texts that Texts keeps, and of lost texts. They have 5 MB if they have the usual length.
const maxTexts = 50_000

// Texts returns a reader of texts that has kept none yet.
func (s *Store) Texts() *Texts {
	known, _ := lru.New[textKey, string](maxTexts) // fails only for a size of 0
	lost, _ := lru.New[lostKey, struct{}](maxTexts)
	return &Texts{store: s, known: known, lost: lost}
}

// Fill sets the content of the bullets that a prompt with a version of the playbook had, unless they have one. Most texts are in the
// view of the playbook. Texts that have changed since are read from the log, up to the version. The content stays empty if both have
// lost the text, for example because the playbook was deleted.
func (t *Texts) Fill(ctx context.Context, b playbook.Book, version uint64, shown []events.ShownBullet) error {
	missing := t.fillKnown(b, version, shown)
	if len(missing) == 0 {
		return nil
	}
	if err := t.read(ctx, b, version, missing, shown); err != nil {
		return fmt.Errorf("texts of bullets in version %d of playbook %q: %w", version, b, err)
	}
	t.fillKnown(b, version, shown)
	return nil
}

// read reads the texts of missing bullets into the cache.
func (t *Texts) read(ctx context.Context, b playbook.Book, version uint64, missing []playbook.BulletID, shown []events.ShownBullet) error {
	for chunk := range slices.Chunk(missing, direct.MaxLast-1) {
		if err := t.readView(ctx, b, chunk); err != nil {
			return err
		}
	}
	missing = t.fillKnown(b, version, shown)
	if len(missing) == 0 {
		return nil
	}
	p, err := t.store.PlaybookAt(ctx, b, version)
	_, hasNoVersion := errors.AsType[*VersionError](err)
	if hasNoVersion || errors.Is(err, ErrBrokenLog) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, id := range missing {
		if bullet := p.Bullet(id); bullet != nil {
			t.put(b, bullet)
		}
	}
	for i := range shown {
		k := textKey{book: b, bullet: shown[i].ID, wording: shown[i].Wording}
		if shown[i].Content == "" && !t.known.Contains(k) {
			t.lost.Add(lostKey{k, version}, struct{}{})
		}
	}
	return nil
}

// fillKnown sets the contents from the cache, and returns the bullets whose text is neither in the cache nor known as lost.
func (t *Texts) fillKnown(book playbook.Book, version uint64, shown []events.ShownBullet) (missing []playbook.BulletID) {
	for i := range shown {
		b := &shown[i]
		if b.Content != "" {
			continue
		}
		k := textKey{book: book, bullet: b.ID, wording: b.Wording}
		b.Content, _ = t.known.Get(k)
		if b.Content == "" && !t.lost.Contains(lostKey{k, version}) {
			missing = append(missing, b.ID)
		}
	}
	return missing
}

// readView reads the texts that bullets have in the view now into the cache.
func (t *Texts) readView(ctx context.Context, b playbook.Book, ids []playbook.BulletID) error {
	subjects := []string{viewPrefix + events.HeadKey(b)}
	for _, id := range ids {
		subjects = append(subjects, viewPrefix+events.BulletKey(b, id))
	}
	return t.store.direct.Read(ctx, viewStream, direct.Query{Last: subjects}, func(m direct.Message) error {
		readMessage(b, m, func(_ string, v value) {
			if v.bullet != nil {
				t.put(b, v.bullet)
			}
		})
		return nil
	})
}

// put keeps the text of a bullet.
func (t *Texts) put(b playbook.Book, bullet *playbook.Bullet) {
	t.known.Add(textKey{book: b, bullet: bullet.ID, wording: events.WordingOf(bullet.Content)}, bullet.Content)
}
