package attach

import (
	"container/heap"

	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/internal/vt"
)

// wake is a time at which a process wants to go on.
type wake struct {
	t    vt.Time
	c    *client
	seq  uint64
	slot uint32
}

// wakeHeap orders wakes by time, and at one time by process, so that it does not matter who asked first. Ranks that the FEP plays itself are
// woken in the same order.
type wakeHeap []wake

func (h wakeHeap) Len() int { return len(h) }
func (h wakeHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	switch {
	case a.t != b.t:
		return a.t < b.t
	case a.c.job != b.c.job:
		return a.c.job < b.c.job
	case a.c.process != b.c.process:
		return a.c.process < b.c.process
	}
	return a.seq < b.seq
}
func (h wakeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *wakeHeap) Push(x any) { *h = append(*h, x.(wake)) }

// Pop implements heap.Interface.
func (h *wakeHeap) Pop() any {
	n := len(*h) - 1
	w := (*h)[n]
	(*h)[n] = wake{}
	*h = (*h)[:n]
	return w
}

// onWake wakes the first process whose time has come. Each wake has a call of its own, made when it was asked for: so it takes its
// place among other calls of that instant as that of an application within the FEP would.
func (s *Server) onWake(now vt.Time) {
	if len(s.wakes) == 0 || s.wakes[0].t > now {
		return // that of a process that is gone
	}
	w := heap.Pop(&s.wakes).(wake)
	e := shm.CQE{Op: shm.OpWake, Peer: -1, Posted: int64(w.c.ops[w.slot].posted)}
	w.c.finish(now, w.slot, &e, true)
}

// rearm follows a reset of the node, which has forgotten the calls.
func (s *Server) rearm(now vt.Time) {
	for _, w := range s.wakes {
		s.node.Call(max(now, w.t), s.wakeCall)
	}
}

func (s *Server) addWake(now vt.Time, c *client, slot uint32, t vt.Time) {
	s.wakeSeq++
	t = max(t, now)
	heap.Push(&s.wakes, wake{t, c, s.wakeSeq, slot})
	s.node.Call(t, s.wakeCall)
}

func (s *Server) forgetWakes(c *client) {
	kept := s.wakes[:0]
	for _, w := range s.wakes {
		if w.c != c {
			kept = append(kept, w)
		}
	}
	clear(s.wakes[len(kept):])
	s.wakes = kept
	heap.Init(&s.wakes)
}
