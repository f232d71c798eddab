package rankproc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
)

// Tags of the messages by which ranks meet; no workload uses these.
const (
	tagHello uint64 = 3<<62 | 1
	tagGo    uint64 = 3<<62 | 2
	tagBye   uint64 = 3<<62 | 3
)

const (
	retryFirst = 5 * time.Millisecond   // between tries to reach rank 0, in wall time since it is people that are slow; doubled each time …
	retryMost  = 200 * time.Millisecond // … up to here
	goAhead    = time.Millisecond       // virtual time from rank 0's word to the start, so that the word is everywhere by then
)

// meet finds the other ranks: all call rank 0 until it is there, and when it has heard of everybody it names a virtual time at which
// all start.
func (r *Rank) meet(ctx context.Context, ready func()) (time.Duration, error) {
	ready()
	wctx := ctx
	if r.task.Wait > 0 {
		var cancel context.CancelFunc
		wctx, cancel = context.WithTimeoutCause(ctx, r.task.Wait, errors.New("they did not come in time: start them all, or wait longer"))
		defer cancel()
	}
	at, err := r.agree(wctx)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoPeer, err)
	}
	if err := r.d.SleepUntil(ctx, at); err != nil {
		return 0, err
	}
	return at, nil
}

func (r *Rank) agree(ctx context.Context) (time.Duration, error) {
	buf, err := r.mem.alloc(8 * int64(len(r.task.Peers)))
	if err != nil {
		return 0, err
	}
	if r.task.Rank == 0 {
		return r.gather(ctx, buf)
	}
	// The receive comes first: the word may follow the call at once.
	if err := r.ep.TRecv(buf[:8], 0, tagGo, 0, tagGo); err != nil {
		return 0, err
	}
	if err := r.ep.TRecv(nil, 0, tagBye, 0, tagBye); err != nil { // as early
		return 0, err
	}
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		_, err := r.ep.Do(ctx, &client.Op{Kind: fep.OpTagSend, Peer: 0, Tag: tagHello})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		r.d.Outside(func() {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		})
	}
	if _, err := r.next(ctx); err != nil {
		return 0, err
	}
	return time.Duration(binary.BigEndian.Uint64(buf)), nil
}

// gather is rank 0's part.
func (r *Rank) gather(ctx context.Context, buf []byte) (time.Duration, error) {
	for i := 1; i < len(r.task.Peers); i++ {
		if err := r.ep.TRecv(nil, i, tagHello, 0, tagHello); err != nil {
			return 0, err
		}
	}
	for i := 1; i < len(r.task.Peers); i++ {
		if err := r.ep.TRecv(nil, i, tagBye, 0, tagBye); err != nil {
			return 0, err
		}
	}
	var last client.Completion
	for i := 1; i < len(r.task.Peers); i++ {
		var err error
		if last, err = r.next(ctx); err != nil {
			return 0, err
		}
	}
	at := last.At + goAhead
	binary.BigEndian.PutUint64(buf, uint64(at))
	for i := 1; i < len(r.task.Peers); i++ {
		if err := r.ep.TSend(buf[:8], i, tagGo, tagGo); err != nil {
			return 0, err
		}
	}
	for i := 1; i < len(r.task.Peers); i++ {
		if _, err := r.next(ctx); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// next is the next completion.
func (r *Rank) next(ctx context.Context) (client.Completion, error) {
	var cs [1]client.Completion
	for {
		n, err := r.cq.ReadWait(ctx, cs[:])
		if err != nil {
			return cs[0], err
		}
		if n > 0 {
			return cs[0], cs[0].Err
		}
	}
}

// part has all ranks stay until the last has played: others may still write into their memory.
func (r *Rank) part(ctx context.Context) error {
	n := len(r.task.Peers)
	if r.task.Rank != 0 {
		if err := r.ep.TSend(nil, 0, tagBye, tagBye); err != nil {
			return err
		}
		return r.skip(ctx, 2) // sent, and heard
	}
	if err := r.skip(ctx, n-1); err != nil {
		return err
	}
	for i := 1; i < n; i++ {
		if err := r.ep.TSend(nil, i, tagBye, tagBye); err != nil {
			return err
		}
	}
	return r.skip(ctx, n-1)
}

// skip waits for n farewells, of which some may have been heard while this rank played.
func (r *Rank) skip(ctx context.Context, n int) error {
	for r.byes += n; r.byes > 0; r.byes-- {
		if _, err := r.next(ctx); err != nil {
			return err
		}
	}
	return nil
}
