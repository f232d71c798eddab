package fep

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// refusals are the RC of error responses that node 1 gave, in order.
func refusals(t testing.TB, list []passed) (rcs []wire.ReturnCode) {
	for _, p := range list {
		if a, ok := p.ack(); ok && p.from == 1 && a.Next() == wire.NextResponse {
			if r := parseSaid(t, p.u); r.rc > wire.RCOK {
				rcs = append(rcs, r.rc)
			}
		}
	}
	return rcs
}

// H13: a message without a receive is sent again as a new one, with a new message ID, after 50 to 100 ms, then twice as long each time;
// at most 5 times. If a receive is posted meanwhile it gets through.
func TestH13_Restarts(t *testing.T) {
	for late := range 7 { // the receive is there for the late-th try; 6: never
		l := newLab(t, Config{MaxRestarts: 5, IdleClose: time.Minute})
		list := l.watch()
		src, dst := fill(100, 1), make([]byte, 100)
		l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 1, Buf: buf(src), Ctx: 3})
		for try := 0; try < late && l.step(vt.Never); try = len(refusals(t, *list)) {
			if len(l.got[0]) > 0 {
				break
			}
		}
		if late < 6 {
			l.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(dst), Ctx: 4})
		}
		l.settle()
		hs, _ := stdsIn(*list)
		tries := min(late, 5) + 1
		if len(hs) != tries || len(l.got[0]) != 1 || l.count(Restarts) != tries-1 {
			t.Fatalf("receive for try %d: %d messages, %d completions", late, len(hs), len(l.got[0]))
		}
		ids := map[uint16]bool{}
		sent := requestsIn(*list, 0)
		var first time.Duration
		for i, h := range hs {
			ids[h.MessageID()] = true
			if i == 0 {
				continue
			}
			wait := sent[i].at.Sub(sent[i-1].at)
			if i == 1 {
				first = wait
			}
			if want := first << (i - 1); wait < want-time.Millisecond || wait > want+time.Millisecond || first < 50*time.Millisecond || first > 101*time.Millisecond {
				t.Errorf("restart %d after %v, the first after %v", i, wait, first)
			}
		}
		ok := l.got[0][0].Err == nil
		if len(ids) != tries || ok != (late < 6) || ok != bytes.Equal(src, dst) || !ok && code(l.got[0][0].Err) != wire.RCNoMatch {
			t.Errorf("receive for try %d: %d IDs, %+v", late, len(ids), l.got[0])
		}
	}
}

// H14: a message that is refused while packets of it are still to be sent ends with MSG_ERROR: ie and EOM, no payload, the offset so
// far, on the PDC and with the ID of the message. Then it restarts as a new one.
func TestH14_MessageError(t *testing.T) {
	const n = 400 * 1024
	l := newLabWith(t, Config{PayloadMTU: 1024, MaxRestarts: 5}, EndpointConfig{Ordered: true}, EndpointConfig{}) // no deferrable send
	list := l.watch()
	src, dst := fill(n, 1), make([]byte, n)
	l.post(0, Op{Kind: OpSend, Peer: 1, Buf: buf(src), Ctx: 1})
	l.after(1_000_000)
	l.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(dst), Ctx: 2})
	l.settle()
	hs, payload := stdsIn(*list)
	sent, first, pdc := 0, hs[0].MessageID(), uint16(0)
	var end wire.SESStd
	for i, p := range requestsIn(*list, 0) {
		r, _ := p.request()
		h := hs[i]
		switch {
		case h.MessageID() != first:
		case h.Head().Opcode() == wire.OpMsgError:
			if end != nil && !r.RETX() {
				t.Error("a second MSG_ERROR")
			}
			end = h
			if int(h.MessageOffset()) != sent || payload[i] != 0 || !h.Head().IE() || !h.Head().EOM() || h.Head().SOM() || r.SPDCID() != pdc {
				t.Errorf("MSG_ERROR at %d with %d bytes, flags %x, on PDC %x; %d bytes were sent on %x", h.MessageOffset(), payload[i], h.Head().Flags(),
					r.SPDCID(), sent, pdc)
			}
		case end != nil && !r.RETX():
			t.Error("a packet of the message behind its MSG_ERROR")
		case !r.RETX():
			sent += payload[i]
			pdc = r.SPDCID()
		}
	}
	if end == nil || sent == 0 || sent >= n {
		t.Fatalf("%d of %d bytes were sent, MSG_ERROR: %v", sent, n, end != nil)
	}
	l.want(0, Completion{Kind: OpSend, Ctx: 1, Len: n})
	l.want(1, Completion{Kind: OpRecv, Ctx: 2, Len: n})
	if !bytes.Equal(src, dst) || l.feps[1].rx.n != 0 || l.count(Restarts) == 0 {
		t.Errorf("contents differ, %d contexts left, %d restarts", l.feps[1].rx.n, l.count(Restarts))
	}
}

