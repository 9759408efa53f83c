package deltalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"debrief/events"
	"debrief/events/direct"
	"debrief/playbook"
)

// Texts reads the texts of the bullets in the prompts of executions, which the executions do not contain. It keeps the texts that it
// used last. It is safe for concurrent use.
type Texts struct {
	store *Store

	mu    sync.Mutex
	known textCache
	lost  map[lostText]bool // texts that neither the view nor the log had; without them each execution would read the log again
}

// lostText is a text that a version of its playbook does not have. The version keeps a wrong execution from hiding the text of others.
type lostText struct {
	wordingKey
	version uint64
}

// maxLost limits the lost texts that are remembered.
const maxLost = 10_000

// Texts returns a reader of texts that has kept none yet.
func (s *Store) Texts() *Texts { return &Texts{store: s} }

// Fill sets the content of the bullets that a prompt with a version of the playbook had, unless they have one. Most texts are in the
// view of the playbook. Texts that have changed since are read from the log, up to the version. The content stays empty if both have
// lost the text, for example because the playbook was deleted.
func (t *Texts) Fill(ctx context.Context, b playbook.Book, version uint64, shown []events.ShownBullet) error {
	if !slices.ContainsFunc(shown, func(b events.ShownBullet) bool { return b.Content == "" }) {
		return nil
	}
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
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range missing {
		if bullet := p.Bullet(id); bullet != nil {
			t.known.put(b, bullet)
		}
	}
	if t.lost == nil || len(t.lost) > maxLost {
		t.lost = make(map[lostText]bool)
	}
	for i := range shown {
		k := wordingKey{b, shown[i].ID, shown[i].Wording}
		if shown[i].Content == "" && t.known.get(k) == "" {
			t.lost[lostText{k, version}] = true
		}
	}
	return nil
}

// fillKnown sets the contents from the cache, and returns the bullets whose text is neither in the cache nor known as lost.
func (t *Texts) fillKnown(book playbook.Book, version uint64, shown []events.ShownBullet) (missing []playbook.BulletID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range shown {
		b := &shown[i]
		if b.Content != "" {
			continue
		}
		k := wordingKey{book, b.ID, b.Wording}
		b.Content = t.known.get(k)
		if b.Content == "" && !t.lost[lostText{k, version}] {
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
	return t.store.read(ctx, viewStream, direct.Query{Last: subjects}, func(m direct.Message) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		readMessage(b, m, func(_ string, v value) {
			if v.bullet != nil {
				t.known.put(b, v.bullet)
			}
		})
		return nil
	})
}

// wordingKey identifies a text.
type wordingKey struct {
	book    playbook.Book
	id      playbook.BulletID
	wording uint32
}

// textCache keeps texts until they have maxTexts bytes. Then it drops all of them.
type textCache struct {
	texts map[wordingKey]string
	bytes int
}

// maxTexts holds the texts of 100,000 bullets of the usual length.
const maxTexts = 10 << 20

func (c *textCache) get(k wordingKey) string { return c.texts[k] }

func (c *textCache) put(b playbook.Book, bullet *playbook.Bullet) {
	if c.bytes >= maxTexts || c.texts == nil {
		c.texts, c.bytes = make(map[wordingKey]string), 0
	}
	k := wordingKey{b, bullet.ID, events.WordingOf(bullet.Content)}
	if c.texts[k] == "" {
		c.bytes += len(bullet.Content)
		c.texts[k] = bullet.Content
	}
}
