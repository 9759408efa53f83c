package api

import (
	"fmt"
	"net/url"
	"reflect"
	"testing"
	"time"

	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestVersionsInMemory compares the list of versions in memory with the log, page by page, while the log grows and names move.
func TestVersionsInMemory(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	writer, err := deltalog.New(w.admin.JetStream()).Writer(t.Context(), "lab")
	if err != nil {
		t.Fatal(err)
	}
	h := w.http.Handler.(*handler)
	for n := range 23 {
		_, err := writer.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
			d := &playbook.Delta{Author: "test", Time: time.Now().UTC(), Ops: []playbook.Op{{Kind: playbook.Add, Bullet: playbook.MintID("others", uint64(n+1)), Section: "others", Content: fmt.Sprint("Rule ", n)}}}
			if n%5 == 0 && n > 0 {
				d.Names = []playbook.Name{{Name: "best", Version: uint64(n)}, {Name: fmt.Sprint("v-", n), Version: uint64(n)}}
			}
			return []*playbook.Delta{d}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n%4 != 2 {
			continue
		}
		for after := ""; ; {
			query := url.Values{"limit": {"7"}}
			if after != "" {
				query.Set("after", after)
			}
			c := func() *call {
				return &call{ctx: t.Context(), handler: h, path: map[string]string{"book": "lab"}, query: query}
			}
			got, err := listVersions(c())
			want, failed := c().readVersions()
			if err != nil || failed != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%d versions, after %q: got %+v, %v, want %+v, %v", n+1, after, got, err, want, failed)
			}
			if after = got.Next; after == "" {
				break
			}
		}
	}
	w.send(t, 400, "GET", "/books/lab/versions?after=99", "")
	w.send(t, 400, "GET", "/books/lab/versions?after=x", "")
}

// TestVersionLogDropsTheOldest: pages of dropped versions are not answered from memory.
func TestVersionLogDropsTheOldest(t *testing.T) {
	t.Parallel()
	l := new(versionLog)
	for v := range uint64(maxLog + 1) {
		if err := l.add(&deltalog.Record{Delta: playbook.Delta{Version: v + 1}, Seq: v + 1}); err != nil {
			t.Fatal(err)
		}
	}
	for end, want := range map[uint64]bool{maxLog + 2: true, maxLog: true, maxLog / 2: true, maxLog/4 + 8: false, 3: false} {
		if all, ok := l.page(end, 10); ok != want || ok && all[0].Version != end-1 {
			t.Errorf("below %d: got %d versions, %v, want %v", end, len(all), ok, want)
		}
	}
}