// visible is memory whose user sees what was pushed.
type visible struct {
	pushed  int
	pulled  int
	failOn  int // pull of this offset and beyond fails; 0: none
	failing error
}

func (v *visible) Pull(off, n int) error {
	v.pulled += n
	if v.failOn > 0 && off+n > v.failOn {
		return v.failing
	}
	return nil
}

func (v *visible) Push(_, n int) error {
	v.pushed += n
	return nil
}

// H15: the response that completes a message with dc is given when its data can be seen at the target.
func TestH15_DeliveryComplete(t *testing.T) {
	for _, kind := range []Kind{OpSend, OpWrite} {
		const n = 5000
		l := newLab(t, Config{PayloadMTU: 1024, AckEvery: true})
		v := &visible{}
		dst, src := make([]byte, n), fill(n, 1)
		key, _ := l.eps[1].RegisterMR(MR{Buf: Buffer{B: dst, Sync: v}, Access: mr.RemoteWrite})
		l.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: Buffer{B: dst, Sync: v}})
		seen, asked := -1, 0
		l.tap = func(_ vt.Time, from int, b []byte) {
			u := firstUET(b)
			if r, err := wire.ParseRequest(u); err == nil && from == 0 && requests(0, u) {
				if !wire.SESHead(u[len(r):][:12]).DC() {
					t.Errorf("%v: a packet without dc", kind)
				}
				asked++
			} else if from == 1 && acks(1, u) {
				if a := parseSaid(t, u); a.op == wire.RespResponse && a.next == wire.NextResponse {
					seen = v.pushed
				}
			}
		}
		l.post(0, Op{Kind: kind, Peer: 1, Key: key, Flags: FlagDeliveryComplete, Buf: buf(src)})
		l.after(100_000)
		if seen != n || asked != 5 || len(l.got[0]) != 1 || l.got[0][0].Err != nil || !bytes.Equal(src, dst) {
			t.Errorf("%v: %d of %d bytes could be seen when the response was given; %d packets, %+v", kind, seen, n, asked, l.got[0])
		}
	}
}

// H16 at a target: nothing of a packet with ie is written; the answer is INITIATOR_ERROR, and the receive completes in error.
func TestH16_InitiatorErrorAtTheTarget(t *testing.T) {
	for _, which := range []int{0, 1, 2} {
		s := newStub(t, Config{PayloadMTU: 1024})
		mem, data := make([]byte, 3000), fill(3000, 1)
		s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem), Ctx: 6})
		s.openBy(wire.TypeRUDReq)
		for i := range 3 {
			p := part(int32(i)+1, message(wire.OpSend, 2, 0), data, i)
			switch {
			case i < which:
				s.partial(p)
			case i == which:
				p.h.Flags |= wire.SESIE
				s.refused(p, wire.RCInitiatorError)
			default:
				if a := s.ask(p); a.rc != wire.RCInitiatorError && a.rc != wire.RCDropped {
					t.Errorf("packet %d behind it: %v", i, a.rc)
				}
			}
		}
		s.want(1, Completion{Kind: OpRecv, Ctx: 6, Err: &ResponseError{}})
		n := which * 1024
		if code(s.lab.got[1][0].Err) != wire.RCInitiatorError || !bytes.Equal(mem[:n], data[:n]) || !bytes.Equal(mem[n:], make([]byte, 3000-n)) {
			t.Errorf("ie in packet %d: %v, or memory was written", which, s.lab.got[1][0].Err)
		}
	}
}

