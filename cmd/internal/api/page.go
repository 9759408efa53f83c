package api

import (
	"fmt"
	"slices"
)

// Page is a part of a list. Next is the parameter after for the next part; it is empty at the end.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"Pass it as the parameter after for the next items; empty at the end."`
}

const defaultLimit = 50

// MaxLimit is the maximum number of items of a page.
const MaxLimit = 500

// limitParameter is the only parameter of a list without pages.
var limitParameter = []parameter{
	{name: "limit", kind: "integer", low: 1, high: MaxLimit, doc: fmt.Sprintf("Maximum number of items, 1 to %d; default: %d.", MaxLimit, defaultLimit)},
}

// pageParameters are the parameters of a list with pages.
var pageParameters = slices.Concat(limitParameter, []parameter{
	{name: "after", kind: "string", doc: "The field next of the page before."},
})

// limit returns the parameter limit, or its default.
func (c *call) limit() int { return c.integer("limit", defaultLimit) }

// paginate returns the page of a list that the parameters select. The key of an item is its cursor.
func paginate[T any](c *call, all []T, key func(T) string) (*Page[T], error) {
	limit := c.limit()
	if after := c.query.Get("after"); after != "" {
		i := slices.IndexFunc(all, func(item T) bool { return key(item) == after })
		if i < 0 {
			return nil, invalid("after", "the list does not have this item any more: begin again without it")
		}
		all = all[i+1:]
	}
	p := &Page[T]{Items: append([]T{}, all[:min(limit, len(all))]...)}
	if len(all) > limit {
		p.Next = key(all[limit-1])
	}
	return p, nil
}

// firstItems returns the first items of a list, at most limit; not nil.
func firstItems[T any](all []T, limit int) []T { return append([]T{}, all[:min(limit, len(all))]...) }
