package fep

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestB01_FirstPacketsCarrySYN: first packets carry SYN, SPDCID non-zero, psn_offset = PSN - start; so do their repetitions.
func TestB01_FirstPacketsCarrySYN(t *testing.T) {
	x := newFar(t, Config{}, 1)
	x.send(x.ep, 0, 5*1024, 1)
	x.run(1500 * time.Microsecond) // one RTO
	if len(x.seen) != 10 {
		t.Fatalf("%d packets, want 5 twice", len(x.seen))
	}
	start, id := x.seen[0].req.PSN(), x.seen[0].req.SPDCID()
	for i, p := range x.seen {
		r, off := p.req, uint16(i%5)
		if !r.SYN() || r.SPDCID() == 0 || r.SPDCID() != id || r.PSNOffset() != off || r.PSN() != start.Add(int32(off)) || start == 0 || r.RETX() != (i >= 5) {
			t.Errorf("packet %d: SYN %v, SPDCID %x, psn %d, offset %d, RETX %v; start %d, first SPDCID %x", i, r.SYN(), r.SPDCID(), r.PSN(), r.PSNOffset(),
				r.RETX(), start, id)
		}
	}
}

// script gives what was queued, else pseudo-random numbers.
type script struct {
	queue []uint32
	rest  *rand.PCG
}

func (s *script) Uint64() uint64 {
	if len(s.queue) > 0 {
		v := s.queue[0]
		s.queue = s.queue[1:]
		return uint64(v) << 32
	}
	return s.rest.Uint64()
}

// TestB02_StartPSN: Start_PSN is random, not zero, differs between runs, and is at least 2^16 away from the last PSN of the previous
// PDC with the same PDCID. The random numbers are those that would break the rules.
func TestB02_StartPSN(t *testing.T) {
	const pool = 256
	const round = 2 * pool // PDCs until their ids come again
	const seed = 77
	src := &script{rest: rand.NewPCG(seed, 1)}
	x := newFar(t, Config{MaxPDCs: pool, IdleClose: time.Hour}, pool)
	x.f.m.Reset(0, rand.New(src), rand.New(rand.NewPCG(seed, 2)))
	closing := false
	x.on = func(p *seen) {
		if p.req != nil && closing {
			x.ack(p, func(a *wire.AckFields) { a.Req = wire.AckReqClose })
			return
		}
		x.polite(p)
	}
	for i := range pool - 2 { // so that two slots are left, one of them for peers, and their 512 PDCIDs come round soon
		x.send(x.ep, i, 10, 0)
	}
	x.run(time.Second)
	closing = true
	last, used := map[uint16]wire.PSN{}, []uint16{}
	starts := map[wire.PSN]bool{}
	for i := range round + 20 {
		src.queue = []uint32{0} // not allowed
		if i >= round {
			before := last[used[i-round]]
			src.queue = append(src.queue, uint32(before)+5, uint32(before)-5, uint32(before)+65535)
		}
		first := len(x.seen)
		x.send(x.ep, pool-1, 10, 0)
		x.run(time.Millisecond)
		r := x.requests(first)[0].req
		before, again := last[r.SPDCID()]
		d := uint32(r.PSN() - before)
		if r.PSN() == 0 || !r.SYN() || starts[r.PSN()] || again && (d < 1<<16 || -d < 1<<16) || again != (i >= round) {
			t.Fatalf("seed %d: PDC %d: id %x used before: %v, SYN %v, start %d, %d from the last PSN", seed, i, r.SPDCID(), again, r.SYN(), r.PSN(), int32(d))
		}
		starts[r.PSN()] = true
		end := x.seen[len(x.seen)-1]
		if end.ctl == nil || end.ctl.Ctl() != wire.CtlCloseCommand {
			t.Fatalf("PDC %d is not closed", i)
		}
		last[r.SPDCID()] = end.ctl.PSN()
		used = append(used, r.SPDCID())
	}
	if len(src.queue) != 0 {
		t.Errorf("%d numbers were not asked for", len(src.queue))
	}
	runs := map[wire.PSN]bool{}
	for seed := range uint64(5) {
		x := newFar(t, Config{}, 1)
		x.n.StartRun(0, seed)
		x.send(x.ep, 0, 10, 0)
		x.run(time.Microsecond)
		runs[x.seen[0].req.PSN()] = true
	}
	if len(runs) != 5 {
		t.Errorf("5 runs begin at %v", runs)
	}
}