// H16 at both ends: the memory of a sender fails when some packets have left; both ends complete in error, and what could not be read
// is not written.
func TestH16_InitiatorErrorAtBothEnds(t *testing.T) {
	for _, failOn := range []int{1, 2000, 40_000} {
		l := newLab(t, Config{PayloadMTU: 1024})
		list := l.watch()
		const n = 50 * 1024
		src := Buffer{B: fill(n, 1), Sync: &visible{failOn: failOn, failing: errors.New("poisoned")}}
		dst := bytes.Repeat([]byte{0xEE}, n)
		l.eps[0].SetOrdered(true)
		l.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(dst), Ctx: 1})
		l.post(0, Op{Kind: OpSend, Peer: 1, Buf: src, Ctx: 2})
		l.settle()
		ie := 0
		hs, _ := stdsIn(*list)
		for _, h := range hs {
			if h.Head().IE() {
				ie++
			}
		}
		good := (failOn - 1) / 1024 * 1024
		if ie == 0 || len(l.got[0]) != 1 || len(l.got[1]) != 1 || l.got[0][0].Err == nil || l.got[1][0].Err == nil {
			t.Fatalf("from byte %d: %d packets with ie, completions %+v, %+v", failOn, ie, l.got[0], l.got[1])
		}
		if !errors.Is(l.got[0][0].Err, ErrMemory) && code(l.got[0][0].Err) != wire.RCInitiatorError {
			t.Errorf("from byte %d: the sender's error is %v", failOn, l.got[0][0].Err)
		}
		for i, b := range dst {
			if b != 0xEE && (b != src.B[i] || i >= good) {
				t.Fatalf("from byte %d: byte %d was written", failOn, i)
			}
		}
	}
}

// H17: the first error of a message is the answer to its later packets, too, whatever they are; the target hears of it once.
func TestH17_StickyError(t *testing.T) {
	s := newStub(t, Config{PayloadMTU: 1024})
	mem, data := make([]byte, 5000), fill(5000, 1)
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(mem), Ctx: 6})
	s.openBy(wire.TypeRUDReq)
	h := message(wire.OpTaggedSend, 2, 0)
	h.MatchBits = 1
	s.partial(part(1, h, data, 0))
	p := part(2, h, data, 1)
	p.h.BufferOffset = 99
	s.refused(p, wire.RCOpViolation)
	for i := 2; i < 5; i++ {
		p := part(int32(i)+1, h, data, i)
		if i == 3 {
			p.h.Flags |= wire.SESIE // another error
		}
		if a := s.ask(p); a.rc != wire.RCOpViolation && a.rc != wire.RCDropped || a.mid != 2 {
			t.Errorf("packet %d: %v", i, a.rc)
		}
	}
	s.want(1, Completion{Kind: OpTagRecv, Ctx: 6, Err: &ResponseError{}})
	if !bytes.Equal(mem[1024:], make([]byte, 5000-1024)) {
		t.Error("data was placed behind the error")
	}
	// Without a receive: what is posted meanwhile is for others.
	h.MessageID, h.MatchBits = 3, 5
	s.refused(part(11, h, data, 0), wire.RCNoMatch)
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 5, Buf: buf(mem), Ctx: 7})
	for i := 1; i < 5; i++ {
		if a := s.ask(part(int32(i)+11, h, data, i)); a.rc != wire.RCNoMatch && a.rc != wire.RCDropped {
			t.Errorf("packet %d without receive: %v", i, a.rc)
		}
	}
	if len(s.lab.got[1]) != 1 || s.feps[1].rx.n != 0 {
		t.Errorf("completions %+v, %d contexts left", s.lab.got[1], s.feps[1].rx.n)
	}
}

// H18: a message that falls silent in the middle is given up after 5 s: the receive completes in error, the context is gone.
func TestH18_SilentMessage(t *testing.T) {
	s := newStub(t, Config{PayloadMTU: 1024, TargetIdle: time.Hour})
	mem, data := make([]byte, 3000), fill(3000, 1)
	s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem), Ctx: 6})
	s.openBy(wire.TypeRUDReq)
	h := message(wire.OpSend, 2, 0)
	s.partial(part(1, h, data, 0))
	s.wait(4_000_000_000)
	s.partial(part(3, h, data, 2)) // begins the time anew
	s.wait(4_900_000_000)
	if len(s.lab.got[1]) != 0 || s.feps[1].rx.n != 1 {
		t.Fatalf("given up before its time: %+v", s.lab.got[1])
	}
	s.wait(200_000_000)
	s.want(1, Completion{Kind: OpRecv, Ctx: 6, Err: ErrAborted})
	if s.feps[1].rx.n != 0 {
		t.Errorf("%d contexts left", s.feps[1].rx.n)
	}
	before := append([]byte(nil), mem...)
	if a := s.ask(part(2, h, data, 1)); a.rc <= wire.RCOK {
		t.Errorf("the missing packet was answered %v", a.rc)
	}
	if !bytes.Equal(before, mem) || len(s.lab.got[1]) != 1 {
		t.Error("the missing packet had an effect")
	}
}

