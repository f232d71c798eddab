package fep

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// stdsIn are the standard headers of requests of node 0, with the bytes of payload behind each.
func stdsIn(list []passed) (hs []wire.SESStd, payload []int) {
	for _, p := range requestsIn(list, 0) {
		r, _ := p.request()
		if h, err := wire.ParseSESStd(p.u[len(r):]); err == nil {
			hs = append(hs, h)
			payload = append(payload, len(p.u)-len(r)-len(h))
		}
	}
	return hs, payload
}

// H01: all packets of a message but the last are full; the first has SOM, the last EOM; each says how long the message is; nothing is
// one packet, too.
func TestH01_Segmentation(t *testing.T) {
	const mtu = 1024
	for _, kind := range []Kind{OpSend, OpTagSend, OpWrite} {
		for _, n := range []int{0, 1, mtu - 1, mtu, mtu + 1, 10 * mtu} {
			l := newLab(t, Config{PayloadMTU: mtu})
			list := l.watch()
			src, dst := fill(n, uint64(n)), make([]byte, n)
			key := l.eps[1].Register(dst)
			if kind == OpSend {
				l.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(dst)})
			} else {
				l.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 9, Buf: buf(dst)})
			}
			l.post(0, Op{Kind: kind, Peer: 1, Tag: 9, Key: key, Buf: buf(src)})
			l.after(100_000)
			hs, payload := stdsIn(*list)
			if want := max(1, (n+mtu-1)/mtu); len(hs) != want {
				t.Fatalf("%v of %d bytes: %d packets, want %d", kind, n, len(hs), want)
			}
			for i, h := range hs {
				first, last := i == 0, i == len(hs)-1
				size := mtu
				if last {
					size = n - i*mtu
				}
				if h.Head().SOM() != first || h.Head().EOM() != last || int(h.RequestLength()) != n || payload[i] != size ||
					!first && (int(h.MessageOffset()) != i*mtu || int(h.PayloadLength()) != size) || h.MessageID() != hs[0].MessageID() {
					t.Errorf("%v of %d bytes, packet %d: SOM %v, EOM %v, %d of %d bytes at %d", kind, n, i, h.Head().SOM(), h.Head().EOM(), payload[i],
						h.RequestLength(), h.MessageOffset())
				}
			}
			if l.count(MsgsErr) != 0 || l.last(0).Len != n || !bytes.Equal(src, dst) {
				t.Errorf("%v of %d bytes: %+v", kind, n, l.last(0))
			}
		}
	}
}

// H02: a message is complete when all its packets are in, in whatever order they come.
func TestH02_AnyOrderOfPackets(t *testing.T) {
	const seed, n = 2, 7*1024 + 300
	r := rand.New(rand.NewPCG(seed, 0))
	orders := [][]int{{7, 0, 1, 2, 3, 4, 5, 6}, {7, 6, 5, 4, 3, 2, 1, 0}, {1, 2, 3, 4, 5, 6, 7, 0}}
	for range 30 {
		orders = append(orders, r.Perm(8))
	}
	for k, order := range orders {
		for _, op := range []wire.Opcode{wire.OpSend, wire.OpTaggedSend, wire.OpWrite} {
			s := newStub(t, Config{PayloadMTU: 1024})
			mem := make([]byte, n)
			h := message(op, 2, n)
			h.MatchBits = s.eps[1].Register(mem)
			s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem)})
			s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: h.MatchBits, Buf: buf(mem)})
			s.openBy(wire.TypeRUDReq)
			data := fill(n, uint64(k))
			for i, at := range order {
				p := part(int32(at)+1, h, data, at)
				if i == len(order)-1 {
					s.taken(p)
					break
				}
				s.partial(p)
				if len(s.lab.got[1]) != 0 || s.feps[1].C[MsgsRx] != 1 {
					t.Fatalf("%v in the order %v: complete after %d packets", op, order, i+1)
				}
			}
			if s.feps[1].C[MsgsRx] != 2 || s.feps[1].rx.n != 0 || !bytes.Equal(mem, data) || op != wire.OpWrite && len(s.lab.got[1]) != 1 {
				t.Errorf("%v in the order %v: contents differ, or completions %+v", op, order, s.lab.got[1])
			}
		}
	}
}

