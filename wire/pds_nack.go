package wire

// NackFlags are the flags of a NACK (uet-wire 5).
type NackFlags uint8

// NACK flags.
const (
	NackM    NackFlags = 0x20 // the refused packet was CE-marked
	NackRETX NackFlags = 0x10 // it was a retransmission
	NackNT   NackFlags = 0x08 // it was RUDI
)

// Nack is a view of a NACK (16 bytes) or NACK_CCX (32). What follows it is ignored.
type Nack []byte

var (
	errNackShort    = fieldErr("NACK", "length", "shorter than its header")
	errNackType     = fieldErr("NACK", "type", "is not NACK or NACK_CCX")
	errNackNext     = fieldErr("NACK", "next_hdr", "is not NONE")
	errNackReserved = fieldErr("NACK", "flags", "reserved bits are set")
	errNackCode     = fieldErr("NACK", "nack_code", "is reserved")
	errNackRUDI     = fieldErr("NACK", "spdcid/dpdcid", "is not 0 although NT says RUDI")
	errNackDPDCID   = fieldErr("NACK", "dpdcid", "is 0, which names no PDC")
)

// ParseNack returns the header at the start of b.
func ParseNack(b []byte) (Nack, error) {
	if len(b) < prologueLen {
		return nil, errNackShort
	}
	t := Prologue(b).Type()
	if !t.IsNack() {
		return nil, errNackType
	}
	n := t.HeaderLen()
	if len(b) < n {
		return nil, errNackShort
	}
	return Nack(b[:n:n]), nil
}

// Validate checks the contents strictly. TRIMMED_ACK (0x03), reserved since 1.0.3, is accepted.
func (n Nack) Validate() error {
	c := n.Code()
	switch {
	case Prologue(n).Next() != NextNone:
		return errNackNext
	case n[1]&0x47 != 0:
		return errNackReserved
	case c == 0 || c == 0x0C || c > NackRcvrInferLoss && c < NackExpNormal:
		return errNackCode
	case n.NT() && u32(n, 8) != 0:
		return errNackRUDI
	case !n.NT() && n.DPDCID() == 0:
		return errNackDPDCID
	}
	return nil
}

// Type returns NACK or NACK_CCX.
func (n Nack) Type() PDSType { return Prologue(n).Type() }

// Flags returns the flags.
func (n Nack) Flags() NackFlags { return NackFlags(n[1] & 0x7F) }

// M reports that the refused packet was CE-marked.
func (n Nack) M() bool { return n[1]&byte(NackM) != 0 }

// RETX reports that the refused packet was a retransmission.
func (n Nack) RETX() bool { return n[1]&byte(NackRETX) != 0 }

// NT reports that the refused packet was RUDI: PktID counts instead of PSN.
func (n Nack) NT() bool { return n[1]&byte(NackNT) != 0 }

// Code returns nack_code.
func (n Nack) Code() NackCode { return NackCode(n[2]) }

// VendorCode returns vendor_code, 0 if unused.
func (n Nack) VendorCode() uint8 { return n[3] }

// PSN returns nack_psn (NT = 0).
func (n Nack) PSN() PSN { return PSN(u32(n, 4)) }

// PktID returns nack_pkt_id (NT = 1).
func (n Nack) PktID() uint32 { return u32(n, 4) }

// SPDCID returns the PDC id of the NACK's sender, 0 if it has no PDC.
func (n Nack) SPDCID() uint16 { return u16(n, 8) }

// DPDCID returns the PDC id of the NACK's receiver.
func (n Nack) DPDCID() uint16 { return u16(n, 10) }

// Payload returns the 32-bit payload, whose meaning hangs on the code.
func (n Nack) Payload() uint32 { return u32(n, 12) }

// HasCCX reports whether this is a NACK_CCX.
func (n Nack) HasCCX() bool { return len(n) == 32 }

// CCXType returns nccx_type, 0 if HasCCX is false.
func (n Nack) CCXType() uint8 {
	if !n.HasCCX() {
		return 0
	}
	return n[16] >> 4
}

// CCXState returns nack_ccx_state1 (60 bits) and nack_ccx_state2, 0 if HasCCX is false.
func (n Nack) CCXState() (state1, state2 uint64) {
	if !n.HasCCX() {
		return 0, 0
	}
	return u64(n, 16) & (1<<60 - 1), u64(n, 24)
}

// NackFields describes a NACK or NACK_CCX.
type NackFields struct {
	Type       PDSType
	Flags      NackFlags
	Code       NackCode
	VendorCode uint8
	PSN        PSN // NackNT: the pkt_id
	SPDCID     uint16
	DPDCID     uint16
	Payload    uint32
	CCXType    uint8  // from here: NACK_CCX
	CCXState1  uint64 // 60 bits
	CCXState2  uint64
}

// AppendNack writes the header, 16 or 32 bytes by the type.
func AppendNack(dst []byte, f *NackFields) []byte {
	dst, b := grow(dst, max(f.Type.HeaderLen(), 16))
	putPrologue(b, f.Type, 0, uint8(f.Flags))
	b[2], b[3] = byte(f.Code), f.VendorCode
	put32(b, 4, uint32(f.PSN))
	put16(b, 8, f.SPDCID)
	put16(b, 10, f.DPDCID)
	put32(b, 12, f.Payload)
	if len(b) >= 32 {
		put64(b, 16, uint64(f.CCXType)<<60|f.CCXState1&(1<<60-1))
		put64(b, 24, f.CCXState2)
	}
	return dst
}
