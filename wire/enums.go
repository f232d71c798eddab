package wire

import "strconv"

// EnumValue is one code point of an enumeration, or one mask of a set of flags, with the standard's name.
type EnumValue struct {
	Value uint64
	Name  string
}

// Enums returns the enumerations that the field tables speak of, by name, in the order of their values; reserved code
// points are left out. For a set of flags Value is a mask.
func Enums() map[string][]EnumValue {
	m := map[string][]EnumValue{
		"PDSType": enumOf(pdsNames), "NextHdr": enumOf(nextNames), "CtlType": enumOf(ctlNames), "NackCode": enumOf(nackNames),
		"Opcode": enumOf(opNames), "RespOpcode": enumOf(respNames), "ReturnCode": enumOf(rcNames),
		"AtomicOp": enumOf(amoNames), "AtomicType": enumOf(typeNames), "CCType": append(enumOf(ccNames), proprietary(14, 15)...),
		"List":         append(enumOf(listNames), EnumValue{2, "VENDOR_2"}, EnumValue{3, "VENDOR_3"}),
		"ECN":          {{ECNNotECT, "Not-ECT"}, {ECNECT1, "ECT(1)"}, {ECNECT0, "ECT(0)"}, {ECNCE, "CE"}},
		"RequestFlags": {{uint64(ReqRETX), "RETX"}, {uint64(ReqAR), "AR"}, {uint64(ReqSYN), "SYN"}},
		"AckFlags": {{uint64(AckEPSN), "EPSN"}, {uint64(AckM), "M"}, {uint64(AckRETX), "RETX"}, {uint64(AckP), "P"},
			{0x06, "REQ"}},
		"NackFlags": {{uint64(NackM), "M"}, {uint64(NackRETX), "RETX"}, {uint64(NackNT), "NT"}},
		"CtrlFlags": {{uint64(CtrlISROD), "ISROD"}, {uint64(CtrlRETX), "RETX"}, {uint64(CtrlAR), "AR"},
			{uint64(CtrlSYN), "SYN"}},
		"RUDIFlags": {{uint64(RUDIM), "M"}, {uint64(RUDIRETX), "RETX"}},
		"SemCtl":    {{0x01, "CACHEABLE"}, {0x02, "CPU_COHERENT"}},
		"LLRKind":   {{LLRPlain, "PLAIN"}, {LLREligible, "ELIGIBLE"}, {LLRNoFCS, "NO_FCS"}},
		"FEPFlags": {{0x01, "CAPS_VALID"}, {0x02, "ADDRESS_VALID"}, {0x04, "PID_VALID"}, {0x08, "RI_VALID"},
			{0x10, "INITIATOR_VALID"}, {0x20, "ABSOLUTE"}, {0x40, "IPV6"}, {0x80, "ONE_MTU"}},
		"FEPCaps":  {{0x01, "AI_BASE"}, {0x02, "AI_FULL"}, {0x04, "HPC"}, {0x40, "IN_ORDER"}, {0x80, "OPTIMIZED"}},
		"LabFlags": {{LabTrailer, "TRAILER"}, {LabCBFCReady, "CBFC_READY"}},
	}
	for _, t := range []EtherType{EtherIPv4, EtherARP, EtherVLAN, EtherIPv6, EtherMACControl, EtherQinQ, EtherExperiment, EtherLLDP, EtherCSIG, EtherCSIGWide} {
		m["EtherType"] = append(m["EtherType"], EnumValue{uint64(t), t.String()})
	}
	m["CtlOSType"], m["LLDPType"], m["LinkWish"] = enumOf(ctlosNames), enumOf(lldpNames), enumOf(wishNames)
	m["CSIGType"] = enumOf(csigNames)
	m["CBFCMethod"], m["VCMap"] = enumOf(methodNames), enumOf(vcMapNames)
	return m
}

// enumOf lists the names of a table that are not empty.
func enumOf(names []string) (list []EnumValue) {
	for v, s := range names {
		if s != "" {
			list = append(list, EnumValue{uint64(v), s})
		}
	}
	return list
}

func proprietary(codes ...uint64) (list []EnumValue) {
	for _, c := range codes {
		list = append(list, EnumValue{c, "PROPRIETARY_" + strconv.FormatUint(c, 10)})
	}
	return list
}
