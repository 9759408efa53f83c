package chat

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
	"pgregory.net/rapid"
)

// counter counts tokens with the real tokenizers, and returns the larger count.
func counter(t testing.TB) func(string) int {
	t.Helper()
	var codecs []tokenizer.Codec
	for _, e := range []tokenizer.Encoding{tokenizer.O200kBase, tokenizer.Cl100kBase} {
		c, err := tokenizer.Get(e)
		if err != nil {
			t.Fatal(err)
		}
		codecs = append(codecs, c)
	}
	return func(text string) (most int) {
		for _, c := range codecs {
			n, err := c.Count(strings.ToValidUTF8(text, "\uFFFD"))
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, n)
		}
		return most
	}
}

// measured is how the estimates of some texts compare with the truth.
type measured struct {
	texts, bytes, truth, estimate int
	under                         int     // of the texts, those that are estimated too low
	low, high                     float64 // lowest and highest ratio of estimate to real count
}

func (m *measured) add(text string, truth int) {
	estimate := Tokens(text)
	share := float64(estimate) / float64(max(truth, 1))
	if m.texts++; m.texts == 1 {
		m.low, m.high = share, share
	}
	m.low, m.high = min(m.low, share), max(m.high, share)
	m.bytes, m.truth, m.estimate = m.bytes+len(text), m.truth+truth, m.estimate+estimate
	if estimate < truth {
		m.under++
	}
}

func (m *measured) share() float64 { return float64(m.estimate) / float64(max(m.truth, 1)) }

func (m *measured) String() string {
	return fmt.Sprintf("%5d texts %8d bytes %7d tokens %7d estimated: %.3f, from %.3f to %.3f, %d too low",
		m.texts, m.bytes, m.truth, m.estimate, m.share(), m.low, m.high, m.under)
}

// TestTokensOfManyKinds compares the estimate with real tokenizers for each kind of text: at most 5 % too low for
// all, and at most 25 % too high for English and JSON.
func TestTokensOfManyKinds(t *testing.T) {
	t.Parallel()
	count := counter(t)
	var all measured
	for _, kind := range slices.Sorted(func(yield func(string) bool) {
		for k := range samples {
			if !yield(k) {
				return
			}
		}
	}) {
		var m measured
		for _, text := range samples[kind] {
			if len(text) < 200 {
				t.Errorf("a sample of %s has %d bytes, want 200 at least", kind, len(text))
			}
			truth := count(text)
			m.add(text, truth)
			all.add(text, truth)
		}
		t.Logf("%-16s %v", kind, &m)
		if m.low < 0.95 {
			t.Errorf("%s: estimate is %.3f of the real count, want at least 0.95", kind, m.low)
		}
		if (kind == "English" || kind == "JSON") && m.share() > 1.25 {
			t.Errorf("%s: estimate is %.3f of the real count, want at most 1.25", kind, m.share())
		}
	}
	t.Logf("%-16s %v", "all", &all)
}

// TestTokensOfRealMessages uses recorded messages of agents and models, which are not part of the repository.
func TestTokensOfRealMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	count := counter(t)
	var all measured
	for _, folder := range []string{"ace", "dynamic-cheatsheet", "kayba", "swe-agent", "tau-bench"} {
		var m measured
		for text := range messages(t, filepath.Join(dir, folder)) {
			truth := count(text)
			m.add(text, truth)
			all.add(text, truth)
		}
		t.Logf("%-16s %v", folder, &m)
		if m.low < 0.95 || m.share() > 1.25 {
			t.Errorf("%s: got %v, want none under 0.95 and at most 1.25 in all", folder, &m)
		}
	}
	t.Logf("%-16s %v", "all", &all)
	if all.under*100 > all.texts {
		t.Errorf("%d of %d messages are estimated too low, want 1 %% at most", all.under, all.texts)
	}
}

