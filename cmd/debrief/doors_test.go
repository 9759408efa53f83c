package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/runs"
	"debrief/cmd/internal/train/dataset"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/service"
	"debrief/generator/scoring"
	"debrief/playbook/formats"

	book "debrief/playbook"
)

// hostile is a body that must not cost what it asks for.
type hostile struct {
	name string
	size int
	open func() io.Reader
}

// again is so many bytes of one text over and over.
func again(text string, size int) func() io.Reader {
	page := []byte(strings.Repeat(text, max(1, 64<<10/len(text))))
	return func() io.Reader { return io.LimitReader(&loop{page: page}, int64(size)) }
}

type loop struct {
	page []byte
	at   int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.page[l.at:])
	l.at = (l.at + n) % len(l.page)
	return n, nil
}

func after(first string, rest func() io.Reader) func() io.Reader {
	return func() io.Reader { return io.MultiReader(strings.NewReader(first), rest()) }
}

// nested is how deep the hostile bodies are, and large how many bytes the large ones have.
const (
	nested = 1_000_000
	large  = 100 << 20
)

var bodies = []hostile{
	{"dd ff ff ff ff", 5, after("\xdd\xff\xff\xff\xff", again("x", 0))},
	{"a million maps of MessagePack", 3 * nested, again("\x81\xa1a", 3*nested)},
	{"a million arrays of MessagePack", nested, again("\x91", nested)},
	{"a million arrays of JSON", nested, again("[", nested)},
	{"a million objects of JSON", 5 * nested, again(`{"a":`, 5*nested)},
	{"100 MiB of MessagePack", large, after("\x81\xa8question\xdb\x06\x3f\xff\xf2", again("x", large-14))},
	{"100 MiB of JSON in one line", large, after(`{"question":"`, again("x", large-13))},
	{"100 MiB of brackets", large, again("[", large)},
}

// door is where something comes in. It returns why it refused; a stream is read by whoever is behind the door.
type door struct {
	name string
	in   func(t *testing.T, body io.Reader) error
	// held says that the caller has the body in memory before the door sees it, so that it counts as there before.
	held func(t *testing.T, body []byte) error
	text func(t *testing.T, body string) error // the same of a string
}

// nobody is behind the service's door: nothing that hostile gets as far.
type nobody struct{}

func (nobody) Context(context.Context, *events.ContextRequest) (*events.ContextReply, error) {
	return nil, errors.New("it was let in")
}

func (nobody) Report(context.Context, *events.Report) (*events.StoredReply, error) {
	return nil, errors.New("it was let in")
}

func (nobody) Feedback(context.Context, *events.FeedbackRequest) (*events.StoredReply, error) {
	return nil, errors.New("it was let in")
}

func refusal(a service.Response) error {
	if a.Code < 400 || a.Code >= 500 {
		return nil
	}
	return errors.New(a.Text)
}

