package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events/chat"
)

// lengths embeds a text as its length and 1. It replies in reverse order and counts four bytes as a token.
func lengths(w http.ResponseWriter, r *http.Request) { lengthsOf(inputOf(r))(w, r) }

// unless is lengths with a refusal of requests that are too large.
func unless(much func(input []string) bool, refusal http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if input := inputOf(r); much(input) {
			refusal(w, r)
		} else {
			lengthsOf(input)(w, r)
		}
	}
}

func lengthsOf(input []string) http.HandlerFunc {
	data, bytes := make([]string, 0, len(input)), 0
	for i, t := range slices.Backward(input) {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,1]}`, i, len(t)))
		bytes += len(t)
	}
	return status(200, fmt.Sprintf(`{"object":"list","data":[%s],"model":"test-model-1","usage":{"prompt_tokens":%d,"total_tokens":%[2]d}}`,
		strings.Join(data, ","), bytes/4))
}

// inputOf returns the input of a request.
func inputOf(r *http.Request) []string {
	var body struct{ Input []string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		panic(err)
	}
	return body.Input
}

func (r request) input(t *testing.T) (texts []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.field(t, "input")), &texts); err != nil {
		t.Fatal(err)
	}
	return texts
}

// vectors returns a response with these entries of data.
func vectors(data ...string) http.HandlerFunc {
	return status(200, `{"object":"list","data":[`+strings.Join(data, ",")+`],"usage":{"total_tokens":8}}`) // some servers report only the total
}

func vector(index int, numbers string) string {
	return fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%s]}`, index, numbers)
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	embedding(t, Config{InputPrice: 2}, []http.HandlerFunc{lengths}, func(t *testing.T, e *Embedder, f *fake) {
		got, err := e.Embed(t.Context(), []string{"one", "three", "a text of 20 bytes.."})
		if diff := cmp.Diff([][]float32{{3, 1}, {5, 1}, {20, 1}}, got); err != nil || diff != "" {
			t.Errorf("error %v, -want +got:\n%s", err, diff)
		}
		r := f.seen()[0]
		if r.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer "+testKey || r.Header.Get("X-Stainless-Retry-Count") != "0" {
			t.Errorf("got path %s, header %v", r.Path, r.Header)
		}
		for field, want := range map[string]string{
			"model": `"test-model"`, "input": `["one","three","a text of 20 bytes.."]`, "encoding_format": `"float"`, "dimensions": "",
		} {
			if got := r.field(t, field); got != want {
				t.Errorf("%s: got %s, want %s", field, got, want)
			}
		}
		if e.Model() != "test-model" {
			t.Errorf("got the model %q", e.Model())
		}
		if s := e.Stats(); s.Calls != 1 || s.Requests != 1 || s.InputTokens != 7 || s.OutputTokens != 0 || s.Cost != 14e-6 || s.InFlight != 0 {
			t.Errorf("got %+v", s)
		}
		if got, err := e.Embed(t.Context(), nil); len(got) != 0 || err != nil || len(f.seen()) != 1 {
			t.Errorf("of no texts: got %v, %v after %d requests, want nothing and none", got, err, len(f.seen())-1)
		}
	})
}

