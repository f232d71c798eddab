package fep

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// order watches the memory that a message of n packets of 4096 bytes goes to: whether packets are placed in the order of the
// message. The message must have no zero byte at the beginning of a packet.
type order struct {
	mem  []byte
	edge int
	bad  int // packets placed ahead of one that is not there
}

func marked(n int) []byte {
	b := bytes.Repeat([]byte{0}, n*4096)
	for i := range n {
		b[i*4096] = byte(1 + i%255)
	}
	return b
}

// look is called after every event.
func (o *order) look() {
	for o.edge*4096 < len(o.mem) && o.mem[o.edge*4096] != 0 {
		o.edge++
	}
	for i := o.edge + 1; i*4096 < len(o.mem) && i < o.edge+200; i++ {
		if o.mem[i*4096] != 0 {
			o.bad++
			return
		}
	}
}

// reordering delays every seventh request of one end point by the time that four take.
func reordering(who int) func(int, []byte) fate {
	i := 0
	return func(from int, b []byte) (f fate) {
		if from == who && requests(from, firstUET(b)) {
			if i++; i%7 == 0 {
				f.delay = 4 * 86
			}
		}
		return f
	}
}

// ordered opens a lab whose node 0 sends in order, with a PDC open.
func orderedLab(t *testing.T, cfg Config) *lab {
	l := newLab(t, cfg)
	l.eps[0].SetOrdered(true)
	l.exchange(10)
	return l
}

// G01: packets of an ordered PDC reach SES in the order of their PSNs, and messages in the order of sending, though the link
// reorders. An unordered PDC gives them to SES as they come.
func TestG01_OrderAtSES(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		l := newLab(t, Config{})
		l.eps[0].SetOrdered(ordered)
		l.exchange(10)
		l.script = reordering(0)
		const packets, msgs = 30, 5
		list := make([]order, msgs)
		now := max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
		l.got = [2][]Completion{}
		for i := range list {
			list[i].mem = make([]byte, packets*4096)
			l.call(1, now, func(now vt.Time) { _ = l.eps[1].Recv(now, list[i].mem, uint64(i)) })
			l.call(0, now+1, func(now vt.Time) { _ = l.eps[0].Send(now, 1, marked(packets), uint64(i)) })
		}
		for len(l.got[0]) < msgs && l.step(vt.Never) {
			for i := range list {
				list[i].look()
			}
		}
		bad := 0
		for i := range list {
			bad += list[i].bad
			if !bytes.Equal(list[i].mem, marked(packets)) || ordered && l.got[1][i].Ctx != uint64(i) {
				t.Errorf("ordered %v: message %d is not the one that was sent", ordered, i)
			}
		}
		if ordered != (bad == 0) || l.count(RODDrop) == 0 == ordered {
			t.Errorf("ordered %v: %d times a packet was placed ahead of another, %d were dropped", ordered, bad, l.count(RODDrop))
		}
	}
}

// lossesOf is a script that drops the first transmission of some packets, by their number behind first.
func lossesOf(first wire.PSN, which ...int32) func(int, []byte) fate {
	return func(_ int, b []byte) fate {
		r, err := wire.ParseRequest(firstUET(b))
		if err == nil && requests(0, firstUET(b)) && !r.RETX() {
			for _, w := range which {
				if r.PSN() == first.Add(w) {
					return fate{drop: true}
				}
			}
		}
		return fate{}
	}
}

// G02: an ordered PDC drops what is out of order, and says so once a gap, naming the packet that it dropped and the one that it
// waits for.
func TestG02_OneNackPerGap(t *testing.T) {
	l := orderedLab(t, Config{})
	list := l.watch()
	first := l.source().Tx.Next
	l.script = lossesOf(first, 10, 150, 151)
	l.exchange(250 * 4096)
	nacks := nacksIn(*list)
	if len(nacks) != 2 {
		t.Fatalf("%d NACKs for two gaps", len(nacks))
	}
	for i, gap := range []int32{10, 150} {
		n, _ := nacks[i].nack()
		behind := gap + 1
		if gap == 150 {
			behind = 152
		}
		if n.Code() != wire.NackRODOOO || wire.PSN(n.Payload()) != first.Add(gap) || n.PSN() != first.Add(behind) {
			t.Errorf("NACK %v for %d, wants %d", n.Code(), n.PSN().Diff(first), wire.PSN(n.Payload()).Diff(first))
		}
	}
	if l.count(RODDrop) < 2 || l.count(DupRx) != 0 || l.count(RTO) != 0 {
		t.Errorf("%d dropped, %d duplicates, %d timeouts", l.count(RODDrop), l.count(DupRx), l.count(RTO))
	}
}

