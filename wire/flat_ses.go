package wire

func (s *SES) flat(l *fieldList) {
	if len(s.Header) == 0 {
		return
	}
	switch s.Next {
	case NextRequestSmall:
		v := SESSmall(s.Header)
		v.Head().flatFlags(l, false)
		l.num("ses.request_length", uint64(v.RequestLength()))
		v.Head().flatTarget(l)
		l.num("ses.buffer_offset", v.BufferOffset())
	case NextRequestMedium:
		SESMedium(s.Header).flat(l)
	case NextRequestStd:
		SESStd(s.Header).flat(l)
	case NextResponse:
		v := SESResponse(s.Header)
		v.Head().flat(l)
		l.num("ses.message_id", uint64(v.MessageID()))
		l.num("ses.ri_generation", uint64(v.RIGeneration()))
		l.num("ses.job_id", uint64(v.JobID()))
		l.num("ses.modified_length", uint64(v.ModifiedLength()))
	case NextResponseData:
		v := SESResponseData(s.Header)
		v.Head().flat(l)
		l.num("ses.response_message_id", uint64(v.ResponseMessageID()))
		l.num("ses.job_id", uint64(v.JobID()))
		l.num("ses.read_request_message_id", uint64(v.ReadRequestMessageID()))
		l.num("ses.payload_length", uint64(v.PayloadLength()))
		l.num("ses.modified_length", uint64(v.ModifiedLength()))
		l.num("ses.message_offset", uint64(v.MessageOffset()))
	case NextResponseDataSmall:
		v := SESResponseDataSmall(s.Header)
		v.Head().flat(l)
		l.num("ses.payload_length", uint64(v.PayloadLength()))
		l.num("ses.job_id", uint64(v.JobID()))
		l.num("ses.original_request_psn", uint64(v.OriginalRequestPSN()))
	}
	s.flatExt(l)
	l.hex("payload", s.Payload)
}

func (s *SES) flatExt(l *fieldList) {
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

func (r RespHead) flat(l *fieldList) {
	l.num("ses.list", uint64(r.List()))
	l.num("ses.opcode", uint64(r.Opcode()))
	l.num("ses.ver", uint64(r.Ver()))
	l.num("ses.return_code", uint64(r.ReturnCode()))
}

// flatFlags leaves hd out of the SMALL form, where its bit is reserved.
func (s SESHead) flatFlags(l *fieldList, hd bool) {
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

func (s SESHead) flatTarget(l *fieldList) {
	l.num("ses.ri_generation", uint64(s.RIGeneration()))
	l.num("ses.job_id", uint64(s.JobID()))
	l.num("ses.pid_on_fep", uint64(s.PIDonFEP()))
	l.num("ses.resource_index", uint64(s.ResourceIndex()))
}

func (s SESMedium) flat(l *fieldList) {
	h := s.Head()
	h.flatFlags(l, true)
	l.num("ses.request_length", uint64(s.RequestLength()))
	h.flatTarget(l)
	if h.HD() {
		l.num("ses.header_data", s.HeaderData())
	} else {
		l.num("ses.buffer_offset", s.BufferOffset())
	}
	l.num("ses.initiator", uint64(s.Initiator()))
	l.num("ses.match_bits", s.MatchBits())
}

func (s SESStd) flat(l *fieldList) {
	h := s.Head()
	op := h.Opcode()
	h.flatFlags(l, true)
	l.num("ses.message_id", uint64(s.MessageID()))
	h.flatTarget(l)
	if op.IsDeferrable() {
		s.flatTokens(l)
	} else {
		l.num("ses.buffer_offset", s.BufferOffset())
	}
	l.num("ses.initiator", uint64(s.Initiator()))
	if op == OpDeferrableRTR {
		s.flatTokens(l)
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

func (s SESStd) flatTokens(l *fieldList) {
	l.num("ses.ini_restart_token", uint64(s.InitiatorToken()))
	l.num("ses.tgt_restart_token", uint64(s.TargetToken()))
}
