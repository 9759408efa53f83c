package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/api/tokens"
	"debrief/curator/draft"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/formats"
)

// planRoutes are the routes that compute a change of many bullets: they import, clean up, promote and fork playbooks.
func planRoutes() []route {
	path := map[string]string{"book": "default"}
	imported := post("/books/{book}/import", "importBullets", "Add the bullets of a file of another system or of Debrief. With dry_run only read the file.", http.StatusOK, importBullets)
	imported.max = 24 << 20
	imported.example = example{path: path, body: `{"data": "## FORMULAS\n[calc-00009] helpful=0 harmful=0 :: Round at the end.\n", "format": "ace", "dry_run": true}`}
	refined := post("/books/{book}/refine", "refineBook", "Plan the merge of duplicates and the retirement of weak bullets, and optionally apply it.", http.StatusOK, refineBook)
	refined.example = example{path: path, body: `{"token_budget": 80000}`}
	promoted := post("/books/{book}/promote", "promoteRun", "Apply the changes of a run to a playbook. With dry_run only show them.", http.StatusOK, promoteRun)
	promoted.example = example{path: path, body: `{"run": "support", "dry_run": true}`}
	forked := post("/books/{book}/fork", "forkBook", "Copy a version of a playbook into a new playbook.", http.StatusCreated, forkBook)
	forked.example = example{path: path, body: `{"to": "a-copy", "at": "newest"}`}
	routes := []route{imported, refined, promoted, forked}
	for i := range routes {
		routes[i].scope, routes[i].waits = tokens.Review, true
	}
	return routes
}

// ImportRequest is a file to import.
type ImportRequest struct {
	Data   string         `json:"data" doc:"Text of the file."`
	Format formats.Format `json:"format,omitempty" doc:"Default: detected."`
	Reason string         `json:"reason,omitempty"`
	DryRun bool           `json:"dry_run,omitempty" doc:"Only report the contents of the file."`
}

// ImportReply is the result of an import.
type ImportReply struct {
	EditReply
	Format  formats.Format `json:"format"`
	Bullets int            `json:"bullets" doc:"Bullets in the file."`
	New     int            `json:"new" doc:"Bullets that the playbook did not have."`
	Notes   []string       `json:"notes,omitempty" doc:"Repairs and skipped parts of the file."`
}

func importBullets(c *call, r *ImportRequest) (*ImportReply, error) {
	known, _ := formats.Formats()
	if r.Format != "" && !slices.Contains(known, r.Format) {
		return nil, invalid("format", fmt.Sprintf("want one of %v, got %q", known, clip(string(r.Format))))
	}
	newest, label, err := c.handler.index.Books.Newest(c.ctx, c.book())
	if err != nil {
		return nil, err
	}
	imported, err := request.NewImport([]byte(r.Data), r.Format, newest)
	if err != nil {
		return nil, invalid("data", err.Error())
	}
	out := &ImportReply{
		EditReply: EditReply{Book: c.book(), Version: newest.Version(), Label: label, DryRun: r.DryRun},
		Format:    imported.Format, Bullets: len(imported.Document.Bullets), New: len(imported.Ops),
	}
	for _, n := range imported.Notes {
		out.Notes = append(out.Notes, n.String())
	}
	if r.DryRun {
		return out, nil
	}
	changed := 0
	for part := range imported.Parts() {
		if err := c.submitEdit(&events.Edit{Ops: part, Reason: r.Reason}, &out.EditReply); err != nil {
			return nil, err
		}
		changed += out.Changed // the reply has that of the last part
	}
	out.Changed = changed
	return out, nil
}

// RefineRequest configures the clean-up of a playbook.
type RefineRequest struct {
	Votes  int           `json:"min_votes,omitempty" doc:"Votes needed to retire a bullet with as many harmful as helpful votes, if the gate is off."`
	Unused string        `json:"unused,omitempty" doc:"Retire candidates without new evidence for this duration."`
	Tokens int           `json:"token_budget,omitempty" doc:"Maximum estimated tokens of the shown bullets; -1 means no limit."`
	Merges []playbook.Op `json:"merges,omitempty" doc:"Merges of bullets that state the same rule in other words."`
	Apply  bool          `json:"apply,omitempty" doc:"Apply the plan."`
	Reason string        `json:"reason,omitempty"`
}

// RefineReply is the plan of a clean-up, and its result.
type RefineReply struct {
	Book    playbook.Book `json:"book"`
	Version string        `json:"version" doc:"Version that the plan is based on."`
	*draft.Plan
	Applied *EditReply `json:"applied,omitempty"`
}

