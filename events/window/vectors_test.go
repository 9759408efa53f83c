package window_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
	"debrief/events/window"
)

// vector is the encoded form of an embedding.
type vector struct {
	Model     string `msgpack:"m"`
	Dimension int    `msgpack:"d"`
	Data      []byte `msgpack:"v"`
}

// embeddings returns n keys with a vector each.
func embeddings(n, dimension int) (keys []string, list [][]float32) {
	for i := range n {
		v := make([]float32, dimension)
		for j := range v {
			v[j] = float32(i) + float32(j)/float32(dimension)
		}
		keys, list = append(keys, fmt.Sprint("text ", i)), append(list, v)
	}
	return keys, list
}

func TestVectorsRoundTrip(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, _ := open(t)
	for _, test := range []struct{ n, dimension int }{
		{0, 0},
		{1, 1},
		{1000, 8},
		{1025, 8},   // more subjects than the server takes in one request
		{300, 8192}, // more bytes than one answer holds
	} {
		model := fmt.Sprint(test.n, "/", test.dimension)
		keys, list := embeddings(test.n, test.dimension)
		if err := s.PutVectors(t.Context(), model, keys, list); err != nil {
			t.Fatal(err)
		}
		got, err := s.Vectors(t.Context(), model, keys)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, list, slices.Equal) {
			t.Errorf("%d of %d: the vectors read differ from the vectors put", test.n, test.dimension)
		}
	}
	keys, list := embeddings(3, 2)
	odd := []float32{0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.SmallestNonzeroFloat32}
	if err := s.PutVectors(t.Context(), "m", []string{keys[0], "", strings.Repeat("\xff.*>", 1000)}, [][]float32{odd, odd, odd}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Vectors(t.Context(), "m", []string{"nothing", keys[0], "", keys[0], strings.Repeat("\xff.*>", 1000)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]float32{nil, odd, odd, odd, odd}, got); diff != "" {
		t.Error(diff)
	}
	if err := s.PutVectors(t.Context(), "m", keys[:1], list[:1]); err != nil { // the model has changed
		t.Fatal(err)
	}
	if got, err := s.Vectors(t.Context(), "m", keys[:1]); err != nil || !cmp.Equal(got, list[:1]) {
		t.Errorf("put again: got %v (%v), want %v", got, err, list[:1])
	}
	if got, err := s.Vectors(t.Context(), "another", keys); err != nil || !cmp.Equal(got, make([][]float32, 3)) {
		t.Errorf("another model: got %v (%v), want none", got, err)
	}
}

func TestPutVectorsRejectsInvalidVectors(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	for _, test := range []struct {
		name, names string
		is          error
		keys        []string
		list        [][]float32
	}{
		{"a key too many", "keys", nil, []string{"a", "b"}, [][]float32{{1}}},
		{"two dimensions", "vector 1", nil, []string{"a", "b"}, [][]float32{{1, 2}, {1, 2, 3}}},
		{"none", "vector 0", nil, []string{"a"}, [][]float32{nil}},
		{"not a number", "vector 1", nil, []string{"a", "b"}, [][]float32{{1, 2}, {1, float32(math.NaN())}}},
		{"infinite", "vector 0", nil, []string{"a"}, [][]float32{{float32(math.Inf(-1))}}},
		{"too large", "12000", window.ErrTooLarge, []string{"a"}, [][]float32{make([]float32, 300_000)}},
	} {
		if err := s.PutVectors(t.Context(), "m", test.keys, test.list); err == nil || !strings.Contains(err.Error(), test.names) || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: got %v, want an error that names %q", test.name, err, test.names)
		}
	}
	if n := len(subjectsOf(t, nc, events.BucketVectors)); n != 0 {
		t.Errorf("%d rejected vectors were stored", n)
	}
}

func TestVectorsSkipsUnreadableValues(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	one := []byte{0, 0, 128, 63}
	for name, test := range map[string]struct {
		header map[string][]string
		data   []byte
		want   []float32
	}{
		"good":                 {events.SchemaHeader(), pack(t, &vector{"m", 1, one}), []float32{1}},
		"of another model":     {events.SchemaHeader(), pack(t, &vector{"n", 1, one}), nil},
		"of another dimension": {events.SchemaHeader(), pack(t, &vector{"m", 2, one}), nil},
		"of no dimension":      {events.SchemaHeader(), pack(t, &vector{"m", 0, nil}), nil},
		"negative":             {events.SchemaHeader(), pack(t, &vector{"m", -1, one}), nil},
		"cut off":              {events.SchemaHeader(), pack(t, &vector{"m", 1, one[:3]}), nil},
		"a byte too many":      {events.SchemaHeader(), pack(t, &vector{"m", 1, append(one[:4:4], 0)}), nil},
		"not a number":         {events.SchemaHeader(), pack(t, &vector{"m", 1, []byte{0, 0, 192, 127}}), nil},
		"corrupt":              {events.SchemaHeader(), []byte("\xc1"), nil},
		"empty":                {events.SchemaHeader(), nil, nil},
		"deleted":              {map[string][]string{"KV-Operation": {"DEL"}}, nil, nil},
		"newer":                {map[string][]string{events.HeaderSchema: {fmt.Sprint(events.Schema + 1)}}, pack(t, &vector{"m", 1, one}), nil},
		"none of ours":         {nil, pack(t, &vector{"m", 1, one}), nil},
	} {
		place(t, nc, events.BucketVectors, string(events.Hash("vector", "m", name)), test.header, test.data)
		if got, err := s.Vectors(t.Context(), "m", []string{name}); err != nil || !cmp.Equal(got[0], test.want) {
			t.Errorf("%s: got %v (%v), want %v", name, got, err, test.want)
		}
	}
}
