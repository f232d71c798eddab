package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
)

// ErrData says that what arrived was not what was sent.
var ErrData = errors.New("the data is wrong")

// Side is one of the two processes. The one that was given the other's Address starts and measures; the other answers.
type Side struct {
	spec  Spec
	d     *client.Domain
	begun time.Time

	ctl      *client.Endpoint // agreement, apart from what is measured
	ctlCQ    *client.CQ
	ctlIn    []byte
	ctlOut   []byte
	ep       *client.Endpoint // what is measured
	av       *client.AV
	txq, rxq *client.CQ // one and the same for BW
	mem      layout
	mr       *client.MR
	peer     int    // of ep
	ctlPeer  int    // of ctl
	key      uint64 // of the peer's memory
	got      []client.Completion
	ctx      context.Context // without an end: that of the domain is the end
	op       client.Op       // the one that is being posted
	boxed    []any           // the numbers of slots, for Ctx
	inject   int             // up to so many bytes
}

// Address is how a side is found: two end points.
type Address [2 * addrLen]byte

const addrLen = 32

// hello is what the sides tell each other first: Address and key.
const helloLen = 2*addrLen + 8

// ctlKey is where that end point takes messages: they are written, which needs no receive, so that a side can be called by one that
// it does not know yet in every profile. The sides speak in turn.
const ctlKey = 1

// ctlRI is the resource index of the end point for agreement; the measured one has the standard's.
const ctlRI = 14

// Open attaches a process to the FEP at the socket, empty for the standard one. Close ends it; so does the end of ctx, and then all calls
// fail with its cause.
func Open(ctx context.Context, socket string, spec Spec) (*Side, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	fabric, err := client.Open(socket)
	if err != nil {
		return nil, err
	}
	d, err := fabric.Domain(ctx, client.DomainOptions{PID: client.AnyPID, Near: spec.Metric == Lat})
	if err != nil {
		return nil, err
	}
	s := &Side{spec: spec, d: d, begun: time.Now(), ctx: context.WithoutCancel(ctx), got: make([]client.Completion, 64)}
	context.AfterFunc(ctx, func() { d.Close() }) // waiting calls notice that
	if err := s.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return s, nil
}

// Close ends the attachment.
func (s *Side) Close() error { return s.d.Close() }

// Real says that times are the wall's.
func (s *Side) Real() bool { return s.d.Info().Real }

// Free says that the FEP does not wait, or has ceased to wait, for this process: times are not exact.
func (s *Side) Free() bool { return s.d.Free() }

func (s *Side) open() (err error) {
	if s.inject, err = s.injected(); err != nil {
		return err
	}
	if s.mem, err = s.spec.layout(s.ctx, s.d); err != nil {
		return err
	}
	for i := range max(s.spec.Window, s.mem.receives) {
		s.boxed = append(s.boxed, i)
	}
	entries := s.spec.Window + s.mem.receives + len(s.got)
	if s.rxq, err = s.d.OpenCQ(s.ctx, entries); err != nil {
		return err
	}
	if s.txq = s.rxq; s.spec.Metric == Lat { // completions of one's own must not wake the one who waits for an answer
		if s.txq, err = s.d.OpenCQ(s.ctx, entries); err != nil {
			return err
		}
	}
	if s.ctlCQ, err = s.d.OpenCQ(s.ctx, 16); err != nil {
		return err
	}
	if s.av, err = s.d.OpenAV(s.ctx); err != nil {
		return err
	}
	if s.ep, err = s.d.OpenEndpoint(s.ctx, client.EndpointConfig{AV: s.av, TxCQ: s.txq, RxCQ: s.rxq, Ordered: s.spec.Ordered}); err != nil {
		return err
	}
	s.ctl, err = s.d.OpenEndpoint(s.ctx, client.EndpointConfig{AV: s.av, TxCQ: s.ctlCQ, RxCQ: s.ctlCQ, RMARI: ctlRI, SendRI: ctlRI, TagRI: ctlRI})
	if err != nil {
		return err
	}
	access := client.RemoteRead | client.RemoteWrite | client.RemoteAtomic
	s.mr, err = s.ep.RegisterMR(s.ctx, s.mem.target, client.MRConfig{Access: access, Notify: s.spec.notified() && !s.spec.twoSided()})
	if err != nil {
		return err
	}
	ctl, err := s.d.Alloc(s.ctx, 2*helloLen)
	if err != nil {
		return err
	}
	s.ctlIn, s.ctlOut = ctl.Bytes()[:helloLen], ctl.Bytes()[helloLen:]
	_, err = s.ctl.RegisterMR(s.ctx, s.ctlIn, client.MRConfig{Access: client.RemoteWrite, Key: ctlKey, Notify: true})
	return err
}

