package redact

import "strings"

// shape is a known format of a key: a prefix, and a number of bytes of an alphabet after it.
type shape struct {
	prefix   string
	alphabet *alphabet
	min, max int // bytes after the prefix; max 0 is unlimited
	// random requires a part that looks random, for prefixes that may also precede normal words with dashes.
	random bool
	kind   string
}

type alphabet [256]bool

func alphabetOf(chars string) *alphabet {
	a := new(alphabet)
	for i := 0; i < len(chars); i++ {
		if i+2 < len(chars) && chars[i+1] == '-' {
			for c := int(chars[i]); c <= int(chars[i+2]); c++ {
				a[c] = true
			}
			i += 2
			continue
		}
		a[chars[i]] = true
	}
	return a
}

var (
	alnum     = alphabetOf("A-Za-z0-9")
	wordChars = alphabetOf("A-Za-z0-9_")
	url64     = alphabetOf("A-Za-z0-9_-")
	dotted    = alphabetOf("A-Za-z0-9_.-")
	std64     = alphabetOf("A-Za-z0-9+/=")
	lowerHex  = alphabetOf("a-f0-9")
	upperNum  = alphabetOf("A-Z0-9")
	base32    = alphabetOf("A-Z2-7")
	webhook   = alphabetOf("A-Za-z0-9_/-")
)

// shapes are tried in this order. Prefixes and lengths are documented by the providers, or common to their keys. A
// length that has changed before is only a lower bound.
var shapes = []shape{
	{"sk-ant-", url64, 20, 0, true, "anthropic key"},
	{"sk-or-v1-", lowerHex, 32, 0, false, "openrouter key"},
	{"sk-", url64, 20, 0, true, "openai key"},
	{"sess-", alnum, 36, 0, true, "openai key"},
	{"sk_live_", alnum, 16, 0, false, "stripe key"},
	{"sk_test_", alnum, 16, 0, false, "stripe key"},
	{"rk_live_", alnum, 16, 0, false, "stripe key"},
	{"rk_test_", alnum, 16, 0, false, "stripe key"},
	{"whsec_", std64, 24, 0, true, "webhook secret"},
	{"AKIA", upperNum, 16, 16, false, "aws access key"},
	{"ASIA", upperNum, 16, 16, false, "aws access key"},
	{"ghp_", alnum, 30, 0, false, "github token"},
	{"gho_", alnum, 30, 0, false, "github token"},
	{"ghu_", alnum, 30, 0, false, "github token"},
	{"ghs_", dotted, 30, 0, true, "github token"},
	{"ghr_", alnum, 30, 0, false, "github token"},
	{"github_pat_", wordChars, 22, 0, true, "github token"},
	{"glpat-", dotted, 20, 0, true, "gitlab token"},
	{"gldt-", url64, 20, 0, true, "gitlab token"},
	{"glrt-", dotted, 20, 0, true, "gitlab token"},
	{"glcbt-", url64, 20, 0, true, "gitlab token"},
	{"glptt-", url64, 20, 0, true, "gitlab token"},
	{"glsoat-", url64, 20, 0, true, "gitlab token"},
	{"glagent-", url64, 20, 0, true, "gitlab token"},
	{"glsa_", wordChars, 32, 0, true, "grafana token"},
	{"xoxb-", url64, 20, 0, true, "slack token"},
	{"xoxp-", url64, 20, 0, true, "slack token"},
	{"xoxa-", url64, 20, 0, true, "slack token"},
	{"xoxr-", url64, 20, 0, true, "slack token"},
	{"xoxs-", url64, 20, 0, true, "slack token"},
	{"xoxe.xoxp-", url64, 20, 0, true, "slack token"},
	{"xoxe-", url64, 20, 0, true, "slack token"},
	{"xapp-", url64, 20, 0, true, "slack token"},
	{"hooks.slack.com/services/", webhook, 30, 0, false, "slack webhook"},
	{"discord.com/api/webhooks/", webhook, 40, 0, false, "discord webhook"},
	{"AIza", url64, 35, 35, true, "google key"},
	{"GOCSPX-", url64, 24, 0, true, "google secret"},
	{"ya29.", url64, 30, 0, true, "google token"},
	{"hf_", alnum, 30, 0, false, "hugging face token"},
	{"npm_", alnum, 36, 36, false, "npm token"},
	{"pypi-Ag", url64, 50, 0, true, "pypi token"},
	{"rubygems_", lowerHex, 48, 48, false, "rubygems key"},
	{"dckr_pat_", url64, 20, 0, true, "docker token"},
	{"SK", lowerHex, 32, 32, false, "twilio key"},
	{"gsk_", alnum, 40, 0, true, "groq key"},
	{"xai-", alnum, 40, 0, true, "xai key"},
	{"pplx-", alnum, 40, 0, true, "perplexity key"},
	{"r8_", alnum, 37, 37, true, "replicate token"},
	{"dop_v1_", lowerHex, 64, 64, false, "digitalocean token"},
	{"dapi", lowerHex, 32, 32, false, "databricks token"},
	{"shpat_", alnum, 32, 32, false, "shopify token"},
	{"shpss_", alnum, 32, 32, false, "shopify secret"},
	{"sq0atp-", url64, 22, 0, true, "square token"},
	{"sq0csp-", url64, 40, 0, true, "square secret"},
	{"key-", lowerHex, 32, 32, false, "mailgun key"},
	{"lin_api_", alnum, 32, 0, true, "linear key"},
	{"ntn_", alnum, 40, 0, true, "notion token"},
	{"hvs.", url64, 24, 0, true, "vault token"},
	{"AGE-SECRET-KEY-1", upperNum, 58, 58, false, "age key"},
	{"NRAK-", upperNum, 27, 27, false, "new relic key"},
	{"PMAK-", url64, 40, 0, true, "postman key"},
	{"tskey-", url64, 20, 0, true, "tailscale key"},
	{"sbp_", lowerHex, 40, 40, false, "supabase token"},
	{"sntrys_", std64, 40, 0, true, "sentry token"},
	{"figd_", url64, 32, 0, true, "figma token"},
	{"ATATT3", url64Padded, 60, 0, true, "atlassian token"},
}

