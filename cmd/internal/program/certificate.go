package program

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const certificateInterval = time.Second // minimum time between two checks whether the files of a certificate have changed

// certificate is the certificate of the gateway. It reads its files again after a change, so that a renewal needs no restart.
type certificate struct {
	chainFile, keyFile string // in PEM
	log                zerolog.Logger
	now                func() time.Time

	mu         sync.Mutex // guards the fields below
	pair       *tls.Certificate
	chain, key []byte // of the files when they were read last; nil for an unreadable one
	checked    time.Time
}

// get implements tls.Config.GetCertificate. If the changed files are invalid, such as between the writes of both, it returns the
// certificate from before.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.checked) >= certificateInterval {
		c.checked = now
		if err := c.read(); err != nil {
			c.log.Error().Err(err).Msg("read the changed certificate, the earlier one stays in use")
		}
	}
	return c.pair, nil
}

// read reads the files if they have changed. It returns an error only for the first read after a change.
func (c *certificate) read() error {
	chain, chainErr := os.ReadFile(c.chainFile)
	key, keyErr := os.ReadFile(c.keyFile)
	if c.pair != nil && bytes.Equal(chain, c.chain) && bytes.Equal(key, c.key) {
		return nil
	}
	c.chain, c.key = chain, key
	switch {
	case chainErr != nil:
		return fmt.Errorf("--tls-cert: %w", chainErr)
	case keyErr != nil:
		return fmt.Errorf("--tls-key: %w", keyErr)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.chainFile, c.keyFile, err)
	}
	c.pair = &pair
	return nil
}
