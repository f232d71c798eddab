package link

import (
	"math/bits"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// NumPorts is the most ports that a node has.
const NumPorts = 64

// NumQueues is the number of egress queues of a port. A queue's number is its traffic class and its PFC priority.
const NumQueues = 8

// Service says how the scheduler serves a queue.
type Service struct {
	Strict bool `json:"strict,omitempty"` // before all others; of several, the highest number first
	Weight int  `json:"weight,omitempty"` // share of what strict queues leave, by deficit round robin; 0 counts as 1
}

// QueueCounter numbers the counters of one queue.
type QueueCounter int

// The counters of an egress queue. QDrop follows SAI: a frame whose admission failed counts as dropped even when a trimmed
// copy of it goes on.
const (
	QTxFrames     QueueCounter = iota // frames that left for the line
	QTxBytes                          // their bytes
	QDrop                             // frames that were not admitted
	QDropBytes                        // their bytes
	QTrim                             // of them, trimmed
	QTrimTx                           // trimmed here and sent, counted at the queue that the original was meant for
	QTrimDrop                         // trimmed copies lost because their queue was full
	QMarked                           // frames marked CE
	QMarkedBytes                      // their bytes
	QPaused                           // times that a peer's PFC stopped the queue
	QWatchdog                         // times that the pause storm watchdog fired
	QWatchdogDrop                     // frames that it dropped
	QBytes                            // gauge: bytes that wait now
	QPeak                             // gauge: the most that ever waited since the run began
	NumQueueCounters
)

var queueCounterNames = [NumQueueCounters]string{"tx_frames", "tx_bytes", "dropped_frames", "dropped_bytes", "trimmed", "trim_tx",
	"trim_dropped", "ecn_marked", "ecn_marked_bytes", "paused", "watchdog", "watchdog_dropped", "bytes", "peak_bytes"}

// String is the counter's name in tables and metrics.
func (c QueueCounter) String() string { return queueCounterNames[c] }

// IsGauge says whether the value can fall.
func (c QueueCounter) IsGauge() bool { return c == QBytes || c == QPeak }

// DepthBuckets is the number of buckets of a queue's depth histogram: bucket 0 counts frames that found the queue empty,
// bucket i those that found less than 128<<i bytes, the last one all the rest.
const DepthBuckets = 18

// QueueStats is what a queue counts.
type QueueStats struct {
	C     [NumQueueCounters]uint64
	Depth [DepthBuckets]uint64 // by the bytes that a frame found waiting when it was queued
}

// queue is one egress queue.
type queue struct {
	fifo
	bytes   int64
	deficit int64         // in parts of a line byte
	quantum int64         // likewise, for each round
	since   vt.Time       // the latest pause began here
	until   vt.Time       // and lasts, or lasted, up to here
	pauses  time.Duration // all pauses before it
}

// scheduler holds the class queues of a port: strict ones first, then deficit round robin over line bytes.
type scheduler struct {
	q      [NumQueues]queue
	stats  [NumQueues]QueueStats
	bytes  int64 // in all queues
	n      int
	active uint8 // queues that are not empty
	strict uint8
	paused uint8 // queues whose until may lie ahead
	ignore uint8 // queues that are served while paused
	broke  uint8 // queues that have no credits for their next frame
	turn   int   // round robin
}

// lineByte is one byte in the unit of deficits, fine enough for the quantum of a small weight.
const lineByte = 1 << 10

// serve sets how queues are served from now on. The greatest weight has a quantum of one frame of full length, the others
// less: a round is short, so that a queue of small frames does not wait for bursts of large ones, whatever the weights.
func (s *scheduler) serve(services *[NumQueues]Service, mtu int) {
	greatest := 1
	for _, v := range services {
		if !v.Strict {
			greatest = max(greatest, v.Weight)
		}
	}
	s.strict = 0
	for i, v := range services {
		if v.Strict {
			s.strict |= 1 << i
		}
		full := int64(wire.LineBytes(mtu+wire.EthLen)) * lineByte
		s.q[i].quantum = max(full*int64(max(v.Weight, 1))/int64(greatest), lineByte)
	}
}

func (s *scheduler) push(q int, f *Frame) {
	x, st := &s.q[q], &s.stats[q]
	bucket := 0
	if x.bytes > 0 {
		bucket = min(bits.Len64(uint64(x.bytes)>>8)+1, DepthBuckets-1)
	}
	st.Depth[bucket]++
	f.Queue = uint8(q)
	x.push(f)
	size := int64(len(f.B))
	x.bytes += size
	s.bytes += size
	s.n++
	s.active |= 1 << q
	st.C[QBytes] = uint64(x.bytes)
	st.C[QPeak] = max(st.C[QPeak], uint64(x.bytes))
}

func (s *scheduler) take(q int) *Frame {
	x := &s.q[q]
	f := x.pop()
	size := int64(len(f.B))
	x.bytes -= size
	s.bytes -= size
	s.n--
	s.stats[q].C[QBytes] = uint64(x.bytes)
	if x.n == 0 {
		s.active &^= 1 << q
		x.deficit = 0
	}
	return f
}

// swapTail puts f in the place of the last frame of a queue that is not empty; f becomes that frame.
func (s *scheduler) swapTail(q int, f *Frame) {
	x, st := &s.q[q], &s.stats[q]
	t := x.tail
	grown := int64(len(f.B) - len(t.B))
	f.Queue = uint8(q)
	*t, *f = *f, *t
	f.next = nil
	x.bytes += grown
	s.bytes += grown
	st.C[QBytes] = uint64(x.bytes)
	st.C[QPeak] = max(st.C[QPeak], uint64(x.bytes))
}

// pause stops a queue until a time, or lets it go on if that is now.
func (s *scheduler) pause(q int, now, until vt.Time) {
	x := &s.q[q]
	if x.until <= now {
		x.pauses += x.until.Sub(x.since)
		x.since = now
	}
	x.until = until
	if until > now {
		s.paused |= 1 << q
	} else {
		s.paused &^= 1 << q
	}
}

// next takes the frame whose turn it is, nil if all that waits is paused.
func (s *scheduler) next(now vt.Time) *Frame {
	ready := s.ready(now)
	switch {
	case ready == 0:
		return nil
	case ready&s.strict != 0:
		return s.take(bits.Len8(ready&s.strict) - 1)
	case ready&(ready-1) == 0: // alone: nobody to share with
		q := bits.TrailingZeros8(ready)
		s.q[q].deficit = 0
		return s.take(q)
	}
	for {
		if x := &s.q[s.turn]; ready>>s.turn&1 != 0 {
			if size := int64(wire.LineBytes(len(x.head.B))) * lineByte; size <= x.deficit {
				x.deficit -= size
				return s.take(s.turn)
			}
		}
		s.turn = (s.turn + 1) % NumQueues
		if ready>>s.turn&1 != 0 {
			s.q[s.turn].deficit += s.q[s.turn].quantum
		}
	}
}

// ready tells which queues have a frame that may leave now.
func (s *scheduler) ready(now vt.Time) uint8 {
	if s.paused == 0 {
		return s.active &^ s.broke
	}
	return s.active &^ s.broke &^ (s.stopped(now) &^ s.ignore)
}

// stopped tells which queues are paused now.
func (s *scheduler) stopped(now vt.Time) uint8 {
	for m := s.paused; m != 0; m &= m - 1 {
		if q := bits.TrailingZeros8(m); s.q[q].until <= now {
			s.paused &^= 1 << q
		}
	}
	return s.paused
}

// reset empties all queues and forgets deficits, pauses, gauges and histograms of the run before; services and counters stay.
func (s *scheduler) reset() {
	for i := range s.q {
		x := &s.q[i]
		for f := x.pop(); f != nil; f = x.pop() {
			f.Release()
		}
		*x = queue{quantum: x.quantum}
		st := &s.stats[i]
		st.C[QBytes], st.C[QPeak] = 0, 0
		st.Depth = [DepthBuckets]uint64{}
	}
	s.bytes, s.n, s.active, s.paused, s.ignore, s.broke, s.turn = 0, 0, 0, 0, 0, 0, 0
}
