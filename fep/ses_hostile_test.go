package fep

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/wire"
)

// secret is what memory holds that no peer may see; packets of the attack do not have it.
const secret = 0x5C

// victim is a target whose regions and receives lie in one piece of memory, with room between them that nobody may touch.
type victim struct {
	*stub
	arena  []byte
	before []byte   // the arena at the beginning
	open   []bool   // bytes that peers may change
	keys   []uint64 // that exist, and some that do not
	in     []byte   // what is left of the input of the attack
	psn    int32
	sent   int
	answer int // ACKs, NACKs and RUDI responses since the latest packet
	data   [][]byte
}

func newVictim(t testing.TB) *victim {
	v := &victim{arena: bytes.Repeat([]byte{secret}, 64<<10)}
	v.open = make([]bool, len(v.arena))
	v.stub = newStub(t, Config{PayloadMTU: 1024, Profiles: AIBase | AIFull | HPC})
	svc := v.lab.open(1, EndpointConfig{Job: 3, PID: 9, Absolute: true})
	v.script = func(from int, b []byte) fate {
		if from == 1 {
			v.heard(firstUET(b))
		}
		return fate{drop: true}
	}
	at := 0
	room := func(n int, public bool) []byte {
		b := v.arena[at+512 : at+512+n : at+512+n]
		for i := range b {
			v.open[at+512+i] = public
		}
		at += 512 + n
		return b
	}
	reg := func(ep *Endpoint, m MR, n int) {
		m.Buf = buf(room(n, m.Access&(mr.RemoteWrite|mr.RemoteAtomic) != 0))
		if m.Access&mr.RemoteRead != 0 {
			clear(m.Buf.B)
		}
		key, err := ep.RegisterMR(m)
		if err != nil {
			t.Fatal(err)
		}
		v.keys = append(v.keys, key)
	}
	reg(v.eps[1], MR{Access: allRights}, 3000)
	reg(v.eps[1], MR{Access: allRights, Idempotent: true}, 3000)
	reg(v.eps[1], MR{Access: allRights, Optimized: true}, 3000)
	reg(v.eps[1], MR{Access: mr.RemoteRead}, 3000)
	reg(v.eps[1], MR{Access: allRights, Notify: true, Key: 5}, 100)
	reg(v.eps[1], MR{Access: mr.LocalRead | mr.LocalWrite}, 3000)
	reg(svc, MR{Access: allRights, Job: testJob}, 3000)
	v.keys = append(v.keys, 0, 1, ^uint64(0))
	for i, ep := range []*Endpoint{v.eps[1], v.eps[1], svc} {
		for k := range 6 {
			op := Op{Peer: AnySource, Kind: []Kind{OpRecv, OpTagRecv}[k%2], Tag: uint64(k / 2), Ctx: uint64(i*10 + k)}
			op.Buf = buf(room([]int{0, 100, 1024, 3000}[(i+k)%4], true))
			if k > 3 {
				op.Flags = FlagMultiRecv
			}
			v.by(ep, op)
		}
	}
	v.before = bytes.Clone(v.arena)
	v.stub.say(say{flags: wire.ReqSYN, h: message(wire.OpNoOp, 0xFFF0, 0)}) // opens the PDC
	return v
}

// heard notes what the target says.
func (v *victim) heard(u []byte) {
	switch t := wire.Prologue(u).Type(); {
	case t.IsAck():
		a, _ := wire.ParseAck(u)
		v.peer = a.SPDCID()
		v.answer++
		v.data = append(v.data, append([]byte(nil), u[len(a):]...))
	case t.IsNack(), t == wire.TypeRUDIResp:
		v.answer++
		v.data = append(v.data, append([]byte(nil), u...))
	case t.IsRequest():
		v.data = append(v.data, append([]byte(nil), u...))
	}
}

// take reads a byte of the attack's input.
func (v *victim) take() int {
	if len(v.in) == 0 {
		return 0
	}
	b := v.in[0]
	v.in = v.in[1:]
	return int(b)
}

func pick[T any](v *victim, list ...T) T { return list[v.take()%len(list)] }

