package nodecore

import (
	"cmp"
	"math/bits"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Credits tells of the virtual channels of all ports whose links the topology has credits for, in the order of ports and channels.
func (n *Node) Credits(now vt.Time) []ctl.Credits {
	list := []ctl.Credits{}
	for i, q := range n.cfg.Node.Ports {
		if q.CBFC == nil || n.plain[i] {
			continue
		}
		p := &q.CBFC.Profile
		tx, rx := n.Ports[i].CBFC()
		limits := map[int]uint32{}
		for _, v := range p.VCs {
			limits[int(v.Index)] = v.Limit
		}
		for m := p.Lossless; m != 0; m &= m - 1 {
			vc := bits.TrailingZeros32(m)
			d := ctl.Credits{Port: q.Name, VC: vc, Class: topology.QueueName(vc), State: cbfc.Off, Limit: limits[vc]} // of the topology, where nothing is sent by it
			if p.Method == wire.CBFCTotal {
				d.Limit, d.Shared = p.Total, true
			}
			if tx != nil {
				a, b := tx.VC(now, vc), rx.VC(vc)
				d.State, d.Used, d.Peak, d.Consumed, d.Freed, d.BlockedNs, d.Watchdogs = tx.State(vc), a.Used, a.Peak, a.Consumed, a.Freed, int64(a.Blocked), a.Watchdogs
				d.Limit = cmp.Or(tx.Total(), a.Limit, d.Limit)
				d.Receives, d.RxHeld, d.RxPeak, d.RxConsumed, d.RxFreed = rx.On()>>vc&1 != 0, rx.Stays(vc), b.Peak, b.Consumed, b.Freed
			}
			list = append(list, d)
		}
	}
	return list
}
