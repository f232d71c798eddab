package fep

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// udpOf is the UDP header of a frame, by its place.
func udpOf(b []byte, v6 bool) []byte {
	if v6 {
		return b[wire.EthLen+wire.IPv6Len:][:wire.UDPLen]
	}
	return b[wire.EthLen+wire.IPv4Len:][:wire.UDPLen]
}

// A01: every packet, of either IP version, goes to UDP port 4793 with checksum 0. The source port is the entropy value: a sprayed
// message has many, a PDC with one path has one, and an ACK has that of the request which it names.
func TestA01_PortsAndChecksum(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, lb := range []string{LBSpray, LBFixed} {
			l := newLab(t, Config{PayloadMTU: 1024, IPv6: v6, LB: lb, AckEvery: true})
			ports := map[uint16]bool{}
			evs := map[wire.PSN]uint16{}
			n := 0
			l.tap = func(_ vt.Time, from int, b []byte) {
				h := udpOf(b, v6)
				port := uint16(h[0])<<8 | uint16(h[1])
				if dst := int(h[2])<<8 | int(h[3]); dst != 4793 || h[6] != 0 || h[7] != 0 {
					t.Errorf("to port %d, checksum %x", dst, h[6:])
				}
				n++
				switch u := firstUET(b); {
				case from == 0 && requests(0, u):
					r, _ := wire.ParseRequest(u)
					ports[port], evs[r.PSN()] = true, port
				case acks(from, u):
					if a, _ := wire.ParseAck(u); !a.P() && a.AckPSN() != 0 && evs[a.AckPSN()] != 0 && evs[a.AckPSN()] != port {
						t.Errorf("ACK from port %d for a packet from %d", port, evs[a.AckPSN()])
					}
				}
			}
			l.exchange(50 * 1024)
			if n < 100 || (len(ports) == 1) != (lb == LBFixed) {
				t.Errorf("IPv6 %v, %s: %d packets, %d source ports", v6, lb, n, len(ports))
			}
		}
	}
}

// A02: ACK and NACK carry the entropy value of the request that triggered them.
func TestA02_AnswersEchoEV(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.recv(2, 100)
	for i, ev := range []uint16{0, 1, 0x1234, 4793, 0x8000, 0xFFFF} {
		s.ev = ev
		s.raw = nil
		s.say(whole(int32(i)+1, message(wire.OpNoOp, uint16(i)+2, 0), nil))
		s.wait(300_000) // such NACKs are limited
		s.say(say{psn: 5000, h: message(wire.OpNoOp, 99, 0)})
		if len(s.raw) != 2 {
			t.Fatalf("EV %d: %q", ev, s.got)
		}
		for _, b := range s.raw {
			if in, _ := uet(b); in.EV != ev {
				t.Errorf("EV %d: %s has EV %d", ev, line(1, b, s.start), in.EV)
			}
		}
		if s.lastNack().Code() != wire.NackPSNOORWindow {
			t.Errorf("%v", s.lastNack().Code())
		}
	}
}

// A03: what stands in the UDP checksum does not matter.
func TestA03_ChecksumIsNotChecked(t *testing.T) {
	for _, sum := range []uint16{0, 1, 0xFFFF, 0x1234} {
		s := newStub(t, Config{})
		g := s.nodes[1].Pool.Get()
		ff := wire.FrameFields{DstMAC: testMAC(1), SrcMAC: testMAC(0), Src: testAddr(0), Dst: testAddr(1), EV: 7, DSCP: 10}
		f := s.syn(stubPDC, 0)
		s.recv(1, 10)
		b := plain(wire.AppendUDPFrame(g.B, &ff), f, 1, 1, 10)
		g.B = wire.AppendUETCRC(b)
		h := udpOf(g.B, false)
		h[6], h[7] = byte(sum>>8), byte(sum)
		wire.SealUET(g.B)
		s.now += 1000
		g.Due = s.now
		s.deliver(1, g)
		s.run(s.now + 999)
		s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 10")
	}
}

