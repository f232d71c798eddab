package wire

// Rendezvous is a view of the extension behind the standard header of RENDEZVOUS_SEND and RENDEZVOUS_TSEND, 24 bytes
// (uet-wire 8.8): where the target reads the rest of the message.
type Rendezvous []byte

// Atomic is a view of the extension of the atomic operations, 4 bytes, 36 for the compare-and-swap family (uet-wire 8.9).
type Atomic []byte

const (
	rendezvousLen = 24
	atomicLen     = 4
	cswapLen      = 36

	rendezvousName = "rendezvous extension" // in errors
	atomicName     = "atomic extension"
)

var (
	errRndvShort   = fieldErr(rendezvousName, "length", "shorter than 24 bytes")
	errAMOShort    = fieldErr(atomicName, "length", "shorter than its 4 or 36 bytes")
	errAMOOp       = fieldErr(atomicName, "amo_opcode", "is reserved")
	errAMOType     = fieldErr(atomicName, "amo_datatype", "is reserved")
	errAMOReserved = fieldErr(atomicName, "reserved", "bits are set")
	errSESNext     = fieldErr("SES", "next_hdr", "is reserved")
)

// ParseRendezvous returns the extension at the start of b.
func ParseRendezvous(b []byte) (Rendezvous, error) {
	if len(b) < rendezvousLen {
		return nil, errRndvShort
	}
	return Rendezvous(b[:rendezvousLen:rendezvousLen]), nil
}

// EagerLength returns the payload bytes of the eager part.
func (r Rendezvous) EagerLength() uint32 { return u32(r, 0) }

// RIGeneration returns read_ri_generation.
func (r Rendezvous) RIGeneration() uint8 { return r[4] }

// PIDonFEP returns read_pid_on_fep (12 bits).
func (r Rendezvous) PIDonFEP() uint16 { return uint16(u32(r, 4)>>12) & 0x0FFF }

// ResourceIndex returns read_resource_index (12 bits).
func (r Rendezvous) ResourceIndex() uint16 { return u16(r, 6) & 0x0FFF }

// Offset returns read_offset.
func (r Rendezvous) Offset() uint64 { return u64(r, 8) }

// MatchBits returns read_match_bits, or the memory key.
func (r Rendezvous) MatchBits() uint64 { return u64(r, 16) }

// RendezvousFields describes a rendezvous extension.
type RendezvousFields struct {
	EagerLength   uint32
	RIGeneration  uint8
	PIDonFEP      uint16 // 12 bits
	ResourceIndex uint16 // 12 bits
	Offset        uint64
	MatchBits     uint64
}

// AppendRendezvous writes the 24-byte extension.
func AppendRendezvous(dst []byte, f *RendezvousFields) []byte {
	dst, b := grow(dst, rendezvousLen)
	put32(b, 0, f.EagerLength)
	put32(b, 4, uint32(f.RIGeneration)<<24|uint32(f.PIDonFEP&0x0FFF)<<12|uint32(f.ResourceIndex&0x0FFF))
	put64(b, 8, f.Offset)
	put64(b, 16, f.MatchBits)
	return dst
}

// ParseAtomic returns the extension at the start of b.
func ParseAtomic(b []byte) (Atomic, error) {
	if len(b) < atomicLen {
		return nil, errAMOShort
	}
	n := atomicLen
	if AtomicOp(b[0]).IsCompareSwap() {
		n = cswapLen
	}
	if len(b) < n {
		return nil, errAMOShort
	}
	return Atomic(b[:n:n]), nil
}

// Validate checks the contents strictly; vendor codes pass.
func (a Atomic) Validate() error {
	reserved := func(v uint8, last uint8) bool { return v > last && v < 0xE0 || v == 0xFF }
	switch {
	case reserved(a[0], uint8(AtomicInval)):
		return errAMOOp
	case reserved(a[1], uint8(AtomicFP16)):
		return errAMOType
	}
	return check(a[3] != 0, errAMOReserved)
}

// Op returns the atomic operation.
func (a Atomic) Op() AtomicOp { return AtomicOp(a[0]) }

// Type returns the datatype.
func (a Atomic) Type() AtomicType { return AtomicType(a[1]) }

// SemCtl returns sem_ctl: 0x01 cacheable, 0x02 CPU-coherent.
func (a Atomic) SemCtl() uint8 { return a[2] }

// Compare returns the 16 bytes of the compare value (narrower types in the low-order, last bytes), nil if there is none.
func (a Atomic) Compare() []byte {
	if len(a) < cswapLen {
		return nil
	}
	return a[4:20]
}