// H03: completion data, which is in the first packet, is delivered though that packet comes last.
func TestH03_DataOfALateFirstPacket(t *testing.T) {
	for _, op := range []wire.Opcode{wire.OpSend, wire.OpTaggedSend, wire.OpWrite} {
		s := newStub(t, Config{PayloadMTU: 1024})
		mem := make([]byte, 2500)
		h := message(op, 2, 0)
		h.MatchBits = s.eps[1].Register(mem)
		h.Flags |= wire.SESHD
		h.HeaderData = 0xDEADBEEF01020304
		s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem)})
		s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: h.MatchBits, Buf: buf(mem)})
		s.openBy(wire.TypeRUDReq)
		data := fill(2500, 3)
		for _, i := range []int{2, 1} {
			p := part(int32(i)+1, h, data, i)
			p.h.Flags &^= wire.SESHD
			s.partial(p)
		}
		if len(s.lab.got[1]) != 0 {
			t.Fatalf("%v: complete without the first packet", op)
		}
		s.taken(part(1, h, data, 0))
		want := map[wire.Opcode]Kind{wire.OpSend: OpRecv, wire.OpTaggedSend: OpTagRecv, wire.OpWrite: OpRemoteWrite}[op]
		c := s.lab.last(1)
		if len(s.lab.got[1]) != 1 || c.Kind != want || c.Data != h.HeaderData || c.Flags&FlagData == 0 || c.Len != 2500 || c.Err != nil || !bytes.Equal(mem, data) {
			t.Errorf("%v: %+v", op, s.lab.got[1])
		}
	}
}

// H04: no two outstanding messages have the same message ID, and none has 0 or 0xFFFF: over many more messages than a short range of
// IDs, which begins before the end.
func TestH04_MessageIDs(t *testing.T) {
	const n = 3000
	l := newLab(t, Config{})
	l.feps[0].mids.next = 0xFE00
	for i := range n {
		_ = l.eps[1].TagRecv(0, AnySource, make([]byte, 8), uint64(i), 0)
	}
	owner, of := map[uint16]uint64{}, map[uint64]uint16{}
	least, most := uint16(0xFFFF), uint16(0)
	l.tap = func(_ vt.Time, from int, b []byte) {
		u := firstUET(b)
		if r, err := wire.ParseRequest(u); err == nil && from == 0 && requests(0, u) {
			h, err := wire.ParseSESStd(u[len(r):])
			if err != nil {
				t.Fatal(err)
			}
			id := h.MessageID()
			if who, ok := owner[id]; id == 0 || id == 0xFFFF || ok && who != h.MatchBits() {
				t.Errorf("message %d has ID %#x, which is that of message %d", h.MatchBits(), id, who)
			}
			owner[id], of[h.MatchBits()] = h.MatchBits(), id
			least, most = min(least, id), max(most, id)
		}
	}
	posted := 0
	more := func(now vt.Time) {
		for ; posted < n && posted-len(l.got[0]) < 700; posted++ {
			if err := l.eps[0].TagSend(now, 1, make([]byte, 8), uint64(posted), uint64(posted)); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.call(0, 1, more)
	done := 0
	for done < n && l.step(vt.Never) {
		for ; done < len(l.got[0]); done++ {
			c := l.got[0][done]
			if c.Err != nil {
				t.Fatalf("%+v", c)
			}
			delete(owner, of[c.Ctx])
		}
		if posted < n && posted-done < 350 {
			l.call(0, l.nodes[0].Now(), more)
			l.step(vt.Never)
		}
	}
	if done != n || least > 2 || most < 0xFFF0 {
		t.Errorf("%d messages, IDs %#x to %#x", done, least, most)
	}
}

// H05: packets of a message that say different things of it are a violation, and the message fails.
func TestH05_InconsistentPackets(t *testing.T) {
	for name, edit := range map[string]func(*say){
		"longer":        func(p *say) { p.h.RequestLength += 100; p.h.Flags &^= wire.SESEOM },
		"shorter":       func(p *say) { p.h.RequestLength -= 100; p.payload = p.payload[:924]; p.h.PayloadLength = 924 },
		"opcode":        func(p *say) { p.h.Opcode = wire.OpSend },
		"buffer_offset": func(p *say) { p.h.BufferOffset = 8 },
		"index":         func(p *say) { p.h.ResourceIndex = 14 },
	} {
		s := newStub(t, Config{PayloadMTU: 1024})
		mem := make([]byte, 4096)
		s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 4, Buf: buf(mem), Ctx: 7})
		s.openBy(wire.TypeRUDReq)
		h := message(wire.OpTaggedSend, 2, 0)
		h.MatchBits = 4
		data := fill(2048, 1)
		s.partial(part(1, h, data, 0))
		p := part(2, h, data, 1)
		edit(&p)
		s.refused(p, wire.RCOpViolation)
		s.want(1, Completion{Kind: OpTagRecv, Ctx: 7, Err: &ResponseError{}})
		if got := code(s.lab.got[1][0].Err); got != wire.RCOpViolation || !bytes.Equal(mem[1024:], make([]byte, 3072)) {
			t.Errorf("%s: %v at the target", name, got)
		}
	}
}

