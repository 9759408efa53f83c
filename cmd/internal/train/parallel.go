package train

import "sync"

// publishing is the number of runs that are stored at the same time. The server syncs several writes at once.
const publishing = 32

// parallel runs functions at the same time, up to a limit, and keeps the first error.
type parallel struct {
	free chan struct{}
	all  sync.WaitGroup
	mu   sync.Mutex
	err  error
}

func newParallel(limit int) *parallel { return &parallel{free: make(chan struct{}, limit)} }

// do starts a function when there is room. It returns the first error so far, and then starts nothing.
func (p *parallel) do(fn func() error) error {
	p.free <- struct{}{}
	if err := p.failed(); err != nil {
		<-p.free
		return err
	}
	p.all.Go(func() {
		defer func() { <-p.free }()
		if err := fn(); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.err == nil {
				p.err = err
			}
		}
	})
	return nil
}

func (p *parallel) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// wait waits for all functions and returns the first error.
func (p *parallel) wait() error {
	p.all.Wait()
	return p.failed()
}