// A04: a relative endpoint is not reached with another job; its receive stays.
func TestA04_OtherJobIsRejected(t *testing.T) {
	s := newStub(t, Config{})
	s.openBy(wire.TypeRUDReq)
	mem := make([]byte, 100)
	s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem), Ctx: 5})
	key := s.eps[1].Register(make([]byte, 100))
	h := message(wire.OpSend, 1, 0)
	h.JobID++
	s.refused(whole(1, h, fill(100, 1)), wire.RCBadJobID)
	h.Opcode, h.MatchBits = wire.OpWrite, key
	s.refused(whole(2, h, fill(100, 1)), wire.RCBadJobID)
	if !bytes.Equal(mem, make([]byte, 100)) || len(s.lab.got[1]) != 0 {
		t.Errorf("the other job's message had an effect: %+v", s.lab.got[1])
	}
	s.taken(whole(3, message(wire.OpSend, 3, 100), fill(100, 2)))
	s.want(1, Completion{Kind: OpRecv, Ctx: 5, Len: 100})
	if !bytes.Equal(mem, fill(100, 2)) {
		t.Error("contents differ")
	}
}

// A05: an absolute endpoint takes messages of all jobs. Receives and memory of one job only are for that one.
func TestA05_AbsoluteEndpoint(t *testing.T) {
	s := newStub(t, Config{})
	svc := s.lab.open(1, EndpointConfig{Job: 50, PID: 9, Absolute: true, Initiator: 900})
	s.openBy(wire.TypeRUDReq)
	psn := int32(0)
	send := func(job uint32, op wire.Opcode, match uint64, data []byte) say {
		psn++
		h := message(op, uint16(psn), len(data))
		h.Flags &^= wire.SESRel
		h.JobID, h.PIDonFEP, h.MatchBits = job, 9, match
		return whole(psn, h, data)
	}
	for i, job := range []uint32{testJob, testJob + 1, 50} { // any
		mem := make([]byte, 10)
		s.by(svc, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem), Ctx: uint64(i)})
		s.taken(send(job, wire.OpSend, 0, fill(10, uint64(i))))
		if !bytes.Equal(mem, fill(10, uint64(i))) {
			t.Errorf("job %d: contents differ", job)
		}
	}
	s.want(1, Completion{Kind: OpRecv, Ctx: 0, Len: 10}, Completion{Kind: OpRecv, Ctx: 1, Len: 10}, Completion{Kind: OpRecv, Ctx: 2, Len: 10})
	mem := make([]byte, 10)
	s.by(svc, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Job: testJob, Buf: buf(mem), Ctx: 3})
	s.refused(send(testJob+1, wire.OpTaggedSend, 1, fill(10, 7)), wire.RCBadJobID)
	if !bytes.Equal(mem, make([]byte, 10)) || len(s.lab.got[1]) != 3 {
		t.Errorf("a message of another job had an effect: %+v", s.lab.got[1])
	}
	s.taken(send(testJob, wire.OpTaggedSend, 1, fill(10, 8)))
	if c := s.lab.last(1); c.Ctx != 3 || c.Err != nil || !bytes.Equal(mem, fill(10, 8)) {
		t.Errorf("%+v", c)
	}
	key, err := svc.RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteWrite, Job: testJob})
	if err != nil {
		t.Fatal(err)
	}
	s.refused(send(testJob+1, wire.OpWrite, key, fill(10, 9)), wire.RCBadMKey) // so that keys of other jobs cannot be probed
	if !bytes.Equal(mem, fill(10, 8)) {
		t.Error("another job wrote")
	}
	s.taken(send(testJob, wire.OpWrite, key, fill(10, 9)))
	// A service is not a process of a job, nor the other way round.
	h := message(wire.OpSend, 40, 0)
	h.PIDonFEP = 9
	s.refused(whole(psn+1, h, nil), wire.RCBadPID)
	h.Flags &^= wire.SESRel
	h.PIDonFEP = 1
	s.refused(whole(psn+2, h, nil), wire.RCBadPID)
}