// H19: another ses.version is UNCOR, before anything else is looked at.
func TestH19_Version(t *testing.T) {
	s := newStub(t, Config{})
	mem := make([]byte, 10)
	key := s.eps[1].Register(mem)
	s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem)})
	s.openBy(wire.TypeRUDReq)
	psn := int32(0)
	for v := uint8(1); v < 4; v++ {
		for _, op := range []wire.Opcode{wire.OpSend, wire.OpWrite, wire.OpNoOp, wire.OpMsgError, 0x3F} {
			psn++
			h := message(op, uint16(psn), 10)
			h.MatchBits = key
			if v == 2 {
				h.JobID, h.PIDonFEP = 99, 99
			}
			p := whole(psn, h, fill(10, 1))
			p.version = v
			s.refused(p, wire.RCUncor)
		}
	}
	if len(s.lab.got[1]) != 0 || !bytes.Equal(mem, make([]byte, 10)) {
		t.Errorf("they had an effect: %+v", s.lab.got[1])
	}
	h := message(wire.OpWrite, 99, 10)
	h.MatchBits = key
	s.taken(whole(psn+1, h, fill(10, 1)))
}

// H20: without a context for another message its packets are refused by packet delivery; when there is one again they are taken.
func TestH20_NoDescriptor(t *testing.T) {
	s := newStub(t, Config{PayloadMTU: 1024, MaxMessages: 1})
	mem, data := make([]byte, 2000), fill(2000, 1)
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(mem), Ctx: 1})
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 2, Buf: buf(make([]byte, 10)), Ctx: 2})
	s.openBy(wire.TypeRUDReq)
	a, b := message(wire.OpTaggedSend, 2, 0), message(wire.OpTaggedSend, 3, 10)
	a.MatchBits, b.MatchBits = 1, 2
	s.partial(part(1, a, data, 0))
	s.say(whole(3, b, fill(10, 2)))
	if s.lastNack().Code() != wire.NackNoSESMsgAvail || s.lastNack().PSN() != s.start+3 {
		t.Fatalf("%v", s.lastNack().Code())
	}
	s.taken(part(2, a, data, 1)) // a message that has begun goes on
	p := whole(3, b, fill(10, 2))
	p.flags = wire.ReqRETX
	s.taken(p)
	s.want(1, Completion{Kind: OpTagRecv, Ctx: 1, Len: 2000}, Completion{Kind: OpTagRecv, Ctx: 2, Len: 10})
}

// H22 at a target: after a message of an ordered stream found no receive, those behind it are DISABLED_GEN until one is posted, which
// makes the generation the next; then messages of the old one are BAD_GENERATION, with the current one.
func TestH22_GenerationAtTheTarget(t *testing.T) {
	s := newStub(t, Config{})
	mem := make([]byte, 10)
	s.openBy(wire.TypeRODReq)
	psn := int32(0)
	send := func(gen uint8) say {
		psn++
		h := message(wire.OpSend, uint16(psn), 10)
		h.RIGeneration = gen
		p := whole(psn, h, fill(10, uint64(psn)))
		p.typ = wire.TypeRODReq
		return p
	}
	for round := range 300 { // wraps
		gen := uint8(round)
		if a := s.ask(send(gen)); a.rc != wire.RCNoMatch && a.rc != wire.RCDisabledGen || !a.gtd {
			t.Fatalf("round %d: %v", round, a.rc)
		}
		s.refused(send(gen), wire.RCDisabledGen)
		s.refused(send(gen+1), wire.RCDisabledGen)
		s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem), Ctx: uint64(round)})
		if a := s.refused(send(gen), wire.RCBadGeneration); a.gen != gen+1 {
			t.Fatalf("round %d: the response names generation %d", round, a.gen)
		}
		s.taken(send(gen + 1))
		if !bytes.Equal(mem, fill(10, uint64(psn))) || len(s.lab.got[1]) != round+1 {
			t.Fatalf("round %d: %+v", round, s.lab.got[1])
		}
	}
}

