package tools

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"debrief/cmd/internal/simulated/worlds"
)

// tool carries out a request.
type tool struct {
	name     string
	requests []string // words of a request, before the name of the service
	rules    []string // words of rules; the first is the name of the tool
}

var operations = []tool{
	{"deploy_service", []string{"ship the new build of", "bring the latest version live on", "put today's package onto"}, []string{"deploy_service", "a deployment", "putting out a release"}},
	{"rollback_release", []string{"go back to last week's version of", "undo yesterday's update of", "return to the former build on"}, []string{"rollback_release", "a rollback", "withdrawing a release"}},
	{"restore_volume", []string{"bring back the lost files of", "recover Tuesday's data on", "get the backup into"}, []string{"restore_volume", "a restore", "recovery from a backup"}},
	{"rotate_key", []string{"replace the secret of", "give a fresh credential to", "renew the certificate on"}, []string{"rotate_key", "a key rotation", "changing credentials"}},
	{"move_tenant", []string{"relocate the customer away from", "find another home for the customer on", "take the customer elsewhere from"}, []string{"move_tenant", "a relocation", "the transfer of a tenant"}},
	{"fail_over", []string{"switch to the standby of", "use the second site for", "swap the active node of"}, []string{"fail_over", "a failover", "changing to the standby"}},
	{"resize_pool", []string{"add more workers to", "give more machines to", "increase the capacity of"}, []string{"resize_pool", "a resize", "scaling a pool"}},
}

// Values of a slot for a guard. The first value of every slot is the one without a rule.
const (
	no  = "no"
	yes = "yes"
)

// slot is one decision of a plan: whether to call a guard (a tool beside the operation), or which value an argument of the operation has.
type slot struct {
	name    string
	isGuard bool
	isAfter bool     // a guard after the operation
	do      []string // imperatives for a guard
	values  []string
	// signs are the traces of a slot that should have had a value, by value: two complaints of a customer, then a line of a
	// manual.
	signs map[string][3]string
}

