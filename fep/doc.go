// Package fep is the Ultra Ethernet end point: libfabric-shaped endpoints and SES messages on top of package pds, which
// delivers their packets. It is a state machine without goroutines, sockets or clock: an engine.Node hands it frames, timers
// and the port's wish for a next frame, all at virtual times.
//
//	Post: send, write, read, atomic …             Post: receives; RegisterMR     completions (class 4 calls)
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
// A peer that restarts has forgotten its PDCs. Operations under way end within Patience of package pds (63 ms), done if the PDC was
// still being opened, else with INV_DPDCID or with used-up retransmissions; a read that was already accepted ends after MessageIdle
// (5 s), and so does a receive that had begun. A PDC that was idle costs one operation. What comes after that works.
//
// What it does: sends (untagged and tagged, with header data), writes (with immediate data), reads and atomics with standard headers, or
// the optimized ones between two that take them, in RUD or, on an ordered endpoint, ROD; idempotent writes and reads in RUDI; datagrams
// in UUD. Messages that come before their receive are kept, or read later (HPC), deferred (AI Full), or cannot be (AI Base, where a receive
// tells its source). It refuses, with the standard's codes, atomics into tagged receives, and vendors' operations. Rules follow
// uet-pds-ses.md, layouts uet-wire.md (UE 1.0.3).
//
// Where to look: what an operation is, in op.go; how it goes out, txMsg.plan; what a response means for it, txMsg.react; what becomes of it
// when nothing is under way any more, txMsg.drained; how it begins anew, txMsg.restart. At the target: the order of checks, FEP.admit;
// what becomes of a message that wants a receive, FEP.match; of one that finds none, landing, FEP.keepMessage and FEP.deferMessage; of a receive that a message waits for, RecvQueue.waited; what a packet
// does, FEP.perform; when a message is whole, FEP.account.
//
// Memory belongs to whoever opened it: Endpoint.Close and Deregister return only when nothing of the FEP refers to it any more. That is why
// messages ask for their memory with every packet, and answers that have to be kept have copies of their data.
package fep