// H06: of the responses to a message the one that completes it is RC_OK with modified_length = L; the others state nothing.
func TestH06_FinalResponse(t *testing.T) {
	for _, kind := range []Kind{OpSend, OpTagSend, OpWrite} {
		for _, n := range []int{0, 1, 1024, 5000} {
			l := newLab(t, Config{PayloadMTU: 1024, AckEvery: true})
			list := l.watch()
			key := l.eps[1].Register(make([]byte, n))
			l.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(make([]byte, n))})
			l.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 9, Buf: buf(make([]byte, n+5))})
			l.post(0, Op{Kind: kind, Peer: 1, Tag: 9, Key: key, Buf: buf(fill(n, 1))})
			l.after(100_000)
			hs, _ := stdsIn(*list)
			var final []reply
			answers := 0
			for _, p := range *list {
				if _, ok := p.ack(); !ok || p.from != 1 {
					continue
				}
				answers++
				if a := parseSaid(t, p.u); a.op == wire.RespResponse {
					final = append(final, a)
				} else if a.op != wire.RespDefault || a.mod != 0 || a.gtd {
					t.Errorf("%v of %d bytes: %v, modified_length %d", kind, n, a.op, a.mod)
				}
			}
			if answers != len(hs) || len(final) != 1 || final[0].rc != wire.RCOK || int(final[0].mod) != n || final[0].mid != hs[0].MessageID() ||
				final[0].list != wire.ListExpected || final[0].gtd {
				t.Errorf("%v of %d bytes: %d packets, %d ACKs, final responses %+v", kind, n, len(hs), answers, final)
			}
		}
	}
}