// rewinds checks that what is sent again begins at first and goes on without a hole, once, to the highest packet sent before, and
// returns how many that were.
func rewinds(t *testing.T, list []passed, first wire.PSN) int {
	t.Helper()
	var again []wire.PSN
	top := first - 1
	for _, p := range requestsIn(list, 0) {
		r, _ := p.request()
		switch {
		case r.RETX():
			again = append(again, r.PSN())
		case len(again) == 0:
			top = r.PSN()
		case again[len(again)-1] != top:
			t.Errorf("new PSN %d between %d and %d, which are sent again", r.PSN().Diff(first), again[len(again)-1].Diff(first), top.Diff(first))
			top = again[len(again)-1]
		}
	}
	for i, p := range again {
		if p != first.Add(int32(i)) {
			t.Fatalf("PSN %d is the %d-th that is sent again, from %d to %d", p.Diff(first), i, 0, top.Diff(first))
		}
	}
	if len(again) == 0 || again[len(again)-1] != top {
		t.Errorf("%d are sent again, of %d that had been sent since the lost one", len(again), top.Diff(first)+1)
	}
	return len(again)
}

// G03: the source goes back to the first packet that is missing, and sends it and all later ones again, in order.
func TestG03_GoBack(t *testing.T) {
	l := orderedLab(t, Config{})
	list := l.watch()
	first := l.source().Tx.Next
	l.script = lossesOf(first, 50)
	l.exchange(200 * 4096)
	if n := rewinds(t, *list, first.Add(50)); n < 5 || l.count(RetxGoBack) != n || l.count(DupRx) != 0 {
		t.Errorf("%d sent again, %d for going back, %d duplicates", n, l.count(RetxGoBack), l.count(DupRx))
	}
	// By RTO of the lowest, where there is nothing behind the lost packet.
	l = orderedLab(t, Config{NoInfer: true})
	list = l.watch()
	first = l.source().Tx.Next
	l.script = lossesOf(first, 3, 4)
	l.exchange(5 * 4096)
	if n := rewinds(t, *list, first.Add(3)); n != 2 || l.count(RTO) != 1 {
		t.Errorf("%d sent again, %d timeouts", n, l.count(RTO))
	}
}

// G04: all packets of an ordered PDC have one entropy value while any is in flight, retransmissions too.
func TestG04_OneEV(t *testing.T) {
	l := orderedLab(t, Config{})
	list := l.watch()
	l.script = lossesOf(l.source().Tx.Next, 20, 90)
	l.exchange(200 * 4096)
	all := requestsIn(*list, 0)
	for _, p := range all {
		if p.in.EV != all[0].in.EV {
			t.Fatalf("entropy values %d and %d", all[0].in.EV, p.in.EV)
		}
	}
	if l.count(Retx) == 0 {
		t.Error("nothing was sent again")
	}
}

// G05: ACKs of an ordered PDC name ascending PSNs, show none out of order, and their bitmap says nothing, though a response waits to
// be cleared.
func TestG05_AscendingACKs(t *testing.T) {
	for _, every := range []bool{false, true} {
		for _, pinned := range []bool{false, true} {
			l := orderedLab(t, Config{AckEvery: every})
			list := l.watch()
			first, n := l.source().Tx.Next, int32(200)
			l.script = lossesOf(first, 20, 90)
			if pinned {
				n++
				l.call(0, max(l.nodes[0].Now(), l.nodes[1].Now())+2, func(now vt.Time) { _ = l.eps[0].Write(now, 1, nil, 99, 0, 1) }) // no such key
				l.eps[0].done = func(_ vt.Time, c Completion) {
					if c.Ctx != 1 {
						l.got[0] = append(l.got[0], c)
					}
				}
			}
			l.exchange(200 * 4096)
			ascending(t, *list, first, pinned)
			if acks := l.feps[1].C[AckTx]; acks < 20 || every && acks < 200 || l.target().Rx.CACK != first.Add(n-1) || (l.count(MsgsErr) == 1) != pinned {
				t.Errorf("%d ACKs, CACK %d", acks, l.target().Rx.CACK.Diff(first))
			}
		}
	}
}