// TestB03_SYNUntilFirstACK: SYN continues until the first ACK, and stops for all packets after it, new ones and repeated ones.
func TestB03_SYNUntilFirstACK(t *testing.T) {
	x := newFar(t, Config{NoInfer: true, Window: 1 << 30}, 1)
	var known vt.Time
	x.on = func(p *seen) {
		if len(x.seen) == 5 {
			known = p.at + farLink
			x.ack(x.seen[0], nil)
		}
	}
	x.send(x.ep, 0, 200*1024, 0)
	x.run(1500 * time.Microsecond)
	with, without, again := 0, 0, 0
	for i, p := range x.requests(0) {
		if p.at == known {
			continue
		}
		if p.req.SYN() != (p.at < known) || !p.req.SYN() && p.req.DPDCID() != farPDC {
			t.Fatalf("packet %d at %v: SYN %v, DPDCID %x; the first ACK came at %v", i, p.at, p.req.SYN(), p.req.DPDCID(), known)
		}
		switch {
		case p.req.SYN():
			with++
		case p.req.RETX():
			again++
		default:
			without++
		}
	}
	if with < 6 || without < 10 || again < 10 {
		t.Errorf("%d packets with SYN, %d new ones without, %d repeated ones without", with, without, again)
	}
}

// TestB04_OpenByLaterPacket: a target opens from a packet that is not the first, and accepts each of the others once.
func TestB04_OpenByLaterPacket(t *testing.T) {
	s := newStub(t, Config{})
	s.recv(1, 4*4096)
	for _, c := range []struct {
		psn  int32
		fl   wire.ReqFlags
		want string
	}{
		{3, 0, "1 ACK_CC cack -1 off 4 DEFAULT_RESPONSE OK 0"},
		{1, 0, "1 ACK_CC cack -1 off 2 DEFAULT_RESPONSE OK 0"},
		{0, 0, "1 ACK_CC cack 1 off -1 DEFAULT_RESPONSE OK 0"},
		{1, wire.ReqRETX, "1 ACK_CC cack 1 off 0 RETX DEFAULT_RESPONSE OK 0"},
		{2, 0, "1 ACK_CC cack 3 off -1 RESPONSE OK 16384"},
	} {
		s.request(req{psn: c.psn, flags: wire.ReqSYN | c.fl, clear: int16(-1 - c.psn), mid: 2, op: wire.OpTaggedSend, tag: 1, off: uint32(c.psn) * 4096,
			total: 4 * 4096, n: 4096})
		s.expect(c.want)
	}
	c := &s.feps[1].C
	if c[PDCOpened] != 1 || c[DataRx] != 4 || c[DupRx] != 1 || c[MsgsRx] != 1 {
		t.Errorf("%d PDCs, %d packets, %d duplicates, %d messages", c[PDCOpened], c[DataRx], c[DupRx], c[MsgsRx])
	}
}

// TestB05_SYNIsAcknowledgedAtOnce: a target acknowledges any SYN packet at once, with its own id as SPDCID and the peer's as DPDCID.
func TestB05_SYNIsAcknowledgedAtOnce(t *testing.T) {
	s := newStub(t, Config{})
	s.recv(1, 3*4096)
	var at vt.Time
	s.tap = func(now vt.Time, _ int, _ []byte) { at = now }
	for i := range int32(3) {
		s.request(req{psn: i, flags: wire.ReqSYN, mid: 2, op: wire.OpTaggedSend, tag: 1, off: uint32(i) * 4096, total: 3 * 4096, n: 4096})
		if len(s.raw) != int(i)+1 {
			t.Fatalf("packet %d: %d answers", i, len(s.raw))
		}
		a, err := wire.ParseAck(firstUET(s.raw[i]))
		own := s.target()
		if err != nil || own == nil || at != s.now || a.SPDCID() == 0 || a.SPDCID() != own.ID || a.DPDCID() != stubPDC {
			t.Errorf("packet %d at %v: answer at %v: SPDCID %x, DPDCID %x, %v; own %+v", i, s.now, at, a.SPDCID(), a.DPDCID(), err, own)
		}
	}
}