var slots = []slot{
	{name: "freeze_writes", isGuard: true, do: []string{"call freeze_writes", "stop all writing"}, values: []string{no, yes}, signs: map[string][3]string{
		no:  {"nobody could save anything for an hour", "edits bounced for no reason", "locked stores refuse this request"},
		yes: {"entries typed in meanwhile went missing", "half of an order was overwritten", "stores with open writers refuse this request"},
	}},
	{name: "page_team", isGuard: true, do: []string{"call page_team", "alert the people in charge"}, values: []string{no, yes}, signs: map[string][3]string{
		no:  {"someone was woken for nothing", "the engineers complain about a false alarm", "a running alarm blocks this request"},
		yes: {"the responsible engineers learned it from the press", "no one stood by when it broke", "no acknowledgement of the owners was found"},
	}},
	{name: "take_snapshot", isGuard: true, do: []string{"call take_snapshot", "save a copy of the state"}, values: []string{no, yes}, signs: map[string][3]string{
		no:  {"the storage bill doubled", "an image nobody ordered fills the disk", "the quota of images is used up"},
		yes: {"there was no way back afterwards", "the former condition cannot be rebuilt", "no recent image of the volume exists"},
	}},
	{name: "drain_node", isGuard: true, do: []string{"call drain_node", "empty the machine of its work"}, values: []string{no, yes}, signs: map[string][3]string{
		no:  {"the remaining hosts were overloaded", "jobs moved away without need", "the cluster lacks spare hosts"},
		yes: {"running jobs were torn down", "sessions broke in the middle", "active sessions were found on the host"},
	}},
	{name: "notify_tenant", isGuard: true, isAfter: true, do: []string{"call notify_tenant", "write to the customer"}, values: []string{no, yes}, signs: map[string][3]string{
		no:  {"an unwanted mail caused confusion", "the client asks why we sent a message", "messages to this client are barred"},
		yes: {"the client heard nothing of it", "we were asked why there was no message", "the message log has a gap"},
	}},
	{name: "verify_copy", isGuard: true, isAfter: true, do: []string{"call verify_copy", "compare the checksums"}, values: []string{no, yes}, signs: map[string][3]string{
		no:  {"the comparison job ran for days", "needless scans slowed everything", "scans of this kind are barred"},
		yes: {"damaged bytes were discovered later", "a silent corruption came to light", "the proof of integrity is absent"},
	}},
	{name: "purge_cache", isGuard: true, isAfter: true, do: []string{"call purge_cache", "throw away the cached pages"}, values: []string{no, yes}, signs: map[string][3]string{
		no:  {"a flood of cold requests hit the origin", "everything had to be computed again", "the origin cannot bear cold requests"},
		yes: {"visitors still saw the old pages", "stale content was delivered", "old pages remain in the edge"},
	}},
	{name: "window", values: []string{"now", "night", "weekend"}, signs: map[string][3]string{
		"now":     {"it came hours too late", "the work should not have waited", "delayed starts are barred"},
		"night":   {"the interruption hit the lunch hour", "users were cut off in broad daylight", "starts are accepted after dusk only"},
		"weekend": {"it disturbed the working week", "offices were open when it happened", "starts are accepted on Saturday and Sunday only"},
	}},
	{name: "mode", values: []string{"standard", "rolling", "canary"}, signs: map[string][3]string{
		"standard": {"a mixture of versions answered", "the gradual procedure took too long", "gradual procedures are barred"},
		"rolling":  {"all nodes went down at the same moment", "there was a full gap in service", "one node after another is the accepted procedure"},
		"canary":   {"a fault reached every visitor at once", "no small group tried it first", "a trial with one percent is the accepted procedure"},
	}},
	{name: "ticket", values: []string{"none", "CHG", "SEC", "OPS"}, signs: map[string][3]string{
		"none": {"paperwork without cause was filed", "the auditors found a needless form", "forms are not accepted here"},
		"CHG":  {"the change board protests", "it is not in the calendar of changes", "a reference of the change board is absent"},
		"SEC":  {"the security office was left out", "the security log lacks an entry", "a reference of the security office is absent"},
		"OPS":  {"the duty book of operations has no line on it", "the shift leader missed an entry", "a reference of the duty book is absent"},
	}},
	{name: "approver", values: []string{"nobody", "duty-manager", "data-officer"}, signs: map[string][3]string{
		"nobody":       {"a signature was demanded for a trifle", "a boss was disturbed for a routine job", "signatures are not accepted here"},
		"duty-manager": {"the head of the shift had not agreed", "management was not asked", "the consent of the shift head is absent"},
		"data-officer": {"the privacy counsel had not agreed", "personal records were touched without consent", "the consent of the privacy counsel is absent"},
	}},
}

// slotIndex returns the index of a slot, or -1.
func slotIndex(name string) int {
	return slices.IndexFunc(slots, func(s slot) bool { return s.name == name })
}

// fact is a property of a request.
type fact int

// The facts. Cluster and kind belong to a service, tier and region to a tenant.
const (
	operation fact = iota
	cluster
	kind
	tier
	region
	factCount
)

var factNames = [factCount]string{"operation", "cluster", "kind", "tier", "region"}

// facts holds one value for each fact.
type facts = worlds.Features

// anyFact returns a fact of the service or the tenant.
func anyFact(draw uint64) fact { return cluster + fact(draw%uint64(factCount-1)) }

var (
	kinds = []struct {
		name  string
		words []string // the first is for the inventory and requests, the second for rules
	}{
		{"replica", []string{"follower of another store", "read replicas"}},
		{"primary", []string{"holder of the original data", "primaries"}},
		{"stateless", []string{"without any data of its own", "stateless services"}},
		{"archive", []string{"filled with old records", "archives"}},
	}
	tiers = []string{"gold", "silver", "bronze", "trial"}
)

// names are those that a cluster or a region can have.
var names = worlds.InventedNames("hal bor cyg dri ebo fal gry hex ild jar kor lum mir nar opa pry qua ros sel tun und ves wol xan yor zep alt bri cor den",
	"cyon ealis nus fter lith ora ven dal mere gate holt ward ria bane stow wyn tide fell moor ston crag dell")