// messages returns each different text of 200 bytes or more in the files of a folder: the strings of JSON files,
// and the bullets of other files.
func messages(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	keep := func(text string) {
		if len(text) >= 200 {
			found[text] = true
		}
	}
	var strs func(v any)
	strs = func(v any) {
		switch v := v.(type) {
		case string:
			keep(v)
		case []any:
			for _, w := range v {
				strs(w)
			}
		case map[string]any:
			for _, w := range v {
				strs(w)
			}
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".csv" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".txt" {
			for bullet := range strings.SplitSeq(string(raw), "\n[") {
				keep("[" + strings.TrimPrefix(bullet, "["))
			}
			return nil
		}
		if i := bytes.IndexAny(raw, "{["); i > 0 {
			raw = raw[i:] // one file has a word before its JSON
		}
		for dec := json.NewDecoder(bytes.NewReader(raw)); dec.More(); {
			var v any
			if err := dec.Decode(&v); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			strs(v)
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("got %d texts, error %v", len(found), err)
	}
	return found
}

// texts generates any input: words, code, scripts, and bytes that are not text.
func texts() *rapid.Generator[string] {
	parts := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[A-Za-z0-9 _\-=./\n"]{0,20}`),
		rapid.StringMatching(`[a-z]{0,30}`),
		rapid.SampledFrom([]string{"", " ", "\n", "\r\n", "\t\t", "größer", "是", "\xe6\x98", "\xff", "\x80", "👩‍💻", "----", "of", "FIN", "12345", "\xf0\x9f", "ế", "नि", "。"}),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	return rapid.Map(rapid.SliceOfN(parts, 0, 6), func(p []string) string { return strings.Join(p, "") })
}

func TestTokensOfTwoTexts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := texts().Draw(t, "a"), texts().Draw(t, "b")
		whole, first, second := Tokens(a+b), Tokens(a), Tokens(b)
		if whole < first || whole > first+second+1 {
			t.Errorf("got %d tokens of both, %d and %d of each", whole, first, second)
		}
		if whole = Tokens(a + "\n" + b); whole > Tokens(a+"\n")+second {
			t.Errorf("got %d tokens of both lines, %d and %d of each", whole, Tokens(a+"\n"), second)
		}
		if (first == 0) != (a == "") {
			t.Errorf("got %d tokens of %d bytes", first, len(a))
		}
	})
}

// TestTokensOfAnyTwoTexts proves the property that TestTokensOfTwoTexts samples. more[s][r] is the maximum
// additional cost of any text from state s compared with state r: the longest path through all pairs of states. The
// test ends only if the cost is bounded.
func TestTokensOfAnyTwoTexts(t *testing.T) {
	t.Parallel()
	var more [states][states]int
	for changed, rounds := true, 0; changed; rounds++ {
		if rounds > states*states {
			t.Fatal("there are texts that cost any number of tokens more where they come second")
		}
		changed = false
		for s := range more {
			for r := range more {
				for b := range 256 {
					from, to := costs[s<<8|b], costs[r<<8|b]
					if m := int(from&0xff) - int(to&0xff) + more[from>>8][to>>8]; m > more[s][r] {
						more[s][r], changed = m, true
					}
				}
			}
		}
	}
	for s := range more {
		if got := more[s][start]; got > token {
			t.Errorf("after state %d a text costs %d twentieths of a token more, want %d at most", s, got, token)
		}
	}
	if got := more[line][start]; got > 0 {
		t.Errorf("after a line feed a text costs %d twentieths of a token more", got)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := texts().Draw(t, "text")
		checkFit(t, text, rapid.IntRange(-1, Tokens(text)+1).Draw(t, "tokens"))
	})
}

func FuzzFit(f *testing.F) {
	f.Add("To be, or not to be", 3)
	f.Add("是否\xe6\x98", 2)
	f.Fuzz(func(t *testing.T, text string, tokens int) { checkFit(t, text, tokens) })
}

