package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// prober is a command that can check the health of another process.
type prober interface {
	probes() bool
	probe(ctx context.Context) error
}

func (h Health) probes() bool { return h.Probe }

// probe checks whether the process with this health address is ready.
func (h Health) probe(ctx context.Context) error {
	if err := h.Check(); err != nil {
		return err
	}
	if h.Health == "" {
		return Exit(ExitUsage, errors.New("--probe: requires --health"))
	}
	host, port, err := net.SplitHostPort(h.Health)
	if err != nil {
		return Exit(ExitUsage, fmt.Errorf("--health: %w", err))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on all interfaces
	}
	url := "http://" + net.JoinHostPort(host, port) + "/readyz"
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Exit(ExitUsage, fmt.Errorf("--health: %w", err))
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s returned %s", url, answer.Status)
	}
	return nil
}
