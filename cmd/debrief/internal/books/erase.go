package books

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/operate/erase"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/proxy/capture"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

type eraseData struct {
	apiclient.Flags
	Book      string `help:"Erase only in this playbook; alone, erase the whole playbook." placeholder:"NAME"`
	User      string `name:"end-user" help:"Erase the runs that name this end user." placeholder:"NAME" xor:"what"`
	Session   string `help:"Erase this session." placeholder:"NAME" xor:"what"`
	Owner     string `help:"With --session: only that of this token, by its id." placeholder:"ID"`
	Execution string `help:"Erase the task of this execution. Needs --book." placeholder:"HANDLE" xor:"what"`
	List      bool   `help:"List the erasures." xor:"what"`
	Pending   bool   `help:"Remove the data of all erasures, for example those of a gateway, or after a restore." xor:"what"`
	Yes       bool   `help:"Do not ask for confirmation."`
	JSON      bool   `help:"Print one JSON document; with --list JSON lines."`
}

func (*eraseData) Help() string {
	return `Erases what a person, a session, a task or a playbook has left: runs, reflections, dead letters, windows, summaries, contexts,
embeddings and large payloads, and their texts in the log of each playbook. Bullets that rest on nothing else go, as with 'debrief
playbook forget'; others stay as they are. Copies of those bullets in other playbooks go too, if a fork, a promotion or an import has made
them and no other run supports them; a text that a person has changed stays. Reflections on other runs that were compared with an
erased run go, with what was learned from them. The server overwrites the messages, or writes the rest of
their file again. The dead letters of others get new ids.

The log of a playbook is changed by a curator. If none replies in 2m, the exit code is 4, and --pending continues later.

From the first moment on, nothing of the erased runs is stored again: not by an agent that sends them again, and not by a worker that
had begun with them. Runs that begin later are new data; a whole playbook goes with its changes until it is removed. If the command is
interrupted, it continues with --pending. Run --pending also after 'debrief backup restore': what was erased after the backup goes
again. 'debrief learn' leaves erased runs out, too: to begin again with the runs of an erased playbook, give it another name.

With --url a gateway only records the erasure. A program with the rights of the operator removes the data: 'debrief up', or this
command with --pending.

What remains: hashes, counts and times, such as the ids of the runs and the versions of the playbook that they changed. Logs of the
programs and files outside of the server are not touched.

Examples:

  debrief playbook erase --end-user ann
  debrief playbook erase --session s-17 --book support --yes
  debrief playbook erase --execution 1234-ab12cd34 --book support
  debrief playbook erase --book scratch
  debrief playbook erase --list`
}

// eraseOutput is the output of --json.
type eraseOutput struct {
	Erasure  *api.ErasureState `json:"erasure,omitempty"`
	Pending  bool              `json:"pending"` // a program with the rights of the operator removes the data
	Runs     int               `json:"runs"`
	Messages int               `json:"removed_messages"`
	Versions int               `json:"redacted_versions"`
	Letters  int               `json:"dead_letters_with_new_ids"`
}

func (e *eraseOutput) add(runs, messages, versions int) {
	e.Runs += runs
	e.Messages += messages
	e.Versions += versions
}

func (d *eraseData) Run(ctx context.Context, c *program.Common) error {
	if d.List {
		return d.list(ctx, c)
	}
	if d.User == "" && d.Session == "" && d.Execution == "" && d.Book == "" && !d.Pending {
		return program.Exit(program.ExitUsage, errors.New("--end-user, --session, --execution, --book: one is required; see 'debrief playbook erase --help'"))
	}
	a, err := d.Open(ctx, c, apiclient.Change, "")
	if err != nil {
		return err
	}
	defer a.Close()
	out := new(eraseOutput)
	if !d.Pending {
		if !d.Yes {
			if err := cli.Confirm(fmt.Sprintf("Erase %s for ever?", d.selection())); err != nil {
				return err
			}
		}
		r := &api.ErasureRequest{
			Book: playbook.Book(d.Book), User: d.User, Session: d.Session, Owner: d.Owner, Execution: events.Handle(d.Execution),
		}
		if out.Erasure, err = api.Post[api.ErasureState](ctx, a.Client, "/erasures", nil, r); err != nil {
			return err
		}
	}
	if a.Session == nil { // a client of a gateway
		return d.printRecorded(out)
	}
	return d.remove(ctx, a, out)
}