// H22: each packet of a message with the old generation is answered with the current one, not with its own: the answer to the first may
// be lost, and then a later one is the first that the sender hears.
func TestH22_EachPacketNamesTheGeneration(t *testing.T) {
	s := newStub(t, Config{PayloadMTU: 1024})
	s.openBy(wire.TypeRODReq)
	data := fill(3000, 1)
	send := func(psn int32, mid uint16, gen uint8, i int) reply {
		h := message(wire.OpTaggedSend, mid, 0)
		h.RIGeneration, h.MatchBits = gen, 1
		p := part(psn, h, data, i)
		p.typ = wire.TypeRODReq
		return s.ask(p)
	}
	for i := range 3 {
		if a := send(int32(1+i), 2, 0, i); a.rc != wire.RCNoMatch {
			t.Fatalf("packet %d: %v", i, a.rc)
		}
	}
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(make([]byte, 3000)), Ctx: 1})
	for i := range 3 {
		if a := send(int32(4+i), 3, 0, i); a.rc != wire.RCBadGeneration || a.gen != 1 || a.gtd != (i == 0) {
			t.Errorf("packet %d: %v, generation %d, guaranteed %v", i, a.rc, a.gen, a.gtd)
		}
	}
}

// H22 between two ends: 20 messages of an ordered stream, whose receives come late and one by one, arrive each once and in order.
func TestH22_OrderSurvivesExhaustion(t *testing.T) {
	const n = 20
	for _, kind := range []Kind{OpSend, OpTagSend} {
		l := newLabWith(t, Config{MaxRestarts: InfiniteRestarts, IdleClose: time.Minute}, EndpointConfig{Ordered: true}, EndpointConfig{})
		list := l.watch()
		l.call(0, 1, func(now vt.Time) {
			for i := range n {
				if err := l.eps[0].Post(now, &Op{Kind: kind, Peer: 1, Tag: 7, Buf: buf(fill(100+i*500, uint64(i))), Ctx: uint64(i)}); err != nil {
					t.Error(err)
				}
			}
		})
		mem := make([][]byte, n)
		at := vt.Time(30_000_000)
		for i := range mem {
			mem[i] = make([]byte, 20_000)
			rk := OpRecv
			if kind == OpTagSend {
				rk = OpTagRecv
			}
			l.call(1, at, func(now vt.Time) {
				_ = l.eps[1].Post(now, &Op{Kind: rk, Peer: AnySource, Tag: 7, Buf: buf(mem[i]), Ctx: uint64(i)})
			})
			at += []vt.Time{0, 70_000_000, 1_000, 300_000_000}[i%4]
		}
		l.run(vt.Time(10 * time.Minute))
		if len(l.got[0]) != n || len(l.got[1]) != n {
			t.Fatalf("%v: %d and %d completions", kind, len(l.got[0]), len(l.got[1]))
		}
		for i := range n {
			if c := l.got[1][i]; c.Ctx != uint64(i) || c.Len != 100+i*500 || c.Err != nil || !bytes.Equal(mem[i][:c.Len], fill(c.Len, uint64(i))) || l.got[0][i].Err != nil ||
				l.got[0][i].Ctx != uint64(i) {
				t.Errorf("%v: message %d: %+v, at the sender %+v", kind, i, c, l.got[0][i])
			}
		}
		seen := map[wire.ReturnCode]int{}
		for _, rc := range refusals(t, *list) {
			seen[rc]++
		}
		hs, _ := stdsIn(*list)
		last := hs[len(hs)-1].Head().RIGeneration()
		if seen[wire.RCDisabledGen] == 0 || seen[wire.RCBadGeneration] == 0 || len(seen) > 3 || last == 0 {
			t.Errorf("%v: refused with %v, the last generation is %d", kind, seen, last)
		}
	}
}

