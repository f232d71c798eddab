// Package rankproc is a rank of a run as a process of its own: it uses the FEP of its node through fep/client, like any application,
// and plays the part that a rank within the FEP plays otherwise. Who starts it, the lab daemon or a person, tells it what to play by
// a Task; the package starts no process.
package rankproc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

// Ready is the line by which a process that the lab daemon has started says that it waits for the run.
const Ready = "ready"

// Task says what a rank plays, and where it finds the others.
type Task struct {
	Spec  workload.Spec   `json:"spec"`
	Rank  int             `json:"rank"`
	Peers []workload.Peer `json:"peers"` // all ranks in order, itself too
	Job   uint32          `json:"job"`
	Token []byte          `json:"token,omitempty"` // of the job, 16 bytes; none: the job is open
	Free  bool            `json:"free,omitempty"`  // the FEP does not wait for it
	// Meet has the rank find the others over the network and agree with them on a time; else a run of the lab tells it when to start.
	Meet bool          `json:"meet,omitempty"`
	Wait time.Duration `json:"-"` // Meet: how long the others may take to come, in wall time; 0: without end
}

// Rank is a process' part of a run, from the moment at which it is attached.
type Rank struct {
	task Task
	d    *client.Domain
	cq   *client.CQ
	ep   *client.Endpoint
	play *workload.Rank
	mem  arena
	keys uint64
	box  []byte // where others say what they have to say beside the workload, see meet
	said []bool // by number of the word in box
	err  error  // the first failure of what has no way to tell
	res  *workload.RankResult
}

// Attach joins the FEP at a socket (empty: the node's), opens the endpoint, and takes the memory that the rank needs.
func Attach(ctx context.Context, socket string, t Task) (*Rank, error) {
	if t.Rank < 0 || t.Rank >= len(t.Peers) || len(t.Peers) != t.Spec.Ranks {
		return nil, fmt.Errorf("rank %d: %d ranks are to be reached, the run has %d", t.Rank, len(t.Peers), t.Spec.Ranks)
	}
	if err := t.Spec.Validate(); err != nil {
		return nil, fmt.Errorf("rank %d: %w", t.Rank, err)
	}
	o := client.DomainOptions{PID: int(t.Peers[t.Rank].PID), Job: t.Job, Free: t.Free}
	if len(t.Token) > 0 && copy(o.Token[:], t.Token) != len(o.Token) {
		return nil, fmt.Errorf("rank %d: a token of %d bytes, not %d", t.Rank, len(t.Token), len(o.Token))
	}
	f, err := client.Open(socket)
	if err != nil {
		return nil, err
	}
	r := &Rank{task: t}
	if r.d, err = f.Domain(ctx, o); err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.d.Close())
	}
	return r, nil
}

func (r *Rank) open(ctx context.Context) error {
	t := &r.task
	r.mem.take = func(n int) ([]byte, error) {
		m, err := r.d.Alloc(ctx, n)
		if err != nil {
			return nil, err
		}
		return m.Bytes(), nil
	}
	var err error
	if r.cq, err = r.d.OpenCQ(ctx, t.Spec.Operations(t.Rank)+3*len(t.Peers)); err != nil {
		return err
	}
	av, err := r.d.OpenAV(ctx)
	if err != nil {
		return err
	}
	addrs := make([]client.Address, len(t.Peers))
	for i, p := range t.Peers {
		addrs[i] = p.Address(i)
	}
	if _, err := av.Insert(ctx, addrs...); err != nil {
		return err
	}
	if r.ep, err = r.d.OpenEndpoint(ctx, client.EndpointConfig{AV: av, TxCQ: r.cq, RxCQ: r.cq, PID: int(t.Peers[t.Rank].PID), Initiator: uint32(t.Rank), Ordered: t.Spec.Ordered}); err != nil {
		return err
	}
	if r.play, err = workload.NewRank(t.Spec, t.Rank, r, func(res workload.RankResult) { r.res = &res }); err != nil {
		return err
	}
	return r.err
}

