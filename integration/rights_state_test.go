package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
)

// attackEnv is a server with tenants that have all streams, victim streams for deletions, and listeners on all inboxes.
type attackEnv struct {
	*tlsServer
	t        *testing.T
	replicas int
	tenants  []string
	conns    map[string]*nats.Conn // by tenant/user
	acks     map[string]string     // by tenant/role: the ack subject of a pending delivery

	whole map[string]string // the state of undamaged victims

	mu    sync.Mutex
	heard map[string]int // by name of the state: number of messages on subjects without a stream, such as inboxes
}

// victims are streams that only the test uses. Each contains a message; the last has a consumer.
var victims = []string{"VDELETE", "VPURGE", "VUPDATE", "VMSG", "VTRACE", "VCONSUMER"}

// Names of the stream and the consumer that attacks try to create.
const createdStream, createdConsumer = "VCREATED", "created"

func (w *attackEnv) conn(tenant, user string) *nats.Conn { return w.conns[tenant+"/"+user] }

func (w *attackEnv) operator(tenant string) jetstream.JetStream {
	js, err := jetstream.New(w.conn(tenant, events.UserOperator))
	if err != nil {
		w.t.Fatal(err)
	}
	return js
}

// prepare creates streams and victims, stores the payloads of the attacks, takes a delivery for each role, and starts
// listeners.
func (w *attackEnv) prepare() {
	w.t.Helper()
	w.conns, w.acks, w.heard = map[string]*nats.Conn{}, map[string]string{}, map[string]int{}
	for _, tenant := range w.tenants {
		for _, user := range roleUsers {
			w.conns[tenant+"/"+user] = w.connect(tenant, user)
		}
		c, err := bus.Open(w.t.Context(), w.conn(tenant, events.UserOperator), bus.Options{Replicas: w.replicas})
		if err == nil {
			err = c.Consumers.Create(w.t.Context())
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for _, name := range victims {
			w.repair(tenant, name)
		}
		w.payloads(tenant)
		w.pending(tenant)
		w.listen(tenant)
	}
	w.whole = victimsOf(w.state())
}

// payloadSubject returns the subject at which a stream stores the payload of a target, or "" if no user may publish to the
// stream.
func payloadSubject(stream, target string) string {
	if bucket, ok := strings.CutPrefix(stream, "KV_"); ok {
		return "$KV." + bucket + ".payload." + target
	}
	return map[string]string{
		events.StreamTasks: "debrief.task.", events.StreamExecutions: "debrief.execution.", events.StreamReflections: "debrief.reflection.",
		events.StreamDeltas: "debrief.delta.", "OBJ_" + events.BucketBlobs: "$O.blobs.C.",
	}[stream] + target
}

// payloads stores the payload of each target in each stream.
func (w *attackEnv) payloads(tenant string) {
	w.t.Helper()
	streams := []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections, events.StreamDeltas, "OBJ_" + events.BucketBlobs}
	for _, bucket := range []string{events.BucketPlaybook, events.BucketWindow, events.BucketState, events.BucketContexts, events.BucketVectors, events.BucketRuns, events.BucketOpen, events.BucketCaptures} {
		streams = append(streams, "KV_"+bucket)
	}
	for _, stream := range streams {
		user := events.UserOperator
		if stream == events.StreamDeltas || stream == "KV_"+events.BucketPlaybook {
			user = events.RoleCurator
		}
		for _, x := range targets {
			if x.kind == "stream" || x.kind == "consumer" {
				w.request(tenant, user, payloadSubject(stream, x.name), x.body)
			}
		}
	}
}

// request sends a request, which must succeed. A cluster that elects a leader is asked again for up to 20 s.
func (w *attackEnv) request(tenant, user, subject, body string) []byte {
	w.t.Helper()
	for until := time.Now().Add(20 * time.Second); ; pause(w.t.Context(), 100*time.Millisecond) {
		m, err := w.conn(tenant, user).Request(subject, []byte(body), 20*time.Second)
		if err == nil && strings.Contains(string(m.Data), `"error"`) {
			err = errors.New(string(m.Data))
		}
		if err == nil {
			return m.Data
		}
		if time.Now().After(until) {
			w.t.Fatalf("%s of %s requests %s: %v", user, tenant, subject, err)
		}
	}
}

// pending takes one delivery for each role and leaves it unacknowledged.
func (w *attackEnv) pending(tenant string) {
	w.t.Helper()
	for role, stream := range durableOf {
		js := w.operator(tenant)
		cons, err := js.Consumer(w.t.Context(), stream, role)
		if err != nil {
			w.t.Fatal(err)
		}
		m, err := cons.Next(jetstream.FetchMaxWait(20 * time.Second))
		if err != nil {
			w.t.Fatalf("%s of %s: %v", role, tenant, err)
		}
		w.acks[tenant+"/"+role] = m.Reply()
	}
}

var durableOf = map[string]string{
	events.RoleGenerator: events.StreamTasks, events.RoleReflector: events.StreamExecutions, events.RoleCurator: events.StreamReflections,
}

