package llr

import (
	"math/bits"

	"github.com/uetlab/uetlab/internal/vt"
)

// State is a state of the sending side.
type State uint8

// The states of uet-link-switch 2.4.
const (
	Off     State = iota // the far end has no LLR
	Init                 // LLR_INIT is sent until its echo comes
	Advance              // frames go out and are numbered
	Replay               // frames go out once more
	Flush                // given up, and nobody has asked for a new handshake
)

var stateNames = [...]string{"OFF", "INIT", "ADVANCE", "REPLAY", "FLUSH"}

// String is the standard's name.
func (s State) String() string { return stateNames[s] }

// Span is a run of sequence numbers: N from First on.
type Span struct {
	First uint32
	N     int
}

// TX is the sending side of one direction of a link.
type TX struct {
	cfg   *Config
	c     *Counters
	max   int64 // longest frame, FCS included: the window is open if there is room for it
	state State
	next  uint32 // number of the next frame: tx_seq
	acked uint32 // the last number that was acknowledged
	bytes int64  // of the frames in between
	ring  []sent // of the frames in between, by number
	again uint32 // in Replay: what to send next
	count int    // replays without progress
	lost  bool   // the PCS has no signal: timers stand still
	since vt.Time

	replayAt, initAt, pcsAt vt.Time
	repeat                  uint    // LLR_INIT sent in this handshake without an answer
	seed                    uint64  // of init data
	data                    uint16  // init data of this handshake
	asked                   vt.Time // when the latest LLR_INIT left, Never if none
	wantInit                bool    // an LLR_INIT waits for the line
	draining                bool    // no new frames; Off once all are acknowledged

	in      dwell
	latency Latency
}

// sent is what TX knows of a frame without ACK.
type sent struct {
	bytes int32
	at    vt.Time
}

// NewTX makes a sending side that is Off. max is the longest frame with FCS, in bytes.
func NewTX(cfg *Config, c *Counters, max int) *TX {
	t := &TX{cfg: cfg, c: c, max: int64(max), acked: SeqMask}
	t.ring = make([]sent, 1<<bits.Len(uint(cfg.Frames)))
	t.stop()
	return t
}

// Slots is the number of frames for which there must be room, a power of two: frame seq lies at seq modulo Slots.
func (t *TX) Slots() int { return len(t.ring) }

func (t *TX) stop() {
	t.replayAt, t.initAt, t.pcsAt, t.asked = vt.Never, vt.Never, vt.Never, vt.Never
	t.wantInit, t.count, t.repeat = false, 0, 0
}

func (t *TX) to(now vt.Time, s State) {
	t.in.leave(now, uint8(t.state))
	t.state = s
	t.c[TxState] = uint64(s)
}

// Reset begins with number seq as if a handshake had just ended, for both ends of a link at once. What waits for an ACK is the
// caller's to release before. seed gives init data to handshakes. Begin says when that is.
func (t *TX) Reset(seq uint32, seed uint64) {
	t.stop()
	t.next, t.acked, t.bytes, t.lost, t.since, t.draining = seq&SeqMask, (seq-1)&SeqMask, 0, false, 0, false
	t.seed = seed
	t.c[RingFrames], t.c[RingPeak], t.c[RoundTrip] = 0, 0, 0
	t.state, t.c[TxState] = Advance, uint64(Advance)
}

// Start begins a handshake, from any state; what waits for an ACK is given up. The first LLR_INIT comes with Timer, at now at the
// earliest: a run that begins at that time makes it needless.
func (t *TX) Start(now vt.Time) Span {
	gone := t.empty()
	t.stop()
	t.draining = false
	t.seed = t.seed*6364136223846793005 + 1442695040888963407
	t.data = uint16(t.seed >> 48)
	t.to(now, Init)
	if !t.lost {
		t.initAt = now
	}
	return gone
}

// ask has an LLR_INIT sent, and another one after a while that doubles, so that a link without a far end costs little.
func (t *TX) ask(now vt.Time) {
	t.wantInit = true
	t.initAt = now.Add(min(initRepeat<<min(t.repeat, 16), maxRepeat))
	t.repeat++
}