// checkFit checks that the prefix is within the tokens, and that one more rune is not.
func checkFit(t rapid.TB, text string, tokens int) {
	t.Helper()
	n := PrefixLen(text, tokens)
	if got := Tokens(text[:n]); got > max(tokens, 0) {
		t.Errorf("got %d tokens in the %d bytes that fit %d", got, n, tokens)
	}
	boundary := false
	for i := range text {
		boundary = boundary || i == n
	}
	if n == len(text) {
		return
	}
	if !boundary {
		t.Errorf("the %d bytes of %q that fit end within a rune", n, text)
	}
	_, size := utf8.DecodeRuneInString(text[n:])
	if got := Tokens(text[:n+size]); got <= tokens {
		t.Errorf("%d bytes fit %d tokens, and %d bytes are only %d", n, tokens, n+size, got)
	}
}

func TestFitTable(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("a line of a log that never ends\n", 10<<20/32)
	for _, tt := range []struct {
		text   string
		tokens int
		want   int
	}{
		{"", 0, 0},
		{"word", 0, 0},
		{"word", -5, 0},
		{"word", int(^uint(0) >> 1), 4},
		{huge, Tokens(huge), len(huge)},
		{strings.Repeat("\xff", 1000), 10, 10},
		{strings.Repeat("\x80", 1000), 10, 10},
	} {
		if got := PrefixLen(tt.text, tt.tokens); got != tt.want {
			t.Errorf("Fit(%.20q, %d): got %d, want %d", tt.text, tt.tokens, got, tt.want)
		}
	}
}

func TestTokensDoesNotAllocate(t *testing.T) {
	text := strings.Join(samples["English"], "\n")
	if got := testing.AllocsPerRun(10, func() { PrefixLen(text, Tokens(text)/2) }); got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

// BenchmarkTokens estimates texts of a kilobyte and one of ten megabytes.
func BenchmarkTokens(b *testing.B) {
	mixed := strings.Join(slices.Concat(samples["English"], samples["JSON"], samples["Go"]), "\n")
	for _, size := range []int{1 << 10, 10 << 20} {
		text := strings.Repeat(mixed, size/len(mixed)+1)[:size]
		for name, f := range map[string]func() int{"Tokens": func() int { return Tokens(text) }, "Fit": func() int { return PrefixLen(text, size) }} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				var took []time.Duration
				for b.Loop() {
					begin := time.Now()
					if f() == 0 {
						b.Fatal("nothing counted")
					}
					took = append(took, time.Since(begin))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
				b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
			})
		}
	}
}