// H07: a tagged message goes to the receive with its tag and its initiator, or from anybody; of several the first posted.
func TestH07_ExactMatch(t *testing.T) {
	s := newStub(t, Config{})
	s.eps[1].InsertAddr(testAddr(5), 3, 777)
	s.openBy(wire.TypeRUDReq)
	for i, r := range []struct {
		peer int
		tag  uint64
	}{{0, 1 << 63}, {0, 8}, {2, 8}, {AnySource, 8}, {0, 8}, {0, 9}} {
		s.post(1, Op{Kind: OpTagRecv, Peer: r.peer, Tag: r.tag, Buf: buf(make([]byte, 10)), Ctx: uint64(i)})
	}
	psn := int32(0)
	for _, c := range []struct {
		from uint32
		tag  uint64
		want int // -1: nobody
	}{
		{100, 7, -1}, {777, 9, -1}, {777, 8, 2}, {100, 0, -1}, {777, 8, 3}, {777, 8, -1}, {100, 8, 1}, {100, 8, 4}, {100, 8, -1}, {100, 1 << 63, 0},
		{888, 9, -1}, {100, 9 | 1<<32, -1}, {100, 9, 5},
	} {
		psn++
		h := message(wire.OpTaggedSend, uint16(psn), 10)
		h.Initiator, h.MatchBits = c.from, c.tag
		before := len(s.lab.got[1])
		if p := whole(psn, h, fill(10, 1)); c.want < 0 {
			s.refused(p, wire.RCNoMatch)
		} else {
			s.taken(p)
		}
		got := s.lab.got[1][before:]
		if (c.want < 0) != (len(got) == 0) || c.want >= 0 && (len(got) != 1 || got[0].Ctx != uint64(c.want) || got[0].Tag != c.tag || got[0].Err != nil) {
			t.Errorf("tag %x of %d: %+v, want receive %d", c.tag, c.from, got, c.want)
		}
	}
}

// H07 through the API: two senders with the same tags.
func TestH07_ExactMatchOfTwoEnds(t *testing.T) {
	l := newLab(t, Config{})
	third := l.open(0, EndpointConfig{Job: testJob, PID: 4, Initiator: 104})
	to, _ := third.Insert(l.eps[1].Addr())
	from, _ := l.eps[1].Insert(third.Addr())
	var mem [4][10]byte
	for i, r := range []struct {
		peer int
		tag  uint64
	}{{from, 1}, {0, 1}, {AnySource, 1}, {0, 2}} {
		l.post(1, Op{Kind: OpTagRecv, Peer: r.peer, Tag: r.tag, Buf: buf(mem[i][:]), Ctx: uint64(i)})
	}
	for i, c := range []struct {
		ep  *Endpoint
		to  int
		tag uint64
	}{{l.eps[0], 1, 1}, {l.eps[0], 1, 1}, {l.eps[0], 1, 2}, {third, to, 1}} {
		l.by(c.ep, Op{Kind: OpTagSend, Peer: c.to, Tag: c.tag, Buf: buf(fill(10, uint64(i)))})
		l.after(10_000)
	}
	for i, want := range []struct {
		ctx uint64
		src int
	}{{1, 0}, {2, 0}, {3, 0}, {0, from}} {
		if c := l.got[1][i]; c.Ctx != want.ctx || c.Src != want.src || !bytes.Equal(mem[c.Ctx][:], fill(10, uint64(i))) {
			t.Errorf("message %d: %+v, want receive %d from %d", i, c, want.ctx, want.src)
		}
	}
}

// H08: with wildcards the older of all receives that match has the message, be it exact or not.
func TestH08_WildcardsInPostOrder(t *testing.T) {
	l := newLabWith(t, Config{Profiles: HPC | AIFull | AIBase}, EndpointConfig{}, EndpointConfig{})
	recvs := []Op{
		{Tag: 0x10, Peer: 0},
		{Tag: 0x10, Ignore: 0xF, Peer: 0},
		{Tag: 0x13, Peer: AnySource},
		{Tag: 0x13, Peer: 0},
		{Ignore: ^uint64(0), Peer: AnySource},
		{Tag: 0x10, Peer: 0},
		{Tag: 0xFF00, Ignore: 0xFF, Peer: 1},
	}
	mem := make([][10]byte, len(recvs))
	for i, op := range recvs {
		op.Kind, op.Buf, op.Ctx = OpTagRecv, buf(mem[i][:]), uint64(i)
		l.post(1, op)
	}
	for i, c := range []struct {
		tag  uint64
		want uint64
	}{{0x13, 1}, {0x10, 0}, {0x13, 2}, {0xFF00, 4}, {0x10, 5}, {0x13, 3}} {
		l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: c.tag, Buf: buf(fill(10, uint64(i)))})
		l.after(10_000)
		if g := l.last(1); len(l.got[1]) != i+1 || g.Ctx != c.want || g.Tag != c.tag || !bytes.Equal(mem[c.want][:], fill(10, uint64(i))) {
			t.Fatalf("tag %x: %+v, want receive %d", c.tag, g, c.want)
		}
	}
}