func ascending(t *testing.T, list []passed, first wire.PSN, pinned bool) {
	t.Helper()
	cack, last, above := first-1, first-1, 0
	for _, p := range list {
		a, ok := p.ack()
		if !ok {
			continue
		}
		if a.CACK().Before(cack) || !a.AckPSN().After(last) || a.SACKBitmap() != 0 {
			t.Errorf("CACK %d after %d, names %d after %d, bitmap %x", a.CACK().Diff(first), cack.Diff(first), a.AckPSN().Diff(first),
				last.Diff(first), a.SACKBitmap())
		}
		if a.AckPSN().After(a.CACK()) {
			above++
		}
		cack, last = a.CACK(), a.AckPSN()
	}
	if (above > 0) != pinned {
		t.Errorf("%d ACKs name a PSN above their CACK", above)
	}
}

// G06: an ordered source goes back to a packet that was trimmed, at once and once, though some behind it were trimmed too.
func TestG06_TrimRewinds(t *testing.T) {
	l := orderedLab(t, Config{})
	list := l.watch()
	first := l.source().Tx.Next
	l.script = l.trimming(34, func(from int, u []byte) bool {
		r, err := wire.ParseRequest(u)
		if err != nil {
			return false
		}
		n := r.PSN().Diff(first)
		return from == 0 && !r.RETX() && (n == 50 || n == 51 || n == 53)
	})
	l.exchange(200 * 4096)
	n := rewinds(t, *list, first.Add(50))
	for _, p := range nacksIn(*list) {
		if k, _ := p.nack(); k.Code() != wire.NackTrimmed {
			t.Errorf("NACK %v for PSN %d", k.Code(), k.PSN().Diff(first))
		}
	}
	if n < 5 || l.count(RetxTrim) != 1 || l.count(DupRx) != 0 || l.count(RTO) != 0 {
		t.Errorf("%d sent again, %d for the trim, %d duplicates", n, l.count(RetxTrim), l.count(DupRx))
	}
}

// G07: data of ordered reads comes back on the same PDC and in order, though the link reorders it.
func TestG07_OrderedReads(t *testing.T) {
	l := orderedLab(t, Config{})
	const packets = 100
	key := l.eps[1].Register(marked(packets))
	o := order{mem: make([]byte, packets*4096)}
	list := l.watch()
	l.script = reordering(1)
	l.got = [2][]Completion{}
	l.call(0, max(l.nodes[0].Now(), l.nodes[1].Now())+1, func(now vt.Time) { _ = l.eps[0].Read(now, 1, o.mem, key, 0, 9) })
	for len(l.got[0]) == 0 && l.step(vt.Never) {
		o.look()
	}
	l.want(0, Completion{Kind: OpRead, Ctx: 9, Len: len(o.mem)})
	back := requestsIn(*list, 1)
	next := l.source().Start
	for _, p := range back {
		r, _ := p.request()
		if r.Type() != wire.TypeRODReq || !r.RETX() && r.PSN() != next {
			t.Errorf("return data is %v with PSN %d, want %d", r.Type(), r.PSN().Diff(l.source().Start), next.Diff(l.source().Start))
		}
		if !r.RETX() {
			next++
		}
	}
	if o.bad != 0 || !bytes.Equal(o.mem, marked(packets)) || l.count(RODDrop) == 0 || len(back) < packets {
		t.Errorf("%d times data was placed ahead of other, %d packets were dropped, %d came", o.bad, l.count(RODDrop), len(back))
	}
}

// rudiStub is a stub that sends RUDI and UUD packets.
func (s *stub) idempotent(id uint32, op wire.Opcode, flags wire.SESFlags, key, off uint64, b []byte, fl wire.RUDIFlags) {
	s.send(0, func(f []byte) []byte {
		f = wire.AppendRUDI(f, &wire.RUDIFields{Type: wire.TypeRUDIReq, Next: wire.NextRequestStd, Flags: fl, PktID: id})
		f = wire.AppendSESStd(f, &wire.StdFields{HeadFields: wire.HeadFields{Opcode: op, JobID: testJob, PIDonFEP: 1, ResourceIndex: 15,
			Flags: wire.SESRel | wire.SESSOM | wire.SESEOM | flags}, MessageID: 1, BufferOffset: off, Initiator: 100, MatchBits: key,
			RequestLength: uint32(len(b))})
		return append(f, b...)
	})
}

