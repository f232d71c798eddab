package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
	"github.com/uetlab/uetlab/wire"
)

// serveMemory registers memory at b, tells a of it by a message, and stays until a sends one back.
func serveMemory(t testing.TB, p *proc, mem []byte, c client.MRConfig) {
	t.Helper()
	mr, err := p.ep.RegisterMR(limit(t), mem, c)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() {
		if err := mr.Close(); err != nil {
			t.Error(err)
		}
	}()
	key := binary.LittleEndian.AppendUint64(nil, mr.Key())
	if _, err := p.ep.Do(limit(t), &client.Op{Kind: fep.OpSend, Buf: key, Peer: 0}); err != nil {
		t.Error(err)
	}
	if _, err := p.ep.Do(limit(t), &client.Op{Kind: fep.OpRecv, Peer: client.AnySource}); err != nil {
		t.Error(err)
	}
}

func learnKey(t testing.TB, p *proc) uint64 {
	t.Helper()
	var key [8]byte
	if _, err := p.ep.Do(limit(t), &client.Op{Kind: fep.OpRecv, Buf: key[:], Peer: client.AnySource}); err != nil {
		t.Error(err)
	}
	return binary.LittleEndian.Uint64(key[:])
}

func bye(t testing.TB, p *proc) {
	t.Helper()
	if _, err := p.ep.Do(limit(t), &client.Op{Kind: fep.OpSend, Peer: 0}); err != nil {
		t.Error(err)
	}
}

func TestOneSidedOperations(t *testing.T) {
	for _, shared := range []bool{false, true} {
		f := fabric(t, attachtest.Config{})
		a, b := pair(t, f, client.DomainOptions{})
		const n = 70_000
		mem := make([]byte, n)
		if shared {
			m, err := b.d.Alloc(limit(t), n)
			if err != nil {
				t.Fatal(err)
			}
			mem = m.Bytes()
		}
		both(t, a, b, func(t testing.TB, p *proc) {
			defer bye(t, p)
			key := learnKey(t, p)
			src, back := fill(n-100), make([]byte, n-100)
			do := func(op client.Op) client.Completion {
				op.Peer, op.Key = 0, key
				c, err := p.ep.Do(limit(t), &op)
				if err != nil {
					t.Errorf("shared %v: %v: %v", shared, op.Kind, err)
				}
				return c
			}
			do(client.Op{Kind: fep.OpWrite, Buf: src, Offset: 100})
			do(client.Op{Kind: fep.OpRead, Buf: back, Offset: 100})
			if !bytes.Equal(src, back) {
				t.Error("what was read is not what was written")
			}
			one := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
			old := make([]byte, 8)
			do(client.Op{Kind: fep.OpAtomic, Buf: one(5), Atomic: wire.AtomicSum, Type: wire.AtomicUint64})
			do(client.Op{Kind: fep.OpFetchAtomic, Buf: one(7), Result: old, Atomic: wire.AtomicSum, Type: wire.AtomicUint64})
			if !bytes.Equal(old, one(5)) {
				t.Errorf("fetched %x, want 5", old)
			}
			do(client.Op{Kind: fep.OpCompareAtomic, Buf: one(99), Compare: one(12), Result: old, Atomic: wire.AtomicCSwap, Type: wire.AtomicUint64})
			do(client.Op{Kind: fep.OpFetchAtomic, Result: old, Atomic: wire.AtomicRead, Type: wire.AtomicUint64})
			if !bytes.Equal(old, one(99)) {
				t.Errorf("after the swap: %x, want 99", old)
			}
			_, err := p.ep.Do(limit(t), &client.Op{Kind: fep.OpWrite, Buf: src, Key: key, Offset: 200})
			var re *fep.ResponseError
			if !errors.As(err, &re) {
				t.Errorf("write beyond the end: %v", err)
			}
		}, func(t testing.TB, p *proc) {
			serveMemory(t, p, mem, client.MRConfig{Access: client.RemoteRead | client.RemoteWrite | client.RemoteAtomic})
			if !bytes.Equal(mem[100:], fill(n-100)) || mem[0] != 99 {
				t.Errorf("shared %v: the memory is not what was written", shared)
			}
		})
	}
}

