package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/backup"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/liveness"
	"debrief/playbook/natskv"
)

// backups copies what is stored, and makes a server of the copy.
type backups struct {
	Create  backupCreate  `cmd:"" help:"Copy what is stored into a file, while everything runs."`
	Restore backupRestore `cmd:"" help:"Make a server of such a file."`
}

// Help implements kong.HelpProvider.
func (*backups) Help() string {
	return `A backup holds all streams as the server has them, with their sequences, and how far each role was, so that a restored
pipeline goes on exactly where it was: nothing is learned twice. The playbooks' log alone (--streams deltas) is enough to
have every playbook again, at every version.

Examples:

  debrief backup create /var/backups
  debrief backup create monday.tar --streams deltas
  debrief backup restore monday.tar --check
  debrief backup restore monday.tar --nats nats://new-server:4222 --replicas 3`
}

type backupCreate struct {
	place
	To      string   `arg:"" help:"File to write, which must not be there; or a directory, for a file named after the time." type:"path" placeholder:"FILE"`
	Streams []string `help:"Only these: runs, tasks, dead, playbook, deltas, reflections, executions, window, contexts, vectors, blobs." placeholder:"NAME,…"`
	JSON    bool     `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*backupCreate) Help() string {
	return `Nothing has to stop for it. The file appears under its name when it is whole; its hashes are checked once more before.

Examples:

  debrief backup create /var/backups
  debrief backup create monday.tar --nats nats://localhost:4222`
}

// shortName is what people call a stream or a bucket.
func shortName(stream string) string {
	return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(stream, "KV_"), "OBJ_"))
}

func streamNames(short []string) (names []string, err error) {
	all := backup.Streams()
	for _, want := range short {
		i := slices.IndexFunc(all, func(s string) bool { return shortName(s) == strings.ToLower(want) })
		if i < 0 {
			return nil, app.Exit(app.ExitUsage, fmt.Errorf("--streams: there is no %q; see 'debrief backup create --help'", want))
		}
		names = append(names, all[i])
	}
	return names, nil
}

// copied is the outcome of a backup or a restore.
type copied struct {
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
	Messages uint64 `json:"messages"`
	*backup.Manifest
}

// Run implements the command.
func (b *backupCreate) Run(ctx context.Context, c *app.Common) error {
	only, err := streamNames(b.Streams)
	if err != nil {
		return err
	}
	file := b.To
	if dirExists(file) {
		file = filepath.Join(file, "debrief-"+time.Now().UTC().Format("20060102T150405Z")+".tar")
	}
	if _, err := os.Lstat(file); err == nil {
		return app.Exit(app.ExitRefused, fmt.Errorf("%s is there already: name another file", file))
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".debrief-backup-*")
	if err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("cannot write there: %w", err))
	}
	defer os.Remove(tmp.Name()) // gone once it has its name
	defer tmp.Close()
	s, err := b.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	m, err := backup.Create(ctx, s.Conn, only, app.Version(), tmp, copying("copied"))
	if err != nil {
		return err
	}
	if _, err := tmp.Seek(0, 0); err != nil {
		return err
	}
	if _, err := backup.Verify(tmp); err != nil {
		return fmt.Errorf("what was written cannot be read: %w", err)
	}
	if err := errors.Join(tmp.Sync(), os.Rename(tmp.Name(), file)); err != nil {
		return err
	}
	out, err := describe(file, m)
	if err != nil {
		return err
	}
	if b.JSON {
		return writeJSON(console.Stdout, out)
	}
	console.Printf("Backed up to %s in %s.\n", file, m.Took.Round(time.Millisecond))
	return out.print()
}

func describe(file string, m *backup.Manifest) (*copied, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	out := &copied{File: file, Bytes: info.Size(), Manifest: m}
	for _, s := range m.Streams {
		out.Messages += s.State.Messages
	}
	return out, nil
}

func (o *copied) print() error {
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 3, ' ', 0)
	console.Fprintf(w, "stream\tmessages\tfirst\tlast\tMiB\treplicas\tsha256\n")
	for _, s := range o.Streams {
		console.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f\t%d\t%.12s…\n", s.Name, s.State.Messages, s.State.First, s.State.Last, float64(s.Size)/(1<<20), s.Replicas(), s.SHA256)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	console.Printf("%d messages in %d bytes, of a server %s, taken %s.\n", o.Messages, o.Bytes, o.Server, o.Created.Local().Format(time.DateTime))
	return nil
}

// copying is a line that is written over for as long as something is copied; nil where nobody watches.
func copying(did string) backup.Progress {
	if !console.Stderr.IsTerminal() {
		return nil
	}
	var last time.Time
	return func(stream string, n int64) {
		if time.Since(last) > 200*time.Millisecond {
			last = time.Now()
			console.Control(console.Stderr, console.ClearLine)
			console.Fprintf(console.Stderr, "%s: %.1f MiB %s", stream, float64(n)/(1<<20), did)
			console.Control(console.Stderr, console.Return)
		}
	}
}

