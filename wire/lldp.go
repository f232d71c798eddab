package wire

// LLDPAddr is the destination of LLDP frames: the nearest bridge.
var LLDPAddr = MAC{0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E}

// LLDPType is the 7-bit kind of an LLDP TLV (IEEE 802.1AB).
type LLDPType uint8

// Kinds of LLDP TLVs that uetlab reads or writes.
const (
	LLDPEnd        LLDPType = 0
	LLDPChassis    LLDPType = 1
	LLDPPort       LLDPType = 2
	LLDPTTL        LLDPType = 3
	LLDPPortDesc   LLDPType = 4
	LLDPSysName    LLDPType = 5
	LLDPSysDesc    LLDPType = 6
	LLDPSysCap     LLDPType = 7
	LLDPManagement LLDPType = 8
	LLDPOrg        LLDPType = 127
)

var lldpNames = []string{0: "End", 1: "Chassis ID", 2: "Port ID", 3: "Time To Live", 4: "Port Description",
	5: "System Name", 6: "System Description", 7: "System Capabilities", 8: "Management Address", 127: "Organizationally Specific"}

// String returns the standard's name.
func (t LLDPType) String() string { return name(lldpNames, uint8(t)) }

// Subtypes of chassis and port IDs.
const (
	LLDPChassisMAC   = 4
	LLDPChassisLocal = 7
	LLDPPortMAC      = 3
	LLDPPortIfName   = 5
	LLDPPortLocal    = 7
)

// TLV is a view of one LLDP TLV, its two header bytes included.
type TLV []byte

var (
	errTLVShort    = fieldErr("LLDP TLV", "length", "shorter than 2 bytes")
	errTLVLen      = fieldErr("LLDP TLV", "length", "beyond the frame")
	errTLVTooSmall = fieldErr("LLDP TLV", "length", "too small for this type")
	errLLDPOrder   = fieldErr("LLDP TLV", "type", "chassis ID, port ID and TTL do not come first")
	errLLDPAgain   = fieldErr("LLDP TLV", "type", "chassis ID, port ID or TTL comes twice")
	errLLDPNoEnd   = fieldErr("LLDP", "length", "ends without an End TLV")
)

// ParseTLV returns the TLV at the start of b; b[len(t):] is what follows.
func ParseTLV(b []byte) (TLV, error) {
	if len(b) < 2 {
		return nil, errTLVShort
	}
	n := 2 + int(u16(b, 0)&0x1FF)
	if n > len(b) {
		return nil, errTLVLen
	}
	return TLV(b[:n:n]), nil
}

// Validate checks that the TLV is long enough for its type.
func (t TLV) Validate() error {
	least := 0
	switch t.Type() {
	case LLDPChassis, LLDPPort, LLDPTTL:
		least = 2
	case LLDPOrg:
		least = 4
	}
	return check(len(t.Value()) < least, errTLVTooSmall)
}

// Type returns the kind of TLV.
func (t TLV) Type() LLDPType { return LLDPType(t[0] >> 1) }

// Value returns what is behind the two header bytes.
func (t TLV) Value() []byte { return t[2:] }

// Subtype returns the subtype of a chassis or port ID, or of an organisationally specific TLV; 0 if there is none.
func (t TLV) Subtype() uint8 {
	v := t.Value()
	switch k := t.Type(); {
	case (k == LLDPChassis || k == LLDPPort) && len(v) > 0:
		return v[0]
	case k == LLDPOrg && len(v) > 3:
		return v[3]
	}
	return 0
}

// ID returns a chassis or port ID without its subtype, nil for other types.
func (t TLV) ID() []byte {
	if k := t.Type(); k != LLDPChassis && k != LLDPPort || len(t) < 3 {
		return nil
	}
	return t[3:]
}

// TTL returns the seconds of a TTL TLV, 0 for other types.
func (t TLV) TTL() uint16 {
	if t.Type() != LLDPTTL || len(t) < 4 {
		return 0
	}
	return u16(t, 2)
}

// OUI returns the organisation of an organisationally specific TLV, 0 for other types.
func (t TLV) OUI() uint32 {
	if t.Type() != LLDPOrg || len(t) < 6 {
		return 0
	}
	return u24(t, 2)
}

// ParseLLDP takes an LLDP data unit apart, up to its End TLV; padding falls off. The list holds the TLVs before what is
// wrong, if something is; TLVs of unknown types are in it.
func ParseLLDP(b []byte) (list []TLV, err error) {
	for len(b) > 0 {
		t, err := ParseTLV(b)
		if err != nil {
			return list, err
		}
		if err := t.Validate(); err != nil {
			return list, err
		}
		must := len(list) < 3
		if is := t.Type() >= LLDPChassis && t.Type() <= LLDPTTL; must && int(t.Type()) != len(list)+1 {
			return list, errLLDPOrder
		} else if is && !must {
			return list, errLLDPAgain
		}
		list = append(list, t)
		if t.Type() == LLDPEnd {
			return list, nil
		}
		b = b[len(t):]
	}
	return list, errLLDPNoEnd
}

// AppendTLV writes a TLV; only the first 511 bytes of value have room.
func AppendTLV(dst []byte, t LLDPType, value []byte) []byte {
	value = value[:min(len(value), 0x1FF)]
	dst = append(dst, byte(t)<<1|byte(len(value)>>8), byte(len(value)))
	return append(dst, value...)
}

// LLDPFields describes the beginning of an LLDP frame.
type LLDPFields struct {
	Src            MAC
	ChassisSubtype uint8
	Chassis        []byte // up to 255 bytes
	PortSubtype    uint8
	Port           []byte // up to 255 bytes
	TTL            uint16 // seconds
}

// AppendLLDP writes Ethernet header, chassis ID, port ID and TTL; further TLVs and AppendLLDPEnd go behind it.
func AppendLLDP(dst []byte, f *LLDPFields) []byte {
	dst = AppendEth(dst, LLDPAddr, f.Src, EtherLLDP)
	id := func(t LLDPType, sub uint8, id []byte) {
		id = id[:min(len(id), 255)]
		n := len(id) + 1
		dst = append(append(dst, byte(t)<<1|byte(n>>8), byte(n), sub), id...)
	}
	id(LLDPChassis, f.ChassisSubtype, f.Chassis)
	id(LLDPPort, f.PortSubtype, f.Port)
	return append(dst, byte(LLDPTTL)<<1, 2, byte(f.TTL>>8), byte(f.TTL))
}

// AppendLLDPEnd closes an LLDP data unit.
func AppendLLDPEnd(dst []byte) []byte { return append(dst, 0, 0) }
