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

// problem returns the error for an invalid request. For a valid one it returns the zero answer.
func (in *embeddingRequest) problem() wires.Answer {
	invalid := func(text string) wires.Answer {
		return wires.Answer{Status: http.StatusBadRequest, Message: "simulated: " + text}
	}
	switch {
	case in.Model != embeddingName:
		return wires.Answer{Status: http.StatusNotFound, Message: "simulated: only " + embeddingName + " embeds"}
	case len(in.Input) == 0 || len(in.Input) > maxTexts:
		return invalid(fmt.Sprintf("input: must be 1 to %d texts, got %d", maxTexts, len(in.Input)))
	case slices.Contains(in.Input, ""):
		return invalid("input: a text is empty")
	case in.EncodingFormat != "" && in.EncodingFormat != "float":
		return invalid("encoding_format: must be float")
	case in.Dimensions < 0 || in.Dimensions > maxDimensions:
		return invalid(fmt.Sprintf("dimensions: must be 1 to %d", maxDimensions))
	}
	return wires.Answer{}
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

// embed returns the embeddings in another order than the input, as the API allows. This reveals clients that ignore the
// index.
func (m *model) embed(w http.ResponseWriter, r *http.Request) {
	var in embeddingRequest
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes)).Decode(&in)
	problem := in.problem()
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		problem = wires.Answer{Status: http.StatusRequestEntityTooLarge, Message: "simulated: " + err.Error()}
	} else if err != nil {
		problem = wires.Answer{Status: http.StatusBadRequest, Message: "simulated: " + err.Error()}
	}
	if problem.Status != 0 {
		wires.Write(w, wires.Chat, problem, nil)
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
		v := vectorOf(in.Input[i], in.Dimensions)
		out.Data = append(out.Data, embedding{Object: "embedding", Index: i, Vector: v})
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
