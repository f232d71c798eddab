package wire

import "strconv"

// Opcode is the 6-bit operation of a SES request (uet-wire 11.1).
type Opcode uint8

// Request opcodes.
const (
	OpNoOp             Opcode = 0x00
	OpWrite            Opcode = 0x01
	OpRead             Opcode = 0x02
	OpAtomic           Opcode = 0x03
	OpFetchingAtomic   Opcode = 0x04
	OpSend             Opcode = 0x05
	OpRendezvousSend   Opcode = 0x06
	OpDatagramSend     Opcode = 0x07
	OpDeferrableSend   Opcode = 0x08
	OpTaggedSend       Opcode = 0x09
	OpRendezvousTSend  Opcode = 0x0A
	OpDeferrableTSend  Opcode = 0x0B
	OpDeferrableRTR    Opcode = 0x0C
	OpTSendAtomic      Opcode = 0x0D
	OpTSendFetchAtomic Opcode = 0x0E
	OpMsgError         Opcode = 0x0F
)

var opNames = []string{"NO_OP", "WRITE", "READ", "ATOMIC", "FETCHING_ATOMIC", "SEND", "RENDEZVOUS_SEND", "DATAGRAM_SEND",
	"DEFERRABLE_SEND", "TAGGED_SEND", "RENDEZVOUS_TSEND", "DEFERRABLE_TSEND", "DEFERRABLE_RTR", "TSEND_ATOMIC",
	"TSEND_FETCH_ATOMIC", "MSG_ERROR"}

// String returns the standard's name.
func (o Opcode) String() string { return name(opNames, uint8(o)) }

// IsAtomic reports whether the atomic extension follows the request header.
func (o Opcode) IsAtomic() bool {
	const set = 1<<OpAtomic | 1<<OpFetchingAtomic | 1<<OpTSendAtomic | 1<<OpTSendFetchAtomic
	return uint32(set)>>o&1 != 0 // o is 6 bits: a shift by 32 or more gives 0
}

// IsRendezvous reports whether the rendezvous extension follows the standard header.
func (o Opcode) IsRendezvous() bool { return o == OpRendezvousSend || o == OpRendezvousTSend }

// IsDeferrable reports whether the restart tokens take the place of buffer_offset.
func (o Opcode) IsDeferrable() bool { return o == OpDeferrableSend || o == OpDeferrableTSend }

// IsTagged reports whether match_bits are matched against posted tagged receives.
func (o Opcode) IsTagged() bool {
	switch o {
	case OpTaggedSend, OpRendezvousTSend, OpDeferrableTSend, OpTSendAtomic, OpTSendFetchAtomic:
		return true
	}
	return false
}

// RespOpcode is the 6-bit operation of a SES response (uet-wire 11.4).
type RespOpcode uint8

// Response opcodes.
const (
	RespDefault    RespOpcode = 0
	RespResponse   RespOpcode = 1
	RespWithData   RespOpcode = 2
	RespNoResponse RespOpcode = 3
)

var respNames = []string{"DEFAULT_RESPONSE", "RESPONSE", "RESPONSE_W_DATA", "NO_RESPONSE"}

// String returns the standard's name.
func (o RespOpcode) String() string {
	return name(respNames, uint8(o))
}

// LegalFor reports whether o may stand in a header of form n (uet-wire 16, point 6).
func (o RespOpcode) LegalFor(n NextHdr) bool {
	if n == NextResponse {
		return o == RespDefault || o == RespResponse || o == RespNoResponse
	}
	return (n == NextResponseData || n == NextResponseDataSmall) && o == RespWithData
}

// ReturnCode is the 6-bit result of a request (uet-wire 11.5).
type ReturnCode uint8

// Return codes.
const (
	RCNull               ReturnCode = 0x00
	RCOK                 ReturnCode = 0x01
	RCBadGeneration      ReturnCode = 0x02
	RCDisabled           ReturnCode = 0x03
	RCDisabledGen        ReturnCode = 0x04
	RCNoMatch            ReturnCode = 0x05
	RCUnsupportedOp      ReturnCode = 0x06
	RCUnsupportedSize    ReturnCode = 0x07
	RCATInvalid          ReturnCode = 0x08
	RCATPerm             ReturnCode = 0x09
	RCATATSError         ReturnCode = 0x0A
	RCATNoTrans          ReturnCode = 0x0B
	RCATOutOfRange       ReturnCode = 0x0C
	RCHostPoisoned       ReturnCode = 0x0D
	RCHostUnsuccessCmpl  ReturnCode = 0x0E
	RCAMOUnsupportedOp   ReturnCode = 0x0F
	RCAMOUnsupportedDT   ReturnCode = 0x10
	RCAMOUnsupportedSize ReturnCode = 0x11
	RCAMOUnaligned       ReturnCode = 0x12
	RCAMOFPNaN           ReturnCode = 0x13
	RCAMOFPUnderflow     ReturnCode = 0x14
	RCAMOFPOverflow      ReturnCode = 0x15
	RCAMOFPInexact       ReturnCode = 0x16
	RCPermViolation      ReturnCode = 0x17
	RCOpViolation        ReturnCode = 0x18
	RCBadIndex           ReturnCode = 0x19
	RCBadPID             ReturnCode = 0x1A
	RCBadJobID           ReturnCode = 0x1B
	RCBadMKey            ReturnCode = 0x1C
	RCBadAddr            ReturnCode = 0x1D
	RCCancelled          ReturnCode = 0x1E
	RCUndeliverable      ReturnCode = 0x1F
	RCUncor              ReturnCode = 0x20
	RCUncorTrnsnt        ReturnCode = 0x21
	RCTooLong            ReturnCode = 0x22
	RCInitiatorError     ReturnCode = 0x23
	RCDropped            ReturnCode = 0x24
	RCExtended           ReturnCode = 0x3E
)