// injected is up to how many bytes messages are injected.
func (s *Side) injected() (int, error) {
	most := s.d.Info().InjectSize
	switch n := s.spec.Inject; {
	case n > most:
		return 0, fmt.Errorf("--inline (%d): the FEP takes at most %d bytes", n, most)
	case n != Auto:
		return n, nil
	case s.spec.Metric == Lat:
		return most, nil
	}
	return 0, nil
}

// Address is where the other side finds this one.
func (s *Side) Address() (a Address) {
	copy(a[:], client.MarshalAddress(s.ep.Addr()))
	copy(a[addrLen:], client.MarshalAddress(s.ctl.Addr()))
	return a
}

// meet learns where the other side is.
func (s *Side) meet(a []byte) (err error) {
	for i, to := range []*int{&s.peer, &s.ctlPeer} {
		addr, err := client.UnmarshalAddress(a[i*addrLen:])
		if err != nil {
			return err
		}
		if *to, err = s.av.Insert(s.ctx, addr); err != nil {
			return fmt.Errorf("perf: address of the other side: %w", err)
		}
	}
	return nil
}

// say sends a message of agreement and waits until it has got there.
func (s *Side) say() error {
	a := s.Address()
	copy(s.ctlOut, a[:])
	binary.BigEndian.PutUint64(s.ctlOut[2*addrLen:], s.mr.Key())
	_, err := s.ctl.Do(s.ctx, &client.Op{Kind: fep.OpWrite, Peer: s.ctlPeer, Buf: s.ctlOut, Key: ctlKey})
	if err != nil {
		return fmt.Errorf("perf: message to the other side: %w", err)
	}
	return nil
}

// hear waits for a message of agreement.
func (s *Side) hear() (hello [helloLen]byte, err error) {
	var c [1]client.Completion
	if _, err = s.ctlCQ.ReadWait(s.ctx, c[:]); err == nil {
		err = c[0].Err
	}
	if err != nil {
		return hello, fmt.Errorf("perf: message from the other side: %w", err)
	}
	copy(hello[:], s.ctlIn)
	return hello, nil
}

// now is the time by which is measured.
func (s *Side) now() time.Duration {
	if s.Real() {
		return time.Since(s.begun)
	}
	return s.d.Now()
}

// Run measures all sizes. peer is the other side's address, nil for the side that answers. Each is called with every result; the side that
// answers has results with Bidirectional only.
func (s *Side) Run(peer *Address, each func(Row) error) error {
	starts := peer != nil
	if starts {
		if err := s.meet(peer[:]); err != nil {
			return err
		}
		if err := s.say(); err != nil {
			return err
		}
	} else {
		hello, err := s.hear()
		if err != nil {
			return err
		}
		if err := s.meet(hello[:]); err != nil {
			return err
		}
		s.key = binary.BigEndian.Uint64(hello[2*addrLen:])
	}
	for _, size := range s.spec.Sizes {
		if err := s.size(size, starts, each); err != nil {
			return fmt.Errorf("%s of %d bytes: %w", s.spec.Test, size, err)
		}
	}
	return nil
}

// size is one round: the answering side gets ready and says so, both do their part, the starting side says that it is done.
func (s *Side) size(size int64, starts bool, each func(Row) error) error {
	warmup, iters := s.spec.counts(size, s.Real())
	r := round{Side: s, size: int(size), warmup: warmup, iters: iters, starts: starts}
	if err := r.ready(); err != nil {
		return err
	}
	if starts {
		hello, err := s.hear()
		if err != nil {
			return err
		}
		s.key = binary.BigEndian.Uint64(hello[2*addrLen:])
	} else if err := s.say(); err != nil {
		return err
	}
	row, err := r.play()
	if err != nil {
		return err
	}
	if starts {
		err = s.say()
	} else {
		_, err = s.hear()
	}
	if err != nil {
		return err
	}
	if err := r.verifyTarget(); err != nil {
		return err
	}
	if row == nil {
		return nil
	}
	row.Bytes, row.Iterations = size, iters
	return each(*row)
}
