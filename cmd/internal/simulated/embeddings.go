package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/wires"
)

const (
	defaultDimensions = 256
	maxDimensions     = 4096
	maxTexts          = 2048 // limit of the OpenAI API
)

type embeddingRequest struct {
	Model          string `json:"model"`
	Input          texts  `json:"input"`
	EncodingFormat string `json:"encoding_format"`
	Dimensions     int    `json:"dimensions"`
}

// texts is the input of an embedding request. On the wire it is one text or a list.
type texts []string

func (t *texts) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// validate returns the error for an invalid request. For a valid one it returns the zero answer.
func (in *embeddingRequest) validate() wires.Answer {
	switch {
	case in.Model != embeddingName:
		return refusal(http.StatusNotFound, "only "+embeddingName+" embeds")
	case len(in.Input) == 0 || len(in.Input) > maxTexts:
		return refusal(http.StatusBadRequest, fmt.Sprintf("input: must be 1 to %d texts, got %d", maxTexts, len(in.Input)))
	case slices.Contains(in.Input, ""):
		return refusal(http.StatusBadRequest, "input: a text is empty")
	case in.EncodingFormat != "" && in.EncodingFormat != "float":
		return refusal(http.StatusBadRequest, "encoding_format: must be float")
	case in.Dimensions < 0 || in.Dimensions > maxDimensions:
		return refusal(http.StatusBadRequest, fmt.Sprintf("dimensions: must be 1 to %d", maxDimensions))
	}
	return wires.Answer{}
}

func refusal(status int, reason string) wires.Answer {
	return wires.Answer{Status: status, Message: "simulated: " + reason}
}

// readEmbeddings reads a request for embeddings. For an invalid request it returns the error as an answer, else the zero answer.
func readEmbeddings(w http.ResponseWriter, r *http.Request) (in embeddingRequest, invalid wires.Answer) {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes)).Decode(&in)
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return in, refusal(http.StatusRequestEntityTooLarge, err.Error())
	}
	if err != nil {
		return in, refusal(http.StatusBadRequest, err.Error())
	}
	return in, in.validate()
}

type embeddingResponse struct {
	Object            string      `json:"object"`
	Model             string      `json:"model"`
	SystemFingerprint string      `json:"system_fingerprint"`
	Data              []embedding `json:"data"`
	Usage             struct {
		PromptTokens int `json:"prompt_tokens"`
		TotalTokens  int `json:"total_tokens"`
	} `json:"usage"`
}

type embedding struct {
	Object string    `json:"object"`
	Index  int       `json:"index"`
	Vector []float32 `json:"embedding"`
}

// embed answers a request for embeddings. They are in another order than the input, as the API allows, so that clients which ignore the
// index fail.
func (m *model) embed(w http.ResponseWriter, r *http.Request) {
	in, invalid := readEmbeddings(w, r)
	if invalid.Status != 0 {
		wires.Write(w, wires.Chat, invalid, nil)
		return
	}
	c := newConversation(&wires.Request{SchemaName: embeddingName}, m.Seed)
	for _, t := range in.Input {
		c.add("user", t, "")
	}
	if !wires.Wait(r, m.Latency) {
		return // the client disconnected
	}
	out := embeddingResponse{Object: "list", Model: embeddingName, SystemFingerprint: fingerprint}
	out.Usage.PromptTokens = tokens(c.bytes)
	out.Usage.TotalTokens = out.Usage.PromptTokens
	first := int(c.draw("order") % uint64(len(in.Input)))
	for n := range in.Input {
		i := (first + n) % len(in.Input)
		out.Data = append(out.Data, embedding{Object: "embedding", Index: i, Vector: vectorOf(in.Input[i], in.Dimensions)})
	}
	slices.Reverse(out.Data[len(out.Data)/2:])
	wires.Write(w, wires.Chat, m.fault(c, r.Header), out)
}

// vectorOf hashes words and their n-grams of three to five letters to indexes and signs of a vector. The vector has
// length 1.
func vectorOf(text string, dimensions int) []float32 {
	if dimensions == 0 {
		dimensions = defaultDimensions
	}
	v := make([]float32, dimensions)
	add := func(s string) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(s))
		sum := h.Sum64()
		v[(sum>>8)%uint64(dimensions)] += 1 - 2*float32(sum>>63)
	}
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		add(word)
		letters := []rune("<" + word + ">")
		for n := 3; n <= 5; n++ {
			for i := 0; i+n <= len(letters); i++ {
				add(string(letters[i : i+n]))
			}
		}
	}
	square := 0.0
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	if square == 0 { // the text is blank, or all signs cancel each other
		v[0], square = 1, 1
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(square))
	}
	return v
}
