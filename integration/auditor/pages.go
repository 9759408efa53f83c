package auditor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"
)

// Expected are the numbers that a place of a page must show, in their order.
type Expected struct {
	Values []float64
	// Slack is how much a value may differ beyond its rounding.
	Slack float64
	// Among permits any of the values, any number of times: for sentences whose choice of numbers is a decision.
	Among bool
}

// Page has the numbers of a page by their place: the heading, the row and the column, or the text with # for each number. The parts are
// separated by " | ". A place that a page has several times has several entries, in the order of the page.
type Page map[string][]Expected

func (p Page) add(place string, values ...float64) {
	if len(values) > 0 {
		p[place] = append(p[place], Expected{Values: values})
	}
}

func ints(values ...int) (all []float64) {
	for _, v := range values {
		all = append(all, float64(v))
	}
	return all
}

// Console computes the numbers of the pages of the console from the messages of the streams and buckets.
type Console struct {
	*Streams
	Runs, Erasures []Message
	infos          map[string]*jetstream.StreamInfo
	now            time.Time

	books  map[string]*history
	runs   []*run // oldest first
	bySeq  map[uint64]*run
	trains map[string]any // states and reports of train, by key
}

// run is an execution as pages show it.
type run struct {
	assigned
	Book    string `msgpack:"-"`
	Handle  string `msgpack:"-"`
	Doubted bool   `msgpack:"-"`

	Question string `msgpack:"question"`
	Answer   string `msgpack:"answer"`
	Origin   struct {
		Agent string `msgpack:"source"`
		Task  string `msgpack:"task"`
	} `msgpack:"origin"`
	Turn    int       `msgpack:"turn"`
	Version uint64    `msgpack:"version"`
	Shown   []any     `msgpack:"shown"`
	Cited   []string  `msgpack:"cited"`
	Context string    `msgpack:"ctx"`
	Built   *manifest `msgpack:"manifest"`
	Started time.Time `msgpack:"started"`
	Steps   []struct {
		Calls []struct {
			Took time.Duration `msgpack:"took"`
		} `msgpack:"calls"`
	} `msgpack:"steps"`
	stored outcome // without feedback
}

type manifest struct {
	Limit  int `msgpack:"limit"`
	Tokens int `msgpack:"tokens"`
	Parts  []struct {
		Kind   string `msgpack:"k"`
		Tokens int    `msgpack:"t"`
		Count  int    `msgpack:"n"`
	} `msgpack:"parts"`
	Omitted []struct {
		Kind   string `msgpack:"k"`
		Count  int    `msgpack:"n"`
		Tokens int    `msgpack:"t"`
	} `msgpack:"omitted"`
	Warnings []string `msgpack:"warnings"`
}

// shows reports whether the prompt had a bullet.
func (r *run) shows(bullet string) bool {
	return slices.ContainsFunc(r.Shown, func(b any) bool {
		fields, ok := b.([]any)
		return ok && fields[0] == bullet
	})
}

// label returns the label of an outcome, "" for an unknown one.
func (o outcome) label() string {
	switch {
	case o.Violation:
		return "failure"
	case o.Label == "unknown":
		return ""
	case o.Label == "" && o.Score >= 1:
		return "success"
	case o.Label == "" && o.Score > 0:
		return "partial"
	}
	return o.Label
}

// score returns the score of an outcome.
func (o outcome) score() float64 {
	switch {
	case o.Violation:
		return 0
	case o.Label == "success" && o.Score == 0:
		return 1
	case o.Label == "partial" && o.Score == 0:
		return 0.5
	}
	return o.Score
}

// score returns the stored score: of the feedback if there is any, else of the execution.
func (r *run) score() float64 {
	if r.Outcome == r.stored {
		return r.stored.Score
	}
	return r.Outcome.score()
}

// ReadConsole reads everything that pages show. No process may write during that.
func ReadConsole(ctx context.Context, js jetstream.JetStream, now time.Time) (*Console, error) {
	c := &Console{now: now, books: map[string]*history{}, infos: map[string]*jetstream.StreamInfo{}, trains: map[string]any{}}
	var err error
	if c.Streams, err = Read(ctx, js); err != nil {
		return nil, err
	}
	for name, to := range map[string]*[]Message{"KV_runs": &c.Runs, "KV_erasures": &c.Erasures} {
		if *to, err = readStream(ctx, js, name); err != nil {
			return nil, err
		}
	}
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		c.infos[info.Config.Name] = info
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	deltas, err := c.readDeltas(ctx, js)
	if err != nil {
		return nil, err
	}
	for _, m := range deltas {
		book := m.last()
		if c.books[book] == nil {
			c.books[book] = newHistory()
		}
		if err := c.books[book].read(m); err != nil {
			return nil, fmt.Errorf("delta at %d: %w", m.Seq, err)
		}
	}
	for _, m := range c.Runs {
		key := strings.TrimPrefix(m.Subject, "$KV.runs.")
		if v, err := decodeJSON(m.Data); err == nil {
			c.trains[key] = v
		}
	}
	if c.runs, c.bySeq, err = c.Streams.runs(); err != nil {
		return nil, err
	}
	return c, c.readDoubts()
}

