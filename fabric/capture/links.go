package capture

import (
	"slices"
	"strings"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// AllLinks stands for every link where links are named.
const AllLinks = "all"

// Links finds the links of a plan that a list names, separated by commas, or all of them. Each comes once, in the order of
// the list. The error wraps topology.ErrUnknown.
func Links(plan *topology.Plan, list string) ([]int, error) {
	var ids []int
	if list == AllLinks {
		for id := range plan.Links {
			ids = append(ids, id)
		}
		return ids, nil
	}
	for _, name := range strings.Split(list, ",") {
		id, _, err := plan.FindLink(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// DirectionOf is the direction in which a port sends over its cable, which is captured for a link.
func DirectionOf(plan *topology.Plan, link int, from topology.End) Direction {
	l, to := &plan.Links[link], plan.Nodes[from.Node].Ports[from.Port].Far()
	a, b := &plan.Nodes[from.Node], &plan.Nodes[to.Node]
	return Direction{FromNode: a.Name, FromPort: a.Ports[from.Port].Name, ToNode: b.Name, ToPort: b.Ports[to.Port].Name,
		Description: l.Name, Trailer: a.Kind != topology.KindHost && b.Kind != topology.KindHost}
}

// Sent makes the packet that a capture of direction iface would take of a frame on its way: due when its last bit arrives.
// Data is frame itself.
func Sent(iface int, due vt.Time, frame []byte) Packet {
	return Packet{Iface: iface, Due: due, Timed: true, Data: frame, Len: len(frame)}
}

// Damaged is a packet whose frame left with the frame check sequence fcs and may have been damaged since.
func Damaged(p Packet, fcs uint32) Packet {
	if wire.FCS(p.Data) != fcs {
		p.Comment = commentFCS
	}
	return p
}
