package wire

// prologueLen is the size of the prologue, with which every PDS header begins (uet-wire 2.1): type 5 bits, next_hdr or
// ctl_type 4, flags 7.
const prologueLen = 2

// Prologue is a view of the first two bytes of a PDS header.
type Prologue []byte

// ParsePrologue returns the two bytes. For a TSS header only Type means something.
func ParsePrologue(b []byte) (Prologue, error) {
	if len(b) < prologueLen {
		return nil, errUETEmpty
	}
	return Prologue(b[:prologueLen:prologueLen]), nil
}

// Type returns the PDS type.
func (p Prologue) Type() PDSType { return PDSType(p[0] >> 3) }

// Next returns next_hdr; in a control packet the place holds ctl_type.
func (p Prologue) Next() NextHdr { return NextHdr(p.nibble()) }

// Flags returns the seven flag bits, whose meaning hangs on the type.
func (p Prologue) Flags() uint8 { return p[1] & 0x7F }

func (p Prologue) nibble() uint8 { return p[0]&7<<1 | p[1]>>7 }

func putPrologue(b []byte, t PDSType, nibble, flags uint8) {
	put16(b, 0, uint16(t)<<11|uint16(nibble&15)<<7|uint16(flags&0x7F))
}

func setFlag(b []byte, mask uint8, on bool) { b[1] = b[1]&^mask | bit(on, mask) }

// Bits of the word that takes the place of dpdcid while SYN is set (uet-wire 3). R puts use_rsv_pdc at 0x1000.
const (
	useRsvPDC     = 0x8000
	psnOffsetMask = 0x0FFF
)

// MaxSYNOffset is the largest psn_offset: at most 4096 PSNs are sent while a PDC opens (uet-wire 3.1).
const MaxSYNOffset = psnOffsetMask

func synWord(rsv bool, offset uint16) uint16 {
	w := offset & psnOffsetMask
	if rsv {
		w |= useRsvPDC
	}
	return w
}