// readDeltas returns the deltas with those that an erasure has replaced.
func (c *Console) readDeltas(ctx context.Context, js jetstream.JetStream) ([]Message, error) {
	replaced, err := readStream(ctx, js, "REDACTIONS")
	all := map[uint64]Message{}
	for _, m := range c.Deltas {
		all[m.Seq] = m
	}
	for _, m := range replaced {
		r, err := decode[struct {
			Seq   uint64             `msgpack:"q"`
			Delta msgpack.RawMessage `msgpack:"d"`
		}](m.Data)
		if err != nil {
			return nil, fmt.Errorf("redaction at %d: %w", m.Seq, err)
		}
		_, book := kindAndBook(m.Subject)
		all[r.Seq] = Message{Seq: r.Seq, Subject: "." + book, Data: r.Delta}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Message) int { return cmp.Compare(a.Seq, b.Seq) }), err
}

// runs returns the executions with the outcomes after feedback, oldest first, and by their sequence.
func (s *Streams) runs() (all []*run, bySeq map[uint64]*run, err error) {
	bySeq = map[uint64]*run{}
	for _, m := range s.Executions {
		kind, book := kindAndBook(m.Subject)
		if kind == "feedback" {
			f, err := decode[feedback](m.Data)
			if err != nil {
				return nil, nil, fmt.Errorf("feedback at %d: %w", m.Seq, err)
			}
			r := bySeq[seqOf(f.Execution)]
			if r != nil && r.Book == book && f.Outcome.label() != "" && !(f.Outcome.Inferred && r.Outcome.label() != "" && !r.Outcome.Inferred) {
				r.Outcome = f.Outcome
			}
			continue
		}
		r, err := decode[run](m.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("execution at %d: %w", m.Seq, err)
		}
		r.Book, r.stored = book, r.Outcome
		r.Handle = fmt.Sprintf("%d-%s", m.Seq, handleOf(r.ID))
		all, bySeq[m.Seq] = append(all, r), r
	}
	return all, bySeq, nil
}

// seqOf returns the sequence in a handle, or 0.
func seqOf(handle string) uint64 {
	number, _, _ := strings.Cut(handle, "-")
	seq, _ := strconv.ParseUint(number, 10, 64)
	return seq
}

// readDoubts notes which outcomes the Reflector doubts.
func (c *Console) readDoubts() error {
	for _, m := range c.Reflections {
		if kind, _ := kindAndBook(m.Subject); kind != "reflection" {
			continue
		}
		f, err := decode[reflection](m.Data)
		if err != nil {
			return fmt.Errorf("reflection at %d: %w", m.Seq, err)
		}
		if r := c.runOf(f.Handle); r != nil {
			r.Doubted = f.Suspect != ""
		}
	}
	return nil
}

// runOf returns the execution of a handle, or nil.
func (c *Console) runOf(handle string) *run { return c.bySeq[seqOf(handle)] }

// ofBook returns the executions of a playbook, newest first.
func (c *Console) ofBook(book string) (all []*run) {
	for _, r := range slices.Backward(c.runs) {
		if r.Book == book {
			all = append(all, r)
		}
	}
	return all
}

// names returns the names of the playbooks with a log.
func (c *Console) names() []string { return slices.Sorted(maps.Keys(c.books)) }

// Page returns the numbers that the page at a path must show, and false for a page without an audit.
func (c *Console) Page(address string) (Page, bool) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, false
	}
	parts := strings.Split(strings.Trim(u.EscapedPath(), "/"), "/")
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	p := Page{}
	if parts[0] != "books" {
		pages := map[string]func(Page, []string, url.Values){
			"": c.home, "runs": c.trainPages, "dead": c.dead, "status": c.status, "settings": c.settings, "erasures": c.erasures,
		}
		page, ok := pages[parts[0]]
		if ok {
			page(p, parts[1:], u.Query())
		}
		return p, ok
	}
	pages := map[string]func(Page, string, []string, url.Values){
		"": c.bullets, "bullets": c.bullet, "review": c.review, "gate": c.gate, "worth": c.worth, "curve": c.curve, "executions": c.executions,
		"sessions": c.sessions, "versions": c.versions, "diff": c.diff, "restore": c.restore,
	}
	kind, rest := "", []string{}
	if len(parts) > 2 {
		kind, rest = parts[2], parts[3:]
	}
	page, ok := pages[kind]
	if ok {
		page(p, parts[1], rest, u.Query())
	}
	return p, ok
}

func (c *Console) settings(Page, []string, url.Values) {}

