package switchd

import (
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// Status is what inspect shows of a switch: buffer, queues, pauses and watchdogs as they are at one time. Sizes are bytes.
type Status struct {
	Buffer BufferStatus  `json:"buffer"`
	Queues []QueueStatus `json:"queues"` // those that have seen a frame
	PFC    []PFCStatus   `json:"pfc"`    // priorities that are lossless, at ports where one has been used
}

// BufferStatus is who has the buffer.
type BufferStatus struct {
	Size   int64  `json:"sizeBytes"` // 0: no shared limit
	Used   int64  `json:"usedBytes"`
	Peak   int64  `json:"peakBytes"`   // since the run began
	Pool   int64  `json:"poolBytes"`   // of Size, what lossy queues share beyond their reserves
	Shared int64  `json:"sharedBytes"` // of Pool, taken
	Full   uint64 `json:"full"`        // times that a frame found no room in the pool, by the threshold of its queue, since the run began
}

// QueueStatus is one queue of one egress port.
type QueueStatus struct {
	Port     int               `json:"port"`
	Queue    int               `json:"queue"`
	Counters map[string]uint64 `json:"counters"` // by link.QueueCounter, those that are not 0
	Depth    []uint64          `json:"depth"`    // as link.QueueStats has it, without empty buckets at the end
}

// PFCStatus is a lossless priority at one port, as both ends see it.
type PFCStatus struct {
	Port     int    `json:"port"`
	Priority int    `json:"priority"`
	Bytes    int64  `json:"bytes"`      // that came in by this port and wait in the switch
	Peak     int64  `json:"peakBytes"`  // since the run began
	Pausing  bool   `json:"pausing"`    // the far end is stopped
	Pauses   uint64 `json:"pauses"`     // times that it was since the run began
	Lost     uint64 `json:"lost"`       // frames beyond the headroom since the run began
	Paused   bool   `json:"paused"`     // the far end has stopped this port
	PausedNs int64  `json:"pausedNs"`   // and how long in all of the run
	Watchdog bool   `json:"watchdogOn"` // the watchdog has fired, and not restored the queue yet
}

// Status tells how things stand at now.
func (s *Switch) Status(now vt.Time) Status {
	b := &s.buf
	t := Status{Queues: []QueueStatus{}, PFC: []PFCStatus{}}
	t.Buffer = BufferStatus{Size: s.set.Buffer.Shared, Used: b.total, Peak: b.peak, Full: b.full}
	if s.set.Buffer.Shared > 0 {
		t.Buffer.Pool, t.Buffer.Shared = b.pool, b.used
	}
	for i, p := range s.node.Ports {
		for q := range link.NumQueues {
			if x, ok := queueStatus(i, q, p.Stats(q)); ok {
				t.Queues = append(t.Queues, x)
			}
			in, d := &b.in[i][q], &s.dogs[i][q]
			x := PFCStatus{Port: i, Priority: q, Bytes: in.bytes, Peak: in.peak, Pausing: in.paused, Pauses: in.pauses, Lost: in.lost,
				Paused: p.Paused(now)>>q&1 != 0, PausedNs: p.PausedFor(now, q).Nanoseconds(), Watchdog: d.active}
			if s.set.Queues[q].Lossless && (x.Peak > 0 || x.Paused || x.PausedNs > 0 || x.Lost > 0) {
				t.PFC = append(t.PFC, x)
			}
		}
	}
	return t
}

func queueStatus(port, q int, st *link.QueueStats) (QueueStatus, bool) {
	x := QueueStatus{Port: port, Queue: q, Counters: map[string]uint64{}}
	for c, v := range st.C {
		if v != 0 {
			x.Counters[link.QueueCounter(c).String()] = v
		}
	}
	n := len(st.Depth)
	for n > 0 && st.Depth[n-1] == 0 {
		n--
	}
	x.Depth = append([]uint64{}, st.Depth[:n]...)
	return x, len(x.Counters) > 0
}
