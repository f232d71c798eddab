package wire

import "encoding/hex"

// Field is one decoded field. Value is a uint64, or a string: hex for bytes, text for addresses.
type Field struct {
	Name  string
	Value any
}

type fieldList struct {
	prefix string
	list   []Field
}

func (l *fieldList) num(name string, v uint64) { l.list = append(l.list, Field{l.prefix + name, v}) }

func (l *fieldList) text(name, v string) { l.list = append(l.list, Field{l.prefix + name, v}) }

func (l *fieldList) flag(name string, v bool) { l.num(name, uint64(bit(v, 1))) }

func (l *fieldList) hex(name string, b []byte) {
	if len(b) > 0 {
		l.text(name, hex.EncodeToString(b))
	}
}

// Flat returns all fields in the order of the packet, under the names of the packet vectors: "pds.psn", "ses.opcode". A
// signed offset is given as its unsigned 16 bits.
func (p *Packet) Flat() []Field {
	var l fieldList
	if p.Eth != nil {
		l.text("eth.dst", p.Eth.Dst().String())
		l.text("eth.src", p.Eth.Src().String())
		l.num("eth.type", uint64(p.Type))
	}
	for _, tag := range p.Tags {
		l.num("eth.tag", uint64(tag))
	}
	p.flatIP(&l)
	p.flatUET(&l)
	if p.CRC != CRCNone {
		l.num("crc32c", uint64(p.CRCValue))
	}
	if p.Trailer != nil {
		l.num("trailer.due", uint64(p.Trailer.Due()))
		l.num("trailer.llr", uint64(p.Trailer.LLR()))
		l.num("trailer.fcs", uint64(p.Trailer.FCS()))
	}
	return l.list
}

func (p *Packet) flatIP(l *fieldList) {
	switch {
	case p.IPv4 != nil:
		ip := p.IPv4
		l.num("ip.version", 4)
		l.num("ip.dscp", uint64(ip.DSCP()))
		l.num("ip.ecn", uint64(ip.ECN()))
		l.num("ip.total_length", uint64(ip.TotalLen()))
		l.num("ip.ttl", uint64(ip.TTL()))
		l.num("ip.proto", uint64(ip.Proto()))
		l.text("ip.src", ip.Src().String())
		l.text("ip.dst", ip.Dst().String())
	case p.IPv6 != nil:
		ip := p.IPv6
		l.num("ip.version", 6)
		l.num("ip.dscp", uint64(ip.DSCP()))
		l.num("ip.ecn", uint64(ip.ECN()))
		l.num("ip.flow_label", uint64(ip.FlowLabel()))
		l.num("ip.payload_length", uint64(ip.TotalLen()-IPv6Len))
		l.num("ip.ttl", uint64(ip.HopLimit()))
		l.num("ip.proto", uint64(ip.Proto()))
		l.text("ip.src", ip.Src().String())
		l.text("ip.dst", ip.Dst().String())
	}
	if p.UDP != nil {
		l.num("udp.src_port", uint64(p.UDP.SrcPort()))
		l.num("udp.dst_port", uint64(p.UDP.DstPort()))
		l.num("udp.length", uint64(p.UDP.Len()))
		l.num("udp.checksum", uint64(p.UDP.Checksum()))
	}
	if p.UET && (p.UDP != nil || p.Native) {
		l.num("ev", uint64(p.EV))
	}
}

func (p *Packet) flatUET(l *fieldList) {
	if t := p.TSS; t != nil {
		l.num("tss.type", uint64(TypeTSS))
		l.flag("tss.sp", t.SP())
		l.num("tss.an", uint64(t.AN()))
		l.num("tss.sdi", uint64(t.SDI()))
		if t.SP() {
			l.num("tss.ssi", uint64(t.SSI()))
		}
		l.num("tss.epoch", uint64(t.Epoch()))
		l.num("tss.counter", t.Counter())
		if p.Inner != nil {
			in := fieldList{prefix: "inner.", list: l.list}
			p.Inner.flatUET(&in)
			l.list = in.list
			return
		}
		body := p.Sealed
		if n := len(body) - ICVLen; !p.cut() && n >= 0 {
			l.hex("tss.ciphertext", body[:n])
			l.hex("tss.icv", body[n:])
			return
		}
		l.hex("tss.ciphertext", body)
		return
	}
	p.flatPDS(l)
	p.SES.flat(l)
}

