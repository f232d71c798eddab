package switchd

import (
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

// ECN-04: on the last hop, which credit rules, sources that wait for it are not marked; on others they are (uet-cms.md section 7.1).
func TestECN04_LastHopMarks(t *testing.T) {
	for _, c := range []struct {
		set           string
		host          bool
		typ           wire.PDSType
		v6, nat, want bool
	}{
		{MarkAuto, true, wire.TypeRUDReq, false, false, true},
		{MarkAuto, true, wire.TypeRUDCCReq, false, false, false},
		{MarkAuto, true, wire.TypeRODCCReq, true, false, false},
		{MarkAuto, true, wire.TypeRUDCCReq, true, true, false},
		{MarkAuto, true, wire.TypeRUDReq, false, true, true},
		{MarkAuto, false, wire.TypeRUDCCReq, false, false, true},
		{MarkOn, true, wire.TypeRUDCCReq, false, false, true},
		{"", true, wire.TypeRUDCCReq, false, false, true},
		{MarkOff, true, wire.TypeRUDReq, false, false, false},
		{MarkOff, false, wire.TypeRUDReq, false, false, true},
	} {
		set := plan()
		set.LastHop = c.set
		set.Queues[1].Kmin, set.Queues[1].Kmax, set.Queues[1].Pmax = 0, 1, 1
		r := newRig(t, set, 400*gig, gig, gig)
		to := 1
		if c.host {
			to = 2
		}
		p := pkt{to: to, size: 1000, dscp: dscpData, ecn: wire.ECNECT0, v6: c.v6, native: c.nat}
		for range 10 {
			f := r.frame(p)
			l4 := wire.EthLen + wire.IPv4Len
			if c.v6 {
				l4 = wire.EthLen + wire.IPv6Len
			}
			at := l4 + wire.UDPLen
			if c.nat {
				at = l4 + entropyLen
			}
			f.B[at] = byte(c.typ) << 3
			r.deliver(0, f)
		}
		r.drain()
		if got := r.Ports[to].C[link.Marked] > 0; got != c.want {
			t.Errorf("%+v: marked %v", c, got)
		}
	}
	set := plan()
	set.LastHop = "maybe"
	if err := set.Validate(3); err == nil {
		t.Error("lastHop maybe: accepted")
	}
}
