package auditor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"
)

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
		if err := c.books[book].add(m); err != nil {
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

func decodeJSON(data []byte) (v any, err error) {
	data, err = unpacked(data)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	return v, err
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

// settings is the page of the settings and tokens. None of its numbers is in a stream.
func (c *Console) settings(Page, []string, url.Values) {}
