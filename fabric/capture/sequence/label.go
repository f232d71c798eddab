package sequence

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/uetlab/uetlab/wire"
)

// enter finds the PDC of a packet and writes its label. Packets come in the order of time.
func (b *book) enter(e *event) {
	switch {
	case e.head == nil:
		e.label, e.tone = e.kind.String(), toneBad
		if e.kind == wire.TypeTSS {
			e.label, e.tone, e.class = "TSS, encrypted", toneData, "TSS"
			e.noun = "TSS packets"
		}
	case e.kind.IsRequest():
		b.request(e, wire.Request(e.head))
	case e.kind.IsAck():
		b.ack(e, wire.Ack(e.head))
	case e.kind.IsNack():
		b.nack(e, wire.Nack(e.head))
	case e.kind == wire.TypeCtrl:
		b.ctrl(e, wire.Ctrl(e.head))
	case e.kind == wire.TypeUUDReq:
		e.label, e.class, e.noun = "UUD_REQ", "UUD ", "UUD_REQ"
		e.addSES(b)
	default:
		b.rudi(e, wire.RUDI(e.head))
	}
	if e.class != "" {
		e.class = e.kind.String() + " " + e.class
	}
	e.flag(e.trimmed, "TRIMMED")
	e.flag(e.fault != "", "! "+e.fault)
	if e.ce {
		e.label += "  CE"
	}
}

// flag adds what is wrong to a label; a packet of which it is wrong is no part of a run of sound ones.
func (e *event) flag(on bool, text string) {
	if !on {
		return
	}
	e.label += "  " + text
	e.flags += "  " + text
	e.tone = toneBad
	if e.class != "" {
		e.class += " " + text
	}
}

// addSES adds the SES part to a label and a class.
func (e *event) addSES(b *book) {
	e.label += e.ses.flags
	if e.ses.text != "" {
		e.label += "  " + strings.TrimSpace(e.ses.text)
	}
	if e.ses.small && e.pdc != nil && e.head != nil {
		side := 1 - e.pdc.side(e.src, spdcid(e))
		e.label += " for psn " + b.psn(e.pdc, side, e.ses.orig)
	}
	e.class += e.ses.class
}

// spdcid is the sender's PDCID of a request or an ACK, the packets that return data.
func spdcid(e *event) uint16 {
	if e.kind.IsRequest() {
		return wire.Request(e.head).SPDCID()
	}
	return wire.Ack(e.head).SPDCID()
}

// words joins what is on with blanks.
func words(first string, more ...any) string {
	for i := 0; i+1 < len(more); i += 2 {
		if more[i].(bool) {
			first += " " + more[i+1].(string)
		}
	}
	return first
}

func (b *book) request(e *event, r wire.Request) {
	if r.SYN() {
		e.pdc = b.syn(e, r.SPDCID(), r.StartPSN())
	} else {
		e.pdc = b.find(e, r.SPDCID(), r.DPDCID(), false)
	}
	p, side := e.pdc, e.pdc.side(e.src, r.SPDCID())
	p.mode = "RUD"
	if r.Type().IsROD() {
		p.mode = "ROD"
	}
	head := words(r.Type().String(), r.SYN(), "SYN", r.RETX(), "RETX", r.UseRsvPDC(), "RSV_PDC")
	e.class, e.noun = head+" ", cmp.Or(e.ses.noun, "packets")
	e.label, e.num = head+" psn "+b.psn(p, side, r.PSN()), b.num(p, side, r.PSN())
	if c := r.ClearPSN(); side == 0 && p.clear && c.After(p.cleared) {
		e.label += " clear " + b.psn(p, side, c)
		e.class += "clear "
		p.clear, p.cleared = false, c
	}
	if r.RETX() {
		e.tone, e.noun = toneBad, "RETX "+e.noun
	}
	e.addSES(b)
}

func (b *book) ack(e *event, a wire.Ack) {
	e.pdc = b.find(e, a.SPDCID(), a.DPDCID(), false)
	p, peer := e.pdc, 1-e.pdc.side(e.src, a.SPDCID())
	e.tone, e.noun, e.num = toneAck, a.Type().String()+" cack", b.num(p, peer, a.CACK())
	if e.ses.data {
		e.noun = a.Type().String() + " with data, cack"
	}
	state := words("", a.RETX(), "RETX", a.P(), "P", a.M(), "M", a.Req() != wire.AckReqNone, "REQ_"+a.Req().String())
	e.label = a.Type().String() + " cack " + b.psn(p, peer, a.CACK())
	if !a.P() && a.AckPSN() != a.CACK() {
		e.label += " ack " + b.psn(p, peer, a.AckPSN())
	}
	if a.HasCC() && a.SACKBitmap() != 0 {
		e.label += " sack " + b.sack(p, peer, a)
		e.class = "sack"
	}
	e.label += state
	e.class += strings.ReplaceAll(state, " M", "") + " "
	p.clear = p.clear || a.Req() == wire.AckReqClear && peer == 0
	e.addSES(b)
}

