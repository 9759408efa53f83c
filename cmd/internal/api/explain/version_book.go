package explain

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/program"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// Book names a playbook on a server. The playbook may not exist yet.
type Book struct {
	Store *deltalog.Store
	Name  playbook.Book
}

// NewBook returns a playbook on a server. It sends no request.
func NewBook(js jetstream.JetStream, name playbook.Book) *Book { return &Book{deltalog.New(js), name} }

// LogError adds the exit code to the error of a broken log. It returns other errors unchanged.
func LogError(err error) error {
	if errors.Is(err, deltalog.ErrBrokenLog) {
		return program.Exit(program.ExitRefused, err)
	}
	return err
}

// At returns the playbook at a version, empty for the newest, and the label of the version.
func (b *Book) At(ctx context.Context, point string) (*playbook.Playbook, string, error) {
	if point == "" {
		w, err := b.Store.Writer(ctx, b.Name)
		if err != nil {
			return nil, "", LogError(err)
		}
		return w.State().Playbook(), playbook.VersionLabel(w.State().Playbook().Version(), w.State().Chain()), nil
	}
	m, err := b.Version(ctx, point)
	if err != nil {
		return nil, "", err
	}
	p, err := b.Store.PlaybookAt(ctx, b.Name, m.Number)
	return p, m.Label(), LogError(err)
}
