package wire

// AckFlags are the flags of an ACK (uet-wire 4).
type AckFlags uint8

// ACK flags.
const (
	AckEPSN AckFlags = 0x40 // reserved without TSS
	AckM    AckFlags = 0x20 // the acknowledged packet was CE-marked
	AckRETX AckFlags = 0x10 // answers a retransmission
	AckP    AckFlags = 0x08 // answers a Probe
)

// AckReq is the 2-bit wish of a target in an ACK.
type AckReq uint8

// Wishes of a target.
const (
	AckReqNone  AckReq = 0
	AckReqClear AckReq = 1
	AckReqClose AckReq = 2
)

// String returns the standard's name.
func (q AckReq) String() string { return name([]string{"NONE", "CLEAR", "CLOSE"}, uint8(q)) }

// MPRUnit is how many PSNs one step of the mpr field stands for.
const MPRUnit = 128

// Ack is a view of an ACK (12 bytes), ACK_CC (32) or ACK_CCX (40).
type Ack []byte

var (
	errAckShort    = fieldErr("ACK", "length", "shorter than its header")
	errAckType     = fieldErr("ACK", "type", "is not ACK, ACK_CC or ACK_CCX")
	errAckNext     = fieldErr("ACK", "next_hdr", "may not follow an ACK")
	errAckReserved = fieldErr("ACK", "flags", "reserved bits are set")
	errAckReq      = fieldErr("ACK", "req", "is 3, which is reserved")
	errAckSPDCID   = fieldErr("ACK", "spdcid", "is 0, which names no PDC")
	errAckDPDCID   = fieldErr("ACK", "dpdcid", "is 0, which names no PDC")
	errAckCCType   = fieldErr("ACK_CC", "cc_type", "is reserved")
)

// ParseAck returns the header at the start of b; b[len(a):] is the SES part.
func ParseAck(b []byte) (Ack, error) {
	if len(b) < prologueLen {
		return nil, errAckShort
	}
	t := Prologue(b).Type()
	if !t.IsAck() {
		return nil, errAckType
	}
	n := t.HeaderLen()
	if len(b) < n {
		return nil, errAckShort
	}
	return Ack(b[:n:n]), nil
}

// Validate checks the contents strictly, reserved bits included.
func (a Ack) Validate() error {
	switch {
	case !a.Next().LegalFor(a.Type()):
		return errAckNext
	case a[1]&1 != 0:
		return errAckReserved
	case a.Req() == 3:
		return errAckReq
	case a.SPDCID() == 0:
		return errAckSPDCID
	case a.DPDCID() == 0:
		return errAckDPDCID
	case a.HasCC() && a.CCType() > CCTypeCredit && a.CCType() < 14:
		return errAckCCType
	}
	return nil
}

// Type returns ACK, ACK_CC or ACK_CCX.
func (a Ack) Type() PDSType { return Prologue(a).Type() }

// Next returns the SES header form that follows.
func (a Ack) Next() NextHdr { return Prologue(a).Next() }

// Flags returns the flags without the REQ bits.
func (a Ack) Flags() AckFlags { return AckFlags(a[1] & 0x78) }

// Req returns what the target asks for.
func (a Ack) Req() AckReq { return AckReq(a[1] >> 1 & 3) }

// M reports that the acknowledged packet was CE-marked.
func (a Ack) M() bool { return a[1]&byte(AckM) != 0 }

// RETX reports that the ACK answers a retransmission.
func (a Ack) RETX() bool { return a[1]&byte(AckRETX) != 0 }

// P reports that the ACK answers a Probe.
func (a Ack) P() bool { return a[1]&byte(AckP) != 0 }

// AckOffset returns ack_psn_offset, 0 if P is set.
func (a Ack) AckOffset() int16 {
	if a.P() {
		return 0
	}
	return int16(u16(a, 2))
}

// ProbeOpaque returns the value copied from the Probe, 0 unless P is set.
func (a Ack) ProbeOpaque() uint16 {
	if a.P() {
		return u16(a, 2)
	}
	return 0
}

// CACK returns CACK_PSN: everything up to it is received and cleared.
func (a Ack) CACK() PSN { return PSN(u32(a, 4)) }

// AckPSN returns ACK_PSN = cack_psn + ack_psn_offset, the PSN the SES response belongs to; undefined if P is set.
func (a Ack) AckPSN() PSN { return a.CACK().Add(int32(a.AckOffset())) }

// SPDCID returns the PDC id of the ACK's sender.
func (a Ack) SPDCID() uint16 { return u16(a, 8) }

// DPDCID returns the PDC id of the ACK's receiver.
func (a Ack) DPDCID() uint16 { return u16(a, 10) }

// HasCC reports whether the CC part is there (ACK_CC, ACK_CCX); the accessors below want it.
func (a Ack) HasCC() bool { return len(a) >= 32 }