// An attempt with these responses ends like a chat attempt.
func TestEmbedErrors(t *testing.T) {
	t.Parallel()
	one, two := vector(0, "1,2"), vector(1, "3,4")
	drip := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
			}
		}
	}
	for _, tt := range []struct {
		name   string
		reply  http.HandlerFunc
		tries  int
		kind   failureKind
		status int
		text   string // a part of the error: of the server's text, or the name of a field
	}{
		{"a vector too few", vectors(one), 3, down, 200, ""},
		{"a vector too many", vectors(one, two, vector(2, "1,1")), 3, down, 200, ""},
		{"no vectors", vectors(), 3, down, 200, ""},
		{"an index twice", vectors(two, two), 3, down, 200, "1"},
		{"no indexes", vectors(`{"embedding":[1,2]}`, `{"embedding":[3,4]}`), 3, down, 200, "0"},
		{"an index beyond the texts", vectors(one, vector(2, "3,4")), 3, down, 200, "2"},
		{"an index before them", vectors(one, vector(-1, "3,4")), 3, down, 200, "-1"},
		{"vectors of two lengths", vectors(one, vector(1, "3,4,5")), 3, down, 200, "2 and 3"},
		{"NaN", vectors(one, vector(1, "NaN,1")), 3, down, 200, ""},
		{"a number beyond float64", vectors(one, vector(1, "1e400,1")), 3, down, 200, "1e400"},
		{"a number beyond float32", vectors(one, vector(1, "1e39,1")), 3, down, 200, "1e39"},
		{"base64 that was not asked for", vectors(one, `{"index":1,"embedding":"AACAPw=="}`), 3, down, 200, ""},

		{"zeros", vectors(one, vector(1, "0,0")), 1, refused, 200, ""},
		{"nulls", vectors(one, vector(1, "null,null")), 1, refused, 200, ""},
		{"numbers too small to square", vectors(one, vector(1, "1e-30,1e-30")), 1, refused, 200, ""},
		{"numbers too large to square", vectors(one, vector(1, "3e38,1")), 1, refused, 200, ""},
		{"empty vectors", vectors(vector(0, ""), vector(1, "")), 1, refused, 200, ""},
		{"entries without vectors", vectors(`{"index":0}`, `{"index":1}`), 1, refused, 200, ""},

		{"429", status(429, `{"error":{"message":"Slow down."}}`), 3, busy, 429, "Slow down."},
		{"429 without a quota", status(429, `{"error":{"code":"insufficient_quota"}}`), 1, misconfigured, 429, ""},
		{"500", status(500, `{"error":{"message":"Oops."}}`), 3, down, 500, "Oops."},
		{"200 with a page of HTML", status(200, `<html></html>`), 3, down, 200, "BaseURL"},
		{"200 with an empty object", status(200, `{}`), 3, down, 200, ""},
		{"200 with an error", status(200, `{"error":"model is loading"}`), 3, down, 200, "model is loading"},
		{"200 with a cut body", cut(200, `{"data":[{"index":0,"embedding":[0.125,`), 3, down, 200, ""},
		{"200 with nothing", status(200, ``), 3, down, 200, ""},
		{"200 without end", endless(200), 3, down, 200, ""},
		{"no answer", silence, 2, down, 0, "10s"},
		{"an answer that drips", drip, 2, down, 200, "10s"},
		{"a connection that is cut", hangUp, 3, down, 0, ""},
		{"400", status(400, `{"error":{"message":"input: is odd"}}`), 1, refused, 400, "is odd"},
		{"401", status(401, `{"error":{"message":"Incorrect API key provided: `+testKey+`."}}`), 1, misconfigured, 401, "APIKey"},
		{"404", status(404, ``), 1, misconfigured, 404, "BaseURL"},
		{"a redirect", status(301, ``, "Location: https://elsewhere.test"), 1, misconfigured, 301, "BaseURL"},
		{"400 for texts that are short as they are", status(400, `{"error":{"message":"maximum context length is 1 token"}}`), 2, tooLong, 400, "1 token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			embedding(t, Config{Attempts: 3}, []http.HandlerFunc{tt.reply}, func(t *testing.T, e *Embedder, f *fake) {
				got, err := e.Embed(t.Context(), []string{"one", "two"})
				checkError(t, err, tt.kind, tt.status)
				if got != nil || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %v, %v, want an error with %q", got, err, tt.text)
				}
				if n := len(f.seen()); n != tt.tries {
					t.Errorf("got %d requests, want %d", n, tt.tries)
				}
				for ; err != nil; err = unwrap(err) {
					if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, testKey) || strings.Contains(text, "0.125") || len(text) > 2000 {
						t.Errorf("got %s, want neither key nor answer, and not a book", text)
					}
				}
				if healthy := e.Healthy() == nil; healthy == (tt.kind != tooLong && tt.kind != refused) {
					t.Errorf("got health %v after kind %d", e.Healthy(), tt.kind)
				}
				f.speak(lengths)
				if _, err := e.Embed(t.Context(), []string{"one"}); err != nil || e.Healthy() != nil {
					t.Errorf("after a good answer: got error %v, health %v", err, e.Healthy())
				}
			})
		})
	}
}

func TestEmbedderRetriesAndBreaker(t *testing.T) {
	t.Parallel()
	replies := []http.HandlerFunc{status(429, ``, "Retry-After: 7"), lengths, status(500, ``)}
	embedding(t, Config{Attempts: 3, BreakerThreshold: 3, Backoff: time.Millisecond}, replies, func(t *testing.T, e *Embedder, f *fake) {
		if _, err := e.Embed(t.Context(), []string{"a"}); err != nil {
			t.Fatal(err)
		}
		if got := f.seen()[1].At; got < 7*time.Second || got > 7*time.Second+10*time.Millisecond {
			t.Errorf("got the second request at %v, want the server's 7 s", got)
		}
		for range 2 {
			_, err := e.Embed(t.Context(), []string{"a"})
			u, ok := errors.AsType[*chat.UnavailableError](err)
			if !ok || u.RetryAfter() != 15*time.Second || len(f.seen()) != 5 {
				t.Errorf("got %v after %d requests, want unavailable for 15 s after 5", err, len(f.seen()))
			}
		}
	})
}

