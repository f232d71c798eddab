package wire

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// kind is a packet of one kind, what it decodes to, and how one wrong and one truncated packet of it must be told.
type kind struct {
	name   string
	b      []byte // whole packet: UET payload, or frame
	frame  bool
	wrong  int    // byte that is spoilt
	mask   byte   // bits of it that flip
	header string // in the error about it
	field  string
	off    int // where the error must say the field begins, in b
	value  string
	short  int    // bytes to which it is truncated
	cut    string // header named then
}

func kinds() []kind {
	req := func(t PDSType, next NextHdr) []byte {
		return AppendRequest(nil, &RequestFields{Type: t, Next: next, PSN: 9, SPDCID: 1, DPDCID: 2})
	}
	std := func(op Opcode, f SESFlags) []byte {
		return AppendSESStd(req(TypeRUDReq, NextRequestStd), &StdFields{HeadFields: HeadFields{Opcode: op, Flags: f}})
	}
	ack := func(t PDSType, next NextHdr) []byte {
		return AppendAck(nil, &AckFields{Type: t, Next: next, SPDCID: 1, DPDCID: 2})
	}
	nack := func(t PDSType) []byte {
		return AppendNack(nil, &NackFields{Type: t, Code: NackTrimmed, SPDCID: 1, DPDCID: 2})
	}
	ctrl := func(c CtlType, f CtrlFlags) []byte {
		return AppendCtrl(nil, &CtrlFields{Ctl: c, Flags: f, SPDCID: 1, DPDCID: 2})
	}
	one := SESSOM | SESEOM
	uud := AppendSESMedium(AppendUUD(nil, NextRequestMedium), &MediumFields{HeadFields: HeadFields{Opcode: OpDatagramSend, Flags: one}})
	rsp := RespFields{Opcode: RespWithData, ReturnCode: RCOK}
	list := []kind{
		{"RUD_REQ", req(TypeRUDReq, NextRequestStd), false, 9, 1, "RUD/ROD request", "spdcid", 8, "0", 11, "RUD/ROD request"},
		{"ROD_CC_REQ", req(TypeRODCCReq, NextRequestStd), false, 3, 7, "RUD/ROD request", "clear_psn_offset", 2, "7", 15, "RUD/ROD request"},
		{"RUD_CC_REQ", req(TypeRUDCCReq, NextRequestStd), false, 11, 2, "RUD/ROD request", "dpdcid", 10, "0", 15, "RUD/ROD request"},
		{"ACK", ack(TypeAck, NextNone), false, 11, 2, "ACK", "dpdcid", 10, "0", 11, "ACK"},
		{"ACK_CC", ack(TypeAckCC, NextNone), false, 12, 0x50, "ACK_CC", "cc_type", 12, "5", 31, "ACK"},
		{"ACK_CCX", ack(TypeAckCCX, NextNone), false, 1, 6, "ACK", "req", 1, "6", 39, "ACK"},
		{"NACK", nack(TypeNack), false, 2, 0x0D, "NACK", "nack_code", 2, "12", 15, "NACK"},
		{"NACK_CCX", nack(TypeNackCCX), false, 1, 1, "NACK", "flags", 1, "1", 31, "NACK"},
		{"NACK NT", nack(TypeNack), false, 1, 8, "NACK", "spdcid/dpdcid", 8, "1/2", 1, "UET"},
		{"RUDI_REQ", AppendRUDI(nil, &RUDIFields{Type: TypeRUDIReq, Next: NextRequestStd}), false, 1, 0x20, "RUDI", "flags", 1, "32", 7, "RUDI"},
		{"RUDI_RESP", AppendRUDI(nil, &RUDIFields{Type: TypeRUDIResp}), false, 0, 1, "RUDI", "next_hdr", 0, "2", 5, "RUDI"},
		{"UUD_REQ", uud, false, 1, 2, "UUD", "flags", 1, "2", 3, "UUD"},
		{"TSS", AppendTSS(nil, &TSSFields{SP: true, SDI: 5}), false, 0, 2, "TSS", "reserved", 0, "1", 15, "TSS"},
		{"type", req(TypeRUDReq, NextNone), false, 0, 0x90, "PDS prologue", "type", 0, "16", 1, "UET"},
		{"std", std(OpSend, one), false, 12, 0x10, "SES request", "opcode", 12, "21", 55, "SES request"},
		{"std reserved", std(OpSend, one), false, 20, 0x20, "SES request", "reserved", 20, "2", 13, "SES request"},
		{"continuation", std(OpSend, SESEOM), false, 51, 4, "SES request", "message_offset", 48, "4", 40, "SES request"},
		{"continuation length", std(OpSend, SESEOM), false, 47, 4, "SES", "payload_length", 46, "4", 54, "SES request"},
		{"deferrable", std(OpDeferrableSend, one), false, 13, 0x40, "SES request", "ver", 13, "1", 50, "SES request"},
		{"ready-to-restart", std(OpDeferrableRTR, one), false, 13, 0xC0, "SES request", "ver", 13, "3", 50, "SES request"},
		{"msg_error", std(OpMsgError, SESIE|SESEOM), false, 13, 1, "SES request", "ie/som/eom", 13, "1/1/1", 50, "SES request"},
		{"rendezvous", AppendRendezvous(std(OpRendezvousSend, one), &RendezvousFields{}), false, 13, 0x80, "SES request", "ver", 13, "2", 79, "rendezvous extension"},
		{"atomic", AppendAtomic(std(OpAtomic, one), &AtomicFields{}), false, 57, 0x20, "atomic extension", "amo_datatype", 57, "32", 59, "atomic extension"},
		{"cswap", AppendAtomic(std(OpFetchingAtomic, one), &AtomicFields{Op: AtomicCSwap}), false, 59, 7, "atomic extension", "reserved", 59, "7", 91, "atomic extension"},
		{"small", AppendSESSmall(req(TypeRUDReq, NextRequestSmall), &SmallFields{HeadFields: HeadFields{Flags: one}}), false, 13, 1, "SES request", "som/eom", 13, "0/1", 31, "SES request"},
		{"medium", AppendSESMedium(req(TypeRODReq, NextRequestMedium), &MediumFields{HeadFields: HeadFields{Flags: one}}), false, 14, 0x80, "SES request", "reserved", 14, "2", 43, "SES request"},
		{"response", AppendSESResponse(ack(TypeAck, NextResponse), &ResponseFields{}), false, 13, 0x3F, "SES response", "return_code", 13, "63", 23, "SES response"},
		{"response data", AppendSESResponseData(ack(TypeAck, NextResponseData), &ResponseDataFields{RespFields: rsp}), false, 23, 9, "SES", "payload_length", 22, "9", 31, "SES response"},
		{"response data small", AppendSESResponseDataSmall(ack(TypeAck, NextResponseDataSmall), &ResponseDataSmallFields{RespFields: rsp}), false, 16, 3, "SES response", "reserved", 16, "3", 23, "SES response"},
	}
	for c := CtlNoop; c <= CtlCreditRequest; c++ {
		short := 15
		if c == CtlNoop || c == CtlCloseCommand || c == CtlCloseRequest {
			short = 11
		}
		list = append(list, kind{"CTRL " + c.String(), ctrl(c, 0), false, 1, 0x40, "CTRL", "flags", 1, "64", short, "CTRL"})
	}
	neg := AppendNegotiation(ctrl(CtlNegotiation, 0), 1)
	return append(append(list, kind{"CTRL NEGOTIATION", neg, false, 13, 0x42, "CTRL", "neg_length", 13, "64", 19, "CTRL"},
		kind{"CTRL SYN", ctrl(CtlNoop, CtrlSYN), false, 10, 0x30, "CTRL", "pdc_info", 10, "3", 11, "CTRL"}), outerKinds()...)
}

