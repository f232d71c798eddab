package pds

import (
	"fmt"
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Mode is how packets are delivered.
type Mode uint8

// Delivery modes.
const (
	RUD  Mode = iota // reliable, unordered
	ROD              // reliable, ordered
	RUDI             // reliable, unordered, for idempotent operations: no PDC
	UUD              // unreliable, unordered: one packet
)

var modeNames = [...]string{"RUD", "ROD", "RUDI", "UUD"}

// String is the standard's name.
func (m Mode) String() string { return modeNames[m&3] }

// Msg is a message to be sent, or the return data of a read: a run of packets on one PDC, cut when they can leave. SES makes
// it part of its own record, fills in the first block and hands it to Submit or Return; it is PDS's until Done or Failed.
type Msg struct {
	S    Sender
	Peer netip.Addr
	Job  uint32
	Ctx  uint32 // rod_context: ordered messages with the same one stay in order
	TC   uint8  // part of the choice of the PDC
	Mode Mode
	Lock bool  // lock_pdc: the PDC stays open until Unlock
	More bool  // a part of something longer: its last packet is no reason to ask for an ACK
	Len  int64 // bytes, for the choice of the PDC with the least to do

	pdc     *PDC
	m       *Manager
	next    *Msg
	left    int64 // of Len, not cut into packets yet
	unacked int32
	begun   bool // something of it has arrived
	whole   bool // its last packet was cut
	failed  bool
	locked  bool
	lockIn  int      // place in pdc.locks
	rudi    *rudiPkt // its packets under way, RUDI
	since   vt.Time  // RUDI, UUD: when it was submitted
}

// Unlock releases the PDC of a message with Lock. It may be called twice, or after the message failed.
func (m *Msg) Unlock(now vt.Time) {
	if !m.locked {
		return
	}
	p := m.pdc
	m.unlock()
	p.makeRoom(now)
	p.tryClose(now)
}

func (m *Msg) unlock() {
	if m.locked {
		p := m.pdc
		last := p.locks[len(p.locks)-1]
		p.locks[m.lockIn], last.lockIn = last, m.lockIn
		p.locks[len(p.locks)-1] = nil
		p.locks = p.locks[:len(p.locks)-1]
		if len(p.locks) == 0 {
			p.locks = nil
		}
		m.locked = false
	}
}

// PDCID is the local id of the PDC that carries the message, 0 if there is none.
func (m *Msg) PDCID() uint16 {
	if m.pdc == nil {
		return 0
	}
	return m.pdc.id
}

// Sender is SES's side of a message under way. The packets that it describes stay in PDS's ring; it keeps no pointer to them.
type Sender interface {
	// Next says how many bytes of payload the next packet has, and which header.
	Next() (payload int, next wire.NextHdr)
	// Cut fixes the next packet: Off, N and Kind. It reports whether that is the last one.
	Cut(k *Packet) (last bool)
	// Header appends the SES header of the packet, whenever it is sent.
	Header(b []byte, k *Packet) []byte
	// Payload is the N bytes behind the header. They are not written before the message is done.
	Payload(k *Packet) []byte
	// Response is rx_rsp: the semantic response to the packet, header and data; never called for a default response.
	Response(now vt.Time, k *Packet, next wire.NextHdr, resp []byte)
	// Done says that all packets were cut and acknowledged; UUD: sent.
	Done(now vt.Time)
	// Rewind is called when the PDC ended before anything of the message arrived: the message begins anew, if it may.
	Rewind() bool
	// Failed is error: the message will not be delivered, or not its response. Nothing else is called afterwards.
	Failed(now vt.Time, err *Error)
}

// Request is a packet for SES: rx_req, or rx_ret where Return is set. It lives until the call returns.
type Request struct {
	PDC    *PDC // nil: RUDI, UUD
	Mode   Mode
	Return bool // data that comes back on a PDC of ours
	Src    netip.Addr
	PSN    wire.PSN
	Next   wire.NextHdr
	B      []byte // SES header and payload
	Ref    []byte // the payload, where it has come by reference
	Blocks bool   // the PDC, or others, cannot go on before it is taken: to wait for room could be for ever

	pktID uint32
	ev    uint16
	flags uint8
	size  int
}

// Response is SES's answer to a request: tx_rsp. It comes in blank, which stands for a default response.
type Response struct {
	Later bool  // SES answers with Answer; until then the packet is not acknowledged
	Gtd   bool  // gtd_del: the response must not be lost
	Pend  uint8 // what SES lacks room for puts on the source's window: rcv_cwnd_pend, 0..127 (uet-cms.md section 5)
	Job   uint32
	Bytes int          // payload bytes taken
	Next  wire.NextHdr // header form of H, NextNone for a default response
	N     uint8        // bytes of H
	H     [20]byte
	Data  []byte // behind H. It is read again whenever the response is repeated, until the response is cleared.
}

// Set writes a RESPONSE.
func (r *Response) Set(f *wire.ResponseFields) {
	r.Next, r.N = wire.NextResponse, uint8(len(wire.AppendSESResponse(r.H[:0], f)))
}

// SetData writes a RESPONSE_DATA with the data behind it.
func (r *Response) SetData(f *wire.ResponseDataFields, data []byte) {
	r.Next, r.N, r.Data = wire.NextResponseData, uint8(len(wire.AppendSESResponseData(r.H[:0], f))), data
}

// SetDataSmall writes a RESPONSE_DATA_SMALL with the data behind it.
func (r *Response) SetDataSmall(f *wire.ResponseDataSmallFields, data []byte) {
	r.Next, r.N, r.Data = wire.NextResponseDataSmall, uint8(len(wire.AppendSESResponseDataSmall(r.H[:0], f))), data
}

// append writes the response, or the default one.
func (r *Response) append(b []byte) []byte {
	if r.Next == wire.NextNone {
		return wire.AppendSESResponse(b, &wire.ResponseFields{
			RespFields: wire.RespFields{Opcode: wire.RespDefault, ReturnCode: wire.RCOK, JobID: r.Job}})
	}
	b = append(b, r.H[:r.N]...)
	return append(b, r.Data...)
}

// next is the header form that append writes.
func (r *Response) next() wire.NextHdr {
	if r.Next == wire.NextNone {
		return wire.NextResponse
	}
	return r.Next
}

// Upper is SES as PDS sees it.
type Upper interface {
	// Request hands over a packet, each one once, except RUDI's. SES fills in r. A code other than 0 refuses the packet for
	// now: PDS answers with that NACK and acts as if the packet had not come; of UUD it is dropped.
	Request(now vt.Time, q *Request, r *Response) wire.NackCode
	// Closed says that a PDC is gone, and with it whatever was unfinished on it; err is nil if it was closed in order.
	Closed(now vt.Time, p *PDC, err *Error)
	// Pause says that new messages wait for a PDC, or for room for RUDI packets, or that they do no longer.
	Pause(now vt.Time, pdc, rudi bool)
}

// Handle names a request that SES answers later.
type Handle struct {
	p     *PDC
	gen   uint64
	epoch uint64
	src   netip.Addr
	psn   wire.PSN // RUDI: pkt_id
	ev    uint16
	flags uint8
	mode  Mode
}

// Handle is for Answer.
func (q *Request) Handle() Handle {
	h := Handle{p: q.PDC, src: q.Src, psn: q.PSN, ev: q.ev, flags: q.flags, mode: q.Mode}
	if q.PDC != nil {
		h.gen, h.epoch = q.PDC.gen, q.PDC.m.epoch
	} else {
		h.psn = wire.PSN(q.pktID)
	}
	return h
}

// Error is the failure of a PDC, or of a RUDI message, with operations under way.
type Error struct {
	PDC  uint16        // local PDCID, 0: RUDI
	Code wire.NackCode // what the peer said; 0: it did not answer, retransmissions are used up
}

// Error implements error.
func (e *Error) Error() string {
	what := fmt.Sprintf("PDC 0x%04x", e.PDC)
	if e.PDC == 0 {
		what = "RUDI message"
	}
	if e.Code == 0 {
		return "fep: " + what + " failed: the peer did not acknowledge in time"
	}
	return fmt.Sprintf("fep: %s failed: the peer sent NACK %v", what, e.Code)
}
