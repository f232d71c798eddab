package link

import (
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/vt"
)

// A port whose link is negotiated by LLDP begins each run, and its life, with neither link layer retry nor credits. Retry is turned on and
// off by SetLLR, at another time than at the far end. The two sides of credits are there from the start with all channels best effort, and
// whoever knows what was agreed on brings these up and down.

// Agreed follows a change of the port's two sides of credits, once the frame that tells the far end of it has been queued: theirs is what the
// far end's receiver announces, nil for nothing. What may leave now does.
func (p *Port) Agreed(now vt.Time, theirs *cbfc.Profile) {
	x := p.crd
	if x == nil {
		return
	}
	if theirs != nil {
		x.sends, x.classes = cbfc.NewMap(theirs), uint8(theirs.Lossless)
		x.most = x.tx.Cell().Credits(p.cfg.MTU + longestHeader - fcsLen)
	}
	x.armed = vt.Never
	x.follow(now)
	p.sched.broke = 0
	p.Kick(now)
}

// forgets says whether the run before leaves no link layer retry to this one.
func (p *Port) forgets() bool { return p.cfg.Negotiated || p.llr.tx.Stopped() }

// ExpectSets says that SetLLR or SetCBFC is to come: from now on Lookahead has it in mind. It must be called at both ends before any node can be at
// the time of the change.
func (p *Port) ExpectSets() { p.sets = true }