// plural returns a word in the plural unless the number is one.
func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// home is the overview.
func (c *Console) home(p Page, _ []string, _ url.Values) {
	type version struct {
		book string
		*change
	}
	var all []version
	for _, book := range c.names() {
		for _, x := range c.books[book].changes {
			all = append(all, version{book, x})
		}
	}
	slices.SortStableFunc(all, func(a, b version) int { return b.Time.Compare(a.Time) })
	learned := func(within time.Duration) (added, changed, removed, votes, versions int) {
		for _, x := range all {
			if c.now.Sub(x.Time) > within {
				continue
			}
			versions++
			for i := range x.Ops {
				switch x.Ops[i].Kind {
				case "ADD":
					added++
				case "REMOVE":
					removed++
				case "TAG", "RETAG", "EXPOSURES", "CONFIRM":
					votes++
				default:
					changed++
				}
			}
		}
		return added, changed, removed, votes, versions
	}
	added, changed, removed, votes, versions := learned(24 * time.Hour)
	lastHour, _, _, _, _ := learned(time.Hour)
	const day = "Learned in # hours | "
	p.add(day+"# new "+plural(added, "bullet"), float64(added))
	p.add(day+fmt.Sprintf("# changed, # removed, # %s of votes in # %s. In the last hour: # new.", plural(votes, "change"), plural(versions, "version")), ints(changed, removed, votes, versions, lastHour)...)
	waiting := 0
	const wait = "Waits for a person | "
	var books []string
	for _, book := range c.names() {
		n := c.quarantined(book)
		waiting += n
		books = append(books, book)
		if n > 0 {
			p.add(wait+book+"/review | # "+plural(n, "bullet")+" in quarantine", float64(n))
		}
	}
	letters := len(c.letters(""))
	if letters > 0 {
		p.add(wait+"dead | # "+plural(letters, "dead letter"), float64(letters))
	}
	p.add(wait+cmp.Or(firstWaiting(c, books), "dead")+" | # "+plural(waiting+letters, "decision"), float64(waiting+letters))
	slices.SortStableFunc(books, func(a, b string) int { return len(c.ofBook(b)) - len(c.ofBook(a)) })
	for _, book := range books[:min(5, len(books))] {
		if numbers, shape := c.verdict(book); numbers != nil {
			p.add("Worth | "+book+"/worth | "+word(shape)+" "+shape, numbers...)
		}
	}
	lessons := 0
	for _, x := range all {
		n := 0
		for i := range x.Ops {
			if o := &x.Ops[i]; o.Content != "" && n < 3 && lessons < 6 {
				n++
				lessons++
				if r := x.reflections(); r > 0 {
					state := "removed"
					if b, ok := c.books[x.book].now()[o.Bullet]; ok {
						state = cmp.Or(b.Status, "active")
					}
					how := "changed"
					if o.Kind == "ADD" {
						how = "new"
					}
					p.add(fmt.Sprintf("Newest lessons | %s/bullets/%s | %s %s in · · from # %s · by", x.book, o.Bullet, state, how, plural(r, "reflection")), float64(r))
				}
			}
		}
	}
	for _, book := range c.names() {
		row := "Playbooks | " + book + " | "
		shown, probation := 0, 0
		for _, b := range c.books[book].now() {
			if b.active() {
				shown++
			}
			if b.Status == "probation" {
				probation++
			}
		}
		p.add(row+"Bullets", float64(len(c.books[book].now())))
		p.add(row+"In prompts", float64(shown))
		p.add(row+"On probation", float64(probation))
		p.add(row+"In quarantine", float64(c.quarantined(book)))
		p.add(row+"Executions", float64(len(c.ofBook(book))))
	}
	for _, x := range all[:min(10, len(all))] {
		c.versionRow(p, "Newest changes | ", x.book, x.change)
	}
}

// firstWaiting returns the link to the first playbook with a bullet that waits, "" without one.
func firstWaiting(c *Console, books []string) string {
	for _, book := range books {
		if c.quarantined(book) > 0 {
			return book + "/review"
		}
	}
	return ""
}

func (c *Console) quarantined(book string) (n int) {
	for _, b := range c.books[book].now() {
		if b.waits() {
			n++
		}
	}
	return n
}

// versionRow adds the row of a version in a list.
func (c *Console) versionRow(p Page, heading, book string, x *change) {
	row := fmt.Sprintf("%s%s/versions/%d | ", heading, book, x.Version)
	p.add(row+"Version", float64(x.Version))
	p.add(row+"Changes", x.summary()...)
	if n := x.reflections(); n > 0 {
		p.add(row+"From", float64(n))
	}
}

// liftOf adds the cell with the lift of a bullet.
func (p Page) liftOf(place string, t *trial, twice bool) {
	if count(t.Shown)*count(t.Withheld) == 0 {
		return
	}
	low, high := t.lift()
	all := []float64{100 * (mean(t.Shown) - mean(t.Withheld)), 100 * low, 100 * high}
	first := all
	if !twice {
		first = all[:1]
	}
	p[place] = append(p[place], Expected{Values: slices.Concat(first, all), Slack: 0.1}) // the product searches in steps of 0.1 points
}

// bullets is the list of the bullets of a playbook.
func (c *Console) bullets(p Page, book string, _ []string, q url.Values) {
	h := c.books[book]
	state := h.now()
	if at, err := strconv.Atoi(q.Get("at")); err == nil {
		state = h.states[at]
	}
	for _, id := range slices.Sorted(maps.Keys(state))[:min(50, len(state))] {
		b := state[id]
		if !b.matches(q) {
			continue
		}
		row := book + "/bullets/" + id + " | "
		if b.measured() {
			p.liftOf(row+"Lift, points", &b.Experiment, false)
			p.add(row+"Shown", float64(count(b.Experiment.Shown)))
			p.add(row+"Withheld", float64(count(b.Experiment.Withheld)))
		}
		p.add(row+"Helpful", float64(b.Helpful))
		p.add(row+"Harmful", float64(b.Harmful))
	}
}

// matches reports whether a bullet is in the list that the query selects.
func (b *record) matches(q url.Values) bool {
	state := q.Get("state")
	inState := state == "" || state == "shown" && b.inPrompts() || state == cmp.Or(b.Status, "active")
	hasWords := true
	for _, w := range strings.Fields(strings.ToLower(q.Get("q"))) {
		hasWords = hasWords && strings.Contains(strings.ToLower(b.Content), w)
	}
	return inState && hasWords && (q.Get("section") == "" || q.Get("section") == b.Section)
}

// arm adds the number and the mean of the outcomes of an arm.
func (p Page) arm(place string, s [11]int) {
	if n := count(s); n > 0 {
		p.add(place, float64(n), mean(s))
		return
	}
	p.add(place, 0)
}

