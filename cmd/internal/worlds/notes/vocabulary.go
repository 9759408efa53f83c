package notes

import (
	"strings"
	"sync"
	"unicode"
)

// class is the grammatical class of a concept.
type class int

const (
	kind      class = iota // a kind of expense
	foreign                // a kind of expense that no task contains
	condition              // a circumstance that a rule may use
	detail                 // a circumstance that no rule uses
	name                   // a private name of a project, a site or a supplier
)

// concept is one meaning with its words. Employees write the words in casual; bookkeepers write those in formal. The two
// lists share no words, except for names.
type concept struct {
	id      string
	class   class
	section string
	casual  []string
	formal  []string
}

// vocabulary is the language that the tasks and the model share. It contains no rules.
type vocabulary struct {
	concepts map[string]*concept
	byClass  map[class][]*concept
	phrases  map[string]string // words joined by spaces to a concept
	longest  int               // words of the longest phrase
	typos    map[string]string // misspelled word to word; "" if ambiguous
}

// Each line of these lists is "id | casual forms | formal forms".
var kindLists = map[string]string{
	"travel": `
taxi | taxi, cab, taxe, uber, droschke | chauffeured ride, hired ride with a driver
train | train, ice ticket, bahn, tgv, sparpreis | rail journey, railway voyage
flight | flight, plane, flug, vol, lufthansa | air travel, journey by air
tram | tram, bus ticket, metro, öpnv, u-bahn | urban public transport, local transit fares
hotel | hotel, übernachtung, pension, hôtel, airbnb | overnight lodging, paid accommodation
fuel | petrol, diesel, benzin, tanken, gasolina | motor propellant, refilling of a vehicle tank
parking | parking, parkhaus, parkschein, carpark | stationary vehicle charges, fee for leaving a vehicle
toll | toll, maut, péage, vignette | road usage charges, highway dues
rental | rental car, mietwagen, sixt, europcar | borrowed automobile, vehicle lease for days
visa | visa, esta, visum, passport fee | entry permit, immigration document`,
	"hospitality": `
meal | dinner, lunch, abendessen, resto, bistro | dining out, food served at a table
coffee | coffee, kaffee, espresso beans, tea bags | hot drinks for staff, beverages of the office kitchen
gift | gift, geschenk, cadeau, chocolates | token of appreciation, present of goodwill
flowers | flowers, blumen, bouquet, fleurs | floral arrangement, cut plants for decoration
catering | catering, buffet, canapés, platters | delivered refreshments, food service for an event
room | meeting room, raummiete, cowork day, saal | temporary premises, space by the hour`,
	"equipment": `
laptop | laptop, notebook, thinkpad, macbook | portable computer, mobile workstation
screen | monitor, bildschirm, 4k display, écran | visual output device, desktop viewing panel
tool | drill, werkzeug, screwdriver set, hammer | hand implements, workshop instruments
clothing | workwear, safety shoes, schutzhelm, warnweste | protective garments, occupational attire
medicine | first aid, verbandskasten, plasters, masks | medical supplies, emergency care material
repair | repair, reparatur, plumber, fixing | restoration of equipment, remedying of defects
cleaning | cleaning, putzdienst, reinigung, window wash | janitorial service, hygiene upkeep of premises`,
	"office": `
paper | toner, pens, kugelschreiber, post-its, papier | office consumables, writing materials
stamps | stamps, porto, briefmarken, timbres | letter franking, mailing fees
courier | courier, dhl, kurier, ups parcel, fedex | express consignment, carriage of goods by messenger
print | flyers, visitenkarten, business cards, plakate | printed matter, products of a press
phone | sim card, handy, mobile bill, telekom, vodafone | wireless telephony, cellular contract
licence | licence, license, lizenz, seat renewal, jetbrains | right to use a program, software entitlement
cloud | aws, hosting, server rental, vps, cloud bill | computing capacity on demand, remote machines
insurance | insurance, versicherung, policy premium, allianz | cover against risks, underwriting contribution`,
	"services": `
lawyer | lawyer, anwalt, notary, notar | juridical counsel, attorney services
translation | translation, übersetzung, dolmetscher, interpreter | rendering into another language, linguistic services
freelancer | freelancer, freiberufler, contractor day, consultant | independent specialist labour, external professional hours
ads | ad campaign, google ads, anzeige, linkedin promo | paid publicity, promotional placement
stand | booth, messestand, stand hire, expo desk | exhibition space, trade show presence
course | course, schulung, seminar, workshop fee | staff education, instruction of employees
conference | conference, kongress, congress pass, summit ticket | symposium admission, entry to a professional gathering
book | book, buch, paperback, livre, fachbuch | specialist literature, reference volumes
journal | newspaper, zeitung, magazine, abo | periodical, recurring press reading`,
}

const foreignList = `
aquarium | aquarium, fish food | aquatic animal keeping
horse | horse fodder, stable rent | equine upkeep
ship | ship charter, yacht | maritime vessel lease
bees | beehive, apiary | keeping of honey insects
vineyard | vineyard press, grapes | viticulture machinery
fireworks | fireworks, rockets | pyrotechnic articles
organ | organ tuning, organ pipes | care of church instruments
ski | ski pass, ski lift | winter sport admission
sail | sail cloth, mast | rigging of boats
telescope | telescope, star chart | astronomical optics
antique | antique clock, old vase | historical collectables
timber | timber, oak planks | sawn wood
seeds | seeds, fertiliser | agricultural inputs
piano | piano, violin strings | musical instruments
theatre | theatre props, stage curtain | scenic decoration
mining | blasting cap, pit lamp | extraction of minerals`

