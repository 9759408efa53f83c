package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// bookRoutes are the routes that read whole playbooks.
func bookRoutes() []route {
	inBook := map[string]string{"book": "default"}
	books := get("/books", "listBooks", "List the playbooks that the token permits.", listBooks)
	books.query = pageParameters
	whole := get("/books/{book}", "getBook", "Return the version, the hash and the statistics of a playbook.", getBook)
	whole.query = []parameter{atParameter, {name: "outcomes", kind: "boolean", doc: "Compare the turns of sessions with and without the earlier turns in the prompt."}}
	whole.example = example{path: inBook}
	rejected := get("/books/{book}/rejections", "listRejections", "List rejected proposals and removed bullets with their reasons, newest first.", listRejections)
	rejected.query, rejected.example = pageParameters, example{path: inBook, query: "limit=5"}
	return []route{books, whole, rejected}
}

var atParameter = parameter{name: "at", kind: "string", doc: "Version: a number, label, time, duration or name; default: the newest."}

// book returns the name of the playbook in the path.
func (c *call) book() playbook.Book { return playbook.Book(c.path("book")) }

// bullet returns the id of the bullet in the path.
func (c *call) bullet() playbook.BulletID { return playbook.BulletID(c.path("id")) }

// playbook returns the playbook in the path at a version, empty for the newest, and its label.
func (c *call) playbook(point string) (*playbook.Playbook, string, error) {
	return c.handler.index.Books.At(c.ctx, c.book(), point)
}

// checkBook returns index.ErrBookNotFound if the playbook in the path has neither a version nor a stored execution. Lists of executions call it: without
// it, a misspelt name would look like a playbook without executions.
func (c *call) checkBook() error {
	if _, _, err := c.playbook(""); !errors.Is(err, index.ErrBookNotFound) {
		return nil // known, or damaged: its executions can still be read
	}
	n, err := c.storedExecutions()
	if err == nil && n == 0 {
		err = index.ErrBookNotFound
	}
	return err
}

// storedExecutions returns the number of stored executions of the playbook in the path, copies included.
func (c *call) storedExecutions() (uint64, error) {
	subject := events.KindExecution.Subject(c.book())
	stream, err := c.handler.conn.JetStream().Stream(c.ctx, events.StreamExecutions)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(c.ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[subject], nil
}

// isOfUnknownBook reports whether the cause of an error is that the playbook in the path is unknown, also if the error says that a bullet or
// a session of it was not found.
func (c *call) isOfUnknownBook(err error) bool {
	if errors.Is(err, index.ErrBookNotFound) {
		return true
	}
	classified := (*statusError)(nil)
	isNotFound := errors.As(classify(err), &classified) && classified.status == http.StatusNotFound && classified.field == "" // else the object of a field
	return isNotFound && c.book() != "" && errors.Is(c.checkBook(), index.ErrBookNotFound)
}

// maxNames is the number of playbooks that the error for an unknown one names.
const maxNames = 10

// bookNotFound returns the error for a playbook in the path without a version. If executions of it are stored, the error has their
// number and the command that makes bullets of them. Otherwise it names the playbooks that the token permits.
func (c *call) bookNotFound() error {
	if n, err := c.storedExecutions(); err == nil && n > 0 {
		runs := fmt.Sprintf("%d stored runs", n)
		if n == 1 {
			runs = "1 stored run"
		}
		return notFound(fmt.Sprintf("playbook %q: has %s and no bullet yet: rate runs with 'debrief feedback', or run "+
			"'debrief learn --book %s', which says why nothing was learned", c.book(), runs, c.book()))
	}
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

// permittedBooks returns the names of the playbooks that the token permits, sorted.
func (c *call) permittedBooks() ([]playbook.Book, error) {
	names, err := c.handler.store.AllBooks(c.ctx)
	names = slices.DeleteFunc(names, func(b playbook.Book) bool { return !c.token.AllowsBook(b) })
	slices.Sort(names)
	return names, err
}

func listBooks(c *call) (*Page[index.BookActivity], error) {
	names, err := c.permittedBooks()
	if err != nil {
		return nil, err
	}
	part, err := paginate(c, names, func(b playbook.Book) string { return string(b) })
	if err != nil {
		return nil, err
	}
	books, err := c.activityOf(part.Items)
	return &Page[index.BookActivity]{Items: books, Next: part.Next}, err
}

// activityOf returns the numbers of playbooks.
func (c *call) activityOf(names []playbook.Book) ([]index.BookActivity, error) {
	executions := c.handler.index.Executions.Counts()
	all := []index.BookActivity{}
	for _, name := range names {
		b, err := c.handler.index.Books.Activity(c.ctx, name)
		if err != nil {
			return nil, err
		}
		b.Executions = executions[name]
		all = append(all, b)
	}
	return all, nil
}

// BookState is a playbook at a version, without its bullets.
type BookState struct {
	Book playbook.Book `json:"book"`
	playbook.About
	Version   uint64            `json:"version"`
	Label     string            `json:"label"`
	StateHash string            `json:"state_hash" doc:"Hash of all bullets, in hexadecimal."`
	Bullets   int               `json:"bullets"`
	Shown     int               `json:"shown" doc:"Bullets that generators show."`
	Stats     playbook.Stats    `json:"stats"`
	Outcomes  *explain.Outcomes `json:"outcomes,omitempty" doc:"Success of the turns of sessions with all, a part and none of the earlier turns in the prompt."`
}

func getBook(c *call) (*BookState, error) {
	p, label, err := c.playbook(c.query.Get("at"))
	if err != nil {
		return nil, err
	}
	out := &BookState{
		Book: c.book(), About: p.About(), Version: p.Version(), Label: label, StateHash: fmt.Sprintf("%x", p.StateHash()),
		Bullets: p.Len(), Shown: p.Stats().ByStatus[playbook.Active], Stats: p.Stats(),
	}
	if !c.boolean("outcomes") {
		return out, nil
	}
	out.Outcomes, err = explain.ReadOutcomes(c.ctx, c.handler.conn.Events, c.book())
	return out, err
}

// listRejections lists the newest rejections first. The cursor is a position in the log's order, oldest first, so that new rejections do
// not move it.
func listRejections(c *call) (*Page[history.Rejection], error) {
	if _, _, err := c.playbook(""); err != nil { // an unknown playbook is an error, not an empty list
		return nil, err
	}
	all, err := history.Rejections(c.handler.store.History(c.ctx, c.book()))
	if err != nil {
		return nil, explain.LogError(err)
	}
	end := len(all)
	if after := c.query.Get("after"); after != "" {
		if end, err = strconv.Atoi(after); err != nil || end < 1 || end > len(all) {
			return nil, invalid("after", "want the field next of a page")
		}
	}
	begin := max(end-c.limit(), 0)
	out := &Page[history.Rejection]{Items: append([]history.Rejection{}, all[begin:end]...)}
	slices.Reverse(out.Items)
	if begin > 0 {
		out.Next = strconv.Itoa(begin)
	}
	return out, nil
}