// bullet is the page of one bullet.
func (c *Console) bullet(p Page, book string, rest []string, _ url.Values) {
	id, h := rest[0], c.books[book]
	b, isCurrent := h.now()[id]
	if isCurrent {
		t := &b.Experiment
		if b.measured() {
			p.liftOf("Lift", t, true)
			p.arm("Shown at random", t.Shown)
			p.arm("Withheld", t.Withheld)
			p.arm("Cited", t.Cited)
			p["Next"] = append(p["Next"], Expected{Values: c.next(&b), Among: true})
		}
		p.add("Votes", ints(b.Helpful, b.Harmful, b.Neutral)...)
	}
	c.experiment(p, book, id)
	events, all := h.life(id)
	counts := map[string]int{}
	learned := map[string]int{}
	for _, x := range all {
		if x.forgotten {
			continue
		}
		counts[x.role]++
		if x.role == "learned" && x.Outcome != "" && x.Outcome != "unknown" {
			learned[x.Outcome]++
		}
	}
	var numbers []float64
	var words []string
	for _, label := range []string{"success", "partial", "failure"} {
		if n := learned[label]; n > 0 {
			numbers, words = append(numbers, float64(n)), append(words, "# × "+label)
		}
	}
	p.add("Learned from | The executions on which the text rests: "+strings.Join(words, ", ")+".", numbers...)
	if slices.ContainsFunc(all, func(x *behind) bool { return x.role == "helped" || x.role == "harmed" }) {
		p.add("Helped or harmed | Later executions in which the Reflector saw an effect of the bullet: it helped in # and harmed in #.", ints(counts["helped"], counts["harmed"])...)
	}
	if n := counts["none"]; n > 0 {
		p.add("No effect | # "+plural(n, "execution")+" had the bullet in the prompt without an effect", float64(n))
	}
	heading := map[string]string{"learned": "Learned from", "helped": "Helped", "harmed": "Harmed", "none": "No effect"}
	shown := map[string]int{}
	for _, x := range slices.Backward(all) {
		if shown[x.role]++; shown[x.role] > 10 {
			continue
		}
		row := heading[x.role] + " | " + x.Execution + " | "
		if c.runOf(x.Execution) != nil {
			row = heading[x.role] + " | " + book + "/executions/" + x.Execution + " | "
		} else if len(x.versions) > 0 {
			row = fmt.Sprintf("%s | %s/versions/%d | ", heading[x.role], book, x.versions[0])
		}
		p.add(row+"Outcome", x.Score)
		var versions []float64
		for _, v := range x.versions {
			versions = append(versions, float64(v))
		}
		p.add(row+"Version", versions...)
	}
	used := c.ofBook(book)
	used = slices.DeleteFunc(used, func(r *run) bool { return !r.shows(id) })
	p.executions("Newest executions with the bullet in the prompt | ", book, used[:min(10, len(used))])
	omitted := 0
	for _, e := range slices.Backward(events) {
		if e.counts {
			if omitted++; omitted > 10 {
				continue
			}
		}
		row := fmt.Sprintf("History | %s/versions/%d | ", book, e.version)
		p.add(row+"Version", float64(e.version))
		p.add(row+"Change", e.numbers...)
	}
	if omitted > 10 {
		p.add("History | # "+plural(omitted-10, "older change")+" of votes and outcomes are left out; lists all.", float64(omitted-10))
	}
}

// next returns the numbers that a sentence about the next decision on a bullet may have: those of its record, and the outcomes that are
// missing of 200.
func (c *Console) next(b *record) []float64 {
	t := &b.Experiment
	low, high := t.lift()
	n := count(t.Shown) + count(t.Withheld)
	return []float64{
		float64(max(0, 200-n)), float64(count(t.Cited)), mean(t.Cited), float64(count(t.Shown)), mean(t.Shown), float64(count(t.Withheld)), mean(t.Withheld),
		math.Round(100 * low), math.Round(100 * high), math.Round(100 * (mean(t.Shown) - mean(t.Withheld))),
	}
}

// experiment adds the table of the e-values of a bullet.
func (c *Console) experiment(p Page, book, id string) {
	h := c.books[book]
	type point struct {
		version uint64
		trial
	}
	var points []point
	for v := 1; v < len(h.states); v++ {
		b, ok := h.states[v][id]
		if ok && (len(points) == 0 || points[len(points)-1].trial != b.Experiment) {
			points = append(points, point{uint64(v), b.Experiment})
		}
	}
	if len(points) == 0 {
		return
	}
	last := points[len(points)-1]
	before := 0
	for _, x := range points {
		n := count(x.Shown) + count(x.Withheld)
		if x.Number != last.Number || n == before {
			continue
		}
		before = n
		for name, side := range map[string]float64{"helps": 1, "harms": -1} {
			place := "Experiment | evidence that it " + name + " | "
			p.add(place+"outcomes", float64(n))
			p.add(place+"Value", x.wealth(0, side), float64(n), float64(x.version))
		}
	}
}

// executions adds the rows of a table of executions.
func (p Page) executions(heading, book string, all []*run) {
	for _, r := range all {
		row := heading + book + "/executions/" + r.Handle + " | "
		if s := r.score(); s != 0 {
			p.add(row+"Outcome", s)
		}
		p.add(row+"Bullets shown", float64(len(r.Shown)))
		p.add(row+"Cited", float64(len(r.Cited)))
		if r.Version > 0 {
			p.add(row+"Version", float64(r.Version))
		}
	}
}

