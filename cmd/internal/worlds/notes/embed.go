package notes

import "debrief/cmd/internal/worlds/world"

const dimensions = 256

// Embed implements world.World. A vector is the sum of the concepts, the words and noise of the text. It stands for the
// topic of a text: the account of a rule has little weight.
func (w *World) Embed(texts []string) [][]float32 {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = w.vector(text)
	}
	return out
}

// vector adds the words to the concepts, so that synonyms are near but not equal.
func (m *model) vector(text string) []float32 {
	v := language()
	features := map[string]float64{"noise " + text: 0.7}
	for _, w := range words(text) {
		features["word "+w] = 0.2
	}
	for _, id := range v.find(text) {
		switch v.concepts[id].class {
		case kind, foreign:
			features["concept "+id] = 1.3
			features["section "+v.concepts[id].section] = 0.7
		case name:
			features["concept "+id] = 0.6
		case condition:
			features["concept "+id] = 0.6
		default:
			features["concept "+id] = 0.4
		}
	}
	return world.Vector(dimensions, features)
}
