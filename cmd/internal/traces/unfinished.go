package traces

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"slices"
)

// unfinished is a run whose parts are being gathered.
type unfinished struct {
	form    *form
	session string
	parts   parts // nil once the run is too large
	sum     hash.Hash
	size    int // see partCost
	used    int // the part that it had last, as a count of all parts
	began   place
}

// partCost is what a part costs in memory besides its bytes.
const partCost = 256

// gather adds a part to its run, and hands on the run if that ends with it.
func (f *file) gather(form *form, s *shape, raw []byte, at place) error {
	session := form.session(s)
	i := slices.IndexFunc(f.open, func(u *unfinished) bool { return u.form == form && u.session == session })
	if i >= 0 && form.first != "" && string(s.Type) == form.first {
		if err := f.end(i); err != nil {
			return err
		}
		i = -1
	}
	if i < 0 {
		if len(f.open) == MaxOpen {
			if err := f.end(f.oldest(nil)); err != nil {
				return err
			}
		}
		f.open = append(f.open, &unfinished{form: form, session: session, parts: form.open(), sum: sha256.New(), began: at})
		i = len(f.open) - 1
	}
	u := f.open[i]
	f.parts++
	u.used = f.parts
	u.size += len(raw) + partCost
	if u.size > f.limit {
		u.parts = nil
	}
	if u.parts != nil {
		var same bytes.Buffer
		_ = json.Compact(&same, raw)
		u.sum.Write(same.Bytes())
		if err := u.parts.add(s, raw); err != nil {
			f.problem(at, err)
		}
	}
	for f.held() > f.limit+f.limit/2 {
		if err := f.end(f.oldest(u)); err != nil {
			return err
		}
	}
	if form.last != "" && string(s.Type) == form.last {
		return f.end(slices.Index(f.open, u))
	}
	return nil
}

// held is the size of what is gathered.
func (f *file) held() (size int) {
	for _, u := range f.open {
		if u.parts != nil {
			size += u.size
		}
	}
	return size
}

// oldest is the run that was longest without a part, of those that hold any and are not this one.
func (f *file) oldest(but *unfinished) int {
	oldest := -1
	for i, u := range f.open {
		if u != but && (u.parts != nil || but == nil) && (oldest < 0 || u.used < f.open[oldest].used) {
			oldest = i
		}
	}
	return oldest
}

// end hands on the i-th unfinished run.
func (f *file) end(i int) error {
	u := f.open[i]
	f.open = slices.Delete(f.open, i, i+1)
	if u.parts == nil {
		f.problem(u.began, fmt.Errorf("the run that begins here %w: %d bytes, want at most %d", errTooLarge, u.size, f.limit))
		return nil
	}
	run, err := u.parts.end()
	return f.deliver(u.form, run, err, u.sum.Sum(nil)[:16], u.began)
}

// finish hands on what is unfinished at the end of the file.
func (f *file) finish() error {
	for len(f.open) > 0 {
		if err := f.end(0); err != nil {
			return err
		}
	}
	return nil
}
