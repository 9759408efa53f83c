package recall_test

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"debrief/playbook/recall"
)

// rounded returns a vector with unit length in single precision, the input of the defined similarity.
func rounded(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	u := make([]float32, len(v))
	for i, x := range v {
		u[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return u
}

type ranked struct {
	key        string
	similarity float64
}

// oracle ranks by comparing in double precision with a plain loop and sorting everything.
func oracle(query []float32, vectors map[string][]float32, top int) []ranked {
	q := rounded(query)
	var all []ranked
	for key, v := range vectors {
		sum := 0.0
		for i, x := range rounded(v) {
			sum += float64(x) * float64(q[i])
		}
		all = append(all, ranked{key, sum})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), strings.Compare(a.key, b.key))
	})
	return all[:min(top, len(all))]
}

func noise(r *rand.Rand, dimension int) []float32 {
	v := make([]float32, dimension)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// compareWithOracle searches the first ten by vector. Order and similarities must equal those of the oracle.
func compareWithOracle(t *testing.T, x *recall.Index, query []float32, vectors map[string][]float32) {
	t.Helper()
	r, err := x.Search(recall.Query{Vector: query, Model: "m", MinSimilarity: -1, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := oracle(query, vectors, 10)
	got := make([]ranked, len(r.Hits))
	for i, h := range r.Hits {
		got[i] = ranked{h.Key, h.Similarity}
		if h.Score != 1/float64(61+i) {
			t.Errorf("hit %d: got score %v, want that of its rank", i, h.Score)
		}
	}
	if !slices.EqualFunc(got, want, func(a, b ranked) bool { return a.key == b.key && math.Abs(a.similarity-b.similarity) < 1e-12 }) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func filled(t testing.TB, vectors map[string][]float32) *recall.Index {
	t.Helper()
	x := recall.New(0)
	for key, v := range vectors { // the order must not matter
		if err := x.Put(recall.Item{Key: key, Vector: v, Model: "m"}); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// A tenth of the 10,000 vectors occurs several times, and some differ by less than single precision.
func TestVectorsAgreeWithAnOracle(t *testing.T) {
	t.Parallel()
	for _, dimension := range []int{1, 3, 50, 384} {
		t.Run(fmt.Sprint(dimension), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(dimension)))
			vectors := map[string][]float32{}
			var list [][]float32
			for i := range 10_000 {
				v := noise(r, dimension)
				switch {
				case i > 100 && i%20 == 0:
					v = list[r.IntN(100)]
				case i > 100 && i%20 == 1:
					v = slices.Clone(list[r.IntN(100)])
					at := r.IntN(dimension)
					v[at] = math.Nextafter32(v[at], 10)
				}
				list = append(list, v)
				vectors[fmt.Sprintf("%05d", r.IntN(1e5)*10_000+i)] = v
			}
			x := filled(t, vectors)
			for i := range 6 {
				query := noise(r, dimension)
				if i%2 == 0 {
					query = list[r.IntN(100)]
				}
				compareWithOracle(t, x, query, vectors)
			}
		})
	}
}

func TestRealEmbeddingsAgreeWithAnOracle(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	raw, err := os.ReadFile(filepath.Join(dir, "dynamic-cheatsheet/aime-2024-embeddings.csv"))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	rows, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	vectors := map[string][]float32{}
	for i, row := range rows[1:] {
		var v []float32
		if err := json.Unmarshal([]byte(row[2]), &v); err != nil {
			t.Fatal(err)
		}
		vectors[fmt.Sprintf("%02d", i)] = v
		vectors[fmt.Sprintf("%02d again", i)] = v
	}
	x := filled(t, vectors)
	for _, v := range vectors {
		compareWithOracle(t, x, v, vectors)
	}
	t.Logf("%d vectors of dimension %d, each twice", len(rows)-1, len(vectors["00"]))
}

func TestVectorsAreNeverMixed(t *testing.T) {
	t.Parallel()
	x := recall.New(0)
	put := func(key, model string, v ...float32) error {
		return x.Put(recall.Item{Key: key, Text: "same words", Vector: v, Model: model})
	}
	for _, err := range []error{put("a", "one", 1, 0), put("b", "two", 1, 0, 0), put("c", "one"), put("d", "one", 0, 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := put("a", "one", 1, 2, 3); err == nil {
		t.Error("put of dimension 3 in a model of 2: want an error")
	}
	if _, err := x.Search(recall.Query{Vector: []float32{1, 2}, Model: "two"}); err == nil {
		t.Error("search of dimension 2 in a model of 3: want an error")
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if err := put("a", "one", float32(bad), 0); err == nil {
			t.Errorf("no error for a vector with %v", bad)
		}
		if _, err := x.Search(recall.Query{Vector: []float32{float32(bad)}, Model: "one"}); err == nil {
			t.Errorf("no error for a query with %v", bad)
		}
	}

	for _, tt := range []struct {
		query   recall.Query
		without int
		similar string // keys with a similarity
	}{
		{recall.Query{Model: "one", Vector: []float32{1, 1}}, 3, "a"}, // the failed put left the vector of a unchanged
		{recall.Query{Model: "two", Vector: []float32{1, 1, 1}}, 3, "b"},
		{recall.Query{Model: "three", Vector: []float32{1}}, 4, ""},
		{recall.Query{Model: "one"}, 4, ""},
		{recall.Query{Model: "one", Vector: []float32{0, 0}}, 4, ""},
	} {
		tt.query.Text = "words"
		r, err := x.Search(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		similar := ""
		for _, h := range r.Hits {
			if h.Similarity != 0 {
				similar += h.Key
			}
		}
		if len(r.Hits) != 4 || r.NotCompared != tt.without || similar != tt.similar {
			t.Errorf("%+v: got %d hits, %d without a vector, similar %q; want 4, %d, %q", tt.query, len(r.Hits), r.NotCompared, similar, tt.without, tt.similar)
		}
	}
	x.Drop("a") // the last vector of its model
	if err := put("e", "one", 1, 2, 3); err != nil {
		t.Errorf("model without vectors: got %v", err)
	}
}