// outerKinds are the kinds that are frames.
func outerKinds() []kind {
	ack := AppendAck(nil, &AckFields{Type: TypeAck, SPDCID: 1, DPDCID: 2})
	frame := func(src string, native uint8) []byte {
		a := netip.MustParseAddr(src)
		return AppendUETCRC(append(AppendUDPFrame(nil, &FrameFields{Src: a, Dst: a, Native: native}), ack...))
	}
	tagged := append(AppendVLAN(AppendEth(nil, Broadcast, MAC{}, EtherVLAN), VLANTag{VID: 7}, EtherIPv4), frame("10.0.0.1", 0)[EthLen:]...)
	v4, v6 := frame("10.0.0.1", 0), frame("fd00::1", 0)
	lldp, os := lldpFrame(), ctlosFrame()
	return []kind{
		{"Ethernet", v4, true, 14, 0x10, "IPv4", "version", 14, "5", 13, "Ethernet"},
		{"IPv4 ihl", v4, true, 14, 1, "IPv4", "ihl", 14, "4", 33, "IPv4"},
		{"IPv4 checksum", v4, true, 22, 1, "IPv4", "checksum", 24, "", 30, "IPv4"},
		{"IPv4 length", v4, true, 16, 1, "IPv4", "total_length", 16, "300", 20, "IPv4"},
		{"IPv6", v6, true, 18, 1, "IPv6", "payload_length", 18, "280", 53, "IPv6"},
		{"tag", tagged, true, 18, 0x10, "IPv4", "version", 18, "5", 17, "Ethernet"},
		{"UDP", v6, true, 59, 0x1F, "UDP", "length", 58, "7", 40, "IPv6"},
		{"UDP gap", v6, true, 59, 8, "UDP", "length", 58, "16", 40, "IPv6"},
		{"CRC", v4, true, 50, 1, "UET CRC", "crc32c", 54, "", 20, "IPv4"},
		{"LLR_ACK", os, true, 18, 1, "ordered set", "ocode", 18, "7", 21, "ordered sets"},
		{"LLR_NACK", os, true, 22, 0x80, "ordered set", "lane0", 22, "220", 29, "ordered sets"},
		{"LLR_INIT", os, true, 37, 5, "ordered set", "reserved", 37, "5", 35, "ordered sets"},
		{"LLR_INIT_ECHO", os, true, 39, 1, "ordered set", "type", 39, "5", 45, "ordered sets"},
		{"CF_Update", os, true, 53, 9, "ordered set", "reserved", 53, "9", 53, "ordered sets"},
		{"CC_Update", ccFrame(false), true, 19, 2, "CC_Update", "type", 19, "3", 59, "CC_Update"},
		{"CC_Update cid", ccFrame(true), true, 16, 1, "CC_Update", "cid", 16, "16480971", 15, "CC_Update"},
		{"LLDP", lldp, true, 14, 6, "LLDP TLV", "type", 14, "2", 15, "LLDP TLV"},
		{"link options", lldp, true, 40, 0x40, "UE link options", "llr_wanted", 40, "2", 34, "LLDP"},
		{"CBFC receiver", lldp, true, 57, 2, "UE CBFC receiver", "method", 57, "3", 49, "LLDP TLV"},
		{"CBFC num_vc", lldp, true, 62, 1, "UE CBFC receiver", "length", 48, "31", 49, "LLDP TLV"},
		{"CBFC VC", lldp, true, 74, 0x40, "UE CBFC VC", "index", 74, "95", 49, "LLDP TLV"},
	}
}