// Run waits for the start, plays, and reports to the node if a run of the lab asked for it. ready is called when the rank
// is about to wait for the start. The endpoint stays open: others may not have finished.
func (r *Rank) Run(ctx context.Context, ready func()) (workload.RankResult, error) {
	now, err := r.begin(ctx, ready)
	if err != nil {
		return workload.RankResult{}, fmt.Errorf("rank %d: %w", r.task.Rank, err)
	}
	r.play.Start(vt.Time(now))
	var cs [1]client.Completion
	for r.res == nil && r.err == nil {
		n, err := r.cq.ReadWait(ctx, cs[:])
		if err != nil {
			return workload.RankResult{}, fmt.Errorf("rank %d: %w", r.task.Rank, err)
		}
		if n == 0 {
			continue
		}
		c := &cs[0]
		if r.heard(c) { // rank 0 hears the farewells of those that are faster
			continue
		}
		id, _ := c.Ctx.(uint64)
		r.play.Complete(vt.Time(c.At), workload.Done{Ctx: id, Len: c.Len, Acked: vt.Time(c.Acked), Err: c.Err})
	}
	if r.err != nil {
		return workload.RankResult{}, fmt.Errorf("rank %d: %w", r.task.Rank, r.err)
	}
	if r.task.Meet {
		return *r.res, r.part(ctx)
	}
	b, err := json.Marshal(r.res)
	if err == nil {
		err = r.d.Report(ctx, b)
	}
	if err != nil {
		return *r.res, fmt.Errorf("rank %d: report: %w", r.task.Rank, err)
	}
	return *r.res, nil
}

func (r *Rank) begin(ctx context.Context, ready func()) (time.Duration, error) {
	if r.task.Meet {
		return r.meet(ctx, ready)
	}
	return r.d.AwaitRun(ctx, ready)
}

// Linger runs f, which may block, while the endpoint stays open and virtual time goes on.
func (r *Rank) Linger(f func()) { r.d.Outside(f) }

// Close leaves the FEP.
func (r *Rank) Close() error { return r.d.Close() }

// TagSend implements workload.Endpoint.
func (r *Rank) TagSend(_ vt.Time, dst int, buf []byte, tag, ctx uint64) error {
	return r.ep.TSend(buf, dst, tag, ctx)
}

// TagRecv implements workload.Endpoint.
func (r *Rank) TagRecv(_ vt.Time, src int, buf []byte, tag, ctx uint64) error {
	return r.ep.TRecv(buf, src, tag, 0, ctx)
}

// Write implements workload.Endpoint.
func (r *Rank) Write(_ vt.Time, dst int, buf []byte, key, offset, ctx uint64) error {
	return r.ep.Write(buf, dst, key, offset, ctx)
}

// Register implements workload.Endpoint.
func (r *Rank) Register(buf []byte) uint64 {
	r.keys++
	_, err := r.ep.RegisterMR(context.Background(), buf, client.MRConfig{Access: client.RemoteWrite, Key: r.keys})
	r.fail(err)
	return r.keys
}

// Wake implements workload.Waker.
func (r *Rank) Wake(t vt.Time, ctx uint64) { r.fail(r.cq.Wake(time.Duration(t), ctx)) }

// Alloc implements workload.Allocator.
func (r *Rank) Alloc(n int64) []byte {
	b, err := r.mem.alloc(n)
	r.fail(err)
	return b
}

// Zeros implements workload.Zeros.
func (r *Rank) Zeros(n int64) []byte {
	b, err := r.mem.zeros(n)
	r.fail(err)
	return b
}

func (r *Rank) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

var _ interface {
	workload.Endpoint
	workload.Waker
	workload.Zeros
	workload.Allocator
} = (*Rank)(nil)

// ErrNoPeer says that a rank was not found in time.
var ErrNoPeer = errors.New("not all ranks are there")
