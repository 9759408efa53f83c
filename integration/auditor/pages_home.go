package auditor

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// bookChange is a delta with its playbook.
type bookChange struct {
	book string
	*change
}

// home is the overview.
func (c *Console) home(p Page, _ []string, _ url.Values) {
	var newest []bookChange
	for _, book := range c.names() {
		for _, x := range c.books[book].changes {
			newest = append(newest, bookChange{book, x})
		}
	}
	slices.SortStableFunc(newest, func(a, b bookChange) int { return b.Time.Compare(a.Time) })
	c.homeLearned(p, newest)
	c.homeWaiting(p)
	books := c.names()
	slices.SortStableFunc(books, func(a, b string) int { return len(c.ofBook(b)) - len(c.ofBook(a)) })
	for _, book := range books[:min(5, len(books))] {
		if numbers, sentence := c.verdict(book); numbers != nil {
			p.add("Worth | "+book+"/worth | "+word(sentence)+" "+sentence, numbers...)
		}
	}
	c.homeLessons(p, newest)
	for _, book := range c.names() {
		row := "Playbooks | " + book + " | "
		p.add(row+"Bullets", float64(len(c.books[book].now())))
		p.add(row+"In prompts", float64(c.countBullets(book, (*record).active)))
		p.add(row+"On probation", float64(c.countBullets(book, func(b *record) bool { return b.Status == "probation" })))
		p.add(row+"In quarantine", float64(c.countBullets(book, (*record).waits)))
		p.add(row+"Executions", float64(len(c.ofBook(book))))
	}
	for _, x := range newest[:min(10, len(newest))] {
		c.versionRow(p, "Newest changes | ", x.book, x.change)
	}
}

// homeLearned adds the counts of bullets, votes and versions of the last day.
func (c *Console) homeLearned(p Page, newest []bookChange) {
	var added, changed, removed, votes, versions, addedInHour int
	for _, x := range newest {
		age := c.now.Sub(x.Time)
		if age > 24*time.Hour {
			continue
		}
		versions++
		for i := range x.Ops {
			switch o := &x.Ops[i]; {
			case o.Kind == "ADD":
				added++
				if age <= time.Hour {
					addedInHour++
				}
			case o.Kind == "REMOVE":
				removed++
			case o.onlyCounts():
				votes++
			default:
				changed++
			}
		}
	}
	const heading = "Learned in # hours | "
	p.add(heading+"# new "+plural(added, "bullet"), float64(added))
	p.add(heading+fmt.Sprintf("# changed, # removed, # %s of votes in # %s. In the last hour: # new.", plural(votes, "change"), plural(versions, "version")),
		ints(changed, removed, votes, versions, addedInHour)...)
}

// homeWaiting adds the bullets and dead letters that wait for a person. The number of all has a link to the first of them.
func (c *Console) homeWaiting(p Page) {
	const heading = "Waits for a person | "
	all, first := 0, ""
	for _, book := range c.names() {
		if n := c.countBullets(book, (*record).waits); n > 0 {
			all += n
			first = cmp.Or(first, book+"/review")
			p.counted(heading+book+"/review | ", n, "bullet", " in quarantine")
		}
	}
	letters := len(c.letters(""))
	p.counted(heading+"dead | ", letters, "dead letter", "")
	all += letters
	p.add(heading+cmp.Or(first, "dead")+" | # "+plural(all, "decision"), float64(all))
}

// homeLessons adds the newest texts that rest on reflections. The page has six texts, of a version at most three.
func (c *Console) homeLessons(p Page, newest []bookChange) {
	lessons := 0
	for _, x := range newest {
		ofVersion := 0
		for i := range x.Ops {
			o := &x.Ops[i]
			if o.Content == "" || ofVersion == 3 || lessons == 6 {
				continue
			}
			ofVersion++
			lessons++
			n := x.reflections()
			if n == 0 {
				continue
			}
			state, how := "removed", "changed"
			if b, ok := c.books[x.book].now()[o.Bullet]; ok {
				state = cmp.Or(b.Status, "active")
			}
			if o.Kind == "ADD" {
				how = "new"
			}
			// The place leaves out the version and the time, which are before the dots, and the author.
			p.add(fmt.Sprintf("Newest lessons | %s/bullets/%s | %s %s in · · from # %s · by", x.book, o.Bullet, state, how, plural(n, "reflection")), float64(n))
		}
	}
}

// countBullets counts the bullets of a playbook that accept returns true for.
func (c *Console) countBullets(book string, accept func(*record) bool) (n int) {
	for _, b := range c.books[book].now() {
		if accept(&b) {
			n++
		}
	}
	return n
}
