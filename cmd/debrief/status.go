package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"debrief/cmd/internal/app"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// status shows what is stored and how far each role is.
type status struct {
	place
	JSON bool `help:"Print JSON."`
}

type overview struct {
	Streams []bus.StreamState  `json:"streams"`
	Roles   map[string]bus.Lag `json:"roles"`
	Books   []bookState        `json:"books"`
}

type bookState struct {
	Book    book.Book `json:"book"`
	Version string    `json:"version"`
	Bullets int       `json:"bullets"`
	Shown   int       `json:"shown"`
	Lag     uint64    `json:"view_behind"`
}

// Run implements the command.
func (st *status) Run(ctx context.Context, c *app.Common) error {
	s, err := st.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	o := overview{Roles: map[string]bus.Lag{}}
	if o.Streams, err = s.Streams(ctx); err != nil {
		return err
	}
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		if o.Roles[role], err = s.Lag(ctx, role); err != nil {
			return err
		}
	}
	store := natskv.New(s.JetStream())
	books, err := store.Logged(ctx)
	if err != nil {
		return err
	}
	for _, b := range books {
		w, err := store.Writer(ctx, b)
		if err != nil {
			return err
		}
		p := w.State().Playbook()
		o.Books = append(o.Books, bookState{b, book.Label(p.Version(), w.State().Chain()), p.Len(), len(p.Top(p.Len())), w.Lag()})
	}
	if st.JSON {
		return writeJSON(os.Stdout, o)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "stream\tmessages\tMiB")
	for _, x := range o.Streams {
		fmt.Fprintf(w, "%s\t%d\t%.1f\n", x.Name, x.Messages, float64(x.Bytes)/(1<<20))
	}
	fmt.Fprintln(w, "\nrole\twaiting\tin work\tredelivered")
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		l := o.Roles[role]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", role, l.Pending, l.InFlight, l.Redelivered)
	}
	fmt.Fprintln(w, "\nbook\tversion\tbullets\tshown\tview behind")
	for _, b := range o.Books {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", b.Book, b.Version, b.Bullets, b.Shown, b.Lag)
	}
	return w.Flush()
}
