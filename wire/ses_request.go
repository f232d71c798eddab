package wire

// SESFlags are the low six bits of byte 1 of a SES request (uet-wire 8.1).
type SESFlags uint8

// SES request flags.
const (
	SESDC  SESFlags = 0x20 // delivery complete: respond after global observability
	SESIE  SESFlags = 0x10 // initiator error
	SESRel SESFlags = 0x08 // relative addressing: JobID + PIDonFEP + RI
	SESHD  SESFlags = 0x04 // header_data is valid
	SESEOM SESFlags = 0x02 // last packet of the message
	SESSOM SESFlags = 0x01 // first packet of the message
)

// SESHead is a view of the 12 bytes that begin every SES request, whatever its form.
type SESHead []byte

// Opcode returns the operation.
func (s SESHead) Opcode() Opcode { return Opcode(s[0] & 0x3F) }

// Ver returns the version, 0 in all releases.
func (s SESHead) Ver() uint8 { return s[1] >> 6 }

// Flags returns the six flags.
func (s SESHead) Flags() SESFlags { return SESFlags(s[1] & 0x3F) }

// DC reports delivery complete.
func (s SESHead) DC() bool { return s[1]&byte(SESDC) != 0 }

// IE reports an initiator error.
func (s SESHead) IE() bool { return s[1]&byte(SESIE) != 0 }

// Rel reports relative addressing.
func (s SESHead) Rel() bool { return s[1]&byte(SESRel) != 0 }

// HD reports that header_data is valid.
func (s SESHead) HD() bool { return s[1]&byte(SESHD) != 0 }

// EOM reports the last packet of a message.
func (s SESHead) EOM() bool { return s[1]&byte(SESEOM) != 0 }

// SOM reports the first packet of a message.
func (s SESHead) SOM() bool { return s[1]&byte(SESSOM) != 0 }

// SetIE marks an initiator error.
func (s SESHead) SetIE(on bool) { setFlag(s, byte(SESIE), on) }

// RIGeneration returns ri_generation.
func (s SESHead) RIGeneration() uint8 { return s[4] }

// JobID returns the 24-bit job_id.
func (s SESHead) JobID() uint32 { return u24(s, 5) }

// PIDonFEP returns the 12-bit number of the target process.
func (s SESHead) PIDonFEP() uint16 { return u16(s, 8) & 0x0FFF }

// ResourceIndex returns the 12-bit resource_index.
func (s SESHead) ResourceIndex() uint16 { return u16(s, 10) & 0x0FFF }

// HeadFields describes the part that all SES requests share.
type HeadFields struct {
	Opcode        Opcode
	Flags         SESFlags
	RIGeneration  uint8
	JobID         uint32 // 24 bits
	PIDonFEP      uint16 // 12 bits
	ResourceIndex uint16 // 12 bits
}

func putHead(b []byte, f *HeadFields, second uint16) {
	b[0], b[1] = byte(f.Opcode)&0x3F, byte(f.Flags)&0x3F
	put16(b, 2, second)
	put32(b, 4, uint32(f.RIGeneration)<<24|f.JobID&0xFFFFFF)
	put32(b, 8, uint32(f.PIDonFEP&0x0FFF)<<16|uint32(f.ResourceIndex&0x0FFF))
}

var (
	errSESShort      = fieldErr("SES request", "length", "shorter than its header")
	errSESVer        = fieldErr("SES request", "ver", "is not 0")
	errSESReserved   = fieldErr("SES request", "reserved", "bits are set")
	errSESOpcode     = fieldErr("SES request", "opcode", "is reserved, or not allowed in this form")
	errSESSOMEOM     = fieldErr("SES request", "som/eom", "is 0 although this form is always one packet")
	errSESPayloadLen = fieldErr("SES", "payload_length", "beyond the packet")
	errSESOffset     = fieldErr("SES request", "message_offset", "the packet ends beyond request_length")
	errSESMsgError   = fieldErr("SES request", "ie/som/eom", "MSG_ERROR needs ie = 1, eom = 1, som = 0")
)

// validateHead checks what all forms share.
func (s SESHead) validateHead() error {
	switch {
	case s.Ver() != 0:
		return errSESVer
	case s[0]&0xC0 != 0 || s[8]&0xF0 != 0 || s[10]&0xF0 != 0:
		return errSESReserved
	case s.Opcode() > OpMsgError && s.Opcode() < 0x30:
		return errSESOpcode
	}
	return nil
}

// SESStd is a view of the standard request header (44 bytes): SOM and continuation, deferrable and ready-to-restart.
type SESStd []byte

