package replay

import "time"

// stallTime is the time without any change after which Options.OnStall is called.
const stallTime = 5 * time.Second

// stallNotice calls Options.OnStall once if a wait takes longer than stallTime.
type stallNotice struct {
	began time.Time
	call  func(waitsFor string) // nil without OnStall, and after the call
}

func newStallNotice(call func(waitsFor string)) *stallNotice {
	return &stallNotice{time.Now(), call}
}

// check calls OnStall with the role that the run waits for, if it is time.
func (n *stallNotice) check(role string) {
	if n.call != nil && time.Since(n.began) > stallTime {
		n.call(role)
		n.call = nil
	}
}
