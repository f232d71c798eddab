package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
)

// maker makes random but legal packets.
type maker struct {
	*rand.Rand
	b []byte
}

func (m *maker) u8() uint8              { return uint8(m.Uint32()) }
func (m *maker) u12() uint16            { return uint16(m.UintN(1 << 12)) }
func (m *maker) u16() uint16            { return uint16(m.Uint32()) }
func (m *maker) u24() uint32            { return m.Uint32() & 0xFFFFFF }
func (m *maker) id() uint16             { return uint16(1 + m.UintN(0xFFFF)) }
func (m *maker) yes() bool              { return m.Uint32()&1 != 0 }
func pick[T any](m *maker, list ...T) T { return list[m.IntN(len(list))] }

// packet makes one UET packet in a buffer full of old bytes, which must not shine through.
func (m *maker) packet() []byte {
	m.b = bytes.Repeat([]byte{0xFF}, 400)[:0]
	switch m.IntN(6) {
	case 0:
		m.request()
	case 1:
		m.ack()
	case 2:
		n := NackFields{Type: pick(m, TypeNack, TypeNackCCX), Flags: pick(m, NackM, NackRETX, 0), Code: NackCode(13 + m.IntN(14)),
			VendorCode: m.u8(), PSN: PSN(m.Uint32()), SPDCID: m.id(), DPDCID: m.id(), Payload: m.Uint32()}
		if m.yes() {
			n.Flags, n.SPDCID, n.DPDCID = NackNT, 0, 0
		}
		if n.Type == TypeNackCCX {
			n.CCXType, n.CCXState1, n.CCXState2 = m.u8()&15, m.Uint64()&(1<<60-1), m.Uint64()
		}
		m.b = AppendNack(m.b, &n)
	case 3:
		c := CtrlFields{Ctl: CtlType(m.IntN(10)), Flags: pick(m, CtrlAR, CtrlRETX|CtrlISROD, 0), ProbeOpaque: m.u16(), PSN: PSN(m.Uint32()),
			SPDCID: m.id(), DPDCID: m.id(), Payload: m.Uint32()}
		if m.yes() {
			c.Flags, c.DPDCID, c.PSNOffset, c.UseRsvPDC = c.Flags|CtrlSYN, 0, m.u12(), m.yes()
		}
		m.b = AppendCtrl(m.b, &c)
		if c.Ctl == CtlNegotiation {
			m.b = AppendNegotiation(m.b, m.Uint32())
		}
	case 4:
		r := RUDIFields{Type: TypeRUDIReq, Next: m.requestForm(), Flags: pick(m, RUDIRETX, 0), PktID: m.Uint32()}
		if m.yes() {
			r.Type, r.Next, r.Flags = TypeRUDIResp, NextHdr(4+m.IntN(3)), r.Flags|RUDIM
		}
		m.b = AppendRUDI(m.b, &r)
		m.ses(r.Next)
	default:
		m.b = AppendUUD(m.b, m.requestForm())
		m.ses(Prologue(m.b).Next())
	}
	return m.b
}

func (m *maker) requestForm() NextHdr { return NextHdr(1 + m.IntN(3)) }

func (m *maker) request() {
	r := RequestFields{Type: pick(m, TypeRUDReq, TypeRODReq, TypeRUDCCReq, TypeRODCCReq), Next: pick(m, m.requestForm(), NextResponseData, NextResponseDataSmall),
		Flags: pick(m, ReqAR, ReqRETX, ReqAR|ReqRETX, 0), ClearOffset: -int16(m.IntN(1 << 15)), PSN: PSN(m.Uint32()), SPDCID: m.id(), DPDCID: m.id()}
	if m.yes() {
		r.Flags, r.DPDCID, r.PSNOffset, r.UseRsvPDC = r.Flags|ReqSYN, 0, m.u12(), m.yes()
	}
	if r.Type >= TypeRUDCCReq {
		r.CCCID, r.CreditTarget = m.u8(), m.u24()
	}
	m.b = AppendRequest(m.b, &r)
	m.ses(r.Next)
}

