package integration

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"html"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/integration/auditor"
	"debrief/playbook"
)

var worthShots = flag.String("worth-shots", "", "write screenshots of the overview and of the worth of three playbooks to this directory, with Chromium")

// shootWorth takes a screenshot of a page, if the flag asks for it.
func shootWorth(t *testing.T, url, name string) {
	t.Helper()
	if *worthShots == "" {
		return
	}
	if err := os.MkdirAll(*worthShots, 0o755); err != nil { // Chromium reports no missing directory
		t.Fatal(err)
	}
	file := filepath.Join(*worthShots, name+".png")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // also after the test
	defer cancel()
	if out, err := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,1000", "--timeout=5000", "--screenshot="+file, url).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// advice are the playbooks of the test, by name: one helps the simulated model, one does nothing, and one harms.
var advice = map[playbook.Book]string{
	"helps": "Weigh the parcel twice before you answer.", "idle": "Greet the customer by name.", "harms": "Guess the weight of the parcel.",
}

// simulatedParcels is a simulated model. It is right on half of the parcels, on 85 % with good advice, and on 15 % with bad advice.
func simulatedParcels(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	question := p.Messages[len(p.Messages)-1].Text
	question = question[strings.LastIndex(question, "Parcel "):]
	question, _, _ = strings.Cut(question, "?")
	all := ""
	for _, m := range p.Messages {
		all += m.Text
	}
	right, input := 50, 500
	for b, text := range advice {
		if strings.Contains(all, text) {
			right += map[playbook.Book]int{"helps": 35, "harms": -35}[b]
			input += 300
		}
	}
	h := fnv.New32a()
	h.Write([]byte(question))
	answer := "heavy"
	if int(h.Sum32()>>8)%100 < right {
		answer = "light"
	}
	text := fmt.Sprintf(`{"reasoning": "I look at the label.", "bullet_ids": [], "final_answer": %q}`, answer)
	return chat.Reply{Text: text, Model: "simulated-parcels", Usage: chat.Usage{Calls: 1, InputTokens: input, OutputTokens: 50, Cost: float64(input) / 1e6}}, nil
}

// worthReply is the reply of the API.
type worthReply struct {
	Status   string
	Summary  string
	With     worthArm
	Without  worthArm
	Warnings []string
	Through  uint64
	Behind   uint64
	Effects  map[string]*auditor.WorthEffect
}

type worthArm struct {
	Sessions, Runs, Outcomes               int
	Rated                                  int `json:"rated_sessions"`
	Score, Failures, Tokens, Cost, Seconds float64
}

// TestWorthOfThreePlaybooks runs tasks of a simulated model with three playbooks: the API, the console and the command say which one helps,
// which one harms, and that the third is not decided. An audit that reads the streams and shares no code recomputes all numbers.
func TestWorthOfThreePlaybooks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	_, url := startServer(t)
	conn := connect(t, url)
	runInBackground(t, conn, bustest.Must(generator.New(chat.ModelFunc(simulatedParcels), nil, generator.Config{Slots: 16})).Run, bustest.Must(curator.New(nil, curator.Config{})).Run)
	edit := func(e *events.Edit) uint64 {
		e.ID, e.Author, e.Created = events.NewID(), "operator", time.Now().UTC()
		var done events.EditReply
		reply, err := conn.Request(t.Context(), e, bus.PublishOptions{})
		if err == nil {
			err = reply.Decode(&done)
		}
		if err != nil {
			t.Fatal(err)
		}
		return done.Version
	}
	const sessions = 250 // of each share
	tasks := 0
	for b, text := range advice {
		edit(&events.Edit{Book: b, Ops: []playbook.Op{{Kind: playbook.Add, Section: "others", Content: text}}})
	}
	for _, share := range []playbook.Share{"50%", "20%"} {
		for b := range advice {
			version := edit(&events.Edit{Book: b, Control: share})
			for s := range sessions {
				for n := range 1 + s%4 {
					task := &events.Task{
						Book: b, ID: fmt.Sprintf("%s-%d-%d", share, s, n), Session: fmt.Sprint("session ", share, s), MinVersion: version, Created: time.Now().UTC(),
						Question: fmt.Sprintf("Parcel %s/%s/%d/%d: is it light?", b, share, s, n),
					}
					if s%7 == 0 {
						task.Session = ""
					}
					if (s+n)%10 > 2 { // the others have no outcome
						task.Target, task.Evaluator = "light", "exact"
					}
					if _, err := conn.Publish(t.Context(), task, bus.PublishOptions{}); err != nil {
						t.Fatal(err)
					}
					tasks++
				}
			}
		}
		awaitMessages(t, t.Context(), conn, events.StreamExecutions, uint64(tasks))
	}
	publishSpecialRuns(t, conn)
	gateway := startReplica(t, "gateway", url, "http://127.0.0.1:1")
	t.Cleanup(func() { shootWorth(t, gateway.url+"/", "overview") }) // before the gateway ends
	read, err := auditor.Read(t.Context(), conn.JetStream())
	if err != nil {
		t.Fatal(err)
	}
	for b, want := range map[string]string{"helps": "helps", "idle": "unclear", "harms": "harms"} {
		got := awaitWorth(t, gateway.url, b, read.Executions[len(read.Executions)-1].Seq)
		t.Logf("WORTH %s: %s Tokens %+.1f %%. %d and %d sessions.", b, got.Summary, got.Effects["tokens_percent"].Mean, got.With.Sessions, got.Without.Sessions)
		if got.Status != want || len(got.Warnings) > 0 {
			t.Errorf("%s: got %s, warnings %q", b, got.Status, got.Warnings)
		}
		audit, err := auditor.CheckWorth(read, b)
		if err != nil {
			t.Fatal(err)
		}
		compareWorth(t, b, audit, got)
		compareCurve(t, read, gateway.url, b)
		shootWorth(t, gateway.url+"/books/"+b+"/worth", b)
		shown := readPage(t, gateway.url+"/books/"+b+"/worth")
		for _, cell := range append(cells(audit), got.Summary) {
			if !strings.Contains(strings.ReplaceAll(shown, "\u202f", ""), ">"+cell+"<") {
				t.Errorf("%s: the page lacks %q", b, cell)
			}
		}
		if !strings.Contains(readPage(t, gateway.url+"/"), got.Summary) {
			t.Errorf("%s: the overview lacks %q", b, got.Summary)
		}
		for _, args := range [][]string{{"--url", gateway.url}, {"--nats", url}} {
			said, err := exec.Command(program(t, "debrief"), append([]string{"report", "--book", b}, args...)...).Output()
			if failed := err != nil; failed != (b == "harms") || !strings.Contains(string(said), got.Summary) {
				t.Errorf("report %v on %s: %v, %s", args, b, err, said)
			}
		}
	}
}

