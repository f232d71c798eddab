package wire

import "strconv"

func (p *Packet) uetLine(l *line) {
	l.word("UET")
	switch {
	case p.TSS != nil:
		p.tssLine(l)
		return
	case p.Request != nil:
		p.Request.line(l)
	case p.Ack != nil:
		p.Ack.line(l)
	case p.Nack != nil:
		p.Nack.line(l)
	case p.Ctrl != nil:
		p.Ctrl.line(l)
	case p.RUDI != nil:
		l.word(p.PDS.String())
		l.wordIf(p.RUDI.Flags()&RUDIRETX != 0, "RETX")
		l.wordIf(p.RUDI.Flags()&RUDIM != 0, "M")
		l.hex("pkt", uint64(p.RUDI.PktID()))
	case p.UUD != nil:
		l.word("UUD_REQ")
	case len(p.Errs) > 0 && p.PDS != 0:
		l.word(p.PDS.String())
	}
	if p.UDP != nil || p.Native {
		l.num("ev", uint64(p.EV))
	}
	p.SES.line(l)
}

func (p *Packet) tssLine(l *line) {
	t := p.TSS
	l.word("TSS")
	l.num("sdi", uint64(t.SDI()))
	if t.SP() {
		l.hex("ssi", uint64(t.SSI()))
	}
	l.num("an", uint64(t.AN()))
	l.num("epoch", uint64(t.Epoch()))
	l.num("counter", t.Counter())
	if p.UDP != nil || p.Native {
		l.num("ev", uint64(p.EV))
	}
	if p.Inner == nil {
		l.num("sealed", uint64(len(p.Sealed)))
		return
	}
	l.word(":")
	in := line{}
	p.Inner.uetLine(&in)
	l.word(string(in))
}

func (r Request) line(l *line) {
	l.word(r.Type().String())
	l.wordIf(r.SYN(), "SYN")
	l.wordIf(r.RETX(), "RETX")
	l.wordIf(r.AR(), "AR")
	l.num("psn", uint64(r.PSN()))
	if r.SYN() {
		l.start(r.PSNOffset())
	}
	l.num("clear", uint64(r.ClearPSN()))
	l.num("spdcid", uint64(r.SPDCID()))
	if !r.SYN() {
		l.num("dpdcid", uint64(r.DPDCID()))
	}
	l.wordIf(r.UseRsvPDC(), "RSV_PDC")
	if r.HasCC() {
		l.num("ccc", uint64(r.CCCID()))
		l.num("credit-target", uint64(r.CreditTarget()))
	}
}

func (a Ack) line(l *line) {
	l.word(a.Type().String())
	l.wordIf(a.M(), "M")
	l.wordIf(a.RETX(), "RETX")
	if q := a.Req(); q != AckReqNone {
		l.word("REQ_" + q.String())
	}
	l.num("cack", uint64(a.CACK()))
	if a.P() {
		l.hex("probe", uint64(a.ProbeOpaque()))
	} else {
		l.num("ack", uint64(a.AckPSN()))
	}
	if a.HasCC() {
		if m := a.SACKBitmap(); m != 0 {
			l.word("sack 0b" + strconv.FormatUint(m, 2))
			l.num("from", uint64(a.SACKBase()))
		}
		l.num("mpr", uint64(a.MPR())*MPRUnit)
		a.ccLine(l)
	}
	l.num("spdcid", uint64(a.SPDCID()))
	l.num("dpdcid", uint64(a.DPDCID()))
}

func (a Ack) ccLine(l *line) {
	switch a.CCType() {
	case CCTypeNSCC:
		s := UnpackNSCC(a.CCState())
		l.num("svc", uint64(s.ServiceTime)*128)
		*l = append(*l, "ns"...)
		l.wordIf(s.RC, "RC")
		if s.RcvCwndPend != 0 {
			l.num("pend", uint64(s.RcvCwndPend))
		}
		l.num("rcvd", uint64(s.RcvdBytes)*256)
		if s.OOO != 0 {
			l.num("ooo", uint64(s.OOO))
		}
	case CCTypeCredit:
		s := UnpackCredit(a.CCState())
		l.num("credit", uint64(s.Credit)*256)
		l.num("ooo", uint64(s.OOO))
	default:
		l.word("cc " + a.CCType().String())
		l.hex("state", a.CCState())
	}
	if a.Type() == TypeAckCCX {
		l.hex("ccx", a.CCXState())
	}
}

