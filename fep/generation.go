package fep

import "github.com/uetlab/uetlab/wire"

// generation is ri_generation of one space of an endpoint, as its target (uet-pds-ses.md section 18): after a message of an ordered
// stream found no receive, those behind it must not find one either, until the sender knows.
type generation struct {
	value    uint8
	disabled bool
}

// check tests the generation of a message that begins.
func (g *generation) check(q *packet) wire.ReturnCode {
	switch {
	case g.disabled:
		return wire.RCDisabledGen
	case q.head.RIGeneration() != g.value:
		return wire.RCBadGeneration
	}
	return wire.RCOK
}

// disable follows a message without a receive.
func (g *generation) disable() { g.disabled = true }

// enable follows the posting of a receive.
func (g *generation) enable() {
	if g.disabled {
		g.disabled = false
		g.value++
	}
}