// A06: an unknown process is BAD_PID, an unknown resource index of a known one BAD_INDEX, in each of the three spaces; the most
// specific code is given.
func TestA06_UnknownProcessOrIndex(t *testing.T) {
	s := newStub(t, Config{})
	s.lab.open(1, EndpointConfig{Job: testJob + 1, PID: 5})
	s.openBy(wire.TypeRUDReq)
	psn := int32(0)
	for _, op := range []wire.Opcode{wire.OpSend, wire.OpTaggedSend, wire.OpWrite, wire.OpRead, wire.OpAtomic} {
		for _, c := range []struct {
			job uint32
			pid uint16
			ri  uint16
			rc  wire.ReturnCode
		}{
			{testJob, 2, 15, wire.RCBadPID}, {testJob, 5, 15, wire.RCBadPID}, {testJob + 1, 1, 15, wire.RCBadPID}, {testJob, 0xFFF, 15, wire.RCBadPID},
			{testJob, 1, 14, wire.RCBadIndex}, {testJob, 1, 0, wire.RCBadIndex}, {testJob + 1, 5, 16, wire.RCBadIndex},
			{testJob + 2, 5, 16, wire.RCBadJobID}, {0, 1, 15, wire.RCBadJobID},
		} {
			psn++
			h := message(op, uint16(psn), 8)
			h.JobID, h.PIDonFEP, h.ResourceIndex = c.job, c.pid, c.ri
			p := whole(psn, h, fill(8, 1))
			if op == wire.OpAtomic {
				p.ext = &wire.AtomicFields{Op: wire.AtomicSum, Type: wire.AtomicUint64}
			}
			if op == wire.OpRead {
				p.payload = nil
			}
			s.refused(p, c.rc)
		}
	}
}

// A06: where there is no endpoint at all a message is UNDELIVERABLE. One that was closed a while ago is still known: DISABLED.
func TestA06_NobodyThere(t *testing.T) {
	s := newStub(t, Config{TargetIdle: time.Hour})
	s.openBy(wire.TypeRUDReq)
	s.eps[1].Close(s.lab.now())
	s.refused(whole(1, message(wire.OpSend, 1, 0), fill(10, 1)), wire.RCDisabled)
	s.wait(11_000_000_000)
	s.refused(whole(2, message(wire.OpSend, 2, 0), fill(10, 1)), wire.RCUndeliverable)
}

// A07: the same resource index means something else for RMA, for sends and for tagged sends: a write goes by its key, a send takes the
// next receive, a tagged send the one that matches.
func TestA07_IndexSpacesAreIndependent(t *testing.T) {
	s := newStub(t, Config{})
	ris := [3][3]uint16{{5, 6, 7}, {6, 7, 5}, {7, 5, 6}} // RMA, send, tagged
	var eps [3]*Endpoint
	var mem [3][3][]byte // endpoint; written, received, received tagged
	var keys [3]uint64
	for i, r := range ris {
		eps[i] = s.lab.open(1, EndpointConfig{Job: testJob, PID: 20, RMARI: r[0], SendRI: r[1], TagRI: r[2]})
		for k := range mem[i] {
			mem[i][k] = make([]byte, 10)
		}
		keys[i], _ = eps[i].RegisterMR(MR{Buf: buf(mem[i][0]), Access: mr.RemoteWrite, Key: uint64(70 + i)})
		s.by(eps[i], Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem[i][1]), Ctx: uint64(i)})
		s.by(eps[i], Op{Kind: OpTagRecv, Peer: AnySource, Tag: 3, Buf: buf(mem[i][2]), Ctx: uint64(10 + i)})
	}
	s.openBy(wire.TypeRUDReq)
	psn := int32(0)
	for ri, who := range map[uint16][3]int{5: {0, 2, 1}, 6: {1, 0, 2}, 7: {2, 1, 0}} {
		for k, op := range []wire.Opcode{wire.OpWrite, wire.OpSend, wire.OpTaggedSend} {
			psn++
			h := message(op, uint16(psn), 10)
			h.PIDonFEP, h.ResourceIndex, h.MatchBits = 20, ri, 3
			if op == wire.OpWrite {
				h.MatchBits = keys[who[k]]
			}
			data := fill(10, uint64(ri)*10+uint64(k))
			s.taken(whole(psn, h, data))
			if !bytes.Equal(mem[who[k]][k], data) {
				t.Errorf("%v to index %d did not reach endpoint %d", op, ri, who[k])
			}
			if op == wire.OpWrite { // the key alone does not do
				psn++
				h.MessageID, h.MatchBits = uint16(psn), keys[(who[k]+1)%3]
				s.refused(whole(psn, h, data), wire.RCBadMKey)
			}
		}
	}
}

