package window_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/natsd"
	"debrief/events/streams"
	"debrief/events/window"
	"debrief/playbook"
)

func add(t testing.TB, s *window.Store, session string, all ...*events.Interaction) {
	t.Helper()
	for _, i := range all {
		if err := s.Add(t.Context(), "b", "", session, i); err != nil {
			t.Fatal(err)
		}
	}
}

// turns returns the turn numbers of a session's interactions.
func turns(t testing.TB, s *window.Store, session string) []int {
	t.Helper()
	list, damaged, err := s.Interactions(t.Context(), "b", "", session)
	if err != nil || damaged != 0 {
		t.Fatalf("session %.80q: %v, %d damaged", session, err, damaged)
	}
	var got []int
	for _, i := range list {
		if want := turn(session, i.Turn); !cmp.Equal(i, want) {
			t.Errorf("session %.80q:\n%s", session, cmp.Diff(want, i))
		}
		got = append(got, i.Turn)
	}
	return got
}

func sequence(from, to int) []int {
	var list []int
	for i := from; i <= to; i++ {
		list = append(list, i)
	}
	return list
}

func TestWindowKeepsTheNewest(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for i := 1; i <= streams.WindowHistory+5; i++ {
		add(t, s, "s", turn("s", i))
		if got, want := turns(t, s, "s"), sequence(max(1, i-streams.WindowHistory+1), i); !slices.Equal(got, want) {
			t.Fatalf("after %d: got turns %v, want %v", i, got, want)
		}
	}
}

func TestInteractionsAreSortedByTurn(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	first, second := turn("s", 4), turn("s", 4)
	second.ID, second.At = events.Hash("other"), first.At.Add(1)
	add(t, s, "s", second, turn("s", 5), first, turn("s", 1), turn("s", 3), turn("s", 2))
	list, _, err := s.Interactions(t.Context(), "b", "", "s")
	if err != nil {
		t.Fatal(err)
	}
	want := []*events.Interaction{turn("s", 1), turn("s", 2), turn("s", 3), first, second, turn("s", 5)}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
}

// TestWindowMatchesModel compares sessions with a list in memory: duplicates are dropped, and the oldest entries
// are removed.
func TestWindowMatchesModel(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	books := 0
	rapid.Check(t, func(t *rapid.T) {
		books++
		book := playbook.Book(fmt.Sprint("b", books))
		want := map[string][]int{}
		for range rapid.IntRange(1, 60).Draw(t, "adds") {
			session := rapid.SampledFrom([]string{"a", "a.b", "_a", "ä"}).Draw(t, "session")
			n := rapid.IntRange(1, 40).Draw(t, "turn")
			if err := s.Add(context.Background(), book, "", session, turn(session, n)); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(want[session], n) {
				want[session] = append(want[session], n)
			}
		}
		for session, came := range want {
			list, damaged, err := s.Interactions(context.Background(), book, "", session)
			if err != nil || damaged != 0 {
				t.Fatal(err, damaged)
			}
			var got []int
			for _, i := range list {
				got = append(got, i.Turn)
			}
			last := slices.Clone(came[max(0, len(came)-streams.WindowHistory):])
			slices.Sort(last)
			if !slices.Equal(got, last) {
				t.Fatalf("session %q: got %v, want %v", session, got, last)
			}
		}
	})
}

// TestLateCopyCountsOnce adds a copy after the server's duplicate window.
func TestLateCopyCountsOnce(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	add(t, s, "s", turn("s", 1), turn("s", 2))
	again := turn("s", 1)
	again.Answer = "another answer"
	place(t, nc, events.BucketWindow, events.SessionKey("b", "", "s"), events.SchemaHeader(), pack(t, again))
	if got := turns(t, s, "s"); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got turns %v, want 1 and 2", got)
	}
}