// located decodes and returns the error about header and field.
func (k *kind) located(b []byte, header, field string) (*FieldError, []error) {
	p := Packet{}
	if k.frame {
		p = Decode(b, Options{CRC: CRCOn})
	} else {
		p = DecodeUET(b, Options{})
	}
	for _, err := range p.Errs {
		if fe := (*FieldError)(nil); errors.As(err, &fe) && fe.Header == header && fe.Field == field {
			return fe, p.Errs
		}
	}
	return nil, p.Errs
}

// TestErrorsSayWhere spoils and truncates one packet of every kind. The error must name the header, the field, the byte
// and the value, and still be the sentinel by errors.Is.
func TestErrorsSayWhere(t *testing.T) {
	covered := map[string]bool{}
	for _, k := range kinds() {
		b := bytes.Clone(k.b)
		b[k.wrong] ^= k.mask
		fe, errs := k.located(b, k.header, k.field)
		switch {
		case fe == nil:
			t.Errorf("%s: errors %v, want one about %s %s", k.name, errs, k.header, k.field)
		case fe.Off != k.off || k.value != "" && fe.Value != k.value:
			t.Errorf("%s: %v, want byte %d, value %s", k.name, fe, k.off, k.value)
		case fe.Unwrap() == nil || !errors.Is(fe, fe.Unwrap()) || fe.Unwrap().(*FieldError).Off != -1:
			t.Errorf("%s: %v does not lead to its cause", k.name, fe)
		}
		if !k.frame {
			covered[PDSType(k.b[0]>>3).String()] = true
		}
		fe, errs = k.located(k.b[:k.short], k.cut, "length")
		switch {
		case k.cut == "IPv4" || k.cut == "IPv6" || strings.HasPrefix(k.cut, "LLDP TLV"):
			if len(errs) == 0 { // their length field is what is wrong then
				t.Errorf("%s cut to %d bytes: no error", k.name, k.short)
			}
		case fe == nil:
			t.Errorf("%s cut to %d bytes: errors %v, want one about the length of %s", k.name, k.short, errs, k.cut)
		case fe.Off != k.short || !strings.HasSuffix(fe.Value, " bytes"):
			t.Errorf("%s cut to %d bytes: %v", k.name, k.short, fe)
		}
	}
	for typ := TypeTSS; typ <= TypeRODCCReq; typ++ {
		if !covered[typ.String()] {
			t.Errorf("no packet of type %v", typ)
		}
	}
}

