package wire

import "strconv"

// accessList reads packets through the accessors of the views alone. TestTables holds it against Packet.Flat, which reads
// through the tables: neither can drift from the other.
type accessList struct{ fieldList }

func (l *accessList) text(name, v string) { l.list = append(l.list, FlatField{l.prefix + name, v}) }

func accessFlat(p *Packet) []FlatField {
	var l accessList
	if p.Eth != nil {
		l.text("eth.dst", p.Eth.Dst().String())
		l.text("eth.src", p.Eth.Src().String())
		l.num("eth.type", uint64(p.Eth.Type()))
	}
	if c := p.CSIG; c != nil {
		l.num("csig.t", uint64(c.Type()))
		l.num("csig.s", uint64(c.Signal()))
		l.num("csig.lm", uint64(c.Locator()))
		l.num("csig.d", uint64(bit(c.Trimmed(), 1)))
	}
	l.flatIP(p)
	l.flatUET(p)
	l.flatLink(p)
	if p.CRC != CRCNone {
		l.num("crc32c", uint64(p.CRCValue))
	}
	if t := p.Trailer; t != nil {
		_, f, _ := SplitTrailer(t)
		l.num("trailer.due", uint64(t.Due()))
		l.num("trailer.llr", uint64(t.LLR()))
		l.num("trailer.llr_kind", uint64(f.LLRKind()))
		l.num("trailer.llr_flags", uint64(f.LLRFlags()))
		l.num("trailer.llr_seq", uint64(f.LLRSeq()))
		l.num("trailer.fcs", uint64(t.FCS()))
	}
	return l.list
}

func (l *accessList) flatIP(p *Packet) {
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

func (l *accessList) flatUET(p *Packet) {
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
			in := accessList{fieldList{prefix: "inner.", list: l.list}}
			in.flatUET(p.Inner)
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
	l.flatPDS(p)
	l.ses(&p.SES)
}

func (l *accessList) flatPDS(p *Packet) {
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
		l.request(p.Request)
	case p.Ack != nil:
		l.ack(p.Ack)
	case p.Nack != nil:
		l.nack(p.Nack)
	case p.Ctrl != nil:
		l.ctrl(p.Ctrl)
	case p.RUDI != nil:
		l.num("pds.pkt_id", uint64(p.RUDI.PktID()))
	}
}

// flatDst writes dpdcid, or what stands in its place with SYN.
func (l *accessList) flatDst(syn bool, dpdcid, psnOffset uint16, rsv bool) {
	if !syn {
		l.num("pds.dpdcid", uint64(dpdcid))
		return
	}
	l.flag("pds.use_rsv_pdc", rsv)
	l.num("pds.psn_offset", uint64(psnOffset))
}

func (l *accessList) request(r Request) {
	l.num("pds.clear_psn_offset", uint64(uint16(r.ClearOffset())))
	l.num("pds.psn", uint64(r.PSN()))
	l.num("pds.spdcid", uint64(r.SPDCID()))
	l.flatDst(r.SYN(), r.DPDCID(), r.PSNOffset(), r.UseRsvPDC())
	if r.HasCC() {
		l.num("pds.ccc_id", uint64(r.CCCID()))
		l.num("pds.credit_target", uint64(r.CreditTarget()))
	}
}

