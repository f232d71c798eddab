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

// Ranks meet by writing words of 8 bytes into each other's memory, which needs no receive: in AI Base those call their source, and it may not
// be there yet. In rank 0's memory word i is the call of rank i, and word n+i its farewell; in that of the others the first is the
// start, and the second rank 0's farewell.
const (
	boxKey    = 1 << 40 // memory key; those of workloads count up from 1
	boxWord   = 8
	wordStart = 0
	wordBye   = 1
)

const (
	retryFirst = 5 * time.Millisecond   // between tries to reach rank 0, in wall time since it is people that are slow; doubled each time …
	retryMost  = 200 * time.Millisecond // … up to here
	goAhead    = time.Millisecond       // virtual time from rank 0's word to the start, so that the word is everywhere by then
)

// meet finds the other ranks: all call rank 0 until it is there, and when it has heard of everybody it names a virtual time at which
// all start.
func (r *Rank) meet(ctx context.Context, ready func()) (time.Duration, error) {
	if err := r.openBox(ctx); err != nil {
		return 0, err
	}
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

func (r *Rank) openBox(ctx context.Context) (err error) {
	r.said = make([]bool, 2*len(r.task.Peers))
	if r.box, err = r.mem.alloc(int64(boxWord * len(r.said))); err != nil {
		return err
	}
	_, err = r.ep.RegisterMR(ctx, r.box, client.MRConfig{Access: client.RemoteWrite, Key: boxKey, Notify: true})
	return err
}

func (r *Rank) agree(ctx context.Context) (time.Duration, error) {
	word, err := r.mem.alloc(boxWord)
	if err != nil {
		return 0, err
	}
	if r.task.Rank == 0 {
		return r.gather(ctx, word)
	}
	op := client.Op{Kind: fep.OpWrite, Peer: 0, Buf: word, Key: boxKey, Offset: uint64(boxWord * r.task.Rank)}
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		_, err := r.ep.Do(ctx, &op)
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
	if _, err := r.await(ctx, wordStart, wordStart+1); err != nil {
		return 0, err
	}
	return time.Duration(binary.BigEndian.Uint64(r.box)), nil
}

// gather is rank 0's part.
func (r *Rank) gather(ctx context.Context, word []byte) (time.Duration, error) {
	now, err := r.await(ctx, 1, len(r.task.Peers))
	if err != nil {
		return 0, err
	}
	at := now + goAhead
	binary.BigEndian.PutUint64(word, uint64(at))
	return at, r.tell(ctx, word, wordStart)
}

// tell writes a word of the boxes of all others.
func (r *Rank) tell(ctx context.Context, word []byte, number int) error {
	for i := 1; i < len(r.task.Peers); i++ {
		if err := r.ep.Write(word, i, boxKey, uint64(boxWord*number), nil); err != nil {
			return err
		}
	}
	for i := 1; i < len(r.task.Peers); {
		c, err := r.next(ctx)
		if err != nil {
			return err
		}
		if !r.heard(&c) {
			i++
		}
	}
	return nil
}

// heard notes a word in the box, and says whether it was one.
func (r *Rank) heard(c *client.Completion) bool {
	if c.Kind != fep.OpRemoteWrite || c.Key != boxKey {
		return false
	}
	if n := c.Offset / boxWord; n >= 0 && n < len(r.said) {
		r.said[n] = true // a call may come twice
	}
	return true
}

// await waits until the words from a number to before another have been said, and gives the time.
func (r *Rank) await(ctx context.Context, from, to int) (now time.Duration, err error) {
	for from < to {
		if r.said[from] {
			from++
			continue
		}
		c, err := r.next(ctx)
		if err != nil {
			return 0, err
		}
		r.heard(&c)
		now = c.At
	}
	return now, nil
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
	word, err := r.mem.alloc(boxWord)
	if err != nil {
		return err
	}
	n := len(r.task.Peers)
	if r.task.Rank == 0 {
		if _, err := r.await(ctx, n+1, 2*n); err != nil {
			return err
		}
		return r.tell(ctx, word, wordBye)
	}
	bye := client.Op{Kind: fep.OpWrite, Peer: 0, Buf: word, Key: boxKey, Offset: uint64(boxWord * (n + r.task.Rank))}
	if _, err := r.ep.Do(ctx, &bye); err != nil {
		return err
	}
	_, err = r.await(ctx, wordBye, wordBye+1)
	return err
}