func TestCancelledEmbedReturnsContextError(t *testing.T) {
	t.Parallel()
	embedding(t, Config{}, []http.HandlerFunc{silence}, func(t *testing.T, e *Embedder, _ *fake) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := e.Embed(ctx, []string{"a"}); err != context.DeadlineExceeded || e.Healthy() != nil {
			t.Errorf("got %v, health %v, want the deadline itself", err, e.Healthy())
		}
	})
}

func TestTextsAreTrimmedAndTruncated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"an empty text is a space", "", " "},
		{"so are blanks", " \n\t\u2003", " "},
		{"so is NUL", "\x00\x00", " "},
		{"blanks around it go", "\n a b \n", "a b"},
		{"NUL within is a space", "a\x00b", "a b"},
		{"bytes that are no UTF-8 are replaced", "a\xffb", "a\ufffdb"},
		{"a long text is cut", strings.Repeat("x", textBytes+1), strings.Repeat("x", textBytes)},
		{"no character is cut", "x" + strings.Repeat("é", textBytes), "x" + strings.Repeat("é", textBytes/2-1)},
		{"what comes after the cut need not be UTF-8", strings.Repeat("x", textBytes-1) + strings.Repeat("\x80", 9), strings.Repeat("x", textBytes-2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			embedding(t, Config{}, []http.HandlerFunc{lengths}, func(t *testing.T, e *Embedder, f *fake) {
				if _, err := e.Embed(t.Context(), []string{tt.text}); err != nil {
					t.Fatal(err)
				}
				if got := f.seen()[0].input(t)[0]; got != tt.want {
					t.Errorf("got %d bytes %.40q…, want %d bytes %.40q…", len(got), got, len(tt.want), tt.want)
				}
			})
		})
	}
}

// For any texts, every request respects the limits, and every text gets its own vector.
func TestTextsAreBatched(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var texts []string
		for n := rapid.IntRange(1, 600).Draw(rt, "texts"); n > 0; n-- {
			texts = append(texts, strings.Repeat("é", rapid.SampledFrom([]int{0, 1, 2, 3, 500, 2000, 100_000}).Draw(rt, "length")))
		}
		e := &Embedder{}
		e.maxTexts.Store(batchTexts)
		e.maxTextBytes.Store(textBytes)
		for left := texts; len(left) > 0; {
			batch, bytes := e.batch(left), 0
			for i, s := range prepare(batch, textBytes) {
				bytes += len(s)
				if s == "" || !utf8.ValidString(s) || s != " " && !strings.HasPrefix(batch[i], s) {
					rt.Fatalf("got %.20q of %.20q", s, batch[i])
				}
			}
			// One more text would exceed a limit.
			full := len(batch) == len(left) || len(batch) == batchTexts || bytes+min(len(left[len(batch)]), textBytes) > batchBytes-2*len(batch)
			if len(batch) == 0 || len(batch) > batchTexts || bytes > batchBytes+len(batch) || !full {
				rt.Fatalf("got a batch of %d texts, %d bytes, of %d left", len(batch), bytes, len(left))
			}
			left = left[len(batch):]
		}
	})
	embedding(t, Config{}, []http.HandlerFunc{lengths}, func(t *testing.T, e *Embedder, f *fake) {
		var texts []string
		for i := range 600 {
			texts = append(texts, strings.Repeat("x", i+1))
		}
		got, err := e.Embed(t.Context(), texts)
		if err != nil || len(got) != 600 || len(f.seen()) != 3 {
			t.Fatalf("got %d vectors, error %v, %d requests, want 600 in 3", len(got), err, len(f.seen()))
		}
		for i, v := range got {
			if v[0] != float32(i+1) {
				t.Errorf("text %d: got the vector of a text of %v bytes", i, v[0])
			}
		}
	})
}

