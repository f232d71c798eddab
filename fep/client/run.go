package client

import (
	"context"
	"time"

	"github.com/uetlab/uetlab/internal/shm"
)

// Wake completes in q at virtual time t, or at once when that is past. Of the completion only Ctx and At say anything.
func (q *CQ) Wake(t time.Duration, ctx any) error {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	_, err := q.d.submit(&shm.SQE{Op: shm.OpWake, Object: uint16(q.id), Flags: shm.FlagAbsolute, Offset: uint64(max(t, 0))}, pending{cq: q, ctx: ctx})
	return err
}

// AwaitRun returns when a run of the lab begins in which this process is a rank, and gives that virtual time. Ready is called when the FEP is
// about to know that the process waits for it: whoever starts the run may do so from then on.
func (d *Domain) AwaitRun(ctx context.Context, ready func()) (time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &result{}
	if _, err := d.submit(&shm.SQE{Op: shm.OpWake, Object: uint16(d.sys.id), Flags: shm.FlagRun}, pending{cq: d.sys, wait: w}); err != nil {
		return 0, err
	}
	ready() // the FEP stands still until this goroutine waits, and then it has taken the submission
	if err := d.await(ctx, func() bool { return w.done }, true); err != nil {
		return 0, err
	}
	return w.c.At, w.c.Err
}

// Report tells the node what this process has to say at the end of a run: a workload.RankResult in JSON.
func (d *Domain) Report(ctx context.Context, b []byte) error {
	const most = shm.MaxMessage - shm.HeaderLen - 8
	for {
		n := min(len(b), most)
		m := shm.Report{}
		if n == len(b) {
			m.Last = 1
		}
		if _, err := d.request(ctx, "report", shm.ReqReport, &m, b[:n], -1, nil); err != nil {
			return err
		}
		if b = b[n:]; m.Last == 1 {
			return nil
		}
	}
}
