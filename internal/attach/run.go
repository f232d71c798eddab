package attach

import (
	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/internal/vt"
)

// maxReport bounds what a rank may report, bytes.
const maxReport = 3 << 20

// awaitRun has a process go on when a run begins of which it is a rank. It may wait for one at a time.
func (c *client) awaitRun(now vt.Time, e *shm.SQE, q *queue) {
	if c.start != 0 {
		c.tell(now, e, q, shm.StatusBusy, 0)
		return
	}
	i := c.slot()
	c.ops[i] = slot{used: true, wake: true, op: e.Op, object: e.Object, ctx: e.Ctx, q: q, posted: now}
	q.reserved++
	c.start = i + 1
}

// Begin lets the process with a PIDonFEP of a job begin its part of a run, within a call of the node. False: there is none that waits
// for it.
func (s *Server) Begin(now vt.Time, job uint32, pid uint16) bool {
	c := s.procs[procKey{job, pid}]
	if c == nil || c.start == 0 || c.dead {
		return false
	}
	i := c.start - 1
	c.start = 0
	e := shm.CQE{Op: shm.OpWake, Peer: -1, Posted: int64(c.ops[i].posted)}
	c.finish(now, i, &e, true)
	return true
}

// takeReport takes a part of a report, and hands the whole on.
func (c *client) takeReport(m *shm.Report, rest []byte) answer {
	switch {
	case c.s.cfg.Report == nil:
		return refuse(shm.StatusUnsupported, "nobody takes reports here")
	case len(c.report)+len(rest) > maxReport:
		c.report = nil
		return refuse(shm.StatusLimit, "a report of more than %d bytes", maxReport)
	}
	c.report = append(c.report, rest...)
	if m.Last == 0 {
		return answer{}
	}
	b := c.report
	c.report = nil
	if err := c.s.cfg.Report(c.job, c.process, b); err != nil {
		return refuse(shm.StatusInvalid, "%v", err)
	}
	return answer{}
}