// newRUDIStub has a script that takes packets of RUDI, which line does not know.
func newRUDIStub(t *testing.T) *stub {
	s := newStub(t, Config{})
	s.script = func(from int, b []byte) fate {
		if from == 1 {
			s.raw = append(s.raw, append([]byte(nil), b...))
		}
		return fate{drop: true}
	}
	return s
}

// answers takes the RUDI responses that have come since the last call.
func (s *stub) answers() (ids []uint32, codes []wire.ReturnCode) {
	s.t.Helper()
	for _, b := range s.raw {
		u := firstUET(b)
		r, err := wire.ParseRUDI(u)
		if err != nil || r.Type() != wire.TypeRUDIResp {
			s.t.Fatalf("%v: no RUDI response", wire.Prologue(u).Type())
		}
		code := wire.RCOK
		if r.Next() != wire.NextNone {
			code = wire.RespHead(u[len(r):][:2]).ReturnCode()
		}
		ids, codes = append(ids, r.PktID()), append(codes, code)
	}
	s.raw = nil
	return ids, codes
}

// G08: RUDI opens no PDC and knows no ACK; each request has a response with its pkt_id.
func TestG08_NoPDC(t *testing.T) {
	l := newLab(t, Config{})
	mem, src, dst := make([]byte, 20*4096), fill(20*4096, 8), make([]byte, 20*4096)
	key := l.eps[1].RegisterIdempotent(mem)
	asked, answered := map[uint32]int{}, map[uint32]int{}
	l.tap = func(_ vt.Time, from int, b []byte) {
		u := firstUET(b)
		r, err := wire.ParseRUDI(u)
		switch {
		case err == nil && from == 0 && r.Type() == wire.TypeRUDIReq:
			asked[r.PktID()]++
		case err == nil && from == 1 && r.Type() == wire.TypeRUDIResp:
			answered[r.PktID()]++
		default:
			t.Errorf("node %d sends %v", from, wire.Prologue(u).Type())
		}
	}
	l.call(0, 1, func(now vt.Time) { _ = l.eps[0].WriteIdempotent(now, 1, src, key, 0, 1) })
	l.call(0, 500_000, func(now vt.Time) { _ = l.eps[0].ReadIdempotent(now, 1, dst, key, 0, 2) })
	l.run(vt.Time(time.Second))
	l.want(0, Completion{Kind: OpWrite, Ctx: 1, Len: len(src)}, Completion{Kind: OpRead, Ctx: 2, Len: len(src)})
	for id, n := range asked {
		if n != 1 || answered[id] != 1 {
			t.Errorf("pkt_id %d: %d requests, %d responses", id, n, answered[id])
		}
	}
	if len(asked) != 40 || len(answered) != 40 || l.count(PDCOpened) != 0 || l.count(AckTx) != 0 || !bytes.Equal(src, mem) || !bytes.Equal(src, dst) {
		t.Errorf("%d requests, %d answered, %d PDCs, %d ACKs", len(asked), len(answered), l.count(PDCOpened), l.count(AckTx))
	}
}

