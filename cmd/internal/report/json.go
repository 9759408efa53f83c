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

// marshal encodes indented JSON without HTML escapes.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}

// json returns the contents of report.json. Lists are never null, and NaN and infinite numbers are replaced by
// neutral values.
func (r *Report) json() ([]byte, error) {
	data, err := marshal(r.tidy())
	if err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return data, nil
}

// volatile are the parts of a report that differ between two identical runs.
var volatile = []string{"run", "timing", "cost"}

// comparableJSON returns a report.json without the parts that differ between identical runs. Two runs with the same data,
// settings and seed have the same bytes. The keys are sorted.
func comparableJSON(data []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // keep the digits of numbers
	var all map[string]any
	if err := dec.Decode(&all); err != nil {
		return nil, fmt.Errorf("decode report: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode report: more than one value")
	}
	if all == nil {
		return nil, errors.New("decode report: not an object")
	}
	for _, part := range volatile {
		delete(all, part)
	}
	return marshal(all)
}

// fingerprint returns the SHA-256 of comparableJSON in hexadecimal. Identical runs have the same fingerprint.
func (r *Report) fingerprint() (string, error) {
	data, err := r.json()
	if err != nil {
		return "", err
	}
	if data, err = comparableJSON(data); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// tidy returns a copy without null lists, NaN and infinite numbers. They are replaced by neutral values: no
// difference, the widest interval, a p of 1.
func (r *Report) tidy() *Report {
	c := *r
	c.Format = Format
	c.Settings, c.Data, c.Losses = list(r.Settings), list(r.Data), list(r.Losses)
	c.Bullets, c.Models = list(r.Bullets), list(r.Models)
	c.Wrong.First = slices.Clone(list(r.Wrong.First))
	for i := range c.Wrong.First {
		w := &c.Wrong.First[i]
		w.Score, w.Bullets, w.Cited = finiteOr(w.Score, 0), list(w.Bullets), list(w.Cited)
	}
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
		p.Difference, p.Low, p.High, p.P = finiteOr(p.Difference, 0), finiteOr(p.Low, -1), finiteOr(p.High, 1), finiteOr(p.P, 1)
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
	t.Epochs = slices.Clone(list(t.Epochs))
	for i := range t.Epochs {
		e := &t.Epochs[i]
		for _, role := range []*RoleTime{&e.Generator, &e.Reflector, &e.Curator} {
			role.Wall, role.Model = finiteOr(role.Wall, 0), finiteOr(role.Model, 0)
		}
	}
	t.Seconds, t.PerSecond, t.Learning, t.Evaluating = finiteOr(t.Seconds, 0), finiteOr(t.PerSecond, 0), finiteOr(t.Learning, 0), finiteOr(t.Evaluating, 0)
	for _, u := range []*Usage{&c.Cost.Generator, &c.Cost.Reflector, &c.Cost.Curator} {
		u.Dollars, u.Seconds = finiteOr(u.Dollars, 0), finiteOr(u.Seconds, 0)
	}
	if b := c.Cost.PerBullet; b != nil {
		c.Cost.PerBullet = &BulletCost{b.Bullets, finiteOr(b.Calls, 0), finiteOr(b.Tokens, 0), finiteOr(b.Seconds, 0), finiteOr(b.Dollars, 0)}
	}
	return &c
}

func (s *Score) tidy() *Score {
	if s == nil {
		return nil
	}
	c := *s
	c.Accuracy, c.Mean = finiteOr(c.Accuracy, 0), finiteOr(c.Mean, 0)
	return &c
}

func finiteOr(x, fallback float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fallback
	}
	return x
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