func (l *accessList) ack(a Ack) {
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

func (l *accessList) nack(n Nack) {
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

func (l *accessList) ctrl(c Ctrl) {
	l.num("pds.probe_opaque", uint64(c.ProbeOpaque()))
	l.num("pds.psn", uint64(c.PSN()))
	l.num("pds.spdcid", uint64(c.SPDCID()))
	l.flatDst(c.SYN(), c.DPDCID(), c.PSNOffset(), c.UseRsvPDC())
	if c.Ctl() != CtlNegotiation {
		if len(c) >= ctrlLen {
			l.num("pds.payload", uint64(c.Payload()))
		}
		return
	}
	if n, err := c.Negotiation(); err == nil || err == errNegLen {
		l.num("pds.neg_type", uint64(n.Type))
		l.num("pds.neg_length", uint64(n.Length))
		l.num("pds.feature_mask", uint64(n.FeatureMask))
	}
}

func (l *accessList) ses(s *SES) {
	if len(s.Header) == 0 {
		return
	}
	switch s.Next {
	case NextRequestSmall:
		v := SESSmall(s.Header)
		l.flatFlags(v.Head(), false)
		l.num("ses.request_length", uint64(v.RequestLength()))
		l.flatTarget(v.Head())
		l.num("ses.buffer_offset", v.BufferOffset())
	case NextRequestMedium:
		l.medium(SESMedium(s.Header))
	case NextRequestStd:
		l.std(SESStd(s.Header))
	case NextResponse:
		v := SESResponse(s.Header)
		l.respHead(v.Head())
		l.num("ses.message_id", uint64(v.MessageID()))
		l.num("ses.ri_generation", uint64(v.RIGeneration()))
		l.num("ses.job_id", uint64(v.JobID()))
		l.num("ses.modified_length", uint64(v.ModifiedLength()))
	case NextResponseData:
		v := SESResponseData(s.Header)
		l.respHead(v.Head())
		l.num("ses.response_message_id", uint64(v.ResponseMessageID()))
		l.num("ses.job_id", uint64(v.JobID()))
		l.num("ses.read_request_message_id", uint64(v.ReadRequestMessageID()))
		l.num("ses.payload_length", uint64(v.PayloadLength()))
		l.num("ses.modified_length", uint64(v.ModifiedLength()))
		l.num("ses.message_offset", uint64(v.MessageOffset()))
	case NextResponseDataSmall:
		v := SESResponseDataSmall(s.Header)
		l.respHead(v.Head())
		l.num("ses.payload_length", uint64(v.PayloadLength()))
		l.num("ses.job_id", uint64(v.JobID()))
		l.num("ses.original_request_psn", uint64(v.OriginalRequestPSN()))
	}
	l.ext(s)
	l.hex("payload", s.Payload)
}

func (l *accessList) ext(s *SES) {
	if len(s.Ext) == 0 {
		return
	}
	if SESHead(s.Header).Opcode().IsRendezvous() {
		r := Rendezvous(s.Ext)
		l.num("ext.eager_length", uint64(r.EagerLength()))
		l.num("ext.read_ri_generation", uint64(r.RIGeneration()))
		l.num("ext.read_pid_on_fep", uint64(r.PIDonFEP()))
		l.num("ext.read_resource_index", uint64(r.ResourceIndex()))
		l.num("ext.read_offset", r.Offset())
		l.num("ext.read_match_bits", r.MatchBits())
		return
	}
	a := Atomic(s.Ext)
	l.num("ext.amo_opcode", uint64(a.Op()))
	l.num("ext.amo_datatype", uint64(a.Type()))
	l.num("ext.sem_ctl", uint64(a.SemCtl()))
	l.hex("ext.compare_value", a.Compare())
	l.hex("ext.swap_value", a.Swap())
}

func (l *accessList) respHead(r RespHead) {
	l.num("ses.list", uint64(r.List()))
	l.num("ses.opcode", uint64(r.Opcode()))
	l.num("ses.ver", uint64(r.Ver()))
	l.num("ses.return_code", uint64(r.ReturnCode()))
}

// flatFlags leaves hd out of the SMALL form, where its bit is reserved.
func (l *accessList) flatFlags(s SESHead, hd bool) {
	l.num("ses.opcode", uint64(s.Opcode()))
	l.num("ses.ver", uint64(s.Ver()))
	l.flag("ses.dc", s.DC())
	l.flag("ses.ie", s.IE())
	l.flag("ses.rel", s.Rel())
	if hd {
		l.flag("ses.hd", s.HD())
	}
	l.flag("ses.eom", s.EOM())
	l.flag("ses.som", s.SOM())
}

func (l *accessList) flatTarget(s SESHead) {
	l.num("ses.ri_generation", uint64(s.RIGeneration()))
	l.num("ses.job_id", uint64(s.JobID()))
	l.num("ses.pid_on_fep", uint64(s.PIDonFEP()))
	l.num("ses.resource_index", uint64(s.ResourceIndex()))
}

func (l *accessList) medium(s SESMedium) {
	h := s.Head()
	l.flatFlags(h, true)
	l.num("ses.request_length", uint64(s.RequestLength()))
	l.flatTarget(h)
	if h.HD() {
		l.num("ses.header_data", s.HeaderData())
	} else {
		l.num("ses.buffer_offset", s.BufferOffset())
	}
	l.num("ses.initiator", uint64(s.Initiator()))
	l.num("ses.match_bits", s.MatchBits())
}

func (l *accessList) std(s SESStd) {
	h := s.Head()
	op := h.Opcode()
	l.flatFlags(h, true)
	l.num("ses.message_id", uint64(s.MessageID()))
	l.flatTarget(h)
	if op.IsDeferrable() {
		l.flatTokens(s)
	} else {
		l.num("ses.buffer_offset", s.BufferOffset())
	}
	l.num("ses.initiator", uint64(s.Initiator()))
	if op == OpDeferrableRTR {
		l.flatTokens(s)
	} else {
		l.num("ses.match_bits", s.MatchBits())
	}
	if h.SOM() {
		l.num("ses.header_data", s.HeaderData())
	} else {
		l.num("ses.payload_length", uint64(s.PayloadLength()))
		l.num("ses.message_offset", uint64(s.MessageOffset()))
	}
	l.num("ses.request_length", uint64(s.RequestLength()))
}

func (l *accessList) flatTokens(s SESStd) {
	l.num("ses.ini_restart_token", uint64(s.InitiatorToken()))
	l.num("ses.tgt_restart_token", uint64(s.TargetToken()))
}

func (l *accessList) flatLink(p *Packet) {
	for i := range p.CtlOS.Len() {
		l.at(i, func() { l.ctlOS(p.CtlOS.At(i)) })
	}
	if c := p.CCUpdate; c != nil {
		l.num("mac.opcode", macControlExtension)
		l.num("cc.cid", uint64(c.CID()))
		l.num("cc.type", uint64(c.Type()))
		for i := range CCCounters {
			l.num("cc.count"+strconv.Itoa(i), uint64(c.Count(i)))
		}
	}
	for i, t := range p.LLDP {
		l.at(i, func() { l.tlv(t) })
	}
}

func (l *accessList) at(i int, read func()) {
	before := l.prefix
	if i > 0 {
		l.prefix += strconv.Itoa(i) + "."
	}
	read()
	l.prefix = before
}

func (l *accessList) ctlOS(c CtlOS) {
	l.num("ctlos.type", uint64(c.Type()))
	switch c.Type() {
	case CtlOSAck, CtlOSNack:
		l.num("ctlos.seq", uint64(c.Seq()))
	case CtlOSInit, CtlOSInitEcho:
		l.num("ctlos.init_seq", uint64(c.Seq()))
		l.num("ctlos.init_data", uint64(c.InitData()))
	case CtlOSCFUpdate:
		a, b := c.CF()
		l.num("ctlos.vc1", uint64(a.VC))
		l.num("ctlos.count1", uint64(a.Count))
		l.num("ctlos.vc2", uint64(b.VC))
		l.num("ctlos.count2", uint64(b.Count))
	}
}

func (l *accessList) tlv(t TLV) {
	l.num("lldp.type", uint64(t.Type()))
	l.num("lldp.length", uint64(len(t.Value())))
	switch t.Type() {
	case LLDPChassis:
		l.num("lldp.chassis_subtype", uint64(t.Subtype()))
		l.hex("lldp.chassis", t.ID())
	case LLDPPort:
		l.num("lldp.port_subtype", uint64(t.Subtype()))
		l.hex("lldp.port", t.ID())
	case LLDPTTL:
		l.num("lldp.ttl", uint64(t.TTL()))
	case LLDPOrg:
		l.num("lldp.oui", uint64(t.OUI()))
		l.num("lldp.subtype", uint64(t.Subtype()))
		l.ue(t)
	default:
		l.hex("lldp.value", t.Value())
	}
}

func (l *accessList) ue(t TLV) {
	if !isUE(t, UESubtypeOptions) && !isUE(t, UESubtypeCBFC) {
		l.hex("lldp.value", t.Value()[4:])
	}
	if o, err := ParseUEOptions(t); err == nil {
		l.num("lldp.llr_wanted", uint64(o.LLRWanted()))
		l.num("lldp.llr_enabled", uint64(o.LLREnabled()))
		l.num("lldp.cbfc_wanted", uint64(o.CBFCWanted()))
		l.num("lldp.cbfc_enabled", uint64(o.CBFCEnabled()))
		l.num("lldp.spec_version", uint64(o.SpecVersion()))
		l.num("lldp.echo", uint64(o.Echo()))
		l.num("lldp.life", uint64(o.Life()))
		l.num("lldp.lab_flags", uint64(o.LabFlags()))
		l.num("lldp.boot_id", uint64(o.BootID()))
	}
	c, err := ParseUECBFC(t)
	if err != nil {
		return
	}
	l.num("lldp.credit_size", uint64(c.CreditSize()))
	l.num("lldp.pkt_ovhd", uint64(uint8(c.PktOvhd())))
	l.num("lldp.method", uint64(c.Method()))
	l.num("lldp.total", uint64(c.Total()))
	l.num("lldp.num_vc", uint64(c.NumVC()))
	l.num("lldp.lossless", uint64(c.Lossless()))
	for i := range c.NumVC() {
		v := c.VC(i)
		l.at(i, func() {
			l.num("vc.index", uint64(v.Index))
			l.num("vc.limit", uint64(v.Limit))
			l.num("vc.map_kind", uint64(v.Map))
			l.num("vc.value", uint64(v.Value))
			l.num("vc.mask", uint64(v.Mask))
		})
	}
}
