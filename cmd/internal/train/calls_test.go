package train

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"debrief/cmd/internal/train/replay"
	"debrief/curator/propose"
	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/chat/openai"
	"debrief/reflector"
)

// The estimate counts each sample of each epoch twice in each round, for answer and reflection, the measurements, and the batches of the Curator.
func TestExpectedCalls(t *testing.T) {
	t.Parallel()
	tasks := func(n int) (list []events.Task) {
		for range n {
			list = append(list, events.Task{Question: strings.Repeat("What is due? ", 100), Target: "7"})
		}
		return list
	}
	m := chat.ModelFunc(func(context.Context, chat.Prompt) (chat.Reply, error) { return chat.Reply{}, nil })
	sets := replay.Sets{Train: &replay.Set{Tasks: tasks(10)}, Validation: &replay.Set{Tasks: tasks(4)}, Test: &replay.Set{Tasks: tasks(3)}}
	for _, tt := range []struct {
		name string
		cfg  replay.Config
		with chat.Model
		want int
	}{
		{"all roles", replay.Config{Epochs: 2, Batch: 5}, m, 20 + 20 + 3*4 + 2*3 + 4*propose.Calls(5)},
		{"validation within the epochs", replay.Config{Epochs: 2, Batch: 5, ValidateEvery: 5}, m, 20 + 20 + 5*4 + 2*3 + 4*propose.Calls(5)},
		{"larger windows", replay.Config{Epochs: 1, Batch: 10}, m, 10 + 10 + 2*4 + 2*3 + propose.Calls(10)},
		{"further rounds of wrong answers", replay.Config{Epochs: 1, Batch: 10, Rounds: 3}, m, 3*10 + 3*10 + 2*4 + 2*3 + propose.Calls(10)},
		{"tries, which only the first round has", replay.Config{Epochs: 1, Batch: 10, Rounds: 2, Tries: 3}, m, (3+1)*10 + 2*10 + 2*4 + 2*3 + propose.Calls(10)},
		{"rounds need a model for reflections", replay.Config{Epochs: 1, Batch: 10, Rounds: 3}, nil, 10 + 2*4 + 2*3},
		{"without a model for reflections", replay.Config{Epochs: 1, Batch: 10}, nil, 10 + 2*4 + 2*3},
	} {
		reflects := bustest.Must(reflector.New(tt.with, reflector.Config{}))
		got := expectedCalls(tt.cfg, sets, reflects, tt.with != nil)
		if got.Calls != tt.want || got.Tokens < 300*got.Calls || got.Tokens > 4000*got.Calls {
			t.Errorf("%s: got %s, want %d calls", tt.name, got, tt.want)
		}
	}
	for i := range sets.Train.Tasks {
		sets.Train.Tasks[i].Evaluator = events.JudgeEvaluator
	}
	const answers = 10 + 2*4 + 2*3
	if got := expectedCalls(replay.Config{Epochs: 1, Batch: 10}, sets, bustest.Must(reflector.New(nil, reflector.Config{})), false); got.Calls != 3*answers {
		t.Errorf("with a judge that is asked twice: got %s, want %d calls", got, 3*answers)
	}
	if got := expectedCalls(replay.Config{}, replay.Sets{}, nil, true); got.Calls != 0 {
		t.Errorf("without tasks: got %s", got)
	}
}

// The calls that were made are the requests that the server got, with those that were repeated.
func TestCallsMade(t *testing.T) {
	t.Parallel()
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"{}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`))
	}))
	t.Cleanup(srv.Close)
	c := bustest.Must(openai.New(openai.Config{BaseURL: srv.URL, Model: "m", Backoff: 1}))
	defer c.Close()
	for _, m := range []*openai.Client{c, c.Share()} {
		if _, err := m.Complete(t.Context(), chat.Prompt{Messages: []chat.Message{{Speaker: chat.User, Text: "?"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := madeBy(c, nil); got.Calls != 2 || got.Tokens != 15 || asked != 3 {
		t.Errorf("got %s of the first client, and %d requests of both", got, asked)
	}
	if got := (modelCalls{1, 1}).String(); got != "1 call of a model with 1 token" {
		t.Errorf("got %q", got)
	}
}
