package liveness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Gateway is the health of the gateway in one process: the calls of models that it captured, and the calls that passed without capture.
type Gateway struct {
	Verdict
	Captured uint64   `json:"captured"`         // calls of models
	Passed   []Passed `json:"passed,omitempty"` // calls of models that were not captured, the most frequent reason first
}

// Passed is a reason why calls of models were not captured.
type Passed struct {
	Reason string `json:"reason"` // code
	Calls  uint64 `json:"calls"`
}

// Unseen is the problem of a gateway that captures nothing although calls pass.
const Unseen Problem = "unseen-calls"

// Tokens is the problem of a gateway whose tokens file cannot be read.
const Tokens Problem = "tokens-file"

// maxUnseen is the number of consecutive calls without capture that makes a gateway yellow.
const maxUnseen = 5

// Calls counts the calls of models of a gateway. It is safe for concurrent use.
type Calls struct {
	mu       sync.Mutex
	captured uint64
	passed   map[string]uint64
	unseen   uint64 // calls since the last captured one
	tokens   func() (valid int, err error)
}

// WatchTokens reports the problems of a tokens file: check returns the number of valid tokens and why the file cannot be read.
func (c *Calls) WatchTokens(check func() (valid int, err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = check
}

// Add counts a call. The reason is why it was not captured, or "" if it was captured.
func (c *Calls) Add(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason == "" {
		c.captured++
		c.unseen = 0
		return
	}
	if c.passed == nil {
		c.passed = map[string]uint64{}
	}
	c.passed[reason]++
	c.unseen++
}

// health returns the counts and the verdict, or nil before the first call, unless the tokens file cannot be read.
func (c *Calls) health() *Gateway {
	c.mu.Lock()
	defer c.mu.Unlock()
	valid := 0
	var err error
	if c.tokens != nil {
		valid, err = c.tokens()
	}
	if c.captured == 0 && len(c.passed) == 0 && err == nil {
		return nil
	}
	g := &Gateway{Verdict: Verdict{Level: Green}, Captured: c.captured, Passed: passedOf(c.passed)}
	if c.unseen >= maxUnseen {
		g.add(Yellow, Unseen, "the last %d calls of models passed and were not captured: agents learn nothing from them (%s)", c.unseen, reasonsOf(g.Passed))
	}
	switch {
	case err != nil && valid == 0:
		g.add(Red, Tokens, "every request is refused: %s", err)
	case err != nil:
		g.add(Yellow, Tokens, "the tokens of before are valid: %s", err)
	}
	return g
}

// passedOf returns the counts of reasons, the most frequent first.
func passedOf(counts map[string]uint64) (list []Passed) {
	for reason, n := range counts {
		list = append(list, Passed{reason, n})
	}
	slices.SortFunc(list, func(a, b Passed) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Reason, b.Reason))
	})
	return list
}

// reasonsOf returns the first reasons with their counts since the start.
func reasonsOf(passed []Passed) string {
	var list []string
	for _, p := range passed[:min(len(passed), 3)] {
		list = append(list, fmt.Sprintf("%s: %d", p.Reason, p.Calls))
	}
	return strings.Join(list, ", ")
}