// Stop ends protection: the sending side is Off once all frames are acknowledged or given up, and new ones wait until then, lest
// they overtake.
func (t *TX) Stop(now vt.Time) {
	if t.draining = true; t.state == Init || t.state == Flush || t.Outstanding() == 0 {
		t.stop()
		t.to(now, Off)
	}
}

// Stopped says whether Stop was called since the last handshake or reset.
func (t *TX) Stopped() bool { return t.draining || t.state == Off }

// State is the state.
func (t *TX) State() State { return t.state }

// Outstanding is the number of frames without ACK; the first of them has number First.
func (t *TX) Outstanding() int { return int((t.next - 1 - t.acked) & SeqMask) }

// First is the number of the oldest frame without ACK.
func (t *TX) First() uint32 { return (t.acked + 1) & SeqMask }

// Protects says whether new frames are numbered. Where it is false and Held is too, they go without protection.
func (t *TX) Protects() bool { return t.state == Advance && !t.draining }

// Held says whether the scheduler must wait: the window is closed, a replay runs, or Block says so.
func (t *TX) Held() bool {
	switch t.state {
	case Advance:
		return t.draining || t.Outstanding() >= t.cfg.Frames || t.bytes+t.max > t.cfg.Bytes && t.bytes > 0
	case Replay:
		return true
	case Init:
		return t.cfg.Init == Block
	case Flush:
		return t.cfg.Flush == Block
	}
	return false
}

// Discards says whether new frames are to be dropped.
func (t *TX) Discards() bool {
	return t.state == Init && t.cfg.Init == Discard || t.state == Flush && t.cfg.Flush == Discard
}

// Push numbers a frame of n bytes, FCS included, that leaves now.
func (t *TX) Push(now vt.Time, n int) uint32 {
	seq := t.next
	t.ring[int(seq)&(len(t.ring)-1)] = sent{int32(n), now}
	if t.Outstanding() == 0 && !t.lost {
		t.replayAt = now.Add(t.cfg.ReplayTimer)
	}
	t.next = (t.next + 1) & SeqMask
	t.bytes += int64(n)
	t.c[TxOK]++
	t.c[RingFrames]++
	t.c[RingPeak] = max(t.c[RingPeak], t.c[RingFrames])
	return seq
}

// free forgets n frames from the oldest on, which were acknowledged at now; or given up, with vt.Never.
func (t *TX) free(now vt.Time, n int) Span {
	gone := Span{t.First(), n}
	for range n {
		t.acked = (t.acked + 1) & SeqMask
		s := &t.ring[int(t.acked)&(len(t.ring)-1)]
		t.bytes -= int64(s.bytes)
		if now != vt.Never {
			t.latency.add(now.Sub(s.at))
		}
	}
	t.c[RingFrames] = uint64(t.Outstanding())
	return gone
}

// empty gives all frames up.
func (t *TX) empty() Span {
	gone := t.free(vt.Never, t.Outstanding())
	t.c[TxFlushed] += uint64(gone.N)
	return gone
}

// Acked takes an LLR_ACK or LLR_NACK and returns the frames that need not be kept any longer.
func (t *TX) Acked(now vt.Time, seq uint32, nack bool) (gone Span) {
	if nack {
		t.c[RxNack]++
	} else {
		t.c[RxAck]++
	}
	if t.state != Advance && t.state != Replay {
		return gone
	}
	d := int((seq - t.acked) & SeqMask)
	if d > t.Outstanding() {
		t.c[RxSeqError]++
		return gone
	}
	if d > 0 {
		if left := int((t.next - t.again) & SeqMask); t.state == Replay && left > t.Outstanding()-d {
			t.again = (seq + 1) & SeqMask
		}
		gone = t.free(now, d)
		t.count = 0
		t.since = 0
		t.restart(now)
	}
	switch {
	case nack && t.Outstanding() > 0:
		if d == 0 {
			if t.exhausted() {
				return t.flush(now)
			}
			t.count++
		}
		t.replay(now)
	case t.state == Replay:
		t.resent(now)
	}
	t.drained(now)
	return gone
}

func (t *TX) exhausted() bool {
	return t.cfg.ReplayCount != Unlimited && t.count >= t.cfg.ReplayCount
}

// restart has the replay timer run anew, or stand if there is nothing to wait for.
func (t *TX) restart(now vt.Time) {
	if t.replayAt = vt.Never; t.Outstanding() > 0 && !t.lost && t.state == Advance {
		t.replayAt = now.Add(t.cfg.ReplayTimer)
	}
}

