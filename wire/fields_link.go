package wire

import "strconv"

// Tables of what is the link's alone: trailer, ordered sets, CC_Update, LLDP (uet-link-switch 2.2, 3.4, 3.5, 4).

var tabTrailer = &HeaderTable{Name: "link trailer", Layer: "trailer", Bytes: TrailerLen, Fields: []Field{
	num("trailer.magic", 0, 32, "0x55454c31, UEL1"),
	{Name: "trailer.due", Off: 32, Bits: 64, Signed: true, Doc: "virtual ns at which the last bit has arrived"},
	num("trailer.llr", 96, 32, "LLR word"),
	enum("trailer.llr_kind", 96, 4, "LLRKind", "LLR-eligible or not; NO_FCS: plain, without FCS"),
	num("trailer.llr_flags", 100, 8, "flags of the LLR word"),
	num("trailer.llr_seq", 108, 20, "LLR sequence number"),
	num("trailer.crc", 128, 32, "CRC-32C of the 16 bytes before"),
	little("trailer.fcs", 160, 32, "CRC-32 of the frame before the trailer; 0 with NO_FCS"),
}}

// ctlosFields are lane 0, type and O-code, which all ordered sets have.
func ctlosFields(rest ...Field) []Field {
	return join([]Field{
		num("ctlos.lane0", 0, 8, "0x5c"),
		enum("ctlos.type", 8, 8, "CtlOSType", "kind of ordered set"),
	}, rest, []Field{num("ctlos.ocode", 36, 4, "6")})
}

// tabCtlOS is what an ordered set of unknown type shows.
var tabCtlOS = &HeaderTable{Name: "ordered set", Layer: "ctlos", Bytes: CtlOSLen, Fields: ctlosFields()}

var tabLLRSeq = &HeaderTable{Name: "LLR_ACK/NACK", Layer: "ctlos", Codes: []uint64{0x01, 0x02}, Bytes: CtlOSLen,
	Fields: ctlosFields(num("ctlos.seq", 16, 20, "LLR sequence number"))}

var tabLLRInit = &HeaderTable{Name: "LLR_INIT/INIT_ECHO", Layer: "ctlos", Codes: []uint64{0x03, 0x04}, Bytes: CtlOSLen,
	Fields: ctlosFields(
		num("ctlos.init_seq", 16, 20, "number of the next eligible frame"),
		little("ctlos.init_data", 40, 16, "nonce, which the echo returns"),
		reserved("ctlos.reserved", 56, 8),
	)}

var tabCFUpdate = &HeaderTable{Name: "CF_Update", Layer: "ctlos", Codes: []uint64{0x10}, Bytes: CtlOSLen, Fields: ctlosFields(
	num("ctlos.vc1", 16, 5, "virtual channel"),
	num("ctlos.count1", 21, 15, "low 15 bits of the credits freed"),
	num("ctlos.vc2", 40, 5, "virtual channel"),
	num("ctlos.count2", 45, 15, "low 15 bits of the credits freed"),
	reserved("ctlos.reserved", 60, 4),
)}

var tabCCUpdate = func() *HeaderTable {
	t := &HeaderTable{Name: "CC_Update", Layer: "mac_control", Codes: []uint64{0xFFFE}, Bytes: CCUpdateLen, Fields: []Field{
		num("mac.opcode", 0, 16, "0xfffe, MAC control extension"),
		num("cc.cid", 16, 24, "company ID, fa-7a-cb for UEC"),
		num("cc.type", 40, 8, "1 = VC 0..15, 2 = VC 16..31"),
	}}
	for i := range 16 {
		t.Fields = append(t.Fields, num("cc.count"+strconv.Itoa(i), 48+20*i, 20, "credits consumed, 20 bits"))
	}
	return t
}()

func tlvFields(rest ...Field) []Field {
	return join([]Field{
		enum("lldp.type", 0, 7, "LLDPType", "kind of TLV"),
		num("lldp.length", 7, 9, "octets behind the two of the TLV header"),
	}, rest)
}

