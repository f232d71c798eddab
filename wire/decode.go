package wire

// CRCMode says whether UET packets without TSS end in a CRC.
type CRCMode uint8

// CRC modes.
const (
	CRCAuto CRCMode = iota // there is one if the last 4 bytes are right, or are left over behind the payload
	CRCOn
	CRCOff
)

// Lab defaults of the DSCPs by which a receiver knows a trimmed packet (uet-wire 1.2).
const (
	DSCPTrimmed        = 34
	DSCPTrimmedLastHop = 36
)

// Options says what Decode cannot find out from the bytes. The zero value fits a capture without link trailers.
type Options struct {
	Trailer bool     // the frame ends in a uetlab link trailer: link configuration, never guessed
	Native  uint8    // IP protocol number of native UET, 0 = 253
	CRC     CRCMode  // whether to expect the UET CRC
	CRCForm CRCForm  // how it is made
	Trimmed [2]uint8 // DSCPs of trimmed packets, 0 0 = 34 36
	// Open unseals a TSS packet: ip is the whole IP packet, sealed what follows the TSS header, ICV included unless cut.
	// It returns the plaintext. nil: the body stays opaque.
	Open func(ip []byte, t TSS, sealed []byte, cut bool) ([]byte, error)
}

func (o *Options) isTrimmed(dscp uint8) bool {
	t := o.Trimmed
	if t == [2]uint8{} {
		t = [2]uint8{DSCPTrimmed, DSCPTrimmedLastHop}
	}
	return dscp == t[0] || dscp == t[1]
}

// CRCState is what was found of the UET CRC.
type CRCState uint8

// CRC states.
const (
	CRCNone CRCState = iota
	CRCGood
	CRCBad
)

// Packet is a frame taken apart: views of its headers, nil where there is none. It points into the frame.
type Packet struct {
	Frame    []byte // without link trailer
	Trailer  Trailer
	Eth      Eth
	CSIG     CSIG     // tag with the lab's TPIDs
	Tags     []uint16 // 802.1Q tag control words
	Type     EtherType
	Body     []byte // behind the Ethernet header and tags
	IPv4     IPv4
	IPv6     IPv6
	UDP      UDP
	Native   bool // UET over IP with entropy header
	UET      bool // a UET packet, or the beginning of one
	EV       uint16
	Trimmed  bool // by its DSCP
	TSS      TSS
	Sealed   []byte  // ciphertext and ICV
	Inner    *Packet // the unsealed packet, if Options.Open could
	PDS      PDSType
	Request  Request
	Ack      Ack
	Nack     Nack
	Ctrl     Ctrl
	RUDI     RUDI
	UUD      UUD
	SES      SES // Header nil if there is none
	CRC      CRCState
	CRCValue uint32
	CtlOS    CtlOSBundle // ordered sets of the link
	CCUpdate CCUpdate
	LLDP     []TLV
	Errs     []error // what is wrong, outermost first; the parts before are sound
	entropy  []byte  // entropy header
	crc      []byte  // UET CRC
}

var (
	errTrailerBad  = fieldErr("link trailer", "magic/crc", "is damaged or missing")
	errFCSBad      = fieldErr("link trailer", "fcs", "does not fit the frame")
	errCRCBad      = fieldErr("UET CRC", "crc32c", "does not fit the packet")
	errCutNotTrim  = fieldErr("UDP", "length", "beyond the IP packet, whose DSCP is not a trimmed one")
	errUDPGap      = fieldErr("UDP", "length", "below what the IP packet carries")
	errPDSReserved = fieldErr("PDS prologue", "type", "is reserved")
	errICVShort    = fieldErr("TSS", "icv", "is missing")
	errRestBehind  = fieldErr("UET", "length", "bytes follow the payload")
)

// Decode takes a frame apart. It never fails: what is wrong stands in Errs, and the headers before it are there. Each
// FieldError in Errs says at which byte of the frame, trailer included, the field stands, and its value.
func Decode(frame []byte, opt Options) Packet {
	if opt.Native == 0 {
		opt.Native = ProtoNative
	}
	p := Packet{Frame: frame}
	if opt.Trailer {
		p.trailer()
	}
	eth, err := ParseEth(p.Frame)
	if err != nil {
		p.note(err, place{0, tabEth, p.Frame})
		return p
	}
	p.Eth = eth
	t, body, err := Network(p.Frame)
	p.CSIG = CSIGTag(p.Frame, EtherCSIG, EtherCSIGWide)
	if err != nil {
		at := place{EthLen + len(p.CSIG), tabVLAN, p.Frame[EthLen+len(p.CSIG):]}
		if err == errCSIGShort {
			at.tab = tabCSIG
		}
		p.note(err, at)
		return p
	}
	off := len(p.Frame) - len(body)
	for at := EthLen + len(p.CSIG); at < off; at += VLANLen {
		p.Tags = append(p.Tags, u16(p.Frame, at))
	}
	p.Type, p.Body = t, body
	switch t {
	case EtherIPv4:
		p.ipv4(off, &opt)
	case EtherIPv6:
		p.ipv6(off, &opt)
	case EtherExperiment:
		p.ctlOS(off)
	case EtherMACControl:
		p.macControl(off)
	case EtherLLDP:
		p.lldp(off)
	}
	return p
}

