package wire

// Tables of the encapsulation and of the PDS headers (uet-wire 1 to 7, 13, 14).

var tabEth = &HeaderTable{Name: "Ethernet", Layer: "eth", Bytes: EthLen, Fields: []Field{
	{Name: "eth.dst", Off: 0, Bits: 48, Kind: KindMAC, Doc: "destination address"},
	{Name: "eth.src", Off: 48, Bits: 48, Kind: KindMAC, Doc: "source address"},
	enum("eth.type", 96, 16, "EtherType", "what follows"),
}}

var tabVLAN = &HeaderTable{Name: "802.1Q tag", Layer: "vlan", Codes: []uint64{uint64(EtherVLAN), uint64(EtherQinQ)},
	Bytes: VLANLen, Fields: []Field{
		num("vlan.pcp", 0, 3, "priority code point"),
		num("vlan.dei", 3, 1, "drop eligible"),
		num("vlan.vid", 4, 12, "VLAN id"),
		enum("vlan.type", 16, 16, "EtherType", "what follows the tag"),
	}}

var tabIPv4 = &HeaderTable{Name: "IPv4", Layer: "ip", Codes: []uint64{uint64(EtherIPv4)}, Bytes: IPv4Len, Fields: []Field{
	num("ip.version", 0, 4, "4"),
	num("ip.ihl", 4, 4, "header length in 32-bit words"),
	num("ip.dscp", 8, 6, "code point"),
	enum("ip.ecn", 14, 2, "ECN", "congestion notification"),
	num("ip.total_length", 16, 16, "bytes of header and payload"),
	num("ip.id", 32, 16, "identification, 0 in UET"),
	num("ip.fragment", 48, 16, "flags (0x4000 DF, 0x2000 MF) and offset in 8-byte units"),
	num("ip.ttl", 64, 8, "time to live"),
	num("ip.proto", 72, 8, "protocol of the payload"),
	num("ip.checksum", 80, 16, "header checksum"),
	{Name: "ip.src", Off: 96, Bits: 32, Kind: KindIP, Doc: "source address"},
	{Name: "ip.dst", Off: 128, Bits: 32, Kind: KindIP, Doc: "destination address"},
}}

var tabIPv6 = &HeaderTable{Name: "IPv6", Layer: "ip", Codes: []uint64{uint64(EtherIPv6)}, Bytes: IPv6Len, Fields: []Field{
	num("ip.version", 0, 4, "6"),
	num("ip.dscp", 4, 6, "code point"),
	enum("ip.ecn", 10, 2, "ECN", "congestion notification"),
	num("ip.flow_label", 12, 20, "flow label"),
	num("ip.payload_length", 32, 16, "bytes behind the header"),
	num("ip.proto", 48, 8, "next header"),
	num("ip.ttl", 56, 8, "hop limit"),
	{Name: "ip.src", Off: 64, Bits: 128, Kind: KindIP, Doc: "source address"},
	{Name: "ip.dst", Off: 192, Bits: 128, Kind: KindIP, Doc: "destination address"},
}}

var tabUDP = &HeaderTable{Name: "UDP", Layer: "udp", Codes: []uint64{ProtoUDP}, Bytes: UDPLen, Fields: []Field{
	num("udp.src_port", 0, 16, "source port"),
	num("udp.dst_port", 16, 16, "destination port, 4793 for UET"),
	num("udp.length", 32, 16, "bytes of header and payload as sent; trimming leaves it"),
	num("udp.checksum", 48, 16, "0 in UET"),
	num("ev", 0, 16, "entropy value").when(isIn(16, 16, UDPPort)),
}}

var tabEntropy = &HeaderTable{Name: "entropy", Layer: "entropy", Bytes: EntropyLen, Fields: []Field{
	num("ev", 0, 16, "entropy value"),
	reserved("entropy.reserved", 16, 16),
}}

// tabTSS: the SSI pushes the rest back by 4 bytes.
var tabTSS = &HeaderTable{Name: "TSS", Layer: "tss", Codes: []uint64{uint64(TypeTSS)}, Bytes: 12, Fields: []Field{
	enum("tss.type", 0, 5, "PDSType", "1"),
	num("tss.sp", 5, 1, "SSI present"),
	reserved("tss.reserved", 6, 1),
	num("tss.an", 7, 1, "association number, picks one of two keys"),
	num("tss.sdi", 8, 24, "secure domain id"),
	num("tss.ssi", 32, 32, "secure source id").when(tssSPSet),
	num("tss.epoch", 32, 16, "upper 16 bits of the time stamp counter").when(tssSPClear),
	num("tss.counter", 48, 48, "lower 48 bits of the time stamp counter").when(tssSPClear),
	num("tss.epoch", 64, 16, "upper 16 bits of the time stamp counter").when(tssSPSet),
	num("tss.counter", 80, 48, "lower 48 bits of the time stamp counter").when(tssSPSet),
}}

