// Package attachtest runs FEPs with attached processes in one process, without namespaces, sockets to a network or root: nodes joined by
// ideal links, in virtual time, each with its unix socket. Tests and examples of programs that use fep/client stand on it; it plays no
// switch and no lab daemon.
package attachtest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/attach"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Config of a Fabric. Zero values stand for what the comments say.
type Config struct {
	Nodes  int        // 0: 2
	FEP    fep.Config // addresses are filled in
	Attach attach.Config
	Real   bool          // virtual time is the wall's
	Bound  int           // with Real: 1 + the processor that processes which ask for it join the FEP on; 0: none
	Rate   int64         // of links, bit/s; 0: 400e9
	Delay  time.Duration // of links; 0: 500 ns
}

// Fabric is a set of FEPs, each linked to each.
type Fabric struct {
	cfg   Config
	dir   string
	nodes []*engine.Node
	feps  []*fep.FEP
	srvs  []*attach.Server
	stop  int // eventfd
	done  chan struct{}
	mono0 int64

	mu   sync.Mutex
	todo []func()
	end  bool
	once sync.Once
}

// New starts a fabric; Close ends it.
func New(cfg Config) (*Fabric, error) {
	if cfg.Nodes == 0 {
		cfg.Nodes = 2
	}
	if cfg.Rate == 0 {
		cfg.Rate = 400e9
	}
	if cfg.Delay == 0 {
		cfg.Delay = 500
	}
	if cfg.Attach.Wall == nil {
		cfg.Attach.Wall = monotonic
	}
	dir, err := os.MkdirTemp("", "uetfep")
	if err != nil {
		return nil, err
	}
	f := &Fabric{cfg: cfg, dir: dir, done: make(chan struct{}), mono0: monotonic()}
	if f.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	for i := range cfg.Nodes {
		if err := f.add(i); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	go f.run() // ends with Close
	return f, nil
}

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// Addr is the fabric address of a node.
func Addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i + 1)}) }

func (f *Fabric) add(i int) error {
	ec := engine.Config{ID: i + 1, Seed: 42, MaxFrame: 4600, Ports: []link.Config{{Rate: f.cfg.Rate, Delay: f.cfg.Delay, Queue: 1 << 20, MTU: 4500}}}
	n := engine.New(ec, wires{f, i})
	fc := f.cfg.FEP
	fc.Addr4, fc.Addr6 = Addr(i), netip.AddrFrom16([16]byte{0xfd, 14: byte(i >> 8), 15: byte(i + 1)})
	core := fep.New(n, fc)
	srv, err := attach.New(n, core, f.cfg.Attach)
	if err != nil {
		return err
	}
	if f.cfg.Real {
		srv.SetReal(true, 0, f.mono0)
		srv.BindTo(f.cfg.Bound - 1)
	}
	f.nodes, f.feps, f.srvs = append(f.nodes, n), append(f.feps, core), append(f.srvs, srv)
	return srv.Listen(f.Socket(i))
}

// Nodes is the number of nodes.
func (f *Fabric) Nodes() int { return f.cfg.Nodes }

// Socket is where processes find the FEP of a node.
func (f *Fabric) Socket(i int) string { return filepath.Join(f.dir, fmt.Sprintf("fep%d", i)) }

// Do runs fn in the fabric's own thread, while time stands still, and waits for it: only there may servers, FEPs and nodes be touched.
func (f *Fabric) Do(fn func()) {
	ran := make(chan struct{})
	f.mu.Lock()
	f.todo = append(f.todo, func() { fn(); close(ran) })
	f.mu.Unlock()
	f.poke()
	<-ran
}

// Server, FEP and Node are those of node i; see Do.
func (f *Fabric) Server(i int) *attach.Server { return f.srvs[i] }

// FEP is that of node i; see Do.
func (f *Fabric) FEP(i int) *fep.FEP { return f.feps[i] }

// Node is node i; see Do.
func (f *Fabric) Node(i int) *engine.Node { return f.nodes[i] }

func (f *Fabric) poke() {
	one := [8]byte{1}
	_, _ = unix.Write(f.stop, one[:])
}

