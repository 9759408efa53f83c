package auditor

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// letters returns the dead letters of a role, or of all.
func (c *Console) letters(role string) (all []*letter) {
	for i := range c.Dead {
		l, err := readLetter(&c.Dead[i])
		if err == nil && l != nil && (role == "" || l.Role == role) {
			all = append(all, l)
		}
	}
	return all
}

// dead are the pages of dead letters.
func (c *Console) dead(p Page, rest []string, q url.Values) {
	for _, l := range c.letters(q.Get("role")) {
		id := strconv.FormatUint(l.at, 10)
		if len(rest) == 0 {
			p.add("dead/"+id+" | Attempts", float64(l.Attempts))
		} else if number, _, _ := strings.Cut(rest[0], "-"); number == id {
			p.add("Attempts", float64(l.Attempts))
			p.add("Stream", float64(l.Seq))
		}
	}
}

// status is the page of the health. Numbers of processes are not in any stream.
func (c *Console) status(p Page, _ []string, _ url.Values) {
	roles := map[string]string{"generator": "Generator", "reflector": "Reflector", "curator": "Curator"}
	for role, name := range roles {
		p.add("Roles | "+name+" | Dead letters", float64(len(c.letters(role))))
	}
	p.counted("", len(c.letters("")), "dead letter", ": read the reasons with 'debrief dead list', then run 'debrief dead requeue --all', or drop them")
	for _, book := range c.names() {
		row := "Playbooks | " + book + " | "
		p.add(row+"Bullets", float64(len(c.books[book].now())))
		p.add(row+"Shown", float64(c.countBullets(book, (*record).active)))
		p.add(row+"Lag of the view", float64(len(c.books[book].changes))-float64(c.viewed(book)))
	}
	for name, info := range c.infos {
		row := "Streams | " + name + " | "
		p.add(row+"Messages", float64(info.State.Msgs))
		size := float64(info.State.Bytes)
		for size >= 1000 {
			size /= 1000
		}
		p.add(row+"Size", size)
		p.add(row+"Last sequence", float64(info.State.LastSeq))
		p.add(row+"Replicas", float64(info.Config.Replicas))
	}
}

// viewed is the version of the view of a playbook.
func (c *Console) viewed(book string) uint64 {
	for _, m := range slices.Backward(c.View) {
		if m.Subject == "$KV.playbook."+book+".head" {
			if h, err := decode[head](m.Data); err == nil {
				return h.Version
			}
		}
	}
	return 0
}

// erasures is the list of erasures. Their counts are those of the program that removed the data.
func (c *Console) erasures(p Page, _ []string, _ url.Values) {
	for _, m := range c.Erasures {
		e, err := decode[struct {
			ID       string `msgpack:"i"`
			Kind     string `msgpack:"k"`
			Runs     int    `msgpack:"r"`
			Versions int    `msgpack:"v"`
			Gaps     []struct {
				Messages int `msgpack:"n"`
			} `msgpack:"g"`
		}](m.Data)
		if err != nil || e.ID == "" || e.Kind == "" {
			continue
		}
		removed := 0
		for _, g := range e.Gaps {
			removed += g.Messages
		}
		p.add("Requested erasures | "+e.ID+" | Runs", float64(e.Runs))
		p.add("Requested erasures | "+e.ID+" | Messages", float64(removed))
		p.add("Requested erasures | "+e.ID+" | Versions", float64(e.Versions))
	}
}
