package nodecore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

// part is the node's part in a run: the ranks that live on it, each a process of the job with an endpoint of its own.
type part struct {
	n *Node
	ctl.Run
	ranks []*workload.Rank

	sent     int64        // bytes that all of them send in the run, -1: not counted yet
	wakes    []wake       // in their order
	reported map[int]bool // by rank
}

// wake is a time at which a rank wants to go on.
type wake struct {
	t   vt.Time
	i   int // in part.ranks
	ctx uint64
}

// StartRun schedules the beginning of a run at r.At. Nobody has begun it yet: what has arrived by now is not the run's.
func (n *Node) StartRun(r ctl.Run) error {
	p := &part{n: n, Run: r, sent: -1, reported: map[int]bool{}}
	for _, rank := range r.Ranks {
		if n.FEP == nil {
			return fmt.Errorf("run: rank %d is not on an end point", rank)
		}
		if rank < 0 || rank >= len(r.Peers) {
			return fmt.Errorf("run: rank %d: %d are to be reached", rank, len(r.Peers))
		}
	}
	change, err := n.configure(&r)
	if err != nil {
		return err
	}
	before := n.Mark()
	n.BeginAt(r.At, func(now vt.Time) {
		n.part = nil
		n.closeOthers(now, p)
		if change != nil {
			n.FEP.Configure(*change)
		}
		if !r.Warm {
			n.DropArrivals(before)
			n.Node.StartRun(now, r.Seed)
			n.forgetRetry()
			if n.AfterReset != nil {
				n.AfterReset(now)
			}
		}
		n.sample(now, &r)
		if len(r.Ranks) == 0 {
			return
		}
		n.part = p
		if r.Spec.Size >= bigRun {
			runtime.GC() // the buffers of the run before are garbage now: both at once could be more than the node may use
		}
		p.ranks = make([]*workload.Rank, len(r.Ranks))
		start := p.start
		if r.Job != 0 {
			start = p.startProcess
		}
		for i := range r.Ranks {
			n.Call(now, func(now vt.Time) { start(now, i) })
		}
	})
	return nil
}

// forgetRetry has ports without link layer retry be as if they never had any: it would show in when pauses and credits are read.
func (n *Node) forgetRetry() {
	for i, p := range n.Ports {
		if n.cfg.Node.Ports[i].LLR == nil && p.LLR() == nil && (n.lldp == nil || !n.lldp.ports[i].wish.LLR) {
			n.ForgetLLR(i)
		}
	}
}

// closeOthers closes the endpoints of ranks of the run before that the next run does not open anew.
func (n *Node) closeOthers(now vt.Time, next *part) {
	for _, pid := range slices.Sorted(maps.Keys(n.opened)) {
		if next.Job == 0 && slices.ContainsFunc(next.Ranks, func(rank int) bool { return next.Peers[rank].PID == pid }) {
			continue
		}
		n.opened[pid].Close(now)
		delete(n.opened, pid)
	}
}

// startProcess begins the part of a rank that is a process of its own.
func (p *part) startProcess(now vt.Time, i int) {
	me := p.Ranks[i]
	if n := p.n; n.Begin == nil || !n.Begin(now, p.Job, p.Peers[me].PID) {
		p.reported[me] = true
		n.report(workload.RankResult{Rank: me, Error: fmt.Sprintf("its process is not there: none of job %d with PIDonFEP %d waits for the run", p.Job, p.Peers[me].PID)})
	}
}

// Report takes what an attached process says of its part of the run: a workload.RankResult in JSON.
func (n *Node) Report(job uint32, pid uint16, b []byte) error {
	p := n.part
	if p == nil || p.Job == 0 || p.Job != job {
		return errors.New("no run of this job is under way")
	}
	var r workload.RankResult
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	switch {
	case !slices.Contains(p.Ranks, r.Rank) || p.Peers[r.Rank].PID != pid:
		return fmt.Errorf("report: rank %d is another process", r.Rank)
	case p.reported[r.Rank]:
		return fmt.Errorf("report: rank %d has reported already", r.Rank)
	}
	p.reported[r.Rank] = true
	n.report(r)
	return nil
}