// A08: two processes of a FEP share a PDC to the same peer, be it to one process there or to two. Another job has its own.
func TestA08_ProcessesShareAPDC(t *testing.T) {
	l := newLab(t, Config{})
	second, far := l.open(0, EndpointConfig{Job: testJob, PID: 7, Initiator: 107}), l.open(1, EndpointConfig{Job: testJob, PID: 8, Initiator: 108})
	other := l.open(0, EndpointConfig{Job: testJob + 1, PID: 7, Initiator: 207})
	otherFar := l.open(1, EndpointConfig{Job: testJob + 1, PID: 8, Initiator: 208})
	list := l.watch()
	froms, tos := []*Endpoint{l.eps[0], second, other}, []*Endpoint{l.eps[1], far, otherFar}
	for i, from := range froms {
		for j, to := range tos {
			if (i == 2) != (j == 2) {
				continue
			}
			at, err := from.Insert(to.Addr())
			if err != nil {
				t.Fatal(err)
			}
			l.by(to, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(make([]byte, 3000)), Ctx: uint64(i)})
			l.by(from, Op{Kind: OpTagSend, Peer: at, Tag: 1, Buf: buf(fill(3000, 1)), Ctx: uint64(j)})
			l.after(10_000)
		}
	}
	pdcs := map[uint16]map[uint32]bool{} // initiators
	for _, p := range requestsIn(*list, 0) {
		r, _ := p.request()
		h, err := wire.ParseSESStd(p.u[len(r):])
		if err != nil {
			t.Fatal(err)
		}
		if pdcs[r.SPDCID()] == nil {
			pdcs[r.SPDCID()] = map[uint32]bool{}
		}
		pdcs[r.SPDCID()][h.Initiator()] = true
	}
	if len(pdcs) != 2 || len(l.got[0]) != 5 || len(l.got[1]) != 5 || l.count(MsgsErr) != 0 {
		t.Fatalf("PDCs with their initiators %v, %d and %d completions", pdcs, len(l.got[0]), len(l.got[1]))
	}
	for id, who := range pdcs {
		if !(len(who) == 2 && who[100] && who[107]) && !(len(who) == 1 && who[207]) {
			t.Errorf("PDC %x is of %v", id, who)
		}
	}
}

// A09: a pair uses the highest profile that both have: the operations of a long tagged send show which.
func TestA09_HighestCommonProfile(t *testing.T) {
	if opProfiles[wire.OpRendezvousTSend] == 0 {
		t.Skip("deferrable and rendezvous sends are not built: nothing shows which of AI Full and HPC was chosen")
	}
	base := []wire.Opcode{wire.OpNoOp, wire.OpWrite, wire.OpRead, wire.OpAtomic, wire.OpFetchingAtomic, wire.OpSend, wire.OpMsgError}
	full := append(base[:len(base):len(base)], wire.OpTaggedSend, wire.OpDeferrableTSend, wire.OpDeferrableRTR)
	hpc := append(base[:len(base):len(base)], wire.OpTaggedSend, wire.OpRendezvousTSend)
	for _, c := range []struct {
		a, b  Profiles
		first wire.Opcode
		ops   []wire.Opcode
	}{
		{AIBase | AIFull, AIBase | AIFull | HPC, wire.OpDeferrableTSend, full},
		{AIBase | AIFull | HPC, AIBase | AIFull, wire.OpDeferrableTSend, full},
		{AIFull, AIFull | HPC, wire.OpDeferrableTSend, full},
		{AIBase | AIFull | HPC, AIBase | AIFull | HPC, wire.OpRendezvousTSend, hpc},
		{AIBase | HPC, AIFull | HPC, wire.OpRendezvousTSend, hpc},
		{AIBase, AIBase | AIFull | HPC, wire.OpSend, base},
		{AIBase | HPC, AIBase | AIFull, wire.OpSend, base},
	} {
		for _, late := range []bool{false, true} {
			l := newLabWith(t, Config{}, EndpointConfig{Profiles: c.a}, EndpointConfig{Profiles: c.b})
			list := l.watch()
			dst, src := make([]byte, 100_000), fill(100_000, 1)
			recv := func() { l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 1, Buf: buf(dst)}) }
			if !late {
				recv()
			}
			var err error
			l.call(0, l.now()+10, func(now vt.Time) {
				err = l.eps[0].Post(now, &Op{Kind: OpTagSend, Peer: 1, Tag: 1, Buf: buf(src)})
			})
			l.after(1_000_000)
			if late {
				recv()
			}
			l.settle()
			var first wire.Opcode
			for _, p := range append(requestsIn(*list, 0), requestsIn(*list, 1)...) {
				r, _ := p.request()
				if !r.Next().IsRequest() {
					continue
				}
				op := wire.SESHead(p.u[len(r):][:12]).Opcode()
				if !slices.Contains(c.ops, op) {
					t.Errorf("%b with %b: %v is not of their profile", c.a, c.b, op)
				}
				if first == 0 && p.from == 0 {
					first = op
				}
			}
			switch {
			case c.first == wire.OpSend && errors.Is(err, ErrUnsupported): // AI Base need not have tagged sends
			case err != nil || !bytes.Equal(src, dst) || l.count(MsgsErr) != 0 || first != c.first && c.first != wire.OpSend:
				t.Errorf("%b with %b: %v, begins with %v, at the sender %+v, at the target %+v", c.a, c.b, err, first, l.got[0], l.got[1])
			}
		}
	}
}

