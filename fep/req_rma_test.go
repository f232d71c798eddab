package fep

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

const allRights = mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic

// J01: writes over a link that loses, repeats and reorders are right in every byte, and the target's application hears nothing of one
// without completion data.
func TestJ01_WriteInAnyOrder(t *testing.T) {
	for seed := range uint64(6) {
		l := newLab(t, Config{PayloadMTU: 1024})
		l.eps[0].SetOrdered(seed%3 == 2)
		l.script = lossy(rand.New(rand.NewPCG(seed, 1)), 0.02, 0.02, 0.5)
		const n, size = 8, 30_000
		mem := make([]byte, n*size)
		key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteWrite})
		for i := range n {
			l.post(0, Op{Kind: OpWrite, Peer: 1, Key: key, Offset: uint64(i * size), Buf: buf(fill(size-i, uint64(i))), Ctx: uint64(i)})
		}
		l.settle()
		for i := range n {
			if !bytes.Equal(mem[i*size:][:size-i], fill(size-i, uint64(i))) || !bytes.Equal(mem[i*size:][size-i:size], make([]byte, i)) {
				t.Errorf("seed %d, write %d: contents differ", seed, i)
			}
		}
		if len(l.got[0]) != n || len(l.got[1]) != 0 || l.count(MsgsErr) != 0 || l.count(Retx) == 0 {
			t.Errorf("seed %d: completions %d and %+v, %d packets sent again", seed, len(l.got[0]), l.got[1], l.count(Retx))
		}
	}
	// And each packet alone, in every order of four.
	for k := range 24 {
		s := newStub(t, Config{PayloadMTU: 1024})
		mem, data := make([]byte, 4000), fill(4000, 9)
		key, _ := s.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteWrite})
		s.openBy(wire.TypeRUDReq)
		h := message(wire.OpWrite, 2, 0)
		h.MatchBits = key
		left := []int{0, 1, 2, 3}
		for m := k; len(left) > 0; {
			j := m % len(left)
			m /= len(left)
			i := left[j]
			left = append(left[:j:j], left[j+1:]...)
			if p := part(int32(i)+1, h, data, i); len(left) > 0 {
				s.partial(p)
			} else {
				s.taken(p)
			}
		}
		if !bytes.Equal(mem, data) || len(s.lab.got[1]) != 0 {
			t.Errorf("order %d: contents differ, or completions %+v", k, s.lab.got[1])
		}
	}
}