// CCType returns cc_type (ACK_CCX: ccx_type).
func (a Ack) CCType() CCType { return CCType(a[12] >> 4) }

// CCFlags returns the 4 reserved cc_flags.
func (a Ack) CCFlags() uint8 { return a[12] & 0x0F }

// MPR returns the mpr field; MP_Range is 128 times as many PSNs.
func (a Ack) MPR() uint8 { return a[13] }

// SACKOffset returns sack_psn_offset.
func (a Ack) SACKOffset() int16 { return int16(u16(a, 14)) }

// SACKBase returns the PSN that bit 0 of the bitmap stands for.
func (a Ack) SACKBase() PSN { return a.CACK().Add(int32(a.SACKOffset())) }

// SACKBitmap returns sack_bitmap; bit i (0 = least significant) stands for SACKBase + i, 1 = received.
func (a Ack) SACKBitmap() uint64 { return u64(a, 16) }

// CCState returns ack_cc_state; UnpackNSCC and UnpackCredit take it apart.
func (a Ack) CCState() uint64 { return u64(a, 24) }

// CCXState returns ack_ccx_state, 0 unless the type is ACK_CCX.
func (a Ack) CCXState() uint64 {
	if len(a) < 40 {
		return 0
	}
	return u64(a, 32)
}

// AckFields describes an ACK of any type.
type AckFields struct {
	Type        PDSType
	Next        NextHdr
	Flags       AckFlags
	Req         AckReq
	AckOffset   int16  // without AckP
	ProbeOpaque uint16 // with AckP
	CACK        PSN
	SPDCID      uint16
	DPDCID      uint16
	CCType      CCType // from here: ACK_CC and ACK_CCX
	CCFlags     uint8
	MPR         uint8 // units of 128 PSNs
	SACKOffset  int16
	SACKBitmap  uint64
	CCState     uint64 // NSCCState.Pack or CreditState.Pack
	CCXState    uint64 // ACK_CCX
}

// AppendAck writes the header, 12, 32 or 40 bytes by the type.
func AppendAck(dst []byte, f *AckFields) []byte {
	dst, b := extend(dst, max(f.Type.HeaderLen(), 12))
	putPrologue(b, f.Type, uint8(f.Next), uint8(f.Flags)&0x78|uint8(f.Req&3)<<1)
	if f.Flags&AckP != 0 {
		put16(b, 2, f.ProbeOpaque)
	} else {
		put16(b, 2, uint16(f.AckOffset))
	}
	put32(b, 4, uint32(f.CACK))
	put16(b, 8, f.SPDCID)
	put16(b, 10, f.DPDCID)
	if len(b) < 32 {
		return dst
	}
	b[12] = byte(f.CCType)<<4 | f.CCFlags&15
	b[13] = f.MPR
	put16(b, 14, uint16(f.SACKOffset))
	put64(b, 16, f.SACKBitmap)
	put64(b, 24, f.CCState)
	if len(b) >= 40 {
		put64(b, 32, f.CCXState)
	}
	return dst
}

// NSCCState is ack_cc_state for cc_type NSCC.
type NSCCState struct {
	ServiceTime uint16 // 128 ns between arrival and ACK; 0 = not valid, 0xFFFF = 8.38848 ms or more
	RC          bool   // restore cwnd
	RcvCwndPend uint8  // receiver penalty 0..127
	RcvdBytes   uint32 // 256-byte units, 24 bits, cumulative, wraps
	OOO         uint16 // packets out of order; 0xFFFF = not computed
}

// Pack returns the 64-bit field.
func (s NSCCState) Pack() uint64 {
	return uint64(s.ServiceTime)<<48 | uint64(bit(s.RC, 0x80)|s.RcvCwndPend&0x7F)<<40 | uint64(s.RcvdBytes&0xFFFFFF)<<16 |
		uint64(s.OOO)
}

// UnpackNSCC takes the 64-bit field apart.
func UnpackNSCC(v uint64) NSCCState {
	return NSCCState{ServiceTime: uint16(v >> 48), RC: v>>47&1 != 0, RcvCwndPend: uint8(v>>40) & 0x7F,
		RcvdBytes: uint32(v>>16) & 0xFFFFFF, OOO: uint16(v)}
}

// CreditState is ack_cc_state for cc_type CREDIT.
type CreditState struct {
	Credit uint32 // cumulative credit, 256-byte units, 24 bits
	OOO    uint16 // as in NSCCState
}

// Pack returns the 64-bit field.
func (s CreditState) Pack() uint64 { return uint64(s.Credit&0xFFFFFF)<<40 | uint64(s.OOO) }

// UnpackCredit takes the 64-bit field apart.
func UnpackCredit(v uint64) CreditState { return CreditState{Credit: uint32(v >> 40), OOO: uint16(v)} }