// review is the list of bullets that wait.
func (c *Console) review(p Page, book string, _ []string, _ url.Values) {
	h := c.books[book]
	for id, b := range h.now() {
		if !b.waits() {
			continue
		}
		version := uint64(0)
		var supporters int
		for _, x := range h.changes {
			for i := range x.Ops {
				o := &x.Ops[i]
				status := o.Status
				if o.Whole != nil {
					status = o.Whole.Status
				}
				if o.Bullet == id && (status == "quarantined" || status == "candidate") {
					version = x.Version
					supporters += len(o.Support)
				}
			}
		}
		p.add("Waiting | "+book+"/bullets/"+id+" | · · · version #", float64(version))
		if supporters > 3 {
			p.add("Waiting | "+book+"/bullets/"+id+" | and # "+plural(supporters-3, "other execution"), float64(supporters-3))
		}
	}
}

// gate is the page of the gate.
func (c *Console) gate(p Page, book string, _ []string, _ url.Values) {
	h := c.books[book]
	tested, candidates := 0, 0
	for id, b := range h.now() {
		heading := "Experiments | "
		switch {
		case b.inPrompts():
			tested++
		case b.Status == "candidate":
			candidates++
			heading = "Candidates | "
		default:
			continue
		}
		row := heading + book + "/bullets/" + id + " | "
		p.liftOf(row+"Lift, points", &b.Experiment, false)
		for column, s := range map[string][11]int{"Mean shown": b.Experiment.Shown, "Mean withheld": b.Experiment.Withheld, "Mean cited": b.Experiment.Cited} {
			if n := count(s); n > 0 {
				p.add(row+column, mean(s), float64(n))
			}
		}
		if b.inPrompts() {
			p[row+"Next"] = []Expected{{Values: c.next(&b), Among: true}}
		}
	}
	p.add("Shown or on probation", float64(tested))
	p.add("Candidates", float64(candidates))
	p.add("Control share | A random #% of the sessions gets no advice. Their outcomes show whether the playbook as a whole helps.", c.controlShare(book)...)
	decided := map[string]*kept{}
	shown := map[string]bool{}
	for _, x := range h.changes {
		for i := range x.Ops {
			o := &x.Ops[i]
			if o.Kind != "ADD" && o.Kind != "PUT" && o.Kind != "STATUS" {
				continue
			}
			status := o.Status
			if o.Whole != nil {
				status = o.Whole.Status
			}
			again := status == "probation" && shown[o.Bullet]
			shown[o.Bullet] = status == "" || status == "active"
			delete(decided, o.Bullet)
			if x.Author == "curator" && (status == "retired" || again) {
				decided[o.Bullet] = &kept{version: x.Version, numbers: valuesOf(o.Reason)}
			}
		}
	}
	for id, d := range decided {
		p.add("Recent decisions | "+book+"/bullets/"+id+" | Version", float64(d.version))
		p.add("Recent decisions | "+book+"/bullets/"+id+" | Reason", d.numbers...)
	}
}

// share adds a share with its 95 % interval (Wilson 1927) and its number.
func share(right, n int) []float64 {
	if n == 0 {
		return nil
	}
	const z = 1.959964
	k := float64(n)
	rate := float64(right) / k
	centre, half := (rate+z*z/2/k)/(1+z*z/k), z/(1+z*z/k)*math.Sqrt(rate*(1-rate)/k+z*z/4/k/k)
	return []float64{100 * rate, 100 * max(0, centre-half), 100 * min(1, centre+half), k}
}

// cell has the sums of some executions.
type cell struct {
	executions, known, right, input, cached int
	cost                                    float64
}

func (x *cell) take(r *run) {
	x.executions++
	x.input, x.cached, x.cost = x.input+r.Usage.Input, x.cached+r.Usage.Cached, x.cost+r.Usage.Dollars
	if r.Outcome.label() != "" {
		x.known++
	}
	if r.Outcome.label() == "success" {
		x.right++
	}
}

// arms has the sums of all executions, of those with a context of the playbook, and of the other runs of agents.
type arms [3]cell

func (x *arms) take(r *run) {
	x[0].take(r)
	switch {
	case r.Context != "" || r.Built != nil:
		x[1].take(r)
	case r.fromAgent():
		x[2].take(r)
	}
}

func (r *run) fromAgent() bool {
	return r.Origin.Agent == "agent" || strings.HasPrefix(r.Origin.Agent, "agent/")
}

// add adds the cells of a row of the curve.
func (x *arms) add(p Page, row string) {
	p.add(row+"Executions", float64(x[0].executions))
	for i, column := range []string{"All", "With the playbook", "Without it"} {
		p.add(row+column, share(x[i].right, x[i].known)...)
	}
	x[0].usage(p, row, "Cached")
}

func (x *cell) usage(p Page, row, cached string) {
	p.add(row+"Input tokens", float64(x.input))
	p.add(row+cached, 100*float64(x.cached)/max(1, float64(x.input)))
	if x.cost > 0 {
		p.add(row+"Cost", x.cost)
	}
}

// curve is the page of the learning curve and the health.
func (c *Console) curve(p Page, book string, _ []string, _ url.Values) {
	var total arms
	days, versions := map[string]*arms{}, map[uint64]*arms{}
	for _, r := range c.ofBook(book) {
		day := r.Started.UTC().Format(time.DateOnly)
		if days[day] == nil {
			days[day] = new(arms)
		}
		if versions[r.Version] == nil {
			versions[r.Version] = new(arms)
		}
		total.take(r)
		days[day].take(r)
		versions[r.Version].take(r)
	}
	p.add("Executions", float64(total[0].executions))
	for i, place := range []string{"Accuracy", "With the playbook", "Without the playbook"} {
		p.add(place, share(total[i].right, total[i].known)...)
	}
	total[0].usage(p, "", "Read from the provider's cache")
	for day, x := range days {
		x.add(p, "Days | "+day+" | ")
	}
	var marks [2][]measurement
	steps := 0
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		x := versions[v]
		row := fmt.Sprintf("Versions | %d | ", v)
		if v == 0 {
			row = "Versions | none | "
		} else {
			p.add(row+"Version", float64(v))
		}
		x.add(p, row)
		steps += x[0].executions
		for arm := range marks {
			marks[arm] = append(marks[arm], measurement{steps, x[arm+1].known, x[arm+1].right, float64(v), 0})
		}
	}
	pooled(p, "with the playbook", "executions", marks[0], 20)
	pooled(p, "without the playbook", "executions", marks[1], 20)
	c.health(p, book)
}

