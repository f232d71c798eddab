// Package cms is the congestion control of the congestion management sublayer (uet-cms.md): how many bytes a source may have in
// flight to a peer. A Context is the state of one pair of peer FEP and traffic class, shared by all PDCs between them; each of
// these PDCs owns a Flow, its share of the context's bytes. The destination's side is here too: Pacer grants credit (RCCC),
// Pend is the penalty of a full receiver, CNP paces the notifications of DCQCN.
//
// Algorithms: NSCC, RCCC, both together; to compare with: a fixed window, DCTCP, MPRDMA, Swift, EQDS, DCQCN, and the Swift of UCCL.
//
// It reads and writes no packets, owns no timers, and picks no entropy values: the caller tells what happened, when, and asks
// whether it may send. TFC is not here, nor STrack. Loss detection and its timers belong to the caller. Nothing is allocated after
// a context is opened; contexts, flows and pacers are for one goroutine. Products that are added to something are converted
// first, so that no machine fuses the two and all give the same result.
package cms
