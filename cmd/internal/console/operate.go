package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/operate"
	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/erasure"
	"debrief/events/liveness"
	"debrief/playbook"
)

// deadPage is the list of dead letters.
type deadPage struct {
	api.Page[operate.LetterRow]
	Role  string
	Roles []string
}

func showDead(q *request) (any, error) {
	q.title = "Dead letters"
	p := &deadPage{Role: q.param("role"), Roles: roleOrder}
	return p, q.get("/dead", q.parameters("role", "book", "after"), &p.Page)
}

// letterPage is a dead letter with its event.
type letterPage struct {
	operate.LetterDetails
	Event json.RawMessage `json:"event"`
}

// Text returns the event as indented JSON, or the bytes that cannot be decoded.
func (p *letterPage) Text() string {
	var out bytes.Buffer
	if len(p.Event) == 0 || json.Indent(&out, p.Event, "", "  ") != nil {
		return fmt.Sprintf("%q", p.Raw)
	}
	return out.String()
}

func showLetter(q *request) (any, error) {
	q.title = "Dead letter " + q.PathValue("letter")
	d := new(letterPage)
	return d, q.get(api.Path("dead", q.PathValue("letter")), nil, d)
}

// changeDead requeues or drops the selected dead letters.
func changeDead(q *request) (notice, error) {
	ids, change := q.PostForm["id"], q.field("change")
	switch {
	case len(ids) == 0:
		return notice{}, refuse("Select at least one dead letter.")
	case change != "requeue" && change != "drop":
		return notice{}, refuse("Choose to requeue or to drop.")
	}
	verb := map[string]string{"requeue": "Requeued", "drop": "Dropped"}[change]
	for i, id := range ids {
		var err error
		if change == "drop" {
			err = q.delete(api.Path("dead", id))
		} else {
			err = q.post(api.Path("dead", id, "requeue"), "", object{}, nil)
		}
		if err != nil {
			return notice{}, fmt.Errorf("%s %d of %d, then %s: %w", verb, i, len(ids), id, err)
		}
	}
	return notice{Text: verb + " " + plural(len(ids), "dead letter") + "."}, nil
}

// statusPage is the health of Debrief.
type statusPage struct {
	api.Status
	Checks []doctor.Check // empty without the parameter checks
}

// InOrder returns the health of the roles in the order of their work.
func (p *statusPage) InOrder() []liveness.RoleSummary { return inOrder(p.Roles) }

// Dead returns the number of dead letters of all roles.
func (p *statusPage) Dead() (n uint64) {
	for _, r := range p.Roles {
		n += r.Dead
	}
	return n
}

func showStatus(q *request) (any, error) {
	q.title = "Status"
	p := new(statusPage)
	if err := q.get("/status", nil, &p.Status); err != nil || q.param("checks") == "" {
		return p, err
	}
	var checks api.Findings
	err := q.get("/doctor", nil, &checks)
	p.Checks = checks.Checks
	return p, err
}

// settingsPage has the settings of the program that serves the console, and its tokens.
type settingsPage struct {
	Settings api.Page[program.Setting]
	Tokens   api.Page[api.TokenItem]
}

func showSettings(q *request) (any, error) {
	q.title = "Settings"
	p := new(settingsPage)
	if err := q.get("/settings", nil, &p.Settings); err != nil {
		return nil, err
	}
	return p, q.get("/tokens", url.Values{"limit": {"200"}}, &p.Tokens)
}

// erasuresPage is the form for a new erasure, and the earlier ones.
type erasuresPage struct {
	api.Page[api.ErasureState]
	Kinds            []option
	Kind, Name, Book string // of the form; the address of the page has only an execution and its playbook, because browsers and logs keep addresses
}

// erasureKinds say what an erasure can select.
var erasureKinds = []option{
	{string(erasure.OfUser), "all runs that name this end user"},
	{string(erasure.OfSession), "the runs of one session"},
	{string(erasure.OfExecution), "one execution, by its handle, with all rounds of its task"},
	{string(erasure.OfBook), "a whole playbook with all of its runs"},
}

func showErasures(q *request) (any, error) {
	q.title = "Erasures"
	p := &erasuresPage{Kinds: erasureKinds, Name: q.param("execution"), Book: q.param("book")}
	if p.Name != "" {
		p.Kind = string(erasure.OfExecution)
	}
	return p, q.get("/erasures", q.parameters("after"), &p.Page)
}

// requestErasure requests an erasure. A person must write the name twice. The notice does not repeat it.
func requestErasure(q *request) (notice, error) {
	name, book := q.field("name"), q.field("book")
	r := api.ErasureRequest{Book: playbook.Book(book), Owner: q.field("owner")}
	switch erasure.Kind(q.field("kind")) {
	case erasure.OfUser:
		r.User = name
	case erasure.OfSession:
		r.Session = name
	case erasure.OfExecution:
		r.Execution = events.Handle(name)
	case erasure.OfBook:
		if book != "" && book != name {
			return notice{}, refuse("To erase a whole playbook, leave the field Playbook empty. Nothing was erased.")
		}
		r.Book = playbook.Book(name)
	default:
		return notice{}, refuse("Choose what to erase. Nothing was erased.")
	}
	if name == "" || name != q.field("again") {
		return notice{}, refuse("The name and its repetition differ. Nothing was erased.")
	}
	return notice{Text: "The erasure is requested. Nothing uses the data any more."}, q.post("/erasures", "", r, nil)
}