var rcNames = []string{"NULL", "OK", "BAD_GENERATION", "DISABLED", "DISABLED_GEN", "NO_MATCH", "UNSUPPORTED_OP",
	"UNSUPPORTED_SIZE", "AT_INVALID", "AT_PERM", "AT_ATS_ERROR", "AT_NO_TRANS", "AT_OUT_OF_RANGE", "HOST_POISONED",
	"HOST_UNSUCCESS_CMPL", "AMO_UNSUPPORTED_OP", "AMO_UNSUPPORTED_DT", "AMO_UNSUPPORTED_SIZE", "AMO_UNALIGNED", "AMO_FP_NAN",
	"AMO_FP_UNDERFLOW", "AMO_FP_OVERFLOW", "AMO_FP_INEXACT", "PERM_VIOLATION", "OP_VIOLATION", "BAD_INDEX", "BAD_PID",
	"BAD_JOB_ID", "BAD_MKEY", "BAD_ADDR", "CANCELLED", "UNDELIVERABLE", "UNCOR", "UNCOR_TRNSNT", "TOO_LONG",
	"INITIATOR_ERROR", "DROPPED", 0x3E: "EXTENDED"}

// String returns the standard's name.
func (c ReturnCode) String() string { return name(rcNames, uint8(c)) }

// List says where the target placed the message (uet-wire 11.6).
type List uint8

// Places of a message.
const (
	ListExpected List = 0
	ListOverflow List = 1
)

var listNames = []string{"EXPECTED", "OVERFLOW"}

// String returns the standard's name; 2 and 3 belong to the vendor.
func (l List) String() string {
	if l > 1 {
		return "VENDOR_" + strconv.Itoa(int(l))
	}
	return name(listNames, uint8(l))
}

// AtomicOp is the 8-bit operation of the atomic extension (uet-wire 11.2).
type AtomicOp uint8

// Atomic operations.
const (
	AtomicMin     AtomicOp = 0x00
	AtomicMax     AtomicOp = 0x01
	AtomicSum     AtomicOp = 0x02
	AtomicDiff    AtomicOp = 0x03
	AtomicProd    AtomicOp = 0x04
	AtomicLOR     AtomicOp = 0x05
	AtomicLAND    AtomicOp = 0x06
	AtomicBOR     AtomicOp = 0x07
	AtomicBAND    AtomicOp = 0x08
	AtomicLXOR    AtomicOp = 0x09
	AtomicBXOR    AtomicOp = 0x0A
	AtomicRead    AtomicOp = 0x0B
	AtomicWrite   AtomicOp = 0x0C
	AtomicCSwap   AtomicOp = 0x0D
	AtomicCSwapNE AtomicOp = 0x0E
	AtomicCSwapLE AtomicOp = 0x0F
	AtomicCSwapLT AtomicOp = 0x10
	AtomicCSwapGE AtomicOp = 0x11
	AtomicCSwapGT AtomicOp = 0x12
	AtomicMSwap   AtomicOp = 0x13
	AtomicInval   AtomicOp = 0x14
)

var amoNames = []string{"MIN", "MAX", "SUM", "DIFF", "PROD", "LOR", "LAND", "BOR", "BAND", "LXOR", "BXOR", "READ", "WRITE",
	"CSWAP", "CSWAP_NE", "CSWAP_LE", "CSWAP_LT", "CSWAP_GE", "CSWAP_GT", "MSWAP", "INVAL"}

// String returns the standard's name.
func (o AtomicOp) String() string { return name(amoNames, uint8(o)) }

// IsCompareSwap reports whether compare and swap values (32 bytes) stand in the extension.
func (o AtomicOp) IsCompareSwap() bool { return o >= AtomicCSwap && o <= AtomicCSwapGT }

// AtomicType is the 8-bit datatype of the atomic extension (uet-wire 11.3).
type AtomicType uint8

// Atomic datatypes.
const (
	AtomicInt8              AtomicType = 0x00
	AtomicUint8             AtomicType = 0x01
	AtomicInt16             AtomicType = 0x02
	AtomicUint16            AtomicType = 0x03
	AtomicInt32             AtomicType = 0x04
	AtomicUint32            AtomicType = 0x05
	AtomicInt64             AtomicType = 0x06
	AtomicUint64            AtomicType = 0x07
	AtomicInt128            AtomicType = 0x08
	AtomicUint128           AtomicType = 0x09
	AtomicFloat             AtomicType = 0x0A
	AtomicDouble            AtomicType = 0x0B
	AtomicFloatComplex      AtomicType = 0x0C
	AtomicDoubleComplex     AtomicType = 0x0D
	AtomicLongDouble        AtomicType = 0x0E
	AtomicLongDoubleComplex AtomicType = 0x0F
	AtomicBF16              AtomicType = 0x10
	AtomicFP16              AtomicType = 0x11
)

var typeNames = []string{"INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "INT128", "UINT128",
	"FLOAT", "DOUBLE", "FLOAT_COMPLEX", "DOUBLE_COMPLEX", "LONG_DOUBLE", "LONG_DOUBLE_COMPLEX", "BF16", "FP16"}

// String returns the standard's name.
func (t AtomicType) String() string { return name(typeNames, uint8(t)) }

var typeSizes = []uint8{1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 4, 8, 8, 16, 16, 32, 2, 2}

// Size returns the bytes of one element, 0 for reserved types. LONG_DOUBLE is taken as the 16 bytes of x86-64.
func (t AtomicType) Size() int {
	if int(t) < len(typeSizes) {
		return int(typeSizes[t])
	}
	return 0
}
