package wire

// reencode writes the headers of a sound packet again from what the accessors say.
func reencode(p *Packet) []byte {
	return reencodeSES(reencodePDS(nil, p), &p.SES)
}

func reencodePDS(b []byte, p *Packet) []byte {
	switch {
	case p.TSS != nil:
		t := p.TSS
		return AppendTSS(b, &TSSFields{SP: t.SP(), AN: t.AN(), SDI: t.SDI(), SSI: t.SSI(), Epoch: t.Epoch(), Counter: t.Counter()})
	case p.Request != nil:
		r := p.Request
		return AppendRequest(b, &RequestFields{Type: r.Type(), Next: r.Next(), Flags: r.Flags(), ClearOffset: r.ClearOffset(), PSN: r.PSN(),
			SPDCID: r.SPDCID(), DPDCID: r.DPDCID(), PSNOffset: r.PSNOffset(), UseRsvPDC: r.UseRsvPDC(), CCCID: r.CCCID(), CreditTarget: r.CreditTarget()})
	case p.Ack != nil:
		a := p.Ack
		f := AckFields{Type: a.Type(), Next: a.Next(), Flags: a.Flags(), Req: a.Req(), AckOffset: a.AckOffset(), ProbeOpaque: a.ProbeOpaque(),
			CACK: a.CACK(), SPDCID: a.SPDCID(), DPDCID: a.DPDCID(), CCXState: a.CCXState()}
		if a.HasCC() {
			f.CCType, f.CCFlags, f.MPR, f.SACKOffset, f.SACKBitmap, f.CCState = a.CCType(), a.CCFlags(), a.MPR(), a.SACKOffset(), a.SACKBitmap(), a.CCState()
			if f.CCType == CCTypeNSCC {
				f.CCState = UnpackNSCC(f.CCState).Pack()
			}
		}
		return AppendAck(b, &f)
	case p.Nack != nil:
		n := p.Nack
		s1, s2 := n.CCXState()
		return AppendNack(b, &NackFields{Type: n.Type(), Flags: n.Flags(), Code: n.Code(), VendorCode: n.VendorCode(), PSN: n.PSN(), SPDCID: n.SPDCID(),
			DPDCID: n.DPDCID(), Payload: n.Payload(), CCXType: n.CCXType(), CCXState1: s1, CCXState2: s2})
	case p.Ctrl != nil:
		c := p.Ctrl
		b = AppendCtrl(b, &CtrlFields{Ctl: c.Ctl(), Flags: c.Flags(), ProbeOpaque: c.ProbeOpaque(), PSN: c.PSN(), SPDCID: c.SPDCID(), DPDCID: c.DPDCID(),
			PSNOffset: c.PSNOffset(), UseRsvPDC: c.UseRsvPDC(), Payload: c.Payload()})
		if n, err := c.Negotiation(); err == nil && n.Type == 1 && n.Length == 2 {
			b = AppendNegotiation(b, n.FeatureMask)
		}
		return b[:min(len(b), len(c))]
	case p.RUDI != nil:
		return AppendRUDI(b, &RUDIFields{Type: p.RUDI.Type(), Next: p.RUDI.Next(), Flags: p.RUDI.Flags(), PktID: p.RUDI.PktID()})
	case p.UUD != nil:
		return AppendUUD(b, p.UUD.Next())
	}
	return b
}

func reencodeSES(b []byte, s *SES) []byte {
	head := func() HeadFields {
		h := SESHead(s.Header)
		return HeadFields{h.Opcode(), h.Flags(), h.RIGeneration(), h.JobID(), h.PIDonFEP(), h.ResourceIndex()}
	}
	rsp := func(job uint32) RespFields {
		h := RespHead(s.Header)
		return RespFields{h.List(), h.Opcode(), h.ReturnCode(), job}
	}
	if len(s.Header) == 0 {
		return b
	}
	switch s.Next {
	case NextRequestSmall:
		v := SESSmall(s.Header)
		b = AppendSESSmall(b, &SmallFields{head(), uint16(v.RequestLength()), v.BufferOffset()})
	case NextRequestMedium:
		v := SESMedium(s.Header)
		b = AppendSESMedium(b, &MediumFields{head(), uint16(v.RequestLength()), v.BufferOffset(), v.HeaderData(), v.Initiator(), v.MatchBits()})
	case NextRequestStd:
		v := SESStd(s.Header)
		b = AppendSESStd(b, &StdFields{head(), v.MessageID(), v.BufferOffset(), v.Initiator(), v.MatchBits(), v.HeaderData(), uint16(v.PayloadLength()),
			v.MessageOffset(), v.RequestLength(), v.InitiatorToken(), v.TargetToken()})
	case NextResponse:
		v := SESResponse(s.Header)
		b = AppendSESResponse(b, &ResponseFields{rsp(v.JobID()), v.MessageID(), v.RIGeneration(), v.ModifiedLength()})
	case NextResponseData:
		v := SESResponseData(s.Header)
		b = AppendSESResponseData(b, &ResponseDataFields{rsp(v.JobID()), v.ResponseMessageID(), v.ReadRequestMessageID(), uint16(v.PayloadLength()),
			v.ModifiedLength(), v.MessageOffset()})
	case NextResponseDataSmall:
		v := SESResponseDataSmall(s.Header)
		b = AppendSESResponseDataSmall(b, &ResponseDataSmallFields{rsp(v.JobID()), uint16(v.PayloadLength()), v.OriginalRequestPSN()})
	}
	switch {
	case len(s.Ext) == 0:
	case s.extTable() == tabRendezvous:
		r := Rendezvous(s.Ext)
		b = AppendRendezvous(b, &RendezvousFields{r.EagerLength(), r.RIGeneration(), r.PIDonFEP(), r.ResourceIndex(), r.Offset(), r.MatchBits()})
	default:
		a := Atomic(s.Ext)
		f := AtomicFields{Op: a.Op(), Type: a.Type(), SemCtl: a.SemCtl()}
		copy(f.Compare[:], a.Compare())
		copy(f.Swap[:], a.Swap())
		b = AppendAtomic(b, &f)
	}
	return b
}
