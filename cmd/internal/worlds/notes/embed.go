package notes

import "debrief/cmd/internal/worlds/world"

// Embed implements world.World. A vector is the sum of the concepts, the words and noise of the text. It stands for the
// topic of a text: the account of a rule has little weight.
func (w *World) Embed(texts []string) [][]float32 {
	return world.Embed(texts, features)
}

// features adds the words to the concepts, so that synonyms are near but not equal.
func features(text string) map[string]float64 {
	v := language()
	out := map[string]float64{"noise " + text: 0.7}
	for _, w := range words(text) {
		out["word "+w] = 0.2
	}
	for _, id := range v.find(text) {
		switch v.concepts[id].class {
		case kind, foreign:
			out["concept "+id] = 1.3
			out["section "+v.concepts[id].section] = 0.7
		case name:
			out["concept "+id] = 0.6
		case condition:
			out["concept "+id] = 0.6
		default:
			out["concept "+id] = 0.4
		}
	}
	return out
}
