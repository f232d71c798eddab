package fep

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestInjectedCopyIsPulled: what an inject copies is what the application wrote, also where the FEP has only a copy of its memory.
func TestInjectedCopyIsPulled(t *testing.T) {
	for _, p := range []Profiles{AIFull, HPC, AIBase} {
		l := newLab(t, Config{Profiles: p})
		src, dst := newForeign(fill(3000, 3)), make([]byte, 3000)
		l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 1, Buf: buf(dst), Ctx: 1})
		l.run(l.now() + ms)
		l.post(0, Op{Kind: OpTagSend, Flags: FlagInject, Peer: 1, Tag: 1, Buf: src.buf(), Ctx: 2})
		clear(src.real) // it is the application's again
		l.settle()
		if !bytes.Equal(dst, fill(3000, 3)) {
			t.Errorf("profiles %b: other bytes came", p)
		}
		src.broken = 0
		if err := l.eps[0].Post(l.now(), &Op{Kind: OpTagSend, Flags: FlagInject, Peer: 1, Buf: src.buf()}); !errors.Is(err, ErrMemory) {
			t.Errorf("profiles %b: memory that is gone: %v", p, err)
		}
		l.spent()
	}
}

// TestDrivenWithOptimizedHeaders: a short message of an AI Base pair that takes the optimized headers brings its header data too.
func TestDrivenWithOptimizedHeaders(t *testing.T) {
	for _, f := range []Flags{0, FlagData} {
		l := newLabWith(t, Config{Profiles: AIBase, SmallHeader: true}, EndpointConfig{}, EndpointConfig{})
		dst := make([]byte, 100)
		l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 1, Buf: buf(dst), Ctx: 1})
		l.post(0, Op{Kind: OpTagSend, Flags: f, Peer: 1, Tag: 1, Buf: buf(fill(100, 1)), Data: 7, Ctx: 2})
		l.settle()
		if c, n := l.done(0, 2); n != 1 || c.Err != nil {
			t.Errorf("flags %b: send: %d times %+v", f, n, c)
		}
		if c, n := l.done(1, 1); n != 1 || c.Err != nil || c.Flags != f || f != 0 && c.Data != 7 || !bytes.Equal(dst, fill(100, 1)) {
			t.Errorf("flags %b: receive: %d times %+v", f, n, c)
		}
		l.spent()
	}
}

// TestDrivenInOrder: receives of an ordered AI Base endpoint whose notices are refused at first come to their source in their order.
func TestDrivenInOrder(t *testing.T) {
	l := newLab(t, Config{Profiles: AIBase, MaxRestarts: 9, RestartWait: time.Millisecond})
	for _, ep := range l.eps {
		ep.SetOrdered(true)
	}
	known := l.eps[0].av[1]
	l.eps[0].av[1] = nil // the source learns of the receiver a little later
	var dst [8][]byte
	for i := range dst {
		dst[i] = make([]byte, 10)
		l.post(1, Op{Kind: OpRecv, Peer: 0, Buf: buf(dst[i]), Ctx: uint64(i)})
	}
	l.run(l.now() + 2*ms)
	l.eps[0].av[1] = known
	l.run(l.now() + 200*ms)
	for i := range dst {
		l.post(0, Op{Kind: OpSend, Peer: 1, Buf: buf(fill(10, uint64(i))), Ctx: uint64(i)})
	}
	l.run(l.now() + ms)
	for i := range dst {
		if c, n := l.done(1, uint64(i)); n != 1 || c.Err != nil || !bytes.Equal(dst[i], fill(10, uint64(i))) {
			t.Errorf("receive %d: %d times %+v, %x", i, n, c, dst[i])
		}
	}
	l.spent()
}

// TestReaderOfCrumbs: who reads an exposed buffer byte by byte, with holes, does not have its owner keep a note for each.
func TestReaderOfCrumbs(t *testing.T) {
	e := newEarly(t, Config{Profiles: HPC}, 100_000)
	e.send()
	e.run(e.now() + ms)
	m := e.eps[0].open.head
	for i := range uint64(40_000) {
		m.fetched(e.now(), 2*i, 1)
	}
	if n := len(*m.early.read); n > mostSpans {
		t.Errorf("%d ranges", n)
	}
	e.recv()
	e.run(e.now() + ms)
	e.arrived()
}