func (t *TX) drained(now vt.Time) {
	if t.draining && t.Outstanding() == 0 {
		t.stop()
		t.to(now, Off)
	}
}

// replay begins to send all frames again.
func (t *TX) replay(now vt.Time) {
	t.again, t.replayAt = t.First(), vt.Never
	t.to(now, Replay)
}

// resent ends a replay if there is nothing left of it.
func (t *TX) resent(now vt.Time) {
	if t.again == t.next {
		t.c[TxReplay]++
		t.to(now, Advance)
		t.restart(now)
	}
}

// NextReplay is the next frame to be sent again; ok is false if there is none.
func (t *TX) NextReplay(now vt.Time) (seq uint32, ok bool) {
	if t.state != Replay || t.lost {
		return 0, false
	}
	seq = t.again
	t.again = (t.again + 1) & SeqMask
	t.c[TxReplayed]++
	t.resent(now)
	return seq, true
}

// Replaying says whether NextReplay has a frame.
func (t *TX) Replaying() bool { return t.state == Replay && !t.lost }

// flush gives up.
func (t *TX) flush(now vt.Time) Span {
	t.c[TxFlushes]++
	gone := t.empty()
	t.stop()
	switch {
	case t.draining:
		t.to(now, Off)
	case t.cfg.ReInit:
		t.Start(now)
	default:
		t.to(now, Flush)
	}
	return gone
}

// Echo takes an LLR_INIT_ECHO.
func (t *TX) Echo(now vt.Time, seq uint32, data uint16) {
	t.c[RxInitEcho]++
	if t.state != Init {
		return
	}
	if seq != t.next || data != t.data || t.asked == vt.Never {
		t.c[EchoMismatch]++
		return
	}
	t.c[RoundTrip] = uint64(now.Sub(t.asked))
	t.stop()
	t.acked = (t.next - 1) & SeqMask
	t.to(now, Advance)
}

// WantsInit says whether an LLR_INIT waits for the line; Init takes it.
func (t *TX) WantsInit() bool { return t.wantInit }

// Init is the number and data of an LLR_INIT that leaves now.
func (t *TX) Init(now vt.Time) (seq uint32, data uint16) {
	t.wantInit = false
	t.asked = now
	t.c[TxInit]++
	return t.next, t.data
}

// PCS tells that the signal is lost, or is back. A frame on its way may have been lost, so all are sent again when it is back
// soon enough; until then replay timer and data age stand still.
func (t *TX) PCS(now vt.Time, lost bool) (gone Span) {
	if lost == t.lost {
		return gone
	}
	t.lost = lost
	switch {
	case lost && (t.state == Advance || t.state == Replay):
		t.replayAt = vt.Never
		if t.cfg.PCSLost == 0 {
			return t.flush(now)
		}
		t.pcsAt = now.Add(t.cfg.PCSLost)
	case lost:
		t.initAt, t.wantInit = vt.Never, false
	case t.state == Init:
		t.repeat, t.initAt = 0, now
	case t.state == Advance || t.state == Replay:
		t.pcsAt, t.since = vt.Never, now
		if t.Outstanding() > 0 {
			t.replay(now)
		}
	}
	return gone
}

// ageAt is when the oldest frame without ACK will have waited too long.
func (t *TX) ageAt() vt.Time {
	if t.lost || t.Outstanding() == 0 {
		return vt.Never
	}
	return after(max(t.since, t.ring[int(t.First())&(len(t.ring)-1)].at), t.cfg.DataAge)
}

// Deadline is when Timer wants to be called, vt.Never if not at all.
func (t *TX) Deadline() vt.Time { return min(t.replayAt, t.initAt, t.pcsAt, t.ageAt()) }

// Timer handles what is due by now and returns the frames that were given up.
func (t *TX) Timer(now vt.Time) (gone Span) {
	switch {
	case t.pcsAt <= now, t.ageAt() <= now:
		return t.flush(now)
	case t.replayAt <= now:
		if t.exhausted() {
			return t.flush(now)
		}
		t.count++
		t.c[TxTimeouts]++
		t.replay(now)
	}
	if t.initAt <= now {
		t.ask(now)
	}
	return gone
}
