package faults

import (
	"fmt"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/switchd"
)

// Headroom says whether the switches at a link have room for what link layer retry may send again although they have paused it. settings gives those of a
// switch. A topology that has LLR on from the start has made room; one that turns it on later has not. Errors are *Error.
func Headroom(plan *topology.Plan, id int, settings func(node int) *switchd.Settings) error {
	l := &plan.Links[id]
	for _, e := range []topology.End{l.A, l.B} {
		n := &plan.Nodes[e.Node]
		if n.Kind != topology.KindSwitch {
			continue
		}
		s := settings(e.Node)
		if need := plan.RetryNeeds(e.Node, e.Port, s); need > 0 {
			return problem(fmt.Sprintf("uetlab switch set %s pfc.headroom=%d, or link: {llr: on} in the topology, where it can be off at first", n.Name, need),
				"llr of link %s: %s has PFC, and %d bytes of headroom, less than the %d that what is sent again after a pause may need", l.Name, n.Name, s.PFC.Headroom, need)
		}
	}
	return nil
}