// H09: untagged messages take the receives in their order, whatever their sizes are.
func TestH09_UntaggedInOrder(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		l := newLab(t, Config{PayloadMTU: 1024})
		l.eps[0].SetOrdered(ordered)
		const n = 20
		mem := make([][]byte, n)
		for i := range mem {
			mem[i] = make([]byte, 6000)
			l.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem[i]), Ctx: uint64(i)})
		}
		l.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Buf: buf(make([]byte, 10)), Ctx: 99})
		for i := range mem {
			l.post(0, Op{Kind: OpSend, Peer: 1, Tag: uint64(i), Buf: buf(fill(i*300, uint64(i))), Ctx: uint64(i)})
			if !ordered {
				l.after(20_000)
			}
		}
		l.settle()
		if len(l.got[1]) != n {
			t.Fatalf("%d messages", len(l.got[1]))
		}
		for i, c := range l.got[1] {
			if c.Ctx != uint64(i) || c.Len != i*300 || c.Kind != OpRecv || c.Err != nil || !bytes.Equal(mem[i][:c.Len], fill(i*300, uint64(i))) {
				t.Errorf("ordered %v, message %d: %+v", ordered, i, c)
			}
		}
	}
}

// H10: a message takes one receive, however many packets it has and whichever comes first.
func TestH10_OneReceiveForAMessage(t *testing.T) {
	for _, op := range []wire.Opcode{wire.OpSend, wire.OpTaggedSend} {
		s := newStub(t, Config{PayloadMTU: 1024})
		var mem [3][]byte
		for i := range mem {
			mem[i] = make([]byte, 3000)
			s.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(mem[i]), Ctx: uint64(i)})
			s.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Buf: buf(mem[i]), Ctx: uint64(i)})
		}
		s.openBy(wire.TypeRUDReq)
		// Packets of two messages, the later one first, mixed.
		a, b := message(op, 2, 0), message(op, 3, 0)
		da, db := fill(3000, 1), fill(3000, 2)
		s.partial(part(5, b, db, 1))
		s.partial(part(3, a, da, 2))
		s.partial(part(1, a, da, 0))
		s.partial(part(6, b, db, 2))
		s.taken(part(4, b, db, 0))
		s.taken(part(2, a, da, 1))
		kind := OpRecv
		if op == wire.OpTaggedSend {
			kind = OpTagRecv
		}
		s.want(1, Completion{Kind: kind, Ctx: 0, Len: 3000}, Completion{Kind: kind, Ctx: 1, Len: 3000})
		if !bytes.Equal(mem[0], db) || !bytes.Equal(mem[1], da) || !bytes.Equal(mem[2], make([]byte, 3000)) {
			t.Errorf("%v: contents differ", op)
		}
		s.taken(whole(7, message(op, 4, 5), fill(5, 1)))
		if c := s.lab.last(1); c.Ctx != 2 {
			t.Errorf("%v: the third message went to receive %d", op, c.Ctx)
		}
	}
}

