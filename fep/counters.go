package fep

import "github.com/uetlab/uetlab/wire"

// Counter numbers an end point's counters; Counters holds one value for each.
type Counter int

// The counters of an end point.
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
	Unsupported                 // UET packets of a kind that is not built, dropped
	UnknownPDCID                // packets that name no PDC of ours
	StaleAck                    // ACKs and NACKs beyond what is in flight, dropped
	CtlOverflow                 // ACKs, NACKs and control packets lost because too many waited
	PDCOpened                   // PDCs opened, both roles
	PDCClosed                   // PDCs closed in order
	PDCFailed                   // PDCs closed in error
	PDCExpired                  // PDCs forgotten because the peer was silent
	MsgsTx                      // messages completed at the initiator
	MsgsRx                      // messages completed at the target
	MsgsErr                     // operations completed in error, both roles
	RespErrTx                   // error responses given
	CSIGRx                      // packets received with a CSIG tag
	GtdInUse                    // gauge: stored responses
	NumCounters
)

// Counters are an end point's counters, indexed by Counter. It is one flat array and can be copied into a shared page.
type Counters [NumCounters]uint64

var counterNames = [NumCounters]string{
	"data_tx", "data_tx_bytes", "data_rx", "data_rx_bytes", "retx", "rto", "dup_rx", "acks_tx", "acks_rx",
	"nacks_tx_trimmed", "nacks_tx_resource", "nacks_tx_pdc", "nacks_rx_trimmed", "nacks_rx_resource", "nacks_rx_pdc", "nacks_rx_other",
	"ctrl_tx", "ctrl_rx", "ce_marked", "trimmed_rx", "crc_bad", "malformed", "unsupported", "unknown_pdcid", "stale_ack",
	"ctl_overflow", "pdc_open", "pdc_close", "pdc_error", "pdc_expire", "msgs_tx", "msgs_rx", "msgs_err", "resp_err_tx",
	"csig_rx", "gtd_in_use",
}

// String is the counter's name in tables and metrics.
func (c Counter) String() string { return counterNames[c] }

// IsGauge says whether the value can fall.
func (c Counter) IsGauge() bool { return c == GtdInUse }

func nackTxCounter(c wire.NackCode) Counter {
	if c == wire.NackTrimmed || c == wire.NackTrimmedLastHop {
		return NackTxTrim
	}
	if c >= wire.NackNoPDCAvail && c <= wire.NackNoResource {
		return NackTxRes
	}
	return NackTxPDC
}
