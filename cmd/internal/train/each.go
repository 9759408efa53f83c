package train

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Each calls do for 0 to n-1, at most atOnce at the same time. After an error a goroutine makes no more calls. It returns
// all errors.
func Each(n, atOnce int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, atOnce)
	var all sync.WaitGroup
	for w := range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