// TestB06_RepeatedSYN: a repeated SYN does not create a second PDC.
func TestB06_RepeatedSYN(t *testing.T) {
	l := newLab(t, Config{})
	l.script = nth(0, fate{drop: true}, acks)
	syns := 0
	l.tap = func(_ vt.Time, from int, b []byte) {
		if r, err := wire.ParseRequest(firstUET(b)); err == nil && r.SYN() {
			syns++
		}
	}
	l.exchange(100)
	if c := &l.feps[1].C; syns != 2 || c[PDCOpened] != 1 || c[PDCsOpen] != 1 || c[MsgsRx] != 1 {
		t.Errorf("%d SYNs, %d PDCs opened, %d there, %d messages", syns, c[PDCOpened], c[PDCsOpen], c[MsgsRx])
	}
}

// TestB07_SameSPDCID: the same SPDCID from two addresses makes two PDCs.
func TestB07_SameSPDCID(t *testing.T) {
	s := newStub(t, Config{})
	var ids []uint16
	for i, src := range []int{0, 2} {
		s.start = wire.PSN(1000 + 500*i)
		s.recv(5, 10)
		s.from(src, 10, func(b []byte) []byte { return plain(b, s.syn(stubPDC, 0), 1, 5, 10) })
		s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 10")
		in, _ := uet(s.raw[i])
		if _, dst := addrs(&in); dst != testAddr(src) {
			t.Errorf("answer to %v, want %v", dst, testAddr(src))
		}
		ids = append(ids, s.peer)
	}
	if s.feps[1].C[PDCsOpen] != 2 || ids[0] == ids[1] || s.feps[1].C[MsgsRx] != 2 {
		t.Errorf("%d PDCs, ids %x, %d messages", s.feps[1].C[PDCsOpen], ids, s.feps[1].C[MsgsRx])
	}
}

// TestB08_OffsetLimit: no more than 4096 packets are sent before the first ACK; the default MPR stops sooner.
func TestB08_OffsetLimit(t *testing.T) {
	for _, c := range []struct {
		mpr  uint8
		want int
	}{{255, 4096}, {0, 1024}} {
		x := newFar(t, Config{Window: 1 << 30, MPR: c.mpr, RTOInit: time.Second}, 1)
		x.send(x.ep, 0, 6<<20, 0)
		x.run(500 * time.Millisecond)
		high := 0
		for _, p := range x.seen {
			high = max(high, int(p.req.PSNOffset()))
		}
		if len(x.seen) != c.want || high != c.want-1 {
			t.Errorf("MPR %d: %d packets, highest psn_offset %d; want %d", c.mpr, len(x.seen), high, c.want)
		}
	}
}

// TestB09_NoPDC: without a PDC the answer is NO_PDC_AVAIL with SPDCID 0; it succeeds once there is one.
func TestB09_NoPDC(t *testing.T) {
	s := newStub(t, Config{MaxPDCs: 1})
	s.open()
	s.recv(2, 10)
	other := func() {
		s.from(2, 10, func(b []byte) []byte { return plain(b, s.syn(9, 0), 1, 2, 10) })
	}
	other()
	s.expect("1 NACK NO_PDC_AVAIL psn 0")
	if n := s.lastNack(); n.SPDCID() != 0 || n.DPDCID() != 9 {
		t.Errorf("SPDCID %x, DPDCID %x", n.SPDCID(), n.DPDCID())
	}
	s.ctrl(wire.CtlCloseCommand, 1, 0)
	s.expect("1 ACK_CC cack 1 off 0 NONE")
	other()
	s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 10")
	if c := &s.feps[1].C; c[PDCsOpen] != 1 || c[MsgsRx] != 2 {
		t.Errorf("%d PDCs, %d messages", c[PDCsOpen], c[MsgsRx])
	}
}