// J02: a wrong key, a missing right and an address outside of the region have their codes, each time before a byte is changed or given
// away: also if only a later packet would leave the region, and if that offset runs over.
func TestJ02_RefusedAccess(t *testing.T) {
	s := newStub(t, Config{PayloadMTU: 1024})
	all := fill(4096, 1)
	mem := all[1000:3048:3048] // with neighbours
	before := append([]byte(nil), all...)
	reg := func(m MR) uint64 {
		m.Buf = buf(mem)
		key, err := s.eps[1].RegisterMR(m)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	rw, ro, wo := reg(MR{Access: allRights}), reg(MR{Access: mr.RemoteRead}), reg(MR{Access: mr.RemoteWrite})
	local := reg(MR{Access: mr.LocalRead | mr.LocalWrite})
	amo, job := reg(MR{Access: mr.RemoteAtomic}), reg(MR{Access: allRights, Job: testJob + 1})
	index := reg(MR{Access: allRights, RI: 77})
	idem := reg(MR{Access: allRights, Idempotent: true})
	gone := reg(MR{Access: allRights})
	if err := s.eps[1].Deregister(gone); err != nil {
		t.Fatal(err)
	}
	s.openBy(wire.TypeRUDReq)
	psn := int32(0)
	const w, r, a, f = wire.OpWrite, wire.OpRead, wire.OpAtomic, wire.OpFetchingAtomic
	for _, c := range []struct {
		op     wire.Opcode
		key    uint64
		offset uint64
		length int // of the message
		rc     wire.ReturnCode
	}{
		{w, rw + 1<<20, 0, 8, wire.RCBadMKey}, {w, 0, 0, 8, wire.RCBadMKey}, {w, gone, 0, 8, wire.RCBadMKey}, {w, rw ^ 1<<40, 0, 8, wire.RCBadMKey},
		{w, rw | mr.KeyIdempotent, 0, 8, wire.RCBadMKey}, {w, idem &^ mr.KeyIdempotent, 0, 8, wire.RCBadMKey}, {w, rw | 1<<60, 0, 8, wire.RCBadMKey},
		{r, rw + 1<<20, 0, 8, wire.RCBadMKey}, {a, rw + 1<<20, 0, 8, wire.RCBadMKey}, {f, gone, 0, 8, wire.RCBadMKey},
		{w, job, 0, 8, wire.RCBadMKey}, {r, job, 0, 8, wire.RCBadMKey}, {a, job, 0, 8, wire.RCBadMKey},
		{w, index, 0, 8, wire.RCBadMKey},
		{w, ro, 0, 8, wire.RCPermViolation}, {r, wo, 0, 8, wire.RCPermViolation}, {w, local, 0, 8, wire.RCPermViolation}, {r, local, 0, 8, wire.RCPermViolation},
		{a, wo, 0, 8, wire.RCPermViolation}, {a, ro, 0, 8, wire.RCPermViolation}, {a, amo, 0, 8, wire.RCPermViolation}, {f, amo, 0, 8, wire.RCPermViolation},
		{w, ro, 4000, 8, wire.RCPermViolation}, // the right before the bounds
		{w, rw, 2048, 1, wire.RCBadAddr}, {w, rw, 2041, 8, wire.RCBadAddr}, {w, rw, 0, 2049, wire.RCBadAddr}, {w, rw, 1 << 40, 8, wire.RCBadAddr},
		{w, rw, ^uint64(0), 8, wire.RCBadAddr}, {w, rw, ^uint64(0) - 7, 8, wire.RCBadAddr}, {w, rw, 1 << 63, 8, wire.RCBadAddr},
		{w, rw, 1000, 1049, wire.RCBadAddr}, {w, rw, 0, 1 << 30, wire.RCBadAddr},
		{r, rw, 2041, 8, wire.RCBadAddr}, {r, rw, 0, 2049, wire.RCBadAddr}, {r, rw, ^uint64(0) - 7, 8, wire.RCBadAddr},
		{a, rw, 2048, 8, wire.RCBadAddr}, {f, rw, ^uint64(0) - 7, 8, wire.RCBadAddr},
		{w, rw, 2049, 0, wire.RCBadAddr}, {w, gone, 0, 0, wire.RCBadMKey}, {r, wo, 0, 0, wire.RCPermViolation},
	} {
		psn++
		h := message(c.op, uint16(psn), c.length)
		h.MatchBits, h.BufferOffset = c.key, c.offset
		p := say{psn: psn, h: h, payload: bytes.Repeat([]byte{0xEE}, min(c.length, 1024))}
		if c.length > 1024 {
			p.h.Flags &^= wire.SESEOM
		}
		switch {
		case c.op == r:
			p.payload = nil
		case c.op.IsAtomic():
			p.ext = &wire.AtomicFields{Op: wire.AtomicSum, Type: wire.AtomicUint64}
		}
		s.refused(p, c.rc)
		if !bytes.Equal(all, before) {
			t.Fatalf("%v key %x offset %x length %d: memory was changed", c.op, c.key, c.offset, c.length)
		}
	}
	if len(s.lab.got[1]) != 0 || s.feps[1].C[DataTx] != 0 {
		t.Errorf("completions %+v, %d packets of data", s.lab.got[1], s.feps[1].C[DataTx])
	}
	// All of these are right.
	for _, c := range []struct {
		op     wire.Opcode
		key    uint64
		offset uint64
		n      int
	}{{w, rw, 2040, 8}, {w, rw, 2048, 0}, {w, idem, 1024, 1024}, {w, wo, 0, 1}} {
		psn++
		h := message(c.op, uint16(psn), c.n)
		h.MatchBits, h.BufferOffset = c.key, c.offset
		s.taken(whole(psn, h, fill(c.n, 5)))
		copy(before[1000+int(c.offset):], fill(c.n, 5))
	}
	if !bytes.Equal(all, before) {
		t.Error("memory is not what was written")
	}
}

// J03: a write to a key that was revoked fails and changes nothing, though it was good before, another region was registered since, or
// the write is under way.
func TestJ03_RevokedKey(t *testing.T) {
	l := newLab(t, Config{PayloadMTU: 1024})
	for _, chosen := range []uint64{0, 55} {
		mem, next := make([]byte, 100_000), make([]byte, 100_000)
		key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: allRights, Key: chosen})
		l.post(0, Op{Kind: OpWrite, Peer: 1, Key: key, Buf: buf(fill(100, 1))})
		l.settle()
		if l.last(0).Err != nil || !bytes.Equal(mem[:100], fill(100, 1)) {
			t.Fatalf("%+v", l.last(0))
		}
		if err := l.eps[1].Deregister(key); err != nil {
			t.Fatal(err)
		}
		other, _ := l.eps[1].RegisterMR(MR{Buf: buf(next), Access: allRights})
		clear(mem)
		for _, op := range []Op{{Kind: OpWrite, Buf: buf(fill(100, 2))}, {Kind: OpWrite, Buf: buf(fill(5000, 2))}, {Kind: OpRead, Buf: buf(make([]byte, 10))},
			{Kind: OpRead, Buf: buf(make([]byte, 5000))}} {
			op.Peer, op.Key = 1, key
			l.post(0, op)
			l.settle()
			if got := code(l.last(0).Err); got != wire.RCBadMKey && got != wire.RCPermViolation {
				t.Errorf("key %x, %v of %d bytes: %v", key, op.Kind, len(op.Buf.B), l.last(0).Err)
			}
		}
		if !bytes.Equal(mem, make([]byte, 100_000)) || !bytes.Equal(next, mem) {
			t.Error("memory was changed")
		}
		// Under way.
		l.post(0, Op{Kind: OpWrite, Peer: 1, Key: other, Buf: buf(bytes.Repeat([]byte{1}, 100_000))})
		for next[3000] == 0 && l.step(vt.Never) {
		}
		if err := l.eps[1].Deregister(other); err != nil {
			t.Fatal(err)
		}
		then := append([]byte(nil), next...)
		l.settle()
		if got := code(l.last(0).Err); got != wire.RCBadMKey && got != wire.RCPermViolation || !bytes.Equal(then, next) || then[99_999] != 0 {
			t.Errorf("under way: %v, or memory was changed", l.last(0).Err)
		}
	}
	l.leaks()
}