func TestPeersOperationsAreTold(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	a, b := pair(t, f, client.DomainOptions{})
	both(t, a, b, func(t testing.TB, p *proc) {
		key := learnKey(t, p)
		if _, err := p.ep.Do(limit(t), &client.Op{Kind: fep.OpWrite, Flags: fep.FlagData, Data: 77, Buf: fill(10), Key: key, Offset: 3}); err != nil {
			t.Error(err)
		}
		bye(t, p)
	}, func(t testing.TB, p *proc) {
		serveMemory(t, p, make([]byte, 100), client.MRConfig{Access: client.RemoteWrite, Notify: true})
		if c := p.one(t); c.Kind != fep.OpRemoteWrite || c.Len != 10 || c.Offset != 3 || c.Endpoint != p.ep || c.Flags&fep.FlagData == 0 || c.Data != 77 {
			t.Errorf("completion of the write: %+v", c)
		}
	})
}

func TestTruncationCancelAndMultiReceive(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	a, b := pair(t, f, client.DomainOptions{})
	both(t, a, b, func(t testing.TB, p *proc) {
		if err := p.d.SleepUntil(limit(t), time.Millisecond); err != nil {
			t.Error(err)
		}
		for i := range 4 {
			if _, err := p.ep.Do(limit(t), &client.Op{Kind: fep.OpSend, Buf: fill(100 + i)}); err != nil {
				t.Error(i, err)
			}
		}
	}, func(t testing.TB, p *proc) {
		small := make([]byte, 50)
		if _, err := p.ep.Do(limit(t), &client.Op{Kind: fep.OpRecv, Buf: small, Peer: client.AnySource}); err != fep.ErrTruncated || !bytes.Equal(small, fill(50)) {
			t.Errorf("truncated receive: %v", err)
		}
		many := make([]byte, 400)
		if err := p.ep.Post(&client.Op{Kind: fep.OpRecv, Flags: fep.FlagMultiRecv, Buf: many, Peer: client.AnySource, Ctx: "many"}); err != nil {
			t.Error(err)
		}
		at := 0
		for i := range 3 {
			c := p.one(t)
			if c.Ctx != "many" || c.Err != nil || c.Offset != at || c.Len != 101+i || !bytes.Equal(many[at:at+c.Len], fill(c.Len)) {
				t.Errorf("message %d: %+v", i, c)
			}
			at += c.Len
		}
		if err := p.ep.TRecv(nil, client.AnySource, 9, 0, "away"); err != nil {
			t.Error(err)
		}
		if err := errors.Join(p.ep.Cancel("away"), p.ep.Cancel("many"), p.ep.Cancel("nobody")); err != nil {
			t.Error(err)
		}
		got := map[any]error{}
		for range 2 {
			c := p.one(t)
			got[c.Ctx] = c.Err
		}
		if got["away"] != fep.ErrCancelled || got["many"] != fep.ErrCancelled {
			t.Errorf("cancelled: %v", got)
		}
	})
}

