package proxy

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"debrief/cmd/internal/runs/modelapi"
)

// A helper call is a call of a chat front end or a coding agent for itself: it asks for a title, a summary, tags or follow-up questions of a
// conversation. It is no work on a task, so it gets no advice and is no run. It has one of two forms:
//
//   - a message with a transcript of a chat, and an instruction about the format of the reply. A transcript of one message also needs an
//     instruction for the product of a helper, such as a title
//   - a message that quotes the first question of an open conversation of the same owner, with an instruction about the format, and one
//     for the product of a helper, such as a title

// isHelper reports whether a request is a helper call. The function startsOpen reports whether one of the texts is the first question of an
// open conversation of the owner.
func isHelper(r *modelapi.Request, turn int, startsOpen func(texts []string) bool) bool {
	texts := []string{r.System}
	for _, i := range r.Items {
		switch i.Role {
		case modelapi.RoleUser:
			texts = append(texts, i.Text)
		case modelapi.RoleTool:
			return false // an agent at work
		}
	}
	text := r.Items[turn].Text
	rest, speakers := withoutTranscript(text)
	if speakers > 0 && !hasReply(r.Items) {
		instructions := bothEnds(r.System) + "\n" + bothEnds(rest)
		return hasInstruction(formatInstruction, instructions) && (speakers == 2 || hasInstruction(productInstruction, instructions))
	}
	ends := bothEnds(strings.Join(texts, "\n"))
	return hasInstruction(productInstruction, ends) && hasInstruction(formatInstruction, ends) && startsOpen(quotations(text))
}

// hasReply reports whether a conversation has a reply of the model.
func hasReply(items []modelapi.Item) bool {
	for _, i := range items {
		if i.Role == modelapi.RoleAssistant {
			return true
		}
	}
	return false
}

// speakerLine matches the beginning of a line of a transcript, in text, XML and JSON: "User: ", "<user>" and `{"role": "user", `.
var speakerLine = regexp.MustCompile(`(?i)^[\s*#>\[{"'<-]*(?:role"?\s*[:=]\s*"?)?(user|human|assistant|ai|model|bot|chatbot)\b["'*\]]*\s*(?:[:>]|",)`)

// withoutTranscript returns the lines of a text that are not part of a transcript, and the number of its speakers, at most two: the user and
// the model. A transcript that the model has to continue has no speakers here, because this is work.
func withoutTranscript(text string) (rest string, speakers int) {
	var user, model, inside bool
	var lines []string
	for line := range strings.Lines(text) {
		m := speakerLine.FindStringSubmatch(line)
		if m != nil {
			isUser := strings.EqualFold(m[1], "user") || strings.EqualFold(m[1], "human")
			user, model = user || isUser, model || !isUser
			inside = true
			continue
		}
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "</") {
			inside = false
		}
		if !inside {
			lines = append(lines, line)
		}
	}
	rest = strings.Join(lines, "")
	switch {
	case openEnd.MatchString(text):
		return rest, 0
	case user && model:
		return rest, 2
	case user || model:
		return rest, 1
	}
	return rest, 0
}

// openEnd matches a text that ends with the prompt for the model's next line, such as "Assistant:".
var openEnd = regexp.MustCompile(`(?i)(^|\n)[^\n:]{0,20}\b(assistant|ai|model|bot|chatbot)\b[^\n:]{0,5}:\s*$`)

// instruction is a kind of sentence in lower case.
type instruction struct {
	pattern *regexp.Regexp
	// words has a part of each match. It is nil, or a sentence without any of them is not compared with the pattern, which is much slower.
	words []string
}

// hasInstruction reports whether a sentence of a text is an instruction of a kind.
func hasInstruction(kind instruction, text string) bool {
	for sentence := range strings.FieldsFuncSeq(strings.ToLower(text), isSentenceEnd) {
		hasWord := kind.words == nil || slices.ContainsFunc(kind.words, func(word string) bool { return strings.Contains(sentence, word) })
		if hasWord && kind.pattern.MatchString(sentence) {
			return true
		}
	}
	return false
}

func isSentenceEnd(r rune) bool { return r == '.' || r == '\n' }

// formatInstruction matches instructions about the form of a reply: "as JSON", "in 3 to 5 words", "only the title", "no quotation marks", "a short
// title".
var formatInstruction = instruction{pattern: regexp.MustCompile(`\bjson\b|\b(one|two|three|four|five|six|seven|eight|ten|\d+)(\s*(-|–|to|or)\s*(\d+|\w+))?[ -](words?|characters?|chars|sentences?|lines?|questions?|tags?|bullets?)\b|` +
	`\b\d+\s*(-|–|to)\s*\d+ ([\w-]+ ){1,2}(words?|questions?|tags?|topics?|titles?)\b|` + // with adjectives only after a range: "1-3 broad tags"
	`\b(only|just)\b.{0,40}\b(title|summary|tags?|questions?|text|list|topic|name)\b|\b(title|summary|tags?|questions?|list|topic)\b.{0,20}\bonly\b|` +
	`\b(no|without)\b.{0,20}\b(quotes|quotation marks|markdown|explanations?|punctuation|prefix|other text)\b|\b(concise|short|brief)\b.{0,30}\b(title|summary|name|topic|heading)\b|\bnothing else\b|\bsingle line\b`)}

