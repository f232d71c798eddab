package fep

import (
	"time"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/internal/wheel"
	"github.com/uetlab/uetlab/wire"
)

// Kinds of packets of a message besides those that carry it.
const (
	kindMsgError = 1 // ends a message early (uet-pds-ses.md 13.5)
	kindEarlyEnd = 2 // ends a deferred one before all of it was sent (15.4)
)

// txState is where a message is in its life at its initiator (uet-pds-ses.md 20.1).
type txState uint8

const (
	txHeld      txState = iota // waits behind an earlier one of its stream
	txSending                  // packet delivery has it
	txWaitData                 // all is acknowledged, read data is missing
	txBackoff                  // restarts
	txServing                  // all is acknowledged, the target has not read the rest (rendezvous)
	txDeferred                 // waits until its target is ready for it (AI Full)
	txAwaits                   // waits for the target's notice of a receive (AI Base)
	txAbandoned                // completed, while packet delivery still has it: its endpoint is closed
	txDone
)

// txMsg is a message at its initiator, from the call to the completion. It implements pds.Sender.
type txMsg struct {
	pds.Msg
	ep     *Endpoint
	to     *peer
	dst    int
	state  txState
	kind   Kind
	op     wire.Opcode
	form   wire.NextHdr // of its requests
	flags  Flags
	broken bool // the own buffer could not be read: ie
	done   bool // packet delivery has nothing more to do
	gen    uint8

	mid     uint16
	verdict wire.ReturnCode    // the first error response
	length  uint32             // request_length
	sent    uint32             // bytes handed to packets
	got     uint32             // bytes of data that came
	want    uint32             // bytes of data that must come
	buf     Buffer             // what is sent
	in      Buffer             // what comes back: read data, old values
	ext     *wire.AtomicFields // atomics
	match   uint64             // match bits or memory key
	offset  uint64             // buffer_offset
	data    uint64             // header data
	ctx     uint64
	job     uint32 // of its packets
	early   txEarly
	posted  vt.Time
	last    vt.Time // data came, or all was acknowledged
	psn     wire.PSN
	psnOn   uint16 // the PDC of psn: a read without message ID is known by them

	inject       []byte // copies are made here
	restarts     uint8
	wait         time.Duration // the first backoff
	timer        wheel.Timer   // of the next restart
	stream       *stream
	before       *txMsg // in the stream
	after        *txMsg
	links[txMsg] // in Endpoint.open, or in the pool
}

// txPool is messages that have ended.
type txPool struct{ free *txMsg }

func (p *txPool) get() *txMsg {
	m := p.free
	if m == nil {
		return &txMsg{}
	}
	p.free = m.next
	*m = txMsg{inject: m.inject}
	return m
}

func (p *txPool) put(m *txMsg) { m.next, p.free = p.free, m }

// isRead says that data comes back instead of going out.
func (m *txMsg) isRead() bool { return m.op == wire.OpRead }

// isSend says that a receive of the peer is wanted.
func (m *txMsg) isSend() bool { return m.kind == OpSend || m.kind == OpTagSend }

// freeID gives back what the message is known by to its target.
func (m *txMsg) freeID() {
	f := m.ep.f
	if m.mid != 0 {
		f.mids.put(m.mid)
		if m.isRead() {
			delete(f.reads, m.mid)
		}
		m.mid = 0
	}
	f.unexpect(m)
}

// complete ends an initiator's operation of which packet delivery knows nothing any more.
func (m *txMsg) complete(now vt.Time, err error) {
	m.finish(now, err)
	m.settled(now)
}

// finish tells the application and lets go of its buffers.
func (m *txMsg) finish(now vt.Time, err error) {
	f := m.ep.f
	switch {
	case m.early.internal:
	case err == nil:
		f.C[MsgsTx]++
	default:
		f.C[MsgsErr]++
	}
	m.ep.open.remove(m)
	m.buf, m.in = Buffer{}, Buffer{}
	c := Completion{Kind: m.kind, Ctx: m.ctx, Len: int(m.length), Tag: m.match, Src: m.dst, Err: err, Posted: m.posted, Acked: now}
	if m.early != (txEarly{}) {
		m.finishEarly(now, &c)
	}
	if !m.early.internal {
		m.ep.deliver(now, c)
	}
	if s := m.stream; s != nil {
		flying := m.state == txSending
		s.remove(now, m, err == nil)
		m.stream = nil
		if flying {
			s.landed(now, m)
		}
	}
}

// settled gives back the last of a message.
func (m *txMsg) settled(now vt.Time) {
	m.state = txDone
	m.freeID()
	m.Unlock(now)
	m.ep.f.tx.put(m)
}

// abandon ends an operation whose endpoint is closed. What packet delivery still has of it goes on without the buffer.
func (m *txMsg) abandon(now vt.Time) {
	with := m.state == txSending && !m.done
	m.ep.f.m.Disarm(&m.timer)
	m.finish(now, ErrClosed)
	if with {
		m.state = txAbandoned
		return
	}
	m.settled(now)
}
