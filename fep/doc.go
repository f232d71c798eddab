// Package fep is the Ultra Ethernet end point: libfabric-shaped endpoints and SES messages on top of package pds, which
// delivers their packets. It is a state machine without goroutines, sockets or clock: an engine.Node hands it frames, timers
// and the port's wish for a next frame, all at virtual times.
//
//	TagSend, Send, Write, Read, Datagram …        TagRecv, Recv, Register       completions (class 4 calls)
//	        │ one txMsg each                              │ posted receives             ▲
//	        ▼                                             ▼                             │
//	┌─ SES, initiator ───────────────┐        ┌─ SES, target ────────────────────────┐  │
//	│ describe packets when they     │        │ match on the first packet, place     ├──┤
//	│ leave, take responses and read │        │ out of order, one response each,     │  │
//	│ data, one completion           ├──┐     │ read data back                       │  │
//	└──────┬──────────────▲──────────┘  └────►└──────▲────────────┬──────────┬───────┘  │
//	  Submit│             │Response, Done, Failed    │Request     │Response  │Return    │
//	┌─ pds ─▼─────────────┴──────────────────────────┴────────────▼──────────▼───────┐  │
//	│ PDCs, PSNs, windows, ACKs, loss, control packets; RUDI and UUD                 ├──┘
//	└───────┬──────────────────────────────────────────────────────▲─────────────────┘ errors
//	   NextFrame                                                 Arrive
//
// Packets are pulled: the port asks NextFrame when its serializer is free, and the packet is built then. Payload is read from
// the caller's buffer, again for a retransmission, so a buffer belongs to the FEP until its completion.
//
// What it does: SEND, TAGGED_SEND, WRITE and READ with standard headers in RUD or, on an ordered endpoint, ROD; idempotent WRITE
// and READ in RUDI; datagrams in UUD. It refuses, with the standard's codes, atomics, rendezvous and deferrable sends, completion
// data, and the optimized headers except for datagrams. Rules follow uet-pds-ses.md, layouts uet-wire.md (UE 1.0.3).
package fep