// G09: RUDI repeats a request by RTO up to the limit, with retx and the same pkt_id, and then the message fails.
func TestG09_Repeats(t *testing.T) {
	l := newLab(t, Config{})
	key := l.eps[1].RegisterIdempotent(make([]byte, 10))
	l.script = func(int, []byte) fate { return fate{drop: true} }
	var at []vt.Time
	id := uint32(0)
	l.tap = func(now vt.Time, from int, b []byte) {
		r, err := wire.ParseRUDI(firstUET(b))
		if len(at) == 0 && err == nil {
			id = r.PktID()
		}
		if err != nil || r.PktID() != id || (r.Flags()&wire.RUDIRETX != 0) != (len(at) > 0) {
			t.Errorf("pkt_id %d, flags %x, %v", r.PktID(), r.Flags(), err)
		}
		at = append(at, now)
	}
	l.call(0, 1, func(now vt.Time) { _ = l.eps[0].WriteIdempotent(now, 1, make([]byte, 10), key, 0, 1) })
	l.run(vt.Time(time.Second))
	l.want(0, Completion{Kind: OpWrite, Ctx: 1, Len: 10, Err: &PDCError{}})
	at = append(at, l.got[0][0].Acked)
	want := []time.Duration{0, 1, 3, 7, 15, 31, 63}
	if len(at) != len(want) {
		t.Fatalf("sent at %v", at)
	}
	for i, w := range want {
		if at[i].Sub(at[0]) != w*time.Millisecond {
			t.Errorf("step %d after %v, want %d ms", i, at[i].Sub(at[0]), w)
		}
	}
	if l.count(RTOExhausted) != 1 || l.count(RUDIRetx) != 5 {
		t.Errorf("%d exhausted, %d repeated", l.count(RTOExhausted), l.count(RUDIRetx))
	}
}

// G10: a RUDI packet that comes twice is done twice, and answered twice.
func TestG10_Duplicates(t *testing.T) {
	s := newRUDIStub(t)
	mem := make([]byte, 10)
	key := s.eps[1].RegisterIdempotent(mem)
	for i := range 3 {
		copy(mem, "----------")
		fl := wire.RUDIFlags(0)
		if i > 0 {
			fl = wire.RUDIRETX
		}
		s.idempotent(99, wire.OpWrite, 0, key, 2, []byte("data"), fl)
		ids, codes := s.answers()
		if string(mem) != "--data----" || len(ids) != 1 || ids[0] != 99 || codes[0] != wire.RCOK {
			t.Errorf("time %d: memory %q, responses %v %v", i, mem, ids, codes)
		}
	}
	if s.feps[1].C[RUDIRx] != 3 || s.feps[1].C[DupRx] != 0 || s.feps[1].C[PDCOpened] != 0 {
		t.Errorf("%d taken, %d duplicates", s.feps[1].C[RUDIRx], s.feps[1].C[DupRx])
	}
}

// G11: a RUDI response that nobody waits for any more is dropped and counted.
func TestG11_LateResponse(t *testing.T) {
	l := newLab(t, Config{})
	key := l.eps[1].RegisterIdempotent(fill(100, 1))
	got := make([]byte, 100)
	l.script = func(from int, _ []byte) fate {
		if from == 1 {
			return fate{dup: 2}
		}
		return fate{}
	}
	for i := range uint64(3) {
		l.call(0, 1+vt.Time(i)*1_000_000, func(now vt.Time) { _ = l.eps[0].ReadIdempotent(now, 1, got, key, 0, i) })
	}
	late := -1
	l.call(0, 900_000, func(vt.Time) { // what comes late has no effect
		late = l.count(RUDILate)
		clear(got)
	})
	l.run(950_000)
	if late != 2 || !bytes.Equal(got, make([]byte, 100)) {
		t.Errorf("%d late responses", late)
	}
	l.run(vt.Time(time.Second))
	l.want(0, Completion{Kind: OpRead, Ctx: 0, Len: 100}, Completion{Kind: OpRead, Ctx: 1, Len: 100}, Completion{Kind: OpRead, Ctx: 2, Len: 100})
	if l.count(RUDILate) != 6 || l.count(RUDIRespRx) != 3 {
		t.Errorf("%d late, %d in time", l.count(RUDILate), l.count(RUDIRespRx))
	}
}