// H11: of a message that is too long what fits is placed, modified_length says how much, and the receive completes with the error; with
// the other setting it is refused and nothing is placed.
func TestH11_TooLong(t *testing.T) {
	for _, reject := range []bool{false, true} {
		for _, room := range []int{0, 1, 1024, 1500, 2999} {
			l := newLabWith(t, Config{PayloadMTU: 1024, AckEvery: true}, EndpointConfig{}, EndpointConfig{RejectTooLong: reject})
			list := l.watch()
			src, mem := fill(3000, 1), make([]byte, 4000)
			l.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(mem[:room]), Ctx: 1})
			l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 1, Buf: buf(src), Ctx: 2})
			l.settle()
			var mods []uint32
			for _, p := range *list {
				if _, ok := p.ack(); ok && p.from == 1 {
					if a := parseSaid(t, p.u); a.next == wire.NextResponse && a.op == wire.RespResponse && a.rc == wire.RCOK {
						mods = append(mods, a.mod)
					}
				}
			}
			if len(l.got[0]) != 1 || len(l.got[1]) != 1 {
				t.Fatalf("completions %+v, %+v", l.got[0], l.got[1])
			}
			sent, got := l.got[0][0], l.got[1][0]
			if reject {
				if code(sent.Err) != wire.RCTooLong || code(got.Err) != wire.RCTooLong || !bytes.Equal(mem, make([]byte, 4000)) {
					t.Errorf("refused, room %d: %v, %v", room, sent.Err, got.Err)
				}
				continue
			}
			if sent.Err != nil || !errors.Is(got.Err, ErrTruncated) || got.Len != room || !bytes.Equal(mem[:room], src[:room]) ||
				!bytes.Equal(mem[room:], make([]byte, 4000-room)) || len(mods) != 1 || int(mods[0]) != room {
				t.Errorf("truncated, room %d: %v; %+v; modified_length %d", room, sent.Err, got, mods)
			}
		}
	}
}

// H12: a multi-receive buffer takes one message behind the other, and is given back, with the flag, when less than the least is left.
func TestH12_MultiReceive(t *testing.T) {
	l := newLabWith(t, Config{PayloadMTU: 1024}, EndpointConfig{}, EndpointConfig{MinMultiRecv: 1000})
	var mem [2][]byte
	for i := range mem {
		mem[i] = make([]byte, 10_000)
		l.post(1, Op{Kind: OpRecv, Peer: AnySource, Flags: FlagMultiRecv, Buf: buf(mem[i]), Ctx: uint64(i)})
	}
	at := 0
	for i, n := range []int{3000, 0, 1, 4999, 1000, 500, 7000} { // behind the fifth 1000 are left, which is just enough
		l.post(0, Op{Kind: OpSend, Peer: 1, Buf: buf(fill(n, uint64(i)))})
		l.after(20_000)
		c := l.last(1)
		which := 0
		if i == 6 {
			which, at = 1, 0
		}
		full := i == 5
		if len(l.got[1]) != i+1 || c.Ctx != uint64(which) || c.Len != n || c.Offset != at || c.Err != nil || (c.Flags&FlagMultiRecv != 0) != full ||
			!bytes.Equal(mem[which][at:at+n], fill(n, uint64(i))) {
			t.Fatalf("message %d of %d bytes: %+v, want buffer %d at %d, the last of it: %v", i, n, c, which, at, full)
		}
		at += n
	}
	// Two at once: room for the whole of each is set aside when its first packet comes.
	l.post(1, Op{Kind: OpRecv, Peer: AnySource, Flags: FlagMultiRecv, Buf: buf(mem[0]), Ctx: 2})
	l.eps[1].Cancel(l.now(), 1)
	l.after(1)
	l.got[1] = nil
	l.call(0, l.now()+1, func(now vt.Time) {
		for i := range 3 {
			_ = l.eps[0].Send(now, 1, fill(3000, uint64(20+i)), 0)
		}
	})
	l.after(100_000)
	seen := map[int]bool{}
	for i, c := range l.got[1] {
		if c.Ctx != 2 || seen[c.Offset] || c.Len != 3000 || c.Offset%3000 != 0 {
			t.Errorf("%+v", c)
		}
		seen[c.Offset] = true
		if !bytes.Equal(mem[0][c.Offset:][:3000], fill(3000, uint64(20+c.Offset/3000))) {
			t.Errorf("message %d: contents differ", i)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d messages", len(seen))
	}
}