// ParseSESStd returns the header at the start of b.
func ParseSESStd(b []byte) (SESStd, error) {
	if len(b) < 44 {
		return nil, errSESShort
	}
	return SESStd(b[:44:44]), nil
}

// Validate checks the contents strictly.
func (s SESStd) Validate() error {
	h := s.Head()
	if err := h.validateHead(); err != nil {
		return err
	}
	if h.Opcode() == OpMsgError && h.Flags()&(SESIE|SESEOM|SESSOM) != SESIE|SESEOM {
		return errSESMsgError
	}
	if !h.SOM() {
		if u32(s, 32)>>14 != 0 {
			return errSESReserved
		}
		return check(uint64(s.MessageOffset())+uint64(s.PayloadLength()) > uint64(s.RequestLength()), errSESOffset)
	}
	return nil
}

// Head returns the shared first 12 bytes.
func (s SESStd) Head() SESHead { return SESHead(s[:12:12]) }

// MessageID returns message_id.
func (s SESStd) MessageID() uint16 { return u16(s, 2) }

// BufferOffset returns buffer_offset, 0 in a deferrable send, which has tokens there.
func (s SESStd) BufferOffset() uint64 {
	if s.Head().Opcode().IsDeferrable() {
		return 0
	}
	return u64(s, 12)
}

// Initiator returns the id used for matching.
func (s SESStd) Initiator() uint32 { return u32(s, 20) }

// MatchBits returns match_bits of a tagged operation, or the memory_key of an RMA; 0 in DEFERRABLE_RTR.
func (s SESStd) MatchBits() uint64 {
	if s.Head().Opcode() == OpDeferrableRTR {
		return 0
	}
	return u64(s, 24)
}

// HeaderData returns header_data, 0 in a continuation.
func (s SESStd) HeaderData() uint64 {
	if !s.Head().SOM() {
		return 0
	}
	return u64(s, 32)
}

// PayloadLength returns payload_length of a continuation, 0 in a SOM packet (there it follows from the packet's length).
func (s SESStd) PayloadLength() int {
	if s.Head().SOM() {
		return 0
	}
	return int(u32(s, 32) & 0x3FFF)
}

// MessageOffset returns where in the message this packet's first byte lies; 0 in a SOM packet.
func (s SESStd) MessageOffset() uint32 {
	if s.Head().SOM() {
		return 0
	}
	return u32(s, 36)
}

// RequestLength returns the length of the whole message in bytes.
func (s SESStd) RequestLength() uint32 { return u32(s, 40) }

// tokens returns where the restart tokens lie, 0 if this opcode has none.
func (s SESStd) tokens() int {
	switch op := s.Head().Opcode(); {
	case op.IsDeferrable():
		return 12
	case op == OpDeferrableRTR:
		return 24
	}
	return 0
}

// InitiatorToken returns ini_restart_token of a deferrable send or ready-to-restart, else 0.
func (s SESStd) InitiatorToken() uint32 {
	if off := s.tokens(); off != 0 {
		return u32(s, off)
	}
	return 0
}

// TargetToken returns tgt_restart_token of a deferrable send or ready-to-restart, else 0.
func (s SESStd) TargetToken() uint32 {
	if off := s.tokens(); off != 0 {
		return u32(s, off+4)
	}
	return 0
}

// StdFields describes a standard request. Without SESSOM it is a continuation: PayloadLength and MessageOffset count,
// HeaderData does not.
type StdFields struct {
	HeadFields
	MessageID      uint16
	BufferOffset   uint64 // not in deferrable sends
	Initiator      uint32
	MatchBits      uint64 // match_bits or memory_key; not in DEFERRABLE_RTR
	HeaderData     uint64 // SOM
	PayloadLength  uint16 // continuation, 14 bits
	MessageOffset  uint32 // continuation
	RequestLength  uint32
	InitiatorToken uint32 // deferrable sends and DEFERRABLE_RTR
	TargetToken    uint32 // the same
}

// AppendSESStd writes the 44-byte header.
func AppendSESStd(dst []byte, f *StdFields) []byte {
	dst, b := extend(dst, 44)
	_ = b[43]
	putHead(b, &f.HeadFields, f.MessageID)
	tokens := uint64(f.InitiatorToken)<<32 | uint64(f.TargetToken)
	offset, match := f.BufferOffset, f.MatchBits
	if f.Opcode.IsDeferrable() {
		offset = tokens
	} else if f.Opcode == OpDeferrableRTR {
		match = tokens
	}
	put64(b, 12, offset)
	put32(b, 20, f.Initiator)
	put64(b, 24, match)
	if f.Flags&SESSOM != 0 {
		put64(b, 32, f.HeaderData)
	} else {
		put64(b, 32, uint64(f.PayloadLength&0x3FFF)<<32|uint64(f.MessageOffset))
	}
	put32(b, 40, f.RequestLength)
	return dst
}