// ueFields are the fields of an organisationally specific TLV up to its subtype.
func ueFields(rest ...Field) []Field {
	return tlvFields(join([]Field{
		num("lldp.oui", 16, 24, "organisation, fa-7a-cb for UEC"),
		num("lldp.subtype", 40, 8, "the organisation's number of the TLV"),
	}, rest)...)
}

var (
	tabLLDPTLV = &HeaderTable{Name: "LLDP TLV", Layer: "lldp", Bytes: 2,
		Fields: tlvFields(octets("lldp.value", 16, 0, "contents"))}
	tabLLDPChassis = &HeaderTable{Name: "Chassis ID", Layer: "lldp", Codes: []uint64{1}, Bytes: 3, Fields: tlvFields(
		num("lldp.chassis_subtype", 16, 8, "4 = MAC address, 7 = locally assigned"),
		octets("lldp.chassis", 24, 0, "chassis ID"))}
	tabLLDPPort = &HeaderTable{Name: "Port ID", Layer: "lldp", Codes: []uint64{2}, Bytes: 3, Fields: tlvFields(
		num("lldp.port_subtype", 16, 8, "3 = MAC address, 5 = interface name, 7 = locally assigned"),
		octets("lldp.port", 24, 0, "port ID"))}
	tabLLDPTTL = &HeaderTable{Name: "Time To Live", Layer: "lldp", Codes: []uint64{3}, Bytes: 4, Fields: tlvFields(
		num("lldp.ttl", 16, 16, "seconds the information holds, 0 = forget it"))}
	tabLLDPOrg = &HeaderTable{Name: "organisationally specific TLV", Layer: "lldp", Codes: []uint64{127}, Bytes: 6,
		Fields: ueFields(octets("lldp.value", 48, 0, "contents"))}
)

var tabUEOptions = &HeaderTable{Name: "UE link options", Layer: "lldp_ue", Codes: []uint64{1}, Bytes: 14, Fields: ueFields(
	enum("lldp.llr_wanted", 48, 2, "LinkWish", "LLR wanted"),
	enum("lldp.llr_enabled", 50, 2, "LinkWish", "LLR enabled"),
	enum("lldp.cbfc_wanted", 52, 2, "LinkWish", "CBFC wanted"),
	enum("lldp.cbfc_enabled", 54, 2, "LinkWish", "CBFC enabled"),
	num("lldp.spec_version", 56, 8, "0x13 = 1.0.3"),
	num("lldp.echo", 64, 8, "answers the neighbour's boot ID and life"),
	num("lldp.life", 72, 6, "changes when the sender has given up credits"),
	flags("lldp.lab_flags", 78, 2, "LabFlags", "what the lab needs to know"),
	num("lldp.boot_id", 80, 32, "changes when the node starts again"),
)}

var tabUECBFC = &HeaderTable{Name: "UE CBFC receiver", Layer: "lldp_ue", Codes: []uint64{2}, Bytes: 19, Fields: ueFields(
	num("lldp.credit_size", 48, 16, "octets a credit stands for"),
	signed("lldp.pkt_ovhd", 64, 8, "octets added to each packet"),
	enum("lldp.method", 72, 8, "CBFCMethod", "how credits are limited"),
	num("lldp.total", 80, 32, "credits in all"),
	num("lldp.num_vc", 112, 8, "entries that follow"),
	num("lldp.lossless", 120, 32, "bit i: VC i is lossless"),
)}

var tabUECBFCVC = &HeaderTable{Name: "UE CBFC VC", Layer: "lldp_vc", Bytes: 7, Fields: []Field{
	num("vc.index", 0, 8, "virtual channel"),
	num("vc.limit", 8, 24, "credits"),
	enum("vc.map_kind", 32, 8, "VCMap", "what selects the channel"),
	num("vc.value", 40, 8, "value to match"),
	num("vc.mask", 48, 8, "bits that count"),
}}