func (n Nack) line(l *line) {
	l.word(n.Type().String())
	l.word(n.Code().String())
	l.wordIf(n.M(), "M")
	l.wordIf(n.RETX(), "RETX")
	if n.NT() {
		l.hex("RUDI pkt", uint64(n.PktID()))
	} else {
		l.num("psn", uint64(n.PSN()))
		l.num("spdcid", uint64(n.SPDCID()))
		l.num("dpdcid", uint64(n.DPDCID()))
	}
	if n.Payload() != 0 {
		l.num("payload", uint64(n.Payload()))
	}
	if n.VendorCode() != 0 {
		l.num("vendor", uint64(n.VendorCode()))
	}
}

func (c Ctrl) line(l *line) {
	l.word("CTRL")
	l.word(c.Ctl().String())
	l.wordIf(c.SYN(), "SYN")
	l.wordIf(c.RETX(), "RETX")
	l.wordIf(c.AR(), "AR")
	l.wordIf(c.ISROD(), "ROD")
	l.num("psn", uint64(c.PSN()))
	if c.SYN() {
		l.start(c.PSNOffset())
	}
	l.num("spdcid", uint64(c.SPDCID()))
	if !c.SYN() {
		l.num("dpdcid", uint64(c.DPDCID()))
	}
	switch c.Ctl() {
	case CtlProbe:
		l.hex("probe", uint64(c.ProbeOpaque()))
		l.num("sack-base", uint64(c.Payload()))
	case CtlClearCommand, CtlClearRequest:
		l.num("clear", uint64(c.Payload()))
	case CtlNegotiation:
		if n, err := c.Negotiation(); err == nil {
			l.hex("features", uint64(n.FeatureMask))
		}
	default:
		if v := c.Payload(); v != 0 {
			l.hex("payload", uint64(v))
		}
	}
}

func (s *SES) line(l *line) {
	if len(s.Header) == 0 {
		return
	}
	l.word("|")
	if s.Next.IsResponse() {
		s.responseLine(l)
		return
	}
	h := SESHead(s.Header)
	l.word(h.Opcode().String())
	if h.Opcode().IsAtomic() && len(s.Ext) > 0 {
		l.word(Atomic(s.Ext).Op().String() + " " + Atomic(s.Ext).Type().String())
	}
	l.wordIf(h.SOM(), "SOM")
	l.wordIf(h.EOM(), "EOM")
	l.wordIf(h.DC(), "DC")
	l.wordIf(h.IE(), "IE")
	switch s.Next {
	case NextRequestStd:
		v := SESStd(s.Header)
		l.num("msg", uint64(v.MessageID()))
		l.num("off", uint64(v.MessageOffset()))
		l.num("len", uint64(len(s.Payload)))
		l.num("of", uint64(v.RequestLength()))
	case NextRequestMedium:
		l.num("MEDIUM len", uint64(SESMedium(s.Header).RequestLength()))
	case NextRequestSmall:
		l.num("SMALL len", uint64(SESSmall(s.Header).RequestLength()))
	}
	if h.Opcode().IsRendezvous() && len(s.Ext) > 0 {
		l.num("eager", uint64(Rendezvous(s.Ext).EagerLength()))
	}
	l.num("job", uint64(h.JobID()))
	l.num("pid", uint64(h.PIDonFEP()))
	l.num("ri", uint64(h.ResourceIndex()))
}

func (s *SES) responseLine(l *line) {
	h := RespHead(s.Header)
	l.word(h.Opcode().String())
	l.word(h.ReturnCode().String())
	l.wordIf(h.List() != ListExpected, h.List().String())
	switch s.Next {
	case NextResponse:
		v := SESResponse(s.Header)
		l.num("msg", uint64(v.MessageID()))
		l.num("modified", uint64(v.ModifiedLength()))
		l.num("job", uint64(v.JobID()))
	case NextResponseData:
		v := SESResponseData(s.Header)
		l.num("msg", uint64(v.ReadRequestMessageID()))
		l.num("off", uint64(v.MessageOffset()))
		l.num("len", uint64(v.PayloadLength()))
		l.num("of", uint64(v.ModifiedLength()))
		l.num("job", uint64(v.JobID()))
	case NextResponseDataSmall:
		v := SESResponseDataSmall(s.Header)
		l.num("psn", uint64(v.OriginalRequestPSN()))
		l.num("len", uint64(v.PayloadLength()))
		l.num("job", uint64(v.JobID()))
	}
}