func (p *Packet) flatPDS(l *fieldList) {
	var b []byte
	for _, v := range [][]byte{p.Request, p.Ack, p.Nack, p.Ctrl, p.RUDI, p.UUD} {
		if v != nil {
			b = v
		}
	}
	if b == nil {
		return
	}
	l.num("pds.type", uint64(p.PDS))
	if p.PDS == TypeCtrl {
		l.num("pds.ctl_type", uint64(p.Ctrl.Ctl()))
	} else {
		l.num("pds.next_hdr", uint64(Prologue(b).Next()))
	}
	l.num("pds.flags", uint64(Prologue(b).Flags()))
	switch {
	case p.Request != nil:
		p.Request.flat(l)
	case p.Ack != nil:
		p.Ack.flat(l)
	case p.Nack != nil:
		p.Nack.flat(l)
	case p.Ctrl != nil:
		p.Ctrl.flat(l)
	case p.RUDI != nil:
		l.num("pds.pkt_id", uint64(p.RUDI.PktID()))
	}
}

// flatDst writes dpdcid, or what stands in its place with SYN.
func flatDst(l *fieldList, syn bool, dpdcid, psnOffset uint16, rsv bool) {
	if !syn {
		l.num("pds.dpdcid", uint64(dpdcid))
		return
	}
	l.flag("pds.use_rsv_pdc", rsv)
	l.num("pds.psn_offset", uint64(psnOffset))
}

func (r Request) flat(l *fieldList) {
	l.num("pds.clear_psn_offset", uint64(uint16(r.ClearOffset())))
	l.num("pds.psn", uint64(r.PSN()))
	l.num("pds.spdcid", uint64(r.SPDCID()))
	flatDst(l, r.SYN(), r.DPDCID(), r.PSNOffset(), r.UseRsvPDC())
	if r.HasCC() {
		l.num("pds.ccc_id", uint64(r.CCCID()))
		l.num("pds.credit_target", uint64(r.CreditTarget()))
	}
}

func (a Ack) flat(l *fieldList) {
	if a.P() {
		l.num("pds.probe_opaque", uint64(a.ProbeOpaque()))
	} else {
		l.num("pds.ack_psn_offset", uint64(uint16(a.AckOffset())))
	}
	l.num("pds.cack_psn", uint64(a.CACK()))
	l.num("pds.spdcid", uint64(a.SPDCID()))
	l.num("pds.dpdcid", uint64(a.DPDCID()))
	if !a.HasCC() {
		return
	}
	l.num("pds.cc_type", uint64(a.CCType()))
	l.num("pds.cc_flags", uint64(a.CCFlags()))
	l.num("pds.mpr", uint64(a.MPR()))
	l.num("pds.sack_psn_offset", uint64(uint16(a.SACKOffset())))
	l.num("pds.sack_bitmap", a.SACKBitmap())
	switch a.CCType() {
	case CCTypeNSCC:
		s := UnpackNSCC(a.CCState())
		l.num("pds.service_time", uint64(s.ServiceTime))
		l.flag("pds.rc", s.RC)
		l.num("pds.rcv_cwnd_pend", uint64(s.RcvCwndPend))
		l.num("pds.rcvd_bytes", uint64(s.RcvdBytes))
		l.num("pds.ooo_count", uint64(s.OOO))
	case CCTypeCredit:
		s := UnpackCredit(a.CCState())
		l.num("pds.credit", uint64(s.Credit))
		l.num("pds.ooo_count", uint64(s.OOO))
	default:
		l.num("pds.ack_cc_state", a.CCState())
	}
	if a.Type() == TypeAckCCX {
		l.num("pds.ack_ccx_state", a.CCXState())
	}
}

func (n Nack) flat(l *fieldList) {
	l.num("pds.nack_code", uint64(n.Code()))
	l.num("pds.vendor_code", uint64(n.VendorCode()))
	if n.NT() {
		l.num("pds.nack_pkt_id", uint64(n.PktID()))
	} else {
		l.num("pds.nack_psn", uint64(n.PSN()))
	}
	l.num("pds.spdcid", uint64(n.SPDCID()))
	l.num("pds.dpdcid", uint64(n.DPDCID()))
	l.num("pds.payload", uint64(n.Payload()))
	if n.HasCCX() {
		s1, s2 := n.CCXState()
		l.num("pds.nccx_type", uint64(n.CCXType()))
		l.num("pds.nack_ccx_state1", s1)
		l.num("pds.nack_ccx_state2", s2)
	}
}

func (c Ctrl) flat(l *fieldList) {
	l.num("pds.probe_opaque", uint64(c.ProbeOpaque()))
	l.num("pds.psn", uint64(c.PSN()))
	l.num("pds.spdcid", uint64(c.SPDCID()))
	flatDst(l, c.SYN(), c.DPDCID(), c.PSNOffset(), c.UseRsvPDC())
	if c.Ctl() != CtlNegotiation {
		if len(c) >= ctrlLen {
			l.num("pds.payload", uint64(c.Payload()))
		}
		return
	}
	if n, err := c.Negotiation(); err == nil {
		l.num("pds.neg_type", uint64(n.Type))
		l.num("pds.neg_length", uint64(n.Length))
		l.num("pds.feature_mask", uint64(n.FeatureMask))
	}
}
