package nodecore

import (
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
)

// PHY gives the statistics of the physical layer at the node's ports, at now. To ask changes nothing.
func (n *Node) PHY(now vt.Time) []ctl.PHYPort {
	out := make([]ctl.PHYPort, 0, len(n.Ports))
	for i, p := range n.Ports {
		c := &p.C
		r := c.LLR()
		bad := c[link.DropFCS] + r[llr.RxBad] - r[llr.RxExpBad] // a bad frame that LLR did not expect has no FCS counter of its own
		out = append(out, ctl.PHYPort{Port: n.names[i], PHY: p.PHY(now), TxFrames: c[link.TxFrames], TxBytes: c[link.TxBytes], FCSErrors: bad, Preambles: c[link.DropPreamble]})
	}
	return out
}
