package app

import (
	"debrief/curator"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/reflector"
)

// Role is a curator of this configuration that knows what models are told in the other roles: where that turns up in what
// was learned, it is no advice. Told is what else they are told.
func (c Curator) Role(m chat.Model, told ...string) *curator.Curator {
	return curator.New(m, c.Config, append(told, generator.Told(), reflector.Told())...)
}