// G12: RUDI serves only plain writes and reads of memory that is registered for it.
func TestG12_OnlyIdempotent(t *testing.T) {
	s := newRUDIStub(t)
	mem := make([]byte, 10)
	good, plain := s.eps[1].RegisterIdempotent(mem), s.eps[1].Register(mem)
	s.call(1, 1, func(now vt.Time) { _ = s.eps[1].Recv(now, mem, 1) })
	for i, c := range []struct {
		op    wire.Opcode
		flags wire.SESFlags
		key   uint64
		want  wire.ReturnCode
	}{
		{wire.OpWrite, 0, good, wire.RCOK}, {wire.OpRead, 0, good, wire.RCOK},
		{wire.OpWrite, 0, plain, wire.RCOpViolation}, {wire.OpRead, 0, plain, wire.RCOpViolation},
		{wire.OpWrite, wire.SESHD, good, wire.RCOpViolation}, {wire.OpSend, 0, 0, wire.RCOpViolation},
		{wire.OpTaggedSend, 0, good, wire.RCOpViolation}, {wire.OpAtomic, 0, good, wire.RCOpViolation},
	} {
		clear(mem)
		b := []byte("data")
		if c.op == wire.OpRead {
			b = nil
		}
		s.idempotent(uint32(i), c.op, c.flags, c.key, 0, b, 0)
		ids, codes := s.answers()
		if len(ids) != 1 || ids[0] != uint32(i) || codes[0] != c.want {
			t.Errorf("%v, flags %x, key %x: %v, want %v", c.op, c.flags, c.key, codes, c.want)
		}
		if wrote := string(mem[:4]) == "data"; wrote != (i == 0) {
			t.Errorf("%v, flags %x, key %x: memory is %q", c.op, c.flags, c.key, mem)
		}
	}
}

// G13: a NACK of a RUDI packet, which has nt and its pkt_id, has it sent again at once.
func TestG13_NackSpeedsUp(t *testing.T) {
	for _, dscp := range []uint8{34, 36} {
		l := newLab(t, Config{})
		mem := make([]byte, 20*4096)
		key := l.eps[1].RegisterIdempotent(mem)
		list := l.watch()
		l.script = l.trimming(dscp, nthOf(7, func(from int, u []byte) bool { return wire.Prologue(u).Type() == wire.TypeRUDIReq }))
		src := fill(len(mem), 1)
		l.call(0, 1, func(now vt.Time) { _ = l.eps[0].WriteIdempotent(now, 1, src, key, 0, 1) })
		l.run(200_000)
		l.want(0, Completion{Kind: OpWrite, Ctx: 1, Len: len(mem)})
		nacks := nacksIn(*list)
		if len(nacks) != 1 || l.count(RUDIRetx) != 1 || l.count(RetxTrim) != 1 || l.count(RTO) != 0 || !bytes.Equal(src, mem) {
			t.Fatalf("DSCP %d: %d NACKs, %d repeated, %d timeouts", dscp, len(nacks), l.count(RUDIRetx), l.count(RTO))
		}
		n, _ := nacks[0].nack()
		if !n.NT() || n.SPDCID() != 0 || n.DPDCID() != 0 || (n.Code() == wire.NackTrimmed) != (dscp == 34) {
			t.Errorf("DSCP %d: NACK %v, nt %v, PDCIDs %d and %d", dscp, n.Code(), n.NT(), n.SPDCID(), n.DPDCID())
		}
		again := 0
		for _, p := range *list {
			if r, err := wire.ParseRUDI(p.u); err == nil && r.Flags()&wire.RUDIRETX != 0 && p.from == 0 {
				if again++; r.PktID() != n.PktID() {
					t.Errorf("DSCP %d: pkt_id %d is repeated, %d was trimmed", dscp, r.PktID(), n.PktID())
				}
			}
		}
		if again != 1 {
			t.Errorf("DSCP %d: %d repeated", dscp, again)
		}
	}
	// One that is refused for want of resources waits for NACK_Retx_Time.
	m := newMute(t, Config{NackRetxTime: 300 * time.Microsecond})
	key := m.eps[1].RegisterIdempotent(make([]byte, 10))
	m.call(0, 1, func(now vt.Time) { _ = m.eps[0].WriteIdempotent(now, 1, make([]byte, 10), key, 0, 1) })
	m.run(10_000)
	r, _ := wire.ParseRUDI((*m.list)[0].u)
	m.hear(50_000, func(b []byte) []byte {
		return wire.AppendNack(b, &wire.NackFields{Type: wire.TypeNack, Flags: wire.NackNT, Code: wire.NackNoResource, PSN: wire.PSN(r.PktID())})
	})
	m.run(900_000)
	if len(*m.list) != 2 || (*m.list)[1].at != 350_000 {
		t.Errorf("%d sent", len(*m.list))
	}
}

