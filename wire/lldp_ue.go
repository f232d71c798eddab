package wire

// The two TLVs of the UEC (uet-link-switch 4). Their octets are not public: this is the lab's layout, and this file alone
// knows it.

// Subtypes of the UEC's TLVs.
const (
	UESubtypeOptions = 1
	UESubtypeCBFC    = 2
)

// UESpecVersion is spec version 1.0.3 as UEOptions carries it.
const UESpecVersion = 0x13

// Lab flags of link options, 2 bits.
const (
	// LabTrailer says that a port understands link trailers; without it LLR and CBFC stay off.
	LabTrailer = 0x1
	// LabCBFCReady says that the port's CBFC receiver has cleared its counts and is on.
	LabCBFCReady = 0x2
)

// MaxLife is the highest life of a port, after which comes 0.
const MaxLife = 1<<6 - 1

// UEEcho is what a port answers a neighbour of this boot ID in this life. It is another one after the next start or in the
// next life.
func UEEcho(boot uint32, life uint8) uint8 { return uint8((boot + uint32(life)) * 0x9E3779B1 >> 24) }

// LinkWish is a 2-bit wish for LLR or CBFC. 1 and 2 are reserved and count as no.
type LinkWish uint8

// Wishes.
const (
	WishNo   LinkWish = 0
	WishBoth LinkWish = 3
)

var wishNames = []string{0: "NO", 3: "BIDIRECTIONAL"}

// String returns the standard's name.
func (w LinkWish) String() string { return name(wishNames, uint8(w)) }

// CBFCMethod says how a receiver limits credits.
type CBFCMethod uint8

// Methods of CBFC.
const (
	CBFCTotal CBFCMethod = 0
	CBFCPerVC CBFCMethod = 1
)

var methodNames = []string{"TOTAL", "PER_VC"}

// String returns the name.
func (m CBFCMethod) String() string { return name(methodNames, uint8(m)) }

// VCMap says what selects a virtual channel.
type VCMap uint8

// Selectors of a virtual channel.
const (
	VCMapDSCP VCMap = 0
	VCMapPCP  VCMap = 1
)

var vcMapNames = []string{"DSCP", "PCP"}

// String returns the name.
func (m VCMap) String() string { return name(vcMapNames, uint8(m)) }

// UEOptions is a view of the link options TLV, 14 bytes.
type UEOptions []byte

// UECBFC is a view of the CBFC receiver TLV, 19 bytes and 7 for each virtual channel.
type UECBFC []byte

const (
	ueOptionsLen = 14
	ueCBFCLen    = 19
	ueVCLen      = 7
	// MaxCBFCVCs is how many virtual channels there are.
	MaxCBFCVCs = 32
)

var (
	errUEKind     = fieldErr("UE TLV", "subtype", "is another TLV's")
	errUEOptShort = fieldErr("UE link options", "length", "shorter than its 12 bytes")
	errUEOptWish  = fieldErr("UE link options", "llr_wanted", "is reserved")
	errUEOptCBFC  = fieldErr("UE link options", "cbfc_wanted", "is reserved")
	errCBFCShort  = fieldErr("UE CBFC receiver", "length", "does not fit num_vc")
	errCBFCNum    = fieldErr("UE CBFC receiver", "num_vc", "is above 32")
	errCBFCSize   = fieldErr("UE CBFC receiver", "credit_size", "is 0")
	errCBFCMethod = fieldErr("UE CBFC receiver", "method", "is reserved")
	errCBFCVC     = fieldErr("UE CBFC VC", "index", "is above 31")
	errCBFCMap    = fieldErr("UE CBFC VC", "map_kind", "is reserved")
)

func isUE(t TLV, subtype uint8) bool { return t.OUI() == UECID && t.Subtype() == subtype }

