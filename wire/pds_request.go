package wire

// ReqFlags are the flags of a RUD/ROD Request (uet-wire 3).
type ReqFlags uint8

// Request flags.
const (
	ReqRETX ReqFlags = 0x10
	ReqAR   ReqFlags = 0x08 // ACK requested
	ReqSYN  ReqFlags = 0x04
)

const reqReserved = 0x63

// Request is a view of a RUD/ROD Request header: 12 bytes, 16 for the CC variants.
type Request []byte

var (
	errReqShort    = fieldErr("RUD/ROD request", "length", "shorter than its header")
	errReqType     = fieldErr("RUD/ROD request", "type", "is not RUD_REQ, ROD_REQ, RUD_CC_REQ or ROD_CC_REQ")
	errReqNext     = fieldErr("RUD/ROD request", "next_hdr", "may not follow a request")
	errReqReserved = fieldErr("RUD/ROD request", "flags", "reserved bits are set")
	errReqSPDCID   = fieldErr("RUD/ROD request", "spdcid", "is 0, which names no PDC")
	errReqDPDCID   = fieldErr("RUD/ROD request", "dpdcid", "is 0 without SYN")
	errReqClear    = fieldErr("RUD/ROD request", "clear_psn_offset", "is positive: CLEAR_PSN would lie ahead of the PSN")
	errReqSYNRsvd  = fieldErr("RUD/ROD request", "pdc_info", "reserved bits are set")
)

// ParseRequest returns the header at the start of b; b[len(r):] is the SES part.
func ParseRequest(b []byte) (Request, error) {
	if len(b) < prologueLen {
		return nil, errReqShort
	}
	t := Prologue(b).Type()
	if !t.IsRequest() {
		return nil, errReqType
	}
	n := t.HeaderLen()
	if len(b) < n {
		return nil, errReqShort
	}
	return Request(b[:n:n]), nil
}

// Validate checks the contents strictly, reserved bits included.
func (r Request) Validate() error {
	switch {
	case !r.Next().LegalFor(r.Type()):
		return errReqNext
	case r[1]&reqReserved != 0:
		return errReqReserved
	case r.ClearOffset() > 0:
		return errReqClear
	case r.SPDCID() == 0:
		return errReqSPDCID
	case r.SYN() && u16(r, 10)&0x7000 != 0:
		return errReqSYNRsvd
	case !r.SYN() && r.DPDCID() == 0:
		return errReqDPDCID
	}
	return nil
}

// Type returns which of the four Request types this is.
func (r Request) Type() PDSType { return Prologue(r).Type() }

// Next returns the SES header form that follows.
func (r Request) Next() NextHdr { return Prologue(r).Next() }

// Flags returns the flags.
func (r Request) Flags() ReqFlags { return ReqFlags(r[1] & 0x7F) }

// RETX reports a retransmission.
func (r Request) RETX() bool { return r[1]&byte(ReqRETX) != 0 }

// AR reports that an ACK is requested.
func (r Request) AR() bool { return r[1]&byte(ReqAR) != 0 }

// SYN reports that the sender does not know the target's PDC id yet.
func (r Request) SYN() bool { return r[1]&byte(ReqSYN) != 0 }

// SetRETX marks a retransmission.
func (r Request) SetRETX(on bool) { setFlag(r, byte(ReqRETX), on) }

// SetAR asks for an ACK.
func (r Request) SetAR(on bool) { setFlag(r, byte(ReqAR), on) }

// ClearOffset returns clear_psn_offset.
func (r Request) ClearOffset() int16 { return int16(u16(r, 2)) }

// SetClearOffset writes clear_psn_offset.
func (r Request) SetClearOffset(v int16) { put16(r, 2, uint16(v)) }

// ClearPSN returns CLEAR_PSN = psn + clear_psn_offset.
func (r Request) ClearPSN() PSN { return r.PSN().Add(int32(r.ClearOffset())) }

// PSN returns the packet sequence number.
func (r Request) PSN() PSN { return PSN(u32(r, 4)) }

// SetPSN writes the packet sequence number.
func (r Request) SetPSN(p PSN) { put32(r, 4, uint32(p)) }

// SPDCID returns the sender's PDC id.
func (r Request) SPDCID() uint16 { return u16(r, 8) }

// DPDCID returns the receiver's PDC id; with SYN set the field means something else, and 0 is returned.
func (r Request) DPDCID() uint16 {
	if r.SYN() {
		return 0
	}
	return u16(r, 10)
}

// SetDPDCID writes the receiver's PDC id and clears SYN, as a retransmission does once the id is known.
func (r Request) SetDPDCID(id uint16) {
	setFlag(r, byte(ReqSYN), false)
	put16(r, 10, id)
}

// PSNOffset returns psn_offset, 0 without SYN.
func (r Request) PSNOffset() uint16 {
	if r.SYN() {
		return u16(r, 10) & psnOffsetMask
	}
	return 0
}

// UseRsvPDC returns use_rsv_pdc, false without SYN.
func (r Request) UseRsvPDC() bool { return r.SYN() && u16(r, 10)&useRsvPDC != 0 }

// StartPSN returns Start_PSN = psn − psn_offset; it means something with SYN only.
func (r Request) StartPSN() PSN { return r.PSN() - PSN(r.PSNOffset()) }

// HasCC reports whether req_cc_state is there (RUD_CC_REQ, ROD_CC_REQ).
func (r Request) HasCC() bool { return len(r) == 16 }

// CCCID returns ccc_id, 0 if HasCC is false.
func (r Request) CCCID() uint8 {
	if !r.HasCC() {
		return 0
	}
	return r[12]
}

// CreditTarget returns credit_target in 256-byte units, 0 if HasCC is false.
func (r Request) CreditTarget() uint32 {
	if !r.HasCC() {
		return 0
	}
	return u24(r, 13)
}

// RequestFields describes a RUD/ROD Request.
type RequestFields struct {
	Type         PDSType
	Next         NextHdr
	Flags        ReqFlags
	ClearOffset  int16 // ≤ 0
	PSN          PSN
	SPDCID       uint16
	DPDCID       uint16 // without SYN
	PSNOffset    uint16 // with SYN, 0..4095
	UseRsvPDC    bool   // with SYN
	CCCID        uint8  // CC variants
	CreditTarget uint32 // CC variants, 256-byte units, 24 bits
}

// AppendRequest writes the header, 12 or 16 bytes by the type.
func AppendRequest(dst []byte, f *RequestFields) []byte {
	cc := f.Type == TypeRUDCCReq || f.Type == TypeRODCCReq
	n := 12
	if cc {
		n = 16
	}
	dst, b := extend(dst, n)
	putPrologue(b, f.Type, uint8(f.Next), uint8(f.Flags))
	put16(b, 2, uint16(f.ClearOffset))
	put32(b, 4, uint32(f.PSN))
	put16(b, 8, f.SPDCID)
	if f.Flags&ReqSYN != 0 {
		put16(b, 10, synWord(f.UseRsvPDC, f.PSNOffset))
	} else {
		put16(b, 10, f.DPDCID)
	}
	if cc {
		put32(b, 12, uint32(f.CCCID)<<24|f.CreditTarget&0xFFFFFF)
	}
	return dst
}