func TestSharedReceiveQueue(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	ctx := limit(t)
	a := join(t, f, 0, client.DomainOptions{PID: 1})
	b := join(t, f, 1, client.DomainOptions{PID: 1})
	srx, err := b.d.OpenSRX(ctx, b.cq, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var eps []*client.Endpoint
	for i := range 2 {
		ep, err := b.d.OpenEndpoint(ctx, client.EndpointConfig{AV: b.av, RxCQ: b.cq, SRX: srx, PID: 10 + i})
		if err != nil {
			t.Fatal(err)
		}
		eps = append(eps, ep)
		if _, err := a.av.Insert(ctx, ep.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	both(t, a, b, func(t testing.TB, p *proc) {
		for i := range 4 {
			if _, err := p.ep.Do(ctx, &client.Op{Kind: fep.OpSend, Buf: fill(10), Peer: i % 2}); err != nil {
				t.Error(err)
			}
		}
	}, func(t testing.TB, p *proc) {
		for i := range 5 {
			if err := srx.Recv(make([]byte, 10), i); err != nil {
				t.Error(err)
			}
		}
		for i := range 4 {
			if c := p.one(t); c.Ctx != i || c.Err != nil || c.Endpoint != eps[i%2] && c.Endpoint != nil {
				t.Errorf("receive %d: %+v", i, c)
			}
		}
		if err := srx.Close(); !errors.Is(err, client.ErrBusy) {
			t.Errorf("close of a queue in use: %v", err)
		}
		if err := errors.Join(eps[0].Close(), eps[1].Close(), srx.Close()); err != nil {
			t.Error(err)
		}
		if c := p.one(t); c.Ctx != 4 || c.Err != fep.ErrClosed {
			t.Errorf("the receive that was left: %+v", c)
		}
	})
}

func TestCountersPollsAndChannel(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	a, b := pair(t, f, client.DomainOptions{})
	const n = 5
	both(t, a, b, func(t testing.TB, p *proc) {
		count := p.d.OpenCounter()
		ep, err := p.d.OpenEndpoint(limit(t), client.EndpointConfig{AV: p.av, TxCounter: count, PID: 2})
		if err != nil {
			t.Error(err)
			return
		}
		for range 2 * n {
			if err := ep.TSend(fill(64), 0, 1, nil); err != nil {
				t.Error(err)
			}
		}
		if err := count.Wait(limit(t), 2*n); err != nil || count.Read() != 2*n || count.Errors() != 0 {
			t.Errorf("counter: %v, %d and %d", err, count.Read(), count.Errors())
		}
	}, func(t testing.TB, p *proc) {
		for range 2 * n {
			if err := p.ep.TRecv(make([]byte, 64), client.AnySource, 1, 0, nil); err != nil {
				t.Error(err)
			}
		}
		polls := 0
		for got := 0; got < n; polls++ {
			var cs [1]client.Completion
			k, err := p.cq.Read(cs[:])
			if err != nil {
				t.Error(err)
				return
			}
			got += k
		}
		for range n {
			c := <-p.cq.C()
			if c.Len != 64 {
				t.Errorf("from the channel: %+v", c)
			}
			p.cq.Next()
		}
	})
}

func TestContextEndsAWait(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	a, _ := pair(t, f, client.DomainOptions{})
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	done := make(chan error)
	go func() { // ends with ctx
		var cs [1]client.Completion
		_, err := a.cq.ReadWait(ctx, cs[:])
		done <- err
	}()
	cancel(why)
	if err := <-done; err != why {
		t.Errorf("wait: %v", err)
	}
	go func() { // ends with the domain
		var cs [1]client.Completion
		_, err := a.cq.ReadWait(context.Background(), cs[:])
		done <- err
	}()
	a.d.Close()
	if err := <-done; !errors.Is(err, client.ErrClosed) {
		t.Errorf("wait while the domain closes: %v", err)
	}
	if err := a.ep.Send(nil, 0, nil); !errors.Is(err, client.ErrClosed) {
		t.Errorf("send after close: %v", err)
	}
}

func TestTheFEPGoes(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	a, _ := pair(t, f, client.DomainOptions{})
	done := make(chan error)
	go func() { // ends with the fabric
		var cs [1]client.Completion
		_, err := a.cq.ReadWait(context.Background(), cs[:])
		done <- err
	}()
	f.Close()
	if err := <-done; !errors.Is(err, client.ErrDetached) {
		t.Errorf("wait: %v", err)
	}
	if err := a.d.Sleep(context.Background(), 1); !errors.Is(err, client.ErrDetached) {
		t.Errorf("sleep: %v", err)
	}
	if _, err := client.Open(f.Socket(0)); err == nil {
		t.Error("a fabric that is gone was found")
	}
}

// TestErrorsOfReceivesKeepTheirNames: on AI Base a receive for any source is refused, and a send that nobody has a receive for says so.
func TestErrorsOfReceivesKeepTheirNames(t *testing.T) {
	f := fabric(t, attachtest.Config{FEP: fep.Config{Profiles: fep.AIBase}})
	a, _ := pair(t, f, client.DomainOptions{})
	if _, err := a.ep.Do(limit(t), &client.Op{Kind: fep.OpTagRecv, Buf: make([]byte, 8), Peer: client.AnySource}); !errors.Is(err, fep.ErrSource) {
		t.Errorf("receive for any source: %v", err)
	}
	if _, err := a.ep.Do(limit(t), &client.Op{Kind: fep.OpTagSend, Buf: make([]byte, 8), Peer: 0}); !errors.Is(err, fep.ErrNoReceive) {
		t.Errorf("send without receive: %v", err)
	}
}
