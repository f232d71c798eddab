// Package fep is the Ultra Ethernet end point: libfabric-shaped endpoints on top, SES messages and PDS delivery contexts
// (PDCs) below, packets at the bottom. It is a state machine without goroutines, sockets or clock: an engine.Node hands
// it frames, timers and the port's wish for a next frame, all at virtual times.
//
//	TagSend, Send, Write                          TagRecv, Recv, Register       completions (class 4 calls)
//	        │ one txMsg each                              │ posted receives             ▲
//	        ▼                                             ▼                             │
//	┌─ SES ──────────────┐                       ┌─ SES ─────────────────────────────┐  │
//	│ pick a PDC, cut    │                       │ match on the first packet, place  ├──┤
//	│ into packets       │                       │ out of order, one response each   │  │
//	└───────┬────────────┘                       └──────▲──────────────────┬─────────┘  │
//	┌─ PDS source ───────┐  ACK, NACK completes  ┌─ PDS destination ───────▼─────────┐  │
//	│ ring of unacked    │◄──────────────┐       │ window, duplicates, CACK, SACK,   │  │
//	│ PSNs, RTO, window  ├───────────────┼───────┤ stored responses, when to ACK     │  │
//	└───────┬────────────┘  done, failed │       └──────▲──────────────────┬─────────┘  │
//	        │ new, again                 └──────────────│──────────────────│────────────┘
//	        ▼                                           │                  ▼
//	   NextFrame: 1 control queue ◄─────────────────────│──── ACK, NACK and CP descriptors
//	              2 retransmissions in PSN order        │
//	              3 new data, round robin over PDCs   Arrive: parse, CRC, PDC lookup
//
// Packets are pulled: the port asks NextFrame when its serializer is free, and the packet is built then, with the state of
// that moment. Between that and the ring entry of its PSN nothing is copied: payload is read from the caller's buffer
// again for a retransmission, so a buffer belongs to the FEP until its completion.
//
// What it does: RUD over UDP, 0-RTT opening, cumulative and selective acknowledgement, guaranteed delivery of error
// responses, RTO and NACK retransmission, a fixed window per PDC, SEND, TAGGED_SEND and WRITE with standard headers. It
// refuses, with the standard's codes, ROD, RUDI, UUD, READ, atomics, the optimized headers and TSS. Rules follow
// uet-pds-ses.md, layouts uet-wire.md (UE 1.0.3).
package fep
