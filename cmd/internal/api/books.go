package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// bookRoutes are the routes that read playbooks.
func bookRoutes() []route {
	inBook := map[string]string{"book": "default"}
	ofBullet := map[string]string{"book": "default", "id": "misc-00001"}
	bullets := get("/books/{book}/bullets", "listBullets", "List the bullets of a playbook.", listBullets)
	bullets.query = append([]parameter{
		{name: "q", kind: "string", doc: "Only bullets that contain each of these words."},
		{name: "section", kind: "string", doc: "Only bullets of this section."},
		{name: "state", kind: "string", doc: "Only bullets in this state; shown is all that generators show.", values: bulletStates},
		{name: "sort", kind: "string", doc: "Order; default: id.", values: index.BulletOrders},
		atParameter,
	}, pageParameters...)
	bullets.hasETag, bullets.example = true, example{path: inBook, query: "q=invoice&sort=helpful&limit=10"}
	bullet := get("/books/{book}/bullets/{id}", "getBullet", "Return a bullet with its record in experiments.", getBullet)
	bullet.hasETag, bullet.example = true, example{path: ofBullet}
	life := get("/books/{book}/bullets/{id}/history", "getBulletHistory", "List the changes of a bullet and its votes, with their support.", getBulletHistory)
	life.query = []parameter{
		{name: "executions", kind: "string", doc: "Also return the stored executions behind the changes: the first of each, or all.", values: []string{"first", "all"}},
		{name: "votes", kind: "integer", high: math.MaxInt, doc: "Maximum number of events that only change votes or outcomes, the newest; default: all."},
	}
	life.example = example{path: ofBullet, query: "votes=10"}
	evidence := get("/books/{book}/bullets/{id}/evidence", "listBulletEvidence", "List the executions behind a bullet: those that it was learned from, and those that it helped, harmed or had no effect in.", bulletEvidence)
	evidence.query = append([]parameter{
		{name: "role", kind: "string", doc: "Only executions with this role; default: all.", values: evidenceRoles},
	}, pageParameters...)
	evidence.example = example{path: ofBullet, query: "role=learned"}
	log := get("/books/{book}/versions", "listVersions", "List the versions of a playbook, newest first.", listVersions)
	log.query = append([]parameter{
		{name: "changes", kind: "string", doc: "bullets leaves out the versions that only change votes and outcomes; default: all.", values: []string{"all", changesOfBullets}},
	}, pageParameters...)
	log.example = example{path: inBook, query: "changes=bullets&limit=5"}
	version := get("/books/{book}/versions/{version}", "getVersion", "Return a version with its operations.", getVersion)
	version.example = example{path: map[string]string{"book": "default", "version": "newest"}}
	diff := get("/books/{book}/diff", "getDiff", "List the bullets that differ between two versions.", getDiff)
	diff.query = []parameter{
		{name: "from", kind: "string", doc: "Old version: a number, label, time, duration or name. Default: 0, the empty playbook."},
		{name: "to", kind: "string", doc: "New version; default: the newest."},
	}
	diff.example = example{path: inBook, query: "from=1&to=newest"}
	review := get("/books/{book}/review", "listReview", "List the bullets in quarantine with their reasons.", listReview)
	review.query, review.example = pageParameters, example{path: inBook}
	state := get("/books/{book}/gate", "getGate", "Return the mode of the gate, the records of the bullets that are nearest to a decision, and the latest decisions.", getGate)
	state.query = limitParameter
	state.hasETag, state.example = true, example{path: inBook}
	books := get("/books", "listBooks", "List the playbooks that the token permits.", listBooks)
	books.query = pageParameters
	return []route{books, bullets, bullet, life, evidence, log, version, diff, review, state}
}

var atParameter = parameter{name: "at", kind: "string", doc: "Version: a number, label, time, duration or name; default: the newest."}

// Page is a part of a list. Next is the parameter after for the next part; it is empty at the end.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"Pass it as the parameter after for the next items; empty at the end."`
}

const defaultLimit = 50

// MaxLimit is the maximum number of items of a page.
const MaxLimit = 500

// limitParameter is the only parameter of a list without pages.
var limitParameter = []parameter{
	{name: "limit", kind: "integer", low: 1, high: MaxLimit, doc: fmt.Sprintf("Maximum number of items, 1 to %d; default: %d.", MaxLimit, defaultLimit)},
}

// pageParameters are the parameters of a list with pages.
var pageParameters = slices.Concat(limitParameter, []parameter{
	{name: "after", kind: "string", doc: "The field next of the page before."},
})

// limit returns the parameter limit, or its default.
func (c *call) limit() int { return c.integer("limit", defaultLimit) }