// DecodeUET takes apart what follows the UDP or entropy header of a UET packet, without CRC. Offsets in errors count from
// the beginning of b.
func DecodeUET(b []byte, opt Options) Packet {
	p := Packet{UET: true}
	p.uet(0, b, &opt)
	return p
}

func (p *Packet) trailer() {
	v := TrailerOf(p.Frame)
	at := place{len(p.Frame) - len(v), tabTrailer, v}
	if !v.OK() {
		p.note(errTrailerBad, at)
		return
	}
	p.note(check(!FCSOK(p.Frame), errFCSBad), at)
	p.Trailer, p.Frame = v, p.Frame[:len(p.Frame)-TrailerLen]
}

func (p *Packet) ipv4(off int, opt *Options) {
	at := place{off, tabIPv4, p.Body}
	ip, err := ParseIPv4(p.Body)
	if err != nil {
		p.note(err, at)
		return
	}
	p.IPv4 = ip
	p.note(ip.Validate(), at)
	if frag, _ := ip.Fragment(); !frag {
		p.transport(ip, off+ip.HeaderLen(), ip.Proto(), ip.DSCP(), ip.Payload(), opt)
	}
}

func (p *Packet) ipv6(off int, opt *Options) {
	ip, err := ParseIPv6(p.Body)
	if err != nil {
		p.note(err, place{off, tabIPv6, p.Body})
		return
	}
	p.IPv6 = ip
	p.transport(ip, off+IPv6Len, ip.Proto(), ip.DSCP(), ip.Payload(), opt)
}

// transport looks for UET behind the IP header, at off of the frame (uet-wire 1).
func (p *Packet) transport(ip []byte, off int, proto, dscp uint8, l4 []byte, opt *Options) {
	at := place{off, tabUDP, l4}
	switch proto {
	case ProtoUDP:
		u, err := ParseUDP(l4)
		if err != nil {
			p.note(err, at)
			return
		}
		p.UDP = u
		p.note(check(len(u) < len(l4), errUDPGap), at)
		if u.DstPort() != UDPPort {
			return
		}
		p.EV, l4, off = u.SrcPort(), u.Payload(), off+UDPLen
	case opt.Native:
		if len(l4) < EntropyLen {
			p.note(errEntropyLen, place{off, tabEntropy, l4})
			return
		}
		p.entropy = l4[:EntropyLen:EntropyLen]
		p.Native, p.EV, l4, off = true, u16(l4, 0), l4[EntropyLen:], off+EntropyLen
	default:
		return
	}
	p.UET, p.Trimmed = true, opt.isTrimmed(dscp)
	p.note(check(p.UDP != nil && p.UDP.Cut() && !p.Trimmed, errCutNotTrim), at)
	p.uet(off, p.cutCRC(ip, off, l4, opt), opt)
}

// cut reports that bytes are missing at the end.
func (p *Packet) cut() bool { return p.Trimmed || p.UDP != nil && p.UDP.Cut() }

// cutCRC takes the CRC off the end of l4, if there is one.
func (p *Packet) cutCRC(ip []byte, off int, l4 []byte, opt *Options) []byte {
	if opt.CRC == CRCOff || p.cut() || len(l4) < CRCLen || PDSType(l4[0]>>3) == TypeTSS {
		return l4
	}
	n := len(l4) - CRCLen
	switch {
	case opt.CRCForm.Check(ip):
		p.setCRC(CRCGood, l4[n:], opt)
	case opt.CRC == CRCOn:
		p.setCRC(CRCBad, l4[n:], opt)
		p.note(errCRCBad, place{off + n, tabCRC, p.crc})
	default:
		return l4
	}
	return l4[:n]
}

// setCRC keeps the CRC, least significant byte first as the table has it.
func (p *Packet) setCRC(s CRCState, b []byte, opt *Options) {
	if opt.CRCForm.BigEndian {
		b = []byte{b[3], b[2], b[1], b[0]}
	}
	p.CRC, p.crc, p.CRCValue = s, b, le32(b)
}

// uet takes apart what begins with a PDS prologue, at off.
func (p *Packet) uet(off int, b []byte, opt *Options) {
	at := place{off, tabPrologue, b}
	if len(b) < prologueLen {
		p.note(errUETEmpty, at)
		return
	}
	p.PDS = Prologue(b).Type()
	if p.PDS == TypeTSS {
		p.tss(off, b, opt)
		return
	}
	next, err := p.pds(b)
	if t := pdsTable(p.PDS); t != nil {
		at.tab = t
	}
	p.note(err, at)
	if h := p.pdsHeader(); h != nil {
		p.ses(at, next, b[len(h):], opt)
	}
}

