package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

// secretKind generates fake secrets of one kind.
type secretKind struct {
	name string
	make func(chars func(alphabet string, n int) string) string
}

const (
	alnumChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	hexChars   = "0123456789abcdef"
	upperChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// prefixed returns a kind with a prefix, in two parts so that no line of this file looks like a secret.
func prefixed(name, a, b, alphabet string, n int) secretKind {
	return secretKind{name, func(chars func(string, int) string) string { return a + b + chars(alphabet, n) }}
}

var secretKinds = []secretKind{
	prefixed("OPENAI_API_KEY", "sk-", "proj-", alnumChars, 64),
	prefixed("ANTHROPIC_API_KEY", "sk-", "ant-api03-", alnumChars, 80),
	prefixed("AWS_ACCESS_KEY_ID", "AK", "IA", upperChars, 16),
	prefixed("AWS_SECRET_ACCESS_KEY", "", "", alnumChars, 40),
	prefixed("GITHUB_TOKEN", "gh", "p_", alnumChars, 36),
	prefixed("GITLAB_TOKEN", "gl", "pat-", alnumChars, 20),
	prefixed("SLACK_BOT_TOKEN", "xo", "xb-1234567890-", alnumChars, 24),
	prefixed("SLACK_WEBHOOK", "https://hooks.", "slack.com/services/T0/B0/", alnumChars, 24),
	prefixed("GOOGLE_API_KEY", "AI", "za", alnumChars, 35),
	prefixed("STRIPE_KEY", "sk", "_live_", alnumChars, 24),
	prefixed("HF_TOKEN", "h", "f_", alnumChars, 34),
	prefixed("NPM_TOKEN", "np", "m_", alnumChars, 36),
	prefixed("PYPI_TOKEN", "py", "pi-AgEIcHlwaS5vcmc", alnumChars, 80),
	{"SENDGRID_KEY", func(c func(string, int) string) string {
		return "S" + "G." + c(alnumChars, 22) + "." + c(alnumChars, 43)
	}},
	{"TELEGRAM_TOKEN", func(c func(string, int) string) string { return "123456789:A" + "A" + c(alnumChars, 33) }},
	{"SESSION_JWT", func(c func(string, int) string) string {
		return "ey" + "J" + c(alnumChars, 20) + ".ey" + "J" + c(alnumChars, 40) + "." + c(alnumChars, 43)
	}},
	prefixed("GROQ_KEY", "gs", "k_", alnumChars, 52),
	prefixed("DIGITALOCEAN_TOKEN", "do", "p_v1_", hexChars, 64),
	prefixed("DATABRICKS_TOKEN", "da", "pi", hexChars, 32),
	prefixed("SHOPIFY_TOKEN", "sh", "pat_", hexChars, 32),
	prefixed("VAULT_TOKEN", "hv", "s.", alnumChars, 24),
	prefixed("NATS_SEED", "S", "UA", upperChars, 55),
	{"PRIVATE_KEY", func(c func(string, int) string) string {
		return "-----BEGIN " + "PRIVATE KEY-----\n" + c(alnumChars, 64) + "\n" + c(alnumChars, 40) + "\n-----END " + "PRIVATE KEY-----"
	}},
	prefixed("DB_PASSWORD", "", "", alnumChars, 16),
	{"DATABASE_URL", func(c func(string, int) string) string {
		return "postgres://app:" + c(alnumChars, 20) + "@db.example.com/app"
	}},
	{"AUTHORIZATION", func(c func(string, int) string) string { return "Bearer " + c(alnumChars, 40) }},
	{"PROXY_AUTHORIZATION", func(c func(string, int) string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("robot:"+c(alnumChars, 20)))
	}},
	prefixed("API_KEY", "", "", hexChars, 32),
	prefixed("CLIENT_SECRET", "", "", alnumChars, 32),
	prefixed("ENCRYPTION_KEY", "", "", alnumChars, 44),
}

// encoding encodes a secret as in texts. In covered encodings no secret may be stored.
type encoding struct {
	name    string
	write   func(name, value string) string
	needle  func(part string) string // the text to search for, given a part of the secret
	covered bool
}

func same(s string) string { return s }

func object(name, value string) string {
	data, _ := json.Marshal(map[string]string{strings.ToLower(name): value}) // strings cannot fail
	return string(data)
}

func escaped(text string) string {
	var out strings.Builder
	for _, c := range text {
		fmt.Fprintf(&out, `\u%04x`, c)
	}
	return out.String()
}

func assignment(name, value string) string { return name + "=" + value }

