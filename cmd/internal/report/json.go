package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// marshal is JSON for people as well: indented, and texts as they are.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}

// JSON is the report as report.json holds it: lists are never null, and a number that is none is as good as not known.
func (r *Report) JSON() ([]byte, error) {
	data, err := marshal(r.tidy())
	if err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return data, nil
}

// unlike are the parts of a report that differ when the same is run again.
var unlike = []string{"run", "timing", "cost"}

// Comparable is a report.json without what differs when the same is run again: two runs of the same data, settings and
// seed have the same bytes here. Its keys are sorted.
func Comparable(data []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // as they are written
	var all map[string]any
	if err := dec.Decode(&all); err != nil {
		return nil, fmt.Errorf("decode report: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode report: more than one value")
	}
	if all == nil {
		return nil, errors.New("decode report: no object")
	}
	for _, part := range unlike {
		delete(all, part)
	}
	return marshal(all)
}

// Fingerprint names what came of the run, in hexadecimal: the SHA-256 of its Comparable. Who runs the same again looks
// for the same one.
func (r *Report) Fingerprint() (string, error) {
	data, err := r.JSON()
	if err != nil {
		return "", err
	}
	if data, err = Comparable(data); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// tidy is a copy without null lists and without numbers that JSON does not have. In their place stands what claims
// nothing: no difference, the widest interval, a p of 1.
func (r *Report) tidy() *Report {
	c := *r
	c.Format = Format
	c.Settings, c.Data, c.Losses = list(r.Settings), list(r.Data), list(r.Losses)
	c.Bullets = list(r.Bullets)
	c.Points, c.Epochs = slices.Clone(list(r.Points)), slices.Clone(list(r.Epochs))
	for i := range c.Points {
		c.Points[i].Score = *c.Points[i].Score.tidy()
	}
	for i := range c.Epochs {
		c.Epochs[i].Train = *c.Epochs[i].Train.tidy()
		c.Epochs[i].Validation = c.Epochs[i].Validation.tidy()
	}
	c.Before, c.After = r.Before.tidy(), r.After.tidy()
	if r.Paired != nil {
		p := *r.Paired
		p.Difference, p.Low, p.High, p.P = known(p.Difference, 0), known(p.Low, -1), known(p.High, 1), known(p.P, 1)
		c.Paired = &p
	}
	if r.Against != nil {
		a := *r.Against
		a.Here, a.There = list(a.Here), list(a.There)
		c.Against = &a
	}
	if c.Operations == nil {
		c.Operations = map[string]int{}
	}
	if c.Rejected == nil {
		c.Rejected = map[string]int{}
	}
	t := &c.Timing
	t.Seconds, t.PerSecond, t.Learning, t.Evaluating = known(t.Seconds, 0), known(t.PerSecond, 0), known(t.Learning, 0), known(t.Evaluating, 0)
	for _, u := range []*Usage{&c.Cost.Generator, &c.Cost.Reflector, &c.Cost.Curator} {
		u.Dollars = known(u.Dollars, 0)
	}
	return &c
}

func (s *Score) tidy() *Score {
	if s == nil {
		return nil
	}
	c := *s
	c.Accuracy, c.Mean = known(c.Accuracy, 0), known(c.Mean, 0)
	return &c
}

func known(x, otherwise float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return otherwise
	}
	return x
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