// The limits of a model and of a server are learned once and then kept.
func TestServerLimitsAreLearned(t *testing.T) {
	t.Parallel()
	shorter := func(code int, words string) http.HandlerFunc {
		return unless(func(input []string) bool {
			return slices.ContainsFunc(input, func(s string) bool { return len(s) > 2000 })
		}, status(code, words))
	}
	fewer := func(code int, words string) http.HandlerFunc {
		return unless(func(input []string) bool { return len(input) > 32 }, status(code, words))
	}
	long := []string{"short", strings.Repeat("x", 10_000)}
	many := slices.Repeat([]string{"short"}, 128)
	for _, tt := range []struct {
		name   string
		server http.HandlerFunc
		texts  []string
		first  int // requests of the first call
		later  int // requests of a later call
	}{
		// 10,000 bytes, 5,000, 2,500, 1,250.
		{"vLLM and OpenAI read less", shorter(400, `{"error":{"message":"This model's maximum context length is 512 tokens."}}`), long, 4, 1},
		{"TEI reads less", shorter(413, "{\"error\":\"Input validation error: `inputs` must have less than 512 tokens. Given: 661\",\"error_type\":\"Validation\"}"), long, 4, 1},
		{"llama.cpp reads less", shorter(500, `{"error":{"code":500,"message":"input (992 tokens) is too large to process. increase the physical batch size (current batch size: 512)","type":"server_error"}}`), long, 4, 1},
		{"Ollama reads less", shorter(400, `{"error":{"message":"the input length exceeds the context length"}}`), long, 4, 1},
		// 128 texts, 64, and then 32 at a time.
		{"TEI takes fewer", fewer(422, `{"error":"batch size 128 > maximum allowed batch size 32","error_type":"Validation"}`), many, 6, 4},
		{"Gemini takes fewer", fewer(400, `[{"error":{"code":400,"message":"* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch","status":"INVALID_ARGUMENT"}}]`), many, 6, 4},
		{"OpenAI takes fewer tokens", fewer(400, `{"error":{"message":"Requested 400000 tokens, max 300000 tokens per request","code":"max_tokens_per_request"}}`), many, 6, 4},
		{"a proxy takes fewer bytes", fewer(413, `<html><h1>413 Request Entity Too Large</h1></html>`), many, 6, 4},
		{"a small account has fewer tokens", fewer(429, `{"error":{"message":"Request too large for text-embedding-3-small on tokens per min (TPM): Limit 1000","code":"rate_limit_exceeded"}}`), many, 6, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			embedding(t, Config{}, []http.HandlerFunc{tt.server}, func(t *testing.T, e *Embedder, f *fake) {
				for i, want := range []int{tt.first, tt.first + tt.later} {
					got, err := e.Embed(t.Context(), tt.texts)
					if err != nil || len(got) != len(tt.texts) || got[0][0] != 5 || len(f.seen()) != want {
						t.Fatalf("call %d: got %d vectors, error %v, %d requests, want %d", i, len(got), err, len(f.seen()), want)
					}
				}
				if s := e.Stats(); s.Retries != 0 || s.Breaker != "closed" || time.Since(f.began) > time.Second {
					t.Errorf("got %+v after %v, want no pauses", s, time.Since(f.began))
				}
			})
		})
	}
}

func TestUnsupportedEncodingFormatIsOmitted(t *testing.T) {
	t.Parallel()
	replies := []http.HandlerFunc{status(400, `{"error":{"message":"Unknown parameter: 'encoding_format'.","param":"encoding_format"}}`), lengths}
	embedding(t, Config{}, replies, func(t *testing.T, e *Embedder, f *fake) {
		for range 2 {
			if _, err := e.Embed(t.Context(), []string{"a"}); err != nil {
				t.Fatal(err)
			}
		}
		seen := f.seen()
		if len(seen) != 3 || seen[1].field(t, "encoding_format") != "" || seen[2].field(t, "encoding_format") != "" {
			t.Errorf("got %+v, stats %+v", seen, e.Stats())
		}
	})
}

// A full batch of the largest vectors, formatted with white space as servers do, is below the response limit.
func TestLargeResponseIsAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const texts, dimensions = batchTexts, 4096
	number := ",\n        -0.006929283495992422"
	row := "0.25" + strings.Repeat(number, dimensions-1)
	reply := func(w http.ResponseWriter, _ *http.Request) {
		for i := range texts {
			_, _ = io.WriteString(w, map[bool]string{true: `{"data":[`, false: ","}[i == 0]+vector(i, row))
		}
		_, _ = io.WriteString(w, `]}`)
	}
	embedding(t, Config{Timeout: time.Hour}, []http.HandlerFunc{reply}, func(t *testing.T, e *Embedder, _ *fake) {
		got, err := e.Embed(t.Context(), slices.Repeat([]string{"a"}, texts))
		if err != nil || len(got) != texts || len(got[texts-1]) != dimensions {
			t.Errorf("got %d vectors, error %v", len(got), err)
		}
	})
}

