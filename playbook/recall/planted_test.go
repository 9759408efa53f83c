package recall_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"debrief/playbook/recall"
)

// office generates notes of an office, such as allergies, contract dates and ports of services. Several thousand
// notes share words and names, and differ in the person or thing they describe.
type office struct{ *rand.Rand }

func (o office) one(of string) string {
	list := strings.Split(of, "|")
	return list[o.IntN(len(list))]
}

// subject is the person or thing of a note. A name has two words, and both also occur in other names.
type subject struct{ one, two string }

func (o office) person() subject {
	return subject{
		o.one("Anna|Boris|Carla|Dmitri|Elena|Farid|Greta|Hassan|Irene|Jonas|Karin|Luca|Mira|Nadia|Oskar|Priya|Quentin|Rosa|Stefan|Tamara|Ulrich|Vera|Walter|Yusuf|Zoe"),
		o.one("Ber|Kel|Mar|Stein|Hol|Wag|Lind|Gra|Fal|Dor|Sut|Bran|Hag|Ros|Tal|Win|Ever|Ash|Mor|Pel|Zim|Kow|Nov|Pet|Sil") + o.one("|e|a|o") + o.one("ning|ler|tens|berg|der|ner|strom|ham|con|wick|ton|dt|en|enthal|ley|field|man|combe|rison|ski"),
	}
}

func (o office) company() subject {
	return subject{
		o.one("Nor|Al|Ver|Qua|Zen|Lum|Cor|Bel|Tri|Hex|Or|Pan|Sol|Del|Myr|Kar|Fen|Gal|Pri|Ul") + o.one("|i|a") + o.one("vex|tana|dant|rix|mont|ora|phis|lect|dyne|bis|cova|nara|zeta|quest|lith|gon"),
		o.one("Traders|Logistics|Foods|Systems|Pharma|Textiles|Shipping|Optics|Timber|Energy"),
	}
}

func (o office) program() subject {
	return subject{
		o.one("billing|invoice|payment|session|catalog|search|order|stock|report|mail|image|audit|token|cache|price|route|customer|refund|export|ledger"),
		o.one("gateway|worker|router|loader|parser|monitor|scheduler|writer|resolver|mapper|indexer|broker|cleaner|verifier|bridge"),
	}
}

func (o office) project() subject {
	return subject{
		o.one("Amber|Silver|Crimson|Quiet|Hidden|Northern|Golden|Velvet|Broken|Rapid|Frozen|Copper|Distant|Emerald|Hollow|Ivory|Scarlet|Stormy"),
		o.one("Falcon|Harbor|Meadow|Lantern|Anchor|Glacier|Compass|Orchard|Canyon|Beacon|Sparrow|Thunder|Willow|Pioneer|Summit|Raven"),
	}
}

func (o office) machine() subject {
	return subject{o.one("KX|TR|BM|QL|ZD|HV|WN|GF"), fmt.Sprint(1000 + o.IntN(9000))}
}

// kind is a type of note, with wordings for notes and for questions that share few words. {1} and {2} are the words
// of the subject's name, {a_b} and {aB} are both words as an identifier.
type kind struct {
	about  func(office) subject
	notes  string
	asking string
}