// Close ends the fabric; processes that are attached lose it.
func (f *Fabric) Close() {
	f.mu.Lock()
	f.end = true
	f.mu.Unlock()
	f.poke()
	<-f.done
	f.once.Do(func() {
		unix.Close(f.stop)
		os.RemoveAll(f.dir)
	})
}

// wires take what a node sends to where it is addressed.
type wires struct {
	f    *Fabric
	from int
}

// Transmit implements engine.Out.
func (w wires) Transmit(_ int, fr *link.Frame) {
	in, err := wire.ParseUET(fr.B, 0)
	for i := range w.f.nodes {
		if err != nil {
			break
		}
		dst := netip.Addr{}
		if in.V6 {
			dst = wire.IPv6(in.IP).Dst()
		} else {
			dst = wire.IPv4(in.IP).Dst()
		}
		if w.f.feps[i].Addr() != dst {
			continue
		}
		g := w.f.nodes[i].Pool.Get()
		g.B = append(g.B, fr.B...)
		g.Due, g.FCS, g.Damaged = fr.Due, fr.FCS, fr.Damaged
		if w.f.cfg.Real {
			g.Due = max(w.f.nodes[i].Now(), w.f.nodes[w.from].Now())
		}
		w.f.nodes[i].Deliver(0, g)
	}
	fr.Release()
}

// run drives the fabric.
func (f *Fabric) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(f.done)
	for {
		f.mu.Lock()
		todo, end := f.todo, f.end
		f.todo = nil
		f.mu.Unlock()
		for _, fn := range todo {
			fn()
		}
		if end {
			for i, s := range f.srvs {
				s.Close(f.nodes[i].Now())
			}
			return
		}
		if !f.turn() {
			f.sleep()
		}
	}
}

func (f *Fabric) now() (t vt.Time) {
	for _, n := range f.nodes {
		t = max(t, n.Now())
	}
	return t
}

// turn is one round; false if there was nothing to do.
func (f *Fabric) turn() (progress bool) {
	work := uint64(0)
	for _, s := range f.srvs {
		progress = s.Serve() || progress
		if s.Wants() || s.Open() {
			s.Grant(max(f.now()+1, f.wall()))
		}
		work += s.Work()
	}
	if f.cfg.Real {
		now := f.wall()
		for _, n := range f.nodes {
			progress = n.Advance(now) > 0 || progress
		}
		return progress
	}
	if work == 0 {
		return progress
	}
	for range 64 {
		n := f.next()
		if n == nil {
			break
		}
		n.Advance(n.Next())
		progress = true
	}
	return progress
}

// next is the node with the earliest event, nil if none may be handled: nobody goes further ahead of a node that is held than a frame takes.
func (f *Fabric) next() (first *engine.Node) {
	bound := vt.Never - 1
	for i, n := range f.nodes {
		switch {
		case f.srvs[i].Held():
			bound = min(bound, n.Now().Add(f.cfg.Delay))
		case first == nil || n.Next() < first.Next():
			first = n
		}
	}
	if first == nil || first.Next() > bound {
		return nil
	}
	return first
}

// wall is virtual time if that is the wall's, else the beginning.
func (f *Fabric) wall() vt.Time {
	if !f.cfg.Real {
		return 0
	}
	return vt.Time(monotonic() - f.mono0)
}

// sleep waits until a process, Do or Close wants something, or in real time until the next event.
func (f *Fabric) sleep() {
	fds := []unix.PollFd{{Fd: int32(f.stop), Events: unix.POLLIN}}
	ready := true
	for _, s := range f.srvs {
		ready = s.Sleep() && ready
		fds = append(fds, unix.PollFd{Fd: int32(s.FD()), Events: unix.POLLIN})
	}
	if ready {
		wait := unix.Timespec{Nsec: int64(50 * time.Millisecond)} // patience with processes is looked at from time to time
		if f.cfg.Real {
			for _, n := range f.nodes {
				if next := n.Next(); next != vt.Never {
					wait.Nsec = min(wait.Nsec, max(0, int64(next-f.wall())))
				}
			}
		}
		_, _ = unix.Ppoll(fds, &wait, nil)
	}
	var b [8]byte
	_, _ = unix.Read(f.stop, b[:])
	for _, s := range f.srvs {
		s.Awake()
	}
}