func (m *maker) ack() {
	a := AckFields{Type: pick(m, TypeAck, TypeAckCC, TypeAckCCX), Next: pick(m, NextNone, NextResponse, NextResponseData, NextResponseDataSmall),
		Flags: pick(m, AckM, AckRETX, AckEPSN, 0), Req: AckReq(m.IntN(3)), AckOffset: int16(m.u16()), CACK: PSN(m.Uint32()), SPDCID: m.id(), DPDCID: m.id()}
	if m.yes() {
		a.Flags, a.AckOffset, a.ProbeOpaque = a.Flags|AckP, 0, m.u16()
	}
	if a.Type != TypeAck {
		a.CCType, a.CCFlags, a.MPR, a.SACKOffset, a.SACKBitmap = pick(m, CCTypeNSCC, CCTypeCredit, 14), m.u8()&15, m.u8(), int16(m.u16()), m.Uint64()
		switch a.CCType {
		case CCTypeNSCC:
			a.CCState = NSCCState{m.u16(), m.yes(), m.u8() & 127, m.u24(), m.u16()}.Pack()
		case CCTypeCredit:
			a.CCState = CreditState{m.u24(), m.u16()}.Pack()
		default:
			a.CCState = m.Uint64()
		}
	}
	if a.Type == TypeAckCCX {
		a.CCXState = m.Uint64()
	}
	m.b = AppendAck(m.b, &a)
	m.ses(a.Next)
}

// ses adds a SES header, its extension and its payload.
func (m *maker) ses(next NextHdr) {
	n := m.IntN(60)
	h := HeadFields{Flags: SESFlags(m.u8()&0x28) | SESSOM | SESEOM, RIGeneration: m.u8(), JobID: m.u24(), PIDonFEP: m.u12(), ResourceIndex: m.u12()}
	r := RespFields{List: List(m.IntN(4)), Opcode: RespWithData, ReturnCode: ReturnCode(m.IntN(0x25)), JobID: m.u24()}
	switch next {
	case NextNone:
		return
	case NextRequestSmall:
		h.Opcode = Opcode(m.IntN(5))
		m.b = AppendSESSmall(m.b, &SmallFields{h, uint16(n), m.Uint64()})
	case NextRequestMedium:
		h.Opcode = pick(m, OpNoOp, OpWrite, OpRead, OpAtomic, OpSend, OpTaggedSend, OpDatagramSend, OpTSendAtomic, OpTSendFetchAtomic)
		f := MediumFields{HeadFields: h, RequestLength: uint16(n), BufferOffset: m.Uint64(), Initiator: m.Uint32(), MatchBits: m.Uint64()}
		if m.yes() {
			f.Flags, f.BufferOffset, f.HeaderData = f.Flags|SESHD, 0, f.BufferOffset
		}
		m.b = AppendSESMedium(m.b, &f)
	case NextRequestStd:
		m.std(h, n)
		h.Opcode = Opcode(m.b[len(m.b)-44])
	case NextResponse:
		r.Opcode, n = pick(m, RespDefault, RespResponse, RespNoResponse), 0
		m.b = AppendSESResponse(m.b, &ResponseFields{r, m.u16(), m.u8(), m.Uint32()})
	case NextResponseData:
		m.b = AppendSESResponseData(m.b, &ResponseDataFields{r, m.u16(), m.u16(), uint16(n), m.Uint32(), m.Uint32()})
	case NextResponseDataSmall:
		m.b = AppendSESResponseDataSmall(m.b, &ResponseDataSmallFields{r, uint16(n), PSN(m.Uint32())})
	}
	if next.IsRequest() {
		n = m.ext(next, h.Opcode, n)
	}
	for range n {
		m.b = append(m.b, m.u8())
	}
}

func (m *maker) std(h HeadFields, n int) {
	h.Opcode = Opcode(m.IntN(16))
	f := StdFields{HeadFields: h, MessageID: m.u16(), BufferOffset: m.Uint64(), Initiator: m.Uint32(), MatchBits: m.Uint64(), RequestLength: uint32(n)}
	switch {
	case h.Opcode.IsDeferrable():
		f.BufferOffset, f.InitiatorToken, f.TargetToken = 0, m.Uint32(), m.Uint32()
	case h.Opcode == OpDeferrableRTR:
		f.MatchBits, f.InitiatorToken, f.TargetToken = 0, m.Uint32(), m.Uint32()
	}
	if h.Opcode == OpMsgError || h.Opcode == OpSend && m.yes() {
		f.Flags, f.PayloadLength, f.MessageOffset = SESEOM|SESIE, uint16(n), m.Uint32()>>1
		f.RequestLength = f.MessageOffset + uint32(n)
	} else {
		f.HeaderData = m.Uint64()
	}
	m.b = AppendSESStd(m.b, &f)
}