var kinds = []kind{
	{
		office.person,
		"{1} {2} is allergic to {food} and carries an inhaler.|Mind the allergy of {1} {2}: no {food}, not even traces.",
		"What foods must {2} avoid because of allergies?|Which allergic reactions does {1} {2} have?|allergies: {2}, {1}|Any food that gives {2} an allergic shock?",
	},
	{
		office.person,
		"{1} {2} was born on {date} in {city}.|{1} {2}, birth date {date}, comes from {city}.",
		"When is the birthday of {1} {2}?|date of birth for {2}|In which town were you born, {1} {2}?|{2}'s birth: what day?",
	},
	{
		office.company,
		"{person} looks after the account of {1} {2} since {month}.|The account of {1} {2} was handed to {person} in {month}.",
		"Who manages {1}?|account manager responsible for {1} {2}|Which colleague handles the accounts at {1}?|Whom do I ask about the customer {1} {2}?",
	},
	{
		office.company,
		"The contract with {1} {2} expires on {date} and renews for {n} months.|{1} {2} signed a contract until {date}, renewed every {n} months.",
		"When does our agreement with {1} end?|renewal of the {1} {2} contracts|expiry date: {1}|Until when are we under contract with {1} {2}?",
	},
	{
		office.company,
		"{1} {2} pays its invoices within {n} days and gets {m} % discount.|Invoices to {1} {2}: payable in {n} days, discount {m} %.",
		"How quickly does {1} settle its bills?|payment terms agreed with {1} {2}|discounts granted on invoicing {1}|Is {1} {2} paying late?",
	},
	{
		office.program,
		"The {a_b} service listens on port {port} and restarts every night at {n} o'clock.|{a_b} is configured to listen on {port}; it is restarted nightly.",
		"Which port is {aB} using?|restart schedule for the {1} {2}|ports that {1}{2} listens to|configuring the {1} {2}: what port?",
	},
	{
		office.program,
		"{a_b} crashes with a nil pointer when the {list} list is empty; fixed by checking its length.|A panic in {a_b}: the {list} list had no entries. The fix checks for that.",
		"Why did the {1} {2} crash on empty lists?|fixing the panic in {aB}|{1} {2} crashing, how was that solved?|nil pointers in {a_b}",
	},
	{
		office.person,
		"{1} {2} prefers a window seat and flies from {city}.|For flights {1} {2} wants the aisle seat, leaving from {city}.",
		"Where does {2} like to sit on planes, which seats?|seating preferences of {1} {2}|preferred departure airport when {2} is flying|Book a flight for {1} {2}, where to sit?",
	},
	{
		office.project,
		"Project {1} {2} must be delivered by {date}; {person} leads it.|The delivery of project {1} {2} is due on {date}, led by {person}.",
		"What is the deadline of the {1} {2} projects?|Who is leading {1} {2}?|When do we have to deliver {2}, the {1} one?|delivering {1} {2}: by which day?",
	},
	{
		office.program,
		"The credentials of {a_b} are kept in the vault under ops/{city}/{n}.|Login credentials for {a_b}: in the vault, folder {city}.",
		"Where are the {1} {2} credentials stored?|login secret of {aB}|Which vault folder keeps {1} {2}'s credential?|logging in to {a_b}, which vault?",
	},
	{
		office.machine,
		"Machine {1}-{2} in hall {n} needs its {part} replaced after {port} hours.|Replace the {part} of machine {1}-{2} every {port} hours.",
		"How often does the {1} {2} need a replacement part?|maintenance interval of machine {1}-{2}|replacing parts on {1} {2}|Which hall are machines like {1}-{2} in?",
	},
	{
		office.company,
		"Orders for {1} {2} are shipped to the warehouse in {city} by {carrier}.|{1} {2} has its orders sent to the {city} warehouse with {carrier}.",
		"Where do we ship the order of {1}?|shipping address for {1} {2}|Which carrier takes parcels to {1}'s warehouses?|To what town do {1} {2} orders go?",
	},
	{
		office.person,
		"{1} {2} takes {drug} twice a day against {illness}.|Against {illness} {1} {2} was given {drug}, two a day.",
		"Which medicine is {2} taking?|medication for {1} {2}, daily dose|What does {1} {2} take every day?|the tablets {2} was given, how many days?",
	},
}

// fill replaces the placeholders of a wording.
func (o office) fill(wording string, s subject) string {
	text := strings.NewReplacer(
		"{1}", s.one, "{2}", s.two, "{a_b}", s.one+"_"+s.two, "{aB}", s.one+strings.ToUpper(s.two[:1])+s.two[1:],
		"{food}", o.one("peanuts|shellfish|sesame|celery|strawberries|mustard"),
		"{date}", o.one("3|7|12|19|24|28")+" "+o.one("January|March|May|July|September|November")+" "+o.one("1979|1984|1991|2026|2027|2028"),
		"{city}", o.one("Basel|Lyon|Porto|Gdansk|Bergen|Trieste|Leeds|Ghent|Malmo|Turin"),
		"{month}", o.one("January|March|May|July|September|November"),
		"{n}", o.one("2|3|6|12|14|30|60"), "{m}", o.one("1|2|3|5"), "{port}", fmt.Sprint(1000+o.IntN(9000)),
		"{list}", o.one("item|price|customer|route|token"), "{part}", o.one("filter|belt|bearing|nozzle|seal"),
		"{carrier}", o.one("rail|courier|truck|barge"), "{drug}", o.one("ramipril|cetirizine|metformin|ibuprofen"),
		"{illness}", o.one("high blood pressure|hay fever|diabetes|back pain"),
	).Replace(wording)
	p := o.person()
	return strings.ReplaceAll(text, "{person}", p.one+" "+p.two)
}

