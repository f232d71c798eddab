package fep

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestHostile mixes forged packets of all kinds, with ids and PSNs that fit, into traffic of all modes: nothing panics, nothing is
// left, and every operation still ends once.
func TestHostile(t *testing.T) {
	runs := 20
	if testing.Short() {
		runs = 5
	}
	for range runs {
		seed := rand.Uint64()
		t.Run("", func(t *testing.T) { hostile(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func hostile(t *testing.T, seed uint64) {
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("seed %d: panic: %v", seed, r)
			panic(r)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 3))
	cfg := Config{MPR: uint8(1 + r.IntN(3)), IdleClose: time.Duration(1 + r.IntN(3_000_000)), TargetIdle: time.Duration(1 + r.IntN(9_000_000)),
		PSNLimit: uint32(r.IntN(2) * 100), Keepalive: time.Duration(r.IntN(2) * 500_000), MaxPDCs: 3 + r.IntN(20)}
	l := newLab(t, cfg)
	posted := 0
	for range 8 {
		l.busy()
		posted += 10
		for range 60 {
			l.forge(r)
			l.run(max(l.nodes[0].Now(), l.nodes[1].Now()) + vt.Time(r.IntN(5000)))
		}
	}
	l.run(l.nodes[0].Now().Add(30 * time.Second))
	for i := range l.eps {
		if len(l.got[i]) != posted {
			t.Errorf("node %d: %d completions for %d operations", i, len(l.got[i]), posted)
		}
		if res := l.feps[i].m.Residue(); res != "" {
			t.Errorf("node %d: left: %s", i, res)
		}
	}
	l.leaks()
}

// forge delivers one packet that looks right in its ids and is wrong in everything else.
func (l *lab) forge(r *rand.Rand) {
	to := r.IntN(2)
	all := l.feps[to].PDCs(nil)
	if len(all) == 0 {
		return
	}
	p := all[r.IntN(len(all))]
	psn := []wire.PSN{p.Tx.Next, p.Tx.CACK, p.Rx.Max, p.Rx.CACK, p.Start}[r.IntN(5)].Add(int32(r.IntN(9) - 4))
	var b []byte
	switch r.IntN(5) {
	case 0:
		f := wire.RequestFields{Type: []wire.PDSType{wire.TypeRUDReq, wire.TypeRODReq, wire.TypeRUDCCReq}[r.IntN(3)],
			Next: wire.NextHdr(r.IntN(8)), Flags: wire.ReqFlags(r.IntN(128)), ClearOffset: int16(r.IntN(20) - 15), PSN: psn,
			SPDCID: p.PeerID, DPDCID: p.ID, PSNOffset: uint16(psn - p.Start)}
		b = wire.AppendRequest(nil, &f)
		h := wire.StdFields{HeadFields: wire.HeadFields{Opcode: wire.Opcode(r.IntN(17)), Flags: wire.SESFlags(r.IntN(64)), JobID: testJob,
			PIDonFEP: uint16(to), ResourceIndex: 15}, MessageID: uint16(r.IntN(40)), MatchBits: uint64(r.IntN(3)), PayloadLength: uint16(r.IntN(50)),
			MessageOffset: uint32(r.IntN(50)), RequestLength: uint32(r.IntN(60))}
		b = append(wire.AppendSESStd(b, &h), make([]byte, r.IntN(60))...)
	case 1:
		f := wire.AckFields{Type: wire.TypeAck + wire.PDSType(r.IntN(3)), Next: wire.NextHdr(r.IntN(8)), Flags: wire.AckFlags(r.IntN(128)),
			Req: wire.AckReq(r.IntN(4)), AckOffset: int16(r.IntN(9) - 4), CACK: psn, SPDCID: p.PeerID, DPDCID: p.ID, MPR: uint8(r.IntN(3)),
			SACKOffset: int16(r.IntN(9) - 4), SACKBitmap: r.Uint64()}
		b = append(wire.AppendAck(nil, &f), make([]byte, r.IntN(60))...)
	case 2:
		code := wire.NackCode(r.IntN(0x1C))
		b = wire.AppendNack(nil, &wire.NackFields{Type: wire.TypeNack, Code: code, PSN: psn, SPDCID: p.PeerID, DPDCID: p.ID,
			Flags: wire.NackFlags(r.IntN(64)), Payload: uint32(psn) + uint32(r.IntN(100))})
	case 3:
		b = wire.AppendCtrl(nil, &wire.CtrlFields{Ctl: wire.CtlType(r.IntN(11)), Flags: wire.CtrlFlags(r.IntN(64)), PSN: psn, SPDCID: p.PeerID,
			DPDCID: p.ID, Payload: uint32(psn), ProbeOpaque: uint16(r.IntN(5)), PSNOffset: uint16(psn - p.Start)})
	default:
		b = wire.AppendRUDI(nil, &wire.RUDIFields{Type: wire.TypeRUDIReq + wire.PDSType(r.IntN(2)), Next: wire.NextHdr(r.IntN(8)), PktID: uint32(r.IntN(9))})
		b = append(b, make([]byte, r.IntN(80))...)
	}
	g := l.nodes[to].Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(to), SrcMAC: testMAC(1 - to), Src: testAddr(1 - to), Dst: testAddr(to), EV: 1,
		DSCP: []uint8{10, 10, 10, 34, 36}[r.IntN(5)], ECN: uint8(r.IntN(4))}
	g.B = wire.AppendUETCRC(append(wire.AppendUDPFrame(g.B, &ff), b...))
	g.Due = max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
	l.deliver(to, g)
}
