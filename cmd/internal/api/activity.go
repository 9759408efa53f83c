package api

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/events/bus"
	"debrief/events/liveness"
	"debrief/playbook"
)

// activityRoutes are the routes for live pages.
func activityRoutes() []route {
	overview := get("/overview", "getOverview", "Return the newest changes, the bullets learned in the last hour and day, the health of the roles, and the number of items that wait for a person.", getOverview)
	overview.query, overview.example = limitParameter, example{query: "limit=10"}
	live := route{
		method: http.MethodGet, path: "/events", name: "streamEvents", scope: tokens.Read, status: http.StatusOK, stream: streamEvents,
		summary: "Send changes as they happen: ready at the start, then version, executions, dead and lag. A client that reconnects reads its page again at ready.",
		query:   []parameter{{name: "limit", kind: "integer", low: 1, high: MaxLimit, doc: "Number of events after which the stream ends; default: no limit."}, {name: "book", kind: "string", doc: "Only versions and executions of this playbook."}},
		example: example{query: "limit=1"},
	}
	return []route{overview, live}
}

// Overview is the activity of the playbooks that the token permits.
type Overview struct {
	Learned Learned                         `json:"learned" doc:"Changes of the last hour."`
	Today   Learned                         `json:"today" doc:"Changes of the last 24 hours."`
	Changes []index.Change                  `json:"changes" doc:"Newest changes, newest first."`
	Roles   map[string]liveness.RoleSummary `json:"roles" doc:"Health of the roles at the last sample, which is at most 15 seconds old; empty before the first."`
	Waiting Waiting                         `json:"waiting" doc:"Items that wait for a person."`
	Books   []index.BookActivity            `json:"books"`

	States map[playbook.Book]map[playbook.BulletID]string `json:"states" doc:"State now of the bullets of the changes' lessons, by playbook and bullet: active, probation, candidate, quarantined, retired or removed."`
}

// Learned sums changes.
type Learned struct {
	Versions int `json:"versions" doc:"Number of versions of all playbooks."`
	index.ChangeCounts
}

// Waiting counts the items that wait for a person.
type Waiting struct {
	Total       int `json:"total"`
	Quarantined int `json:"quarantined" doc:"Bullets in quarantine."`
	Dead        int `json:"dead_letters"`
}

func getOverview(c *call) (*Overview, error) {
	state := c.handler.index.Activity.State()
	out := &Overview{ // empty lists, not null
		Changes: []index.Change{}, States: map[playbook.Book]map[playbook.BulletID]string{}, Roles: c.permittedRoles(state.Roles),
	}
	now := time.Now()
	out.Learned.ChangeCounts, out.Learned.Versions = state.Learned(now.Add(-time.Hour), c.token.AllowsBook)
	out.Today.ChangeCounts, out.Today.Versions = state.Learned(now.Add(-24*time.Hour), c.token.AllowsBook)
	for _, ch := range slices.Backward(state.Changes) {
		if c.token.AllowsBook(ch.Book) && len(out.Changes) < c.limit() {
			out.Changes = append(out.Changes, ch)
		}
	}
	for _, ch := range out.Changes {
		p, _, err := c.handler.index.Books.Newest(c.ctx, ch.Book)
		if err != nil {
			continue // the playbook's own row has the error
		}
		if out.States[ch.Book] == nil {
			out.States[ch.Book] = map[playbook.BulletID]string{}
		}
		for _, l := range ch.Lessons {
			out.States[ch.Book][l.Bullet] = "removed"
			if b := p.Bullet(l.Bullet); b != nil {
				out.States[ch.Book][l.Bullet] = string(explain.Status(b))
			}
		}
	}
	names, err := c.permittedBooks()
	if err != nil {
		return nil, err
	}
	if out.Books, err = c.activityOf(names); err != nil {
		return nil, err
	}
	for _, b := range out.Books {
		out.Waiting.Quarantined += b.Quarantined
	}
	dead, err := c.deadLetters(bus.LetterFilter{})
	if err != nil {
		return nil, err
	}
	out.Waiting.Dead = len(dead)
	out.Waiting.Total = out.Waiting.Quarantined + out.Waiting.Dead
	return out, nil
}