// measurement are outcomes at a step of a curve.
type measurement struct {
	step, n, right int
	at             float64 // the step, as the page calls it
	group          int
}

// pooled adds the table of a series: neighbours are pooled until they have enough outcomes, or the group ends.
func pooled(p Page, series, axis string, all []measurement, enough int) {
	all = slices.DeleteFunc(all, func(m measurement) bool { return m.n == 0 })
	var sum measurement
	var from float64
	for i, m := range all {
		if sum.n == 0 {
			from = m.at
		}
		sum.n, sum.right = sum.n+m.n, sum.right+m.right
		if sum.n < enough && i+1 < len(all) && all[i+1].group == m.group {
			continue
		}
		s := share(sum.right, sum.n)
		values := []float64{s[0], float64(sum.right), float64(sum.n), 95, s[1], s[2]}
		if from != m.at {
			values = append(values, from)
		}
		p.add(series+" | "+axis, float64(m.step))
		p.add(series+" | Value", append(values, m.at)...)
		sum = measurement{}
	}
}

// health adds the numbers of the health of a playbook.
func (c *Console) health(p Page, book string) {
	h := c.books[book]
	days := h.days(c.now)
	x := days[len(days)-1]
	const heading = "Health | "
	shareOf := func(place string, part, of int) {
		if of > 0 {
			p.add(heading+place, 100*float64(part)/float64(of), float64(part), float64(of))
		} else {
			p.add(heading+place, 0, 0)
		}
	}
	shareOf("Ever cited", x.cited, x.active)
	shareOf("No effect", x.noEffect, x.injections)
	if x.bullets > 0 {
		p.add(heading+"Contribution", 100*x.estimate, 100*x.low, 100*x.high, float64(x.bullets), float64(x.shown), float64(x.withheld), 95)
	}
	p.add(heading+"Contradictions", float64(x.contradicted))
	p.add(heading+"Last confirmed", x.median, x.oldest, float64(x.stale), 30)
	if len(days) < 2 {
		return
	}
	first, _ := time.Parse(time.DateOnly, days[0].day)
	for _, d := range days {
		day, _ := time.Parse(time.DateOnly, d.day)
		add := func(series string, numbers ...int) {
			if numbers[1] == 0 {
				return
			}
			p.add(heading+series+" | days since "+days[0].day, day.Sub(first).Hours()/24)
			p.add(heading+series+" | Value", append(valuesOf(d.day), ints(numbers...)...)...)
		}
		add("ever cited", d.cited, d.active)
		add("no effect", d.noEffect, d.injections)
		add("not confirmed for 30 days", d.stale, d.active, 30)
	}
}

// executions are the pages of the executions of a playbook.
func (c *Console) executions(p Page, book string, rest []string, q url.Values) {
	if len(rest) > 0 {
		c.execution(p, book, c.runOf(rest[0]))
		return
	}
	all := slices.DeleteFunc(c.ofBook(book), func(r *run) bool {
		label := cmp.Or(r.Outcome.label(), "unknown")
		before, err := time.Parse(time.RFC3339, q.Get("before"))
		return err == nil && !r.Started.Before(before) || q.Get("task") != "" && q.Get("task") != r.Origin.Task || q.Get("outcome") != "" && q.Get("outcome") != label || q.Get("session") != "" && q.Get("session") != r.Session || q.Get("doubted") != "" && !r.Doubted
	})
	p.executions("", book, all[:min(50, len(all))])
}