// G14: RUDI takes no part in the window of a PDC: it goes on where that is shut, and fills none of it.
func TestG14_NotInWindow(t *testing.T) {
	l := newLab(t, Config{Window: 10 * 4204, PDCsPerKey: 1, NoInfer: true})
	l.exchange(10)
	plain, key := l.eps[1].Register(make([]byte, 1<<20)), l.eps[1].RegisterIdempotent(make([]byte, 1<<20))
	l.script = func(from int, b []byte) fate { return fate{drop: acks(from, firstUET(b))} }
	now := max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
	l.got = [2][]Completion{}
	l.call(0, now, func(now vt.Time) { _ = l.eps[0].Write(now, 1, make([]byte, 1<<20), plain, 0, 1) })
	l.run(now + 100_000)
	shut := l.source().InFlight
	l.call(0, now+100_001, func(now vt.Time) { _ = l.eps[0].WriteIdempotent(now, 1, make([]byte, 1<<20), key, 0, 2) })
	l.run(now + 102_000)
	if n := l.source().InFlight; n != shut || l.feps[0].C[RUDITx] < 10 || len(l.got[0]) != 0 {
		t.Errorf("%d bytes in flight on the PDC, %d before; %d RUDI packets sent", n, shut, l.feps[0].C[RUDITx])
	}
	l.run(now + 500_000)
	l.want(0, Completion{Kind: OpWrite, Ctx: 2, Len: 1 << 20})
	if n := l.source().InFlight; n != shut || shut != 10*4204 {
		t.Errorf("%d bytes in flight, %d before", n, shut)
	}
}

// datagram sends a UUD packet in the name of node 0.
func (s *stub) datagram(pid uint16, job uint32, n int) {
	s.send(0, func(b []byte) []byte {
		b = wire.AppendUUD(b, wire.NextRequestMedium)
		b = wire.AppendSESMedium(b, &wire.MediumFields{HeadFields: wire.HeadFields{Opcode: wire.OpDatagramSend, JobID: job, PIDonFEP: pid,
			ResourceIndex: 15, Flags: wire.SESRel | wire.SESSOM | wire.SESEOM}, RequestLength: uint16(n), Initiator: 100})
		return append(b, fill(n, 5)...)
	})
}

// G15: a UUD packet is never answered, and dropped where there is no buffer or nobody of that name.
func TestG15_Unreliable(t *testing.T) {
	s := newStub(t, Config{})
	mem := make([]byte, 100)
	s.call(1, 1, func(now vt.Time) { _ = s.eps[1].Recv(now, mem, 7) })
	s.run(1)
	for i, c := range []struct {
		pid  uint16
		job  uint32
		want Counter
	}{{1, testJob + 1, UUDDrop}, {2, testJob, UUDDrop}, {1, testJob, UUDRx}, {1, testJob, UUDDrop}} {
		before := s.feps[1].C
		s.datagram(c.pid, c.job, 100)
		s.expect() // not a word
		after := s.feps[1].C
		if d := after[UUDRx] + after[UUDDrop] - before[UUDRx] - before[UUDDrop]; d != 1 || after[c.want] != before[c.want]+1 {
			t.Errorf("packet %d: %d taken, %d dropped", i, after[UUDRx]-before[UUDRx], after[UUDDrop]-before[UUDDrop])
		}
	}
	s.want(1, Completion{Kind: OpRecv, Ctx: 7, Len: 100})
	if !bytes.Equal(mem, fill(100, 5)) || s.feps[1].C[PDCOpened] != 0 || s.nodes[1].Next() != vt.Never {
		t.Error("contents differ, or something is left")
	}
}

// G16: a datagram of more than one packet is refused where it is posted.
func TestG16_OnePacketOnly(t *testing.T) {
	l := newLab(t, Config{})
	list := l.watch()
	l.call(0, 1, func(now vt.Time) {
		for n, want := range map[int]error{0: nil, 4096: nil, 4097: ErrDatagram, 100_000: ErrDatagram} {
			if err := l.eps[0].Datagram(now, 1, make([]byte, n), 0); !errors.Is(err, want) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	})
	l.run(vt.Time(time.Second))
	if len(*list) != 2 || len(l.got[0]) != 2 || l.count(UUDTx) != 2 {
		t.Errorf("%d packets sent, %d completions", len(*list), len(l.got[0]))
	}
}
