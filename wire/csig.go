package wire

// CSIG tags carry a congestion signal in the packet, behind the MAC addresses like an 802.1Q tag (uet-link-switch 10):
//
//	compact (4 octets): TPID 16 | t 3 | r 1 | s 5 | lm 6 | d 1
//	wide    (8 octets): TPID 16 | lm 15 | d 1 | t 4 | s 20 | r 8
//
// The EtherType of what follows comes next.

// Sizes of the tags.
const (
	CSIGCompactLen = 4
	CSIGWideLen    = 8
	macsLen        = 12
)

// TPIDs of the tags; none is assigned publicly, these are the lab's defaults.
const (
	EtherCSIG     EtherType = 0xCCDD // compact
	EtherCSIGWide EtherType = 0xCCDE
)

// CSIGType says what a tag's signal is.
type CSIGType uint8

// Signals. Of available bandwidth the least of the path is kept, of delay and depth the most.
const (
	CSIGABW      CSIGType = 0 // available bandwidth
	CSIGABWShare CSIGType = 1 // available bandwidth by capacity, ABW/C
	CSIGDelay    CSIGType = 2 // delay of one hop
	CSIGQueue    CSIGType = 3 // nQD
)

var csigNames = []string{"ABW", "ABW/C", "HOP_DELAY", "NQD"}

// String is the signal's name.
func (t CSIGType) String() string { return name(csigNames, uint8(t)) }

// IsMin says whether a hop replaces a signal by a lower one; else by a higher one.
func (t CSIGType) IsMin() bool { return t <= CSIGABWShare }

// CSIG is a view of a tag from its TPID on, 4 or 8 bytes.
type CSIG []byte

var errCSIGShort = fieldErr("CSIG tag", "length", "is cut off")

// CSIGTag returns the tag that a frame begins with, by the TPIDs of compact and wide tags, or nil. A tag is there only if
// an EtherType follows it.
func CSIGTag(frame []byte, compact, wide EtherType) CSIG {
	if len(frame) < EthLen {
		return nil
	}
	n := CSIGCompactLen
	switch EtherType(u16(frame, macsLen)) {
	case compact:
	case wide:
		n = CSIGWideLen
	default:
		return nil
	}
	if len(frame) < EthLen+n {
		return nil
	}
	return CSIG(frame[macsLen : macsLen+n : macsLen+n])
}

// Wide says which form the tag has.
func (c CSIG) Wide() bool { return len(c) == CSIGWideLen }

// TPID returns the EtherType that the tag is known by.
func (c CSIG) TPID() EtherType { return EtherType(u16(c, 0)) }

// Type returns what is signalled; values above 3 are reserved.
func (c CSIG) Type() CSIGType {
	if c.Wide() {
		return CSIGType(c[4] >> 4)
	}
	return CSIGType(c[2] >> 5)
}

// MaxSignal returns the highest signal that the form holds, 31 or 1048575.
func (c CSIG) MaxSignal() uint32 {
	if c.Wide() {
		return 1<<20 - 1
	}
	return 1<<5 - 1
}

// Signal returns the quantised signal.
func (c CSIG) Signal() uint32 {
	if c.Wide() {
		return u32(c, 4) >> 8 & 0xFFFFF
	}
	return uint32(u16(c, 2)>>7) & 0x1F
}

// SetSignal writes the signal, which is at most MaxSignal.
func (c CSIG) SetSignal(s uint32) {
	if c.Wide() {
		put32(c, 4, u32(c, 4)&0xF00000FF|s&0xFFFFF<<8)
		return
	}
	put16(c, 2, u16(c, 2)&0xF07F|uint16(s&0x1F)<<7)
}

// Locator returns lm, by which the hop is known that wrote the signal: 6 or 15 bits.
func (c CSIG) Locator() uint16 {
	if c.Wide() {
		return u16(c, 2) >> 1
	}
	return u16(c, 2) >> 1 & 0x3F
}

