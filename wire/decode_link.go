package wire

import "strconv"

// Decoding of the frames that end at the neighbour: ordered sets, CC_Update, LLDP.

// ctlOS takes ordered sets apart. Frames of that EtherType to other addresses are another experiment's.
func (p *Packet) ctlOS(off int) {
	if p.Eth.Dst() != LinkControlAddr {
		return
	}
	b, err := ParseCtlOSBundle(p.Body)
	p.note(err, place{off, nil, p.Body})
	p.CtlOS = b
	for i := range b.Len() {
		set := b.At(i)
		p.note(set.Validate(), place{off + i*CtlOSLen, set.table(), set})
	}
}

// macControl takes a CC_Update apart; PAUSE and PFC have other opcodes, and are left alone.
func (p *Packet) macControl(off int) {
	if len(p.Body) >= 2 && u16(p.Body, 0) != macControlExtension {
		return
	}
	at := place{off, tabCCUpdate, p.Body}
	c, err := ParseCCUpdate(p.Body)
	if err != nil {
		p.note(err, at)
		return
	}
	p.CCUpdate = c
	p.note(c.Validate(), at)
	if rest := p.Body[CCUpdateLen:]; len(rest) > 0 {
		p.noteRest(errCCRest, off+CCUpdateLen, rest)
	}
}

func (p *Packet) lldp(off int) {
	list, err := ParseLLDP(p.Body)
	p.LLDP = list
	for _, t := range list {
		p.ueTLV(off, t)
		off += len(t)
	}
	p.note(err, place{off, tabLLDPTLV, p.Frame[off:]})
}

// ueTLV checks a TLV of the UEC. Subtypes that are not known are of a later version.
func (p *Packet) ueTLV(off int, t TLV) {
	if t.OUI() != UECID {
		return
	}
	var err error
	switch t.Subtype() {
	case UESubtypeOptions:
		var o UEOptions
		if o, err = ParseUEOptions(t); err == nil {
			err = o.Validate()
		}
	case UESubtypeCBFC:
		var c UECBFC
		if c, err = ParseUECBFC(t); err == nil {
			err = c.Validate()
		}
		if err == errCBFCVC || err == errCBFCMap {
			p.vcTLV(off, c)
			return
		}
	}
	p.note(err, place{off, lldpTable(t), t})
}

// vcTLV notes which channel of c is wrong.
func (p *Packet) vcTLV(off int, c UECBFC) {
	for i := range c.NumVC() {
		p.note(c.VC(i).Validate(), place{off + ueCBFCLen + i*ueVCLen, tabUECBFCVC, c.vc(i)})
	}
}

func (c CtlOS) table() *HeaderTable {
	switch c.Type() {
	case CtlOSAck, CtlOSNack:
		return tabLLRSeq
	case CtlOSInit, CtlOSInitEcho:
		return tabLLRInit
	case CtlOSCFUpdate:
		return tabCFUpdate
	}
	return tabCtlOS
}

func lldpTable(t TLV) *HeaderTable {
	switch t.Type() {
	case LLDPChassis:
		return tabLLDPChassis
	case LLDPPort:
		return tabLLDPPort
	case LLDPTTL:
		return tabLLDPTTL
	case LLDPOrg:
		if isUE(t, UESubtypeOptions) {
			return tabUEOptions
		}
		if isUE(t, UESubtypeCBFC) {
			return tabUECBFC
		}
		return tabLLDPOrg
	}
	return tabLLDPTLV
}

func (p *Packet) flatLink(l *fieldList) {
	for i := range p.CtlOS.Len() {
		l.nth(i, p.CtlOS.At(i).table(), p.CtlOS.At(i))
	}
	if p.CCUpdate != nil {
		l.table(tabCCUpdate, p.CCUpdate)
	}
	for i, t := range p.LLDP {
		l.nth(i, lldpTable(t), t)
		if c, err := ParseUECBFC(t); err == nil {
			in := fieldList{list: l.list}
			if i > 0 {
				in.prefix = strconv.Itoa(i) + "."
			}
			for j := range c.NumVC() {
				in.nth(j, tabUECBFCVC, c.vc(j))
			}
			l.list = in.list
		}
	}
}

// linkLine adds the contents of a link frame; it returns false if this is none.
func (p *Packet) linkLine(l *line) bool {
	switch {
	case len(p.CtlOS) > 0:
		for i := range p.CtlOS.Len() {
			p.CtlOS.At(i).line(l)
		}
	case p.CCUpdate != nil:
		l.word("CC_Update")
		for i := range CCCounters {
			if n := p.CCUpdate.Count(i); n != 0 {
				l.num("vc"+strconv.Itoa(int(p.CCUpdate.FirstVC())+i), uint64(n))
			}
		}
	case len(p.LLDP) > 0:
		for _, t := range p.LLDP {
			t.line(l)
		}
	default:
		return false
	}
	return true
}

func (c CtlOS) line(l *line) {
	l.word(c.Type().String())
	switch c.Type() {
	case CtlOSAck, CtlOSNack:
		l.num("seq", uint64(c.Seq()))
	case CtlOSInit, CtlOSInitEcho:
		l.num("seq", uint64(c.Seq()))
		l.hex("data", uint64(c.InitData()))
	case CtlOSCFUpdate:
		a, b := c.CF()
		l.num("vc"+strconv.Itoa(int(a.VC)), uint64(a.Count))
		if b != a {
			l.num("vc"+strconv.Itoa(int(b.VC)), uint64(b.Count))
		}
	}
}

func (t TLV) line(l *line) {
	switch k := t.Type(); k {
	case LLDPChassis, LLDPPort:
		id := strconv.QuoteToASCII(string(t.ID()))
		if k == LLDPChassis && t.Subtype() == LLDPChassisMAC && len(t.ID()) == 6 {
			id = MAC(t.ID()).String()
		}
		l.word(map[LLDPType]string{LLDPChassis: "chassis ", LLDPPort: "port "}[k] + id)
	case LLDPTTL:
		l.num("ttl", uint64(t.TTL()))
	case LLDPSysName:
		l.word("system " + strconv.QuoteToASCII(string(t.Value())))
	case LLDPOrg:
		t.ueLine(l)
	}
}

func (t TLV) ueLine(l *line) {
	if o, err := ParseUEOptions(t); err == nil {
		l.word("LLR " + o.LLRWanted().String() + " enabled " + o.LLREnabled().String() + " CBFC " + o.CBFCWanted().String() + " enabled " + o.CBFCEnabled().String())
		l.hex("boot", uint64(o.BootID()))
		return
	}
	if c, err := ParseUECBFC(t); err == nil {
		l.word("CBFC " + c.Method().String())
		l.num("credits", uint64(c.Total()))
		l.num("of", uint64(c.CreditSize()))
		l.num("vcs", uint64(c.NumVC()))
		return
	}
	l.hex("org", uint64(t.OUI()))
	l.num("subtype", uint64(t.Subtype()))
}