var (
	services = strings.Fields("kestrel heron osprey plover curlew lapwing dunlin avocet bittern siskin linnet wagtail nuthatch dipper wheatear redstart goshawk merlin harrier godwit turnstone fulmar gannet petrel")
	tenants  = strings.Fields("Ashworth Bellweather Crowhurst Dunmore Eastlake Farnham Greywall Hartnoll Inglewood Jessop Kilbride Longmire Marchmont Netherby Oakshott Penhallow Quillon Ravensworth Stanhope Thornbury Underhill Vickery Westergate Yarborough")
)

var (
	clusterWord = regexp.MustCompile(`(?:cluster ([A-Z]\w+)|([A-Z]\w+) cluster)`)
	regionWord  = regexp.MustCompile(`(?:region ([A-Z]\w+)|([A-Z]\w+) region)`)
	tierWord    = regexp.MustCompile(`(?:tier (\w+)|(\w+) customers?|(\w+) account)`)
	anyWord     = regexp.MustCompile(`[\p{L}\d_-]+`)
)

// readFacts returns the facts in a request, in the output of the inventory or in a rule, without the operation.
func readFacts(text string) facts {
	var f facts
	// first returns the first name in the matches of a pattern. Its alternatives have a group each.
	first := func(re *regexp.Regexp, accept func(name string) bool) string {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			if name := strings.Join(m[1:], ""); accept(name) {
				return name
			}
		}
		return ""
	}
	all := func(string) bool { return true }
	f[cluster], f[region] = first(clusterWord, all), first(regionWord, all)
	f[tier] = first(tierWord, func(name string) bool { return slices.Contains(tiers, name) })
	for _, k := range kinds {
		for _, w := range k.words {
			if strings.Contains(text, w) {
				f[kind] = k.name
			}
		}
	}
	return f
}

// say returns the words of rules for a fact. The draw selects among several.
func say(f fact, value string, draw uint64) string {
	switch f {
	case cluster:
		return [...]string{" on the " + value + " cluster", " on cluster " + value}[draw%2]
	case region:
		return [...]string{" in region " + value, " in the " + value + " region"}[draw%2]
	case tier:
		return [...]string{" for " + value + " customers", " for tenants of tier " + value}[draw%2]
	}
	for _, k := range kinds {
		if k.name == value {
			return " with " + k.words[1]
		}
	}
	return ""
}

// report returns the words of the inventory and of requests for a fact.
func report(f fact, value string) string {
	switch f {
	case cluster:
		return "is on the " + value + " cluster"
	case region:
		return "lives in region " + value
	case tier:
		return "has a " + value + " account"
	}
	for _, k := range kinds {
		if k.name == value {
			return "is " + k.words[0]
		}
	}
	return ""
}

// request is a task before it is written.
type request struct{ op, service, tenant string }

// readRequest returns the request in a text. Parts that it does not name are empty.
var readRequest = worlds.Cached(func(text string) request {
	r := request{op: readOperation(text)}
	for _, word := range anyWord.FindAllString(text, -1) {
		if slices.Contains(services, strings.ToLower(word)) {
			r.service = strings.ToLower(word)
		}
		if slices.Contains(tenants, word) {
			r.tenant = word
		}
	}
	return r
})

// readOperation returns the tool for a request, or an empty string.
func readOperation(text string) string {
	lower := strings.ToLower(text)
	for i := range operations {
		for _, p := range operations[i].requests {
			if strings.Contains(lower, strings.ToLower(p)) {
				return operations[i].name
			}
		}
	}
	return ""
}

// readSign returns the slot and the value that a complaint or a line of a manual points to, as a case without a condition.
func readSign(text string) (worlds.Case, bool) {
	lower := strings.ToLower(text)
	for i := range slots {
		for _, v := range slots[i].values {
			for _, sign := range slots[i].signs[v] {
				if strings.Contains(lower, strings.ToLower(sign)) {
					return worlds.Case{Slot: slots[i].name, Value: v}, true
				}
			}
		}
	}
	return worlds.Case{}, false
}

// capital returns a sentence with a capital first letter.
func capital(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + s[n:]
}
