package wire

import (
	"errors"
	"strings"
	"testing"
)

// TestValidate spoils one field of a sound header at a time; the error must name it.
func TestValidate(t *testing.T) {
	req := AppendRequest(nil, &RequestFields{Type: TypeRUDReq, Next: NextRequestStd, PSN: 5, SPDCID: 1, DPDCID: 2})
	syn := AppendRequest(nil, &RequestFields{Type: TypeRODReq, Next: NextRequestStd, Flags: ReqSYN, SPDCID: 1})
	ack := AppendAck(nil, &AckFields{Type: TypeAckCC, Next: NextResponse, SPDCID: 1, DPDCID: 2})
	nack := AppendNack(nil, &NackFields{Type: TypeNack, Code: NackTrimmed, SPDCID: 1, DPDCID: 2})
	ctrl := AppendCtrl(nil, &CtrlFields{Ctl: CtlProbe, SPDCID: 1, DPDCID: 2})
	neg := AppendNegotiation(AppendCtrl(nil, &CtrlFields{Ctl: CtlNegotiation, SPDCID: 1, DPDCID: 2}), 1)
	rudi := AppendRUDI(nil, &RUDIFields{Type: TypeRUDIReq, Next: NextRequestStd})
	uud := AppendUUD(nil, NextRequestMedium)
	tss := AppendTSS(nil, &TSSFields{SDI: 1})
	one := SESSOM | SESEOM
	std := AppendSESStd(nil, &StdFields{HeadFields: HeadFields{Opcode: OpSend, Flags: one}, RequestLength: 4})
	cont := AppendSESStd(nil, &StdFields{HeadFields: HeadFields{Opcode: OpSend}, PayloadLength: 4, MessageOffset: 4, RequestLength: 8})
	small := AppendSESSmall(nil, &SmallFields{HeadFields: HeadFields{Opcode: OpWrite, Flags: one}})
	medium := AppendSESMedium(nil, &MediumFields{HeadFields: HeadFields{Opcode: OpSend, Flags: one}})
	resp := AppendSESResponse(nil, &ResponseFields{RespFields: RespFields{Opcode: RespResponse, ReturnCode: RCOK}})
	data := AppendSESResponseData(nil, &ResponseDataFields{RespFields: RespFields{Opcode: RespWithData}})
	dsmall := AppendSESResponseDataSmall(nil, &ResponseDataSmallFields{RespFields: RespFields{Opcode: RespWithData}})
	amo := AppendAtomic(nil, &AtomicFields{Op: AtomicSum, Type: AtomicInt64})
	for _, c := range []struct {
		name  string
		b     []byte
		valid func(b []byte) error
		off   int
		mask  byte // bits to flip
		field string
	}{
		{"request next", req, func(b []byte) error { return Request(b).Validate() }, 0, 2, "next_hdr"},
		{"request flags", req, func(b []byte) error { return Request(b).Validate() }, 1, 0x40, "flags"},
		{"request clear", req, func(b []byte) error { return Request(b).Validate() }, 3, 1, "clear_psn_offset"},
		{"request spdcid", req, func(b []byte) error { return Request(b).Validate() }, 9, 1, "spdcid"},
		{"request dpdcid", req, func(b []byte) error { return Request(b).Validate() }, 11, 2, "dpdcid"},
		{"request syn", syn, func(b []byte) error { return Request(b).Validate() }, 10, 0x20, "pdc_info"},
		{"ack next", ack, func(b []byte) error { return Ack(b).Validate() }, 1, 0x80, ""},
		{"ack next request", ack, func(b []byte) error { return Ack(b).Validate() }, 0, 3, "next_hdr"},
		{"ack flags", ack, func(b []byte) error { return Ack(b).Validate() }, 1, 1, "flags"},
		{"ack req", ack, func(b []byte) error { return Ack(b).Validate() }, 1, 6, "req"},
		{"ack spdcid", ack, func(b []byte) error { return Ack(b).Validate() }, 9, 1, "spdcid"},
		{"ack dpdcid", ack, func(b []byte) error { return Ack(b).Validate() }, 11, 2, "dpdcid"},
		{"ack cc_type", ack, func(b []byte) error { return Ack(b).Validate() }, 12, 0x20, "cc_type"},
		{"ack proprietary", ack, func(b []byte) error { return Ack(b).Validate() }, 12, 0xE0, ""},
		{"nack next", nack, func(b []byte) error { return Nack(b).Validate() }, 1, 0x80, "next_hdr"},
		{"nack flags", nack, func(b []byte) error { return Nack(b).Validate() }, 1, 1, "flags"},
		{"nack code", nack, func(b []byte) error { return Nack(b).Validate() }, 2, 1, "nack_code"},
		{"nack code 0x1D", nack, func(b []byte) error { return Nack(b).Validate() }, 2, 0x1C, "nack_code"},
		{"nack NT", nack, func(b []byte) error { return Nack(b).Validate() }, 1, 8, "spdcid/dpdcid"},
		{"nack dpdcid", nack, func(b []byte) error { return Nack(b).Validate() }, 11, 2, "dpdcid"},
		{"ctrl type", ctrl, func(b []byte) error { return Ctrl(b).Validate() }, 0, 4, "ctl_type"},
		{"ctrl flags", ctrl, func(b []byte) error { return Ctrl(b).Validate() }, 1, 0x40, "flags"},
		{"ctrl spdcid", ctrl, func(b []byte) error { return Ctrl(b).Validate() }, 9, 1, "spdcid"},
		{"ctrl dpdcid", ctrl, func(b []byte) error { return Ctrl(b).Validate() }, 11, 2, "dpdcid"},
		{"neg length", neg, func(b []byte) error { return Ctrl(b).Validate() }, 13, 2, "neg_length"},
		{"neg length far", neg, func(b []byte) error { return Ctrl(b).Validate() }, 13, 0x42, "neg_length"},
		{"rudi next", rudi, func(b []byte) error { return RUDI(b).Validate() }, 0, 2, "next_hdr"},
		{"rudi M", rudi, func(b []byte) error { return RUDI(b).Validate() }, 1, 0x20, "flags"},
		{"uud next", uud, func(b []byte) error { return UUD(b).Validate() }, 0, 3, "next_hdr"},
		{"uud flags", uud, func(b []byte) error { return UUD(b).Validate() }, 1, 1, "flags"},
		{"tss", tss, func(b []byte) error { return TSS(b).Validate() }, 0, 2, "reserved"},
		{"std ver", std, func(b []byte) error { return SESStd(b).Validate() }, 1, 0x40, "ver"},
		{"std reserved", std, func(b []byte) error { return SESStd(b).Validate() }, 8, 0x10, "reserved"},
		{"std opcode", std, func(b []byte) error { return SESStd(b).Validate() }, 0, 0x10, "opcode"},
		{"std msg_error", std, func(b []byte) error { return SESStd(b).Validate() }, 0, 0x0A, "ie/som/eom"},
		{"cont reserved", cont, func(b []byte) error { return SESStd(b).Validate() }, 32, 1, "reserved"},
		{"cont offset", cont, func(b []byte) error { return SESStd(b).Validate() }, 39, 1, "message_offset"},
		{"small opcode", small, func(b []byte) error { return SESSmall(b).Validate() }, 0, 4, "opcode"},
		{"small hd", small, func(b []byte) error { return SESSmall(b).Validate() }, 1, 4, "reserved"},
		{"small som", small, func(b []byte) error { return SESSmall(b).Validate() }, 1, 1, "som/eom"},
		{"medium opcode", medium, func(b []byte) error { return SESMedium(b).Validate() }, 0, 3, "opcode"},
		{"medium length", medium, func(b []byte) error { return SESMedium(b).Validate() }, 2, 0x40, "reserved"},
		{"medium eom", medium, func(b []byte) error { return SESMedium(b).Validate() }, 1, 2, "som/eom"},
		{"response ver", resp, func(b []byte) error { return SESResponse(b).Validate() }, 1, 0x80, "ver"},
		{"response opcode", resp, func(b []byte) error { return SESResponse(b).Validate() }, 0, 3, "opcode"},
		{"response code", resp, func(b []byte) error { return SESResponse(b).Validate() }, 1, 0x25, ""},
		{"response code 0x26", resp, func(b []byte) error { return SESResponse(b).Validate() }, 1, 0x27, "return_code"},
		{"data reserved", data, func(b []byte) error { return SESResponseData(b).Validate() }, 10, 0x40, "reserved"},
		{"data opcode", data, func(b []byte) error { return SESResponseData(b).Validate() }, 0, 3, "opcode"},
		{"data small reserved", dsmall, func(b []byte) error { return SESResponseDataSmall(b).Validate() }, 2, 0x40, "reserved"},
		{"amo op", amo, func(b []byte) error { return Atomic(b).Validate() }, 0, 0x20, "amo_opcode"},
		{"amo vendor", amo, func(b []byte) error { return Atomic(b).Validate() }, 0, 0xF0, ""},
		{"amo type", amo, func(b []byte) error { return Atomic(b).Validate() }, 1, 0x20, "amo_datatype"},
		{"amo reserved", amo, func(b []byte) error { return Atomic(b).Validate() }, 3, 1, "reserved"},
	} {
		b := append([]byte(nil), c.b...)
		if err := c.valid(b); err != nil {
			t.Errorf("%s: sound header refused: %v", c.name, err)
		}
		b[c.off] ^= c.mask
		err := c.valid(b)
		var fe *FieldError
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: refused: %v", c.name, err)
		case c.field != "" && (!errors.As(err, &fe) || fe.Field != c.field || !strings.Contains(err.Error(), c.field)):
			t.Errorf("%s: error %v, want one about %s", c.name, err, c.field)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{TypeRODCCReq.String(), "ROD_CC_REQ"}, {PDSType(0).String(), "RESERVED_0"}, {PDSType(15).String(), "RESERVED_15"},
		{NextResponseDataSmall.String(), "RESPONSE_DATA_SMALL"}, {NextHdr(9).String(), "RESERVED_9"},
		{CtlNegotiation.String(), "NEGOTIATION"}, {CtlType(10).String(), "RESERVED_10"},
		{NackRcvrInferLoss.String(), "RCVR_INFER_LOSS"}, {NackExpFatal.String(), "EXP_NACK_FATAL"}, {NackCode(0x0C).String(), "RESERVED_12"},
		{OpMsgError.String(), "MSG_ERROR"}, {Opcode(16).String(), "RESERVED_16"}, {RespNoResponse.String(), "NO_RESPONSE"},
		{RCDropped.String(), "DROPPED"}, {RCExtended.String(), "EXTENDED"}, {RCUncorTrnsnt.String(), "UNCOR_TRNSNT"},
		{ListOverflow.String(), "OVERFLOW"}, {List(3).String(), "VENDOR_3"}, {AtomicInval.String(), "INVAL"}, {AtomicFP16.String(), "FP16"},
		{CCTypeCredit.String(), "CREDIT"}, {CCType(15).String(), "PROPRIETARY_15"}, {AckReqClose.String(), "CLOSE"},
		{EtherLLDP.String(), "LLDP"}, {EtherType(0x1234).String(), "0x1234"}, {EtherMACControl.String(), "MAC_CONTROL"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if AtomicLongDoubleComplex.Size() != 32 || AtomicBF16.Size() != 2 || AtomicType(0x12).Size() != 0 {
		t.Error("sizes of atomic types")
	}
	for op := range Opcode(64) {
		atomic := op == OpAtomic || op == OpFetchingAtomic || op == OpTSendAtomic || op == OpTSendFetchAtomic
		if op.IsAtomic() != atomic {
			t.Errorf("IsAtomic(%v) = %v", op, !atomic)
		}
	}
}