// TestEndpointsOpenedAndClosed: somebody who opens and closes endpoints without end, at one instant, does not fill the directory.
func TestEndpointsOpenedAndClosed(t *testing.T) {
	l := newLab(t, Config{})
	for i := range 5000 {
		ep, err := l.feps[1].Open(EndpointConfig{Job: testJob, PID: uint16(10 + i%7)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ep.Close(0)
	}
	if n := len(l.feps[1].dir.list); n > mostTombs+1 || len(l.feps[1].tombs) > mostTombs {
		t.Errorf("%d endpoints, %d of them closed", n, len(l.feps[1].tombs))
	}
	l.settle()
	if n := len(l.feps[1].dir.list); n != 1 {
		t.Errorf("%d endpoints at the end", n)
	}
}

// TestWideReceive: a buffer of more than 4 GiB is as good as another.
func TestWideReceive(t *testing.T) {
	l := newLab(t, Config{})
	var resp response
	m := rxMsg{op: wire.OpSend, ep: l.eps[1], length: 100, eager: 100, room: 1 << 32, som: true}
	l.feps[1].rx.n++ // its context is not in the list
	l.feps[1].account(0, &m, &packet{op: wire.OpSend, head: make(wire.SESHead, 12), n: 100}, &resp)
	if resp.mod != 100 {
		t.Errorf("modified_length %d", resp.mod)
	}
}

// TestQueueClosed: a shared queue takes no receives after Close.
func TestQueueClosed(t *testing.T) {
	l := newLab(t, Config{})
	q := l.feps[1].OpenRecvQueue(0, nil)
	q.Close(1)
	if err := q.Post(1, &Op{Kind: OpRecv, Peer: AnySource, Buf: buf(make([]byte, 10))}); !errors.Is(err, ErrClosed) {
		t.Errorf("Post: %v", err)
	}
	if _, err := l.feps[1].Open(EndpointConfig{Job: testJob, PID: 9, Queue: q}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Open: %v", err)
	}
	q.Close(2)
}

// TestControlIndexIsTaken: the resource index of control messages is nobody's.
func TestControlIndexIsTaken(t *testing.T) {
	l := newLab(t, Config{})
	if _, err := l.feps[1].Open(EndpointConfig{Job: testJob, PID: 9, SendRI: controlRI}, nil); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestExposedForOnePeer: a process with the target's initiator ID at another address cannot read what a rendezvous exposes, nor can one at the
// target's address with another ID.
func TestExposedForOnePeer(t *testing.T) {
	e := newEarly(t, Config{Profiles: HPC}, 100_000)
	e.send()
	e.run(e.now() + ms)
	m := e.eps[0].open.head
	for _, c := range []struct {
		src  int
		id   uint32
		want wire.ReturnCode
	}{{1, 101, wire.RCOK}, {2, 101, wire.RCBadMKey}, {1, 102, wire.RCBadMKey}} {
		rx := rxMsg{ep: e.eps[0], region: m.early.region}
		if rc := rx.admitTo(&packet{src: testAddr(c.src), initiator: c.id}); rc != c.want {
			t.Errorf("from %v as %d: %v, want %v", testAddr(c.src), c.id, rc, c.want)
		}
	}
	e.recv()
	e.run(e.now() + ms)
	e.arrived()
}

// TestReadOfFailedRendezvousEnds: when a message is given up whose rest is being read, nothing more comes into the receive, which the
// application may have used again.
func TestReadOfFailedRendezvousEnds(t *testing.T) {
	e := newEarly(t, Config{Profiles: HPC, MPR: 1}, 1_000_000)
	e.recv()
	e.send()
	for e.feps[1].lands.n == 0 || e.feps[1].lands.head.read == nil || e.feps[1].lands.head.read.got == 0 {
		if !e.step(vt.Time(time.Second)) {
			t.Fatal("no read began")
		}
	}
	l := e.feps[1].lands.head
	e.call(1, e.now()+1, func(now vt.Time) {
		l.fail(now, ErrAborted)
		clear(e.dst)
	})
	e.run(e.now() + 2)
	e.run(e.now() + 20*ms)
	if c, n := e.done(1, 11); n != 1 || !errors.Is(c.Err, ErrAborted) {
		t.Errorf("%d times %+v", n, c)
	}
	if !bytes.Equal(e.dst, make([]byte, len(e.dst))) {
		t.Error("written after the completion")
	}
	if e.eps[1].open.head != nil {
		t.Error("the read goes on")
	}
	e.spent()
}
