package wire

import "strconv"

// name looks v up in a table; what is not there is printed as a reserved number.
func name(table []string, v uint8) string {
	if int(v) < len(table) && table[v] != "" {
		return table[v]
	}
	return "RESERVED_" + strconv.Itoa(int(v))
}

// PDSType is the 5-bit type of the PDS prologue (uet-wire 2.2).
type PDSType uint8

// PDS types.
const (
	TypeTSS      PDSType = 1
	TypeRUDReq   PDSType = 2
	TypeRODReq   PDSType = 3
	TypeRUDIReq  PDSType = 4
	TypeRUDIResp PDSType = 5
	TypeUUDReq   PDSType = 6
	TypeAck      PDSType = 7
	TypeAckCC    PDSType = 8
	TypeAckCCX   PDSType = 9
	TypeNack     PDSType = 10
	TypeCtrl     PDSType = 11
	TypeNackCCX  PDSType = 12
	TypeRUDCCReq PDSType = 13
	TypeRODCCReq PDSType = 14
)

var pdsNames = []string{"", "TSS", "RUD_REQ", "ROD_REQ", "RUDI_REQ", "RUDI_RESP", "UUD_REQ", "ACK", "ACK_CC", "ACK_CCX",
	"NACK", "CTRL", "NACK_CCX", "RUD_CC_REQ", "ROD_CC_REQ"}

// String returns the standard's name.
func (t PDSType) String() string { return name(pdsNames, uint8(t)) }

// pdsLens holds header sizes; CTRL counts its 12 fixed bytes, TSS is not a PDS header.
var pdsLens = [32]uint8{TypeRUDReq: 12, TypeRODReq: 12, TypeRUDIReq: 8, TypeRUDIResp: 8, TypeUUDReq: 4, TypeAck: 12,
	TypeAckCC: 32, TypeAckCCX: 40, TypeNack: 16, TypeCtrl: 12, TypeNackCCX: 32, TypeRUDCCReq: 16, TypeRODCCReq: 16}

// HeaderLen returns the size of the PDS header in bytes, for CTRL without its payload; 0 for TSS and reserved types.
func (t PDSType) HeaderLen() int { return int(pdsLens[t&31]) }

// IsRequest reports whether t is one of the four RUD/ROD Request types.
func (t PDSType) IsRequest() bool {
	return t == TypeRUDReq || t == TypeRODReq || t == TypeRUDCCReq || t == TypeRODCCReq
}

// IsAck reports whether t is ACK, ACK_CC or ACK_CCX.
func (t PDSType) IsAck() bool { return t >= TypeAck && t <= TypeAckCCX }

// IsNack reports whether t is NACK or NACK_CCX.
func (t PDSType) IsNack() bool { return t == TypeNack || t == TypeNackCCX }

// IsROD reports whether t is a Request of an ordered PDC.
func (t PDSType) IsROD() bool { return t == TypeRODReq || t == TypeRODCCReq }

// NextHdr is the 4-bit next_hdr of the PDS prologue: which SES header follows (uet-wire 2.3).
type NextHdr uint8

// SES header forms.
const (
	NextNone              NextHdr = 0
	NextRequestSmall      NextHdr = 1
	NextRequestMedium     NextHdr = 2
	NextRequestStd        NextHdr = 3
	NextResponse          NextHdr = 4
	NextResponseData      NextHdr = 5
	NextResponseDataSmall NextHdr = 6
)

var nextNames = []string{"NONE", "REQUEST_SMALL", "REQUEST_MEDIUM", "REQUEST_STD", "RESPONSE", "RESPONSE_DATA",
	"RESPONSE_DATA_SMALL"}

// String returns the standard's name.
func (n NextHdr) String() string { return name(nextNames, uint8(n)) }

var nextLens = [16]uint8{NextRequestSmall: 20, NextRequestMedium: 32, NextRequestStd: 44, NextResponse: 12,
	NextResponseData: 20, NextResponseDataSmall: 12}

// HeaderLen returns the size of the SES header in bytes without extensions; 0 for NONE and reserved values.
func (n NextHdr) HeaderLen() int { return int(nextLens[n&15]) }

// IsRequest reports whether n is one of the three SES request forms.
func (n NextHdr) IsRequest() bool { return n >= NextRequestSmall && n <= NextRequestStd }

// IsResponse reports whether n is one of the three SES response forms.
func (n NextHdr) IsResponse() bool { return n >= NextResponse && n <= NextResponseDataSmall }

// LegalFor reports whether a packet of type t may carry n (uet-wire 16, point 4); CTRL has no next_hdr.
func (n NextHdr) LegalFor(t PDSType) bool {
	switch {
	case t.IsRequest():
		return n.IsRequest() || n == NextResponseData || n == NextResponseDataSmall
	case t == TypeRUDIReq, t == TypeUUDReq:
		return n.IsRequest()
	case t == TypeRUDIResp, t.IsAck():
		return n == NextNone || n.IsResponse()
	case t.IsNack():
		return n == NextNone
	}
	return false
}