// J04: a write with completion data completes at the target when all its bytes are in, and once.
func TestJ04_WriteWithData(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}} {
		s := newStub(t, Config{PayloadMTU: 1024})
		mem, data := make([]byte, 4000), fill(3000, 1)
		key, _ := s.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteWrite})
		s.openBy(wire.TypeRUDReq)
		h := message(wire.OpWrite, 2, 0)
		h.MatchBits, h.BufferOffset, h.HeaderData = key, 500, 0xFFFF_0000_1234_5678
		for i, k := range order {
			p := part(int32(k)+1, h, data, k)
			if k == 0 {
				p.h.Flags |= wire.SESHD
			}
			if i < 2 {
				s.partial(p)
				s.wait(1_000_000)
				if len(s.lab.got[1]) != 0 {
					t.Fatalf("order %v: complete after %d packets", order, i+1)
				}
				continue
			}
			s.taken(p)
		}
		if len(s.lab.got[1]) != 1 {
			t.Fatalf("order %v: completions %+v", order, s.lab.got[1])
		}
		if c := s.lab.got[1][0]; c.Kind != OpRemoteWrite || c.Flags&FlagData == 0 || c.Data != h.HeaderData || c.Len != 3000 || c.Src != 0 || c.Err != nil ||
			!bytes.Equal(mem[500:3500], data) {
			t.Errorf("order %v: %+v", order, c)
		}
	}
}

// reading is what is seen of a read of node 0.
type reading struct {
	reqs, back []passed // requests, and packets of return data with their first transmissions only
	acks       []reply  // of the requests
	pdc        uint16
}

