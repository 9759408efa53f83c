package request

import (
	"cmp"
	"fmt"
	"slices"

	"debrief/cmd/internal/api/explain"
	"debrief/playbook"
)

// SelectQuarantined returns the ids, sorted and without duplicates. It returns an error if a bullet does not wait for a person.
func SelectQuarantined(p *playbook.Playbook, ids []playbook.BulletID) ([]playbook.BulletID, error) {
	list := slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range list {
		switch b := p.Bullet(id); {
		case b == nil:
			return nil, fmt.Errorf("bullet %q is not in the playbook", id)
		case !b.AwaitsPerson():
			return nil, fmt.Errorf("bullet %q does not wait for a person, it is %s", id, explain.Status(b))
		}
	}
	return list, nil
}

// Approval is the change that releases bullets from quarantine.
type Approval struct {
	Ops     []playbook.Op
	Retired []playbook.BulletID // bullets that the approved ones replace, sorted
}

// NewApproval returns the change that approves bullets in quarantine. They become active and retire the bullets that they
// replace. It returns an error if two of the bullets replace the same bullet, or if a replaced bullet is pinned. An empty
// reason means "approved".
func NewApproval(p *playbook.Playbook, list []playbook.BulletID, reason string) (*Approval, error) {
	a := &Approval{}
	replacements := map[playbook.BulletID]playbook.BulletID{} // by the replaced bullet
	for _, id := range list {
		b := p.Bullet(id)
		a.Ops = append(a.Ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Active, Reason: cmp.Or(reason, "approved")})
		if b.Replaces == "" {
			continue
		}
		if other := replacements[b.Replaces]; other != "" {
			return nil, fmt.Errorf("bullets %q and %q would both replace %q: approve only one of them", other, id, b.Replaces)
		}
		replacements[b.Replaces] = id
		if err := a.retireReplaced(p, b); err != nil {
			return nil, err
		}
	}
	slices.Sort(a.Retired)
	return a, nil
}

// retireReplaced retires the bullet that an approved one replaces, and the other bullets that have replaced it before. It skips bullets that
// are not shown.
func (a *Approval) retireReplaced(p *playbook.Playbook, by *playbook.Bullet) error {
	for _, old := range p.Sorted() {
		isReplaced := old.ID == by.Replaces || old.Replaces == by.Replaces
		if !isReplaced || !old.Shown() || slices.Contains(a.Retired, old.ID) {
			continue
		}
		if old.Pinned {
			return fmt.Errorf("bullet %q would replace the pinned bullet %q: unpin it first", by.ID, old.ID)
		}
		a.Retired = append(a.Retired, old.ID)
		a.Ops = append(a.Ops, playbook.Op{Kind: playbook.SetStatus, Bullet: old.ID, Status: playbook.Retired, Reason: fmt.Sprintf("replaced by bullet %q, approved by a person", by.ID)})
	}
	return nil
}

// Reject returns the operations that retire bullets in quarantine. An empty reason means "rejected".
func Reject(list []playbook.BulletID, reason string) []playbook.Op {
	var ops []playbook.Op
	for _, id := range list {
		ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Retired, Reason: cmp.Or(reason, "rejected")})
	}
	return ops
}
