package api

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/versions"
	"debrief/playbook"
	"debrief/playbook/history"
)

// versionItem is a version in a list.
type versionItem struct {
	Version uint64    `json:"version"`
	Label   string    `json:"label"`
	Names   []string  `json:"names,omitempty" doc:"Names of the version."`
	Time    time.Time `json:"time"`
	Author  string    `json:"author"`
	Reason  string    `json:"reason,omitempty"`
	Covers  string    `json:"covers,omitempty" doc:"What the version covers, for people."`
	Summary string    `json:"summary" doc:"The changes, for people."`
	Bytes   int       `json:"bytes" doc:"Size in the log."`
}

func newVersionItem(ch explain.Change) versionItem {
	return versionItem{
		Version: ch.Version, Label: ch.Label(), Names: ch.VersionNames, Time: ch.Time, Author: ch.Author, Reason: ch.Reason,
		Covers: explain.CoverSummary(&ch.Delta), Summary: explain.DeltaSummary(&ch.Delta), Bytes: ch.Size,
	}
}

// changes returns all changes of the playbook in the path, newest first.
func (c *call) changes() ([]explain.Change, error) {
	b, log := c.book(), new(explain.Log)
	if err := b.Store.ReadLog(c.ctx, b.Name, log.Add); err != nil {
		return nil, versions.LogError(err)
	}
	all := log.Changes()
	if len(all) == 0 {
		return nil, notFound(fmt.Sprintf("playbook %q: not found", b.Name))
	}
	return all, nil
}

func listVersions(c *call) (*page[versionItem], error) {
	limit, err := c.limit()
	if err != nil {
		return nil, err
	}
	end := uint64(math.MaxInt64)
	if after := c.query.Get("after"); after != "" {
		if end, err = strconv.ParseUint(after, 10, 63); err != nil || end == 0 {
			return nil, invalid("after", "want the field next of a page")
		}
	}
	part, newest, ok, err := c.handler.books.versions(c.ctx, playbook.Book(c.path["book"]), end, limit)
	if err != nil {
		return nil, err
	}
	if !ok {
		return c.readVersions()
	}
	if end != math.MaxInt64 && end > newest {
		return nil, invalid("after", "the list does not have this item any more: begin again without it")
	}
	out := &page[versionItem]{Items: append([]versionItem{}, part...)}
	if n := len(part); n > 0 && part[n-1].Version > 1 {
		out.Next = strconv.FormatUint(part[n-1].Version, 10)
	}
	return out, nil
}

// readVersions is listVersions for versions that are not in memory.
func (c *call) readVersions() (*page[versionItem], error) {
	all, err := c.changes()
	if err != nil {
		return nil, err
	}
	part, err := paginate(c, all, func(ch explain.Change) string { return strconv.FormatUint(ch.Version, 10) })
	if err != nil {
		return nil, err
	}
	out := &page[versionItem]{Items: []versionItem{}, Next: part.Next}
	for _, ch := range part.Items {
		out.Items = append(out.Items, newVersionItem(ch))
	}
	return out, nil
}

// versionDetails is a version with its operations.
type versionDetails struct {
	versionItem
	Delta *playbook.Delta `json:"delta"`
}

func getVersion(c *call) (*versionDetails, error) {
	at, err := c.book().Version(c.ctx, c.path["version"])
	if err != nil {
		return nil, err
	}
	all, err := c.changes()
	if err != nil {
		return nil, err
	}
	for _, ch := range all {
		if ch.Version == at.Number {
			return &versionDetails{newVersionItem(ch), &ch.Delta}, nil
		}
	}
	return nil, notFound("version 0: the empty playbook, which no change made")
}

// difference has the bullets that differ between two versions.
type difference struct {
	From  string               `json:"from" doc:"Label of the old version."`
	To    string               `json:"to" doc:"Label of the new version."`
	Items []history.Difference `json:"items" doc:"Bullets before and after; null if the version does not have the bullet."`
}

func getDiff(c *call) (*difference, error) {
	was, from, err := c.playbook(cmp.Or(c.query.Get("from"), "0"))
	if err != nil {
		return nil, err
	}
	is, to, err := c.playbook(c.query.Get("to"))
	if err != nil {
		return nil, err
	}
	return &difference{from, to, append([]history.Difference{}, history.Diff(was, is)...)}, nil
}