// executionCount is the data of the event executions.
type executionCount struct {
	Book       playbook.Book `json:"book"`
	Executions int           `json:"executions"`
}

// deadCount is the data of the event dead.
type deadCount struct {
	Dead *uint64 `json:"dead_letters,omitempty"` // of all playbooks; nil for a token that permits only some: it learns that the number changed
}

// countInterval is the interval at which a stream of events looks for new executions.
const countInterval = time.Second

// liveState is a stream of events to a client, with the state that the client knows.
type liveState struct {
	c    *call
	out  *eventStream
	book playbook.Book // empty: all that the token permits

	versions   map[playbook.Book]uint64 // newest version
	executions map[playbook.Book]int    // number of executions
	dead       uint64                   // number of dead letters
	sample     time.Time                // time of the newest sample of the lag
}

// streamEvents sends changes until the client disconnects, the token is revoked, or the index ends.
func streamEvents(c *call, out *eventStream) {
	activity, executions := c.handler.index.Activity, c.handler.index.Executions
	s := &liveState{c: c, out: out, book: playbook.Book(c.query.Get("book")), versions: map[playbook.Book]uint64{}, executions: executions.Counts()}
	state := activity.State()
	maps.Copy(s.versions, newestVersions(state.Changes))
	s.dead = state.Dead
	s.sample = state.Sample.Time
	count, beat := time.NewTicker(countInterval), time.NewTicker(heartbeat)
	defer count.Stop()
	defer beat.Stop()
	more := out.send("ready", struct{}{})
	for more {
		select {
		case <-c.ctx.Done():
			return
		case <-activity.Closed():
			return
		case <-state.Changed:
			state = activity.State()
			more = c.renewToken() && s.sendState(state)
		case <-count.C:
			more = c.renewToken() && s.sendExecutions(executions.Counts())
		case <-beat.C:
			more = out.write(": beat\n\n")
		}
	}
}

// wants reports whether the client receives the events of a playbook.
func (s *liveState) wants(b playbook.Book) bool {
	return s.c.token.AllowsBook(b) && (s.book == "" || s.book == b)
}

// newestVersions returns the newest version of each playbook in changes.
func newestVersions(changes []index.Change) map[playbook.Book]uint64 {
	newest := map[playbook.Book]uint64{}
	for _, ch := range changes {
		newest[ch.Book] = max(newest[ch.Book], ch.Version)
	}
	return newest
}

// sendState sends what is new in a state of the activity. It reports whether the stream continues.
func (s *liveState) sendState(state index.State) bool {
	for b, version := range newestVersions(state.Changes) {
		if version < s.versions[b] { // the log was replaced, or has lost its end
			s.versions[b] = version - 1
		}
	}
	for _, ch := range state.Changes {
		if ch.Version <= s.versions[ch.Book] {
			continue
		}
		s.versions[ch.Book] = ch.Version
		if s.wants(ch.Book) && !s.out.send("version", ch) {
			return false
		}
	}
	if state.Dead != s.dead {
		s.dead = state.Dead
		count := deadCount{}
		if len(s.c.token.Books) == 0 {
			count.Dead = &state.Dead
		}
		if !s.out.send("dead", count) {
			return false
		}
	}
	if state.Sample.Time.After(s.sample) {
		s.sample = state.Sample.Time
		return s.out.send("lag", state.Sample)
	}
	return true
}

// sendExecutions sends the numbers of executions that have changed. It reports whether the stream continues.
func (s *liveState) sendExecutions(now map[playbook.Book]int) bool {
	for b, n := range now {
		if n == s.executions[b] {
			continue
		}
		s.executions[b] = n
		if s.wants(b) && !s.out.send("executions", executionCount{b, n}) {
			return false
		}
	}
	return true
}