// Swap returns the 16 bytes of the swap value, nil if there is none.
func (a Atomic) Swap() []byte {
	if len(a) < cswapLen {
		return nil
	}
	return a[20:36]
}

// AtomicFields describes an atomic extension; the compare-and-swap family uses Compare and Swap.
type AtomicFields struct {
	Op      AtomicOp
	Type    AtomicType
	SemCtl  uint8
	Compare [16]byte
	Swap    [16]byte
}

// AppendAtomic writes the extension, 4 or 36 bytes by the operation.
func AppendAtomic(dst []byte, f *AtomicFields) []byte {
	dst = append(dst, byte(f.Op), byte(f.Type), f.SemCtl, 0)
	if f.Op.IsCompareSwap() {
		dst = append(dst, f.Compare[:]...)
		dst = append(dst, f.Swap[:]...)
	}
	return dst
}

// SES is where the parts of a SES packet lie; all slices point into the packet.
type SES struct {
	Next    NextHdr
	Header  []byte // 0, 12, 20, 32 or 44 bytes by Next
	Ext     []byte // rendezvous or atomic extension, or empty
	Payload []byte // by the rules of uet-wire 10
	Rest    []byte // behind the payload: empty, or the UET CRC
}

// SplitSES parts b, what follows a PDS header, CRC or ICV cut off if the caller knows of one. Without that the 4 bytes
// of a CRC come out as Rest. A payload_length beyond b is an error, as is a form or length that does not fit; Header is
// set even so, if all of it is there.
func SplitSES(next NextHdr, b []byte) (s SES, err error) {
	err = s.Split(next, b)
	return s, err
}

// Split is SplitSES into s, which spares the data path a copy.
func (s *SES) Split(next NextHdr, b []byte) error {
	s.Next, s.Header, s.Ext, s.Payload, s.Rest = next, nil, nil, nil, nil
	n := next.HeaderLen()
	switch {
	case next == NextNone:
		s.Rest = b
		return nil
	case n == 0:
		return errSESNext
	case len(b) < n && next.IsRequest():
		return errSESShort
	case len(b) < n:
		return errRespShort
	}
	s.Header, b = b[:n:n], b[n:]
	if next.IsRequest() && hasExt(next, SESHead(s.Header).Opcode()) {
		var err error
		if b, err = s.splitExt(b); err != nil {
			return err
		}
	}
	want, exact := s.payloadLen()
	if want > len(b) {
		if exact {
			return errSESPayloadLen
		}
		want = len(b)
	}
	s.Payload, s.Rest = b[:want:want], b[want:]
	return nil
}

// hasExt reports whether an extension follows the request header.
func hasExt(next NextHdr, op Opcode) bool {
	return op.IsAtomic() || op.IsRendezvous() && next == NextRequestStd
}

func (s *SES) splitExt(b []byte) ([]byte, error) {
	if SESHead(s.Header).Opcode().IsAtomic() {
		a, err := ParseAtomic(b)
		s.Ext = a
		return b[len(a):], err
	}
	r, err := ParseRendezvous(b)
	s.Ext = r
	return b[len(r):], err
}

// payloadLen returns the bytes of payload the header speaks of, and whether they must all be in this packet: a SOM
// packet names the length of the whole message, of which it carries what fits.
func (s *SES) payloadLen() (n int, exact bool) {
	switch s.Next {
	case NextResponse:
		return 0, true
	case NextResponseData:
		return SESResponseData(s.Header).PayloadLength(), true
	case NextResponseDataSmall:
		return SESResponseDataSmall(s.Header).PayloadLength(), true
	}
	if s.bare() {
		return 0, true
	}
	switch s.Next {
	case NextRequestSmall:
		return int(SESSmall(s.Header).RequestLength()), false
	case NextRequestMedium:
		return int(SESMedium(s.Header).RequestLength()), false
	}
	std := SESStd(s.Header)
	if !std.Head().SOM() {
		return std.PayloadLength(), true
	}
	return int(std.RequestLength()), false
}

// bare reports a request that carries no payload whatever its lengths say.
func (s *SES) bare() bool {
	switch SESHead(s.Header).Opcode() {
	case OpRead, OpMsgError, OpDeferrableRTR:
		return true
	case OpAtomic, OpFetchingAtomic, OpTSendAtomic, OpTSendFetchAtomic:
		op := Atomic(s.Ext).Op()
		return op.IsCompareSwap() || op == AtomicRead
	}
	return false
}