// start begins the part of a rank.
func (p *part) start(now vt.Time, i int) {
	n, me := p.n, p.Ranks[i]
	report := func(r workload.RankResult) { p.reported[me] = true; n.report(r) }
	if pid := p.Peers[me].PID; n.Taken != nil && n.Taken(jobID, pid) {
		report(workload.RankResult{Rank: me, Error: fmt.Sprintf("PIDonFEP %d of job %d is that of an attached process: end it, or give the ranks processes of their own", pid, jobID)})
		return
	}
	ep := n.FEP.OpenEndpoint(jobID, p.Peers[me].PID, uint32(me), func(now vt.Time, c fep.Completion) {
		if n.part == p && p.ranks[i] != nil {
			p.ranks[i].Complete(now, workload.Done{Ctx: c.Ctx, Len: c.Len, Acked: c.Acked, Err: c.Err})
		}
	})
	n.opened[p.Peers[me].PID] = ep
	ep.SetOrdered(p.Spec.Ordered)
	for k, peer := range p.Peers {
		if _, err := ep.Insert(peer.Address(k)); err != nil {
			report(workload.RankResult{Rank: me, Error: fmt.Sprintf("rank %d at %s: %v", k, peer.Addr, err)})
			return
		}
	}
	rank, err := workload.NewRank(p.Spec, me, endpoint{ep, p, i}, report)
	if err != nil {
		report(workload.RankResult{Rank: me, Error: err.Error()})
		return
	}
	p.ranks[i] = rank
	rank.Start(now)
}

// Yield closes what a rank of a run that is over has left open, for a process that wants its PIDonFEP; false: the rank still plays.
func (n *Node) Yield(now vt.Time, job uint32, pid uint16) bool {
	ep := n.opened[pid]
	if ep == nil || job != jobID {
		return true
	}
	if p := n.part; p != nil && p.Job == 0 {
		for i, rank := range p.Ranks {
			if p.Peers[rank].PID != pid {
				continue
			}
			if !p.reported[rank] {
				return false
			}
			p.ranks[i] = nil
		}
	}
	delete(n.opened, pid)
	ep.Close(now)
	return true
}

// endpoint lets a rank be woken: workload.Waker; and have memory: workload.Zeros.
type endpoint struct {
	*fep.Endpoint
	p *part
	i int // in part.ranks
}

// Zeros implements workload.Zeros.
func (e endpoint) Zeros(n int64) []byte { return e.p.n.mem.take(n) }

// Wake implements workload.Waker.
func (e endpoint) Wake(t vt.Time, ctx uint64) {
	p := e.p
	at, _ := slices.BinarySearchFunc(p.wakes, wake{t: t, i: e.i}, func(a, b wake) int {
		return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.i, b.i), -1) // behind its like
	})
	p.wakes = slices.Insert(p.wakes, at, wake{t, e.i, ctx})
	p.n.Call(t, p.woken)
}

// woken wakes the first rank whose time has come: at one time in the order of ranks, whoever asked first. It is what attached processes
// know as well (package attach), with one call for each wake.
func (p *part) woken(now vt.Time) {
	if p.n.part != p || len(p.wakes) == 0 || p.wakes[0].t > now {
		return
	}
	w := p.wakes[0]
	p.wakes = slices.Delete(p.wakes, 0, 1)
	if r := p.ranks[w.i]; r != nil {
		r.Complete(now, workload.Done{Ctx: w.ctx})
	}
}

// Sends is how many payload bytes the ranks of this node send in the run that is under way, be they processes or not.
func (n *Node) Sends() int64 {
	p := n.part
	if p == nil {
		return 0
	}
	if p.sent < 0 {
		p.sent = 0
		for _, rank := range p.Ranks {
			if p.Spec.Validate() == nil { // else the rank tells
				p.sent += p.Spec.Sent(rank)
			}
		}
	}
	return p.sent
}

// Progress is how many bytes of the run the ranks of this node have done, of how many.
func (n *Node) Progress() (done, total int64) {
	if n.part == nil {
		return 0, 0
	}
	for _, r := range n.part.ranks {
		if r != nil {
			d, t := r.Progress()
			done, total = done+d, total+t
		}
	}
	return done, total
}