// readOf has node 0 read n bytes of a region at an offset, checks them, and says what was to be seen.
func (l *lab) readOf(mem []byte, key, offset uint64, n int) (x reading) {
	l.t.Helper()
	list := l.watch()
	dst := make([]byte, n)
	l.post(0, Op{Kind: OpRead, Peer: 1, Key: key, Offset: offset, Buf: buf(dst), Ctx: 8})
	l.after(500_000)
	l.tap = nil
	for _, p := range *list {
		r, isReq := p.request()
		_, isAck := p.ack()
		switch {
		case isReq && r.RETX():
		case isReq && p.from == 0:
			x.reqs, x.pdc = append(x.reqs, p), r.SPDCID()
		case isReq:
			x.back = append(x.back, p)
		case isAck && p.from == 1:
			x.acks = append(x.acks, parseSaid(l.t, p.u))
		}
	}
	if c := l.last(0); c.Kind != OpRead || c.Ctx != 8 || c.Len != n || c.Err != nil || !bytes.Equal(dst, mem[offset:][:n]) {
		l.t.Errorf("read of %d bytes: %+v, or contents differ", n, c)
	}
	return x
}

// J05: the data of a read of up to 16 bytes comes in the ACK, as RESPONSE_W_DATA that must not be lost, and not otherwise.
func TestJ05_ShortRead(t *testing.T) {
	for _, n := range []int{1, 8, 15, 16} {
		l := newLab(t, Config{})
		mem := fill(100, uint64(n))
		key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead})
		x := l.readOf(mem, key, 50, n)
		if len(x.reqs) != 1 || len(x.back) != 0 || len(x.acks) != 1 {
			t.Fatalf("%d bytes: %d requests, %d packets of return data, %d ACKs", n, len(x.reqs), len(x.back), len(x.acks))
		}
		if a := x.acks[0]; a.op != wire.RespWithData || a.next != wire.NextResponseData || a.rc != wire.RCOK || !a.gtd || !bytes.Equal(a.data, mem[50:50+n]) ||
			int(a.mod) != n || a.off != 0 {
			t.Errorf("%d bytes: %+v", n, a)
		}
	}
}

// J06: all data of a longer read, the short last part too, comes in the return direction of the same PDC, none with an ACK.
func TestJ06_LongRead(t *testing.T) {
	for _, n := range []int{17, 1023, 1024, 1025, 5*1024 + 1, 20 * 1024} {
		l := newLab(t, Config{PayloadMTU: 1024})
		mem := fill(30_000, uint64(n))
		key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead})
		x := l.readOf(mem, key, 7, n)
		want := (n + 1023) / 1024
		if len(x.reqs) != want || len(x.back) != want {
			t.Fatalf("%d bytes: %d requests, %d packets of return data, want %d", n, len(x.reqs), len(x.back), want)
		}
		for i, p := range x.reqs {
			r, _ := p.request()
			h, err := wire.ParseSESStd(p.u[len(r):])
			if err != nil || r.SPDCID() != x.pdc || len(p.u) != len(r)+len(h) || int(h.RequestLength()) != n || i > 0 && int(h.MessageOffset()) != i*1024 {
				t.Errorf("%d bytes, request %d: %v", n, i, err)
			}
		}
		for _, a := range x.acks {
			if len(a.data) != 0 || a.rc > wire.RCOK || a.gtd || a.mod != 0 && int(a.mod) != n {
				t.Errorf("%d bytes: ACK %+v", n, a)
			}
		}
		seen := map[uint32]bool{}
		for _, p := range x.back {
			r, _ := p.request()
			a := parseResponse(t, reply{next: r.Next()}, p.u[len(r):])
			size := min(1024, n-int(a.off))
			if r.DPDCID() != x.pdc || r.Next() != wire.NextResponseData || a.op != wire.RespWithData || seen[a.off] || a.off%1024 != 0 || len(a.data) != size {
				t.Errorf("%d bytes: return data %+v to PDC %x, want %x", n, a, r.DPDCID(), x.pdc)
			}
			seen[a.off] = true
		}
	}
}