// execution is the page of one execution.
func (c *Console) execution(p Page, book string, r *run) {
	const facts = "Facts | "
	for _, s := range r.Steps {
		for _, call := range s.Calls {
			if call.Took > 0 {
				p.add("Steps | call", float64(call.Took.Milliseconds()))
			}
		}
	}
	if s := r.score(); s != 0 {
		p.add(facts+"verdict", s)
	}
	if named := r.stored.Scores; named != nil {
		for _, s := range *named {
			p.add(facts+"named score", s.Score)
		}
	}
	p.add(facts+"Playbook", float64(r.Version))
	p.add(facts+"Shown", ints(len(r.Shown), len(r.Cited))...)
	if r.Usage.Input > 0 {
		tokens := ints(r.Usage.Input, r.Usage.Output)
		if r.Usage.Cached > 0 {
			tokens = append(tokens, float64(r.Usage.Cached))
		}
		p.add(facts+"Tokens", tokens...)
	}
	if r.Usage.Dollars > 0 {
		p.add(facts+"Cost", r.Usage.Dollars)
	}
	if r.Took > 0 {
		p.add(facts+"Duration", inUnit(time.Duration(r.Took)))
	}
	if r.Built != nil {
		m := r.Built
		p.add("What the model received | tokens", ints(m.Tokens, m.Limit)...)
		var omitted []float64
		for _, o := range m.Omitted {
			p.add("What the model received | "+o.Kind+", omitted | Reference", float64(o.Count))
			p.add("What the model received | "+o.Kind+", omitted | Tokens", float64(o.Tokens))
			omitted = append(omitted, float64(o.Count))
		}
		p.add("What the model received | omitted", omitted...)
		for _, w := range m.Warnings {
			_, shape := ParseNumbers(strings.ToUpper(w[:1]) + w[1:])
			p.add("Warnings | "+shape, valuesOf(w)...)
		}
		for _, x := range m.Parts {
			if x.Count > 0 {
				p.add("What the model received | "+x.Kind+" | Reference", float64(x.Count))
			}
			p.add("What the model received | "+x.Kind+" | Tokens", float64(x.Tokens))
		}
	}
	h := c.books[book]
	for _, last := range h.changes {
		var ours []int
		for i, s := range last.Covers {
			if s.Evidence == nil || s.Evidence.Execution != r.Handle {
				continue
			}
			ours = append(ours, i)
			if f := c.reflected(&s); f != nil && f.Outcome.Score != 0 {
				p.add("Reflection | outcome", f.Outcome.Score)
			}
		}
		if len(ours) == 0 || last.More {
			continue
		}
		row := fmt.Sprintf("Learned from it | %s/versions/%d | ", book, last.Version)
		for _, part := range h.parts(last) {
			for i := range part.Ops {
				if o, ok := supported(&part.Ops[i], ours); ok {
					p.add(row+"Version", float64(last.Version))
					p.add(row+"Change", sentence(o, last)...)
				}
			}
		}
		for _, part := range h.parts(last) {
			for i := range part.Refused {
				if o, ok := supported(&part.Refused[i].Op, ours); ok {
					p.add(row+"Version", float64(last.Version))
					p.add(row+"Change", valuesOf(cmp.Or(part.Refused[i].Reason, o.Reason, last.Reason))...)
				}
			}
		}
	}
}

// reflected returns the stored reflection behind a cover, nil if it has expired or was never stored.
func (c *Console) reflected(s *support) *reflection {
	for _, m := range c.Reflections {
		if kind, _ := kindAndBook(m.Subject); m.Seq != s.Seq || kind != "reflection" {
			continue
		}
		if f, err := decode[reflection](m.Data); err == nil && source(f) == s.ID {
			return f
		}
	}
	return nil
}

// supported returns an operation with the part of an execution alone: its votes and its outcomes. It is false without its support.
func supported(o *changeOp, ours []int) (*changeOp, bool) {
	one := *o
	one.Support, one.Seen = nil, nil
	for k, i := range o.Support {
		if !slices.Contains(ours, i) {
			continue
		}
		one.Support = append(one.Support, i)
		if k < len(o.Seen) {
			one.Seen = append(one.Seen, o.Seen[k])
		}
	}
	if o.Kind == "TAG" { // each supporter has one vote
		one.Helpful, one.Harmful, one.Neutral = len(one.Support), 0, 0
	}
	return &one, len(one.Support) > 0
}

// inUnit returns a duration in the unit in which Go formats it.
func inUnit(d time.Duration) float64 {
	switch {
	case d < time.Microsecond:
		return float64(d)
	case d < time.Millisecond:
		return float64(d) / 1e3
	case d < time.Second:
		return float64(d) / 1e6
	}
	return d.Seconds()
}

// sessions are the pages of the sessions.
func (c *Console) sessions(p Page, book string, rest []string, q url.Values) {
	all := c.ofBook(book)
	if len(rest) > 0 {
		var ours []*run
		for _, r := range all {
			if r.Session == rest[0] && (!q.Has("owner") || r.Owner == q.Get("owner")) {
				ours = append(ours, r)
				if r.Turn > 0 {
					place := "Window | " + book + "/executions/" + r.Handle + " | Turn # · ·"
					p[place] = append(p[place], Expected{Values: []float64{float64(r.Turn)}, Among: true}) // the window may have expired
				}
			}
		}
		p.executions("Stored executions | ", book, ours[:min(50, len(ours))])
		return
	}
	turns := map[[2]string]int{}
	var newest [][2]string
	for _, r := range all {
		key := [2]string{r.Owner, r.Session}
		if r.Session != "" && turns[key] == 0 {
			newest = append(newest, key)
		}
		turns[key]++
	}
	for _, key := range newest[:min(50, len(newest))] {
		p.add(book+"/sessions/"+key[1]+" | Turns", float64(turns[key]))
	}
}

// versions are the pages of the versions.
func (c *Console) versions(p Page, book string, rest []string, q url.Values) {
	h := c.books[book]
	if len(rest) == 0 {
		n := 0
		for _, x := range slices.Backward(h.changes) {
			if after, err := strconv.ParseUint(q.Get("after"), 10, 64); err == nil && x.Version >= after {
				continue
			}
			if q.Get("changes") != "all" && !x.changesBullets() {
				continue
			}
			if n++; n <= 50 {
				c.versionRow(p, "", book, x)
			}
		}
		return
	}
	v, _ := strconv.Atoi(rest[0])
	x := h.changes[v-1]
	p.add("Version # of", float64(v))
	values := x.summary()
	if n := x.reflections(); n > 0 {
		values = append(values, float64(n))
	}
	p.add("summary", values...)
	for i := range x.Ops {
		o := &x.Ops[i]
		plain := *o
		plain.Reason = ""
		p.add("Operations | "+book+"/bullets/"+o.Bullet+" | Change", sentence(&plain, new(change))...)
		p.add("Operations | "+book+"/bullets/"+o.Bullet+" | Reason", valuesOf(o.Reason)...)
	}
	for i := range x.Refused {
		p.add("Rejected | Reason", valuesOf(x.Refused[i].Reason)...)
	}
}

