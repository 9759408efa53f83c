package body

import (
	"bufio"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"debrief/events/service"
)

// Reader reads the JSON bodies of requests. A body may be compressed with gzip.
type Reader struct {
	Memory  *Memory
	Pace    Pace
	Timeout time.Duration // of a whole body
}

// Read reads the body of a request, at most limit bytes. Its errors have the status of the response. The caller must release the room of
// the body, also after an error.
func (rd *Reader) Read(w http.ResponseWriter, r *http.Request, limit int64) (held Buffered, err error) {
	tooLarge := service.NewError(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: the limit is %d bytes", limit))
	isCompressed, err := checkJSON(r.Header)
	if err != nil {
		return held, err
	}
	if r.ContentLength > limit {
		drain(w, r, 0)
		return held, tooLarge
	}
	var from io.Reader = rd.Pace.Wrap(w, r.Body, time.Now().Add(rd.Timeout))
	declared := r.ContentLength
	if isCompressed {
		from = &decompressor{from: from}
		declared = -1 // the decompressed length is unknown
	}
	held, err = rd.Memory.Hold(from, declared, limit)
	switch {
	case errors.Is(err, ErrSlow):
		w.Header().Set("Connection", "close")
		return held, service.NewError(http.StatusRequestTimeout, "body too slow")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, new(flate.CorruptInputError)):
		return held, service.NewError(http.StatusBadRequest, "the body: invalid gzip")
	case err != nil:
		return held, service.NewError(http.StatusBadRequest, "incomplete body")
	case errors.Is(held.Reason, ErrNoMemory):
		w.Header().Set("Connection", "close")
		return held, service.ErrBusy
	case held.Reason != nil: // ErrTooLarge
		drain(w, r, int64(len(held.Data)))
		return held, tooLarge
	}
	return held, nil
}

// Limits of discarding the rest of a body that is too large.
const (
	maxDrain  = 32 << 20 // bytes of the whole body
	drainTime = 5 * time.Second
)

// drain discards the rest of a body that is too large. read is the number of bytes that were read before. Without drain, a client that
// still sends would get a reset connection instead of the response. drain does not read a body that declares more than maxDrain bytes,
// or whose client waits for the permission to send it (Expect). The connection is closed after the response in any case.
func drain(w http.ResponseWriter, r *http.Request, read int64) {
	w.Header().Set("Connection", "close")
	if r.ContentLength > maxDrain || read == 0 && r.Header.Get("Expect") != "" {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime)) // a test may have no connection
	_, _ = io.CopyN(io.Discard, r.Body, maxDrain-read)                           // ignore the error: the response is the same
}

// decompressor reads gzip. Unlike gzip.NewReader it reads the header of the stream at the first Read.
type decompressor struct {
	from io.Reader
	gzip *gzip.Reader // nil before the first Read
}

func (d *decompressor) Read(p []byte) (int, error) {
	if d.gzip == nil {
		var err error
		if d.gzip, err = gzip.NewReader(bufio.NewReader(d.from)); err != nil {
			return 0, err
		}
	}
	return d.gzip.Read(p)
}

// checkJSON returns an error for a body whose headers do not declare JSON. isCompressed reports whether it is compressed with gzip.
func checkJSON(h http.Header) (isCompressed bool, err error) {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/json" || !strings.EqualFold(cmp.Or(params["charset"], "utf-8"), "utf-8") {
		return false, service.NewError(http.StatusUnsupportedMediaType, "want Content-Type: application/json")
	}
	encoding := strings.ToLower(strings.Join(h.Values("Content-Encoding"), ","))
	if !slices.Contains([]string{"", "identity", "gzip", "x-gzip"}, encoding) {
		return false, service.NewError(http.StatusUnsupportedMediaType, "want the body without Content-Encoding, or with gzip")
	}
	return strings.HasSuffix(encoding, "gzip"), nil
}
