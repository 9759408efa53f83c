package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBodyBytes limits a request. It is larger than any context window.
const maxBodyBytes = 8 << 20

// createdAt is the creation time of every reply, 2026-01-01. With a clock, two replies to one prompt would differ.
const createdAt = 1767225600

type request struct {
	Model          string    `json:"model"`
	Messages       []message `json:"messages"`
	Stream         bool      `json:"stream"`
	ResponseFormat struct {
		Schema struct {
			Name string `json:"name"`
		} `json:"json_schema"`
	} `json:"response_format"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           int `json:"max_tokens"`
	MaxCompletionTokens int `json:"max_completion_tokens"`
}

type response struct {
	ID                string   `json:"id"`
	Object            string   `json:"object"`
	Created           int64    `json:"created"`
	Model             string   `json:"model"`
	SystemFingerprint string   `json:"system_fingerprint"`
	Choices           []choice `json:"choices"`
	Usage             *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int    `json:"index"`
	Message      *turn  `json:"message,omitempty"`
	Delta        *turn  `json:"delta,omitempty"`
	FinishReason string `json:"finish_reason,omitempty"`
}

type turn struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// tokens estimates the number of tokens, at four bytes each.
func tokens(bytes int) int { return (bytes + 3) / 4 }

func (m *model) complete(w http.ResponseWriter, r *http.Request) {
	var in request
	if !readJSON(w, r, &in) {
		return
	}
	if len(in.Messages) == 0 {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "simulated: messages: required")
		return
	}
	c := &conversation{schema: in.ResponseFormat.Schema.Name, messages: in.Messages, seed: m.Seed}
	if !pause(r, m.Latency) {
		return // the client disconnected
	}
	fault := m.fault(c, r)
	if fault != "" && fault != "cut" { // a cut needs the reply
		writeFault(w, fault)
		return
	}
	text, finish := m.answer(c), "stop"
	if limit := 4 * max(in.MaxTokens, in.MaxCompletionTokens); limit > 0 && len(text) > limit {
		text, finish = strings.ToValidUTF8(text[:limit], ""), "length"
	}
	head := response{ID: fmt.Sprintf("chatcmpl-%016x", c.draw("id")), Created: createdAt, Model: Name, SystemFingerprint: fingerprint}
	used := &usage{PromptTokens: tokens(c.bytes()), CompletionTokens: tokens(len(text))}
	used.TotalTokens = used.PromptTokens + used.CompletionTokens
	if in.Stream {
		if !in.StreamOptions.IncludeUsage {
			used = nil
		}
		stream(w, head, text, finish, used, fault == "cut")
		return
	}
	head.Object, head.Usage = "chat.completion", used
	head.Choices = []choice{{Message: &turn{"assistant", text}, FinishReason: finish}}
	if fault == "cut" {
		cutBody(w, asJSON(head))
		return
	}
	writeJSON(w, http.StatusOK, head)
}

// pause delays a reply by d. It returns false if the client disconnects before that.
func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// chunkRunes is the number of runes in a streamed event.
const chunkRunes = 24

// stream sends the reply as server-sent events: the text in chunks, the finish reason, the usage if it is not nil, and
// the end mark. With cut it closes the connection halfway through the text.
func stream(w http.ResponseWriter, head response, text, finish string, used *usage, cut bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := func() { _ = http.NewResponseController(w).Flush() } // without Flush the text is sent at the end
	head.Object = "chat.completion.chunk"
	event := func(c []choice, u *usage) {
		head.Choices, head.Usage = c, u
		// An error means that the client disconnected.
		_, _ = fmt.Fprintf(w, "data: %s\n\n", asJSON(head))
		flush()
	}
	runes := []rune(text)
	event([]choice{{Delta: &turn{Role: "assistant"}}}, nil)
	for i := 0; i < len(runes); i += chunkRunes {
		if cut && i > len(runes)/2 {
			panic(http.ErrAbortHandler) // net/http closes the connection
		}
		event([]choice{{Delta: &turn{Content: string(runes[i:min(len(runes), i+chunkRunes)])}}}, nil)
	}
	if cut {
		panic(http.ErrAbortHandler)
	}
	event([]choice{{Delta: &turn{}, FinishReason: finish}}, nil)
	if used != nil {
		event([]choice{}, used)
	}
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
	flush()
}

// cutBody announces the length of body, writes half of it and closes the connection.
func cutBody(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write([]byte(body[:len(body)/2]))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func modelInfo(name string) map[string]any {
	return map[string]any{"id": name, "object": "model", "created": createdAt, "owned_by": fingerprint}
}

func listModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{modelInfo(Name), modelInfo(embeddingName)}})
}

func showModel(w http.ResponseWriter, r *http.Request) {
	switch name := r.PathValue("name"); name {
	case Name, embeddingName:
		writeJSON(w, http.StatusOK, modelInfo(name))
	default:
		writeError(w, http.StatusNotFound, "model_not_found", "simulated: unknown model, use "+Name+" or "+embeddingName)
	}
}

// readJSON decodes the body of r. On an error it writes the error response and returns false.
func readJSON(w http.ResponseWriter, r *http.Request, in any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes)).Decode(in)
	if err == nil {
		return true
	}
	status := http.StatusBadRequest
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		status = http.StatusRequestEntityTooLarge
	}
	writeError(w, status, "invalid_request_error", "simulated: "+err.Error())
	return false
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": message, "type": kind, "code": kind}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the client disconnected.
	_, _ = w.Write([]byte(asJSON(v) + "\n"))
}