// SESSmall is a view of the optimized non-matching header (20 bytes).
type SESSmall []byte

// ParseSESSmall returns the header at the start of b.
func ParseSESSmall(b []byte) (SESSmall, error) {
	if len(b) < 20 {
		return nil, errSESShort
	}
	return SESSmall(b[:20:20]), nil
}

// Validate checks the contents strictly.
func (s SESSmall) Validate() error {
	h := s.Head()
	if err := h.validateHead(); err != nil {
		return err
	}
	return h.validateSingle(s[2], h.Opcode() <= OpFetchingAtomic, h.HD())
}

// validateSingle checks what SMALL and MEDIUM share.
func (s SESHead) validateSingle(second byte, legal, reserved bool) error {
	switch {
	case !legal:
		return errSESOpcode
	case second&0xC0 != 0 || reserved:
		return errSESReserved
	}
	return check(!s.SOM() || !s.EOM(), errSESSOMEOM)
}

// Head returns the shared first 12 bytes.
func (s SESSmall) Head() SESHead { return SESHead(s[:12:12]) }

// RequestLength returns the length of the message in bytes.
func (s SESSmall) RequestLength() uint32 { return uint32(u16(s, 2) & 0x3FFF) }

// BufferOffset returns buffer_offset.
func (s SESSmall) BufferOffset() uint64 { return u64(s, 12) }

// SmallFields describes an optimized non-matching request.
type SmallFields struct {
	HeadFields           // set SESSOM and SESEOM
	RequestLength uint16 // 14 bits
	BufferOffset  uint64
}

// AppendSESSmall writes the 20-byte header.
func AppendSESSmall(dst []byte, f *SmallFields) []byte {
	dst, b := extend(dst, 20)
	putHead(b, &f.HeadFields, f.RequestLength&0x3FFF)
	put64(b, 12, f.BufferOffset)
	return dst
}

// SESMedium is a view of the small-message / small-RMA header (32 bytes).
type SESMedium []byte

// ParseSESMedium returns the header at the start of b.
func ParseSESMedium(b []byte) (SESMedium, error) {
	if len(b) < 32 {
		return nil, errSESShort
	}
	return SESMedium(b[:32:32]), nil
}

// Validate checks the contents strictly.
func (s SESMedium) Validate() error {
	h := s.Head()
	if err := h.validateHead(); err != nil {
		return err
	}
	legal := false
	switch h.Opcode() {
	case OpNoOp, OpWrite, OpRead, OpAtomic, OpFetchingAtomic, OpSend, OpTaggedSend, OpDatagramSend, OpTSendAtomic,
		OpTSendFetchAtomic:
		legal = true
	}
	return h.validateSingle(s[2], legal, false)
}

// Head returns the shared first 12 bytes.
func (s SESMedium) Head() SESHead { return SESHead(s[:12:12]) }

// RequestLength returns the length of the message in bytes.
func (s SESMedium) RequestLength() uint32 { return uint32(u16(s, 2) & 0x3FFF) }

// HeaderData returns header_data if HD is set, else 0.
func (s SESMedium) HeaderData() uint64 {
	if !s.Head().HD() {
		return 0
	}
	return u64(s, 12)
}

// BufferOffset returns buffer_offset unless HD is set.
func (s SESMedium) BufferOffset() uint64 {
	if s.Head().HD() {
		return 0
	}
	return u64(s, 12)
}

// Initiator returns the id used for matching.
func (s SESMedium) Initiator() uint32 { return u32(s, 20) }

// MatchBits returns match_bits, or the memory_key of an RMA.
func (s SESMedium) MatchBits() uint64 { return u64(s, 24) }

// MediumFields describes a small-message request.
type MediumFields struct {
	HeadFields           // set SESSOM and SESEOM
	RequestLength uint16 // 14 bits
	BufferOffset  uint64 // without SESHD
	HeaderData    uint64 // with SESHD
	Initiator     uint32
	MatchBits     uint64
}

// AppendSESMedium writes the 32-byte header.
func AppendSESMedium(dst []byte, f *MediumFields) []byte {
	dst, b := extend(dst, 32)
	putHead(b, &f.HeadFields, f.RequestLength&0x3FFF)
	if f.Flags&SESHD != 0 {
		put64(b, 12, f.HeaderData)
	} else {
		put64(b, 12, f.BufferOffset)
	}
	put32(b, 20, f.Initiator)
	put64(b, 24, f.MatchBits)
	return dst
}