// paginate returns the page of a list that the parameters select. The key of an item is its cursor.
func paginate[T any](c *call, all []T, key func(T) string) (*Page[T], error) {
	limit := c.limit()
	if after := c.query.Get("after"); after != "" {
		i := slices.IndexFunc(all, func(item T) bool { return key(item) == after })
		if i < 0 {
			return nil, invalid("after", "the list does not have this item any more: begin again without it")
		}
		all = all[i+1:]
	}
	p := &Page[T]{Items: append([]T{}, all[:min(limit, len(all))]...)}
	if len(all) > limit {
		p.Next = key(all[limit-1])
	}
	return p, nil
}

// book returns the name of the playbook in the path.
func (c *call) book() playbook.Book { return playbook.Book(c.path("book")) }

// playbook returns the playbook in the path at a version, empty for the newest, and its label.
func (c *call) playbook(point string) (*playbook.Playbook, string, error) {
	if point != "" {
		return c.handler.index.Logs.At(c.ctx, c.book(), point)
	}
	p, label, err := c.handler.index.Books.Newest(c.ctx, c.book())
	if err == nil && p.Version() == 0 {
		err = index.ErrBookNotFound
	}
	return p, label, err
}

// checkBook returns index.ErrBookNotFound if the playbook in the path has neither a version nor a stored execution. Lists of executions call it: without
// it, a misspelt name would look like a playbook without executions.
func (c *call) checkBook() error {
	if _, _, err := c.playbook(""); !errors.Is(err, index.ErrBookNotFound) {
		return nil // known, or damaged: its executions can still be read
	}
	subject := events.KindExecution.Subject(c.book())
	stream, err := c.handler.conn.JetStream().Stream(c.ctx, events.StreamExecutions)
	if err != nil {
		return err
	}
	info, err := stream.Info(c.ctx, jetstream.WithSubjectFilter(subject))
	if err == nil && info.State.Subjects[subject] == 0 {
		err = index.ErrBookNotFound
	}
	return err
}

// isOfUnknownBook reports whether the cause of an error is that the playbook in the path is unknown, also if the error says that a bullet or
// a session of it was not found.
func (c *call) isOfUnknownBook(err error) bool {
	if errors.Is(err, index.ErrBookNotFound) {
		return true
	}
	known := (*statusError)(nil)
	isNotFound := errors.As(classify(err), &known) && known.status == http.StatusNotFound
	return isNotFound && c.book() != "" && errors.Is(c.checkBook(), index.ErrBookNotFound)
}

// maxNames is the number of playbooks that the error for an unknown one names.
const maxNames = 10

// bookNotFound returns the error for an unknown playbook in the path. It names the playbooks that the token permits.
func (c *call) bookNotFound() error {
	names, err := c.permittedBooks()
	text := fmt.Sprintf("playbook %q: not found", c.book())
	switch {
	case err != nil: // the error names no playbooks
	case len(names) == 0:
		text += ", and there are no playbooks: create one with 'debrief learn FILE', or submit tasks to 'debrief up'"
	default:
		text += "; select one of these: " + joinBooks(names)
	}
	return notFound(text)
}

// joinBooks returns the first names of playbooks for a sentence.
func joinBooks(names []playbook.Book) string {
	var text []string
	for _, b := range names[:min(maxNames, len(names))] {
		text = append(text, string(b))
	}
	if more := len(names) - maxNames; more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(text, ", ")
}

// bookItem is a playbook in a list.
type bookItem struct {
	Book playbook.Book `json:"book"`
	playbook.About
	Version uint64 `json:"version"`
	Label   string `json:"label"`
	Bullets int    `json:"bullets"`
	Shown   int    `json:"shown" doc:"Bullets that generators show."`
	Error   string `json:"error,omitempty" doc:"Damage of the log of the playbook."`
}

// permittedBooks returns the names of the playbooks that the token permits, sorted.
func (c *call) permittedBooks() ([]playbook.Book, error) {
	names, err := c.handler.store.AllBooks(c.ctx)
	names = slices.DeleteFunc(names, func(b playbook.Book) bool { return !c.token.AllowsBook(b) })
	slices.Sort(names)
	return names, err
}

