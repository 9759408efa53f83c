package events

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/playbook"
)

var update = flag.Bool("update", false, "add golden files for payloads whose bytes have changed")

// TestGoldenPayloads ensures that stored messages stay readable. testdata/wire has numbered encodings of each
// payload, and their content as JSON. A change of a payload adds a number. The older encodings must keep their
// content, because streams store them without a time limit.
func TestGoldenPayloads(t *testing.T) {
	t.Parallel()
	payloads := map[string]any{"delta": delta(), "redaction": redaction(), "bullet": bullet()}
	for name, v := range windowed() {
		complete(reflect.ValueOf(v))
		payloads[name] = v
	}
	for k, e := range samples() {
		payloads[string(k)] = e
	}
	for name, now := range payloads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written, err := filepath.Glob(filepath.Join("testdata", "wire", name+"-*.msgpack"))
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(written)
			data := mustMarshal(t, now)
			var newest []byte
			for _, file := range written {
				newest = mustRead(t, file)
				want := mustRead(t, file[:len(file)-len("msgpack")]+"json")
				if diff := cmp.Diff(string(want), meaning(t, name, newest)); diff != "" {
					t.Errorf("the content of %s has changed: -then +now:\n%s", file, diff)
				}
			}
			if bytes.Equal(newest, data) {
				return
			}
			if !*update {
				t.Fatalf("the bytes of a %s have changed: if this is intended, run go test ./events -update, and commit the new files", name)
			}
			file := filepath.Join("testdata", "wire", fmt.Sprintf("%s-%02d.", name, len(written)+1))
			mustWrite(t, file+"msgpack", data)
			mustWrite(t, file+"json", []byte(meaning(t, name, data)))
		})
	}
}

// meaning returns the content of a payload as JSON.
func meaning(t *testing.T, name string, data []byte) string {
	t.Helper()
	v, err := decodeNamed(name, data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// windowed are samples of the values in buckets.
func windowed() map[string]any {
	return map[string]any{"interaction": new(Interaction), "note": new(Note), "marked": new(MarkedInteraction), "served": new(ServedContext)}
}

func decodeNamed(name string, data []byte) (any, error) {
	if v, ok := windowed()[name]; ok {
		return v, Unmarshal(data, v)
	}
	switch name {
	case "delta":
		return DecodeDelta(data)
	case "redaction":
		return DecodeRedaction(data)
	case "bullet":
		b := new(playbook.Bullet)
		return b, Unmarshal(data, b)
	case string(KindTask): // with earlier rounds
		return Decode(RoundSubject("main", ""), SchemaHeader(), data)
	case string(KindDead):
		return Decode(DeadSubject(RoleReflector, "main"), SchemaHeader(), data)
	}
	return Decode(Kind(name).Subject("main"), SchemaHeader(), data)
}

// TestGoldenHashes fixes the inputs of ids. With other ids every event would count again.
func TestGoldenHashes(t *testing.T) {
	t.Parallel()
	for got, want := range map[ID]ID{
		Hash():                               "47DEQpj8HBSa-_TImW-5JA", // the SHA-256 of nothing
		Hash("a", "bc"):                      "P6-hzy8Zp8ESm-sgzwmD9w",
		ExecutionID("main", "", "task-1", 0): "iWsfjCG-h0E2EdRTZfhrlg",
		ReflectionID(ExecutionID("main", "", "task-1", 0), "", "v1"):                   "9fm3Bp7jR6zOgiKr4DWY4Q",
		(&Task{Book: "main", ID: "task-1"}).EventID():                                  "y1X1dGdpFGBaagALHn0QHg",
		(&DeadLetter{Role: RoleReflector, Stream: StreamExecutions, Seq: 7}).EventID(): "PXwAUF_Pkh1wgn7-34iZIw",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustWrite(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