// SetLocator writes lm, the low bits of it that the form holds.
func (c CSIG) SetLocator(lm uint16) {
	if c.Wide() {
		put16(c, 2, u16(c, 2)&1|lm<<1)
		return
	}
	put16(c, 2, u16(c, 2)&0xFF81|lm&0x3F<<1)
}

// Trimmed returns d: a hop has trimmed the packet, the signal is not to be changed any more.
func (c CSIG) Trimmed() bool { return c[3]&1 != 0 }

// SetTrimmed sets d.
func (c CSIG) SetTrimmed() { c[3] |= 1 }

// CSIGFields is the contents of a tag.
type CSIGFields struct {
	Wide    bool
	TPID    EtherType // 0: the default of the form
	Type    CSIGType
	Signal  uint32
	Locator uint16
	Trimmed bool
}

// InsertCSIG puts a tag behind the MAC addresses of a frame, which grows in place if it has room. It returns false, and the
// frame as it was, if that is no Ethernet frame. Bits of values beyond their fields are lost.
func InsertCSIG(frame []byte, f *CSIGFields) ([]byte, bool) {
	if len(frame) < EthLen {
		return frame, false
	}
	n, tpid := CSIGCompactLen, EtherCSIG
	if f.Wide {
		n, tpid = CSIGWideLen, EtherCSIGWide
	}
	if f.TPID != 0 {
		tpid = f.TPID
	}
	var room [CSIGWideLen]byte
	b := append(frame, room[:n]...)
	copy(b[macsLen+n:], b[macsLen:len(frame)])
	c := CSIG(b[macsLen : macsLen+n : macsLen+n])
	clear(c)
	put16(c, 0, uint16(tpid))
	if f.Wide {
		c[4] = uint8(f.Type) << 4
	} else {
		c[2] = uint8(f.Type) << 5
	}
	c.SetSignal(f.Signal)
	c.SetLocator(f.Locator)
	if f.Trimmed {
		c.SetTrimmed()
	}
	return b, true
}

// RemoveCSIG takes the tag c, which CSIGTag found in the frame, out of it; what is behind moves up.
func RemoveCSIG(frame []byte, c CSIG) []byte {
	return append(frame[:macsLen], frame[macsLen+len(c):]...)
}

// Tables of the tags: what follows the TPID, which is the EtherType before.
var (
	tabCSIG = &HeaderTable{Name: "CSIG tag", Layer: "csig", Codes: []uint64{uint64(EtherCSIG)}, Bytes: CSIGCompactLen, Fields: []Field{
		enum("csig.t", 0, 3, "CSIGType", "what is signalled"),
		reserved("csig.r", 3, 1),
		num("csig.s", 4, 5, "signal, quantised"),
		num("csig.lm", 9, 6, "locator of the hop that wrote it"),
		num("csig.d", 15, 1, "trimmed: later hops leave the signal"),
		enum("csig.type", 16, 16, "EtherType", "what follows the tag"),
	}}
	tabCSIGWide = &HeaderTable{Name: "wide CSIG tag", Layer: "csig", Codes: []uint64{uint64(EtherCSIGWide)}, Bytes: CSIGWideLen, Fields: []Field{
		num("csig.lm", 0, 15, "locator of the hop that wrote it"),
		num("csig.d", 15, 1, "trimmed: later hops leave the signal"),
		enum("csig.t", 16, 4, "CSIGType", "what is signalled"),
		num("csig.s", 20, 20, "signal, quantised"),
		reserved("csig.r", 40, 8),
		enum("csig.type", 48, 16, "EtherType", "what follows the tag"),
	}}
)

// csigTable gives the table of a packet's tag and the bytes that it describes, with the type of what follows.
func (p *Packet) csigTable() (*HeaderTable, []byte) {
	t := tabCSIG
	if p.CSIG.Wide() {
		t = tabCSIGWide
	}
	return t, p.Frame[EthLen : EthLen+len(p.CSIG)]
}