func listBooks(c *call) (*Page[bookItem], error) {
	names, err := c.permittedBooks()
	if err != nil {
		return nil, err
	}
	part, err := paginate(c, names, func(b playbook.Book) string { return string(b) })
	if err != nil {
		return nil, err
	}
	out := &Page[bookItem]{Items: []bookItem{}, Next: part.Next}
	for _, b := range part.Items {
		item := bookItem{Book: b}
		p, label, err := c.handler.index.Books.Newest(c.ctx, b)
		switch {
		case index.IsDamaged(err):
			item.Error = err.Error()
		case err != nil:
			return nil, err
		default:
			item.About = p.About()
			item.Version = p.Version()
			item.Label = label
			item.Bullets = p.Len()
			item.Shown = p.Stats().ByStatus[playbook.Active]
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

var bulletStates = []string{index.ShownState, string(playbook.Active), string(playbook.Probation), string(playbook.Candidate), string(playbook.Quarantined), string(playbook.Retired)}

func listBullets(c *call) (*Page[index.BulletItem], error) {
	list, err := c.handler.index.Books.BulletsAt(c.ctx, c.book(), c.query.Get("at"))
	if err != nil {
		return nil, err
	}
	if err := c.setETag(list.Label); err != nil {
		return nil, err
	}
	all := list.Select(&index.BulletFilter{
		Words: strings.Fields(strings.ToLower(c.query.Get("q"))), Section: c.query.Get("section"), State: c.query.Get("state"), Order: c.query.Get("sort"),
	})
	part, err := paginate(c, all, func(b index.BulletItem) string { return string(b.ID) })
	if err != nil {
		return nil, err
	}
	for i := range part.Items {
		part.Items[i].Record = gate.RowOf(list.Playbook, part.Items[i].Bullet)
	}
	return part, nil
}

func getBullet(c *call) (*index.BulletItem, error) {
	list, err := c.handler.index.Books.Bullets(c.ctx, c.book())
	if err != nil {
		return nil, err
	}
	if err := c.setETag(list.Label); err != nil {
		return nil, err
	}
	item, found := list.Find(playbook.BulletID(c.path("id")))
	if !found {
		return nil, notFound(fmt.Sprintf("bullet %q: not in the playbook; its history may have it", clip(c.path("id"))))
	}
	return &item, nil
}

// BulletLife is the history of a bullet.
type BulletLife struct {
	*explain.Bullet
	Omitted int `json:"omitted_votes,omitempty" doc:"Number of older events that only change votes or outcomes, which are left out."`
}

func getBulletHistory(c *call) (*BulletLife, error) {
	votes := c.integer("votes", -1) // -1: no limit
	x, err := c.lineage()
	if err != nil {
		return nil, err
	}
	if of := c.query.Get("executions"); of != "" {
		err = x.Load(c.ctx, explain.NewStored(c.handler.conn), of == "all")
	}
	if err != nil || votes < 0 {
		return &BulletLife{Bullet: x}, err
	}
	return &BulletLife{Bullet: x, Omitted: x.LimitVotes(votes)}, nil
}

// lineage returns the lineage of the bullet in the path.
func (c *call) lineage() (*explain.Bullet, error) {
	id := playbook.BulletID(c.path("id"))
	return explain.BulletOf(c.book(), c.handler.index.Logs.Bullet(c.ctx, c.book(), id), id)
}

// EvidenceItem is an execution behind a bullet.
type EvidenceItem struct {
	history.Supporter
	Stored *events.Execution `json:"stored,omitempty" doc:"The execution; missing if it has expired."`
}

var evidenceRoles = []string{string(history.Learned), string(history.Helped), string(history.Harmed), string(history.NoEffect)}

func bulletEvidence(c *call) (*Page[EvidenceItem], error) {
	x, err := c.lineage()
	if err != nil {
		return nil, err
	}
	role := history.Role(c.query.Get("role"))
	var all []EvidenceItem
	for _, s := range x.Supporters {
		if role == "" || s.Role == role {
			all = append(all, EvidenceItem{Supporter: s})
		}
	}
	part, err := paginate(c, all, func(e EvidenceItem) string { return e.Execution })
	if err != nil {
		return nil, err
	}
	stored := explain.NewStored(c.handler.conn)
	for i := range part.Items {
		if part.Items[i].Stored, err = stored.Execution(c.ctx, part.Items[i].Execution); err != nil {
			return nil, err
		}
	}
	return part, nil
}

// GateState is the state of the gate, with the first bullets and decisions of each list.
type GateState struct {
	*explain.Gate
	Total        int `json:"total_bullets" doc:"Number of bullets that are shown or on probation."`
	TotalWaiting int `json:"total_waiting" doc:"Number of candidates."`
	Probation    int `json:"probation" doc:"Number of bullets on probation."`
}

func getGate(c *call) (*GateState, error) {
	limit := c.limit()
	g, err := c.handler.index.Books.Gate(c.ctx, c.book(), limit)
	if err != nil {
		return nil, err
	}
	if err := c.setETag(g.Label); err != nil {
		return nil, err
	}
	out := &GateState{Gate: g, Total: len(g.Bullets), TotalWaiting: len(g.Waiting)}
	for _, b := range g.Bullets {
		if b.Status == playbook.Probation {
			out.Probation++
		}
	}
	g.Bullets, g.Waiting, g.Decisions = firstItems(g.Bullets, limit), firstItems(g.Waiting, limit), firstItems(g.Decisions, limit)
	return out, nil
}

// firstItems returns the first items of a list, at most limit; not nil.
func firstItems[T any](all []T, limit int) []T { return append([]T{}, all[:min(limit, len(all))]...) }
