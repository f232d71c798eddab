package fep

import (
	"testing"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestOneLossDiscardsABDP loses one packet in the middle of a transfer. As RoCEv2 does it the destination throws away all that was on
// the way behind it, a BDP, and the source goes back and sends that again, in order; UET sends one packet again.
func TestOneLossDiscardsABDP(t *testing.T) {
	for _, roce := range []bool{true, false} {
		cfg := Config{CC: testCC(cms.AlgNSCC), LB: "oblivious"}
		if roce {
			cfg = Config{CC: testCC(cms.AlgDCQCN), LB: LBFixed, Ordered: true}
		}
		l := newLab(t, cfg)
		l.pour(10_000)
		var psns, again []wire.PSN
		var nacked wire.PSN
		l.script = nth(20, fate{drop: true}, requests)
		l.tap = func(now vt.Time, from int, b []byte) {
			_, u := uet(b)
			if r, err := wire.ParseRequest(u); err == nil && from == 0 {
				if psns = append(psns, r.PSN()); r.RETX() {
					again = append(again, r.PSN())
				}
				if want := map[bool]wire.PDSType{true: wire.TypeRODReq, false: wire.TypeRUDReq}[roce]; r.Type() != want {
					t.Errorf("roce %v: request of type %v", roce, r.Type())
				}
			}
			if n, err := wire.ParseNack(u); err == nil && from == 1 && n.Code() == wire.NackRODOOO {
				nacked = wire.PSN(n.Payload())
			}
		}
		l.pour(1_000_000)
		lost := psns[20]
		if !roce {
			if len(again) != 1 || again[0] != lost || l.count(RODDrop) != 0 {
				t.Errorf("UET sent %d packets again: %v, want one, %d", len(again), again, lost)
			}
			continue
		}
		// The lab's way out and back takes 1.1 us, which is 13 packets at 400 Gb/s; the NACK takes it from the end of the packet behind the lost one.
		discarded := int(l.count(RODDrop))
		if discarded < 12 || discarded > 15 || len(again) != discarded+1 || nacked != lost {
			t.Errorf("RoCE sent %d packets again of which the destination had thrown %d away; it asked for %d, lost was %d", len(again), discarded, nacked, lost)
		}
		for i, q := range again {
			if q != lost.Add(int32(i)) {
				t.Errorf("packet %d sent again is PSN %d, want %d: in order from the lost one on", i, q, lost.Add(int32(i)))
			}
		}
		if v := l.source().CC; v.Rate != float64(cfg.CC.Net.Rate) {
			t.Errorf("a loss is no notification: rate %g", v.Rate)
		}
	}
}

// TestCNPsOnTheWire: with DCQCN the destination passes a mark on at once, with flag M of an ACK, and then none for 50 us though marked
// packets come all the time; each flow has its own. With NSCC every mark is passed on.
func TestCNPsOnTheWire(t *testing.T) {
	for _, alg := range []cms.Algorithm{cms.AlgDCQCN, cms.AlgNSCC} {
		s := newStub(t, Config{CC: testCC(alg), MaxAckDelay: -1, AckGenTrigger: 1 << 20})
		s.open()
		const packets = 30
		s.recv(2, packets*1000)
		var at []vt.Time
		for i := range uint32(packets) {
			s.now += 9000 // a packet in 10 us
			s.raw = nil
			s.request(req{psn: int32(i) + 1, mid: 2, op: wire.OpTaggedSend, tag: 2, off: i * 1000, total: packets * 1000, n: 1000, ecn: wire.ECNCE})
			for _, b := range s.raw {
				if a, err := wire.ParseAck(firstUET(b)); err == nil && a.M() {
					at = append(at, s.now)
				}
			}
		}
		want := packets
		if alg == cms.AlgDCQCN {
			want = packets / 5
			for i := 1; i < len(at); i++ {
				if at[i]-at[i-1] != 50_000 {
					t.Errorf("notifications %v apart, want 50 us", at[i]-at[i-1])
				}
			}
			if n := s.count(CNPTx); n != want {
				t.Errorf("%d notifications counted, want %d", n, want)
			}
		}
		if len(at) != want {
			t.Errorf("%v: %d of %d marks were passed on, want %d", alg, len(at), packets, want)
		}
	}
}
