package ops

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/program"
)

// TestRequeueOfALetterThatIsGone lists one letter, which another process removes before its request. The test is not parallel, because it
// replaces standard output.
func TestRequeueOfALetterThatIsGone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"items":[{"id":"12-ab12cd34"}]}`)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"status":404,"code":"not-found","detail":"dead letter 12-ab12cd34: not found"}`)
	}))
	defer server.Close()
	printed, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	stdout := os.Stdout
	os.Stdout = printed
	defer func() { os.Stdout = stdout }()
	d := &deadRequeue{letterSelection: letterSelection{All: true, Flags: apiclient.Flags{URL: server.URL}}}
	if err := d.Run(t.Context(), &program.Common{}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(printed.Name())
	if err != nil || string(got) != "Requeued 0 dead letters.\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