// TestB10_ControlOpensNothing: a control packet for an unknown PDC creates nothing and is not answered, except NOOP and Negotiation
// with SYN, which open a PDC of the mode that they name.
func TestB10_ControlOpensNothing(t *testing.T) {
	s := newStub(t, Config{})
	send := func(ctl wire.CtlType, fl wire.CtrlFlags, id uint16) {
		s.from(0, 46, func(b []byte) []byte {
			b = wire.AppendCtrl(b, &wire.CtrlFields{Ctl: ctl, Flags: fl, PSN: s.start, SPDCID: id, Payload: uint32(s.start)})
			if ctl == wire.CtlNegotiation {
				b = wire.AppendNegotiation(b, 1)
			}
			return b
		})
	}
	for ctl := range wire.CtlType(16) {
		for _, fl := range []wire.CtrlFlags{0, wire.CtrlAR, wire.CtrlSYN, wire.CtrlSYN | wire.CtrlAR} {
			if opener := ctl == wire.CtlNoop || ctl == wire.CtlNegotiation; opener && fl&wire.CtrlSYN != 0 {
				continue
			}
			send(ctl, fl, stubPDC)
			if c := &s.feps[1].C; c[PDCOpened] != 0 || len(s.got) != 0 {
				t.Fatalf("%v flags %x: %d PDCs, answers %q", ctl, fl, c[PDCOpened], s.got)
			}
		}
	}
	if n := s.feps[1].C[UnknownPDCID]; n < 32 {
		t.Errorf("%d counted", n)
	}
	for i, c := range []struct {
		ctl wire.CtlType
		fl  wire.CtrlFlags
	}{{wire.CtlNoop, wire.CtrlAR}, {wire.CtlNoop, wire.CtrlISROD}, {wire.CtlNegotiation, 0}} {
		send(c.ctl, c.fl|wire.CtrlSYN, uint16(i+1))
		all := s.feps[1].PDCs(nil)
		if len(all) != i+1 {
			t.Fatalf("%v: %d PDCs", c.ctl, len(all))
		}
		if p := all[i]; (p.Mode.String() == "ROD") != (c.fl == wire.CtrlISROD) || p.PeerID != uint16(i+1) || p.Start != s.start {
			t.Errorf("%v flags %x: %+v", c.ctl, c.fl, p)
		}
	}
	s.expect("1 ACK_CC cack 0 off 0 NONE")
}

// TestB11_TrimmedSYN: a trimmed SYN is answered by NACK TRIMMED with SPDCID 0 and opens no PDC; its source sends it again at once,
// as a SYN.
func TestB11_TrimmedSYN(t *testing.T) {
	s := newStub(t, Config{})
	for dscp, want := range map[uint8]string{34: "1 NACK TRIMMED psn 0", 36: "1 NACK TRIMMED_LASTHOP psn 0"} {
		s.from(0, dscp, func(b []byte) []byte { return plain(b, s.syn(stubPDC, 0), 1, 1, 10)[:len(b)+12+44] })
		s.expect(want)
		if n := s.lastNack(); n.SPDCID() != 0 || n.DPDCID() != stubPDC || s.feps[1].C[PDCOpened] != 0 {
			t.Errorf("SPDCID %x, DPDCID %x, %d PDCs", n.SPDCID(), n.DPDCID(), s.feps[1].C[PDCOpened])
		}
	}
	s.open() // the whole packet does
	if s.feps[1].C[PDCOpened] != 1 {
		t.Errorf("%d PDCs", s.feps[1].C[PDCOpened])
	}

	x := newFar(t, Config{}, 1)
	x.on = func(p *seen) {
		if len(x.seen) == 1 {
			x.nack(p, wire.NackTrimmed, 0, 0)
		}
	}
	x.send(x.ep, 0, 10, 0)
	x.run(100 * time.Microsecond)
	if len(x.seen) != 2 || !x.seen[1].req.SYN() || !x.seen[1].req.RETX() || x.seen[1].at != x.seen[0].at+farLink || x.seen[1].ev == x.seen[0].ev {
		t.Errorf("%d packets", len(x.seen))
	}
}

