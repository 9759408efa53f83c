package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"debrief/cmd/internal/operate/backup"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events/deltalog"
	"debrief/events/erasure"
	"debrief/events/liveness"
	"debrief/events/natsd"
)

// Backup groups the commands to create and restore backups.
type Backup struct {
	Create  backupCreate  `cmd:"" help:"Copy all streams to a directory while workers run."`
	Restore backupRestore `cmd:"" help:"Restore the streams of a server from a backup."`
}

func (*Backup) Help() string {
	return `A backup holds all streams with their sequences, and the position of each role's consumer. A restored pipeline continues
from these positions and learns nothing twice. The current playbooks are computed from their log.

Examples:

  debrief backup create /var/backups
  debrief backup restore monday --check
  debrief backup restore monday --nats nats://new-server:4222 --replicas 3`
}

type backupCreate struct {
	cli.NATSFlags
	To   string `arg:"" help:"New directory, or an existing one to create a directory named after the time in." type:"path" placeholder:"DIR"`
	JSON bool   `help:"Print one JSON document."`
}

func (*backupCreate) Help() string {
	return `Workers may run meanwhile. The directory gets its name only after it is complete. It has one directory for each stream, and
manifest.json with the hashes of all files. Only its owner can read it.

Examples:

  debrief backup create /var/backups
  debrief backup create monday --nats nats://localhost:4222`
}

func (b *backupCreate) Run(ctx context.Context, c *program.Common) error {
	dir, err := backup.NewDir(b.To, time.Now())
	if errors.Is(err, fs.ErrExist) {
		return program.Exit(program.ExitRefused, err)
	}
	if err != nil {
		return program.Exit(program.ExitUsage, err)
	}
	defer dir.Close()
	s, err := b.ConnectReading(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	defer term.Doing("copying the streams")()
	m, err := dir.Create(ctx, s.Conn, program.Version())
	if err != nil {
		return err
	}
	out := newBackupSummary(dir.Name, m)
	if b.JSON {
		return cli.WriteJSON(term.Stdout, out)
	}
	term.Printf("Backed up to %s in %s.\n", dir.Name, out.Duration.Round(time.Millisecond))
	return printBackup(out)
}

// backupSummary describes a backup.
type backupSummary struct {
	Directory string `json:"directory"`
	Bytes     int64  `json:"bytes"`
	Messages  uint64 `json:"messages"`
	*backup.Manifest
}

func newBackupSummary(dir string, m *backup.Manifest) *backupSummary {
	return &backupSummary{Directory: dir, Bytes: m.Bytes(), Messages: m.Messages(), Manifest: m}
}

// printBackup prints the streams of a backup and its total size.
func printBackup(o *backupSummary) error {
	err := term.PrintTable(term.Stdout, "stream\tmessages\tfirst\tlast\tMiB\treplicas", o.Streams, func(w io.Writer, s backup.Stream) {
		term.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f\t%d\n", s.Name, s.Messages, s.First, s.Last, float64(s.Size)/(1<<20), s.Replicas)
	})
	if err != nil {
		return err
	}
	term.Printf("%d messages in %d bytes, from a server with version %s, taken %s.\n", o.Messages, o.Bytes, o.Server, o.Created.Local().Format(time.DateTime))
	return nil
}

type backupRestore struct {
	cli.NATSFlags
	From    string `arg:"" help:"Directory that 'debrief backup create' wrote." type:"path" placeholder:"DIR"`
	Check   bool   `help:"Only read the files and verify their hashes, without a server."`
	Replace bool   `help:"Delete the current contents of the streams in the backup first."`

	Erasures string `help:"Take the erasures from this newer backup. Default: those of the server, else of the backup itself." type:"path" placeholder:"DIR"`

	Fewer bool `name:"fewer-replicas" help:"Create streams with fewer replicas than in the backup, as on a single server."`
	JSON  bool `help:"Print one JSON document."`
}

func (*backupRestore) Help() string {
	return `The command reads all files and verifies their hashes before it changes the server. It refuses to restore into streams
that hold messages, unless --replace is set, and while workers run: stop them and the gateways first. After an interruption all
programs refuse the server until the restore is repeated with --replace. After the restore it verifies every playbook. A server
restores backups of servers with its own or an older version. On a cluster, set the number of replicas with --replicas.

Examples:

  debrief backup restore monday --check
  debrief backup restore monday --data new-directory
  debrief backup restore monday --nats nats://host:4222 --replicas 3`
}

func (b *backupRestore) Run(ctx context.Context, c *program.Common) error {
	m, err := backup.Verify(b.From)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return program.Exit(program.ExitUsage, err)
	}
	if err != nil {
		return invalidError(b.From, err)
	}
	out := newBackupSummary(b.From, m)
	if b.Check {
		return b.printChecked(out)
	}
	if err := b.checkReplicas(m); err != nil {
		return err
	}
	if err := b.useErasures(m); err != nil {
		return err
	}
	s, err := b.ConnectRestoring(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	if err := checkNoWorkers(ctx, s); err != nil {
		return err
	}
	began := time.Now()
	defer term.Doing("restoring the streams")()
	if err := b.restore(ctx, c, s, m); err != nil {
		return err
	}
	if !b.JSON {
		term.Printf("Restored from %s in %s.\n", b.From, time.Since(began).Round(time.Millisecond))
	}
	found, err := backup.VerifyPlaybooks(ctx, deltalog.New(s.JetStream()))
	if err != nil {
		return err
	}
	if b.JSON {
		err = cli.WriteJSON(term.Stdout, struct {
			*backupSummary
			Playbooks []*deltalog.Verification `json:"playbooks"`
		}{out, found})
	} else {
		err = printRestored(ctx, s, out, found)
	}
	return errors.Join(err, damageError(found))
}

// printChecked prints the result of --check.
func (b *backupRestore) printChecked(out *backupSummary) error {
	if b.JSON {
		return cli.WriteJSON(term.Stdout, out)
	}
	term.Printf("%s is complete: every hash matches.\n", b.From)
	return printBackup(out)
}

// useErasures replaces the erasures of a backup by those of --erasures.
func (b *backupRestore) useErasures(m *backup.Manifest) error {
	if b.Erasures == "" {
		return nil
	}
	newer, err := backup.Verify(b.Erasures)
	if err == nil {
		err = m.UseErasures(newer)
	}
	if err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("--erasures: %w", err))
	}
	return nil
}