// A10: whom nothing is in common with is refused when its address is inserted, and no packet is sent.
func TestA10_NoCommonProfile(t *testing.T) {
	for _, c := range [][2]Profiles{{AIBase, AIFull}, {AIBase, HPC}, {AIBase, AIFull | HPC}, {HPC, AIBase}, {AIFull | HPC, AIBase}} {
		l := newLab(t, Config{})
		a, b := l.open(0, EndpointConfig{Job: testJob, PID: 30, Profiles: c[0]}), l.open(1, EndpointConfig{Job: testJob, PID: 30, Profiles: c[1]})
		list := l.watch()
		if _, err := a.Insert(b.Addr()); !errors.Is(err, ErrProfile) {
			t.Errorf("%v with %v: %v", c[0], c[1], err)
		}
		l.call(0, 1, func(now vt.Time) {
			if err := a.Post(now, &Op{Kind: OpSend, Peer: 0, Buf: buf(make([]byte, 10))}); !errors.Is(err, ErrPeer) {
				t.Errorf("%v with %v: send: %v", c[0], c[1], err)
			}
		})
		l.run(vt.Time(time.Second))
		if len(*list) != 0 || len(l.got[0]) != 0 {
			t.Errorf("%v with %v: %d packets, completions %+v", c[0], c[1], len(*list), l.got[0])
		}
	}
}

// A13: AI Full has no wildcards: a receive with bits to ignore is refused, and takes nothing. HPC has them.
func TestA13_NoWildcardsInAIFull(t *testing.T) {
	for _, p := range []Profiles{AIFull, AIBase | AIFull, AIBase | AIFull | HPC, HPC} {
		l := newLabWith(t, Config{Profiles: p}, EndpointConfig{}, EndpointConfig{})
		q := l.feps[1].OpenRecvQueue(0, nil)
		var want error
		if p&HPC == 0 {
			want = ErrWildcard
		}
		mem := make([]byte, 10)
		l.call(1, l.now()+1, func(now vt.Time) {
			for _, ignore := range []uint64{1, 1 << 63, ^uint64(0)} {
				op := Op{Kind: OpTagRecv, Peer: AnySource, Tag: 4, Ignore: ignore, Buf: buf(mem)}
				if err := l.eps[1].Post(now, &op); !errors.Is(err, want) {
					t.Errorf("profiles %v, ignore %x: %v", p, ignore, err)
				}
				if err := q.Post(now, &op); !errors.Is(err, want) {
					t.Errorf("profiles %v, ignore %x in a shared queue: %v", p, ignore, err)
				}
			}
		})
		l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 5, Buf: buf(fill(10, 1))})
		l.after(100_000)
		if wild := bytes.Equal(mem, fill(10, 1)); wild != (want == nil) {
			t.Errorf("profiles %v: tag 5 reached the receive for 4 without bit 0: %v", p, wild)
		}
	}
}

// A14: a peer whose packets have another size is refused when its address is inserted; one that does not say is taken.
func TestA14_OtherPayloadMTU(t *testing.T) {
	l := newLab(t, Config{PayloadMTU: 2048})
	list := l.watch()
	for mtu, want := range map[int]error{0: nil, 1024: ErrMTU, 2048: nil, 4096: ErrMTU, 8192: ErrMTU} {
		a := l.eps[1].Addr()
		if a.PayloadMTU != 2048 {
			t.Errorf("the address says %d", a.PayloadMTU)
		}
		a.PayloadMTU = mtu
		if _, err := l.eps[0].Insert(a); !errors.Is(err, want) {
			t.Errorf("%d: %v", mtu, err)
		}
	}
	l.run(vt.Time(time.Second))
	if len(*list) != 0 {
		t.Errorf("%d packets", len(*list))
	}
}