// TestB12_NoPDCWithoutRUDOrROD: packets of other types with the fields of a SYN open no PDC.
func TestB12_NoPDCWithoutRUDOrROD(t *testing.T) {
	s := newStub(t, Config{})
	s.script = func(_ int, b []byte) fate {
		s.raw = append(s.raw, append([]byte(nil), b...))
		return fate{drop: true}
	}
	tried := 0
	for typ := wire.PDSType(0); typ < 32; typ++ {
		if typ.IsRequest() || typ == wire.TypeCtrl {
			continue
		}
		tried++
		s.from(0, 10, func(b []byte) []byte {
			at := len(b)
			b = plain(b, s.syn(stubPDC, 0), 1, 1, 10)
			b[at] = b[at]&7 | byte(typ)<<3
			if wire.Prologue(b[at:]).Type() != typ {
				t.Fatalf("type %v is not where the test puts it", typ)
			}
			return b
		})
	}
	for _, g := range s.raw {
		if ty := wire.Prologue(firstUET(g)).Type(); ty != wire.TypeRUDIResp {
			t.Errorf("answer of type %v", ty)
		}
	}
	if c := &s.feps[1].C; c[PDCOpened] != 0 || c[PDCsOpen] != 0 || c[MsgsRx] != 0 || tried < 10 {
		t.Errorf("%d PDCs opened, %d messages, %d types", c[PDCOpened], c[MsgsRx], tried)
	}
}

// TestB13_ReturnStart: the return direction starts at the same Start_PSN, whichever packet opened the PDC.
func TestB13_ReturnStart(t *testing.T) {
	for _, opener := range []int32{0, 7} {
		s := newStub(t, Config{})
		key := s.eps[1].Register(fill(3000, 1))
		s.readRequest(opener, wire.ReqSYN, 3, key, 3000)
		s.readRequest(opener+1, wire.ReqSYN, 4, key, 3000)
		var psns []int32
		for _, g := range s.raw {
			if r, err := wire.ParseRequest(firstUET(g)); err == nil {
				psns = append(psns, r.PSN().Diff(s.start))
				if r.SYN() || r.DPDCID() != stubPDC {
					t.Errorf("SYN %v, DPDCID %x", r.SYN(), r.DPDCID())
				}
			}
		}
		if len(psns) != 2 || psns[0] != 0 || psns[1] != 1 {
			t.Errorf("opened by packet %d: return PSNs %v, want 0 and 1", opener, psns)
		}
	}
}

// TestB15_WhatSharesAPDC: another mode, traffic class, job or peer means another PDC; the same ones share it.
func TestB15_WhatSharesAPDC(t *testing.T) {
	x := newFar(t, Config{}, 2)
	x.on = x.polite
	other := x.endpoint(testJob+1, 2)
	pdc := func(ep *Endpoint, dst int, ordered bool, tc uint8) uint16 {
		ep.SetOrdered(ordered)
		ep.SetTC(tc)
		first := len(x.seen)
		x.send(ep, dst, 10, 0)
		x.run(100 * time.Microsecond)
		return x.requests(first)[0].req.SPDCID()
	}
	kinds := []func() uint16{
		func() uint16 { return pdc(x.ep, 0, false, 0) },
		func() uint16 { return pdc(x.ep, 0, true, 0) },
		func() uint16 { return pdc(x.ep, 0, false, 1) },
		func() uint16 { return pdc(other, 0, false, 0) },
		func() uint16 { return pdc(x.ep, 1, false, 0) },
	}
	ids := map[uint16]int{}
	for i, k := range kinds {
		id := k()
		if j, ok := ids[id]; ok {
			t.Errorf("kind %d shares PDC %x with kind %d", i, id, j)
		}
		ids[id] = i
	}
	for i, k := range kinds {
		if id := k(); ids[id] != i {
			t.Errorf("kind %d uses PDC %x the second time, of kind %d", i, id, ids[id])
		}
	}
	if len(x.got) != 2*len(kinds) {
		t.Errorf("%d completions", len(x.got))
	}
}