// H23: the generations of tagged and untagged sends are apart from each other, and neither is any business of RUD or of RMA.
func TestH23_GenerationsAreIndependent(t *testing.T) {
	s := newStub(t, Config{})
	mem := make([]byte, 10)
	key := s.eps[1].Register(mem)
	s.openBy(wire.TypeRODReq)
	psn := int32(0)
	send := func(op wire.Opcode, tag uint64, gen uint8) say {
		psn++
		h := message(op, uint16(psn), 10)
		h.RIGeneration, h.MatchBits = gen, tag
		p := whole(psn, h, fill(10, 1))
		p.typ = wire.TypeRODReq
		return p
	}
	s.refused(send(wire.OpSend, 0, 0), wire.RCNoMatch)
	s.refused(send(wire.OpSend, 0, 0), wire.RCDisabledGen)
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(mem), Ctx: 1})
	s.taken(send(wire.OpTaggedSend, 1, 0)) // tagged is as it was, and its receive changes nothing for untagged
	s.refused(send(wire.OpSend, 0, 0), wire.RCDisabledGen)
	s.taken(send(wire.OpWrite, key, 0))
	s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem), Ctx: 2})
	if a := s.refused(send(wire.OpSend, 0, 0), wire.RCBadGeneration); a.gen != 1 {
		t.Errorf("generation %d", a.gen)
	}
	s.taken(send(wire.OpSend, 0, 1))
	if a := s.refused(send(wire.OpTaggedSend, 1, 1), wire.RCBadGeneration); a.gen != 0 {
		t.Errorf("generation %d of tagged sends", a.gen)
	}
	s.refused(send(wire.OpTaggedSend, 1, 0), wire.RCNoMatch)
	s.refused(send(wire.OpTaggedSend, 1, 0), wire.RCDisabledGen)
	s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem), Ctx: 3})
	s.refused(send(wire.OpTaggedSend, 1, 0), wire.RCDisabledGen)
	s.taken(send(wire.OpSend, 0, 1))
	s.taken(send(wire.OpWrite, key, 0))
}

// H20: a packet of which the messages that have begun wait gets a context even if there is none left: where MP_RANGE lets nothing beyond it
// be sent, and where it is the gap below a response that is kept while there is no room for others.
func TestH20_NoDescriptorForAGap(t *testing.T) {
	s := newStub(t, Config{PayloadMTU: 1024, MaxMessages: 1, MPR: 1})
	const long = 200 * 1024
	mem, data := make([]byte, long), fill(long, 1)
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(mem), Ctx: 1})
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 2, Buf: buf(make([]byte, 10)), Ctx: 2})
	s.openBy(wire.TypeRUDReq)
	a, b := message(wire.OpTaggedSend, 2, 0), message(wire.OpTaggedSend, 3, 10)
	a.MatchBits, b.MatchBits = 1, 2
	last := int32(wire.MPRUnit) // with CACK at PSN 0
	for i := int32(2); i <= last; i++ {
		s.partial(part(i, a, data, int(i-2)))
		if i == last-1 {
			s.say(whole(1, b, fill(10, 2)))
			if s.lastNack().Code() != wire.NackNoSESMsgAvail {
				t.Fatalf("with room in MP_RANGE: %v", s.lastNack().Code())
			}
		}
	}
	p := whole(1, b, fill(10, 2))
	p.flags = wire.ReqRETX
	s.taken(p)
	s.partial(part(last+1, a, data, int(last-1)))

	s = newStub(t, Config{PayloadMTU: 1024, MaxMessages: 1, GtdSlots: 1})
	s.openBy(wire.TypeRUDReq)
	s.say(whole(4, message(wire.OpTaggedSend, 4, 10), fill(10, 2))) // NO_MATCH, which must not be lost
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(mem), Ctx: 1})
	s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 2, Buf: buf(make([]byte, 10)), Ctx: 2})
	if s.count(GtdInUse) != 1 {
		t.Fatalf("%d responses are kept", s.count(GtdInUse))
	}
	s.partial(part(1, a, data, 0)) // holds the context
	s.say(part(3, a, data, 1))
	if s.lastNack().Code() != wire.NackNoGtdDelAvail {
		t.Fatalf("without room for responses: %v", s.lastNack().Code())
	}
	s.taken(whole(2, b, fill(10, 2)))
	s.partial(part(3, a, data, 1))
}
