package llr

import "github.com/uetlab/uetlab/internal/vt"

// RXState is a state of the receiving side.
type RXState uint8

// The states of uet-link-switch 2.5.
const (
	RXOff    RXState = iota // no LLR_INIT yet
	SendAcks                // all is well
	SendNack                // a frame is missing, and the NACK waits for the line
	NackSent                // it has left; everything but the frame expected is dropped
)

var rxStateNames = [...]string{"OFF", "SEND_ACKS", "SEND_NACK", "NACK_SENT"}

// String is the standard's name.
func (s RXState) String() string { return rxStateNames[s] }

// RX is the receiving side of one direction of a link.
type RX struct {
	cfg   *Config
	c     *Counters
	state RXState
	on    bool   // answers LLR_INIT
	next  uint32 // number expected: next_rx_seq
	bytes int64  // accepted since the latest ACK
	due   bool   // an ACK waits for the line

	ackAt   vt.Time // the first frame without ACK has waited long enough then, Never if there is none
	arrived vt.Time // when the latest eligible frame came
	refresh vt.Time // the latest ACK is repeated then, unless no frame has come for long

	echo     bool // an echo waits for the line
	echoSeq  uint32
	echoData uint16

	in        dwell
	again     replayed // what the replay that is coming in has brought
	lastAgain uint32   // its latest frame
	spurious  uint64   // replays that brought nothing new
}

// NewRX makes a receiving side that waits for LLR_INIT.
func NewRX(cfg *Config, c *Counters) *RX {
	r := &RX{cfg: cfg, c: c}
	r.start()
	return r
}

func (r *RX) start() {
	*r = RX{cfg: r.cfg, c: r.c, state: r.state, on: true, ackAt: vt.Never, refresh: vt.Never, in: r.in, spurious: r.spurious}
}

func (r *RX) to(now vt.Time, s RXState) {
	r.in.leave(now, uint8(r.state))
	r.state = s
	r.c[RxState] = uint64(s)
}

// Again answers LLR_INIT from now on, with new parameters. Until one comes, numbers mean what they did: frames may be on their way.
func (r *RX) Again(cfg *Config) { r.cfg, r.on = cfg, true }

// Stop answers no LLR_INIT any more; frames with a number go on as before.
func (r *RX) Stop() { r.on = false }

// Reset begins with number seq as if a handshake had just ended, for both ends of a link at once. Begin says when that is.
func (r *RX) Reset(seq uint32) {
	r.start()
	r.state, r.next, r.c[RxState] = SendAcks, seq&SeqMask, uint64(SendAcks)
}

// On says whether frames are protected: a number means something.
func (r *RX) On() bool { return r.state != RXOff }

// Expected is the number of the frame expected next.
func (r *RX) Expected() uint32 { return r.next }

// Init takes an LLR_INIT.
func (r *RX) Init(now vt.Time, seq uint32, data uint16) {
	r.c[RxInit]++
	if !r.on {
		return
	}
	r.to(now, SendAcks)
	r.Reset(seq)
	r.echo, r.echoSeq, r.echoData = true, seq, data
}

// Data takes an eligible frame of n bytes and says whether it is to be delivered.
func (r *RX) Data(now vt.Time, seq uint32, fcs FCS, n int) (deliver bool) {
	r.c[RxOK+Counter(fcs)]++
	if r.arrived = now; r.refresh < now || r.refresh == vt.Never {
		r.refresh = now.Add(r.cfg.AckDelay)
	}
	switch off := (seq - r.next) & SeqMask; {
	case off >= 1<<19:
		r.c[RxDuplicate]++
		return false
	case off > 0:
		r.c[RxMissing]++
		r.gap(now)
		return false
	}
	r.c[RxExpected+Counter(fcs)]++
	if fcs == Bad {
		r.gap(now)
		return false
	}
	if r.state != SendAcks {
		r.to(now, SendAcks)
		r.c[RxReplay]++
	}
	r.next = (r.next + 1) & SeqMask
	if r.bytes += int64(n); r.bytes >= r.cfg.AckEvery {
		r.due = true
	}
	if r.ackAt == vt.Never {
		r.ackAt = now.Add(r.cfg.AckDelay)
	}
	return fcs == Good
}

func (r *RX) gap(now vt.Time) {
	if r.state == SendAcks {
		r.to(now, SendNack)
	}
}

// refreshAt is when the latest ACK is repeated, lest its loss costs a replay.
func (r *RX) refreshAt() vt.Time {
	if r.state != SendAcks || r.refresh > r.arrived.Add(refreshIdle) {
		return vt.Never
	}
	return r.refresh
}

// Deadline is when Timer wants to be called, vt.Never if not at all.
func (r *RX) Deadline() vt.Time {
	if r.due {
		return vt.Never
	}
	return min(r.ackAt, r.refreshAt())
}

// Timer handles what is due by now.
func (r *RX) Timer(now vt.Time) {
	if r.Deadline() <= now {
		r.due = true
	}
}

// Wants says whether something waits for the line; Echo, Nack and Ack take it.
func (r *RX) Wants() bool { return r.echo || r.state == SendNack || r.due && r.state == SendAcks }

// Echo takes the LLR_INIT_ECHO that waits for the line, if there is one.
func (r *RX) Echo() (seq uint32, data uint16, ok bool) {
	if !r.echo {
		return 0, 0, false
	}
	r.echo = false
	r.c[TxInitEcho]++
	return r.echoSeq, r.echoData, true
}

// Answer takes the LLR_NACK, or else the LLR_ACK, that waits for the line, if there is one. Its number is the last good one.
func (r *RX) Answer(now vt.Time) (seq uint32, nack, ok bool) {
	switch {
	case r.state == SendNack:
		r.to(now, NackSent)
		nack = true
		r.c[TxNack]++
	case r.due && r.state == SendAcks:
		r.c[TxAck]++
	default:
		return 0, false, false
	}
	r.due, r.bytes, r.ackAt, r.refresh = false, 0, vt.Never, now.Add(ackRefresh)
	return (r.next - 1) & SeqMask, nack, true
}