var secretEncodings = []encoding{
	{"plain", assignment, same, true},
	{"JSON", object, same, true},
	{"JSON in a string", func(n, v string) string { return object("arguments", object(n, v)) }, same, true},
	{"JSON in it again", func(n, v string) string { return object("body", object("arguments", object(n, v))) }, same, true},
	{"YAML", func(n, v string) string {
		if strings.Contains(v, "\n") {
			return strings.ToLower(n) + ": |\n  " + strings.ReplaceAll(v, "\n", "\n  ")
		}
		return strings.ToLower(n) + ": " + v
	}, same, true},
	{"header", func(n, v string) string {
		return "X: y\r\n" + strings.ReplaceAll(n, "_", "-") + ": " + v + "\r\nAccept: */*"
	}, same, true},
	{"URL-encoded", func(n, v string) string {
		return "https://example.com/?q%3Dx%26" + strings.ReplaceAll(url.QueryEscape(assignment(n, v)), "+", "%20")
	}, same, true},
	{"%20 before it", func(n, v string) string { return "say%20" + url.PathEscape(assignment(n, v)) }, same, true},
	{`\u-escaped`, func(n, v string) string { return escaped(assignment(n, v)) }, escaped, true},
	{"base64", func(n, v string) string { return base64.StdEncoding.EncodeToString([]byte(assignment(n, v))) }, nil, true},
	{"hex", func(n, v string) string { return hex.EncodeToString([]byte(assignment(n, v))) }, func(s string) string { return hex.EncodeToString([]byte(s)) }, false},
}

// plantedSecret is a sent secret. It is stored if the needle is found.
type plantedSecret struct{ needle string }

// texts returns a text with a new secret for each kind, in the encoding. The seed makes them differ between entries.
func (e *encoding) texts(seed uint64) (texts []string, all []plantedSecret) {
	r := rand.New(rand.NewPCG(seed, 14))
	chars := func(alphabet string, n int) string {
		out := make([]byte, n)
		for i := range out {
			out[i] = alphabet[r.IntN(len(alphabet))]
		}
		out[0], out[n-1], out[n/2] = '3', '7', 'k' // letters and digits in any case
		return strings.Map(func(c rune) rune {
			if strings.ContainsRune(alphabet, c) {
				return c
			}
			return rune(alphabet[5])
		}, string(out))
	}
	for _, k := range secretKinds {
		value := k.make(chars)
		text := e.write(k.name, value)
		needle := longest(value)
		if e.needle != nil {
			needle = e.needle(needle)
		} else {
			needle = text[len(text)/2-6 : len(text)/2+6]
		}
		if !strings.Contains(text, needle) {
			panic(e.name + " of " + k.name + " does not hold what is looked for")
		}
		texts, all = append(texts, text), append(all, plantedSecret{needle})
	}
	return texts, all
}

// longest returns the last 12 characters of the longest run of letters and digits in a value. They are unique to the secret.
func longest(value string) string {
	best := ""
	for _, part := range strings.FieldsFunc(value, func(c rune) bool { return !strings.ContainsRune(alnumChars, c) }) {
		if len(part) >= len(best) {
			best = part
		}
	}
	return best[len(best)-12:]
}

// entry is a way to send texts into the pipeline; if short, they are used as ids.
type entry struct {
	name  string
	short bool
	send  func(t *testing.T, p *pipeline, texts []string)
}

// pipeline is a running 'debrief up'.
type pipeline struct {
	bin, nats, http, dir string
	conn                 *nats.Conn
	execution            string // a handle for feedback
}

func (p *pipeline) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(p.bin, args...)
	cmd.Env = append(os.Environ(), "DEBRIEF_NATS="+p.nats, "DEBRIEF_BOOK=b", "USER=tester", "GOGC=400") // a short process needs no collection
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("debrief %.60q: %v\n%.600s", args, err, out)
	}
	return string(out)
}