// packet makes one request of the attack: of every other one all fields fit together, but for what is spoilt at the end.
func (v *victim) packet() (typ wire.PDSType, next wire.NextHdr, b []byte) {
	typ = pick(v, wire.TypeRUDReq, wire.TypeRUDReq, wire.TypeRUDReq, wire.TypeRUDReq, wire.TypeRUDReq, wire.TypeRUDIReq, wire.TypeUUDReq)
	next = pick(v, wire.NextRequestStd, wire.NextRequestStd, wire.NextRequestStd, wire.NextRequestMedium, wire.NextRequestSmall)
	h := message(pick(v, wire.OpWrite, wire.OpRead, wire.OpAtomic, wire.OpFetchingAtomic, wire.OpSend, wire.OpTaggedSend, wire.OpMsgError, wire.OpNoOp,
		wire.OpDeferrableSend, wire.OpDeferrableTSend, wire.OpDeferrableRTR, wire.OpRendezvousSend, wire.OpDatagramSend, wire.Opcode(v.take()&63)),
		uint16(v.sent+2-pick(v, 0, 0, 0, v.take()%4)), 0)
	if typ == wire.TypeUUDReq {
		h.Opcode, next = wire.OpDatagramSend, pick(v, wire.NextRequestMedium, next)
	}
	h.RequestLength = pick[uint32](v, 0, 1, 8, 16, 32, 100, 1024, 2048, 3000)
	n := int(min(h.RequestLength, 1024))
	h.Initiator, h.HeaderData = pick[uint32](v, 100, 101, 7), uint64(v.take())
	h.BufferOffset = pick[uint64](v, 0, 0, 8, 16)
	h.MatchBits = v.keys[v.take()%5]
	if next == wire.NextRequestSmall {
		h.MatchBits = v.keys[2]
		h.ResourceIndex = uint16(h.MatchBits & 0xFFF)
	}
	if h.Opcode > wire.OpFetchingAtomic {
		h.MatchBits = uint64(v.take() % 3)
	}
	part := v.take()
	if h.RequestLength > 1024 && part&1 != 0 { // not the first packet
		h.MessageOffset = uint32(part>>1%2+1) * 1024
		h.Flags &^= wire.SESSOM
		n = int(min(1024, max(h.RequestLength, h.MessageOffset)-h.MessageOffset))
	}
	if h.MessageOffset+uint32(n) < h.RequestLength {
		h.Flags &^= wire.SESEOM
	}
	h.PayloadLength = uint16(n)
	if v.take()%2 == 0 {
		v.spoil(&h, &n)
	}
	switch next {
	case wire.NextRequestMedium:
		b = wire.AppendSESMedium(b, &wire.MediumFields{HeadFields: h.HeadFields, RequestLength: uint16(h.RequestLength) & 0x3FFF,
			BufferOffset: h.BufferOffset, HeaderData: h.HeaderData, Initiator: h.Initiator, MatchBits: h.MatchBits})
	case wire.NextRequestSmall:
		b = wire.AppendSESSmall(b, &wire.SmallFields{HeadFields: h.HeadFields, RequestLength: uint16(h.RequestLength) & 0x3FFF, BufferOffset: h.BufferOffset})
	default:
		b = wire.AppendSESStd(b, &h)
	}
	if h.Opcode.IsAtomic() && pick(v, 1, 1, 1, 0) == 1 {
		b = wire.AppendAtomic(b, &wire.AtomicFields{Op: wire.AtomicOp(v.take() % 24), Type: wire.AtomicType(v.take() % 20), Compare: [16]byte{15: byte(v.take())}})
	}
	if h.Opcode.IsRendezvous() {
		b = wire.AppendRendezvous(b, &wire.RendezvousFields{EagerLength: pick[uint32](v, 0, h.RequestLength, 1024, 5)})
	}
	if h.Opcode != wire.OpRead && pick(v, 1, 1, 1, 1, 0) == 1 {
		b = append(b, make([]byte, n)...)
		for i := len(b) - n; i < len(b); i += 1 + n/8 {
			b[i] = byte(v.take())
		}
	}
	for flips := pick(v, 0, 0, 0, 1, 3); flips > 0; flips-- {
		b[(v.take()<<8+v.take())%len(b)] ^= byte(v.take())
	}
	if pick(v, 0, 0, 0, 0, 0, 0, 0, 1) == 1 {
		b = b[:v.take()%(len(b)+1)]
	}
	return typ, next, bytes.ReplaceAll(b, []byte{secret, secret}, []byte{0, secret})
}

