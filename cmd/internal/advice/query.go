package advice

import (
	"strings"
	"unicode"

	"debrief/cmd/internal/modelapi"
)

// Limits of the text that selects advice, in bytes.
const (
	maxQuery = 16 << 10
	minQuery = 80 // a shorter message inside a conversation selects advice together with the one before it
)

// queryOf returns the text that selects advice for a turn. It is empty if the message says nothing: inside a conversation, "go on" asks
// for no advice of its own. The first message of a conversation is always a query.
func queryOf(request *modelapi.Request, turn, number int) string {
	query := strings.TrimSpace(request.Items[turn].Text)
	if number > 1 {
		if saysNothing(query) {
			return ""
		}
		if before := lastQuestion(request.Items[:turn]); len(query) < minQuery && before != "" {
			query = before + "\n" + query
		}
	}
	if len(query) > maxQuery {
		query = query[:maxQuery]
	}
	return strings.ToValidUTF8(query, "")
}

// lastQuestion returns the last message of the user that says something, or "".
func lastQuestion(items []modelapi.Item) string {
	for i := len(items) - 1; i >= 0; i-- {
		if text := strings.TrimSpace(items[i].Text); items[i].Role == modelapi.RoleUser && text != "" && !saysNothing(text) {
			return text
		}
	}
	return ""
}

// nothing has messages that only let the model go on, or confirm.
var nothing = setOf(
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
	const longest = 40
	if len(text) > longest {
		return false
	}
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) })
	return len(words) == 0 || nothing[strings.Join(words, " ")]
}
