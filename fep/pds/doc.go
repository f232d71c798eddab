// Package pds is the packet delivery sublayer of an end point: it moves single packets in four delivery modes and knows
// nothing of what is in them. It is a state machine without goroutines, sockets or clock, and without knowledge of SES: that
// talks to it through Msg and Sender (what is to be sent) and Upper (what has come).
//
//	Submit(Msg)   Return(Msg)             Sender.Response, Done, Failed      Upper.Request, Closed      Answer
//	tx_req        tx_ret                  rx_rsp, error                      rx_req, rx_ret             tx_rsp
//	     │             │                        ▲                                 ▲                       │
//	┌─ Manager: which PDC, pools, RUDI, UUD ────┼─────────────────────────────────┼───────────────────────┼──┐
//	│    ▼             ▼                        │                                 │                       ▼  │
//	│ ┌─ PDC, source ────────────┐  ACK, NACK   │        ┌─ PDC, destination ─────┴──────────────────────┐  │
//	│ │ ring of unacked PSNs,    │◄─────────────┼────────┤ window, duplicates, CACK, SACK, stored         │  │
//	│ │ window, RTO, inference   ├──────────────┘        │ responses, when to ACK                         │  │
//	│ └──────┬───────────────────┘                       └──────▲──────────────────────┬──────────────────┘  │
//	└────────┼──────────────────────────────────────────────────┼──────────────────────┼─────────────────────┘
//	         ▼                                                  │                      ▼
//	    NextFrame: 1 control queue ◄────────────────────────────│──── ACK, NACK and CP descriptors
//	               2 retransmissions in PSN order               │
//	               3 new data in turn                         Packet: CRC, PDC lookup
//
// Both ends of a PDC have both halves: forward packets go from the initiator's source to the target's destination, read data
// the other way. Packets are pulled: the port asks NextFrame when its serializer is free, and the packet is built then, with
// the state of that moment. Between that and the ring entry of its PSN nothing is copied: SES gives header and payload
// again for a retransmission.
//
// How much may be in flight, and which way it goes, fep/cms and fep/lb decide, if the configuration has them: else the window is
// fixed, and entropy values are drawn. It does not encrypt (Secure has the
// rules for PSNs), and does not interpret SES headers beyond the JobID. Rules follow uet-pds-ses.md sections 3 to 12, layouts
// uet-wire.md (UE 1.0.3).
package pds
