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

// Decode takes a frame apart. It never fails: what is wrong stands in Errs, and the headers before it are there.
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
		return p.fail(err)
	}
	p.Eth = eth
	t, body, err := Network(p.Frame)
	if err != nil {
		return p.fail(err)
	}
	for off := EthLen; off < len(p.Frame)-len(body); off += VLANLen {
		p.Tags = append(p.Tags, u16(p.Frame, off))
	}
	p.Type, p.Body = t, body
	switch t {
	case EtherIPv4:
		p.ipv4(&opt)
	case EtherIPv6:
		p.ipv6(&opt)
	}
	return p
}

// DecodeUET takes apart what follows the UDP or entropy header of a UET packet, without CRC.
func DecodeUET(b []byte, opt Options) Packet {
	p := Packet{UET: true}
	p.uet(b, &opt)
	return p
}

func (p *Packet) fail(err error) Packet {
	p.note(err)
	return *p
}

func (p *Packet) note(err error) {
	if err != nil {
		p.Errs = append(p.Errs, err)
	}
}

func (p *Packet) trailer() {
	v := TrailerOf(p.Frame)
	if !v.OK() {
		p.note(errTrailerBad)
		return
	}
	p.note(check(!FCSOK(p.Frame), errFCSBad))
	p.Trailer, p.Frame = v, p.Frame[:len(p.Frame)-TrailerLen]
}

func (p *Packet) ipv4(opt *Options) {
	ip, err := ParseIPv4(p.Body)
	if err != nil {
		p.note(err)
		return
	}
	p.IPv4 = ip
	p.note(ip.Validate())
	if frag, _ := ip.Fragment(); !frag {
		p.transport(ip, ip.Proto(), ip.DSCP(), ip.Payload(), opt)
	}
}

func (p *Packet) ipv6(opt *Options) {
	ip, err := ParseIPv6(p.Body)
	if err != nil {
		p.note(err)
		return
	}
	p.IPv6 = ip
	p.transport(ip, ip.Proto(), ip.DSCP(), ip.Payload(), opt)
}

// transport looks for UET behind the IP header (uet-wire 1).
func (p *Packet) transport(ip []byte, proto, dscp uint8, l4 []byte, opt *Options) {
	switch proto {
	case ProtoUDP:
		u, err := ParseUDP(l4)
		if err != nil {
			p.note(err)
			return
		}
		p.UDP = u
		p.note(check(len(u) < len(l4), errUDPGap))
		if u.DstPort() != UDPPort {
			return
		}
		p.EV, l4 = u.SrcPort(), u.Payload()
	case opt.Native:
		if len(l4) < EntropyLen {
			p.note(errEntropyLen)
			return
		}
		p.entropy = l4[:EntropyLen:EntropyLen]
		p.Native, p.EV, l4 = true, u16(l4, 0), l4[EntropyLen:]
	default:
		return
	}
	p.UET, p.Trimmed = true, opt.isTrimmed(dscp)
	p.note(check(p.UDP != nil && p.UDP.Cut() && !p.Trimmed, errCutNotTrim))
	p.uet(p.cutCRC(ip, l4, opt), opt)
}

// cut reports that bytes are missing at the end.
func (p *Packet) cut() bool { return p.Trimmed || p.UDP != nil && p.UDP.Cut() }

// cutCRC takes the CRC off the end of l4, if there is one.
func (p *Packet) cutCRC(ip, l4 []byte, opt *Options) []byte {
	if opt.CRC == CRCOff || p.cut() || len(l4) < CRCLen || PDSType(l4[0]>>3) == TypeTSS {
		return l4
	}
	switch {
	case CheckUETCRC(ip):
		p.CRC = CRCGood
	case opt.CRC == CRCOn:
		p.CRC = CRCBad
		p.note(errCRCBad)
	default:
		return l4
	}
	n := len(l4) - CRCLen
	p.crc, p.CRCValue = l4[n:], le32(l4[n:])
	return l4[:n]
}

