package proxy

import "testing"

// TestWordsOfInstructions: a sentence that matches a pattern has one of the words, so that the words change no result.
func TestWordsOfInstructions(t *testing.T) {
	t.Parallel()
	for _, product := range []string{"title", "headings", "a headline", "summary", "summaries", "topics", "tag", "follow-up", "follow ups", "followup", "names for it"} {
		sentence := "please generate " + product
		if !productInstruction.pattern.MatchString(sentence) || !hasInstruction(productInstruction, sentence) {
			t.Errorf("%q: want an instruction, by the pattern and with the words", sentence)
		}
	}
	for _, sentence := range []string{"summarize this conversation", "summarise the above chat", "title the following dialogue"} {
		if !hasInstruction(productInstruction, sentence) {
			t.Errorf("%q: want an instruction", sentence)
		}
	}
}
