package wire

// TSS is a view of the outer header of the transport security sublayer, 12 bytes, 16 with SSI. What follows is
// ciphertext and, unless the packet was trimmed, a 16-byte ICV (uet-wire 13.1, 13.2).
type TSS []byte

const (
	tssSP       = 0x04000000
	tssReserved = 0x02000000
	tssAN       = 0x01000000
)

var (
	errTSSShort    = fieldErr("TSS", "length", "shorter than its header")
	errTSSType     = fieldErr("TSS", "type", "is not TSS")
	errTSSReserved = fieldErr("TSS", "reserved", "bit is set")
)

// ParseTSS returns the header at the start of b.
func ParseTSS(b []byte) (TSS, error) {
	if len(b) < 12 {
		return nil, errTSSShort
	}
	if PDSType(b[0]>>3) != TypeTSS {
		return nil, errTSSType
	}
	n := 12
	if u32(b, 0)&tssSP != 0 {
		n = 16
	}
	if len(b) < n {
		return nil, errTSSShort
	}
	return TSS(b[:n:n]), nil
}

// Validate checks the reserved bit.
func (t TSS) Validate() error { return check(u32(t, 0)&tssReserved != 0, errTSSReserved) }

// SP reports whether an SSI is there.
func (t TSS) SP() bool { return len(t) == 16 }

// AN returns the association number, 0 or 1.
func (t TSS) AN() uint8 { return t[0] & 1 }

// SDI returns the 24-bit secure domain id.
func (t TSS) SDI() uint32 { return u32(t, 0) & 0xFFFFFF }

// SSI returns the secure source id, 0 if SP is false.
func (t TSS) SSI() uint32 {
	if !t.SP() {
		return 0
	}
	return u32(t, 4)
}

// Epoch returns the upper 16 bits of the time stamp counter.
func (t TSS) Epoch() uint16 { return u16(t, len(t)-8) }

// Counter returns the lower 48 bits of the time stamp counter.
func (t TSS) Counter() uint64 { return u64(t, len(t)-8) & (1<<48 - 1) }

// TSSFields describes a TSS header.
type TSSFields struct {
	SP      bool // SSI present
	AN      uint8
	SDI     uint32 // 24 bits
	SSI     uint32
	Epoch   uint16
	Counter uint64 // 48 bits
}

// AppendTSS writes the header.
func AppendTSS(dst []byte, f *TSSFields) []byte {
	n, w := 12, uint32(TypeTSS)<<27|uint32(f.AN&1)*tssAN|f.SDI&0xFFFFFF
	if f.SP {
		n, w = 16, w|tssSP
	}
	dst, b := grow(dst, n)
	put32(b, 0, w)
	if f.SP {
		put32(b, 4, f.SSI)
	}
	put64(b, n-8, uint64(f.Epoch)<<48|f.Counter&(1<<48-1))
	return dst
}