// sack lists what the bitmap of an ACK says has arrived, as runs of PSNs.
func (b *book) sack(p *pdc, side int, a wire.Ack) string {
	const most = 4
	var out []string
	base, bits := a.SACKBase(), a.SACKBitmap()
	for i := 0; i < 64; i++ {
		if bits>>i&1 == 0 {
			continue
		}
		first := i
		for i < 63 && bits>>(i+1)&1 == 1 {
			i++
		}
		if len(out) == most {
			return strings.Join(out, " ") + " …"
		}
		s := b.psn(p, side, base.Add(int32(first)))
		if i > first {
			s += ".." + b.psn(p, side, base.Add(int32(i)))
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func (b *book) nack(e *event, n wire.Nack) {
	head := words(n.Type().String()+" "+n.Code().String(), n.RETX(), "RETX")
	e.tone, e.class, e.noun = toneBad, head, head+" psn"
	if n.NT() {
		e.noun = head + " pkt"
		e.label = head + " pkt " + b.pkt(e, true, n.PktID())
		return
	}
	e.pdc = b.find(e, n.SPDCID(), n.DPDCID(), true)
	peer := 1 - e.pdc.side(e.src, n.SPDCID())
	e.label, e.num = head+" psn "+b.psn(e.pdc, peer, n.PSN()), b.num(e.pdc, peer, n.PSN())
	switch n.Code() {
	case wire.NackNewStartPSN:
		e.pdc.rebase = true
		e.label += fmt.Sprintf(" start %d", n.Payload())
	default:
		if n.Payload() != 0 {
			e.label += fmt.Sprintf(" payload %d", n.Payload())
		}
	}
}

func (b *book) ctrl(e *event, c wire.Ctrl) {
	e.tone = toneCtrl
	if c.SYN() {
		e.pdc = b.syn(e, c.SPDCID(), c.StartPSN())
	} else {
		e.pdc = b.find(e, c.SPDCID(), c.DPDCID(), false)
	}
	p, side := e.pdc, e.pdc.side(e.src, c.SPDCID())
	head := words("CTRL "+c.Ctl().String(), c.SYN(), "SYN", c.RETX(), "RETX")
	e.class, e.noun, e.label = head, head, head
	if c.PSN() != 0 { // kinds that need none have 0
		e.label, e.num = head+" psn "+b.psn(p, side, c.PSN()), b.num(p, side, c.PSN())
		e.noun += " psn"
	}
	payload := wire.PSN(c.Payload())
	switch c.Ctl() {
	case wire.CtlProbe:
		e.label += " sack from " + b.psn(p, side, payload)
	case wire.CtlClearCommand:
		e.label += " clear " + b.psn(p, side, payload)
		p.clear, p.cleared = false, payload
	case wire.CtlClearRequest:
		e.label += " clear " + b.psn(p, 1-side, payload)
		p.clear = true
	case wire.CtlNegotiation:
		if n, err := c.Negotiation(); err == nil {
			e.label += fmt.Sprintf(" features 0x%x", n.FeatureMask)
		}
	default:
		if payload != 0 {
			e.label += fmt.Sprintf(" payload 0x%x", c.Payload())
		}
	}
}

func (b *book) rudi(e *event, r wire.RUDI) {
	answer := e.kind == wire.TypeRUDIResp
	head := words(e.kind.String(), r.Flags()&wire.RUDIRETX != 0, "RETX")
	e.label, e.noun, e.class = head+" pkt "+b.pkt(e, answer, r.PktID()), head+" pkt", head+" "
	switch {
	case r.Flags()&wire.RUDIRETX != 0:
		e.tone = toneBad
	case answer:
		e.tone = toneAck
	}
	e.addSES(b)
}

// pkt sets and writes the packet id of a RUDI packet. Ids count from the first one of the end that chose them.
func (b *book) pkt(e *event, answer bool, id uint32) string {
	by := e.src
	if answer {
		by = e.dst
	}
	first, ok := b.firstPkt[by]
	if !ok {
		first, b.firstPkt[by] = id, id
	}
	e.num = int64(int32(id - first))
	if b.absolute {
		e.num = int64(id)
	}
	return b.number(e.num)
}
