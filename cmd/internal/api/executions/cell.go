package executions

import (
	"debrief/cmd/internal/train/stats"
	"debrief/events/chat"
)

// Cell has the counts of some executions.
type Cell struct {
	Executions int            `json:"executions"`
	Accuracy   stats.Estimate `json:"accuracy" doc:"Share of the outcome success among known outcomes, after feedback, with its 95 % interval (Wilson); n is the number of known outcomes."`
	Inferred   int            `json:"inferred,omitempty" doc:"Known outcomes that the gateway derived from the messages of the run."`
	Usage      chat.Usage     `json:"usage" doc:"Sums of calls, tokens and cost; the cost is that of priced models."`
	Cached     float64        `json:"cached_share" doc:"Share of the input tokens that the provider read from its cache."`

	known, right int
}

// add adds the counts of another cell.
func (c *Cell) add(d *Cell) {
	c.Executions += d.Executions
	c.Inferred += d.Inferred
	c.Usage = c.Usage.Add(d.Usage)
	c.known += d.known
	c.right += d.right
}

// complete computes the shares.
func (c *Cell) complete() {
	c.Accuracy = stats.Share(c.right, c.known)
	if c.Usage.InputTokens > 0 {
		c.Cached = float64(c.Usage.CachedTokens) / float64(c.Usage.InputTokens)
	}
}
