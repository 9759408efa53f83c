package playbook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Share is the control share of a playbook: the share of the sessions in the control group. Their prompts get no learned text, so that their
// outcomes show what the playbook is worth. It is a percentage with at most one decimal, such as 5% or 2.5%, or off. Empty means
// that it is not set. Stored.
type Share string

// ShareOff is the share without a control group. It is the default.
const ShareOff Share = "off"

// maxShare is the largest share, in tenths of a percent. Two groups of equal size need the fewest sessions for a comparison.
const maxShare = 500

// Valid reports whether the share is empty, off, or from 0.1% to 50%.
func (s Share) Valid() bool { return s == "" || s == ShareOff || s.PerMille() > 0 }

// PerMille returns the share in tenths of a percent, from 1 to 500. It is 0 for an empty share, for off, and for an invalid share.
func (s Share) PerMille() int {
	number, isPercentage := strings.CutSuffix(string(s), "%")
	whole, tenths, hasTenths := strings.Cut(number, ".")
	if !isPercentage || hasTenths && len(tenths) != 1 {
		return 0
	}
	share, err := strconv.ParseUint(whole+cmp.Or(tenths, "0"), 10, 16) // "2" and "5" give 25, "2" alone gives 20
	if err != nil || whole == "" || share > maxShare {
		return 0
	}
	return int(share)
}

// ShareSyntax is the form of a share, for errors.
const ShareSyntax = "must be off, or from 0.1% to 50% with at most one decimal"

func (s Share) validate() error {
	if !s.Valid() {
		return fmt.Errorf("control: %s, got %.80q", ShareSyntax, string(s))
	}
	return nil
}

// ControlShare returns the share that applies: that of a person, else that of the Curator. It is off without a salt.
func (a *Admission) ControlShare() Share {
	share := cmp.Or(a.Control, a.Policy.Control)
	if share.PerMille() == 0 || len(a.ControlSalt) == 0 {
		return ShareOff
	}
	return share
}

// InControl reports whether a session of an owner belongs to the control group if the group has this share. A hash gives each session a fixed
// number, and sessions with low numbers are in the group. So a larger share only adds sessions, and a smaller share only removes some. The key of the
// hash is the random salt of the playbook: no client can choose the group by the name of its session.
func (a *Admission) InControl(b Book, owner, session string, share Share) bool {
	mac := hmac.New(sha256.New, a.ControlSalt)
	for _, name := range [...]string{string(b), owner, session} { // each after its length, so that a, bc and ab, c differ
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
		mac.Write([]byte(name))
	}
	number := binary.BigEndian.Uint64(mac.Sum(nil))
	return number < uint64(share.PerMille())*(math.MaxUint64/1000)
}
