package wire

// RespHead is a view of the first two bytes of every SES response.
type RespHead []byte

// List returns where the target placed the message.
func (r RespHead) List() List { return List(r[0] >> 6) }

// Opcode returns the response opcode.
func (r RespHead) Opcode() RespOpcode { return RespOpcode(r[0] & 0x3F) }

// Ver returns the version, 0 in all releases.
func (r RespHead) Ver() uint8 { return r[1] >> 6 }

// ReturnCode returns the result.
func (r RespHead) ReturnCode() ReturnCode { return ReturnCode(r[1] & 0x3F) }

var (
	errRespShort    = fieldErr("SES response", "length", "shorter than its header")
	errRespVer      = fieldErr("SES response", "ver", "is not 0")
	errRespOpcode   = fieldErr("SES response", "opcode", "is not allowed in this form")
	errRespCode     = fieldErr("SES response", "return_code", "is reserved")
	errRespReserved = fieldErr("SES response", "reserved", "bits are set")
)

func (r RespHead) validate(next NextHdr) error {
	c := r.ReturnCode()
	switch {
	case r.Ver() != 0:
		return errRespVer
	case !r.Opcode().LegalFor(next):
		return errRespOpcode
	case c > RCDropped && c < 0x30 || c > 0x37 && c != RCExtended:
		return errRespCode
	}
	return nil
}

// RespFields describes the part that all SES responses share.
type RespFields struct {
	List       List
	Opcode     RespOpcode
	ReturnCode ReturnCode
	JobID      uint32 // 24 bits
}

func putRespHead(b []byte, f *RespFields, byte4 uint8) {
	b[0], b[1] = byte(f.List)<<6|byte(f.Opcode)&0x3F, byte(f.ReturnCode)&0x3F
	put32(b, 4, uint32(byte4)<<24|f.JobID&0xFFFFFF)
}

// SESResponse is a view of RESPONSE (12 bytes, uet-wire 9.1).
type SESResponse []byte

// ParseSESResponse returns the header at the start of b.
func ParseSESResponse(b []byte) (SESResponse, error) {
	if len(b) < 12 {
		return nil, errRespShort
	}
	return SESResponse(b[:12:12]), nil
}

// Validate checks the contents strictly.
func (r SESResponse) Validate() error { return r.Head().validate(NextResponse) }

// Head returns list, opcode and return code.
func (r SESResponse) Head() RespHead { return RespHead(r[:2:2]) }

// MessageID returns message_id of the request.
func (r SESResponse) MessageID() uint16 { return u16(r, 2) }

// RIGeneration returns ri_generation.
func (r SESResponse) RIGeneration() uint8 { return r[4] }

// JobID returns the 24-bit job_id.
func (r SESResponse) JobID() uint32 { return u24(r, 5) }

// ModifiedLength returns the bytes written at the target.
func (r SESResponse) ModifiedLength() uint32 { return u32(r, 8) }

// ResponseFields describes a RESPONSE.
type ResponseFields struct {
	RespFields
	MessageID      uint16
	RIGeneration   uint8
	ModifiedLength uint32
}

// AppendSESResponse writes the 12-byte header.
func AppendSESResponse(dst []byte, f *ResponseFields) []byte {
	dst, b := extend(dst, 12)
	putRespHead(b, &f.RespFields, f.RIGeneration)
	put16(b, 2, f.MessageID)
	put32(b, 8, f.ModifiedLength)
	return dst
}

// SESResponseData is a view of RESPONSE_DATA (20 bytes, uet-wire 9.2).
type SESResponseData []byte

// ParseSESResponseData returns the header at the start of b.
func ParseSESResponseData(b []byte) (SESResponseData, error) {
	if len(b) < 20 {
		return nil, errRespShort
	}
	return SESResponseData(b[:20:20]), nil
}

// Validate checks the contents strictly.
func (r SESResponseData) Validate() error {
	if err := r.Head().validate(NextResponseData); err != nil {
		return err
	}
	return check(r[4] != 0 || r[10]&0xC0 != 0, errRespReserved)
}

