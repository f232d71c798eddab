package link

import (
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
)

// RetryStatus describes both sides of the port's link layer retry at now; ok is false where it has none, and had none since the run began.
func (p *Port) RetryStatus(now vt.Time) (tx llr.TXStatus, rx llr.RXStatus, ok bool) {
	if p.llr == nil {
		return tx, rx, false
	}
	return p.llr.tx.Status(now), p.llr.rx.Status(now), true
}

// JoinLLR is for the port of a node that joins later than its neighbours: it knows nothing of the past, and shakes hands.
func (p *Port) JoinLLR(now vt.Time) {
	if p.llr != nil {
		p.llr.tx.Begin(now)
		p.llr.rx.Begin(now)
	}
	p.ReInitLLR(now)
}