func (p *Packet) uet(b []byte, opt *Options) {
	if len(b) < prologueLen {
		p.note(errUETEmpty)
		return
	}
	p.PDS = Prologue(b).Type()
	var rest []byte
	var err error
	next := Prologue(b).Next()
	switch t := p.PDS; {
	case t == TypeTSS:
		p.tss(b, opt)
		return
	case t.IsRequest():
		if p.Request, err = ParseRequest(b); err == nil {
			rest, err = b[len(p.Request):], p.Request.Validate()
		}
	case t.IsAck():
		if p.Ack, err = ParseAck(b); err == nil {
			rest, err = b[len(p.Ack):], p.Ack.Validate()
		}
	case t.IsNack():
		if p.Nack, err = ParseNack(b); err == nil {
			rest, err, next = b[len(p.Nack):], p.Nack.Validate(), NextNone
		}
	case t == TypeCtrl:
		if p.Ctrl, err = ParseCtrl(b); err == nil {
			rest, err, next = b[len(p.Ctrl):], p.Ctrl.Validate(), NextNone
		}
	case t == TypeRUDIReq || t == TypeRUDIResp:
		if p.RUDI, err = ParseRUDI(b); err == nil {
			rest, err = b[len(p.RUDI):], p.RUDI.Validate()
		}
	case t == TypeUUDReq:
		if p.UUD, err = ParseUUD(b); err == nil {
			rest, err = b[len(p.UUD):], p.UUD.Validate()
		}
	default:
		err = errPDSReserved
	}
	p.note(err)
	if rest != nil {
		p.ses(next, rest, opt)
	}
}

// ses takes apart what follows the PDS header. Of a trimmed packet the SES header is shown if all of it is there.
func (p *Packet) ses(next NextHdr, b []byte, opt *Options) {
	if p.cut() {
		if n := next.HeaderLen(); n > 0 && len(b) >= n {
			p.SES = SES{Next: next, Header: b[:n:n]}
		}
		return
	}
	s, err := SplitSES(next, b)
	p.note(err)
	if err != nil && len(s.Header) == 0 {
		return
	}
	p.SES = s
	if err == nil {
		p.note(s.Validate())
		p.leftover(s.Rest, opt)
	}
}

// leftover judges what follows the payload: exactly 4 bytes are a CRC that is wrong, else it would have been cut off.
func (p *Packet) leftover(rest []byte, opt *Options) {
	if len(rest) == 0 || p.PDS.IsNack() && len(rest) != CRCLen {
		return
	}
	if len(rest) == CRCLen && opt.CRC == CRCAuto && (p.IPv4 != nil || p.IPv6 != nil) {
		p.CRC, p.crc, p.CRCValue = CRCBad, rest, le32(rest)
		p.note(errCRCBad)
		return
	}
	p.note(errRestBehind)
}

// tss takes apart a secured packet, and what is in it if the key is at hand.
func (p *Packet) tss(b []byte, opt *Options) {
	t, err := ParseTSS(b)
	if err != nil {
		p.note(err)
		return
	}
	p.TSS, p.Sealed = t, b[len(t):]
	p.note(t.Validate())
	p.note(check(!p.cut() && len(p.Sealed) < ICVLen, errICVShort))
	ip := []byte(p.IPv4)
	if ip == nil {
		ip = p.IPv6
	}
	if opt.Open == nil || len(p.Errs) > 0 || ip == nil {
		return
	}
	plain, err := opt.Open(ip, t, p.Sealed, p.cut())
	if err != nil {
		p.note(err)
		return
	}
	in := Packet{UET: true, Trimmed: p.cut()}
	if len(plain) > 0 && PDSType(plain[0]>>3) == TypeTSS {
		in.note(errPDSReserved) // TSS in TSS would nest without end
	} else {
		in.uet(plain, opt)
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