var tssSPSet, tssSPClear = isIn(5, 1, 1), isIn(5, 1, 0)

func prologueFields(flagSet string) []Field {
	return []Field{
		enum("pds.type", 0, 5, "PDSType", "PDS type"),
		enum("pds.next_hdr", 5, 4, "NextHdr", "SES header that follows"),
		flags("pds.flags", 9, 7, flagSet, "flags, by type"),
	}
}

var tabPrologue = &HeaderTable{Name: "PDS prologue", Layer: "prologue", Bytes: prologueLen, Fields: prologueFields("")}

// dpdcidFields are dpdcid and what stands in its place with SYN (bit 13 of a Request and a CP alike).
func dpdcidFields() []Field {
	syn, noSYN := isIn(13, 1, 1), isIn(13, 1, 0)
	return []Field{
		num("pds.dpdcid", 80, 16, "receiver's PDC id").when(noSYN),
		num("pds.use_rsv_pdc", 80, 1, "take the PDC from the reserved pool").when(syn),
		reserved("pds.pdc_info", 81, 3).when(syn),
		num("pds.psn_offset", 84, 12, "Start_PSN = psn - psn_offset").when(syn),
	}
}

var requestFields = join(prologueFields("RequestFlags"), []Field{
	signed("pds.clear_psn_offset", 16, 16, "CLEAR_PSN = psn + offset"),
	num("pds.psn", 32, 32, "packet sequence number"),
	num("pds.spdcid", 64, 16, "sender's PDC id"),
}, dpdcidFields())

var tabRequest = &HeaderTable{Name: "RUD/ROD_REQ", Layer: "pds", Codes: []uint64{uint64(TypeRUDReq), uint64(TypeRODReq)},
	Bytes: 12, Fields: requestFields}

var tabRequestCC = &HeaderTable{Name: "RUD/ROD_CC_REQ", Layer: "pds",
	Codes: []uint64{uint64(TypeRUDCCReq), uint64(TypeRODCCReq)}, Bytes: 16, Fields: join(requestFields, []Field{
		num("pds.ccc_id", 96, 8, "source's congestion control context"),
		num("pds.credit_target", 104, 24, "credit wanted, 256-byte units"),
	})}

var ackFields = join(prologueFields("AckFlags"), []Field{
	signed("pds.ack_psn_offset", 16, 16, "ACK_PSN = cack_psn + offset").when(isIn(12, 1, 0)),
	num("pds.probe_opaque", 16, 16, "copied from the Probe").when(isIn(12, 1, 1)),
	num("pds.cack_psn", 32, 32, "all PSNs up to it are received and cleared"),
	num("pds.spdcid", 64, 16, "PDC id of the ACK's sender"),
	num("pds.dpdcid", 80, 16, "PDC id of the ACK's receiver"),
})

var ackCCFields = join(ackFields, []Field{
	enum("pds.cc_type", 96, 4, "CCType", "format of ack_cc_state"),
	num("pds.cc_flags", 100, 4, "reserved"),
	num("pds.mpr", 104, 8, "MP_Range in units of 128 PSNs"),
	signed("pds.sack_psn_offset", 112, 16, "SACK base = cack_psn + offset"),
	num("pds.sack_bitmap", 128, 64, "bit i (0 = least significant): base + i is received"),
	num("pds.service_time", 192, 16, "128 ns units from arrival to ACK").when(ccNSCC),
	num("pds.rc", 208, 1, "restore cwnd").when(ccNSCC),
	num("pds.rcv_cwnd_pend", 209, 7, "receiver penalty").when(ccNSCC),
	num("pds.rcvd_bytes", 216, 24, "cumulative, 256-byte units").when(ccNSCC),
	num("pds.credit", 192, 24, "cumulative credit, 256-byte units").when(ccCredit),
	reserved("pds.reserved", 216, 24).when(ccCredit),
	num("pds.ooo_count", 240, 16, "packets out of order, 0xFFFF = not computed").when(isIn(96, 4, 0, 1)),
	num("pds.ack_cc_state", 192, 64, "by cc_type").when(notIn(96, 4, 0, 1)),
})

var ccNSCC, ccCredit = isIn(96, 4, uint64(CCTypeNSCC)), isIn(96, 4, uint64(CCTypeCredit))

