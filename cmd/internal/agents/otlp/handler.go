package otlp

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/playbook"
)

// Paths of the handler.
const (
	Path     = "/v1/traces"
	LogsPath = "/v1/logs"
)

// Limits of a request.
const (
	maxBody      = 16 << 20 // bytes, after decompression
	maxInFlight  = 8        // requests at a time
	bodyTimeout  = 30 * time.Second
	storeTimeout = 10 * time.Second
	headerBook   = "X-Debrief-Book"
	protobufType = "application/x-protobuf"
	jsonType     = "application/json"
)

// Handler receives traces. It is safe for concurrent use.
type Handler struct {
	tokens *tokens.Set // nil: no token is required
	store  atomic.Pointer[Store]
	slots  chan struct{}
}

// NewHandler returns a handler without a store: it asks clients to try again later.
func NewHandler(all *tokens.Set) *Handler {
	return &Handler{tokens: all, slots: make(chan struct{}, maxInFlight)}
}

// SetStore sets the store of the spans. Nil removes it.
func (h *Handler) SetStore(s *Store) { h.store.Store(s) }

// failure is an error response.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

func fail(status int, format string, args ...any) error {
	return &failure{status, fmt.Sprintf(format, args...)}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isJSON := strings.HasPrefix(r.Header.Get("Content-Type"), jsonType)
	refused, err := h.serve(w, r)
	if err == nil {
		writeSuccess(w, isJSON, r.URL.Path == LogsPath, refused)
		return
	}
	var f *failure
	if !errors.As(err, &f) { // the server did not store the spans
		f = &failure{http.StatusServiceUnavailable, "the spans are not stored: " + err.Error()}
	}
	switch f.status {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="debrief"`)
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	}
	writeFailure(w, isJSON, f)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (*refusals, error) {
	if r.Method != http.MethodPost {
		return nil, fail(http.StatusMethodNotAllowed, "want POST")
	}
	token, err := h.tokens.Of(r.Header, r.RemoteAddr)
	switch {
	case err != nil:
		return nil, fail(http.StatusUnauthorized, "%v", err)
	case !token.Allows(tokens.Report):
		return nil, fail(http.StatusForbidden, "token %q does not have the scope %q", token.Name, tokens.Report)
	}
	book, err := bookOf(r.Header, token)
	if err != nil {
		return nil, err
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return nil, fail(http.StatusServiceUnavailable, "too many requests are in progress")
	}
	store := h.store.Load()
	if store == nil {
		return nil, fail(http.StatusServiceUnavailable, "no NATS server is connected")
	}
	body, isJSON, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	decode := decodeTraces
	if r.URL.Path == LogsPath {
		decode = decodeLogs
	}
	spans, refused, err := decode(body, isJSON)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "%v", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	return refused, store.Put(ctx, token.Caller(), book, spans, refused)
}

// bookOf returns the playbook of the runs: that of the header, else the only one of the token, else the default.
func bookOf(h http.Header, token *tokens.Token) (playbook.Book, error) {
	book := playbook.Book(h.Get(headerBook))
	switch {
	case book != "":
	case len(token.Books) == 1:
		book = token.Books[0]
	default:
		book = events.DefaultBook
	}
	if err := events.ValidateBook(book); err != nil {
		return "", fail(http.StatusBadRequest, "%s: %v", headerBook, err)
	}
	if !token.AllowsBook(book) {
		return "", fail(http.StatusForbidden, "token %q does not permit playbook %q", token.Name, book)
	}
	return book, nil
}

// readBody reads and decompresses a body, at most maxBody bytes.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, isJSON bool, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != protobufType && kind != jsonType {
		return nil, false, fail(http.StatusUnsupportedMediaType, "want Content-Type: %s or %s; gRPC is not supported: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", protobufType, jsonType)
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout))    // a test may have no connection
	defer func() { _ = connection.SetReadDeadline(time.Time{}) }() // else it would cancel the request while the spans are stored
	var from io.Reader = http.MaxBytesReader(w, r.Body, maxBody)
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		if from, err = gzip.NewReader(from); err != nil {
			return nil, false, fail(http.StatusBadRequest, "the body: invalid gzip")
		}
	default:
		return nil, false, fail(http.StatusUnsupportedMediaType, "want Content-Encoding gzip or none")
	}
	body, err = io.ReadAll(io.LimitReader(from, maxBody+1))
	if _, isLong := errors.AsType[*http.MaxBytesError](err); isLong || len(body) > maxBody {
		return nil, false, fail(http.StatusRequestEntityTooLarge, "the body is too large: the limit is %d bytes, also after decompression", maxBody)
	}
	if err != nil {
		return nil, false, fail(http.StatusBadRequest, "incomplete body")
	}
	return body, kind == jsonType, nil
}

// writeSuccess writes an ExportTraceServiceResponse, or the one of logs, in the form of the request. As protobuf they are the same.
func writeSuccess(w http.ResponseWriter, isJSON, ofLogs bool, refused *refusals) {
	var body []byte
	field := "rejectedSpans"
	if ofLogs {
		field = "rejectedLogRecords"
	}
	switch {
	case isJSON && refused.spans == 0:
		body = []byte("{}")
	case isJSON:
		body, _ = json.Marshal(map[string]any{"partialSuccess": map[string]string{field: strconv.Itoa(refused.spans), "errorMessage": refused.reason}})
	case refused.spans > 0:
		var partial []byte
		partial = protowire.AppendTag(partial, 1, protowire.VarintType)
		partial = protowire.AppendVarint(partial, uint64(refused.spans))
		partial = protowire.AppendTag(partial, 2, protowire.BytesType)
		partial = protowire.AppendString(partial, refused.reason)
		body = protowire.AppendTag(body, 1, protowire.BytesType)
		body = protowire.AppendBytes(body, partial)
	}
	write(w, isJSON, http.StatusOK, body)
}

// writeFailure writes a google.rpc.Status in the form of the request. Its code has no meaning over HTTP.
func writeFailure(w http.ResponseWriter, isJSON bool, f *failure) {
	var body []byte
	if isJSON {
		body, _ = json.Marshal(map[string]string{"message": f.text})
	} else {
		body = protowire.AppendTag(body, 2, protowire.BytesType)
		body = protowire.AppendString(body, f.text)
	}
	write(w, isJSON, f.status, body)
}

func write(w http.ResponseWriter, isJSON bool, status int, body []byte) {
	w.Header().Set("Content-Type", protobufType)
	if isJSON {
		w.Header().Set("Content-Type", jsonType)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // ignore the error: the client has disconnected
}