// restore restores the streams, creates those that the backup does not have, and clears the damage report of the restored ones.
func (b *backupRestore) restore(ctx context.Context, c *program.Common, s *cli.Session, m *backup.Manifest) error {
	err := m.Restore(ctx, s.Conn, max(b.Replicas, 1), b.Replace)
	var notEmpty *backup.NotEmptyError
	var incomplete *backup.IncompleteError
	switch {
	case errors.As(err, &notEmpty):
		return program.Exit(program.ExitRefused, fmt.Errorf("%w: choose an empty server, or pass --replace to delete its messages", err))
	case errors.As(err, &incomplete):
		return fmt.Errorf("%w; the restore is incomplete: repeat it with --replace", err)
	case err != nil:
		return invalidError(b.From, err)
	}
	if _, err := b.Open(ctx, s.NATS(), "", c.Logger()); err != nil {
		return err
	}
	if s.Server == nil { // only an embedded server has a damage report
		return nil
	}
	var restored []string
	for _, stream := range m.Streams {
		restored = append(restored, stream.Name)
	}
	return natsd.AcceptDamage(b.Dir(), restored...)
}

// checkReplicas returns an error if a stream would have fewer replicas than in the backup, unless --fewer-replicas allows that. On the
// embedded server each stream has one.
func (b *backupRestore) checkReplicas(m *backup.Manifest) error {
	if b.Replicas >= m.Replicas() || b.Fewer || b.NATS.NATS == "" {
		return nil
	}
	return program.Exit(program.ExitUsage, fmt.Errorf("--replicas: streams of the backup have %d replicas, got %d: pass --replicas %d or --fewer-replicas",
		m.Replicas(), b.Replicas, m.Replicas()))
}

// invalidError adds the directory and the exit code to the error of a damaged backup. It returns other errors unchanged.
func invalidError(dir string, err error) error {
	var invalid *backup.InvalidError
	if errors.As(err, &invalid) {
		return program.Exit(program.ExitRefused, fmt.Errorf("%s: %w", dir, err))
	}
	return err
}

// checkNoWorkers returns an error if workers run, because their memory would not match the restored streams.
func checkNoWorkers(ctx context.Context, s *cli.Session) error {
	reports, err := liveness.CollectReports(ctx, s.NATS())
	if err != nil {
		return err
	}
	var programs []string
	for _, r := range reports {
		programs = append(programs, r.Program)
	}
	if len(programs) == 0 {
		return nil
	}
	return program.Exit(program.ExitRefused, fmt.Errorf("workers run on this server (%s): stop them first", term.Line(strings.Join(programs, ", "))))
}

// printRestored prints the restored streams and the versions of the restored playbooks.
func printRestored(ctx context.Context, s *cli.Session, o *backupSummary, found []*deltalog.Verification) error {
	restoredSeq, err := erasure.NewStore(s.JetStream()).RestoredSeq(ctx) // 0 without erasures
	if err != nil {
		return fmt.Errorf("read the erasures: %w", err)
	}
	if restoredSeq > 0 { // the backup may contain data that was erased after it was taken
		term.Printf("Data that was erased since is not used. 'debrief up', or 'debrief playbook erase --pending', removes it again.\n")
	}
	if err := printBackup(o); err != nil {
		return err
	}
	for _, v := range found {
		term.Printf("Playbook %q is at version %s, with %s.\n", v.Book, v.Label, term.Plural(v.Bullets, "bullet"))
	}
	return nil
}

// damageError returns an error that names the damaged playbooks, or nil.
func damageError(found []*deltalog.Verification) error {
	var damaged []string
	for _, v := range found {
		if v.Damaged() {
			damaged = append(damaged, string(v.Book))
		}
	}
	if len(damaged) == 0 {
		return nil
	}
	return program.Exit(program.ExitRefused, fmt.Errorf("damaged: %s; see 'debrief playbook verify --book NAME'", strings.Join(damaged, ", ")))
}