// ParseUEOptions returns t as link options; longer TLVs are of a later version and are read as far as known.
func ParseUEOptions(t TLV) (UEOptions, error) {
	if len(t) < 2 || !isUE(t, UESubtypeOptions) {
		return nil, errUEKind
	}
	if len(t) < ueOptionsLen {
		return nil, errUEOptShort
	}
	return UEOptions(t), nil
}

// Validate reports reserved wishes, which a receiver counts as no.
func (o UEOptions) Validate() error {
	reserved := func(w LinkWish) bool { return w == 1 || w == 2 }
	switch {
	case reserved(o.LLRWanted()):
		return errUEOptWish
	case reserved(o.CBFCWanted()):
		return errUEOptCBFC
	}
	return nil
}

// LLRWanted returns the sender's wish for LLR.
func (o UEOptions) LLRWanted() LinkWish { return LinkWish(o[6] >> 6) }

// LLREnabled returns what the sender has enabled of LLR.
func (o UEOptions) LLREnabled() LinkWish { return LinkWish(o[6] >> 4 & 3) }

// CBFCWanted returns the sender's wish for CBFC.
func (o UEOptions) CBFCWanted() LinkWish { return LinkWish(o[6] >> 2 & 3) }

// CBFCEnabled returns what the sender has enabled of CBFC.
func (o UEOptions) CBFCEnabled() LinkWish { return LinkWish(o[6] & 3) }

// SpecVersion returns the version of the standard, 0x13 for 1.0.3.
func (o UEOptions) SpecVersion() uint8 { return o[7] }

// Echo returns UEEcho of the neighbour as the sender knows it, whom the sender's enabled flags and LabCBFCReady are meant for.
func (o UEOptions) Echo() uint8 { return o[8] }

// Life returns a number of 6 bits that changes when the sender has given up credits that were agreed on.
func (o UEOptions) Life() uint8 { return o[9] >> 2 }

// LabFlags returns the lab's own flags.
func (o UEOptions) LabFlags() uint8 { return o[9] & 3 }

// BootID returns a number that changes when the sender starts again.
func (o UEOptions) BootID() uint32 { return u32(o, 10) }

// UEOptionsFields describes link options.
type UEOptionsFields struct {
	LLRWanted, LLREnabled, CBFCWanted, CBFCEnabled LinkWish
	SpecVersion                                    uint8
	Echo, Life, LabFlags                           uint8
	BootID                                         uint32
}

// Fields returns what the TLV says, copied.
func (o UEOptions) Fields() UEOptionsFields {
	return UEOptionsFields{LLRWanted: o.LLRWanted(), LLREnabled: o.LLREnabled(), CBFCWanted: o.CBFCWanted(), CBFCEnabled: o.CBFCEnabled(),
		SpecVersion: o.SpecVersion(), Echo: o.Echo(), Life: o.Life(), LabFlags: o.LabFlags(), BootID: o.BootID()}
}

func appendUEHead(dst []byte, length int, subtype uint8) []byte {
	return append(dst, byte(LLDPOrg)<<1|byte((length-2)>>8), byte(length-2), UECID>>16, UECID>>8&0xFF, UECID&0xFF, subtype)
}

// AppendUEOptions writes the link options TLV.
func AppendUEOptions(dst []byte, f *UEOptionsFields) []byte {
	dst = appendUEHead(dst, ueOptionsLen, UESubtypeOptions)
	dst, b := grow(dst, 8)
	b[0] = byte(f.LLRWanted&3)<<6 | byte(f.LLREnabled&3)<<4 | byte(f.CBFCWanted&3)<<2 | byte(f.CBFCEnabled&3)
	b[1] = f.SpecVersion
	b[2], b[3] = f.Echo, f.Life<<2|f.LabFlags&3
	put32(b, 4, f.BootID)
	return dst
}