// CtlType is the kind of a control packet (uet-wire 6).
type CtlType uint8

// Control packet types.
const (
	CtlNoop          CtlType = 0
	CtlAckRequest    CtlType = 1
	CtlClearCommand  CtlType = 2
	CtlClearRequest  CtlType = 3
	CtlCloseCommand  CtlType = 4
	CtlCloseRequest  CtlType = 5
	CtlProbe         CtlType = 6
	CtlCredit        CtlType = 7
	CtlCreditRequest CtlType = 8
	CtlNegotiation   CtlType = 9
)

var ctlNames = []string{"NOOP", "ACK_REQUEST", "CLEAR_COMMAND", "CLEAR_REQUEST", "CLOSE_COMMAND", "CLOSE_REQUEST", "PROBE",
	"CREDIT", "CREDIT_REQUEST", "NEGOTIATION"}

// String returns the standard's name.
func (c CtlType) String() string { return name(ctlNames, uint8(c)) }

// NackCode says why a packet was refused (uet-wire 5.1).
type NackCode uint8

// NACK codes.
const (
	NackTrimmed         NackCode = 0x01
	NackTrimmedLastHop  NackCode = 0x02
	NackTrimmedAck      NackCode = 0x03 // UE ≤ 1.0.2 only, never sent
	NackNoPDCAvail      NackCode = 0x04
	NackNoCCCAvail      NackCode = 0x05
	NackNoBitmap        NackCode = 0x06
	NackNoPktBuffer     NackCode = 0x07
	NackNoGtdDelAvail   NackCode = 0x08
	NackNoSESMsgAvail   NackCode = 0x09
	NackNoResource      NackCode = 0x0A
	NackPSNOORWindow    NackCode = 0x0B
	NackRODOOO          NackCode = 0x0D
	NackInvDPDCID       NackCode = 0x0E
	NackPDCHdrMismatch  NackCode = 0x0F
	NackClosing         NackCode = 0x10
	NackClosingInErr    NackCode = 0x11
	NackPktNotRcvd      NackCode = 0x12
	NackGtdRespUnavail  NackCode = 0x13
	NackAckWithData     NackCode = 0x14
	NackInvalidSYN      NackCode = 0x15
	NackPDCModeMismatch NackCode = 0x16
	NackNewStartPSN     NackCode = 0x17
	NackRcvdSESProcg    NackCode = 0x18
	NackUnexpEvent      NackCode = 0x19
	NackRcvrInferLoss   NackCode = 0x1A
	NackExpNormal       NackCode = 0xFD
	NackExpErr          NackCode = 0xFE
	NackExpFatal        NackCode = 0xFF
)

var nackNames = []string{0x01: "TRIMMED", 0x02: "TRIMMED_LASTHOP", 0x03: "TRIMMED_ACK", 0x04: "NO_PDC_AVAIL",
	0x05: "NO_CCC_AVAIL", 0x06: "NO_BITMAP", 0x07: "NO_PKT_BUFFER", 0x08: "NO_GTD_DEL_AVAIL", 0x09: "NO_SES_MSG_AVAIL",
	0x0A: "NO_RESOURCE", 0x0B: "PSN_OOR_WINDOW", 0x0D: "ROD_OOO", 0x0E: "INV_DPDCID", 0x0F: "PDC_HDR_MISMATCH",
	0x10: "CLOSING", 0x11: "CLOSING_IN_ERR", 0x12: "PKT_NOT_RCVD", 0x13: "GTD_RESP_UNAVAIL", 0x14: "ACK_WITH_DATA",
	0x15: "INVALID_SYN", 0x16: "PDC_MODE_MISMATCH", 0x17: "NEW_START_PSN", 0x18: "RCVD_SES_PROCG", 0x19: "UNEXP_EVENT",
	0x1A: "RCVR_INFER_LOSS", 0xFD: "EXP_NACK_NORMAL", 0xFE: "EXP_NACK_ERR", 0xFF: "EXP_NACK_FATAL"}

// String returns the standard's name.
func (c NackCode) String() string { return name(nackNames, uint8(c)) }

// CCType says how ack_cc_state is laid out (uet-wire 4).
type CCType uint8

// Congestion control state formats of an ACK_CC.
const (
	CCTypeNSCC   CCType = 0
	CCTypeCredit CCType = 1
)

var ccNames = []string{"NSCC", "CREDIT"}

// String returns the standard's name; 14 and 15 are proprietary.
func (c CCType) String() string {
	if c >= 14 {
		return "PROPRIETARY_" + strconv.Itoa(int(c))
	}
	return name(ccNames, uint8(c))
}
