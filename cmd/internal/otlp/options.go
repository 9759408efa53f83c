package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// Options are the options of an exporter besides the URL. The zero value is valid.
type Options struct {
	Headers           string // of each request, such as "api-key=abc,tenant=t1"; values may be percent-encoded
	Certificate       string // file with the authorities to trust, PEM; "" means those of the system
	ClientCertificate string // file with the client's certificate, PEM
	ClientKey         string // file with the key of ClientCertificate, PEM
	Compression       string // "gzip" compresses; other values do not
}

// Environment returns the options in the variables OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE, _CLIENT_CERTIFICATE,
// _CLIENT_KEY and _COMPRESSION. OTEL_EXPORTER_OTLP_TRACES_HEADERS and so on override them.
func Environment() Options {
	get := func(name string) string {
		return strings.TrimSpace(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name)))
	}
	return Options{
		Headers: get("HEADERS"), Certificate: get("CERTIFICATE"), ClientCertificate: get("CLIENT_CERTIFICATE"),
		ClientKey: get("CLIENT_KEY"), Compression: get("COMPRESSION"),
	}
}

func (o Options) headers() (http.Header, error) {
	headers := http.Header{"User-Agent": {"debrief"}}
	for i, pair := range strings.Split(o.Headers, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		if name = strings.TrimSpace(name); !found || name == "" || err != nil { // the error would quote the value
			return nil, fmt.Errorf("headers: number %d: must be like name=value, percent-encoded", i+1)
		}
		headers.Set(name, strings.TrimSpace(value))
	}
	return headers, nil
}

// tls returns the TLS configuration. It reads the files of the certificates.
func (o Options) tls() (*tls.Config, error) {
	config := &tls.Config{}
	if o.Certificate != "" {
		text, err := os.ReadFile(o.Certificate)
		if err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("certificate: %s: no PEM certificate found", o.Certificate)
		}
	}
	if o.ClientCertificate != "" || o.ClientKey != "" {
		pair, err := tls.LoadX509KeyPair(o.ClientCertificate, o.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