// Head returns list, opcode and return code.
func (r SESResponseData) Head() RespHead { return RespHead(r[:2:2]) }

// ResponseMessageID returns the target's own message id, or 0.
func (r SESResponseData) ResponseMessageID() uint16 { return u16(r, 2) }

// JobID returns the 24-bit job_id.
func (r SESResponseData) JobID() uint32 { return u24(r, 5) }

// ReadRequestMessageID returns message_id of the request.
func (r SESResponseData) ReadRequestMessageID() uint16 { return u16(r, 8) }

// PayloadLength returns the bytes of data in this packet.
func (r SESResponseData) PayloadLength() int { return int(u16(r, 10) & 0x3FFF) }

// ModifiedLength returns the bytes of data in all.
func (r SESResponseData) ModifiedLength() uint32 { return u32(r, 12) }

// MessageOffset returns where the data lies in the message.
func (r SESResponseData) MessageOffset() uint32 { return u32(r, 16) }

// ResponseDataFields describes a RESPONSE_DATA.
type ResponseDataFields struct {
	RespFields
	ResponseMessageID    uint16
	ReadRequestMessageID uint16
	PayloadLength        uint16 // 14 bits
	ModifiedLength       uint32
	MessageOffset        uint32
}

// AppendSESResponseData writes the 20-byte header; the data goes behind it.
func AppendSESResponseData(dst []byte, f *ResponseDataFields) []byte {
	dst, b := grow(dst, 20)
	putRespHead(b, &f.RespFields, 0)
	put16(b, 2, f.ResponseMessageID)
	put16(b, 8, f.ReadRequestMessageID)
	put16(b, 10, f.PayloadLength&0x3FFF)
	put32(b, 12, f.ModifiedLength)
	put32(b, 16, f.MessageOffset)
	return dst
}

// SESResponseDataSmall is a view of RESPONSE_DATA_SMALL (12 bytes, uet-wire 9.3), the answer to a SMALL or MEDIUM request.
type SESResponseDataSmall []byte

// ParseSESResponseDataSmall returns the header at the start of b.
func ParseSESResponseDataSmall(b []byte) (SESResponseDataSmall, error) {
	if len(b) < 12 {
		return nil, errRespShort
	}
	return SESResponseDataSmall(b[:12:12]), nil
}

// Validate checks the contents strictly.
func (r SESResponseDataSmall) Validate() error {
	if err := r.Head().validate(NextResponseDataSmall); err != nil {
		return err
	}
	return check(r[2]&0xC0 != 0 || r[4] != 0, errRespReserved)
}

// Head returns list, opcode and return code.
func (r SESResponseDataSmall) Head() RespHead { return RespHead(r[:2:2]) }

// PayloadLength returns the bytes of data in this packet.
func (r SESResponseDataSmall) PayloadLength() int { return int(u16(r, 2) & 0x3FFF) }

// JobID returns the 24-bit job_id.
func (r SESResponseDataSmall) JobID() uint32 { return u24(r, 5) }

// OriginalRequestPSN returns the PSN of the request, which has no message ID.
func (r SESResponseDataSmall) OriginalRequestPSN() PSN { return PSN(u32(r, 8)) }

// ResponseDataSmallFields describes a RESPONSE_DATA_SMALL.
type ResponseDataSmallFields struct {
	RespFields
	PayloadLength      uint16 // 14 bits
	OriginalRequestPSN PSN
}

// AppendSESResponseDataSmall writes the 12-byte header; the data goes behind it.
func AppendSESResponseDataSmall(dst []byte, f *ResponseDataSmallFields) []byte {
	dst, b := grow(dst, 12)
	putRespHead(b, &f.RespFields, 0)
	put16(b, 2, f.PayloadLength&0x3FFF)
	put32(b, 8, uint32(f.OriginalRequestPSN))
	return dst
}