// flow is what TestB16 to TestB18 see of requests from 0.
type flow struct {
	pdc, mid uint16
	retx     bool
}

func (l *lab) flows() *[]flow {
	var out []flow
	l.tap = func(_ vt.Time, from int, b []byte) {
		u := firstUET(b)
		if r, err := wire.ParseRequest(u); err == nil && from == 0 {
			s, _ := wire.ParseSESStd(u[len(r):])
			out = append(out, flow{r.SPDCID(), s.MessageID(), r.RETX()})
		}
	}
	return &out
}

// writes posts n writes of size bytes and waits for them.
func (l *lab) writes(n, size int) {
	l.t.Helper()
	src, mem := fill(size, 3), make([]byte, n*size)
	key := l.eps[1].Register(mem)
	l.call(0, 1, func(now vt.Time) {
		for i := range n {
			if err := l.eps[0].Write(now, 1, src, key, uint64(i*size), uint64(i)); err != nil {
				l.t.Error(err)
			}
		}
	})
	l.run(vt.Time(time.Second))
	if len(l.got[0]) != n {
		l.t.Fatalf("%d of %d messages", len(l.got[0]), n)
	}
	for i := range n {
		if l.got[0][i].Err != nil || !bytes.Equal(mem[i*size:(i+1)*size], src) {
			l.t.Errorf("message %d: %v", i, l.got[0][i].Err)
		}
	}
}

// TestB16_MessageStaysOnItsPDC: all packets of a message go on one PDC, repeated ones too.
func TestB16_MessageStaysOnItsPDC(t *testing.T) {
	const seed = 3
	l := newLab(t, Config{})
	r := rand.New(rand.NewPCG(seed, 1))
	l.script = func(int, []byte) fate { return fate{drop: r.Float64() < 0.01} }
	got := l.flows()
	l.writes(6, 1<<20)
	home, pdcs, again := map[uint16]uint16{}, map[uint16]bool{}, 0
	for i, f := range *got {
		if id, ok := home[f.mid]; ok && id != f.pdc {
			t.Fatalf("seed %d: packet %d of message %d is on PDC %x, others on %x", seed, i, f.mid, f.pdc, id)
		}
		home[f.mid], pdcs[f.pdc] = f.pdc, true
		if f.retx {
			again++
		}
	}
	if len(home) != 6 || len(pdcs) != 4 || again == 0 {
		t.Errorf("seed %d: %d messages on %d PDCs, %d packets repeated", seed, len(home), len(pdcs), again)
	}
}

// TestB17_NoInterleaving: on a PDC the first transmissions of one message all come before those of the next.
func TestB17_NoInterleaving(t *testing.T) {
	const seed = 4
	l := newLab(t, Config{PayloadMTU: 1024, PDCsPerKey: 2})
	r := rand.New(rand.NewPCG(seed, 1))
	l.script = func(int, []byte) fate { return fate{drop: r.Float64() < 0.01} }
	got := l.flows()
	l.writes(8, 60_000)
	now, over := map[uint16]uint16{}, map[uint16]bool{}
	mixed := false // packets of two PDCs alternate
	for i, f := range *got {
		if f.retx {
			continue
		}
		if i > 0 && (*got)[i-1].pdc != f.pdc {
			mixed = true
		}
		if cur := now[f.pdc]; cur != f.mid {
			over[cur], now[f.pdc] = true, f.mid
		}
		if over[f.mid] {
			t.Fatalf("seed %d: packet %d: message %d goes on after another has begun", seed, i, f.mid)
		}
	}
	if len(now) != 2 || len(over) != 7 || !mixed { // 6 that ended, and 0
		t.Errorf("seed %d: %d PDCs, %d messages ended, mixed %v", seed, len(now), len(over), mixed)
	}
}

