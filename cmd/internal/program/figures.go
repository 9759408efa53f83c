package program

import (
	"errors"
	"fmt"

	"debrief/cmd/internal/operate/metrics"
	"debrief/cmd/internal/operate/prices"
	"debrief/events"
	"debrief/playbook"
)

// Figures contains the flags of the metrics of playbooks.
type Figures struct {
	Playbooks []string `name:"metrics-playbooks" help:"Playbooks with metrics of their own, separated by commas; the rest is 'other'. Default: default." placeholder:"BOOK,…" rare:"" group:"Metrics"`
	Prices    string   `name:"metrics-prices" help:"File with prices of models, in place of the built-in table." type:"path" placeholder:"FILE" rare:"" group:"Metrics"`
}

// maxFigures is the number of playbooks with metrics of their own. Each scrape asks the server for the waiting messages of each.
const maxFigures = 100

// settings returns the configuration of the metrics.
func (f Figures) settings() (cfg metrics.Figures, err error) {
	var errs []error
	if len(f.Playbooks) > maxFigures {
		errs = append(errs, fmt.Errorf("--metrics-playbooks: must be at most %d, got %d", maxFigures, len(f.Playbooks)))
	}
	names := f.Playbooks
	if len(names) == 0 {
		names = []string{string(events.DefaultBook)}
	}
	for _, name := range names {
		b := playbook.Book(name)
		if err := b.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("--metrics-playbooks: %w", err))
		}
		cfg.Playbooks = append(cfg.Playbooks, b)
	}
	if cfg.Prices, err = prices.Load(f.Prices); err != nil {
		errs = append(errs, fmt.Errorf("--metrics-prices: %w", err))
	}
	return cfg, Exit(ExitUsage, errors.Join(errs...))
}

// Metrics returns the metrics of a program of this version.
func (f Figures) Metrics(program string) (*metrics.Metrics, error) {
	cfg, err := f.settings()
	if err != nil {
		return nil, err
	}
	return metrics.New(program, Version(), cfg), nil
}
