package link

import (
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Series samples the sending side of a port in intervals of virtual time. It only looks: a port with a Series sends the same
// frames at the same times as one without. Interval i covers [i, i+1) steps since the Series began.
type Series struct {
	Depth []int64 // bytes: the most that waited in the interval, in all queues together
	Sent  []int64 // bytes on the line of frames whose serialization began in the interval
	// LeftOut counts the intervals, beyond the most that are kept, in which anything waited or was sent.
	LeftOut int64

	start  vt.Time
	every  int64
	most   int
	cur    int   // the interval of the latest event, -1 before the first
	waits  int64 // bytes since then
	beyond bool  // cur is counted in LeftOut
}

// NewSeries begins at now, with what waits at p; it keeps at most so many intervals.
func NewSeries(now vt.Time, every time.Duration, most int, p *Port) *Series {
	return &Series{start: now, every: max(int64(every), 1), most: most, cur: -1, waits: p.Backlog()}
}

// Sample has the port tell s of everything from now on; nil ends that.
func (p *Port) Sample(s *Series) { p.series = s }

// wait notes that so many bytes wait now.
func (s *Series) wait(now vt.Time, bytes int64) {
	s.reach(now)
	s.waits = bytes
	if s.cur < s.most {
		s.Depth[s.cur] = max(s.Depth[s.cur], bytes)
	} else if bytes > 0 {
		s.leave()
	}
}

// send notes a frame of so many bytes that begins to leave now.
func (s *Series) send(now vt.Time, size int) {
	s.reach(now)
	if s.cur < s.most {
		s.Sent[s.cur] += int64(wire.LineBytes(size))
	} else {
		s.leave()
	}
}

func (s *Series) leave() {
	if !s.beyond {
		s.beyond = true
		s.LeftOut++
	}
}

// reach brings the series to the interval of now; what waited goes on to wait in all between.
func (s *Series) reach(now vt.Time) {
	i := int(int64(now-s.start) / s.every)
	if i <= s.cur {
		return
	}
	for len(s.Depth) <= min(i, s.most-1) {
		s.Depth, s.Sent = append(s.Depth, s.waits), append(s.Sent, 0)
	}
	if gone := i - max(s.cur, s.most-1); gone > 0 { // intervals begun beyond the last one that is kept
		if s.beyond = s.waits > 0; s.beyond {
			s.LeftOut += int64(gone)
		}
	}
	s.cur = i
}

// Whole gives both slices up to the last interval in which anything waited or was sent.
func (s *Series) Whole() (depth, sent []int64) {
	n := len(s.Depth)
	for n > 0 && s.Depth[n-1] == 0 && s.Sent[n-1] == 0 {
		n--
	}
	return s.Depth[:n], s.Sent[:n]
}