var (
	tabAck   = &HeaderTable{Name: "ACK", Layer: "pds", Codes: []uint64{uint64(TypeAck)}, Bytes: 12, Fields: ackFields}
	tabAckCC = &HeaderTable{Name: "ACK_CC", Layer: "pds", Codes: []uint64{uint64(TypeAckCC)}, Bytes: 32,
		Fields: ackCCFields}
	tabAckCCX = &HeaderTable{Name: "ACK_CCX", Layer: "pds", Codes: []uint64{uint64(TypeAckCCX)}, Bytes: 40,
		Fields: join(ackCCFields, []Field{num("pds.ack_ccx_state", 256, 64, "by ccx_type")})}
)

var nackFields = join(prologueFields("NackFlags"), []Field{
	enum("pds.nack_code", 16, 8, "NackCode", "why the packet was refused"),
	num("pds.vendor_code", 24, 8, "0 if unused"),
	num("pds.nack_psn", 32, 32, "PSN refused").when(isIn(12, 1, 0)),
	num("pds.nack_pkt_id", 32, 32, "RUDI packet refused").when(isIn(12, 1, 1)),
	num("pds.spdcid", 64, 16, "PDC id of the NACK's sender, 0 if it has none"),
	num("pds.dpdcid", 80, 16, "PDC id of the NACK's receiver"),
	num("pds.payload", 96, 32, "by nack_code"),
})

var (
	tabNack = &HeaderTable{Name: "NACK", Layer: "pds", Codes: []uint64{uint64(TypeNack)}, Bytes: 16, Fields: nackFields}

	tabNackCCX = &HeaderTable{Name: "NACK_CCX", Layer: "pds", Codes: []uint64{uint64(TypeNackCCX)}, Bytes: 32,
		Fields: join(nackFields, []Field{
			num("pds.nccx_type", 128, 4, "14 and 15 are proprietary"),
			num("pds.nack_ccx_state1", 132, 60, "by nccx_type"),
			num("pds.nack_ccx_state2", 192, 64, "by nccx_type"),
		})}
)

var ctlNeg, ctlNotNeg = isIn(5, 4, uint64(CtlNegotiation)), notIn(5, 4, uint64(CtlNegotiation))

// tabCtrl: what is behind the 12 bytes hangs on ctl_type; NOOP and CLOSE may come without.
var tabCtrl = &HeaderTable{Name: "CTRL", Layer: "pds", Codes: []uint64{uint64(TypeCtrl)}, Bytes: 12, Fields: join([]Field{
	enum("pds.type", 0, 5, "PDSType", "PDS type"),
	enum("pds.ctl_type", 5, 4, "CtlType", "kind of control packet"),
	flags("pds.flags", 9, 7, "CtrlFlags", "flags"),
	num("pds.probe_opaque", 16, 16, "echoed in the ACK of a PROBE"),
	num("pds.psn", 32, 32, "packet sequence number"),
	num("pds.spdcid", 64, 16, "sender's PDC id"),
}, dpdcidFields(), []Field{
	num("pds.payload", 96, 32, "by ctl_type: message ID, PSN, SACK base, credit").when(ctlNotNeg),
	num("pds.neg_type", 96, 8, "1 = PDS_NEG_ON_OFF").when(ctlNeg),
	num("pds.neg_length", 104, 8, "length of the TLV in 32-bit words").when(ctlNeg),
	reserved("pds.reserved", 112, 16).when(ctlNeg),
	num("pds.feature_mask", 128, 32, "bit 0 SYN_RETX_TRANSFER").when(ctlNeg),
})}

var tabRUDI = &HeaderTable{Name: "RUDI_REQ/RESP", Layer: "pds", Codes: []uint64{uint64(TypeRUDIReq), uint64(TypeRUDIResp)},
	Bytes: 8, Fields: join(prologueFields("RUDIFlags"), []Field{
		reserved("pds.reserved", 16, 16),
		num("pds.pkt_id", 32, 32, "chosen by the initiator, echoed in the answer"),
	})}

var tabUUD = &HeaderTable{Name: "UUD_REQ", Layer: "pds", Codes: []uint64{uint64(TypeUUDReq)}, Bytes: 4,
	Fields: join(prologueFields(""), []Field{reserved("pds.reserved", 16, 16)})}

var tabCRC = &HeaderTable{Name: "UET CRC", Layer: "crc", Bytes: CRCLen, Fields: []Field{
	little("crc32c", 0, 32, "CRC-32C from the IP source address to the last payload byte"),
}}