// runInBackground runs roles until the end of the test.
func runInBackground(t *testing.T, conn *bus.Conn, roles ...func(context.Context, *bus.Conn) error) {
	t.Helper()
	for _, run := range roles {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- run(ctx, conn) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// publishSpecialRuns publishes runs that do not count, or count in their own way, and feedback.
func publishSpecialRuns(t *testing.T, conn *bus.Conn) {
	t.Helper()
	publish := func(e events.Event) events.Handle {
		receipt, err := conn.Publish(t.Context(), e, bus.PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return receipt.Handle
	}
	run := func(name string, change func(*events.Execution)) events.Handle {
		e := &events.Execution{
			Book: "helps", ID: events.NewID(), RunID: name, Session: "special", Question: "q", Answer: "a", ContextID: "c", Control: &events.Control{Held: true, Share: 200},
			Outcome: events.Outcome{Label: events.Success}, Usage: chat.Usage{InputTokens: 10_000, Cost: 0.5}, Started: time.Now().UTC(), Duration: time.Minute,
		}
		change(e)
		return publish(e)
	}
	run("evaluation", func(e *events.Execution) { e.Purpose = events.Evaluate })
	run("pinned", func(e *events.Execution) { e.Pinned = true })
	run("without an arm", func(e *events.Execution) { e.Control = nil })
	run("inferred", func(e *events.Execution) { e.Outcome.Inferred = true })
	run("of another owner", func(e *events.Execution) { e.Owner = string(events.Hash("owner")) })
	run("in another arm", func(e *events.Execution) { e.Control.Held = false })
	run("score", func(e *events.Execution) { e.Outcome = events.Outcome{Score: 0.3} })
	run("violation", func(e *events.Execution) { e.Outcome = events.Outcome{Label: events.Failure, Violation: true} })
	run("without usage", func(e *events.Execution) { e.Usage, e.Duration = chat.Usage{}, 0 })
	for round := range 2 {
		run("rounds", func(e *events.Execution) { e.Session, e.Origin.Round = "", round })
	}
	revised := run("revised", func(*events.Execution) {})
	unknown := run("rated later", func(e *events.Execution) { e.Outcome = events.Outcome{} })
	for _, f := range []events.Feedback{
		{Execution: revised, Outcome: events.Outcome{Label: events.Failure}},
		{Execution: revised, Outcome: events.Outcome{Feedback: "only words"}},
		{Execution: unknown, Outcome: events.Outcome{Label: events.Partial}},
		{Execution: unknown, Outcome: events.Outcome{Score: 0.9}},
		{Execution: "999999-ab12cd34", Outcome: events.Outcome{Label: events.Success}},
	} {
		f.Book, f.ID = "helps", events.NewID()
		publish(&f)
	}
}

// awaitWorth reads the comparison of a playbook after the gateway has read the stream up to a sequence.
func awaitWorth(t *testing.T, url, book string, last uint64) *worthReply {
	t.Helper()
	var got *worthReply
	eventually(t, time.Minute, "the gateway has read the stream", func() error {
		text := readPage(t, url+"/api/v1/books/"+book+"/worth") // its sentences have no escapes
		got = &worthReply{Effects: map[string]*auditor.WorthEffect{}}
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		_ = json.Unmarshal([]byte(text), &all) // read above
		for _, name := range []string{"points", "failures_avoided", "tokens_percent", "cost_percent", "time_percent"} {
			var e *auditor.WorthEffect
			if err := json.Unmarshal(all[name], &e); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e != nil {
				got.Effects[name] = e
			}
		}
		if got.Behind > 0 || got.Through < last {
			return fmt.Errorf("read up to %d of %d", got.Through, last)
		}
		return nil
	})
	return got
}

// cells returns the numbers of an audit as the page shows them.
func cells(w *auditor.Worth) (all []string) {
	for _, a := range []auditor.WorthArm{w.With, w.Without} {
		all = append(all, fmt.Sprint(a.Sessions), fmt.Sprint(a.Runs), fmt.Sprint(a.Rated), fmt.Sprint(a.Outcomes),
			fmt.Sprintf("%.1f", a.Score), fmt.Sprintf("%.1f", a.Failures), fmt.Sprintf("%.0f", a.Tokens), fmt.Sprintf("$%.4f", a.Dollars), fmt.Sprintf("%.2f s", a.Seconds))
	}
	for name, e := range w.Effects {
		unit := " %"
		switch name {
		case "points":
			unit = " points"
		case "failures_avoided":
			unit = " avoided"
		}
		all = append(all, fmt.Sprintf("%+.1f%s", e.Mean, unit), fmt.Sprintf("%+.1f to %+.1f", e.Low, e.High))
	}
	return all
}

// compareWorth compares the numbers of the API with those of the audit.
func compareWorth(t *testing.T, book string, want *auditor.Worth, got *worthReply) {
	t.Helper()
	for name, arm := range map[string]struct {
		got  worthArm
		want auditor.WorthArm
	}{"with": {got.With, want.With}, "without": {got.Without, want.Without}} {
		g, w := arm.got, arm.want
		if [4]int{g.Sessions, g.Runs, g.Rated, g.Outcomes} != [4]int{w.Sessions, w.Runs, w.Rated, w.Outcomes} ||
			!equalNumbers([]float64{g.Score, g.Failures, g.Tokens, g.Cost, g.Seconds}, []float64{w.Score, w.Failures, w.Tokens, w.Dollars, w.Seconds}) {
			t.Errorf("%s, %s the playbook: got %+v, want %+v", book, name, g, w)
		}
	}
	if len(got.Effects) != len(want.Effects) || len(got.Effects) != 5 {
		t.Errorf("%s: got %d effects, want %d", book, len(got.Effects), len(want.Effects))
	}
	for name, w := range want.Effects {
		if g := got.Effects[name]; g == nil || !equalNumbers([]float64{g.Mean, g.Low, g.High}, []float64{w.Mean, w.Low, w.High}) {
			t.Errorf("%s, %s: got %+v, want %+v", book, name, g, w)
		}
	}
}

// compareCurve compares the learning curve of the API with the audit.
func compareCurve(t *testing.T, read *auditor.Streams, url, book string) {
	t.Helper()
	want, err := auditor.CheckOutcomes(read, book)
	if err != nil {
		t.Fatal(err)
	}
	var curve struct {
		Versions []struct {
			Version, Executions int
			Accuracy            struct {
				Mean float64
				N    int
			}
			Usage struct {
				Input int `json:"input_tokens"`
			}
		}
	}
	if err := json.Unmarshal([]byte(readPage(t, url+"/api/v1/books/"+book+"/curve")), &curve); err != nil {
		t.Fatal(err)
	}
	got := map[uint64]auditor.Outcomes{}
	for _, p := range curve.Versions {
		right := math.Round(p.Accuracy.Mean * float64(p.Accuracy.N))
		got[uint64(p.Version)] = auditor.Outcomes{Executions: p.Executions, Known: p.Accuracy.N, Right: int(right), Input: p.Usage.Input}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: the curve differs from the audit (-want +got):\n%s", book, diff)
	}
}

// equalNumbers reports whether numbers are equal up to rounding errors.
func equalNumbers(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-6*max(1, math.Abs(b[i])) {
			return false
		}
	}
	return true
}

// readPage returns the body of a page without escapes.
func readPage(t *testing.T, url string) string {
	t.Helper()
	status, body, err := get(t.Context(), url)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s: got %d, %v: %s", url, status, err, body)
	}
	return html.UnescapeString(body)
}