// J07: answers to the standard header name its message ID, those to the medium and the small one the PSN of the request.
func TestJ07_AnswersNameTheirRequest(t *testing.T) {
	for _, small := range []bool{false, true} {
		for _, opt := range []bool{false, true} {
			l := newLabWith(t, Config{PayloadMTU: 1024, SmallHeader: small}, EndpointConfig{}, EndpointConfig{})
			mem := fill(10_000, 1)
			key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: allRights, Optimized: opt})
			for _, n := range []int{8, 16, 17, 1024, 3000} {
				form := wire.NextRequestStd
				if small && n <= 1024 {
					form = wire.NextRequestMedium
					if opt {
						form = wire.NextRequestSmall
					}
				}
				x := l.readOf(mem, key, 16, n)
				byPSN, mids := map[wire.PSN]bool{}, map[uint16]bool{}
				for _, p := range x.reqs {
					r, _ := p.request()
					if r.Next() != form {
						t.Errorf("%d bytes: header %v, want %v", n, r.Next(), form)
					}
					byPSN[r.PSN()] = true
					if h, err := wire.ParseSESStd(p.u[len(r):]); err == nil && form == wire.NextRequestStd {
						mids[h.MessageID()] = true
					}
				}
				answers := 0
				check := func(a reply) {
					if a.data == nil {
						return
					}
					answers++
					if form == wire.NextRequestStd && (a.next != wire.NextResponseData || !mids[a.mid] || len(mids) != 1) ||
						form != wire.NextRequestStd && (a.next != wire.NextResponseDataSmall || !byPSN[a.psn]) {
						t.Errorf("%d bytes, %v: answer %v names message %d, PSN %d", n, form, a.next, a.mid, a.psn)
					}
				}
				for _, a := range x.acks {
					check(a)
				}
				for _, p := range x.back {
					r, _ := p.request()
					check(parseResponse(t, reply{next: r.Next()}, p.u[len(r):]))
				}
				if answers != (n+1023)/1024 {
					t.Errorf("%d bytes: %d answers", n, answers)
				}
			}
			if l.count(MsgsErr) != 0 || len(l.feps[0].smallReads) != 0 || len(l.feps[0].reads) != 0 {
				t.Errorf("%d errors; %d and %d reads left", l.count(MsgsErr), len(l.feps[0].smallReads), len(l.feps[0].reads))
			}
		}
	}
}

// J08: read data that was lost is sent again by the target, without the reader asking again, and comes once.
func TestJ08_LostReturnData(t *testing.T) {
	for _, small := range []bool{false, true} {
		for _, lost := range []int{0, 3, 9} {
			l := newLabWith(t, Config{PayloadMTU: 1024, SmallHeader: small}, EndpointConfig{}, EndpointConfig{})
			n := 10 * 1024
			if small {
				n, lost = 1000, 0
			}
			mem, dst := fill(n, 1), make([]byte, n)
			key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead})
			back := func(from int, u []byte) bool { return from == 1 && requests(from, u) }
			l.script = nth(lost, fate{drop: true}, back)
			l.post(0, Op{Kind: OpRead, Peer: 1, Key: key, Buf: buf(dst), Ctx: 1})
			l.settle()
			if len(l.got[0]) != 1 || l.got[0][0].Err != nil || !bytes.Equal(mem, dst) || l.feps[1].C[Retx] == 0 || l.feps[0].C[Retx] != 0 ||
				l.feps[0].C[ReadLate] != 0 || int(l.feps[1].C[ReadsRx]) != (n+1023)/1024 {
				t.Errorf("packet %d: %+v; %d and %d packets sent again, %d requests executed", lost, l.got[0], l.feps[0].C[Retx], l.feps[1].C[Retx],
					l.feps[1].C[ReadsRx])
			}
		}
	}
}

// J09: a PDC with a read open is not closed, however short its idle time and however long the data takes.
func TestJ09_NoCloseWithReadOpen(t *testing.T) {
	for _, small := range []bool{false, true} {
		l := newLabWith(t, Config{PayloadMTU: 1024, SmallHeader: small, IdleClose: 1, NoInfer: true}, EndpointConfig{}, EndpointConfig{})
		mem, dst := fill(1000, 1), make([]byte, 1000)
		key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead})
		first := vt.Time(0)
		l.script = func(from int, b []byte) (f fate) { // 3 ms without the data
			if u := firstUET(b); from == 1 && requests(from, u) {
				if first == 0 {
					first = l.now()
				}
				f.drop = l.now() < first+3_000_000
			}
			return f
		}
		closed := vt.Time(0)
		l.tap = func(now vt.Time, from int, b []byte) {
			if c, err := wire.ParseCtrl(firstUET(b)); err == nil && wire.Prologue(firstUET(b)).Type() == wire.TypeCtrl &&
				(c.Ctl() == wire.CtlCloseCommand || c.Ctl() == wire.CtlCloseRequest) && closed == 0 {
				closed = now
			}
		}
		l.post(0, Op{Kind: OpRead, Peer: 1, Key: key, Buf: buf(dst)})
		l.settle()
		if c := l.last(0); len(l.got[0]) != 1 || c.Err != nil || !bytes.Equal(mem, dst) || c.Acked < first+3_000_000 || closed < c.Acked {
			t.Errorf("%+v; closed at %v", l.got[0], closed)
		}
	}
}

