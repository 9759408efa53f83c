package metrics

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"debrief/events/chat"
)

// Price is the price of a model, in US dollars per million tokens.
type Price struct {
	Input  float64 `yaml:"input"`
	Cached float64 `yaml:"cached"` // input that the provider read from its cache
	Output float64 `yaml:"output"`
}

// PriceTable has the prices of models: those built in, with their date, or those of a file of the operator, for other models or the prices
// of a contract. No provider is asked for prices. A model that the table does not have is not free: its price is unknown. It is not changed
// after LoadPrices.
type PriceTable struct {
	Date   string           `yaml:"date"` // of the prices, as year-month-day
	Models map[string]Price `yaml:"models"`
}

//go:embed prices.yaml
var builtIn []byte

// maxModels limits a table, because each model is a value of a label of metrics.
const maxModels = 100

// LoadPrices reads the table of a file. Without a name it returns the built-in table.
func LoadPrices(name string) (*PriceTable, error) {
	text := builtIn
	if name != "" {
		var err error
		if text, err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmp.Or(name, "built-in prices"), err)
	}
	return t, nil
}

func parse(text []byte) (*PriceTable, error) {
	t := new(PriceTable)
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(t); err != nil {
		return nil, fmt.Errorf("invalid table of prices: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	var errs []error
	if _, err := time.Parse(time.DateOnly, t.Date); err != nil {
		errs = append(errs, fmt.Errorf("date: want a day such as 2026-04-01, got %q", t.Date))
	}
	if len(t.Models) > maxModels {
		errs = append(errs, fmt.Errorf("models: must be at most %d, got %d", maxModels, len(t.Models)))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Models)) {
		p := t.Models[name]
		for _, dollars := range []float64{p.Input, p.Cached, p.Output} {
			if !(dollars >= 0 && dollars <= math.MaxInt32) { // also NaN
				errs = append(errs, fmt.Errorf("models: %s: must be at least 0 dollars, got %v", name, dollars))
				break
			}
		}
	}
	return t, errors.Join(errs...)
}

// version matches the end of the name of a dated version of a model.
var version = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$`)

// Name returns the name of a model in the table, or false if it has no price. A provider before the name, as in openai/gpt-4o, and a
// date after it do not count.
func (t *PriceTable) Name(model string) (string, bool) {
	model = model[strings.LastIndexByte(model, '/')+1:]
	for _, name := range []string{model, version.ReplaceAllString(model, "")} {
		if _, ok := t.Models[name]; ok {
			return name, true
		}
	}
	return "", false
}

// Dollars returns the price of the tokens of a model. name is a result of Name.
func (t *PriceTable) Dollars(name string, u chat.Usage) float64 {
	p := t.Models[name]
	cached := min(u.CachedTokens, u.InputTokens)
	return (float64(u.InputTokens-cached)*p.Input + float64(cached)*p.Cached + float64(u.OutputTokens)*p.Output) / 1e6
}

// Cost returns the price of the tokens of a model in US dollars. For a model that the table does not have, and for a nil table, it is the
// cost that the usage contains, which a recorder or the flags of the model set; 0 if it is unknown.
func (t *PriceTable) Cost(model string, u chat.Usage) float64 {
	if t != nil {
		if name, ok := t.Name(model); ok {
			return t.Dollars(name, u)
		}
	}
	return u.Cost
}
