package fep

import "github.com/uetlab/uetlab/fep/pds"

// Counter numbers an end point's counters; Counters holds one value for each.
type Counter int

// The counters of an end point: those of its packet delivery, which package pds explains, and then those of its messages.
const (
	DataTx        = Counter(pds.DataTx)
	DataTxBytes   = Counter(pds.DataTxBytes)
	DataRx        = Counter(pds.DataRx)
	DataRxBytes   = Counter(pds.DataRxBytes)
	Retx          = Counter(pds.Retx)
	RTO           = Counter(pds.RTO)
	DupRx         = Counter(pds.DupRx)
	AckTx         = Counter(pds.AckTx)
	AckRx         = Counter(pds.AckRx)
	NackTxTrim    = Counter(pds.NackTxTrim)
	NackTxRes     = Counter(pds.NackTxRes)
	NackTxPDC     = Counter(pds.NackTxPDC)
	NackRxTrim    = Counter(pds.NackRxTrim)
	NackRxRes     = Counter(pds.NackRxRes)
	NackRxPDC     = Counter(pds.NackRxPDC)
	NackRxOther   = Counter(pds.NackRxOther)
	CtrlTx        = Counter(pds.CtrlTx)
	CtrlRx        = Counter(pds.CtrlRx)
	CEMarked      = Counter(pds.CEMarked)
	Trimmed       = Counter(pds.Trimmed)
	CRCBad        = Counter(pds.CRCBad)
	Malformed     = Counter(pds.Malformed)
	Unsupported   = Counter(pds.Unsupported)
	UnknownPDCID  = Counter(pds.UnknownPDCID)
	StaleAck      = Counter(pds.StaleAck)
	CtlOverflow   = Counter(pds.CtlOverflow)
	PDCOpened     = Counter(pds.PDCOpened)
	PDCClosed     = Counter(pds.PDCClosed)
	PDCFailed     = Counter(pds.PDCFailed)
	PDCExpired    = Counter(pds.PDCExpired)
	CSIGRx        = Counter(pds.CSIGRx)
	GtdInUse      = Counter(pds.GtdInUse)
	RetxRTO       = Counter(pds.RetxRTO)
	RetxNack      = Counter(pds.RetxNack)
	RetxTrim      = Counter(pds.RetxTrim)
	RetxInfer     = Counter(pds.RetxInfer)
	RetxEV        = Counter(pds.RetxEV)
	RetxProbe     = Counter(pds.RetxProbe)
	RetxGoBack    = Counter(pds.RetxGoBack)
	RetxRebase    = Counter(pds.RetxRebase)
	RTOExhausted  = Counter(pds.RTOExhausted)
	NackExhausted = Counter(pds.NackExhausted)
	Recoveries    = Counter(pds.Recoveries)
	TailProbes    = Counter(pds.TailProbes)
	RODDrop       = Counter(pds.RODDrop)
	OutOfRange    = Counter(pds.OutOfRange)
	MPRZero       = Counter(pds.MPRZero)
	NewPDCTimeout = Counter(pds.NewPDCTimeout)
	CloseTimeout  = Counter(pds.CloseTimeout)
	RUDITx        = Counter(pds.RUDITx)
	RUDIRetx      = Counter(pds.RUDIRetx)
	RUDIRx        = Counter(pds.RUDIRx)
	RUDIRespTx    = Counter(pds.RUDIRespTx)
	RUDIRespRx    = Counter(pds.RUDIRespRx)
	RUDILate      = Counter(pds.RUDILate)
	UUDTx         = Counter(pds.UUDTx)
	UUDRx         = Counter(pds.UUDRx)
	UUDDrop       = Counter(pds.UUDDrop)
	CreditRx      = Counter(pds.CreditRx)
	NegotiationRx = Counter(pds.NegotiationRx)
	CNPTx         = Counter(pds.CNPTx)
	CNPRx         = Counter(pds.CNPRx)
	Paused        = Counter(pds.Paused)
	PDCsOpen      = Counter(pds.PDCs)
)

// Counters of messages.
const (
	MsgsTx       Counter = Counter(pds.NumCounters) + iota // messages completed at the initiator
	MsgsRx                                                 // messages completed at the target
	MsgsErr                                                // operations completed in error, both roles
	RespErrTx                                              // error responses given
	ReadsRx                                                // reads answered
	ReadLate                                               // read data that nobody waits for
	AtomicsRx                                              // atomics executed
	Restarts                                               // messages sent again as new ones
	DeferredTx                                             // messages that their target deferred
	DeferredRx                                             // messages deferred, for want of a receive
	RTRTx                                                  // senders told that their deferred message may come
	RTRRx                                                  // deferred messages that began anew since their target was ready
	RendezvousTx                                           // rendezvous sends begun
	RendezvousRx                                           // rendezvous messages whose rest was read
	Rereads                                                // those of them of which nothing had been kept
	EarlyRx                                                // messages kept, whole or in part, for want of a receive
	EarlyMsgs                                              // such messages in use, deferred ones not counted
	EarlyBytes                                             // bytes of them
	EarlyLapsed                                            // messages dropped since no receive came in time
	NoticesTx                                              // AI Base: senders told of a receive
	NoticesRx
	NumCounters
)

// Counters are an end point's counters, indexed by Counter. It is one flat array and can be copied into a shared page.
type Counters [NumCounters]uint64

// pds is the part that packet delivery counts in.
func (c *Counters) pds() *pds.Counters { return (*pds.Counters)(c[:pds.NumCounters]) }

var counterNames = [NumCounters - MsgsTx]string{"msgs_tx", "msgs_rx", "msgs_err", "resp_err_tx", "reads_rx", "read_late", "atomics_rx",
	"restarts", "deferred_tx", "deferred_rx", "rtr_tx", "rtr_rx", "rendezvous_tx", "rendezvous_rx", "rereads", "early_rx", "early_msgs",
	"early_bytes", "early_lapsed", "notices_tx", "notices_rx"}

// String is the counter's name in tables and metrics.
func (c Counter) String() string {
	if c < MsgsTx {
		return pds.Counter(c).String()
	}
	return counterNames[c-MsgsTx]
}

// IsGauge says whether the value can fall.
func (c Counter) IsGauge() bool {
	return c < MsgsTx && pds.Counter(c).IsGauge() || c == EarlyMsgs || c == EarlyBytes
}

// ReturnCodes counts error responses by their code.
type ReturnCodes struct{ Tx, Rx [64]uint64 }