// listen counts the messages on the inboxes of each user and the announcements. The generator's service and the health
// service of the roles reply without a check of the reply subject.
func (w *attackEnv) listen(tenant string) {
	w.t.Helper()
	on := func(user, subject string, handle nats.MsgHandler) {
		if _, err := w.conn(tenant, user).Subscribe(subject, handle); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, user := range roleUsers {
		on(user, events.InboxPrefix(user)+".>", func(m *nats.Msg) {
			if strings.HasPrefix(m.Subject, events.InboxPrefix(user)+".forged.") {
				w.count(tenant + " inbox " + user)
			}
		})
	}
	answer := func(m *nats.Msg) { _ = m.Respond(nil) }
	for _, subject := range []string{"debrief.api.*.*", "$SRV.>", events.SubjectHealth} {
		on(events.RoleGenerator, subject, answer)
	}
	on(events.RoleGenerator, events.HeadSubject(""), func(m *nats.Msg) { w.count(tenant + " announcement") })
	for _, user := range roleUsers {
		if err := w.conn(tenant, user).Flush(); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *attackEnv) count(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard[name]++
}

// state returns everything that an attack could change, by name: streams with their configuration, consumers, and received
// messages.
func (w *attackEnv) state() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, tenant := range w.tenants {
		var list struct {
			Streams []struct {
				Config struct{ Name string }
				State  struct {
					Messages  uint64 `json:"messages"`
					FirstSeq  uint64 `json:"first_seq"`
					LastSeq   uint64 `json:"last_seq"`
					Deleted   int    `json:"num_deleted"`
					Consumers int    `json:"consumer_count"`
				}
			}
		}
		var raw struct {
			Streams []struct{ Config json.RawMessage }
		}
		data := w.request(tenant, events.UserOperator, "$JS.API.STREAM.LIST", "")
		w.decode(data, &list)
		w.decode(data, &raw)
		for i, s := range list.Streams {
			all[tenant+" stream "+s.Config.Name] = fmt.Sprintf("%+v %s", s.State, raw.Streams[i].Config)
		}
		for role, stream := range durableOf {
			w.consumers(all, tenant, stream, role)
		}
		w.consumers(all, tenant, "VCONSUMER", "")
		w.subjects(all, tenant, events.StreamTasks)
		w.subjects(all, tenant, events.StreamExecutions)
		w.subjects(all, tenant, events.StreamReflections)
		for _, user := range roleUsers {
			if err := w.conn(tenant, user).Flush(); err != nil { // counts all messages sent before
				w.t.Fatal(err)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range w.heard {
		all[name] = fmt.Sprint(n)
	}
	return all
}

func (w *attackEnv) decode(data []byte, v any) {
	w.t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		w.t.Fatalf("%s: %v", data, err)
	}
}

// consumers adds the named consumer of a stream, or all.
func (w *attackEnv) consumers(all map[string]string, tenant, stream, name string) {
	var list struct {
		Consumers []struct {
			Name   string          `json:"name"`
			Config json.RawMessage `json:"config"`
			Floor  struct {
				Consumer uint64 `json:"consumer_seq"`
			} `json:"ack_floor"`
			Pending int  `json:"num_ack_pending"`
			Paused  bool `json:"paused"`
		}
	}
	m, err := w.conn(tenant, events.UserOperator).Request("$JS.API.CONSUMER.LIST."+stream, nil, 20*time.Second)
	if err != nil {
		w.t.Fatal(err)
	}
	w.decode(m.Data, &list) // empty without the stream
	for _, c := range list.Consumers {
		if name == "" || name == c.Name {
			all[tenant+" consumer "+stream+"/"+c.Name] = fmt.Sprintf("floor %d pending %d paused %v %s", c.Floor.Consumer, c.Pending, c.Paused, c.Config)
		}
	}
}

// subjects adds the forged messages of a stream by subject, because it has several kinds of messages.
func (w *attackEnv) subjects(all map[string]string, tenant, stream string) {
	var info struct {
		State struct{ Subjects map[string]int }
	}
	w.decode(w.request(tenant, events.UserOperator, "$JS.API.STREAM.INFO."+stream, `{"subjects_filter":"debrief.*.forged"}`), &info)
	for subject, n := range info.State.Subjects {
		all[tenant+" subject "+subject] = fmt.Sprint(n)
	}
}

// changed returns the names of changed states.
func changed(before, after map[string]string) (names []string) {
	for _, all := range []map[string]string{before, after} {
		for name := range all {
			if before[name] != after[name] && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// repair recreates a victim, and removes a stream or consumer that an attack created.
func (w *attackEnv) repair(tenant, stream string) {
	w.t.Helper()
	js := w.operator(tenant)
	_ = js.DeleteStream(w.t.Context(), stream) // it may not exist
	if stream == createdStream {
		return
	}
	_, err := js.CreateStream(w.t.Context(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{"$KV." + stream + ".>"}, Storage: jetstream.MemoryStorage, AllowDirect: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.request(tenant, events.UserOperator, "$KV."+stream+".m", "a message")
	if stream == "VCONSUMER" {
		for _, name := range []string{"victim", "paused"} {
			if _, err := js.CreateConsumer(w.t.Context(), stream, jetstream.ConsumerConfig{Durable: name}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// victimsOf returns the states of victims and of streams and consumers that attacks create.
func victimsOf(state map[string]string) map[string]string {
	part := maps.Clone(state)
	maps.DeleteFunc(part, func(name, _ string) bool {
		return !strings.Contains(name, " stream V") && !strings.Contains(name, " consumer V")
	})
	return part
}

// restore repairs all damaged victims and returns the new state.
func (w *attackEnv) restore(state map[string]string) map[string]string {
	w.t.Helper()
	for {
		damaged := map[[2]string]bool{}
		for _, name := range changed(w.whole, victimsOf(state)) {
			tenant, rest, _ := strings.Cut(name, " ")
			_, stream, _ := strings.Cut(rest, " ")
			stream, _, _ = strings.Cut(stream, "/")
			damaged[[2]string{tenant, stream}] = true
		}
		if len(damaged) == 0 {
			return state
		}
		for d := range damaged {
			w.repair(d[0], d[1])
		}
		state = w.state()
	}
}
