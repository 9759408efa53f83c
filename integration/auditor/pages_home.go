package auditor

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// home is the overview.
func (c *Console) home(p Page, _ []string, _ url.Values) {
	type version struct {
		book string
		*change
	}
	var all []version
	for _, book := range c.names() {
		for _, x := range c.books[book].changes {
			all = append(all, version{book, x})
		}
	}
	slices.SortStableFunc(all, func(a, b version) int { return b.Time.Compare(a.Time) })
	learned := func(within time.Duration) (added, changed, removed, votes, versions int) {
		for _, x := range all {
			if c.now.Sub(x.Time) > within {
				continue
			}
			versions++
			for i := range x.Ops {
				switch x.Ops[i].Kind {
				case "ADD":
					added++
				case "REMOVE":
					removed++
				case "TAG", "RETAG", "EXPOSURES", "CONFIRM":
					votes++
				default:
					changed++
				}
			}
		}
		return added, changed, removed, votes, versions
	}
	added, changed, removed, votes, versions := learned(24 * time.Hour)
	lastHour, _, _, _, _ := learned(time.Hour)
	const day = "Learned in # hours | "
	p.add(day+"# new "+plural(added, "bullet"), float64(added))
	p.add(day+fmt.Sprintf("# changed, # removed, # %s of votes in # %s. In the last hour: # new.", plural(votes, "change"), plural(versions, "version")), ints(changed, removed, votes, versions, lastHour)...)
	waiting := 0
	const wait = "Waits for a person | "
	var books []string
	for _, book := range c.names() {
		n := c.quarantined(book)
		waiting += n
		books = append(books, book)
		if n > 0 {
			p.add(wait+book+"/review | # "+plural(n, "bullet")+" in quarantine", float64(n))
		}
	}
	letters := len(c.letters(""))
	if letters > 0 {
		p.add(wait+"dead | # "+plural(letters, "dead letter"), float64(letters))
	}
	p.add(wait+cmp.Or(firstWaiting(c, books), "dead")+" | # "+plural(waiting+letters, "decision"), float64(waiting+letters))
	slices.SortStableFunc(books, func(a, b string) int { return len(c.ofBook(b)) - len(c.ofBook(a)) })
	for _, book := range books[:min(5, len(books))] {
		if numbers, shape := c.verdict(book); numbers != nil {
			p.add("Worth | "+book+"/worth | "+word(shape)+" "+shape, numbers...)
		}
	}
	lessons := 0
	for _, x := range all {
		n := 0
		for i := range x.Ops {
			if o := &x.Ops[i]; o.Content != "" && n < 3 && lessons < 6 {
				n++
				lessons++
				if r := x.reflections(); r > 0 {
					state := "removed"
					if b, ok := c.books[x.book].now()[o.Bullet]; ok {
						state = cmp.Or(b.Status, "active")
					}
					how := "changed"
					if o.Kind == "ADD" {
						how = "new"
					}
					p.add(fmt.Sprintf("Newest lessons | %s/bullets/%s | %s %s in · · from # %s · by", x.book, o.Bullet, state, how, plural(r, "reflection")), float64(r))
				}
			}
		}
	}
	for _, book := range c.names() {
		row := "Playbooks | " + book + " | "
		shown, probation := 0, 0
		for _, b := range c.books[book].now() {
			if b.active() {
				shown++
			}
			if b.Status == "probation" {
				probation++
			}
		}
		p.add(row+"Bullets", float64(len(c.books[book].now())))
		p.add(row+"In prompts", float64(shown))
		p.add(row+"On probation", float64(probation))
		p.add(row+"In quarantine", float64(c.quarantined(book)))
		p.add(row+"Executions", float64(len(c.ofBook(book))))
	}
	for _, x := range all[:min(10, len(all))] {
		c.versionRow(p, "Newest changes | ", x.book, x.change)
	}
}

// firstWaiting returns the link to the first playbook with a bullet that waits, "" without one.
func firstWaiting(c *Console, books []string) string {
	for _, book := range books {
		if c.quarantined(book) > 0 {
			return book + "/review"
		}
	}
	return ""
}

func (c *Console) quarantined(book string) (n int) {
	for _, b := range c.books[book].now() {
		if b.waits() {
			n++
		}
	}
	return n
}