// J10: reads and writes of nothing are operations like others: one packet, with its checks, and completion data if there is some.
func TestJ10_ZeroLength(t *testing.T) {
	for _, small := range []bool{false, true} {
		l := newLabWith(t, Config{SmallHeader: small}, EndpointConfig{}, EndpointConfig{})
		mem := fill(100, 1)
		key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteWrite | mr.RemoteRead, Optimized: small})
		ro, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead})
		for i, c := range []struct {
			op Op
			rc wire.ReturnCode
		}{
			{Op{Kind: OpWrite, Key: key}, 0}, {Op{Kind: OpWrite, Key: key, Offset: 100}, 0}, {Op{Kind: OpRead, Key: key}, 0}, {Op{Kind: OpRead, Key: key, Offset: 100}, 0},
			{Op{Kind: OpWrite, Key: key, Flags: FlagData, Data: 77}, 0},
			{Op{Kind: OpWrite, Key: key ^ 2}, wire.RCBadMKey}, {Op{Kind: OpWrite, Key: ro, Flags: FlagData, Data: 77}, wire.RCPermViolation},
			{Op{Kind: OpWrite, Key: key, Offset: 101}, wire.RCBadAddr}, {Op{Kind: OpRead, Key: key, Offset: 101}, wire.RCBadAddr},
		} {
			if c.rc == 0 {
				c.rc = code(nil)
			}
			list := l.watch()
			c.op.Peer, c.op.Ctx = 1, uint64(i)
			l.got = [2][]Completion{}
			l.post(0, c.op)
			l.settle()
			n := 0
			for _, p := range requestsIn(*list, 0) {
				if r, _ := p.request(); r.Next().IsRequest() {
					n++
				}
			}
			if n != 1 || len(requestsIn(*list, 1)) != 0 || len(l.got[0]) != 1 || l.got[0][0].Len != 0 || code(l.got[0][0].Err) != c.rc {
				t.Errorf("small %v, %v at %d: %d requests, %d packets back, %+v", small, c.op.Kind, c.op.Offset, n, len(requestsIn(*list, 1)), l.got[0])
			}
			if signal := c.op.Flags != 0 && c.rc == code(nil); signal != (len(l.got[1]) == 1) || signal && (l.got[1][0].Data != 77 || l.got[1][0].Len != 0) {
				t.Errorf("small %v, %v: at the target %+v", small, c.op.Kind, l.got[1])
			}
		}
		if !bytes.Equal(mem, fill(100, 1)) {
			t.Error("memory was changed")
		}
	}
}

// J03 for an operation that waits for its data: what the peer takes back in the middle of a read ends the read in an error.
func TestJ03_RevokedUnderARead(t *testing.T) {
	l := newLab(t, Config{PayloadMTU: 1024})
	mem, dst := fill(200_000, 1), make([]byte, 200_000)
	key, _ := l.eps[1].RegisterMR(MR{Buf: buf(mem), Access: mr.RemoteRead})
	l.post(0, Op{Kind: OpRead, Peer: 1, Key: key, Buf: buf(dst)})
	for dst[3000] != mem[3000] && l.step(vt.Never) {
	}
	if err := l.eps[1].Deregister(key); err != nil {
		t.Fatal(err)
	}
	clear(mem)
	l.settle()
	if len(l.got[0]) != 1 || l.got[0][0].Err == nil || !errors.As(l.got[0][0].Err, new(*ResponseError)) {
		t.Errorf("%+v", l.got[0])
	}
	l.run(l.now().Add(10 * time.Second))
	l.checkEmpty()
}