// TestErrorsElsewhere are the places that have no header of their own.
func TestErrorsElsewhere(t *testing.T) {
	frame := AppendTrailer(lldpFrame(), 5, 0)
	cutIP := func(native uint8, n int) []byte { // an IPv4 packet that ends n bytes behind its header
		b := AppendUDPFrame(nil, &FrameFields{Src: addr4a, Dst: addr4b, Native: native})[:EthLen+IPv4Len+n]
		IPv4(b[EthLen:]).SetTotalLen(IPv4Len + n)
		IPv4(b[EthLen:]).SetChecksum()
		return b
	}
	sealed := AppendUDPFrame(nil, &FrameFields{Src: addr4a, Dst: addr4b})
	sealed = append(AppendTSS(sealed, &TSSFields{SDI: 1}), make([]byte, 12+ICVLen)...)
	FinishUDP(sealed)
	open := func([]byte, TSS, []byte, bool) ([]byte, error) {
		return AppendRequest(nil, &RequestFields{Type: TypeRUDReq, Next: NextRequestStd, DPDCID: 1}), nil
	}
	for _, c := range []struct {
		what  string
		p     Packet
		cause error
		off   int
		value string
	}{
		{"trailer", Decode(append(bytes.Clone(frame[:len(frame)-24]), make([]byte, 24)...), Options{Trailer: true}), errTrailerBad, len(frame) - 24, "0/0"},
		{"no room for a trailer", Decode(frame[:14], Options{Trailer: true}), errTrailerBad, 14, "0 bytes"},
		{"fcs", Decode(append([]byte{9}, frame[1:]...), Options{Trailer: true}), errFCSBad, len(frame) - 4, ""},
		{"bytes behind", DecodeUET(append(AppendSESResponse(AppendAck(nil, &AckFields{Type: TypeAck, Next: NextResponse, SPDCID: 1, DPDCID: 2}),
			&ResponseFields{}), 1, 2), Options{}), errRestBehind, 24, "2 bytes"},
		{"behind CC_Update", Decode(append(ccFrame(true), 7), Options{}), errCCRest, 60, "1 bytes"},
		{"entropy", Decode(cutIP(ProtoNative, 2), Options{}), errEntropyLen, 36, "2 bytes"},
		{"udp", Decode(cutIP(0, 5), Options{}), errUDPShort, 39, "5 bytes"},
		{"udp cut", Decode(cutIP(0, 8), Options{}), errUDPLen, 38, "0"},
		{"inside TSS", Decode(sealed, Options{Open: open}), errReqSPDCID, EthLen + IPv4Len + UDPLen + 12 + 8, "0"},
		{"icv", DecodeUET(AppendTSS(nil, &TSSFields{}), Options{}), errICVShort, 12, "0 bytes"},
	} {
		var fe *FieldError
		if len(c.p.Errs) == 0 || !errors.Is(c.p.Errs[0], c.cause) || !errors.As(c.p.Errs[0], &fe) || fe.Off != c.off || c.value != "" && fe.Value != c.value {
			t.Errorf("%s: %v, want byte %d, value %s", c.what, c.p.Errs, c.off, c.value)
			continue
		}
		if text := fe.Error(); !strings.Contains(text, "byte ") || !strings.Contains(text, fe.Value) || !strings.Contains(text, fe.Field) {
			t.Errorf("%s: %s", c.what, text)
		}
	}
}
