package text

import (
	"regexp"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// feature is one property of a ticket.
type feature int

// The features of a ticket.
const (
	topic feature = iota
	product
	plan
	language
	impact
	featureCount
)

var featureNames = [featureCount]string{"topic", "product", "plan", "language", "impact"}

// ticket holds one value for each feature.
type ticket = worlds.Features

// value is one value of a feature in the words of tickets and in the words of rules. No phrase occurs within another one.
type value struct {
	name    string
	tickets []string
	rules   []string
}

// vocabulary lists the values of all features except product. A product is an invented name.
var vocabulary = [featureCount][]value{
	topic: {
		{"login", []string{"I cannot get past the password screen", "my account refuses my credentials", "the reset link never reaches my mailbox", "it says my passcode is unknown"}, []string{"sign-in trouble", "login problems", "lost access to an account"}},
		{"billing", []string{"last month was charged twice", "the sum on the statement looks too high", "the card was debited without a reason", "I do not recognise a line on your bill"}, []string{"billing questions", "disputed charges", "doubtful invoices"}},
		{"crash", []string{"the window closes by itself", "everything froze and then vanished", "it quits as soon as I open a file", "I get a blue box and it is gone"}, []string{"crashes", "unexpected program exits", "sudden terminations"}},
		{"export", []string{"I cannot get my figures out as a spreadsheet", "the download of my records comes out empty", "the CSV has only headings", "my data does not leave the system"}, []string{"data exports", "exporting records", "failed extractions"}},
		{"refund", []string{"I want my money back", "please return what I paid", "kindly reverse the payment", "I was promised compensation"}, []string{"refund requests", "reimbursements", "money to be paid back"}},
		{"slowness", []string{"each click takes half a minute", "pages crawl since Monday", "it has become sluggish", "I wait ages for every search"}, []string{"poor performance", "slow response times", "long loading times"}},
		{"invitation", []string{"my new colleague cannot join our space", "we want to add three people", "the seat for our trainee does not work", "the newcomer gets no welcome mail"}, []string{"invitations of users", "new team members", "onboarding of additional persons"}},
		{"import", []string{"my old list does not load", "the upload of our catalogue stops at row 400", "bringing in last year's files fails", "the migration of our archive hangs"}, []string{"data imports", "loading of outside files", "ingestion failures"}},
		{"mobile", []string{"on my phone the buttons overlap", "the tablet shows half of the screen", "the app from the store does not start", "on Android nothing scrolls"}, []string{"mobile devices", "handheld use", "smartphone issues"}},
		{"interface", []string{"our script gets status 503", "the webhook stays silent", "the token for our integration expired", "requests from our server are cut off"}, []string{"the programming interface", "API usage", "automated integrations"}},
		{"printing", []string{"the labels come out of the printer blank", "the PDF on paper lacks the margin", "the paper copy is cut at the edge", "the plotter ignores the layout"}, []string{"print jobs", "printed output", "hard copies"}},
		{"deletion", []string{"erase everything you hold about me", "please close my profile for good", "I want to be forgotten", "remove all our traces"}, []string{"erasure requests", "account deletion", "privacy removals"}},
	},
	plan: {
		{"free", []string{"I use you without paying", "we are on the gratis version", "I never bought anything so far"}, []string{"users of the free plan", "non-paying users"}},
		{"starter", []string{"we have your smallest package", "we took the entry subscription", "we pay the little monthly fee"}, []string{"customers of the starter plan", "entry-level subscribers"}},
		{"business", []string{"we run the company package", "we have fifty seats with you", "our firm pays yearly"}, []string{"customers of the business plan", "mid-size subscribers"}},
		{"enterprise", []string{"we have a frame contract", "our group has a dedicated manager at your side", "our corporate agreement covers this"}, []string{"customers of the enterprise plan", "corporate accounts"}},
	},
	language: {
		{"english", []string{"Hello", "Good morning", "Hi there"}, []string{"written in English", "from English speakers"}},
		{"german", []string{"Guten Tag", "Hallo zusammen", "Sehr geehrte Damen und Herren"}, []string{"written in German", "from German speakers"}},
		{"french", []string{"Bonjour", "Salut", "Madame, Monsieur"}, []string{"written in French", "from French speakers"}},
		{"spanish", []string{"Buenos días", "Hola", "Estimados señores"}, []string{"written in Spanish", "from Spanish speakers"}},
		{"japanese", []string{"Konnichiwa", "Hajimemashite", "Osewa ni natte orimasu"}, []string{"written in Japanese", "from Japanese speakers"}},
	},
	impact: {
		{"standstill", []string{"Nobody in our house can work", "the whole staff sits idle", "all of us stand still"}, []string{"a standstill for everyone", "a complete outage"}},
		{"blocked", []string{"I alone am stuck", "only my desk is affected", "my own work has stopped"}, []string{"one blocked person", "a single stuck user"}},
		{"annoyance", []string{"I can work around it", "it is a nuisance only", "we get by for now"}, []string{"a mere annoyance", "an issue with a workaround"}},
		{"cosmetic", []string{"it just looks ugly", "it is a matter of taste", "it merely spoils the view"}, []string{"a cosmetic flaw", "a visual blemish"}},
	},
}

// queues are the possible queues of a rule. Agents without a rule use the reception.
var queues = []string{
	"Alder", "Birch", "Cedar", "Dogwood", "Elder", "Fir", "Gingko", "Hazel", "Ironwood", "Juniper", "Larch", "Maple", "Oak", "Poplar",
}

// The guess of an agent without a rule.
const (
	defaultQueue    = "Reception"
	defaultPriority = "3"
)

// productNames are those that a product can have.
var productNames = worlds.InventedNames("quil lant mer brin tal vor zen kel dro fen gar hal ist jun lor mox nev orb pel rud sab tor ulm vex wim yar zol cad bex elm",
	"ora ix wick umo anto eel ondo ith ara usk ello ivo onda ep arn oft imp eri ode ust ane igo ulo esk ard enza otto ivar ume olin")

// productsByWord maps each product name in lower case to the name.
var productsByWord = func() map[string]string {
	all := make(map[string]string)
	for _, name := range productNames {
		all[strings.ToLower(name)] = name
	}
	return all
}()

var word = regexp.MustCompile(`[\p{L}]+`)

// readTicket returns the features in a text of a customer.
var readTicket = worlds.Cached(func(text string) ticket {
	return readFeatures(text, func(v *value) []string { return v.tickets })
})

// readCondition returns the features in a text about tickets.
func readCondition(text string) ticket {
	return readFeatures(text, func(v *value) []string { return v.rules })
}

func readFeatures(text string, phrases func(*value) []string) ticket {
	var out ticket
	lower := strings.ToLower(text)
	for f := range vocabulary {
		for i := range vocabulary[f] {
			v := &vocabulary[f][i]
			for _, p := range phrases(v) {
				if strings.Contains(lower, strings.ToLower(p)) {
					out[f] = v.name
				}
			}
		}
	}
	for _, w := range word.FindAllString(lower, -1) {
		if name, ok := productsByWord[w]; ok {
			out[product] = name
		}
	}
	return out
}

// say returns the words of rules for a value of a feature.
func say(f feature, name string, draw uint64) string {
	for i := range vocabulary[f] {
		if v := &vocabulary[f][i]; v.name == name {
			return v.rules[draw%uint64(len(v.rules))]
		}
	}
	return "the product " + name
}

var priorityWord = regexp.MustCompile(`(?i)\b(?:priority |p|urgency )([1-4])\b`)

// readQueue returns the queue that a text names, or an empty string.
func readQueue(text string) string {
	for _, w := range word.FindAllString(text, -1) {
		if w == defaultQueue {
			return w
		}
		for _, q := range queues {
			if w == q {
				return q
			}
		}
	}
	return ""
}

// readPriority returns the priority that a text names, or an empty string.
func readPriority(text string) string {
	if m := priorityWord.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
