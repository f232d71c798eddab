package wire

// RUDIFlags are the flags of RUDI_REQ and RUDI_RESP (uet-wire 7).
type RUDIFlags uint8

// RUDI flags.
const (
	RUDIM    RUDIFlags = 0x20 // responses: the request was CE-marked
	RUDIRETX RUDIFlags = 0x10
)

// RUDI is a view of a RUDI_REQ or RUDI_RESP header, 8 bytes.
type RUDI []byte

// UUD is a view of a UUD_REQ header, 4 bytes: the prologue and nothing else.
type UUD []byte

var (
	errRUDIShort    = fieldErr("RUDI", "length", "shorter than 8 bytes")
	errRUDIType     = fieldErr("RUDI", "type", "is not RUDI_REQ or RUDI_RESP")
	errRUDINext     = fieldErr("RUDI", "next_hdr", "may not follow this type")
	errRUDIReserved = fieldErr("RUDI", "flags", "reserved bits are set")
	errUUDShort     = fieldErr("UUD", "length", "shorter than 4 bytes")
	errUUDType      = fieldErr("UUD", "type", "is not UUD_REQ")
	errUUDNext      = fieldErr("UUD", "next_hdr", "is not a request")
	errUUDReserved  = fieldErr("UUD", "flags", "reserved bits are set")
)

// ParseRUDI returns the header at the start of b; b[len(r):] is the SES part.
func ParseRUDI(b []byte) (RUDI, error) {
	if len(b) < 8 {
		return nil, errRUDIShort
	}
	if t := Prologue(b).Type(); t != TypeRUDIReq && t != TypeRUDIResp {
		return nil, errRUDIType
	}
	return RUDI(b[:8:8]), nil
}

// Validate checks the contents strictly.
func (r RUDI) Validate() error {
	reserved := byte(0x4F)
	if r.Type() == TypeRUDIReq {
		reserved |= byte(RUDIM)
	}
	if !r.Next().LegalFor(r.Type()) {
		return errRUDINext
	}
	return check(r[1]&reserved != 0, errRUDIReserved)
}

// Type returns RUDI_REQ or RUDI_RESP.
func (r RUDI) Type() PDSType { return Prologue(r).Type() }

// Next returns the SES header form that follows.
func (r RUDI) Next() NextHdr { return Prologue(r).Next() }

// Flags returns the flags.
func (r RUDI) Flags() RUDIFlags { return RUDIFlags(r[1] & 0x7F) }

// PktID returns the number by which the response finds its request.
func (r RUDI) PktID() uint32 { return u32(r, 4) }

// RUDIFields describes a RUDI_REQ or RUDI_RESP.
type RUDIFields struct {
	Type  PDSType
	Next  NextHdr
	Flags RUDIFlags
	PktID uint32
}

// AppendRUDI writes the 8-byte header.
func AppendRUDI(dst []byte, f *RUDIFields) []byte {
	dst, b := grow(dst, 8)
	putPrologue(b, f.Type, uint8(f.Next), uint8(f.Flags))
	put32(b, 4, f.PktID)
	return dst
}

// ParseUUD returns the header at the start of b; b[len(u):] is the SES part.
func ParseUUD(b []byte) (UUD, error) {
	if len(b) < 4 {
		return nil, errUUDShort
	}
	if Prologue(b).Type() != TypeUUDReq {
		return nil, errUUDType
	}
	return UUD(b[:4:4]), nil
}

// Validate checks the contents strictly.
func (u UUD) Validate() error {
	if !u.Next().LegalFor(TypeUUDReq) {
		return errUUDNext
	}
	return check(u[1]&0x7F != 0, errUUDReserved)
}

// Next returns the SES header form that follows.
func (u UUD) Next() NextHdr { return Prologue(u).Next() }

// AppendUUD writes the 4-byte header.
func AppendUUD(dst []byte, next NextHdr) []byte {
	dst, b := grow(dst, 4)
	putPrologue(b, TypeUUDReq, uint8(next), 0)
	return dst
}