// diff is the comparison of two versions: by default of the newest one with the empty playbook.
func (c *Console) diff(p Page, book string, _ []string, q url.Values) {
	h := c.books[book]
	from, _ := strconv.Atoi(q.Get("from"))
	to, err := strconv.Atoi(q.Get("to"))
	if err != nil {
		to = len(h.changes)
	}
	if n := h.differ(from, to); n > 0 {
		p.add("From to : # "+plural(n, "changed bullet")+".", float64(n))
	}
	h.votesBetween(p, "", book, from, to)
}

// votesBetween adds the votes that differ between two versions.
func (h *history) votesBetween(p Page, heading, book string, from, to int) {
	for id, b := range h.states[from] {
		now, ok := h.states[to][id]
		var values []float64
		for _, v := range [][2]int{{b.Helpful, now.Helpful}, {b.Harmful, now.Harmful}, {b.Neutral, now.Neutral}} {
			if ok && v[0] != v[1] {
				values = append(values, float64(v[0]), float64(v[1]))
			}
		}
		p.add(heading+book+"/bullets/"+id+" | Bullet", values...)
	}
}

// restore is the preview of a restore.
func (c *Console) restore(p Page, book string, _ []string, q url.Values) {
	h := c.books[book]
	to, _ := strconv.Atoi(q.Get("to"))
	for _, x := range h.changes {
		for _, name := range x.Names {
			if name.Name == q.Get("to") {
				to = int(name.Version)
			}
		}
	}
	if n := h.differ(to, len(h.changes)); n > 0 {
		place := "# " + plural(n, "bullet") + " would change"
		p.add(place+" | "+place, float64(n))
		h.votesBetween(p, place+" | ", book, len(h.changes), to)
	}
}

// letters returns the dead letters of a role, or of all.
func (c *Console) letters(role string) (all []*letter) {
	for i := range c.Dead {
		l, err := readLetter(&c.Dead[i])
		if err == nil && l != nil && (role == "" || l.Role == role) {
			all = append(all, l)
		}
	}
	return all
}

// dead are the pages of dead letters.
func (c *Console) dead(p Page, rest []string, q url.Values) {
	for _, l := range c.letters(q.Get("role")) {
		id := strconv.FormatUint(l.at, 10)
		if len(rest) == 0 {
			p.add("dead/"+id+" | Attempts", float64(l.Attempts))
		} else if number, _, _ := strings.Cut(rest[0], "-"); number == id {
			p.add("Attempts", float64(l.Attempts))
			p.add("Stream", float64(l.Seq))
		}
	}
}

// status is the page of the health. Numbers of processes are not in any stream.
func (c *Console) status(p Page, _ []string, _ url.Values) {
	roles := map[string]string{"generator": "Generator", "reflector": "Reflector", "curator": "Curator"}
	for role, name := range roles {
		p.add("Roles | "+name+" | Dead letters", float64(len(c.letters(role))))
	}
	if n := len(c.letters("")); n > 0 {
		p.add("# "+plural(n, "dead letter")+": read the reasons with 'debrief dead list', then run 'debrief dead requeue --all', or drop them", float64(n))
	}
	for _, book := range c.names() {
		row := "Playbooks | " + book + " | "
		shown := 0
		for _, b := range c.books[book].now() {
			if b.active() {
				shown++
			}
		}
		p.add(row+"Bullets", float64(len(c.books[book].now())))
		p.add(row+"Shown", float64(shown))
		p.add(row+"Lag of the view", float64(len(c.books[book].changes))-float64(c.viewed(book)))
	}
	for name, info := range c.infos {
		row := "Streams | " + name + " | "
		p.add(row+"Messages", float64(info.State.Msgs))
		size := float64(info.State.Bytes)
		for size >= 1000 {
			size /= 1000
		}
		p.add(row+"Size", size)
		p.add(row+"Last sequence", float64(info.State.LastSeq))
		p.add(row+"Replicas", float64(info.Config.Replicas))
	}
}

// viewed is the version of the view of a playbook.
func (c *Console) viewed(book string) uint64 {
	for _, m := range slices.Backward(c.View) {
		if m.Subject == "$KV.playbook."+book+".head" {
			if h, err := decode[head](m.Data); err == nil {
				return h.Version
			}
		}
	}
	return 0
}

// erasures is the list of erasures. Their counts are those of the program that removed the data.
func (c *Console) erasures(p Page, _ []string, _ url.Values) {
	for _, m := range c.Erasures {
		e, err := decode[struct {
			ID       string `msgpack:"i"`
			Kind     string `msgpack:"k"`
			Runs     int    `msgpack:"r"`
			Versions int    `msgpack:"v"`
			Gaps     []struct {
				Messages int `msgpack:"n"`
			} `msgpack:"g"`
		}](m.Data)
		if err != nil || e.ID == "" || e.Kind == "" {
			continue
		}
		removed := 0
		for _, g := range e.Gaps {
			removed += g.Messages
		}
		p.add("Requested erasures | "+e.ID+" | Runs", float64(e.Runs))
		p.add("Requested erasures | "+e.ID+" | Messages", float64(removed))
		p.add("Requested erasures | "+e.ID+" | Versions", float64(e.Versions))
	}
}

func decodeJSON(data []byte) (v any, err error) {
	data, err = unpacked(data)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	return v, err
}
