package pds

import "github.com/uetlab/uetlab/wire"

// Counter numbers a manager's counters; Counters holds one value for each.
type Counter int

// The counters of a manager.
const (
	DataTx       Counter = iota // data packets sent, retransmissions included
	DataTxBytes                 // their payload bytes
	DataRx                      // new data packets accepted
	DataRxBytes                 // their payload bytes
	Retx                        // packets sent again
	RTO                         // retransmission timeouts of packets
	DupRx                       // data packets that had arrived before
	AckTx                       // ACKs sent
	AckRx                       // ACKs accepted
	NackTxTrim                  // NACKs sent: trimmed
	NackTxRes                   // NACKs sent: no resource (0x04-0x0A)
	NackTxPDC                   // NACKs sent: window, or the PDC cannot go on
	NackRxTrim                  // NACKs received: trimmed
	NackRxRes                   // NACKs received: no resource, window
	NackRxPDC                   // NACKs received: the PDC cannot go on
	NackRxOther                 // NACKs received: all other codes
	CtrlTx                      // control packets sent
	CtrlRx                      // control packets accepted
	CEMarked                    // accepted data packets with CE
	Trimmed                     // trimmed packets received
	CRCBad                      // UET packets with a wrong CRC, dropped
	Malformed                   // UET packets that do not parse, dropped
	Unsupported                 // UET packets of a kind that means nothing here, dropped
	UnknownPDCID                // packets that name no PDC of ours
	StaleAck                    // ACKs and NACKs beyond what is in flight, dropped
	CtlOverflow                 // ACKs, NACKs and control packets lost because too many waited
	PDCOpened                   // PDCs opened, both roles
	PDCClosed                   // PDCs closed in order
	PDCFailed                   // PDCs closed in error
	PDCExpired                  // PDCs forgotten because the peer was silent
	CSIGRx                      // packets received with a CSIG tag
	GtdInUse                    // gauge: stored responses

	RetxRTO       // sent again because of a timeout
	RetxNack      // … a NACK that is neither for a trim nor for order
	RetxTrim      // … a trim
	RetxInfer     // … inference from later packets
	RetxEV        // … inference from later packets with the same entropy value
	RetxProbe     // … the answer to a Probe or ACK Request
	RetxGoBack    // … ROD going back
	RetxRebase    // sent again from a new Start_PSN
	RTOExhausted  // PDCs and RUDI messages given up after Max_RTO_Retx_Cnt
	NackExhausted // … after Max_NACK_Retx_Cnt
	Recoveries    // times that inference found a loss while none was being repaired
	TailProbes    // Probes and ACK Requests sent to a silent tail
	RODDrop       // ROD packets dropped because they were out of order
	OutOfRange    // packets outside the window
	MPRZero       // ACKs with mpr 0, taken as 1
	NewPDCTimeout // PDCs whose demanded Start_PSN never came
	CloseTimeout  // Close Commands and Close Requests without an answer
	RUDITx        // RUDI requests sent, retransmissions included
	RUDIRetx      // RUDI requests sent again
	RUDIRx        // RUDI requests received
	RUDIRespTx    // RUDI responses sent
	RUDIRespRx    // RUDI responses accepted
	RUDILate      // RUDI responses and NACKs that nobody waits for
	UUDTx         // UUD packets sent
	UUDRx         // UUD packets that SES took
	UUDDrop       // UUD packets dropped: no buffer, trimmed, wrong
	CreditRx      // Credit and Credit Request CPs
	NegotiationRx // Negotiation CPs, which are ignored
	CNPTx         // DCQCN: ACKs sent as congestion notifications
	CNPRx         // DCQCN: ACKs received as congestion notifications
	Paused        // times that no PDC was free for a message
	PDCs          // gauge: PDCs there are
	NumCounters
)

// Counters are a manager's counters, indexed by Counter.
type Counters [NumCounters]uint64

var counterNames = [NumCounters]string{
	"data_tx", "data_tx_bytes", "data_rx", "data_rx_bytes", "retx", "rto", "dup_rx", "acks_tx", "acks_rx",
	"nacks_tx_trimmed", "nacks_tx_resource", "nacks_tx_pdc", "nacks_rx_trimmed", "nacks_rx_resource", "nacks_rx_pdc", "nacks_rx_other",
	"ctrl_tx", "ctrl_rx", "ce_marked", "trimmed_rx", "crc_bad", "malformed", "unsupported", "unknown_pdcid", "stale_ack",
	"ctl_overflow", "pdc_open", "pdc_close", "pdc_error", "pdc_expire", "csig_rx", "gtd_in_use",
	"retx_rto", "retx_nack", "retx_trim", "retx_infer", "retx_ev", "retx_probe", "retx_goback", "retx_rebase",
	"rto_exhausted", "nack_exhausted", "recoveries", "tail_probes", "rod_ooo_drop", "out_of_range", "mpr_zero",
	"new_pdc_timeout", "close_timeout", "rudi_tx", "rudi_retx", "rudi_rx", "rudi_resp_tx", "rudi_resp_rx", "rudi_late",
	"uud_tx", "uud_rx", "uud_drop", "credit_rx", "negotiation_rx", "cnp_tx", "cnp_rx", "paused", "pdcs",
}

// String is the counter's name in tables and metrics.
func (c Counter) String() string { return counterNames[c] }

// IsGauge says whether the value can fall.
func (c Counter) IsGauge() bool { return c == GtdInUse || c == PDCs }

func nackTxCounter(c wire.NackCode) Counter {
	if c == wire.NackTrimmed || c == wire.NackTrimmedLastHop {
		return NackTxTrim
	}
	if c >= wire.NackNoPDCAvail && c <= wire.NackNoResource {
		return NackTxRes
	}
	return NackTxPDC
}

// Cause is why a packet was sent again.
type Cause uint8

// Causes of retransmissions.
const (
	CauseRTO    Cause = iota
	CauseNack         // a NACK that is neither for a trim nor for order
	CauseTrim         //
	CauseInfer        // later packets arrived
	CauseEV           // later packets with the same entropy value arrived
	CauseProbe        // the answer to a Probe or ACK Request
	CauseGoBack       // ROD
	CauseRebase       // new Start_PSN
	NumCauses
)

// Counter counts what was sent again for the cause.
func (c Cause) Counter() Counter { return RetxRTO + Counter(c) }

// String is the cause's name in tables.
func (c Cause) String() string { return counterNames[c.Counter()][len("retx_"):] }