// selection describes the data that the flags select.
func (d *eraseData) selection() string {
	in := ""
	if d.Book != "" {
		in = fmt.Sprintf(" in playbook %q", d.Book)
	}
	switch {
	case d.User != "":
		return fmt.Sprintf("all runs of user %q%s", d.User, in)
	case d.Session != "":
		return fmt.Sprintf("session %q%s", d.Session, in)
	case d.Execution != "":
		return fmt.Sprintf("the task of execution %s%s", d.Execution, in)
	}
	return fmt.Sprintf("playbook %q with all of its runs", d.Book)
}

// printRecorded prints the result of a gateway, which only records the erasure.
func (d *eraseData) printRecorded(out *eraseOutput) error {
	if d.Pending {
		return program.Exit(program.ExitUsage, errors.New("--pending: needs the rights of the operator: name the server with --nats or --data"))
	}
	out.Pending = true
	if d.JSON {
		return cli.WriteJSON(term.Stdout, out)
	}
	term.Printf("Recorded erasure %s: nothing uses the data any more. 'debrief playbook erase --pending' of an operator, or 'debrief up', removes it.\n", out.Erasure.ID)
	return nil
}

// remove removes the data, and prints each step.
func (d *eraseData) remove(ctx context.Context, a *apiclient.Client, out *eraseOutput) error {
	e := erase.New(a.Conn, capture.NewAdvice(a.Conn))
	e.Progress = func(step string) { term.Fprintf(term.Stderr, "%s …\n", step) }
	e.Edit = func(ctx context.Context, edit *events.Edit) error {
		_, err := request.SubmitEdit(ctx, a.Conn, edit, bus.PublishOptions{})
		return err
	}
	result, err := e.Run(ctx)
	if errors.As(err, new(*request.NoReplyError)) {
		return fmt.Errorf("%w; nothing was removed from the streams; start a curator, for example with 'debrief up', then 'debrief playbook erase --pending' continues", err)
	}
	if err != nil {
		return fmt.Errorf("%w; 'debrief playbook erase --pending' continues", err)
	}
	if len(result.Done) == 0 { // no new erasure: a restore has brought back data of older ones
		out.add(result.Runs, result.Removed, result.Versions)
	}
	for _, t := range result.Done { // their counts also have what interrupted calls removed
		out.add(t.Runs, t.Removed(), t.Versions)
	}
	out.Letters = result.Letters
	if d.JSON {
		return cli.WriteJSON(term.Stdout, out)
	}
	if out.Runs+out.Messages+out.Versions == 0 {
		term.Println("Nothing was left to erase. See 'debrief playbook erase --list'.")
		return nil
	}
	term.Printf("Erased %s: removed %s, and the texts of %s of playbooks.\n", term.Plural(out.Runs, "run"), term.Plural(out.Messages, "message"), term.Plural(out.Versions, "change"))
	if out.Letters > 0 {
		term.Printf("The other dead letters were stored again, %d in all, and have new ids: see 'debrief dead list'.\n", out.Letters)
	}
	return nil
}

// list prints the erasures.
func (d *eraseData) list(ctx context.Context, c *program.Common) error {
	all, _, err := apiclient.List[api.ErasureState](ctx, c, d.Flags, "/erasures", nil, 0)
	if err != nil {
		return err
	}
	return cli.PrintList(d.JSON, all, "No erasures.", "id\tof\tbook\trequested\tby\tdone\truns\tmessages", func(w io.Writer, s api.ErasureState) {
		done, in := "pending", "all"
		if !s.Pending {
			done = s.Done.Local().Format(time.DateTime)
		}
		if s.Book != "" {
			in = string(s.Book)
		}
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", s.ID, s.Kind, in, s.Created.Local().Format(time.DateTime), s.By, done, s.Runs, s.Removed())
	})
}