type backupRestore struct {
	place
	From    string `arg:"" help:"File of 'debrief backup create'." type:"path" placeholder:"FILE"`
	Check   bool   `help:"Only read the file and check its hashes: no server is asked."`
	Replace bool   `help:"Delete what the streams of the backup hold now."`
	Fewer   bool   `name:"fewer-replicas" help:"Make streams with fewer replicas than they had, as on a server that stands alone."`
	JSON    bool   `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*backupRestore) Help() string {
	return `The whole file is read and its hashes are checked before anything is touched. It is refused where the streams hold
something, unless --replace, and while workers run: stop them first. Then every playbook is verified. A server reads
backups of servers that are not newer. On a cluster say with --replicas how many the streams are to have.

Examples:

  debrief backup restore monday.tar --check
  debrief backup restore monday.tar --data new-directory
  debrief backup restore monday.tar --nats nats://localhost:4222 --replace --replicas 3`
}

// Run implements the command.
func (b *backupRestore) Run(ctx context.Context, c *app.Common) error {
	in, err := os.Open(b.From)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return app.Exit(app.ExitUsage, err)
	} else if err != nil {
		return err
	}
	defer in.Close()
	m, err := backup.Verify(in)
	if err != nil {
		return unusable(b.From, err)
	}
	out, err := describe(b.From, m)
	if err != nil {
		return err
	}
	if b.Check {
		if b.JSON {
			return writeJSON(console.Stdout, out)
		}
		console.Printf("%s is whole: every hash is as it should be.\n", b.From)
		return out.print()
	}
	if err := b.keeps(m); err != nil {
		return err
	}
	s, err := b.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	if err := nobodyWorks(ctx, s); err != nil {
		return err
	}
	if _, err := in.Seek(0, 0); err != nil {
		return err
	}
	began := time.Now()
	err = backup.Restore(ctx, s.Conn, m, in, max(b.Replicas, 1), b.Replace, copying("restored"))
	var used *backup.InUseError
	switch {
	case errors.As(err, &used):
		return app.Exit(app.ExitRefused, fmt.Errorf("%w: name an empty server, or say --replace to delete that", err))
	case err != nil:
		return fmt.Errorf("%w; what is restored is not whole: do it again with --replace", unusable(b.From, err))
	}
	if _, err := b.Open(ctx, s.nc, "", c.Logger()); err != nil { // makes what was not in the backup
		return err
	}
	if !b.JSON {
		console.Printf("Restored from %s in %s.\n", b.From, time.Since(began).Round(time.Millisecond))
	}
	return out.verify(ctx, s, b.JSON)
}

// keeps refuses to make streams that live on one server of those that lived on several, unless that is said.
func (b *backupRestore) keeps(m *backup.Manifest) error {
	most := 1
	for i := range m.Streams {
		most = max(most, m.Streams[i].Replicas())
	}
	if b.Replicas >= most || b.Fewer || b.NATS.NATS == "" { // an embedded server stands alone
		return nil
	}
	return app.Exit(app.ExitUsage, fmt.Errorf("--replicas: the backup's streams have %d, and are to have %d: say --replicas %d, or --fewer-replicas", most, b.Replicas, most))
}

// unusable is the error of a file that is no good, with its exit code.
func unusable(file string, err error) error {
	if damaged := (*backup.DamagedError)(nil); errors.As(err, &damaged) {
		return app.Exit(app.ExitRefused, fmt.Errorf("%s: %w", file, err))
	}
	return err
}

// nobodyWorks refuses while workers answer: what they hold in memory is of another time than what is restored.
func nobodyWorks(ctx context.Context, s *session) error {
	reports, err := liveness.Call(ctx, s.nc)
	if err != nil {
		return err
	}
	var who []string
	for _, r := range reports {
		who = append(who, r.Program)
	}
	if len(who) == 0 {
		return nil
	}
	return app.Exit(app.ExitRefused, fmt.Errorf("workers run on this server (%s): stop them first", console.Line(strings.Join(who, ", "))))
}

// verify checks every playbook that was restored.
func (o *copied) verify(ctx context.Context, s *session, asJSON bool) error {
	store := natskv.New(s.JetStream())
	var broken []string
	var found []*natskv.Verification
	if slices.ContainsFunc(o.Streams, func(s backup.Stream) bool { return s.Name == events.StreamDeltas }) {
		books, err := store.Logged(ctx)
		if err != nil {
			return err
		}
		for _, name := range books {
			v, err := store.Verify(ctx, name)
			if err != nil {
				return err
			}
			found = append(found, v)
			if slices.ContainsFunc(v.Findings, func(f natskv.Finding) bool { return f.Severity == natskv.Broken }) {
				broken = append(broken, string(name))
			}
		}
	}
	if asJSON {
		if err := writeJSON(console.Stdout, struct {
			*copied
			Playbooks []*natskv.Verification `json:"playbooks"`
		}{o, found}); err != nil {
			return err
		}
	} else {
		if err := o.print(); err != nil {
			return err
		}
		for _, v := range found {
			console.Printf("Playbook %q is at version %s, with %d bullets; its view is at version %d.\n", v.Book, v.Label, v.Bullets, v.View)
		}
	}
	if len(broken) > 0 {
		return app.Exit(app.ExitRefused, fmt.Errorf("damaged: %s; see 'debrief playbook verify --book NAME'", strings.Join(broken, ", ")))
	}
	return nil
}
