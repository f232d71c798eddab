package wire

// Derived returns what follows from the fields by the standard's sums: clear_psn, start_psn, ack_psn, sack_base_psn,
// sacked_psns (a []uint64), mp_range, and the flag bits by name. A []uint64 stands in Value for sacked_psns alone.
func (p *Packet) Derived() []FlatField {
	var l fieldList
	switch {
	case p.Inner != nil:
		return p.Inner.Derived()
	case p.Request != nil:
		r := p.Request
		l.num("clear_psn", uint64(r.ClearPSN()))
		if r.SYN() {
			l.num("start_psn", uint64(r.StartPSN()))
		}
		l.flag("flag_retx", r.RETX())
		l.flag("flag_ar", r.AR())
		l.flag("flag_syn", r.SYN())
	case p.Ack != nil:
		p.Ack.derived(&l)
	case p.Nack != nil:
		n := p.Nack
		l.flag("flag_m", n.M())
		l.flag("flag_retx", n.RETX())
		l.flag("flag_nt", n.NT())
	case p.Ctrl != nil:
		c := p.Ctrl
		if c.SYN() {
			l.num("start_psn", uint64(c.StartPSN()))
		}
		l.flag("flag_isrod", c.ISROD())
		l.flag("flag_retx", c.RETX())
		l.flag("flag_ar", c.AR())
		l.flag("flag_syn", c.SYN())
	case p.RUDI != nil:
		l.flag("flag_m", p.RUDI.Flags()&RUDIM != 0)
		l.flag("flag_retx", p.RUDI.Flags()&RUDIRETX != 0)
	}
	return l.list
}

func (a Ack) derived(l *fieldList) {
	if !a.P() {
		l.num("ack_psn", uint64(a.AckPSN()))
	}
	if a.HasCC() {
		l.num("sack_base_psn", uint64(a.SACKBase()))
		sacked := []uint64{}
		for i := int32(0); i < 64; i++ {
			if a.SACKBitmap()>>i&1 != 0 {
				sacked = append(sacked, uint64(a.SACKBase().Add(i)))
			}
		}
		l.list = append(l.list, FlatField{l.prefix + "sacked_psns", sacked})
		l.num("mp_range", uint64(a.MPR())*MPRUnit)
	}
	l.flag("flag_epsn", a.Flags()&AckEPSN != 0)
	l.flag("flag_m", a.M())
	l.flag("flag_retx", a.RETX())
	l.flag("flag_p", a.P())
	l.num("flag_req", uint64(a.Req()))
}