func doors(t *testing.T) []door {
	handler := service.NewHandler(nobody{}, zerolog.Nop())
	server := httptest.NewServer(api.New(nobody{}, api.Options{Log: zerolog.Nop()}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "body")
	all := []door{
		{name: "a delta of a log", held: func(_ *testing.T, body []byte) error {
			_, err := events.DecodeDelta(body)
			return err
		}},
		{name: "JSON from a model", text: func(_ *testing.T, body string) error {
			_, err := chat.ParseObject(chat.Reply{Text: body, Finish: "stop"}, "")
			return err
		}},
		{name: "a reader of traces", in: func(t *testing.T, body io.Reader) error {
			report, err := runs.Read(t.Context(), "b", "f.jsonl", body, func(*events.Execution) error { return nil })
			for _, p := range report.Problems {
				err = errors.Join(err, errors.New(p.Reason))
			}
			return err
		}},
		{name: "a reader of tasks", in: func(t *testing.T, body io.Reader) error {
			_, err := dataset.Read(t.Context(), "f.jsonl", body, dataset.Options{})
			return err
		}},
		{name: "a file of ours, such as a playbook, steps or a question", in: func(t *testing.T, body io.Reader) error {
			out, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(out, body); err != nil {
				t.Fatal(err)
			}
			out.Close()
			data, err := cli.ReadFile(file)
			if err != nil {
				return err
			}
			_, err = formats.Read(data, "", nil)
			return err
		}},
		{name: "a body over HTTP", in: func(t *testing.T, body io.Reader) error {
			r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/api/v1/executions", io.NopCloser(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return nil // cut off in the middle of the body; that it was answered is tested where the door is
			}
			defer resp.Body.Close()
			said, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
			if err != nil || resp.StatusCode < 400 || resp.StatusCode >= 500 {
				t.Errorf("got %d, %q, %v", resp.StatusCode, said, err)
			}
			return errors.New(string(said))
		}},
		{name: "a program that judges", in: func(t *testing.T, body io.Reader) error {
			out, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(out, body); err != nil {
				t.Fatal(err)
			}
			out.Close()
			judge := scoring.NewScorer(scoring.Config{Programs: []scoring.Program{{Name: "p", Command: []string{"cat", file}}}, Timeout: time.Minute}, 1)
			log := zerolog.Nop()
			o, err := judge.Evaluate(t.Context(), &events.Task{ID: "1", Question: "q", Evaluator: "program:p"}, scoring.Answer{Final: "x"}, &log)
			if err != nil || o.Label != events.Unknown {
				t.Errorf("got %+v, %v", o, err)
			}
			return errors.New(o.Feedback)
		}},
		{name: "names", text: func(_ *testing.T, name string) error {
			_, _, err := events.ParseSubject(name)
			_, _, handle := events.Handle(name).Parse()
			e := &events.Execution{ID: events.ID(name), RunID: name, Purpose: events.Purpose(name)}
			return errors.Join(err, handle, book.Book(name).Validate(), e.Validate())
		}},
	}
	for _, k := range []events.Kind{events.KindTask, events.KindExecution} {
		all = append(all, door{name: "a message: " + string(k), held: func(_ *testing.T, body []byte) error {
			_, err := events.Decode(k.Subject("b"), events.SchemaHeader(), body)
			return err
		}})
	}
	for _, verb := range []string{events.VerbReport} {
		all = append(all, door{name: "a request over NATS: " + verb, held: func(t *testing.T, body []byte) error {
			return refusal(handler.Handle(t.Context(), verb, "b", events.Caller{}, body))
		}})
	}
	return all
}

// TestEveryDoorRefusesWhatIsTooMuch sends each hostile body through each door: it ends in a refusal of a few words, which
// names a limit, or the encoding, where the size or the depth is what is wrong, and costs little memory, garbage included. It is not parallel:
// it measures the heap.
func TestEveryDoorRefusesWhatIsTooMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	const most = 50 << 20
	old := debug.SetGCPercent(10) // what is measured is what is needed, and not what waits to be collected
	defer debug.SetGCPercent(old)
	limit := regexp.MustCompile(`[0-9]{2,}|[0-9] MiB|exceeded max depth|too large|is JSON, want MessagePack`)
	var worst uint64
	for _, body := range bodies {
		for _, d := range doors(t) {
			t.Run(body.name+" at "+d.name, func(t *testing.T) {
				var data []byte
				var text string
				switch {
				case d.held != nil:
					data = make([]byte, body.size)
					_, _ = io.ReadFull(body.open(), data)
				case d.text != nil:
					var b strings.Builder
					b.Grow(body.size)
					_, _ = io.Copy(&b, body.open())
					text = b.String()
				}
				var err error
				extra := heapOf(func() {
					switch {
					case d.held != nil:
						err = d.held(t, data)
					case d.text != nil:
						err = d.text(t, text)
					default:
						err = d.in(t, body.open())
					}
				})
				runtime.KeepAlive(data)
				runtime.KeepAlive(text)
				worst = max(worst, extra)
				if extra > most {
					t.Errorf("it took %d MB, want at most %d", extra>>20, most>>20)
				}
				if err == nil {
					if d.name != "a body over HTTP" {
						t.Error("it was let in")
					}
					return
				}
				said := err.Error()
				if len(said) > 3000 {
					t.Errorf("the refusal has %d bytes: %.200q", len(said), said)
				}
				if body.size > 64<<20 && !limit.MatchString(said) {
					t.Errorf("the refusal names no limit: %.300q", said)
				}
			})
		}
	}
	t.Logf("%d bodies at %d doors, the most extra memory was %d MB", len(bodies), len(doors(t)), worst>>20)
}

// heapOf is how much the heap grows at most while f runs.
func heapOf(f func()) uint64 {
	runtime.GC()
	var before, m runtime.MemStats
	runtime.ReadMemStats(&before)
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-done:
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(done)
	most := <-peak
	if most < before.HeapAlloc {
		return 0
	}
	return most - before.HeapAlloc
}