const conditionList = `
client | client, kunde, customer, cliente, kd | external buyer, purchaser of our goods
candidate | candidate, bewerber, applicant, interviewee | prospective employee, person to be recruited
auditor | auditor, wirtschaftsprüfer, inspector, tüv | examiner of the accounts, official reviewer
apprentice | azubi, trainee, apprentice, intern | junior learner, young person in vocational education
board | ceo, vorstand, board, gf | top management, company directors
abroad | abroad, ausland, overseas, étranger | beyond the national border, foreign territory
weekend | weekend, saturday, sunday, sonntag | outside the working week, days of rest
night | late night, nachts, after midnight, 2am | dark hours, nocturnal time
urgent | urgent, eilig, asap, rush | utmost haste, short notice
lab | lab, labor, cleanroom, chem bench | research facility, scientific premises
warehouse | warehouse, lager, depot, almacén | storage hall, stockroom
party | xmas party, sommerfest, anniversary, jubiläum | company celebration, festive occasion
broken | broken, kaputt, damaged, défectueux | faulty state, no longer functioning
used | second hand, gebraucht, refurbished, occasion | previously owned, not factory fresh`

const detailList = `
card | company card, firmenkarte, amex | settlement by plastic
cash | cash, bar bezahlt, espèces | settlement in coins
private | own money, privat ausgelegt, out of pocket | advance by the employee
monday | monday, montag | first working day
tuesday | tuesday, dienstag | second working day
wednesday | wednesday, mittwoch | middle working day
thursday | thursday, donnerstag | fourth working day
friday | friday, freitag | last working day
berlin | berlin | capital on the spree
vienna | vienna, wien | capital on the danube
lyon | lyon | town on the rhône
milan | milan, milano | capital of lombardy
basel | basel, bâle | town on the upper rhine
ghent | ghent, gent | town in flanders
oslo | oslo | norwegian capital
leeds | leeds | town in yorkshire
bilbao | bilbao | basque port
graz | graz | styrian capital`

// The names are pairs of syllables.
var (
	firstSyllables  = strings.Fields("Fal Hal Ber Quar Mar Tor Vel Kes Lun Dra Pel Zan Rho Syl Gor Nim Bas Cor Wen Jas")
	secondSyllables = strings.Fields("con de tl tz ben vik mora lo rin gard dax sel pan wick tos lys bor met zu quil")
)

// words returns the words of a text in lower case. Words contain letters, digits and apostrophes.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\''
	})
}

// language returns the vocabulary. It is built once and never changes.
var language = sync.OnceValue(func() *vocabulary {
	v := &vocabulary{concepts: map[string]*concept{}, byClass: map[class][]*concept{}, phrases: map[string]string{}, typos: map[string]string{}}
	for _, section := range []string{"travel", "hospitality", "equipment", "office", "services"} {
		v.addList(kindLists[section], kind, section)
	}
	v.addList(foreignList, foreign, "other")
	v.addList(conditionList, condition, "circumstances")
	v.addList(detailList, detail, "circumstances")
	for _, a := range firstSyllables {
		for _, b := range secondSyllables {
			v.add(&concept{id: "name " + a + b, class: name, section: "names", casual: []string{a + b}, formal: []string{a + b}})
		}
	}
	v.addTypos()
	return v
})

func (v *vocabulary) addList(list string, c class, section string) {
	for line := range strings.Lines(strings.TrimSpace(list)) {
		f := strings.Split(strings.TrimSpace(line), " | ")
		v.add(&concept{f[0], c, section, strings.Split(f[1], ", "), strings.Split(f[2], ", ")})
	}
}

func (v *vocabulary) add(c *concept) {
	v.concepts[c.id] = c
	v.byClass[c.class] = append(v.byClass[c.class], c)
	for _, forms := range [][]string{c.casual, c.formal} {
		for _, f := range forms {
			w := words(f)
			v.phrases[strings.Join(w, " ")] = c.id
			v.longest = max(v.longest, len(w))
		}
	}
}

// addTypos lists the misspellings of every word, so that the model reads them like a person.
func (v *vocabulary) addTypos() {
	known := map[string]bool{}
	for p := range v.phrases {
		for w := range strings.FieldsSeq(p) {
			known[w] = true
		}
	}
	for w := range known {
		for _, t := range misspellings(w) {
			if known[t] {
				continue
			}
			if other, ok := v.typos[t]; ok && other != w {
				v.typos[t] = ""
				continue
			}
			v.typos[t] = w
		}
	}
}

// misspellings returns the words that differ by one missing letter, or by two swapped letters, inside the word. Words of
// fewer than six letters have none.
func misspellings(word string) []string {
	r := []rune(word)
	if len(r) < 6 {
		return nil
	}
	var out []string
	for i := 1; i < len(r)-1; i++ {
		out = append(out, string(r[:i])+string(r[i+1:]))
		if i+2 < len(r) && r[i] != r[i+1] {
			out = append(out, string(r[:i])+string([]rune{r[i+1], r[i]})+string(r[i+2:]))
		}
	}
	return out
}
