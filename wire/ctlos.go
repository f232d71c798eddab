package wire

// CtlOSLen is the size of one control ordered set.
const CtlOSLen = 8

// MaxCtlOS is how many ordered sets a frame of EtherExperiment carries at most.
const MaxCtlOS = 8

// LinkControlAddr is the destination of ordered-set frames and of CC_Update; no bridge forwards it.
var LinkControlAddr = MAC{0x01, 0x80, 0xC2, 0x00, 0x00, 0x01}

// CtlOSType is the kind of a control ordered set (uet-link-switch 2.2).
type CtlOSType uint8

// Kinds of control ordered sets.
const (
	CtlOSAck      CtlOSType = 0x01
	CtlOSNack     CtlOSType = 0x02
	CtlOSInit     CtlOSType = 0x03
	CtlOSInitEcho CtlOSType = 0x04
	CtlOSCFUpdate CtlOSType = 0x10
)

var ctlosNames = []string{0x01: "LLR_ACK", 0x02: "LLR_NACK", 0x03: "LLR_INIT", 0x04: "LLR_INIT_ECHO", 0x10: "CF_Update"}

// String returns the standard's name.
func (t CtlOSType) String() string { return name(ctlosNames, uint8(t)) }

// CtlOS is a view of one control ordered set, 8 bytes: what a PCS would turn into a control block.
type CtlOS []byte

// CtlOSBundle is a view of the 1 to 8 ordered sets of one frame.
type CtlOSBundle []byte

const (
	ctlosLane0 = 0x5C
	ctlosOCode = 6
)

var (
	errCtlOSShort    = fieldErr("ordered set", "length", "shorter than 8 bytes")
	errCtlOSLane     = fieldErr("ordered set", "lane0", "is not 0x5c")
	errCtlOSType     = fieldErr("ordered set", "type", "is reserved")
	errCtlOSOCode    = fieldErr("ordered set", "ocode", "is not 6")
	errCtlOSReserved = fieldErr("ordered set", "reserved", "bits are set")
	errCtlOSBundle   = fieldErr("ordered sets", "length", "is not 1 to 8 sets of 8 bytes")
)

// ParseCtlOSBundle returns the ordered sets that are the body of an EtherExperiment frame, without looking into them.
func ParseCtlOSBundle(body []byte) (CtlOSBundle, error) {
	n := len(body)
	if n == 0 || n%CtlOSLen != 0 || n > MaxCtlOS*CtlOSLen {
		return nil, errCtlOSBundle
	}
	return CtlOSBundle(body), nil
}

// Len returns the number of ordered sets.
func (b CtlOSBundle) Len() int { return len(b) / CtlOSLen }

// At returns the i-th ordered set, unchecked: see Validate.
func (b CtlOSBundle) At(i int) CtlOS {
	off := i * CtlOSLen
	return CtlOS(b[off : off+CtlOSLen : off+CtlOSLen])
}

// ParseCtlOS returns the ordered set at the start of b; one with a wrong lane 0, O-code or type is an error.
func ParseCtlOS(b []byte) (CtlOS, error) {
	if len(b) < CtlOSLen {
		return nil, errCtlOSShort
	}
	c := CtlOS(b[:CtlOSLen:CtlOSLen])
	switch t := c.Type(); {
	case c[0] != ctlosLane0:
		return nil, errCtlOSLane
	case c[4]&0x0F != ctlosOCode:
		return nil, errCtlOSOCode
	case t == 0 || t > CtlOSInitEcho && t != CtlOSCFUpdate:
		return nil, errCtlOSType
	}
	return c, nil
}

// Validate checks the contents strictly. The last bytes of LLR_ACK and LLR_NACK are not looked at: UE 1.0.3 protects
// ordered sets there in a way that is not public.
func (c CtlOS) Validate() error {
	if _, err := ParseCtlOS(c); err != nil {
		return err
	}
	switch c.Type() {
	case CtlOSInit, CtlOSInitEcho:
		return check(c[7] != 0, errCtlOSReserved)
	case CtlOSCFUpdate:
		return check(c[7]&0x0F != 0, errCtlOSReserved)
	}
	return nil
}

// Type returns the kind of ordered set.
func (c CtlOS) Type() CtlOSType { return CtlOSType(c[1]) }

// Seq returns the 20-bit sequence number of an LLR_ACK or LLR_NACK, or init_seq of LLR_INIT and LLR_INIT_ECHO.
func (c CtlOS) Seq() uint32 { return u24(c, 2) >> 4 }

// InitData returns init_data of LLR_INIT and LLR_INIT_ECHO.
func (c CtlOS) InitData() uint16 { return uint16(c[5]) | uint16(c[6])<<8 }

// CFEntry says how many credits a receiver has freed on a virtual channel.
type CFEntry struct {
	VC    uint8  // 5 bits
	Count uint16 // low 15 bits of the count, absolute
}

// CF returns both entries of a CF_Update.
func (c CtlOS) CF() (first, second CFEntry) {
	a, b := u24(c, 2)>>4, u24(c, 5)>>4
	return CFEntry{uint8(a >> 15), uint16(a & 0x7FFF)}, CFEntry{uint8(b >> 15), uint16(b & 0x7FFF)}
}

// AppendCtlOSHeader begins an ordered-set frame; 1 to 8 ordered sets and the link trailer go behind it.
func AppendCtlOSHeader(dst []byte, src MAC) []byte {
	return AppendEth(dst, LinkControlAddr, src, EtherExperiment)
}

func appendCtlOS(dst []byte, t CtlOSType, first, second uint32, tail byte) []byte {
	return append(dst, ctlosLane0, byte(t), byte(first>>12), byte(first>>4), byte(first<<4)|ctlosOCode,
		byte(second>>12), byte(second>>4), byte(second<<4)|tail)
}

// AppendLLRSeq writes an LLR_ACK or LLR_NACK with a 20-bit sequence number.
func AppendLLRSeq(dst []byte, t CtlOSType, seq uint32) []byte { return appendCtlOS(dst, t, seq, 0, 0) }

// AppendLLRInit writes an LLR_INIT or LLR_INIT_ECHO: seq is the number (20 bits) of the sender's next eligible frame.
func AppendLLRInit(dst []byte, t CtlOSType, seq uint32, data uint16) []byte {
	return appendCtlOS(dst, t, seq, uint32(data&0xFF)<<12|uint32(data>>8)<<4, 0)
}

// AppendCFUpdate writes a CF_Update. If one channel alone has changed, give it twice.
func AppendCFUpdate(dst []byte, first, second CFEntry) []byte {
	pack := func(e CFEntry) uint32 { return uint32(e.VC&0x1F)<<15 | uint32(e.Count&0x7FFF) }
	return appendCtlOS(dst, CtlOSCFUpdate, pack(first), pack(second), 0)
}