// spoil makes anything of the fields.
func (v *victim) spoil(h *wire.StdFields, n *int) {
	for range v.take() % 3 {
		switch v.take() % 10 {
		case 0:
			h.Flags = wire.SESFlags(v.take() & 63)
		case 1:
			h.JobID, h.PIDonFEP, h.ResourceIndex = uint32(pick(v, testJob, 3, 8)), uint16(pick(v, 1, 9, 2)), uint16(pick(v, 15, 0, 2))
		case 2:
			h.Flags ^= wire.SESRel
			h.PIDonFEP = 9
		case 3:
			h.RequestLength = pick[uint32](v, 0, 1, 17, 1023, 1025, 3001, 1<<31, 1<<32-1)
		case 4:
			*n = pick(v, 0, 1, 8, 1024)
		case 5:
			h.PayloadLength = uint16(pick(v, 0, 1, 1024, 16383))
		case 6:
			h.MessageOffset = pick(v, 0, 1024, 2048, 5, 1<<31, h.RequestLength-uint32(*n))
		case 7:
			h.BufferOffset = pick[uint64](v, 1, 100, 2992, 3000, 1<<40, ^uint64(0), ^uint64(0)-7, 1<<63)
		case 8:
			h.MatchBits = v.keys[v.take()%len(v.keys)]
		default:
			h.RIGeneration, h.InitiatorToken, h.TargetToken = uint8(v.take()), uint32(v.take()), uint32(v.take()%3)
		}
	}
}

// strike sends one packet, and counts the answers.
func (v *victim) strike() {
	typ, next, b := v.packet()
	v.sent++
	v.answer, v.got = 0, nil
	bad := v.feps[1].C[Malformed]
	want := 1
	v.send(0, func(f []byte) []byte {
		switch typ {
		case wire.TypeUUDReq:
			want = 0
			f = wire.AppendUUD(f, next)
		case wire.TypeRUDIReq:
			f = wire.AppendRUDI(f, &wire.RUDIFields{Type: typ, Next: next, PktID: uint32(v.sent)})
		default:
			v.psn++
			f = wire.AppendRequest(f, &wire.RequestFields{Type: typ, Next: next, Flags: wire.ReqAR, ClearOffset: -1, PSN: v.start.Add(v.psn),
				SPDCID: stubPDC, DPDCID: v.peer, PSNOffset: uint16(v.psn)})
		}
		return append(f, b...)
	})
	if want == 1 && len(b) < next.HeaderLen() && v.answer == 0 { // no packet at all
		want = 0
		if now := v.feps[1].C[Malformed]; now != bad+1 {
			v.t.Errorf("packet %d, cut to %d bytes, is neither answered nor counted", v.sent, len(b))
		}
	}
	if v.answer != want {
		v.t.Errorf("packet %d, %v with %v of %d bytes (%x): %d answers", v.sent, typ, next, len(b), b[:min(len(b), 50)], v.answer)
	}
}

// untouched checks all memory, and all that the target has said.
func (v *victim) untouched() {
	v.t.Helper()
	for i, b := range v.arena {
		if b != v.before[i] && !v.open[i] {
			v.t.Fatalf("byte %d, which nobody may change, is %x", i, b)
		}
	}
	for _, d := range v.data {
		if bytes.Contains(d, bytes.Repeat([]byte{secret}, 4)) {
			v.t.Fatalf("memory that is not to be read was given away: %x", d)
		}
	}
}

// attack plays the input, and then lets everything time out.
func attack(t testing.TB, in []byte) {
	v := newVictim(t)
	v.in = in
	for len(v.in) > 0 && v.sent < 300 && !t.Failed() {
		v.strike()
	}
	v.untouched()
	f := v.feps[1]
	v.wait(600_000_000_000)
	v.untouched()
	if f.rx.n != 0 || f.rets.n != 0 || f.C[GtdInUse] != 0 || f.C[PDCsOpen] != 0 || f.mids.n != 0 || v.nodes[1].Pool.Out() != 0 {
		t.Errorf("left: %d messages, %d packets of read data, %d responses, %d PDCs, %d message IDs, %d frames", f.rx.n, f.rets.n, f.C[GtdInUse],
			f.C[PDCsOpen], f.mids.n, v.nodes[1].Pool.Out())
	}
	if r := f.m.Residue(); r != "" {
		t.Errorf("left in packet delivery: %s", r)
	}
	posted := map[uint64]int{} // completions of receives
	for _, c := range v.lab.got[1] {
		if c.Kind == OpRecv || c.Kind == OpTagRecv {
			posted[c.Ctx]++
			if n := posted[c.Ctx]; n > 1 && c.Ctx%10 < 4 {
				t.Errorf("receive %d completed %d times", c.Ctx, n)
			}
		}
	}
}

// TestHostileSES plays random attacks: see attack.
func TestHostileSES(t *testing.T) {
	runs := 60
	if testing.Short() {
		runs = 10
	}
	for range runs {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 8))
		in := make([]byte, 6000)
		for i := range in {
			in[i] = byte(r.Uint32())
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { attack(t, in) })
	}
}

// FuzzSESTarget is TestHostileSES with the fuzzer's choices.
func FuzzSESTarget(f *testing.F) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 20 {
		in := make([]byte, 300)
		for i := range in {
			in[i] = byte(r.Uint32())
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) { attack(t, in[:min(len(in), 6000)]) })
}