var url64Padded = alphabetOf("A-Za-z0-9_=-")

// shapesBy contains the shapes by their first byte. A nil entry means composed, below.
var shapesBy = func() (by [256][]*shape) {
	for i := range shapes {
		c := shapes[i].prefix[0]
		by[c] = append(by[c], &shapes[i])
	}
	for _, c := range []byte("SeBb") { // keys that composed handles
		if by[c] == nil {
			by[c] = []*shape{}
		}
		by[c] = append(by[c], nil)
	}
	return by
}()

// prefixHashes contains a hash of the first three bytes of each known format, so that most words can be skipped
// quickly.
var prefixHashes = func() (t [1 << 12]bool) {
	for i := range shapes {
		t[prefixHash(shapes[i].prefix+"   ")] = true // two-byte prefixes are completed below
	}
	for _, p := range []string{"eyJ", "SG.", "Bea", "bea", "BEA"} {
		t[prefixHash(p)] = true
	}
	for c := range 128 { // two-byte prefixes: SK and nats seeds
		for _, p := range []string{"SK", "SO", "SA", "SU", "SN", "SC", "SX"} {
			t[prefixHash(p+string(rune(c)))] = true
		}
	}
	return t
}()

func prefixHash(s string) int {
	return (int(s[0])*61 ^ int(s[1])*7 ^ int(s[2])<<5) & (1<<12 - 1)
}

// mayBeKey reports whether a word may be a key with a known format.
func mayBeKey(s string) bool {
	return len(s) > 8 && (prefixHashes[prefixHash(s)] || isDigit(s[0]) && isDigit(s[7]))
}

