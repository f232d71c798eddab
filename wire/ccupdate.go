package wire

// CCUpdateLen is what a CC_Update has behind its EtherType: 46 bytes, so that the frame with its FCS is 64.
const CCUpdateLen = 46

// UECID is the company ID of the UEC, by which its MAC control frames and LLDP TLVs are known.
const UECID = 0xFA7ACB

const macControlExtension = 0xFFFE

// CCCounters is how many counters a CC_Update carries.
const CCCounters = 16

// CCUpdate is a view of a CC_Update from the MAC control opcode on (uet-link-switch 3.5): how many credits the sender
// has consumed on each of 16 virtual channels, in 20 bits.
type CCUpdate []byte

var (
	errCCShort  = fieldErr("CC_Update", "length", "shorter than 46 bytes")
	errCCOpcode = fieldErr("CC_Update", "opcode", "is not 0xfffe, MAC control extension")
	errCCCID    = fieldErr("CC_Update", "cid", "is not fa-7a-cb")
	errCCType   = fieldErr("CC_Update", "type", "is neither 1 nor 2")
	errCCRest   = fieldErr("CC_Update", "length", "bytes follow the counters")
)

// ParseCCUpdate returns the CC_Update that is the body of an EtherMACControl frame. Other MAC control frames (PAUSE, PFC)
// are an error; whose extension it is, and of which type, Validate checks: receivers count these apart.
func ParseCCUpdate(b []byte) (CCUpdate, error) {
	if len(b) < 2 {
		return nil, errCCShort
	}
	if u16(b, 0) != macControlExtension {
		return nil, errCCOpcode
	}
	if len(b) < CCUpdateLen {
		return nil, errCCShort
	}
	return CCUpdate(b[:CCUpdateLen:CCUpdateLen]), nil
}

// IsMACControlExtension says whether the body of an EtherMACControl frame begins with the opcode that CC_Update has.
func IsMACControlExtension(b []byte) bool { return len(b) >= 2 && u16(b, 0) == macControlExtension }

// Validate checks company ID and type.
func (c CCUpdate) Validate() error {
	switch {
	case c.CID() != UECID:
		return errCCCID
	case c.Type() != 1 && c.Type() != 2:
		return errCCType
	}
	return nil
}

// CID returns the company ID.
func (c CCUpdate) CID() uint32 { return u24(c, 2) }

// Type returns 1 for the channels 0..15, 2 for 16..31.
func (c CCUpdate) Type() uint8 { return c[5] }

// FirstVC returns the channel of counter 0.
func (c CCUpdate) FirstVC() uint8 { return (c.Type() - 1) * CCCounters }

// Count returns the i-th counter, 20 bits: credits consumed since the link came up, wrapping.
func (c CCUpdate) Count(i int) uint32 {
	half := 12 + i*5 // in half bytes
	w := u24(c, half/2)
	if half%2 == 0 {
		return w >> 4
	}
	return w & 0xFFFFF
}

// AppendCCUpdate writes a whole frame without FCS and trailer: 60 bytes. high picks the channels 16..31; counts are taken
// modulo 2^20.
func AppendCCUpdate(dst []byte, to, from MAC, high bool, counts *[CCCounters]uint32) []byte {
	dst = AppendEth(dst, to, from, EtherMACControl)
	dst = append(dst, macControlExtension>>8, macControlExtension&0xFF, UECID>>16, UECID>>8&0xFF, UECID&0xFF, 1+bit(high, 1))
	for i := 0; i < CCCounters; i += 2 {
		a, b := counts[i]&0xFFFFF, counts[i+1]&0xFFFFF
		dst = append(dst, byte(a>>12), byte(a>>4), byte(a<<4)|byte(b>>16), byte(b>>8), byte(b))
	}
	return dst
}
