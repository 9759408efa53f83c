package api

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// TestListSetsThePage: a query with parameters of a page would read the same page again and again.
func TestListSetsThePage(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"": `{"items": [1], "next": "a"}`, "a": `{"items": [2], "next": "b"}`, "b": `{"items": [3]}`}
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query(); got.Get("limit") != "2" && got.Get("after") == "" || got.Get("state") != "shown" {
			t.Errorf("got the query %v", got)
		}
		_, _ = w.Write([]byte(pages[r.URL.Query().Get("after")]))
	}))
	t.Cleanup(gateway.Close)
	query := map[string]string{"after": "a", "limit": "7", "state": "shown"}
	got, more, err := List[int](t.Context(), NewClient(gateway.URL, ""), "/numbers", query, 2)
	if err != nil || !more || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got %v, more %v, %v, want 1 and 2, and more", got, more, err)
	}
}