// TestB18_ShortBehindLong: a short message behind a long one uses another PDC, and is done long before it.
func TestB18_ShortBehindLong(t *testing.T) {
	l := newLab(t, Config{})
	got := l.flows()
	long := make([]byte, 4<<20)
	key := l.eps[1].Register(long)
	l.call(0, 1, func(now vt.Time) { _ = l.eps[0].Write(now, 1, long, key, 0, 1) })
	l.call(0, 5000, func(now vt.Time) { _ = l.eps[0].Write(now, 1, long[:100], key, 0, 2) })
	l.run(vt.Time(time.Second))
	l.want(0, Completion{Kind: OpWrite, Ctx: 2, Len: 100}, Completion{Kind: OpWrite, Ctx: 1, Len: len(long)})
	pdcs := map[uint16]uint16{}
	for _, f := range *got {
		pdcs[f.mid] = f.pdc
	}
	short := l.got[0][0].Acked.Sub(l.got[0][0].Posted)
	if len(pdcs) != 2 || len(l.feps[0].PDCs(nil)) != 0 && l.feps[0].C[PDCOpened] != 2 || short > 10*time.Microsecond {
		t.Errorf("message to PDC %v, the short one took %v", pdcs, short)
	}
	ids := map[uint16]bool{}
	for _, id := range pdcs {
		ids[id] = true
	}
	if len(ids) != 2 {
		t.Errorf("both are on PDC %v", ids)
	}
}

// TestB19_MutualPressure: two end points with more messages to each other than PDCs leave each other one.
func TestB19_MutualPressure(t *testing.T) {
	l := newLab(t, Config{MaxPDCs: 3, MaxNackRetx: InfiniteNack})
	for i, ep := range l.eps {
		for tc := range 4 {
			l.call(i, 1, func(now vt.Time) { _ = ep.TagRecv(now, 1-i, make([]byte, 9000), uint64(tc), uint64(10+tc)) })
			l.call(i, 5, func(now vt.Time) {
				ep.SetTC(uint8(tc))
				if err := ep.TagSend(now, 1-i, make([]byte, 9000), uint64(tc), uint64(tc)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	l.run(vt.Time(10 * time.Second))
	if len(l.got[0]) != 8 || len(l.got[1]) != 8 || l.count(MsgsErr) != 0 {
		t.Errorf("%d and %d completions, %d errors", len(l.got[0]), len(l.got[1]), l.count(MsgsErr))
	}
}

// TestB19_PoolEmpty: an initiator whose PDCs are all in use pauses, closes idle ones, resumes, and loses nothing.
func TestB19_PoolEmpty(t *testing.T) {
	x := newFar(t, Config{MaxPDCs: 3}, 10) // one is left to peers
	most := uint64(0)
	x.on = func(p *seen) {
		most = max(most, x.f.C[PDCsOpen])
		x.polite(p)
	}
	for round := range 3 {
		for i := range 10 {
			x.send(x.ep, i, 5000, uint64(round*10+i))
		}
	}
	x.run(500 * time.Millisecond)
	done := map[uint64]int{}
	for _, c := range x.got {
		if c.Err != nil {
			t.Errorf("%d: %v", c.Ctx, c.Err)
		}
		done[c.Ctx]++
	}
	if len(done) != 30 || len(x.got) != 30 || most != 2 || x.f.C[Paused] == 0 || x.f.C[Retx] != 0 {
		t.Errorf("%d messages done, %d completions, %d PDCs at most, %d pauses, %d packets repeated", len(done), len(x.got), most, x.f.C[Paused], x.f.C[Retx])
	}
	x.run(10 * time.Second)
	if r := x.f.m.Residue(); r != "" {
		t.Error(fmt.Sprint("left: ", r))
	}

	for i := range 3 { // two idle ones: the one that was idle for longer has to go
		x.send(x.ep, i, 10, 0)
		x.run(time.Millisecond)
	}
	peers := map[netip.Addr]bool{}
	for _, p := range x.f.PDCs(nil) {
		peers[p.Peer] = true
	}
	if len(x.got) != 33 || x.got[32].Err != nil || len(peers) != 2 || !peers[farAddr(1)] || !peers[farAddr(2)] {
		t.Errorf("%d completions, PDCs to %v", len(x.got), peers)
	}
}