// The response limit for one text is below the limit for a batch.
func TestResponseSizeIsLimitedByRequest(t *testing.T) {
	t.Parallel()
	embedding(t, Config{Attempts: 1}, []http.HandlerFunc{vectors(vector(0, "1"+strings.Repeat(",1.000000", 40_000)))}, func(t *testing.T, e *Embedder, _ *fake) {
		if _, err := e.Embed(t.Context(), []string{"a"}); verdict(err) != "unavailable" || !strings.Contains(err.Error(), "too large") {
			t.Errorf("got %v, want an answer too large", err)
		}
	})
}

func TestNewEmbedderNamesTheFields(t *testing.T) {
	t.Parallel()
	_, err := NewEmbedder(Config{BaseURL: "ftp://x", APIKey: "a b", Timeout: -1})
	for _, want := range []string{"BaseURL", "APIKey", "Model", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), want+": ") {
			t.Errorf("got %v, want an error of %s", err, want)
		}
	}
}

func TestHasNoDirection(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, v := range [][]float32{nil, {}, {0}, {nan, 1}, {inf}, {-inf, 1}, {math.MaxFloat32}, {math.SmallestNonzeroFloat32}} {
		if !hasNoDirection(v) {
			t.Errorf("%v passes", v)
		}
	}
	for _, v := range [][]float32{{1}, {0, -1}, {1e-15}, {1e15}} {
		if hasNoDirection(v) {
			t.Errorf("%v does not pass", v)
		}
	}
}

func TestConcurrentCallsShareLearnedLimits(t *testing.T) {
	t.Parallel()
	server := unless(func(input []string) bool { return len(input) > 8 }, status(422, `{"error":"batch size > 8"}`))
	embedding(t, Config{}, []http.HandlerFunc{server}, func(t *testing.T, e *Embedder, _ *fake) {
		errs := make(chan error)
		for i := range 8 {
			go func() {
				got, err := e.Embed(t.Context(), slices.Repeat([]string{strings.Repeat("x", i+1)}, 50))
				if err == nil && (len(got) != 50 || got[49][0] != float32(i+1)) {
					err = fmt.Errorf("call %d: got %d vectors", i, len(got))
				}
				errs <- err
			}()
		}
		for range 8 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// always is a transport with the same response for all requests.
type always string

func (a always) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// For any response, Embed returns one vector for each text or an error without the key.
func FuzzEmbeddings(f *testing.F) {
	for _, s := range []string{
		`{"data":[{"index":1,"embedding":[1,2]},{"index":0,"embedding":[3,4]}]}`, `{"data":[{"index":0,"embedding":[1]},{"index":0}]}`,
		`{"data":null}`, `{"data":[{"index":1e9,"embedding":[1]},{}]}`, `{"data":[{"embedding":[null]},{"index":1,"embedding":[1e38]}]}`,
		`{"error":"` + testKey + `"}`, `<html>`, ``, `[]`, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,1]}]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		e, err := newEmbedder(Config{Model: "m", APIKey: testKey, Attempts: 1}, always(reply))
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Embed(t.Context(), []string{"a", "b"})
		if err != nil {
			if got != nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), testKey) {
				t.Errorf("got %v and %v", got, err)
			}
			return
		}
		if len(got) != 2 || len(got[0]) != len(got[1]) || hasNoDirection(got[0]) || hasNoDirection(got[1]) {
			t.Errorf("got %v of %q", got, reply)
		}
	})
}

func BenchmarkEmbed(b *testing.B) {
	row := "0.25" + strings.Repeat(",-0.006929283495992422", 1535)
	var reply strings.Builder
	for i := range batchTexts {
		reply.WriteString(map[bool]string{true: `{"data":[`, false: ","}[i == 0] + vector(i, row))
	}
	reply.WriteString(`]}`)
	srv := httptest.NewServer(status(200, reply.String()))
	defer srv.Close()
	e, err := NewEmbedder(Config{BaseURL: srv.URL + "/v1", Model: "m"})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	texts := slices.Repeat([]string{strings.Repeat("x", 1000)}, batchTexts)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := e.Embed(b.Context(), texts); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
	b.ReportMetric(float64(reply.Len())/1e6, "MB/answer")
}