func TestConcurrentAdd(t *testing.T) {
	t.Parallel()
	stores, _ := connections(t, 4, natsd.Config{Sync: "1m"})
	var all sync.WaitGroup
	for c, s := range stores {
		all.Go(func() {
			for i := 1; i <= streams.WindowHistory; i++ {
				add(t, s, "shared", turn("shared", i)) // all of them bring the same
				own := fmt.Sprint("own", c)
				add(t, s, own, turn(own, i))
				if err := s.AddNote(t.Context(), "b", note("shared", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for c, s := range stores {
		for _, session := range []string{"shared", fmt.Sprint("own", c)} {
			if got, want := turns(t, s, session), sequence(1, streams.WindowHistory); !slices.Equal(got, want) {
				t.Errorf("session %s: got turns %v, want %v", session, got, want)
			}
		}
		notes, damaged, err := s.Notes(t.Context(), "b", "", "shared", 100)
		if err != nil || damaged != 0 || len(notes) != streams.WindowHistory {
			t.Errorf("got %d notes, %d damaged (%v), want %d", len(notes), damaged, err, streams.WindowHistory)
		}
	}
}

func TestUnusualSessionNames(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	odd := []string{
		"a", "a.b c", "a.b", "_reflections", "reflections", "marks", "a.marks", "a.reflections", "*", ">", "a.*", "$KV", ".", " ", "ä",
		"\x00", "\xff\xfe", "_", "__", strings.Repeat("x", 300), strings.Repeat("x", 301), strings.Repeat("long ", 1<<20), // its notes, which hold their session, are of another
	}
	for n, session := range odd {
		add(t, s, session, turn(session, n+1))
		if err := s.Mark(t.Context(), "b", "", session, events.MarkedInteraction{Mark: events.Pin, Interaction: *turn(session, n+1)}); err != nil {
			t.Fatal(err)
		}
		if err := s.AddNote(t.Context(), "b", note(session[:min(len(session), 400)], n+1)); err != nil {
			t.Fatal(err)
		}
	}
	for n, session := range odd {
		if got := turns(t, s, session); !slices.Equal(got, []int{n + 1}) {
			t.Errorf("session %.80q: got turns %v, want %d", session, got, n+1)
		}
		marks, err := s.Marks(t.Context(), "b", "", session)
		if err != nil || len(marks) != 1 || !cmp.Equal(marks[0].Interaction, *turn(session, n+1)) {
			t.Errorf("session %.80q: got marks %v (%v), want its own", session, marks, err)
		}
	}
	if notes, _, err := s.Notes(t.Context(), "b", "", "_reflections", 20); err != nil || len(notes) != 20 {
		t.Errorf("got %d notes of a session with our name for the book's (%v), want the book's 20", len(notes), err)
	}
	subjects := subjectsOf(t, nc, events.BucketWindow)
	if want := 2*len(odd) + 1; len(subjects) != want {
		t.Errorf("got %d keys, want %d: interactions and notes of each session, and the book's notes", len(subjects), want)
	}
	states := subjectsOf(t, nc, events.BucketState)
	if len(states) != len(odd) {
		t.Errorf("got %d keys, want %d: the marks of each session", len(states), len(odd))
	}
	maps.Copy(subjects, states)
	for subject := range subjects {
		if !strings.HasPrefix(subject, "$KV.window.b.") && !strings.HasPrefix(subject, "$KV.state.b.") || len(subject) > 120 {
			t.Errorf("key %q is not one of the book's", subject)
		}
	}
}

func subjectsOf(t testing.TB, nc *nats.Conn, bucket string) map[string]uint64 {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Subjects
}

func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	good := events.MarkedInteraction{Mark: events.Star, Interaction: *turn("s", 1)}
	bad := good
	bad.Mark = "like"
	unnamed := good
	unnamed.Interaction.Execution = ""
	ctx := t.Context()
	for _, test := range []struct {
		name, want string
		err        error
	}{
		{"no session", "session: ", s.Add(ctx, "b", "", "", turn("s", 1))},
		{"no execution", "id: ", s.Add(ctx, "b", "", "s", &events.Interaction{})},
		{"a book that is a pattern", "book \"*\"", s.Add(ctx, "*", "", "s", turn("s", 1))},
		{"a book of two tokens", "book \"b.s\"", s.Add(ctx, "b.s", "", "s", turn("s", 1))},
		{"to read no session", "session: ", second(s.Interactions(ctx, "b", "", ""))},
		{"to read a pattern", "book \">\"", second(s.Interactions(ctx, ">", "", "s"))},
		{"a note without an id", "id: ", s.AddNote(ctx, "b", &events.Note{})},
		{"a note in no book", "book \"\"", s.AddNote(ctx, "", note("s", 1))},
		{"notes of no book", "book \"\"", second(s.Notes(ctx, "", "", "s", 3))},
		{"a mark in no session", "session: ", s.Mark(ctx, "b", "", "", good)},
		{"a mark of another kind", "mark: ", s.Mark(ctx, "b", "", "s", bad)},
		{"a mark on nothing", "handle", s.Mark(ctx, "b", "", "s", unnamed)},
		{"marks of no session", "session: ", first(s.Marks(ctx, "b", "", ""))},
		{"a context with no id", "id: ", s.PutContext(ctx, &events.ServedContext{})},
		{"a context with a pattern for an id", "id: ", s.PutContext(ctx, &events.ServedContext{ID: ">"})},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, test.err, test.want)
		}
	}
	for _, bucket := range []string{events.BucketWindow, events.BucketContexts} {
		if n := len(subjectsOf(t, nc, bucket)); n != 0 {
			t.Errorf("bucket %s has %d keys of rejected values", bucket, n)
		}
	}
}

func first[T any](_ T, err error) error { return err }

func second[T any](_ T, _ int, err error) error { return err }

func TestDamagedEntriesAreSkippedAndCounted(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	newer := map[string][]string{events.HeaderSchema: {fmt.Sprint(events.Schema + 1)}}
	for _, key := range []string{events.SessionKey("b", "", "s"), events.BookNotesKey("b"), events.NotesKey("b", "", "s")} {
		place(t, nc, events.BucketWindow, key, newer, pack(t, turn("s", 9)))
		place(t, nc, events.BucketWindow, key, nil, pack(t, turn("s", 9)))
		place(t, nc, events.BucketWindow, key, events.SchemaHeader(), []byte("\xc1 not MessagePack"))
		place(t, nc, events.BucketWindow, key, events.SchemaHeader(), nil)
		place(t, nc, events.BucketWindow, key, events.SchemaHeader(), pack(t, &events.Note{})) // no id
	}
	add(t, s, "s", turn("s", 1))
	if err := s.AddNote(t.Context(), "b", note("s", 1)); err != nil {
		t.Fatal(err)
	}
	list, damaged, err := s.Interactions(t.Context(), "b", "", "s")
	if err != nil || damaged != 5 || len(list) != 1 || !cmp.Equal(list[0], turn("s", 1)) {
		t.Errorf("got %v, %d damaged (%v), want one and 5", list, damaged, err)
	}
	notes, damaged, err := s.Notes(t.Context(), "b", "", "s", 3)
	if err != nil || damaged != 10 || len(notes) != 1 || !cmp.Equal(notes[0], note("s", 1)) {
		t.Errorf("got %v, %d damaged (%v), want one and 10", notes, damaged, err)
	}
}

// TestStoredReplyHeadersAreIgnored stores messages with headers that look like those of a server reply.
func TestStoredReplyHeadersAreIgnored(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	for n, status := range []string{"204", "404", "503", "boo"} {
		copied := events.SchemaHeader()
		copied["Status"], copied["Nats-Sequence"], copied["Nats-Subject"] = []string{status}, []string{"none"}, []string{"elsewhere"}
		copied["Nats-Num-Pending"] = []string{"0"}
		place(t, nc, events.BucketWindow, events.SessionKey("b", "", "s"), copied, pack(t, turn("s", n+1)))
		key := string(events.Hash("vector", "m", "k"))
		place(t, nc, events.BucketVectors, key, copied, pack(t, &vector{"m", 1, []byte{0, 0, 128, 63}}))
		if got, err := s.Vectors(t.Context(), "m", []string{"k"}); err != nil || !cmp.Equal(got, [][]float32{{1}}) {
			t.Errorf("vector under status %s: got %v (%v)", status, got, err)
		}
	}
	add(t, s, "s", turn("s", 5))
	if got := turns(t, s, "s"); !slices.Equal(got, sequence(1, 5)) {
		t.Errorf("got turns %v, want 1 to 5", got)
	}
}

func TestDeletedSessionIsEmpty(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	for _, op := range []string{"DEL", "PURGE"} {
		session := "gone" + op
		add(t, s, session, turn(session, 1), turn(session, 2))
		place(t, nc, events.BucketWindow, events.SessionKey("b", "", session), map[string][]string{"KV-Operation": {op}}, nil)
		if got := turns(t, s, session); got != nil {
			t.Errorf("%s: got turns %v, want none", op, got)
		}
		add(t, s, session, turn(session, 3))
		if got := turns(t, s, session); !slices.Equal(got, []int{3}) {
			t.Errorf("%s: got turns %v, want 3", op, got)
		}
	}
}

func TestEmptyBuckets(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	if got := turns(t, s, "nobody"); got != nil {
		t.Errorf("got turns %v, want none", got)
	}
	if notes, damaged, err := s.Notes(t.Context(), "b", "", "nobody", 3); err != nil || damaged != 0 || len(notes) != 0 {
		t.Errorf("got notes %v, %d damaged (%v), want none", notes, damaged, err)
	}
	if marks, err := s.Marks(t.Context(), "b", "", "nobody"); err != nil || len(marks) != 0 {
		t.Errorf("got marks %v (%v), want none", marks, err)
	}
}

func TestNotesOfBookAndSession(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for i := 1; i <= 30; i++ {
		session := []string{"", "busy", "busy", "slow"}[i%4]
		if err := s.AddNote(t.Context(), "b", note(session, i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		session string
		most    int
		want    []int
	}{
		{"", 3, []int{28, 29, 30}},
		{"busy", 3, []int{26, 28, 29, 30}},
		{"slow", 3, []int{19, 23, 27, 28, 29, 30}},
		{"slow", 100, append([]int{3, 7}, sequence(11, 30)...)},
		{"nobody", 2, []int{29, 30}},
		{"slow", 0, nil},
		{"slow", -1, nil},
	} {
		notes, damaged, err := s.Notes(t.Context(), "b", "", test.session, test.most)
		if err != nil || damaged != 0 {
			t.Fatal(err, damaged)
		}
		var got []int
		for _, n := range notes {
			seq, _, _ := n.Reflection.Parse()
			got = append(got, int(seq))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%d of session %q: got %v, want %v", test.most, test.session, got, test.want)
		}
	}
}

func TestTooLargeErrorNamesTheSize(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, nc := open(t)
	large := turn("s", 1)
	large.Answer = strings.Repeat("x", 1<<20)
	n := note("s", 1)
	n.Insight = large.Answer
	for _, err := range []error{
		s.Add(t.Context(), "b", "", "s", large),
		s.AddNote(t.Context(), "b", n),
		s.Mark(t.Context(), "b", "", "s", events.MarkedInteraction{Mark: events.Pin, Interaction: *large}),
		s.PutContext(t.Context(), &events.ServedContext{ID: events.NewID(), Query: large.Answer}),
	} {
		if !errors.Is(err, window.ErrTooLarge) || !strings.Contains(err.Error(), "1048") || !strings.Contains(err.Error(), "921600") {
			t.Errorf("got %v, want the two sizes", err)
		}
	}
	if n := len(subjectsOf(t, nc, events.BucketWindow)); n != 0 {
		t.Errorf("%d keys of values that are too large", n)
	}
	large.Answer = large.Answer[:900<<10-1000] // and this is not
	for i := range streams.WindowHistory {     // more than one answer of the server holds
		large.ID, large.Turn = events.NewID(), i
		add(t, s, "s", large)
	}
	list, damaged, err := s.Interactions(t.Context(), "b", "", "s")
	if err != nil || damaged != 0 || len(list) != streams.WindowHistory {
		t.Errorf("got %d, %d damaged (%v), want %d", len(list), damaged, err, streams.WindowHistory)
	}
}

func TestMissingBucketIsAnError(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, nc := open(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{events.BucketWindow, events.BucketState, events.BucketContexts, events.BucketVectors} {
		if err := js.DeleteStream(t.Context(), "KV_"+bucket); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	if _, err := s.Context(ctx, events.NewID()); !errors.Is(err, window.ErrContextNotFound) {
		t.Errorf("context: got %v, want %v", err, window.ErrContextNotFound)
	}
	_, vectorsErr := s.Vectors(ctx, "m", []string{"k"})
	for what, err := range map[string]error{
		"interactions": second(s.Interactions(ctx, "b", "", "s")),
		"notes":        second(s.Notes(ctx, "b", "", "s", 3)),
		"marks":        first(s.Marks(ctx, "b", "", "s")),
		"mark":         s.Mark(ctx, "b", "", "s", events.MarkedInteraction{Mark: events.Pin, Interaction: *turn("s", 1)}),
		"vectors":      vectorsErr,
	} {
		if !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: got %v, want %v", what, err, nats.ErrNoResponders)
		}
	}
	for what, err := range map[string]error{
		"add":         s.Add(ctx, "b", "", "s", turn("s", 1)),
		"put vectors": s.PutVectors(ctx, "m", []string{"k"}, [][]float32{{1}}),
	} {
		if !errors.Is(err, jetstream.ErrNoStreamResponse) {
			t.Errorf("%s: got %v, want %v", what, err, jetstream.ErrNoStreamResponse)
		}
	}
}

func TestCanceledContext(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, servedErr := s.Context(ctx, events.NewID())
	_, vectorsErr := s.Vectors(ctx, "m", []string{"k"})
	for i, err := range []error{
		s.Add(ctx, "b", "", "s", turn("s", 1)), second(s.Interactions(ctx, "b", "", "s")), second(s.Notes(ctx, "b", "", "s", 3)),
		first(s.Marks(ctx, "b", "", "s")), s.Mark(ctx, "b", "", "s", events.MarkedInteraction{Mark: events.Pin, Interaction: *turn("s", 1)}),
		servedErr, vectorsErr,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: got %v, want %v", i, err, context.Canceled)
		}
	}
}

func TestLastRoundReplacesEarlierRounds(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	first, second, third := turn("s", 2), turn("s", 2), turn("s", 2)
	for n, i := range []*events.Interaction{second, third} {
		i.ID, i.First, i.Round, i.Answer = events.Hash("round", fmt.Sprint(n)), first.ID, n+1, fmt.Sprint("round ", n+1)
	}
	lone := turn("s", 4) // a round whose first one the server has forgotten
	lone.First, lone.Round = events.Hash("forgotten"), 1
	for _, i := range []*events.Interaction{turn("s", 1), first, third, turn("s", 3), second, lone} {
		if err := s.Add(t.Context(), "b", "", "s", i); err != nil {
			t.Fatal(err)
		}
	}
	list, damaged, err := s.Interactions(t.Context(), "b", "", "s")
	if err != nil || damaged != 0 {
		t.Fatal(damaged, err)
	}
	if diff := cmp.Diff([]*events.Interaction{turn("s", 1), third, turn("s", 3), lone}, list); diff != "" {
		t.Error(diff)
	}
}

func TestRecordsAreStoredPerSession(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	worded := note("s", 1)
	worded.Execution, worded.Records = "1-00000001", []events.Record{{Synthesis: "one"}}
	all := []*events.Note{worded}
	for n := 2; n <= 5; n++ {
		quiet := note("s", n)
		quiet.Insight, quiet.Execution, quiet.Records = "", events.NewHandle(uint64(n), quiet.ID), []events.Record{{Synthesis: fmt.Sprint(n)}}
		all = append(all, quiet)
	}
	for _, n := range all {
		if err := s.AddNote(t.Context(), "b", n); err != nil {
			t.Fatal(err)
		}
	}
	known, err := s.RecordNotes(t.Context(), "b", "", "s")
	if err != nil || len(known) != 5 || known[0].Execution != worded.Execution || known[4].Records[0].Synthesis != "5" {
		t.Errorf("got %+v, %v", known, err)
	}
	list, _, err := s.Notes(t.Context(), "b", "", "s", 2)
	if err != nil || len(list) != 1 || list[0].Insight != "insight 1" {
		t.Errorf("got %+v, %v; want the note with words alone", list, err)
	}
	if list, _, err := s.Notes(t.Context(), "b", "", "", 9); err != nil || len(list) != 1 || list[0].Records != nil {
		t.Errorf("got %+v, %v; want the book's note without records", list, err)
	}
	if known, err := s.RecordNotes(t.Context(), "b", "", "other"); err != nil || len(known) != 0 {
		t.Errorf("got %+v, %v", known, err)
	}
	if _, err := s.RecordNotes(t.Context(), "b", "", ""); err == nil {
		t.Error("records of no session: got no error")
	}
}