// ext adds the extension of op and returns how much payload is left to add.
func (m *maker) ext(next NextHdr, op Opcode, n int) int {
	switch {
	case op.IsAtomic():
		a := AtomicFields{Op: AtomicOp(m.IntN(0x15)), Type: AtomicType(m.IntN(0x12)), SemCtl: m.u8()}
		for i := range 16 {
			a.Compare[i], a.Swap[i] = m.u8(), m.u8()
		}
		m.b = AppendAtomic(m.b, &a)
		if a.Op.IsCompareSwap() || a.Op == AtomicRead {
			return 0
		}
	case op.IsRendezvous() && next == NextRequestStd:
		m.b = AppendRendezvous(m.b, &RendezvousFields{m.Uint32(), m.u8(), m.u12(), m.u12(), m.Uint64(), m.Uint64()})
	case op == OpRead, op == OpMsgError, op == OpDeferrableRTR:
		return 0
	}
	return n
}

// TestRoundTrip encodes random packets, decodes them to their flat fields, and encodes those again.
func TestRoundTrip(t *testing.T) {
	const seed = 47930001
	t.Logf("seed %d", seed)
	m := maker{Rand: rand.New(rand.NewPCG(seed, 2))}
	for i := range 20000 {
		b := bytes.Clone(m.packet())
		p := DecodeUET(b, Options{})
		if len(p.Errs) != 0 {
			t.Fatalf("packet %d of seed %d: %v: %x\n%s", i, seed, p.Errs, b, p.Summary())
		}
		f := fieldMap{t: t, m: map[string]any{}, used: map[string]bool{}}
		for _, x := range p.Flat() {
			if v, ok := x.Value.(uint64); ok {
				f.m[x.Name] = json.Number(fmt.Sprint(v))
			} else {
				f.m[x.Name] = x.Value
			}
		}
		if got := f.uet(nil); !bytes.Equal(got, b) {
			t.Fatalf("packet %d of seed %d: %s\n%x encodes to\n%x", i, seed, p.Summary(), b, got)
		}
		for name := range f.m {
			if !f.used[name] && name != "ses.ver" {
				t.Fatalf("packet %d of seed %d: %s is not used", i, seed, name)
			}
		}
	}
}

// TestInPlace changes headers in place, as a retransmission does, and looks at the bytes.
func TestInPlace(t *testing.T) {
	f := RequestFields{Type: TypeRUDReq, Next: NextRequestStd, Flags: ReqSYN, ClearOffset: -1, PSN: 9, SPDCID: 7, PSNOffset: 4, UseRsvPDC: true}
	r, err := ParseRequest(AppendRequest(nil, &f))
	if err != nil || r.StartPSN() != 5 || !r.UseRsvPDC() || r.DPDCID() != 0 {
		t.Fatal(err, r)
	}
	r.SetDPDCID(33)
	r.SetRETX(true)
	r.SetAR(true)
	r.SetClearOffset(-5)
	r.SetPSN(10)
	want := AppendRequest(nil, &RequestFields{Type: TypeRUDReq, Next: NextRequestStd, Flags: ReqRETX | ReqAR, ClearOffset: -5, PSN: 10, SPDCID: 7, DPDCID: 33})
	if !bytes.Equal(r, want) || r.Next() != NextRequestStd || r.PSNOffset() != 0 || r.UseRsvPDC() || r.ClearPSN() != 5 {
		t.Errorf("%x, want %x", []byte(r), want)
	}
	r.SetRETX(false)
	r.SetAR(false)
	if r.Flags() != 0 || r.Next() != NextRequestStd {
		t.Errorf("flags %x next %v", r.Flags(), r.Next())
	}
	c, err := ParseCtrl(AppendCtrl(nil, &CtrlFields{Ctl: CtlCloseCommand, Flags: CtrlSYN, SPDCID: 1, PSNOffset: 3}))
	if err != nil {
		t.Fatal(err)
	}
	c.SetDPDCID(2)
	c.SetRETX(true)
	if c.Flags() != CtrlRETX || c.DPDCID() != 2 || c.Ctl() != CtlCloseCommand {
		t.Errorf("%x", []byte(c))
	}
	h := SESHead(AppendSESStd(nil, &StdFields{HeadFields: HeadFields{Opcode: OpSend, Flags: SESSOM}}))
	h.SetIE(true)
	if h.Flags() != SESSOM|SESIE || h.Opcode() != OpSend {
		t.Error("SetIE")
	}
	if c, err := ParseCtrl([]byte{0x5A, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 2}); err != nil || len(c) != 12 || c.Payload() != 0 {
		t.Error("a CLOSE_COMMAND of 12 bytes is to be accepted", err)
	}
	if _, err := ParseCtrl([]byte{0x59, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 2}); err != errCtrlShort {
		t.Error("a CLEAR_COMMAND needs its payload", err)
	}
}