func (o office) note(k kind, s subject) string {
	return o.fill(o.one(k.notes), s) + " " + o.one("We spoke about it on|The mail came on|This was noted on|Please check again on") + " " +
		o.one("Monday|Tuesday|Thursday|Friday") + ". " + o.one("|Orders, contracts and invoices were on the table as well.|Nobody knew who manages the account.|The deadline of the project is another matter.|Flights are booked by the travel desk.|Which service needs a restart was not clear.")
}

// mistyped exchanges two letters in the middle of the longest word, which is nearly always part of the name.
func (o office) mistyped(text string) string {
	longest := ""
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == '?' || r == ',' || r == ':' }) {
		if len(word) > len(longest) {
			longest = word
		}
	}
	at := 1 + o.IntN(len(longest)-3)
	bad := []byte(longest)
	bad[at], bad[at+1] = bad[at+1], bad[at]
	return strings.Replace(text, longest, string(bad), 1)
}

// TestPlantedFactsAreFound searches 200 notes among 10,000 others of the same types with paraphrased questions. A
// quarter of the questions have a typing error, and 600 of the notes have the same subjects.
func TestPlantedFactsAreFound(t *testing.T) {
	t.Parallel()
	const planted = 200
	others := 10_000
	if testing.Short() {
		others = 3_000
	}
	o := office{rand.New(rand.NewPCG(2026, 11))}
	x := recall.New(0)
	add := func(key, text string) {
		put(t, x, recall.Item{Key: key, Text: text, Vector: recall.HashedVector(text, nil), Model: recall.HashedModel})
	}
	type question struct {
		key, text string
		mistyped  bool
	}
	var questions []question
	taken := map[subject]bool{}
	related := 0
	for i := range planted {
		k := kinds[i%len(kinds)]
		s := k.about(o)
		for taken[s] {
			s = k.about(o)
		}
		taken[s] = true
		key := fmt.Sprintf("fact-%03d", i)
		add(key, o.note(k, s))
		q := question{key: key, text: o.fill(o.one(k.asking), s), mistyped: i%4 == 3}
		if q.mistyped {
			q.text = o.mistyped(q.text)
		}
		questions = append(questions, q)
		for range 3 {
			other := kinds[o.IntN(len(kinds))]
			for other.notes == k.notes {
				other = kinds[o.IntN(len(kinds))]
			}
			add(fmt.Sprintf("same-%03d", related), o.note(other, s))
			related++
		}
	}
	for i := range others - related {
		k := kinds[o.IntN(len(kinds))]
		s := k.about(o)
		for taken[s] {
			s = k.about(o)
		}
		add(fmt.Sprintf("other-%05d", i), o.note(k, s))
	}

	type tally struct{ words, vectors, both int }
	var sum, typos tally
	for _, q := range questions {
		vector := recall.HashedVector(q.text, nil)
		found := func(query recall.Query) int {
			query.Model, query.Limit, query.MinSimilarity = recall.HashedModel, 10, 0.3
			r := search(t, x, query)
			if slices.ContainsFunc(r.Hits, func(h recall.Hit) bool { return h.Key == q.key }) {
				return 1
			}
			return 0
		}
		words := found(recall.Query{Text: q.text})
		vectors := found(recall.Query{Vector: vector})
		both := found(recall.Query{Text: q.text, Vector: vector})
		sum = tally{sum.words + words, sum.vectors + vectors, sum.both + both}
		if q.mistyped {
			typos = tally{typos.words + words, typos.vectors + vectors, typos.both + both}
		}
		if both == 0 {
			t.Logf("not found: %s %q (by words %d, by vectors %d)", q.key, q.text, words, vectors)
		}
	}
	t.Logf("of %d, in the first 10: by words %d, by hashed vectors %d, by both %d; of %d mistyped: %d, %d, %d",
		planted, sum.words, sum.vectors, sum.both, planted/4, typos.words, typos.vectors, typos.both)
	if sum.both < planted*9/10 || sum.both < sum.words {
		t.Errorf("got %d of %d by both and %d by words alone, want 9 of 10 and no fewer than by words", sum.both, planted, sum.words)
	}
}
