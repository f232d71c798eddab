package llr

import (
	"math/bits"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// Buckets is how many buckets a Latency has. A bucket is an eighth of the power of two that it lies in, and 16 ns at the least.
const Buckets = 128

// Latency counts how long frames waited for their ACK, from the moment at which they left first, in virtual time.
type Latency struct {
	N   [Buckets]uint64 // by bucket; the last one has all that is longer
	Sum time.Duration
	Max time.Duration
}

func (l *Latency) add(d time.Duration) {
	l.N[bucket(d)]++
	l.Sum += d
	l.Max = max(l.Max, d)
}

func bucket(d time.Duration) int {
	u := uint64(max(d, 0)) >> 4
	if u < 8 {
		return int(u)
	}
	e := bits.Len64(u) - 4
	return min((e+1)*8+int(u>>e&7), Buckets-1)
}

// Below is what all durations in bucket i are shorter than; the last bucket has no such bound, and gives that of its beginning.
func Below(i int) time.Duration {
	if i = min(i+1, Buckets-1); i < 8 {
		return time.Duration(i) << 4
	}
	return time.Duration(8+i&7) << (i/8 - 1) << 4
}

// Count is the number of frames.
func (l *Latency) Count() (n uint64) {
	for _, k := range l.N {
		n += k
	}
	return n
}

// Quantile is what a share q, 0 to 1, of the frames waited for at most: up to an eighth more than that. It is 0 where there are no frames.
func (l *Latency) Quantile(q float64) time.Duration {
	n := l.Count()
	if n == 0 {
		return 0
	}
	want := max(1, uint64(q*float64(n)+0.5))
	for i, k := range l.N {
		if k >= want {
			return min(Below(i), l.Max)
		}
		want -= k
	}
	return l.Max
}

// dwell is the virtual time spent in each of a few states.
type dwell struct {
	spent [numStates]time.Duration
	since vt.Time
}

const numStates = 5 // of the sending side; the receiving side has fewer

// leave counts the time until now for a state that ends.
func (d *dwell) leave(now vt.Time, state uint8) {
	d.spent[state] += max(0, now.Sub(d.since))
	d.since = max(d.since, now)
}

// until gives the times at now, when state is the one that is not over.
func (d *dwell) until(now vt.Time, state uint8) [numStates]time.Duration {
	t := *d
	t.leave(now, state)
	return t.spent
}

// TXStatus is a sending side at one moment. Times are virtual; a deadline that does not run is vt.Never.
type TXStatus struct {
	State       State
	Next, Acked uint32 // number of the next frame, and the last one acknowledged
	Frames      int    // without ACK
	Bytes       int64  // of theirs, FCS included
	Replays     int    // without progress so far
	Draining    bool   // no new frames are taken: LLR was turned off
	NoSignal    bool   // the link is down: timers stand still
	ReplayAt    vt.Time
	AgeAt       vt.Time // when the oldest frame is too old
	InitAt      vt.Time // the next LLR_INIT
	PCSAt       vt.Time // when the link has been down for too long
	In          [numStates]time.Duration
	Latency     Latency // since the run began, or LLR was turned on if that was later; the times in states too
}

// Status describes the sending side at now.
func (t *TX) Status(now vt.Time) TXStatus {
	return TXStatus{State: t.state, Next: t.next, Acked: t.acked, Frames: t.Outstanding(), Bytes: t.bytes, Replays: t.count, Draining: t.draining,
		NoSignal: t.lost, ReplayAt: t.replayAt, AgeAt: t.ageAt(), InitAt: t.initAt, PCSAt: t.pcsAt, In: t.in.until(now, uint8(t.state)), Latency: t.latency}
}

// RXStatus is a receiving side at one moment, as TXStatus.
type RXStatus struct {
	State     RXState
	Next      uint32 // number expected
	Unacked   int64  // bytes accepted since the latest ACK
	AckAt     vt.Time
	RefreshAt vt.Time // when the latest ACK is repeated
	Spurious  uint64  // replays that brought nothing but duplicates: none was needed
	In        [numStates]time.Duration
}

// Status describes the receiving side at now.
func (r *RX) Status(now vt.Time) RXStatus {
	s := RXStatus{State: r.state, Next: r.next, Unacked: r.bytes, AckAt: r.ackAt, RefreshAt: r.refreshAt(), Spurious: r.spurious, In: r.in.until(now, uint8(r.state))}
	if r.again == onlyKnown {
		s.Spurious++
	}
	return s
}

// Begin counts latency, times in states and spurious replays anew from now on.
func (t *TX) Begin(now vt.Time) { t.in, t.latency = dwell{since: now}, Latency{} }

// Begin is the same for the receiving side.
func (r *RX) Begin(now vt.Time) { r.in, r.spurious, r.again = dwell{since: now}, 0, noReplay }

// replayed is what the replay that is coming in has brought so far.
type replayed uint8

const (
	noReplay  replayed = iota
	onlyKnown          // frames that were here before
	news               // others too
)

// Resent takes note of a frame that comes in, before Data: whether it is sent again, as the sender says for diagnosis only. A replay ends with the
// next frame that is not, or with one whose number does not follow.
func (r *RX) Resent(seq uint32, again bool) {
	ends := !again || r.again != noReplay && (seq-r.lastAgain-1)&SeqMask >= 1<<19
	if ends {
		if r.again == onlyKnown {
			r.spurious++
		}
		r.again = noReplay
	}
	if !again {
		return
	}
	r.lastAgain = seq
	if known := (seq-r.next)&SeqMask >= 1<<19; !known {
		r.again = news
	} else if r.again == noReplay {
		r.again = onlyKnown
	}
}