// TestParseLengths gives every parser its header with one byte too few, exactly enough, and one more.
func TestParseLengths(t *testing.T) {
	ses := func(n NextHdr) []byte { return make([]byte, n.HeaderLen()) }
	cswap := AppendAtomic(nil, &AtomicFields{Op: AtomicCSwap})
	for name, c := range map[string]struct {
		b     []byte
		parse func(b []byte) (int, error)
	}{
		"prologue":   {make([]byte, 2), func(b []byte) (int, error) { v, err := ParsePrologue(b); return len(v), err }},
		"tss":        {AppendTSS(nil, &TSSFields{}), func(b []byte) (int, error) { v, err := ParseTSS(b); return len(v), err }},
		"tss ssi":    {AppendTSS(nil, &TSSFields{SP: true}), func(b []byte) (int, error) { v, err := ParseTSS(b); return len(v), err }},
		"rudi":       {AppendRUDI(nil, &RUDIFields{Type: TypeRUDIReq}), func(b []byte) (int, error) { v, err := ParseRUDI(b); return len(v), err }},
		"uud":        {AppendUUD(nil, 1), func(b []byte) (int, error) { v, err := ParseUUD(b); return len(v), err }},
		"std":        {ses(NextRequestStd), func(b []byte) (int, error) { v, err := ParseSESStd(b); return len(v), err }},
		"small":      {ses(NextRequestSmall), func(b []byte) (int, error) { v, err := ParseSESSmall(b); return len(v), err }},
		"medium":     {ses(NextRequestMedium), func(b []byte) (int, error) { v, err := ParseSESMedium(b); return len(v), err }},
		"response":   {ses(NextResponse), func(b []byte) (int, error) { v, err := ParseSESResponse(b); return len(v), err }},
		"data":       {ses(NextResponseData), func(b []byte) (int, error) { v, err := ParseSESResponseData(b); return len(v), err }},
		"data small": {ses(NextResponseDataSmall), func(b []byte) (int, error) { v, err := ParseSESResponseDataSmall(b); return len(v), err }},
		"rendezvous": {make([]byte, 24), func(b []byte) (int, error) { v, err := ParseRendezvous(b); return len(v), err }},
		"atomic":     {make([]byte, 4), func(b []byte) (int, error) { v, err := ParseAtomic(b); return len(v), err }},
		"cswap":      {cswap, func(b []byte) (int, error) { v, err := ParseAtomic(b); return len(v), err }},
		"icmp":       {make([]byte, 8), func(b []byte) (int, error) { v, err := ParseICMP(b); return min(len(v), 8), err }},
	} {
		if n, err := c.parse(c.b); err != nil || n != len(c.b) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if n, err := c.parse(append(bytes.Clone(c.b), 0)); err != nil || n != len(c.b) {
			t.Errorf("%s and a byte: %d bytes, %v", name, n, err)
		}
		if n, err := c.parse(c.b[:len(c.b)-1]); err == nil {
			t.Errorf("%s is accepted with a byte too few (%d)", name, n)
		}
	}
	// Every parser of a typed header refuses every other type.
	for typ := range PDSType(32) {
		b := make([]byte, 64)
		putPrologue(b, typ, 0, 0)
		_, req := ParseRequest(b)
		_, ack := ParseAck(b)
		_, nack := ParseNack(b)
		_, ctrl := ParseCtrl(b)
		_, rudi := ParseRUDI(b)
		_, uud := ParseUUD(b)
		_, tss := ParseTSS(b)
		var takers int
		for _, err := range []error{req, ack, nack, ctrl, rudi, uud, tss} {
			if err == nil {
				takers++
			}
		}
		if want := min(1, typ.HeaderLen()) | int(bit(typ == TypeTSS, 1)); takers != want {
			t.Errorf("type %v is taken by %d parsers, want %d", typ, takers, want)
		}
	}
}
