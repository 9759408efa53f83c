package program

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// certificateInterval is the minimum time between two checks whether the files of a certificate have changed.
const certificateInterval = time.Second

// certificate is the certificate of the gateway. It reads its files again after a change, so that a renewal needs no restart.
type certificate struct {
	files [2]string // of the chain and of the key, in PEM
	log   zerolog.Logger
	now   func() time.Time

	mu      sync.Mutex
	pair    *tls.Certificate
	state   [2]os.FileInfo
	checked time.Time
}

// TLS returns the configuration of HTTPS, or nil without a certificate. Its error names the setting.
func (g Gateway) TLS(log zerolog.Logger) (*tls.Config, error) {
	switch {
	case g.TLSCert == "" && g.TLSKey == "":
		return nil, nil
	case g.TLSKey == "":
		return nil, Exit(ExitUsage, errors.New("--tls-key: required with --tls-cert"))
	case g.TLSCert == "":
		return nil, Exit(ExitUsage, errors.New("--tls-cert: required with --tls-key"))
	}
	c := &certificate{files: [2]string{g.TLSCert, g.TLSKey}, log: log, now: time.Now}
	if err := c.read(); err != nil {
		return nil, Exit(ExitUsage, err)
	}
	c.checked = c.now()
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
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

// read reads the files if they have changed. So each problem is returned once.
func (c *certificate) read() error {
	var state [2]os.FileInfo
	var data [2][]byte
	var errs [2]error
	changed := false
	for i, name := range c.files {
		state[i], errs[i] = os.Stat(name)
		changed = changed || !sameFile(state[i], c.state[i])
	}
	if !changed && c.pair != nil {
		return nil
	}
	c.state = state
	for i, setting := range []string{"--tls-cert", "--tls-key"} {
		if errs[i] == nil {
			data[i], errs[i] = os.ReadFile(c.files[i])
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", setting, errs[i])
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(data[0], data[1])
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.files[0], c.files[1], err)
	}
	c.pair = &pair
	return nil
}

// sameFile reports whether a file has not changed. A missing file has no information.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