// pds parses and checks the PDS header; next says what follows.
func (p *Packet) pds(b []byte) (next NextHdr, err error) {
	next = Prologue(b).Next()
	switch t := p.PDS; {
	case t.IsRequest():
		if p.Request, err = ParseRequest(b); err == nil {
			err = p.Request.Validate()
		}
	case t.IsAck():
		if p.Ack, err = ParseAck(b); err == nil {
			err = p.Ack.Validate()
		}
	case t.IsNack():
		next = NextNone
		if p.Nack, err = ParseNack(b); err == nil {
			err = p.Nack.Validate()
		}
	case t == TypeCtrl:
		next = NextNone
		if p.Ctrl, err = ParseCtrl(b); err == nil {
			err = p.Ctrl.Validate()
		}
	case t == TypeRUDIReq || t == TypeRUDIResp:
		if p.RUDI, err = ParseRUDI(b); err == nil {
			err = p.RUDI.Validate()
		}
	case t == TypeUUDReq:
		if p.UUD, err = ParseUUD(b); err == nil {
			err = p.UUD.Validate()
		}
	default:
		err = errPDSReserved
	}
	return next, err
}

// ses takes apart what follows the PDS header at pds. Of a trimmed packet the SES header is shown if all of it is there.
func (p *Packet) ses(pds place, next NextHdr, b []byte, opt *Options) {
	if p.cut() {
		if n := next.HeaderLen(); n > 0 && len(b) >= n {
			p.SES = SES{Next: next, Header: b[:n:n]}
		}
		return
	}
	s, err := SplitSES(next, b)
	if err == errSESNext {
		p.note(err, pds)
		return
	}
	off := pds.off + len(pds.b) - len(b)
	p.note(err, s.place(off, b, err))
	if err != nil && len(s.Header) == 0 {
		return
	}
	p.SES = s
	if err == nil {
		err = s.Validate()
		p.note(err, s.place(off, b, err))
		p.leftover(off+len(b)-len(s.Rest), s.Rest, opt)
	}
}

// place tells where err, an error about the SES part b at off, belongs: to the extension or to the header.
func (s *SES) place(off int, b []byte, err error) place {
	if fe, ok := err.(*FieldError); ok && len(s.Header) > 0 && (fe.Header == atomicName || fe.Header == rendezvousName) {
		n := len(s.Header)
		return place{off + n, s.extTable(), b[n:]}
	}
	return place{off, sesTable(s.Next), b}
}

// leftover judges what follows the payload: exactly 4 bytes are a CRC that is wrong, else it would have been cut off.
func (p *Packet) leftover(off int, rest []byte, opt *Options) {
	if len(rest) == 0 || p.PDS.IsNack() && len(rest) != CRCLen {
		return
	}
	if len(rest) == CRCLen && opt.CRC == CRCAuto && (p.IPv4 != nil || p.IPv6 != nil) {
		p.setCRC(CRCBad, rest, opt)
		p.note(errCRCBad, place{off, tabCRC, p.crc})
		return
	}
	p.noteRest(errRestBehind, off, rest)
}

// tss takes apart a secured packet, and what is in it if the key is at hand.
func (p *Packet) tss(off int, b []byte, opt *Options) {
	at := place{off, tabTSS, b}
	t, err := ParseTSS(b)
	if err != nil {
		p.note(err, at)
		return
	}
	p.TSS, p.Sealed = t, b[len(t):]
	p.note(t.Validate(), at)
	off += len(t)
	p.note(check(!p.cut() && len(p.Sealed) < ICVLen, errICVShort), place{off, nil, p.Sealed})
	ip := []byte(p.IPv4)
	if ip == nil {
		ip = p.IPv6
	}
	if opt.Open == nil || len(p.Errs) > 0 || ip == nil {
		return
	}
	plain, err := opt.Open(ip, t, p.Sealed, p.cut())
	if err != nil {
		p.note(err, place{off, nil, p.Sealed})
		return
	}
	in := Packet{UET: true, Trimmed: p.cut()}
	if len(plain) > 0 && PDSType(plain[0]>>3) == TypeTSS {
		in.note(errPDSReserved, place{off, tabPrologue, plain}) // TSS in TSS would nest without end
	} else {
		in.uet(off, plain, opt)
	}
	p.Inner = &in
	p.Errs = append(p.Errs, in.Errs...)
}

// Validate checks the contents of the SES header and its extension strictly.
func (s *SES) Validate() error {
	var err error
	switch s.Next {
	case NextRequestSmall:
		err = SESSmall(s.Header).Validate()
	case NextRequestMedium:
		err = SESMedium(s.Header).Validate()
	case NextRequestStd:
		err = SESStd(s.Header).Validate()
	case NextResponse:
		err = SESResponse(s.Header).Validate()
	case NextResponseData:
		err = SESResponseData(s.Header).Validate()
	case NextResponseDataSmall:
		err = SESResponseDataSmall(s.Header).Validate()
	}
	if err == nil && len(s.Ext) > 0 && SESHead(s.Header).Opcode().IsAtomic() {
		err = Atomic(s.Ext).Validate()
	}
	return err
}