func (p *pipeline) post(t *testing.T, path string, body any) map[string]any {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(p.http+path, "application/json", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	var reply map[string]any
	if err != nil || resp.StatusCode/100 != 2 || json.Unmarshal(got, &reply) != nil {
		t.Errorf("%s: got %d %.300s, %v", path, resp.StatusCode, got, err)
	}
	return reply
}

func (p *pipeline) file(t *testing.T, name string, data string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type fields = map[string]any

func report(texts []string) fields {
	return fields{
		"book": "b", "run_id": string(events.NewID()), "question": texts[0], "answer": texts[1], "reasoning": texts[2], "context": texts[3], "target": texts[4],
		"outcome": fields{"label": "failure", "feedback": texts[5], "by": texts[6]},
		"steps": []fields{{
			"text": texts[7], "user_feedback": texts[8], "mode": texts[9],
			"tool_calls": []fields{{"tool": texts[10], "arguments": texts[11], "output": strings.Join(texts[12:], "\n"), "outcome": "failure"}},
		}},
	}
}

var secretEntries = []entry{
	{"submit", false, func(t *testing.T, p *pipeline, texts []string) {
		p.run(t, "submit", "--context", strings.Join(texts[15:], "\n"), strings.Join(texts[:15], "\n"))
	}},
	{"feedback", false, func(t *testing.T, p *pipeline, texts []string) {
		p.run(t, "feedback", p.execution, "--bad", "--author", texts[0], "--target", texts[1], "--text", strings.Join(texts[2:], "\n"))
	}},
	{"import", false, func(t *testing.T, p *pipeline, texts []string) {
		var out strings.Builder
		fmt.Fprintf(&out, "Notes: %s\n\n## OTHERS\n", strings.ReplaceAll(texts[0], "\n", `\n`))
		for i, text := range texts[1:] {
			fmt.Fprintf(&out, "[oth-%05d] helpful=0 harmful=0 :: Say %s.\n", i+1, strings.NewReplacer("\r", "", "\n", `\n`).Replace(text))
		}
		p.run(t, "playbook", "import", p.file(t, "ace.txt", out.String()), "--book="+string(events.NewID())) // an id can begin with a hyphen
	}},
	{"add, edit", false, func(t *testing.T, p *pipeline, texts []string) {
		p.run(t, "playbook", "add", strings.Join(texts[:15], "\n"), "--section", "others", "--author", texts[0], "--reason", texts[1])
		p.run(t, "playbook", "add", strings.Join(texts[15:], "\n"), "--section", "others")
	}},
	{"learn", false, func(t *testing.T, p *pipeline, texts []string) {
		r := report(texts)
		delete(r, "book")
		r["outcome"] = "failure"
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		p.run(t, "learn", p.file(t, "runs.jsonl", string(data)+"\n"))
	}},
	{"POST context", false, func(t *testing.T, p *pipeline, texts []string) {
		p.post(t, "/api/v1/contexts", fields{"book": "b", "query": strings.Join(texts[:10], "\n"), "context": strings.Join(texts[10:20], "\n"), "system": strings.Join(texts[20:], "\n"), "session": "s"})
	}},
	{"POST execution", false, func(t *testing.T, p *pipeline, texts []string) { p.post(t, "/api/v1/executions", report(texts)) }},
	{"POST feedback", false, func(t *testing.T, p *pipeline, texts []string) {
		p.post(t, "/api/v1/feedback", fields{
			"book": "b", "execution": p.execution, "target": texts[0],
			"outcome": fields{"label": "failure", "by": texts[1], "feedback": strings.Join(texts[2:], "\n")},
		})
	}},
	{"NATS service", false, func(t *testing.T, p *pipeline, texts []string) {
		data, err := json.Marshal(report(texts))
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.conn.Request(events.ServiceSubject(events.VerbReport, "b", ""), data, 10*time.Second)
		if err != nil || m.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("got %v, %v", m, err)
		}
	}},
	{"NATS task", false, func(t *testing.T, p *pipeline, texts []string) { // without our client, which redacts
		task := &events.Task{Book: "b", ID: string(events.NewID()), Question: strings.Join(texts[:15], "\n"), Context: strings.Join(texts[15:], "\n"), Created: time.Now()}
		subject, header, data, err := events.Encode(task)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.conn.PublishMsg(&nats.Msg{Subject: subject, Header: header, Data: data}); err != nil {
			t.Fatal(err)
		}
		bad := &nats.Msg{Subject: subject, Header: header, Data: []byte(strings.Join(texts, "\n"))} // becomes a dead letter
		if err := p.conn.PublishMsg(bad); err != nil {
			t.Fatal(err)
		}
	}},
	{"ids", true, func(t *testing.T, p *pipeline, texts []string) {
		for _, text := range texts {
			if !isName(text) {
				continue
			}
			served := p.post(t, "/api/v1/contexts", fields{"book": "b", "session": text, "query": "How?"})
			r := report(make([]string, len(texts)))
			r["question"], r["run_id"], r["session"], r["model"], r["context_id"] = "How?", text, text, text, served["context_id"]
			r["cited"] = []string{text}
			p.post(t, "/api/v1/executions", r)
		}
		if text := texts[4]; isName(text) {
			p.run(t, "submit", "--book", "submitted", "--id", text, "--session", text, "What now?") // its id is new in this book
			p.run(t, "playbook", "add", "Advice "+string(events.NewID()), "--section", text)
		}
	}},
}

// isName reports whether a text may be the name of a run or a session.
func isName(text string) bool { return len(text) <= 250 && !strings.ContainsAny(text, "\r\n") }

// TestNoSecretIsStored sends 30 kinds of secrets in each encoding through each entry, and searches all streams and buckets of
// the server.
func TestNoSecretIsStored(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: some hundred commands and requests")
	}
	t.Parallel()
	p := startPipeline(t)
	sent := map[string]map[string][]plantedSecret{}
	for i, en := range secretEntries {
		sent[en.name] = map[string][]plantedSecret{}
		for k := range secretEncodings {
			e := &secretEncodings[k]
			texts, all := e.texts(uint64(i*100 + k))
			en.send(t, p, texts)
			sent[en.name][e.name] = all
		}
	}
	p.settle(t)
	stored := p.stored(t)
	if !bytes.Contains(stored, []byte("[redacted: ")) || !bytes.Contains(stored, []byte("redacted-")) {
		t.Error("found no redacted text: the test reads the wrong streams")
	}

	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "in clear, %\t")
	for _, e := range secretEncodings {
		fmt.Fprintf(w, "%s\t", e.name)
	}
	fmt.Fprintln(w)
	hexed := 0
	for _, en := range secretEntries {
		fmt.Fprintf(w, "%s\t", en.name)
		for _, e := range secretEncodings {
			clear, all := 0, sent[en.name][e.name]
			for i, s := range all {
				if bytes.Contains(stored, []byte(s.needle)) {
					clear++
					if e.covered {
						t.Errorf("%s, %s: %s is stored in clear", en.name, e.name, secretKinds[i].name)
					}
				}
			}
			fmt.Fprintf(w, "%.0f\t", 100*float64(clear)/float64(len(all)))
			if !e.covered {
				hexed += clear
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	t.Logf("%d kinds of secrets, %d bytes stored:\n%s", len(secretKinds), len(stored), table.String())
	if hexed == 0 { // the control
		t.Error("found no secret in hex, which is not covered: the test searches for the wrong texts")
	}
}

func startPipeline(t *testing.T) *pipeline {
	t.Helper()
	p := &pipeline{bin: program(t, "debrief"), dir: t.TempDir()}
	listen, door, health := freeAddress(t), freeAddress(t), freeAddress(t)
	start(t, "up", func() *exec.Cmd {
		return exec.Command(p.bin, "up", "--simulated", "--data", p.dir, "--listen", listen, "--http", door, "--health", health, "--sync", "1m")
	})
	awaitReady(t, health)
	p.nats, p.http = "nats://"+listen, "http://"+door
	conn, err := nats.Connect(p.nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	p.conn = conn
	reply := p.post(t, "/api/v1/executions", fields{"book": "b", "question": "A first run.", "answer": "Done.", "outcome": fields{"label": "success"}})
	p.execution, _ = reply["handle"].(string)
	return p
}

// settle waits until the roles are idle.
func (p *pipeline) settle(t *testing.T) {
	t.Helper()
	js, err := jetstream.New(p.conn)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "every event handled", func() error {
		for stream, role := range map[string]string{
			events.StreamTasks: events.RoleGenerator, events.StreamExecutions: events.RoleReflector, events.StreamReflections: events.RoleCurator,
		} {
			c, err := js.Consumer(t.Context(), stream, role)
			if err != nil {
				return err
			}
			info, err := c.Info(t.Context())
			if err != nil {
				return err
			}
			if n := int(info.NumPending) + info.NumAckPending; n > 0 {
				return fmt.Errorf("%d open in %s", n, stream)
			}
		}
		return nil
	})
}

// stored returns subjects, headers and payloads of all messages in all streams and buckets.
func (p *pipeline) stored(t *testing.T) []byte {
	t.Helper()
	js, err := jetstream.New(p.conn, jetstream.WithDefaultTimeout(time.Minute)) // other tests keep the machine busy
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		state := s.CachedInfo().State
		for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
			m, err := s.GetMsg(t.Context(), seq)
			if err != nil {
				continue // deleted
			}
			fmt.Fprintf(&out, "%s %v\n", m.Subject, m.Header)
			out.Write(m.Data)
		}
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
