package nodecore

import (
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
)

// Queues tells of the egress queues that have seen a frame, in the order of ports and queues.
func (n *Node) Queues() []ctl.Queue {
	list := []ctl.Queue{}
	for i, p := range n.Ports {
		for q := range link.NumQueues {
			st := p.Stats(q)
			d := ctl.Queue{Port: n.names[i], Queue: q, Depth: st.Depth, C: map[string]uint64{}}
			for c, v := range st.C {
				if v != 0 {
					d.C[link.QueueCounter(c).String()] = v
				}
			}
			if len(d.C) > 0 {
				list = append(list, d)
			}
		}
	}
	return list
}