// shape redacts a key at the start of a word. It returns the end of the key, or i.
func (sc *scanner) shape(i int) int {
	s := sc.s[i:]
	for _, sh := range shapesBy[s[0]] {
		if sh == nil {
			return sc.composed(i)
		}
		if !strings.HasPrefix(s, sh.prefix) {
			continue
		}
		n := run(s[len(sh.prefix):], sh.alphabet, 4096)
		body := s[len(sh.prefix) : len(sh.prefix)+n]
		if sh.alphabet == dotted || sh.alphabet == webhook { // a full stop ends a sentence
			body = strings.TrimRight(body, ".-/")
			n = len(body)
		}
		end := len(sh.prefix) + n
		if n < sh.min || sh.max > 0 && (n > sh.max || end < len(s) && classes[s[end]]&word != 0) || sh.random && !looksRandom(body, 10) {
			continue
		}
		return sc.replace(i, i+end, sh.kind)
	}
	if isDigit(s[0]) {
		return sc.composed(i)
	}
	return i
}

// composed redacts keys that have several parts.
func (sc *scanner) composed(i int) int {
	s := sc.s[i:]
	switch c := s[0]; {
	case isDigit(c):
		return sc.telegram(i)
	case c == 'e' && strings.HasPrefix(s, "eyJ"):
		if n := parts(s, 3, 16, 4, 16); n > 0 {
			return sc.replace(i, i+n, "jwt")
		}
	case c == 'S' && strings.HasPrefix(s, "SG."):
		if n := parts(s, 3, 2, 16, 16); n > 0 {
			return sc.replace(i, i+n, "sendgrid key")
		}
	case c == 'S':
		if n := run(s, base32, 64); n == 58 && strings.IndexByte("OAUNCX", s[1]) >= 0 && (n == len(s) || classes[s[n]]&word == 0) {
			return sc.replace(i, i+n, "nats seed")
		}
	case len(s) > len("bearer ") && strings.EqualFold(s[:len("bearer")], "bearer") && (s[len("bearer")] == ' ' || s[len("bearer")] == '+'):
		from := len("bearer ")
		n := run(s[from:], bearerChars, 4096)
		if cred := strings.TrimRight(s[from:from+n], "."); len(cred) >= 16 && looksRandom(cred, 12) {
			return sc.replace(i+from, i+from+len(cred), "bearer token")
		}
	}
	return i
}

var bearerChars = alphabetOf("A-Za-z0-9_.~+/=-")

// telegram redacts the token of a bot: its number, a colon and 35 bytes that begin with AA.
func (sc *scanner) telegram(i int) int {
	s := sc.s[i:]
	n := 0
	for n < len(s) && n < 12 && isDigit(s[n]) {
		n++
	}
	if n < 8 || n > 10 || !strings.HasPrefix(s[n:], ":AA") {
		return i
	}
	m := run(s[n+1:], url64, 64)
	if m < 33 || m > 37 {
		return i
	}
	return sc.replace(i, i+n+1+m, "telegram token")
}

// parts returns the length of count parts with dots between them, each with its minimum length, or 0 if a part is
// missing. The last part extends as far as possible.
func parts(s string, count int, least ...int) int {
	end := 0
	for k := range count {
		n := run(s[end:], url64, 16384)
		if n < least[k] {
			return 0
		}
		end += n
		if k == count-1 {
			return end
		}
		if end >= len(s) || s[end] != '.' {
			return 0
		}
		end++
	}
	return 0
}

// run returns the length of the prefix of s in the alphabet, up to limit bytes.
func run(s string, a *alphabet, limit int) int {
	n := 0
	for n < len(s) && n < limit && a[s[n]] {
		n++
	}
	return n
}

// looksRandom reports whether s has a part of minLen or more letters and digits that looks random. Such a part has
// digits among its letters, or it changes between capitals, small letters and digits more often than concatenated
// words.
func looksRandom(s string, minLen int) bool {
	var letters, digits, changes int
	var last uint8
	for i := 0; i <= len(s); i++ {
		var kind uint8
		switch {
		case i == len(s):
		case isLower(s[i]):
			kind = 1
		case isUpper(s[i]):
			kind = 2
		case isDigit(s[i]):
			kind = 3
		}
		switch kind {
		case 0:
			n := letters + digits
			if n >= minLen && (letters >= 2 && digits >= 2 || n >= 12 && changes*20 >= n*7) {
				return true
			}
			letters, digits, changes = 0, 0, 0
		case 3:
			digits++
		default:
			letters++
		}
		if kind != last && kind*last != 0 {
			changes++
		}
		last = kind
	}
	return false
}