func refineBook(c *call, r *RefineRequest) (*RefineReply, error) {
	options := draft.RefineOptions{MinVotes: r.Votes, TokenBudget: r.Tokens, Merges: r.Merges, Now: time.Now()}
	if r.Unused != "" {
		var err error
		if options.MaxIdle, err = time.ParseDuration(r.Unused); err != nil || options.MaxIdle <= 0 {
			return nil, invalid("unused", "want a duration above 0, such as 720h")
		}
	}
	switch {
	case r.Votes < 0:
		return nil, invalid("min_votes", fmt.Sprintf("must be at least 1, got %d", r.Votes))
	case r.Tokens < -1:
		return nil, invalid("token_budget", fmt.Sprintf("must be at least 1, or -1 for no limit, got %d", r.Tokens))
	}
	p, label, err := c.playbook("")
	if err != nil {
		return nil, err
	}
	out := &RefineReply{Book: c.book(), Version: label, Plan: draft.Refine(p, options)}
	if !r.Apply || len(out.Steps) == 0 {
		return out, nil
	}
	e := out.Edit()
	e.Reason = r.Reason
	out.Applied = &EditReply{Book: c.book()}
	return out, c.submitEdit(e, out.Applied)
}

// PromoteRequest names the run whose changes a playbook gets.
type PromoteRequest struct {
	Run    playbook.Book `json:"run" doc:"Name of the run and of its playbook."`
	At     string        `json:"at,omitempty" doc:"Version of the run's playbook; default: the one named best, else the newest."`
	Merge  bool          `json:"merge,omitempty" doc:"If the playbook has changed since the fork, apply only the changes without a conflict."`
	Reason string        `json:"reason,omitempty" doc:"Default: the run and its version."`
	DryRun bool          `json:"dry_run,omitempty" doc:"Only show the changes."`
}

func promoteRun(c *call, r *PromoteRequest) (*request.Promotion, error) {
	known, err := c.permittedBooks()
	if err != nil {
		return nil, err
	}
	if r.Run == c.book() {
		return nil, invalid("run", fmt.Sprintf("%s is the playbook to change: name another one", r.Run))
	}
	if r.Run.Validate() == nil { // an invalid name is not found
		if err := c.checkPermitted(r.Run); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(known, r.Run) {
		text := fmt.Sprintf("run: %q not found: name one of %s", clip(string(r.Run)), joinBooks(known))
		return nil, &statusError{status: http.StatusNotFound, code: CodeNotFound, field: "run", text: text}
	}
	plan, err := request.PlanPromotion(c.ctx, c.handler.store, c.handler.index.Books, r.Run, c.book(), r.At)
	if err != nil {
		return nil, err
	}
	if r.DryRun || plan.IsEmpty() || plan.NeedsMerge && !r.Merge { // the client sees the reason in the plan
		return plan, nil
	}
	return plan, plan.Submit(r.Merge, func(e *events.Edit) (*events.EditReply, error) {
		e.Reason = cmp.Or(r.Reason, plan.Reason())
		return c.requestEdit(e)
	})
}

// ForkRequest names a new playbook.
type ForkRequest struct {
	To playbook.Book `json:"to" doc:"Name of the new playbook."`
	At string        `json:"at,omitempty" doc:"Version to copy; default: the newest."`
}

// ForkReply is a copy of a playbook.
type ForkReply struct {
	Book    playbook.Book `json:"book"`
	Version uint64        `json:"version" doc:"Version at which the copy is complete; 0 if there was nothing to copy."`
	Bullets int           `json:"bullets"`
	From    playbook.Book `json:"from"`
	At      string        `json:"at" doc:"Label of the copied version."`
}

func forkBook(c *call, r *ForkRequest) (*ForkReply, error) {
	if err := events.ValidateBook(r.To); err != nil {
		return nil, invalid("to", err.Error())
	}
	if err := c.checkPermitted(r.To); err != nil {
		return nil, err
	}
	if _, _, err := c.playbook(""); err != nil { // the playbook must exist
		return nil, err
	}
	store := c.handler.store
	known, err := store.BooksWithLog(c.ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(known, r.To) {
		return nil, &statusError{status: http.StatusConflict, code: CodeConflict, field: "to", text: fmt.Sprintf("playbook %q: already exists: choose another name", r.To)}
	}
	at, err := c.handler.index.Books.Version(c.ctx, c.book(), cmp.Or(r.At, "newest"))
	if err != nil {
		return nil, err
	}
	out := &ForkReply{Book: r.To, From: c.book(), At: at.Label()}
	out.Version, err = request.Fork(c.ctx, c.handler.conn, c.book(), at, r.To)
	if err != nil {
		return nil, err
	}
	if out.Version == 0 { // there was nothing to copy
		return out, nil
	}
	p, err := store.PlaybookAt(c.ctx, r.To, out.Version)
	if err != nil {
		return nil, explain.LogError(err)
	}
	out.Bullets = p.Len()
	c.location("books", string(r.To))
	return out, nil
}