// ParseUECBFC returns t as a CBFC receiver TLV; all its virtual channels are there.
func ParseUECBFC(t TLV) (UECBFC, error) {
	if len(t) < 2 || !isUE(t, UESubtypeCBFC) {
		return nil, errUEKind
	}
	if len(t) < ueCBFCLen {
		return nil, errCBFCShort
	}
	c := UECBFC(t)
	if c.NumVC() > MaxCBFCVCs {
		return nil, errCBFCNum
	}
	if len(t) < ueCBFCLen+c.NumVC()*ueVCLen {
		return nil, errCBFCShort
	}
	return c, nil
}

// Validate checks the contents.
func (c UECBFC) Validate() error {
	switch {
	case c.CreditSize() == 0:
		return errCBFCSize
	case c.Method() > CBFCPerVC:
		return errCBFCMethod
	}
	for i := range c.NumVC() {
		if err := c.VC(i).Validate(); err != nil {
			return err
		}
	}
	return nil
}

// CreditSize returns the octets a credit stands for.
func (c UECBFC) CreditSize() uint16 { return u16(c, 6) }

// PktOvhd returns the octets that the receiver adds to each packet before it counts credits.
func (c UECBFC) PktOvhd() int8 { return int8(c[8]) }

// Method returns how credits are limited.
func (c UECBFC) Method() CBFCMethod { return CBFCMethod(c[9]) }

// Total returns the credits in all.
func (c UECBFC) Total() uint32 { return u32(c, 10) }

// NumVC returns how many channels are listed.
func (c UECBFC) NumVC() int { return int(c[14]) }

// Lossless returns the bitmap of lossless channels.
func (c UECBFC) Lossless() uint32 { return u32(c, 15) }

// CBFCVC is one virtual channel of a receiver.
type CBFCVC struct {
	Index uint8
	Limit uint32 // credits, 24 bits
	Map   VCMap
	Value uint8 // the packet belongs here if its DSCP or PCP & Mask == Value
	Mask  uint8
}

// Validate checks the contents.
func (v CBFCVC) Validate() error {
	if v.Index >= MaxCBFCVCs {
		return errCBFCVC
	}
	return check(v.Map > VCMapPCP, errCBFCMap)
}

// VC returns the i-th channel listed.
func (c UECBFC) VC(i int) CBFCVC {
	b := c.vc(i)
	return CBFCVC{Index: b[0], Limit: u24(b, 1), Map: VCMap(b[4]), Value: b[5], Mask: b[6]}
}

func (c UECBFC) vc(i int) []byte {
	off := ueCBFCLen + i*ueVCLen
	return c[off : off+ueVCLen : off+ueVCLen]
}

// UECBFCFields describes a CBFC receiver.
type UECBFCFields struct {
	CreditSize uint16
	PktOvhd    int8
	Method     CBFCMethod
	Total      uint32
	Lossless   uint32
	VCs        []CBFCVC // up to 32
}

// Fields returns what the TLV says, copied.
func (c UECBFC) Fields() UECBFCFields {
	f := UECBFCFields{CreditSize: c.CreditSize(), PktOvhd: c.PktOvhd(), Method: c.Method(), Total: c.Total(), Lossless: c.Lossless()}
	for i := range c.NumVC() {
		f.VCs = append(f.VCs, c.VC(i))
	}
	return f
}

// AppendUECBFC writes the CBFC receiver TLV.
func AppendUECBFC(dst []byte, f *UECBFCFields) []byte {
	vcs := f.VCs[:min(len(f.VCs), MaxCBFCVCs)]
	dst = appendUEHead(dst, ueCBFCLen+len(vcs)*ueVCLen, UESubtypeCBFC)
	dst, b := grow(dst, ueCBFCLen-6)
	put16(b, 0, f.CreditSize)
	b[2], b[3], b[8] = byte(f.PktOvhd), byte(f.Method), byte(len(vcs))
	put32(b, 4, f.Total)
	put32(b, 9, f.Lossless)
	for _, v := range vcs {
		dst = append(dst, v.Index, byte(v.Limit>>16), byte(v.Limit>>8), byte(v.Limit), byte(v.Map), v.Value, v.Mask)
	}
	return dst
}