// productInstruction matches instructions for what a helper makes: "generate a title", "summarize the conversation".
var productInstruction = instruction{
	words: []string{"title", "head", "summar", "topic", "tag", "follow", "name"},
	pattern: regexp.MustCompile(`\b(write|generate|create|make|give|suggest|propose|provide|produce|return|output|respond|reply|come up with|you are|you're)\b.{0,60}\b(titles?|headings?|headlines?|summar(y|ies)|topics?|tags?|follow[- ]?ups?|follow-up questions|names? for)\b|` +
		`\b(summari[sz]e|title)\b.{0,30}\b(this|the|following|above)\b.{0,20}\b(conversation|chat|discussion|dialog(ue)?|message|session|thread)\b`),
}

// bothEnds returns the beginning and the end of a text: instructions are there, and long quotations between them.
func bothEnds(text string) string {
	const part = 2 << 10
	if len(text) <= 2*part {
		return text
	}
	return text[:part] + "\n" + text[len(text)-part:]
}

// quotations returns the texts that a message may quote: the whole message, its lines, and the texts between tags or fences.
func quotations(text string) (list []string) {
	const minLength, limit = 8, 64
	add := func(s string) {
		s = strings.Trim(strings.TrimSpace(s), "\"'`“”«»")
		if len(s) >= minLength && len(list) < limit {
			list = append(list, s)
		}
	}
	add(text)
	for _, block := range quotedBlock.FindAllStringSubmatch(text, limit) {
		add(block[1])
	}
	for line := range strings.Lines(text) {
		add(line)
		if _, after, ok := strings.Cut(line, ": "); ok {
			add(after)
		}
	}
	return list
}

// quotedBlock matches texts between tags or fences.
var quotedBlock = regexp.MustCompile("(?s)(?:<[a-z_-]+>|```[a-z]*\n|\"\"\")(.+?)(?:</[a-z_-]+>|```|\"\"\")")

// Limits of the text that selects advice, in bytes.
const (
	maxQuery = 16 << 10
	minQuery = 80 // a shorter message inside a conversation selects advice together with the one before it
)

// queryOf returns the text that selects advice for a turn. It is empty for a message inside a conversation that says nothing, such as
// "go on". The first message of a conversation (number 1) is always a query.
func queryOf(request *modelapi.Request, turn, number int) string {
	query := strings.TrimSpace(request.Items[turn].Text)
	if number > 1 {
		if saysNothing(query) {
			return ""
		}
		if before := lastQuestion(request.Items[:turn]); len(query) < minQuery && before != "" {
			before = before[:min(len(before), maxQuery-minQuery-1)] // leaves room for the query itself
			query = before + "\n" + query
		}
	}
	query = query[:min(len(query), maxQuery)]
	return strings.ToValidUTF8(query, "")
}

// lastQuestion returns the last message of the user that says something, or "".
func lastQuestion(items []modelapi.Item) string {
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].Role != modelapi.RoleUser {
			continue
		}
		text := strings.TrimSpace(items[i].Text)
		if text != "" && !saysNothing(text) {
			return text
		}
	}
	return ""
}

// emptyWords has the messages that say nothing: they only confirm, or let the model go on.
var emptyWords = setOf(
	"go on", "go ahead", "go for it", "continue", "please continue", "continue please", "keep going", "carry on", "proceed", "please proceed", "next", "more",
	"do it", "do that", "yes", "yes please", "y", "yep", "yeah", "yup", "sure", "sure thing", "ok", "okay", "k", "fine", "good", "great", "perfect", "nice", "cool",
	"thanks", "thank you", "thx", "ty", "lgtm", "sounds good", "looks good", "alright", "right", "correct", "exactly", "agreed", "approved",
	"ja", "ja bitte", "weiter", "bitte weiter", "mach weiter", "gut", "danke", "oui", "continuez", "vas y", "merci", "d accord", "sí", "si", "sigue", "continúa", "continua",
	"gracias", "vale", "sim", "continue por favor", "obrigado", "obrigada", "da", "да", "дальше", "продолжай", "спасибо", "хорошо", "继续", "好", "好的", "是", "是的", "谢谢", "可以", "はい", "続けて", "ありがとう", "계속", "네", "감사합니다",
)

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

// saysNothing reports whether a message has no word that could select advice.
func saysNothing(text string) bool {
	const maxLength = 40
	if len(text) > maxLength {
		return false
	}
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) })
	return len(words) == 0 || emptyWords[strings.Join(words, " ")]
}