// samples are texts of many kinds, written for this test.
var samples = map[string][]string{
	"English": {
		`The harbour office closes at five, but the ferryman keeps his own hours. If you miss the last boat, walk along the sea wall to the old customs house and knock twice; his sister rents rooms above the bakery, and breakfast comes with the smell of fresh bread whether you asked for it or not. Nobody on the island locks a door, and nobody will tell you why.`,
		`I'd like to change my reservation, please. We were going to fly out on Friday morning, but my daughter has an exam, so we can't leave before Saturday. Could you look for something with one stop at most? We don't mind paying a little more, as long as it isn't over $200 for the three of us. Oh, and I'll need two extra bags.`,
		`When a payment is declined, check the balance before you try the same card again. Most refusals come from a limit that the customer has set, not from the bank. Never split an amount over several cards without asking first: two of the failed runs did so, and both customers asked for a refund.`,
		`Sustainable institutional accountability presupposes independent verification. Methodological inconsistencies, disproportionately attributable to retrospective classification, considerably complicate the interpretation of longitudinal observations, notwithstanding substantial improvements of instrumentation.`,
	},
	"German": {
		`Wer im Winter über den Pass fahren will, sollte sich vorher erkundigen, ob die Straße geräumt ist. Häufig wird sie erst am späten Vormittag freigegeben, und auch dann nur für Fahrzeuge mit Schneeketten. Die Gastwirtschaft oben auf der Höhe hat ganzjährig geöffnet; der Wirt erzählt gern von früher, als die Postkutsche noch zwei Tage brauchte.`,
		`Die Rechnung ist innerhalb von dreißig Tagen ohne Abzug zu begleichen. Bei verspäteter Zahlung berechnen wir Mahngebühren und Verzugszinsen gemäß den Allgemeinen Geschäftsbedingungen. Rückfragen beantwortet die Buchhaltung werktags zwischen neun und sechzehn Uhr.`,
	},
	"French": {
		`Le marché du village a lieu tous les mercredis, sous les platanes, dès que la rosée a séché. On y trouve des fromages de chèvre, du miel de lavande et, à l'arrière d'une vieille camionnette, des livres que personne n'achète mais que tout le monde feuillette en attendant l'heure de l'apéritif.`,
	},
	"Spanish": {
		`El último tren salía a las nueve y media, pero aquella noche la niebla era tan espesa que el jefe de estación decidió no dejarlo partir. Los viajeros se acomodaron en la sala de espera, alguien sacó una guitarra y, poco después, ya nadie recordaba por qué tenía tanta prisa por llegar.`,
	},
	"Russian": {
		`Старый маяк не работает уже двадцать лет, но смотритель всё равно каждый вечер поднимается по винтовой лестнице. Он протирает стёкла, проверяет механизм и записывает погоду в толстую тетрадь. Если спросить, зачем он это делает, он только пожмёт плечами и предложит чаю.`,
	},
	"Chinese": {
		`老城的茶馆清晨六点开门，最早来的总是那几位下棋的老人。他们不急着落子，先要一壶龙井，再聊聊昨夜的雨和菜市场的价钱。等到太阳照进院子，孩子们背着书包从门口跑过，棋局才真正开始。谁输谁赢并不重要，重要的是明天还要再来。`,
		`山路轉了個彎，眼前忽然開闊起來。溪水從石頭間流過，岸邊有一間小小的廟，門口掛著褪色的燈籠。管廟的老婆婆請我們喝了一杯熱茶，說這裡每年春天會開滿櫻花，那時候連城裡的人也會開車上來，熱鬧得不得了。`,
	},
	"Japanese": {
		`駅前の古い喫茶店は、朝七時になると静かに扉を開ける。常連の客はいつも同じ席に座り、新聞を広げながらコーヒーを待つ。窓の外では学生たちが自転車で通り過ぎていくが、店の中だけは時間がゆっくりと流れているように感じられる。マスターは何も言わず、ただ微笑んでいる。`,
	},
	"Korean": {
		`골목 끝에 있는 작은 빵집은 새벽 다섯 시부터 불을 켠다. 주인아저씨는 밀가루 반죽을 하면서 라디오를 듣고, 첫 손님이 오기 전에 단팥빵을 진열대에 올려놓는다. 비가 오는 날이면 우산이 없는 아이들에게 따뜻한 우유를 나누어 주기도 한다.`,
	},
	"Arabic": {
		`كان البائع العجوز يجلس كل صباح أمام دكانه الصغير في السوق القديم، يرتب التوابل في أكياس من القماش ويحيي المارة بابتسامة هادئة. وعندما يسأله أحد عن سر رائحة القهوة التي يعدها، يضحك ويقول إن السر في الصبر لا في الهيل.`,
	},
	"Hebrew": {
		`בקצה הרחוב, ליד בית הספר הישן, יש חנות קטנה שמוכרת ספרים משומשים. בעל החנות מכיר כל ספר על המדפים, ואם תשאלו אותו מה כדאי לקרוא, הוא יחשוב רגע ארוך, יטפס על הסולם ויוריד בדיוק את הספר שחיפשתם בלי לדעת.`,
	},
	"Hindi": {
		`गाँव के बाहर एक पुराना बरगद का पेड़ है, जिसके नीचे हर शाम बुज़ुर्ग इकट्ठा होते हैं। वे मौसम, फसल और बच्चों की पढ़ाई के बारे में बातें करते हैं। जब बारिश आती है तो सब पास के मंदिर में चले जाते हैं और वहाँ बैठकर चाय पीते हैं।`,
	},
	"Go": {
		"// Drain waits until the queue is empty or the context ends, whichever comes first.\nfunc (q *Queue) Drain(ctx context.Context) error {\n\tfor {\n\t\tq.mu.Lock()\n\t\tn := len(q.items)\n\t\tq.mu.Unlock()\n\t\tif n == 0 {\n\t\t\treturn nil\n\t\t}\n\t\tselect {\n\t\tcase <-ctx.Done():\n\t\t\treturn fmt.Errorf(\"drain %q: %d left: %w\", q.name, n, context.Cause(ctx))\n\t\tcase <-q.changed:\n\t\t}\n\t}\n}\n",
		"type options struct {\n\tAddr     string        `yaml:\"addr\" env:\"ADDR\"`\n\tMaxBytes int64         `yaml:\"max_bytes\"`\n\tTimeout  time.Duration `yaml:\"timeout\"`\n}\n\nvar errClosed = errors.New(\"store: closed\")\n\nfunc newOptions(args []string) (o options, err error) {\n\tset := flag.NewFlagSet(\"serve\", flag.ContinueOnError)\n\tset.StringVar(&o.Addr, \"addr\", \":8080\", \"where to listen\")\n\terr = set.Parse(args)\n\treturn\n}\n",
	},
	"Python": {
		"import csv\nfrom collections import defaultdict\n\n\ndef totals_by_region(path, *, currency='EUR'):\n    \"\"\"Sum the invoices of a file, region by region.\"\"\"\n    totals = defaultdict(float)\n    with open(path, newline='') as f:\n        for row in csv.DictReader(f):\n            if row['currency'] != currency or not row['amount']:\n                continue\n            totals[row['region'].strip().lower()] += float(row['amount'])\n    return {k: round(v, 2) for k, v in sorted(totals.items())}\n",
		"class RetryingClient:\n    def __init__(self, session, max_retries=3, backoff=0.5):\n        self._session = session\n        self.max_retries = max_retries\n        self.backoff = backoff\n\n    def get_json(self, url, **kwargs):\n        for attempt in range(self.max_retries):\n            try:\n                return self._session.get(url, timeout=10, **kwargs).json()\n            except ConnectionError as exc:\n                logger.warning('attempt %d failed: %s', attempt, exc)\n                time.sleep(self.backoff * 2 ** attempt)\n",
	},
	"Shell and diffs": {
		"$ git log --oneline -n 3 -- cmd/server\n4f2c91e Fix race in shutdown\nb07d3aa Add --dry-run\n$ find . -name '*.tmp' -mtime +7 -print0 | xargs -0 rm -f\n$ grep -rn \"TODO\" src/ | wc -l\n      42\n$ for f in *.log; do gzip -9 \"$f\" && mv \"$f.gz\" /var/backups/; done\nmv: cannot stat 'access.log.gz': No such file or directory\n",
		"diff --git a/pool.go b/pool.go\nindex 83db48f..bf26a1c 100644\n--- a/pool.go\n+++ b/pool.go\n@@ -41,7 +41,9 @@ func (p *Pool) Close() error {\n \tp.mu.Lock()\n-\tdefer p.mu.Unlock()\n+\tconns := p.conns\n+\tp.conns = nil\n+\tp.mu.Unlock()\n \tvar errs []error\n-\tfor _, c := range p.conns {\n+\tfor _, c := range conns {\n",
	},
	"JSON": {
		`{"order_id":"A-20417","customer":{"name":"Ines Okafor","tier":"gold","emails":["ines@example.org"]},"lines":[{"sku":"BR-114","title":"brass hook","quantity":78,"price":7.05},{"sku":"OT-020","title":"oak tray","quantity":57,"price":9.4}],"paid":false,"notes":null}`,
		"{\n  \"status\": \"delayed\",\n  \"flights\": [\n    {\n      \"number\": \"QX318\",\n      \"origin\": \"LIS\",\n      \"destination\": \"OSL\",\n      \"departure\": \"2031-02-11T06:45:00Z\",\n      \"seats\": {\"economy\": 14, \"business\": 2}\n    }\n  ],\n  \"reason\": \"late arrival of the aircraft\",\n  \"compensation_due\": true\n}\n",
		`{"tool":"update_reservation","arguments":{"reservation_id":"ZFA04Y","cabin":"economy","flights":[{"flight_number":"HAT190","date":"2031-05-23"}],"payment_id":"credit_card_4421486"},"result":"Error: seat 14C is not available on this flight","took_ms":812}`,
	},
	"base64": {
		base64.StdEncoding.EncodeToString([]byte("All the keys of the house hang on one nail, and the nail is older than the house. " + strings.Repeat("A stair, a door, a lamp; ", 8))),
		base64.StdEncoding.EncodeToString(digests(12)),
		base64.RawURLEncoding.EncodeToString(digests(20)),
	},
	"hex": {
		fmt.Sprintf("%x", digests(8)),
		fmt.Sprintf("%x  release.tar.gz\n%x  release.zip\n%X  SIGNED\n%x  notes.txt\n", digests(1), digests(2)[32:], digests(3)[64:], digests(4)[96:]),
	},
	"identifiers": {
		"OperatingLeaseRightOfUseAsset,DebtInstrumentInterestRateStatedPercentage,ShareBasedCompensationArrangementVestingPeriod,getUserReservationDetailsByConfirmationNumber,XMLHttpRequestUploadProgressHandler,MAX_RETRIES_PER_CONNECTION,parse_http_response_headers,kIOReturnNotPermitted",
		"3f2a9c1e-77b4-4d0a-9a55-0c8e12f6d3b1\n9b1d04e7-2c63-4f19-8e0d-5a7f3c2b1e90\nusr_01hq3kzv8m2c5x7n9p4r6t8w0y\nreq-7f3kq9zx2m\ni-0a1b2c3d4e5f67890\narn:aws:iam::123456789012:role/deploy-runner\nsha256:" + fmt.Sprintf("%x", digests(1)),
	},
	"URLs": {
		"https://docs.example.com/v2/guides/getting-started?lang=en&utm_source=newsletter#install\nhttp://10.0.12.7:8080/api/users/48213/orders?status=open&page=3&per_page=50\nhttps://github.com/example/project/blob/main/internal/server/handler_test.go#L120-L148\nftp://files.example.net/pub/2029/09/archive-part-07.tar.bz2\n",
	},
	"log lines": {
		"2031-03-14T09:26:53.589Z INFO  [http-7] request completed method=GET path=/healthz status=200 bytes=17 duration=1.204ms\n2031-03-14T09:26:54.002Z WARN  [pool] connection to 10.1.4.22:5432 lost, retrying in 250ms (attempt 3 of 5)\n2031-03-14T09:26:54.311Z ERROR [worker-2] job 8841 failed: context deadline exceeded\n",
		"panic: runtime error: index out of range [5] with length 5\n\ngoroutine 18 [running]:\nmain.(*table).row(0xc0000a4000, 0x5)\n\t/home/ann/src/grid/table.go:88 +0x1d\nmain.render(...)\n\t/home/ann/src/grid/render.go:31\ncreated by main.main in goroutine 1\n\t/home/ann/src/grid/main.go:17 +0x9c\nexit status 2\n",
		"Traceback (most recent call last):\n  File \"/opt/app/run.py\", line 212, in <module>\n    main(sys.argv[1:])\n  File \"/opt/app/run.py\", line 187, in main\n    report = build(options.input, options.since)\n  File \"/opt/app/report.py\", line 54, in build\n    raise ValueError(f'no rows in {path!r}')\nValueError: no rows in 'june.csv'\n",
	},
	"Markdown": {
		"| Region | Orders | Revenue | Change |\n|:-------|-------:|--------:|-------:|\n| North  |    412 | 18,204.50 |  +4.2 % |\n| South  |     87 |  3,991.00 |  -0.7 % |\n| East   |  1,030 | 55,120.75 | +11.9 % |\n| West   |    266 |  9,400.10 |       0 |\n",
		"## Before you start\n\n1. Install the **command line** tools (see [the guide](../install.md)).\n2. Run `make check`; it must end with `ok`.\n\n> Note: on older machines this takes a while.\n\n- [x] licence\n- [ ] changelog\n\n```sh\nmake release VERSION=1.4.0\n```\n\n---\n\n*Last changed in May.*\n",
	},
	"HTML": {
		"<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Opening hours</title>\n<link rel=\"stylesheet\" href=\"/css/site.css?v=31\"></head>\n<body class=\"page page--plain\">\n  <h1 id=\"hours\">Opening hours</h1>\n  <ul>\n    <li>Monday &ndash; Friday: 9&nbsp;to&nbsp;5</li>\n    <li><a href=\"/contact\">By appointment</a></li>\n  </ul>\n</body>\n</html>\n",
	},
	"formulas": {
		`Let $f(x) = \frac{x^2 - 1}{x + 2}$ for $x \neq -2$. Then \[ \lim_{x \to \infty} \frac{f(x)}{x} = 1, \qquad \int_0^1 f(x)\,dx = -\frac{3}{2} + 3\ln\frac{3}{2}. \] By induction, $\sum_{k=1}^{n} k^3 = \left( \frac{n(n+1)}{2} \right)^2$, so that $a_{n+1} \leq \sqrt{2a_n + 3}$.`,
	},
	"emoji": {
		strings.Repeat("🎉 Great job, team! 🚀 The release is out ✅ and nobody had to work late 😴. Thanks to 👩‍💻 and 👨🏽‍🔧 for the fixes ❤️ 🙏🏻 ", 2) + "🐙🦑🦀🐡🐠🐟🐬🐳🐋🦈",
	},
	"numbers": {
		"id,lat,lon,elevation,reading\n1,47.3769,8.5417,408,0.00231\n2,-33.8688,151.2093,58,14.7001\n3,35.6762,139.6503,40,9.99e-05\n4,19.4326,-99.1332,2240,1204\n5,64.1466,-21.9426,61,-0.5\n6,1.3521,103.8198,15,1000000\n7,51.5072,-0.1276,11,3.14159265358979\n8,-1.2921,36.8219,1795,42\n",
		"[0.0123, -0.9981, 0.5, 1e-09, 12, 345, 6789, 10112, 131415, 16171819, 2021222324, -7.25, 88.125, 0.3333333333, 1.7976931348623157e+308, 299792458, 6.02214076e23, 1970, 2031, 00, 007, 1_000_000, 0x7fff, 0b1011, 1/3, 50%, 12:45:59, 2031-12-24]",
	},
	"white space": {
		"root:\n    child:\n        - leaf\n\n\n        - leaf\n            deeper:\n                    and: deeper\n\n\n\n    \n  \n    end:\n\t\ttabs\n\t\t\tmore\t\tof\t\tthem\n\nname        size      age\nalpha          1       10\nbeta          22      200\ngamma        333     3000\n\n\n",
	},
	"boxes": {
		"┌──────────┬─────────┐\n│ name     │ state   │\n├──────────┼─────────┤\n│ ingest   │ running │\n│ archive  │ stopped │\n└──────────┴─────────┘\n├── cmd\n│   ├── main.go\n│   └── flags.go\n└── go.mod\n  75% ███████████████░░░░░\n",
		"+----------+---------+\n| name     | state   |\n+----------+---------+\n| ingest   | running |\n+----------+---------+\n====================================\n  * * *  SUMMARY  * * *\n####################################\n-----------------------------------> 3 of 4 ok ........... done\n",
	},
}

// digests are bytes without any pattern.
func digests(n int) (b []byte) {
	for i := range n {
		sum := sha256.Sum256([]byte{byte(i)})
		b = append(b, sum[:]...)
	}
	return b
}

// TestCostsAddUp checks the sums that Cost promises, for texts of any bytes.
func TestCostsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		drawText := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9 \n.=é]{0,20}`), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		a, b := drawText.Draw(t, "before"), drawText.Draw(t, "text")
		if got, want := Cost("", a)+Cost(a, b), Cost("", a+b); got != want {
			t.Errorf("costs of %q and %q: %d, together %d", a, b, got, want)
		}
		if got, want := Cost(a+"\n", b), Cost("\n", b); got != want {
			t.Errorf("cost of %q after %q: %d, after another line feed %d", b, a, got, want)
		}
		if got, want := CostTokens(Cost("", a)), Tokens(a); got != want {
			t.Errorf("%q: %d tokens by cost, want %d", a, got, want)
		}
	})
}
