package switchd

import (
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// buffer is the memory of a switch and who has it. A queue of a port has its reserve for itself; beyond it lossy queues
// take from one pool, each up to alpha × what is free there. What PFC lets into lossless queues is set aside, so that
// nobody can take it from them.
type buffer struct {
	pool  int64 // what lossy queues share
	used  int64 // of it
	total int64 // bytes that wait at all ports
	peak  int64
	full  uint64                    // times that the pool had no room
	in    [][link.NumQueues]ingress // by ingress port and priority
}

// over is what a queue of n bytes takes from the pool.
func (s *Switch) over(q int, n int64) int64 {
	if s.set.Queues[q].Lossless {
		return 0
	}
	return max(0, n-s.set.Buffer.Reserved)
}

// recount works out the pool after settings or queues have changed.
func (s *Switch) recount() {
	b := &s.buf
	b.pool, b.used = s.set.Buffer.Shared-s.set.setAside(len(s.node.Ports)), 0
	for _, p := range s.node.Ports {
		for q := range link.NumQueues {
			b.used += s.over(q, p.QueueBytes(q))
		}
	}
}

// scaled is a threshold of a queue, in bytes, for the rate that the port has now.
func (s *Switch) scaled(o *link.Port, n int64) int64 {
	if !s.set.ByRate {
		return n
	}
	return int64(float64(n) * (float64(o.Rate()) / float64(o.Config().Rate)))
}

// fits says whether a frame of size bytes, that came in by a port, may join queue q of port o.
func (s *Switch) fits(o *link.Port, q int, size int64, in uint8, retx bool) bool {
	return s.room(o, q, o.QueueBytes(q), size, in, retx)
}

// room is fits for a queue where n bytes wait.
func (s *Switch) room(o *link.Port, q int, n, size int64, in uint8, retx bool) bool {
	set := &s.set.Queues[q]
	if set.Lossless {
		return s.buf.in[in][q].bytes+size <= s.set.PFC.Xoff+s.set.PFC.Headroom
	}
	limit := set.Limit
	if retx && set.Trim && s.set.Trim.RetxLimit > 0 {
		limit = s.set.Trim.RetxLimit
	}
	if limit > 0 && n+size > s.scaled(o, limit) {
		return false
	}
	if s.set.Buffer.Shared == 0 {
		return true
	}
	has := s.over(q, n)
	more := s.over(q, n+size) - has
	if more == 0 {
		return true
	}
	free := s.buf.pool - s.buf.used
	if more <= free && (set.Alpha == 0 || float64(has) < set.Alpha*float64(free)) {
		return true
	}
	s.buf.full++
	return false
}

// enter accounts for a frame that goes into queue q, where n bytes wait.
func (s *Switch) enter(q int, n int64, f *link.Frame) {
	size := int64(len(f.B))
	b := &s.buf
	b.used += s.over(q, n+size) - s.over(q, n)
	b.total += size
	b.peak = max(b.peak, b.total)
	in := &b.in[f.In][q]
	in.bytes += size
	in.peak = max(in.peak, in.bytes)
}

// exit accounts for a frame that leaves queue q, where n bytes stay.
func (s *Switch) exit(q int, n int64, f *link.Frame) {
	size := int64(len(f.B))
	b := &s.buf
	b.used -= s.over(q, n+size) - s.over(q, n)
	b.total -= size
	b.in[f.In][q].bytes -= size
}

// leave accounts for a frame that port p has taken out of its queue.
func (s *Switch) leave(now vt.Time, p *link.Port, f *link.Frame) {
	q := int(f.Queue)
	s.exit(q, p.QueueBytes(q), f)
	if in := &s.buf.in[f.In][q]; in.paused && in.bytes <= s.set.PFC.Xon {
		s.resume(now, int(f.In), q)
	}
}

// enqueue queues a frame with an IP packet of a DSCP at port o, or does with it what befits when there is no room.
func (s *Switch) enqueue(now vt.Time, o *link.Port, dscp uint8, f *link.Frame) {
	q := int(s.set.Classes[dscp&63])
	switch {
	case !o.Up():
		o.Drop(link.DropDown, f)
	case s.dogs[o.Index][q].blocks(&s.set.PFC):
		o.Stats(q).C[link.QWatchdogDrop]++
		o.Drop(link.DropWatchdog, f)
	case f.Credited(): // there is room: the far end has paid for it
		s.put(now, o, q, f)
	case !s.fits(o, q, int64(len(f.B)), f.In, s.isRetx(dscp)):
		s.refuse(now, o, q, dscp, f)
	case s.set.Queues[q].WRED && s.early(o, q, f):
		s.dropped(o, q, f)
		o.Drop(link.DropQueue, f)
	default:
		s.put(now, o, q, f)
	}
}

// offer queues a frame in queue q of port o if there is room, and drops it else: trimming is not for it.
func (s *Switch) offer(now vt.Time, o *link.Port, q int, f *link.Frame) {
	switch {
	case !o.Up():
		o.Drop(link.DropDown, f)
	case !f.Credited() && !s.fits(o, q, int64(len(f.B)), f.In, false):
		s.dropped(o, q, f)
		o.Drop(link.DropQueue, f)
	default:
		s.put(now, o, q, f)
	}
}

// put queues a frame that fits.
func (s *Switch) put(now vt.Time, o *link.Port, q int, f *link.Frame) {
	in := int(f.In)
	s.enter(q, o.QueueBytes(q), f)
	o.Enqueue(now, q, f)
	if s.set.Queues[q].Lossless {
		if x := &s.buf.in[in][q]; x.bytes > s.set.PFC.Xoff && !x.paused {
			s.pause(now, in, q)
		}
		s.guard(now, o, q)
	}
}

// dropped counts an original that was not admitted, also where a trimmed copy of it goes on.
func (s *Switch) dropped(o *link.Port, q int, f *link.Frame) {
	c := &o.Stats(q).C
	c[link.QDrop]++
	c[link.QDropBytes] += uint64(len(f.B))
}
