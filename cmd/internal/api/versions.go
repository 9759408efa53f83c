package api

import (
	"cmp"
	"math"
	"strconv"

	"debrief/cmd/internal/api/index"
	"debrief/playbook"
	"debrief/playbook/history"
)

// versionRoutes are the routes that read the versions of a playbook.
func versionRoutes() []route {
	inBook := map[string]string{"book": "default"}
	log := get("/books/{book}/versions", "listVersions", "List the versions of a playbook, newest first.", listVersions)
	log.query = append([]parameter{
		{name: "changes", kind: "string", doc: "bullets leaves out the versions that only change votes and outcomes; default: all.", values: []string{string(index.AllChanges), string(index.BulletChanges)}},
	}, pageParameters...)
	log.example = example{path: inBook, query: "changes=bullets&limit=5"}
	version := get("/books/{book}/versions/{version}", "getVersion", "Return a version with its operations.", getVersion)
	version.example = example{path: map[string]string{"book": "default", "version": "newest"}}
	diff := get("/books/{book}/diff", "getDiff", "List the bullets that differ between two versions.", getDiff)
	diff.query = []parameter{
		{name: "from", kind: "string", doc: "Old version: a number, label, time, duration or name. Default: 0, the empty playbook."},
		{name: "to", kind: "string", doc: "New version; default: the newest."},
	}
	diff.example = example{path: inBook, query: "from=1&to=newest"}
	return []route{log, version, diff}
}

// listVersions returns a page of versions, newest first: those before the version in the parameter after, or the newest ones without it.
func listVersions(c *call) (*Page[*index.Version], error) {
	var err error
	before := uint64(math.MaxInt64)
	if after := c.query.Get("after"); after != "" {
		if before, err = strconv.ParseUint(after, 10, 63); err != nil || before == 0 {
			return nil, invalid("after", "want the field next of a page")
		}
	}
	changes := cmp.Or(index.Changes(c.query.Get("changes")), index.AllChanges)
	versions, newest, err := c.handler.index.Logs.Versions(c.ctx, c.book(), before, c.limit(), changes)
	switch {
	case err != nil:
		return nil, err
	case newest == 0:
		return nil, index.ErrBookNotFound
	case before != math.MaxInt64 && before > newest:
		return nil, invalid("after", "the list does not have this item any more: begin again without it")
	}
	out := &Page[*index.Version]{Items: append([]*index.Version{}, versions...)}
	if n := len(versions); n == c.limit() && versions[n-1].Version > 1 {
		out.Next = strconv.FormatUint(versions[n-1].Version, 10)
	}
	return out, nil
}

// VersionDetails is a version with its operations.
type VersionDetails struct {
	index.Version
	Delta *playbook.Delta `json:"delta"`
}

func getVersion(c *call) (*VersionDetails, error) {
	at, err := c.handler.index.Logs.Version(c.ctx, c.book(), c.path("version"))
	if err != nil {
		return nil, err
	}
	if at.Number == 0 {
		return nil, notFound("version 0: the empty playbook, which no change made")
	}
	v, d, err := c.handler.index.Logs.Delta(c.ctx, c.book(), at.Number)
	if err != nil {
		return nil, err
	}
	return &VersionDetails{*v, d}, nil
}

// Difference has the bullets that differ between two versions.
type Difference struct {
	From  string               `json:"from" doc:"Label of the old version."`
	To    string               `json:"to" doc:"Label of the new version."`
	Items []history.Difference `json:"items" doc:"Bullets before and after; null if the version does not have the bullet."`
}

func getDiff(c *call) (*Difference, error) {
	before, from, err := c.playbook(cmp.Or(c.query.Get("from"), "0"))
	if err != nil {
		return nil, err
	}
	after, to, err := c.playbook(c.query.Get("to"))
	if err != nil {
		return nil, err
	}
	return &Difference{from, to, append([]history.Difference{}, history.Diff(before, after)...)}, nil
}
