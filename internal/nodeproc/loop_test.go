package nodeproc

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/wiring/hostnet"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/pktio"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// The tests' goroutines never run on the main thread, which could not be thrown away with its namespace.
func init() { runtime.LockOSThread() }

// inNet puts the test into a network namespace of its own; both go with the test's goroutine.
func inNet(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a network namespace")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	if err := hostnet.PrepareLab(); err != nil {
		t.Log(err)
	}
}

// veth makes a pair of ports, still down.
func veth(t testing.TB, a, b string) {
	t.Helper()
	err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: a, MTU: 9300, NumTxQueues: 1, NumRxQueues: 1}, PeerName: b, PeerMTU: 9300})
	if err != nil {
		t.Fatal(err)
	}
}

// arrival is what the core saw.
type arrival struct {
	at   vt.Time
	port int
	b    []byte
}

// notes is a core that writes down what arrives and sends on request.
type notes struct {
	got  []arrival
	mute bool
}

func (c *notes) Dequeued(vt.Time, int, *link.Frame, bool) {}
func (c *notes) NextFrame(vt.Time, int) *link.Frame       { return nil }
func (c *notes) Timer(vt.Time, uint64)                    {}
func (c *notes) Reset(vt.Time)                            {}
func (c *notes) Arrive(now vt.Time, port int, f *link.Frame) {
	if !c.mute {
		c.got = append(c.got, arrival{now, port, bytes.Clone(f.B)})
	}
	f.Release()
}

const (
	latency = 50
	delay   = 500
	ahead   = delay + 1 + latency // 84 bytes at 400 Gb/s take 1680 ps
	maxEth  = 2000
)

// rig is one node's loop under test. Its port 0 leads to a lab node that the test plays: its page, and the far end of the
// veth. Port 1 leads to a plain host.
type rig struct {
	*loop
	t    testing.TB
	peer *clock.NodePage // written by the test
	ctl  *clock.ClockPage
	far  *pktio.Socket // ports: the lab node's end, the plain host's end
	core *notes
	dmn  *ctl.Conn // the daemon's end
}

func newRig(t testing.TB) *rig {
	inNet(t)
	names := []string{"eth1", "eth2", "far1", "far2"}
	veth(t, "eth1", "far1")
	veth(t, "eth2", "far2")
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{t: t, core: &notes{}}
	var err error
	r.ctl, err = clock.Create(dir, 2)
	must(err)
	r.peer, err = clock.OpenNode(dir, 1, true)
	must(err)
	l := &loop{latency: latency, wall: clock.NewWall(), out: make([]outgoing, 0, 64), publish: func() {}, onMessage: func(*ctl.Message) error { return nil }}
	l.page, err = clock.OpenNode(dir, 0, true)
	must(err)
	l.clk, err = clock.OpenClock(dir, false)
	must(err)
	pc := link.Config{Rate: 400e9, Delay: delay, Queue: 1 << 20, MTU: 1500}
	l.node = engine.New(engine.Config{ID: 0, Latency: latency, Seed: 1, MaxFrame: maxEth, Ports: []link.Config{pc, pc}}, l)
	l.node.Attach(r.core)
	peer, err := clock.OpenNode(dir, 1, false)
	must(err)
	l.ports = []port{{lab: true, peer: peer, peerID: 1, theirs: 3, ahead: l.node.Ports[0].Lookahead() + latency}, {}}
	l.sock, err = pktio.Open(names[:2], 4000, 64)
	must(err)
	r.far, err = pktio.Open(names[2:], 4000, 64)
	must(err)
	for _, n := range names {
		must(hostnet.Up(n))
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(err)
	l.conn, r.dmn = ctl.NewConn(fds[0]), ctl.NewConn(fds[1])
	r.loop = l
	l.page.Reset(0)
	t.Cleanup(func() { l.sock.Close(); r.far.Close(); l.conn.Close(); r.dmn.Close() })
	r.clock(clock.Segment{Limit: 1 << 60})
	return r
}

// clock sets the clock, and lets the loop take it as run does.
func (r *rig) clock(s clock.Segment) {
	s.Seq = r.ctl.Write(s)
	r.seg, _ = r.clk.Read()
}

func eth(id byte, n int) []byte {
	b := make([]byte, n)
	copy(b, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5, id})
	return b
}

// write sends bytes as they are from the far end of a port, and waits until they are in the ring, which was empty.
func (r *rig) write(port int, b []byte) {
	r.t.Helper()
	r.far.Queue(port, b)
	r.far.Flush(func(_ int, err error) { r.t.Fatal(err) })
	for range 2000 { // 20 s, unless the runtime's signals end a wait early
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(r.sock.FD()), Events: unix.POLLIN}}, 10); n == 1 {
			return
		}
	}
	r.t.Fatal("the kernel has lost a frame")
}

// send sends a frame as the lab node does, before it counts it.
func (r *rig) send(due vt.Time, id byte) {
	r.t.Helper()
	r.write(0, wire.AppendTrailer(eth(id, 100), int64(due), 0))
}

// sweep is a turn of the loop; it wants the horizon to be there afterwards.
func (r *rig) sweep(what string, want vt.Time) {
	r.t.Helper()
	before := r.horizon
	progress := r.agreed()
	if r.horizon != want || vt.Time(r.page.Horizon.Load()) != want || r.page.Seq.Load()&1 != 0 {
		r.t.Errorf("%s: horizon %d, page %d (sweep %d), want %d", what, r.horizon, r.page.Horizon.Load(), r.page.Seq.Load(), want)
	}
	if want > before && !progress {
		r.t.Errorf("%s: no progress told", what)
	}
}

func (r *rig) wantFault(f clock.Fault) {
	r.t.Helper()
	if got := clock.Fault(r.page.Fault.Load()); got != f {
		r.t.Errorf("fault: %v, want %v", got, f)
	}
}

func TestHorizonFollowsThePeer(t *testing.T) {
	r := newRig(t)
	r.sweep("at the beginning", ahead)
	r.sweep("nothing new", ahead)
	r.peer.Horizon.Store(1000)
	r.sweep("the peer goes on", 1000+ahead)
	r.peer.Sent[3].Store(1) // it has written a frame that is not here
	r.peer.Horizon.Store(3000)
	r.sweep("a frame is missing", 1000+ahead)
	r.peer.Horizon.Store(4000)
	r.sweep("still", 1000+ahead)
	r.send(4200, 7)
	r.sweep("it comes", 4000+ahead)
	if len(r.core.got) != 1 || r.core.got[0].at != 4200+latency || r.core.got[0].b[14] != 7 || len(r.core.got[0].b) != 100 {
		t.Errorf("arrivals %+v", r.core.got)
	}
	if r.page.Taken[0].Load() != 1 || r.page.Frames.Load() != 1 {
		t.Errorf("taken %d", r.page.Taken[0].Load())
	}
	r.send(9000, 8) // taken before the peer has told of it: it waits for its time
	r.sweep("early", 4000+ahead)
	if len(r.core.got) != 1 || r.page.Next.Load() != 9000+latency || r.page.Taken[0].Load() != 2 {
		t.Errorf("arrivals %d, next %d, taken %d", len(r.core.got), r.page.Next.Load(), r.page.Taken[0].Load())
	}
	r.peer.Sent[3].Store(2)
	r.peer.Horizon.Store(20_000)
	r.sweep("on", 20_000+ahead)
	if len(r.core.got) != 2 || vt.Time(r.page.Next.Load()) != vt.Never {
		t.Errorf("arrivals %+v", r.core.got)
	}
	r.wantFault(clock.FaultNone)
}

func TestClockBoundsTheHorizon(t *testing.T) {
	r := newRig(t)
	r.peer.Horizon.Store(1 << 40)
	r.clock(clock.Segment{Limit: 5000})
	r.sweep("limit", 5000)
	r.clock(clock.Segment{Limit: 5000, Jump: 9000})
	r.sweep("a leap ends at the limit", 5000)
	r.clock(clock.Segment{Limit: 1 << 60, K: 1 << 62, Wall0: r.wall.Now(), Virt0: 6000})
	r.sweep("cap", 6000)
	r.peer.Horizon.Store(7000)
	r.clock(clock.Segment{Limit: 1 << 60, Jump: 30_000})
	r.sweep("leap", 1<<40+ahead) // the peer's horizon never goes back
	r2 := newRig(t)
	r2.peer.Horizon.Store(100)
	r2.clock(clock.Segment{Limit: 1 << 60, Jump: 30_000})
	r2.sweep("leap", 30_000)
	r2.ctl.SetDead(1, true)
	r2.clock(clock.Segment{Limit: 50_000})
	r2.sweep("the dead are not waited for", 50_000)
}

// TestLateFramesAreTold sends frames that are due up to and just after the horizon.
func TestLateFramesAreTold(t *testing.T) {
	r := newRig(t)
	r.peer.Horizon.Store(10_000)
	r.sweep("on", 10_000+ahead)
	r.send(10_001+ahead-latency, 1) // the first moment that is not over
	r.agreed()
	if r.late != 0 || r.node.Next() != 10_001+ahead {
		t.Errorf("late %d, next %v", r.late, r.node.Next())
	}
	r.wantFault(clock.FaultNone)
	r.send(10_000+ahead-latency, 2)
	r.agreed()
	r.send(9_990+ahead-latency, 3)
	r.agreed()
	if r.late != 2 || r.page.Late.Load() != 2 || r.page.Worst.Load() != 10 || r.page.Ports[0][link.Late].Load() != 2 {
		t.Errorf("late %d, page %d, worst %d", r.late, r.page.Late.Load(), r.page.Worst.Load())
	}
	r.wantFault(clock.FaultLate)
	r.peer.Horizon.Store(10_100)
	r.agreed()
	if len(r.core.got) != 3 {
		t.Errorf("%d frames arrive: late ones count too", len(r.core.got))
	}
}

// TestFramesThatDoNotCount sends what is not a frame of a lab node, or a damaged one; each has a counter of its own.
func TestFramesThatDoNotCount(t *testing.T) {
	trailer := func(due int64) []byte { return wire.AppendTrailer(eth(1, 100), due, 0) }
	edit := func(f func(b []byte)) []byte { b := trailer(600); f(b); return b }
	for name, c := range map[string]struct {
		b     []byte
		why   link.Counter
		taken uint64
	}{
		"no trailer":      {eth(1, 100), link.DropTrailer, 0},
		"short":           {eth(1, 20), link.DropTrailer, 0},
		"damaged due":     {edit(func(b []byte) { b[106] ^= 1 }), link.DropTrailer, 0},
		"damaged word":    {edit(func(b []byte) { b[113] ^= 1 }), link.DropPreamble, 1},
		"damaged words":   {edit(func(b []byte) { b[113] ^= 3 }), link.DropTrailer, 0},
		"damaged frame":   {edit(func(b []byte) { b[50] ^= 1 }), link.DropFCS, 1},
		"damaged FCS":     {edit(func(b []byte) { b[123] ^= 1 }), link.DropFCS, 1},
		"before all time": {trailer(-1), link.DropWindow, 1},
		"far ahead":       {trailer(int64(saneWindow) + 1), link.DropWindow, 1},
		"end of time":     {trailer(1<<63 - 1), link.DropWindow, 1},
		"too long":        {wire.AppendTrailer(eth(1, maxEth+1), 600, 0), link.DropPacket, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.write(0, c.b)
			r.agreed()
			r.peer.Horizon.Store(10_000) // a wrong FCS is found when the frame is due
			r.agreed()
			p := r.node.Ports[0]
			if p.C[c.why] != 1 || p.C.Drops() != 1 || r.page.Ports[0][c.why].Load() != 1 || r.page.Taken[0].Load() != c.taken || r.node.Next() != vt.Never || r.node.Pool.Out() != 0 {
				t.Errorf("counters %v, taken %d, next %v", p.C, r.page.Taken[0].Load(), r.node.Next())
			}
			r.wantFault(clock.FaultNone)
		})
	}
	r := newRig(t)
	r.write(0, trailer(int64(saneWindow))) // just within
	r.agreed()
	r.write(0, wire.AppendTrailer(eth(2, maxEth), 600, 0))
	if r.agreed(); r.node.Ports[0].C.Drops() != 0 || r.page.Taken[0].Load() != 2 {
		t.Errorf("counters %v", r.node.Ports[0].C)
	}
}

// TestHostsFramesArriveNow takes a frame of a plain host, whole, at the next moment, whatever its end looks like.
func TestHostsFramesArriveNow(t *testing.T) {
	r := newRig(t)
	r.peer.Horizon.Store(10_000)
	r.sweep("on", 10_000+ahead)
	r.write(1, wire.AppendTrailer(eth(1, 100), 77_777, 0))
	r.peer.Horizon.Store(20_000)
	r.sweep("on", 20_000+ahead)
	if len(r.core.got) != 1 || r.core.got[0].at != 10_001+ahead || r.core.got[0].port != 1 || len(r.core.got[0].b) != 124 {
		t.Errorf("arrivals %+v", r.core.got)
	}
	if r.page.Taken[1].Load() != 0 || r.late != 0 {
		t.Errorf("taken %d, late %d", r.page.Taken[1].Load(), r.late)
	}
}

// enqueue has the node send frames at a moment.
func (r *rig) enqueue(at vt.Time, port, n int) {
	r.node.Change(at, func(now vt.Time) {
		for i := range n {
			f := r.node.Pool.Get()
			f.B = append(f.B, eth(byte(i), 976)...) // 1000 bytes of line: 20 ns
			r.node.Ports[port].Offer(now, 0, f)
		}
	})
}

// TestFramesLeaveWithTheirTime sends more than a batch: each frame has its due time, and is counted before the horizon
// that it belongs to.
func TestFramesLeaveWithTheirTime(t *testing.T) {
	r := newRig(t)
	const n = 40
	r.enqueue(100, 0, n)
	r.enqueue(100, 1, 3)
	r.peer.Horizon.Store(5000)
	r.sweep("on", 5000+ahead)
	if r.page.Sent[0].Load() != n || r.page.Sent[1].Load() != 3 || r.node.Pool.Out() != 0 {
		t.Errorf("sent %d and %d, %d out", r.page.Sent[0].Load(), r.page.Sent[1].Load(), r.node.Pool.Out())
	}
	var count [2]int
	for tries := 0; count != [2]int{n, 3} && tries < 20_000; {
		port, b, ok := r.far.Next()
		if !ok { // the kernel may take its time
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(r.far.FD()), Events: unix.POLLIN}}, 1)
			tries++
			continue
		}
		i := count[port]
		count[port]++
		f, tr, ok := wire.SplitTrailer(b)
		switch {
		case port == 1 && (ok || len(b) != 976 || b[14] != byte(i)):
			t.Errorf("host's frame %d: %d bytes", i, len(b))
		case port == 0 && (!ok || tr.Due != int64(100+20*(i+1)+delay) || tr.FCS != wire.FCS(f) || f[14] != byte(i)):
			t.Errorf("frame %d: trailer %v, due %d", i, ok, tr.Due)
		}
		r.far.Release()
	}
	if count != [2]int{n, 3} {
		t.Errorf("%v frames came", count)
	}
}

// TestRefusedFramesAreNotCounted takes the lab link's interface down under the node.
func TestRefusedFramesAreNotCounted(t *testing.T) {
	r := newRig(t)
	if err := hostnet.Down("far1"); err != nil {
		t.Fatal(err)
	}
	if err := hostnet.Down("far2"); err != nil {
		t.Fatal(err)
	}
	r.enqueue(100, 1, 2)
	r.peer.Horizon.Store(5000)
	r.sweep("a host's frames are lost", 5000+ahead)
	r.wantFault(clock.FaultNone)
	r.enqueue(6000, 0, 3)
	r.peer.Horizon.Store(9000)
	r.sweep("a lab node's frames are lost", 9000+ahead)
	r.wantFault(clock.FaultSend)
	if r.page.Sent[0].Load() != 0 || r.page.Sent[1].Load() != 0 || r.page.Ports[0][link.DropKernel].Load() != 3 || r.page.Ports[1][link.DropKernel].Load() != 2 || r.node.Pool.Out() != 0 {
		t.Errorf("sent %d and %d", r.page.Sent[0].Load(), r.page.Sent[1].Load())
	}
}

// TestLostFrameIsNoHang claims a frame that never comes, and lets the loop wait as long as it likes.
func TestLostFrameIsNoHang(t *testing.T) {
	r := newRig(t)
	r.sweep("on", ahead)
	r.peer.Sent[3].Store(2)
	r.peer.Horizon.Store(1000)
	start := time.Now()
	for !r.agreed() {
		if time.Since(start) > 300*lostAfter {
			t.Fatal("it waits without end")
		}
		if err := r.wait(); err != nil {
			t.Fatal(err)
		}
		r.wantFaultBefore(start)
	}
	if took := time.Since(start); took < lostAfter {
		t.Errorf("given up after %v", took)
	}
	r.wantFault(clock.FaultLost)
	if r.horizon != 1000+ahead || r.page.Ports[0][link.DropRing].Load() != 2 {
		t.Errorf("horizon %v, drops %d", r.horizon, r.page.Ports[0][link.DropRing].Load())
	}
	r.send(2000, 1) // the link works on
	r.peer.Sent[3].Store(3)
	r.peer.Horizon.Store(2500)
	r.sweep("the next frame", 2500+ahead)
	if len(r.core.got) != 1 {
		t.Errorf("arrivals %+v", r.core.got)
	}
}

func (r *rig) wantFaultBefore(start time.Time) {
	if time.Since(start) < lostAfter {
		r.wantFault(clock.FaultNone)
	}
}

// TestOverflowIsToldFromLoss fills the ring beyond its end.
func TestOverflowIsToldFromLoss(t *testing.T) {
	r := newRig(t)
	const n = 300
	b := wire.AppendTrailer(eth(1, 100), 600, 0)
	for range n {
		if r.far.Queue(0, b) {
			r.far.Flush(func(_ int, err error) { t.Error(err) })
		}
	}
	r.far.Flush(func(_ int, err error) { t.Error(err) })
	const slots = 93                                          // three blocks of 31
	for i := 0; r.sock.Drops() < n-slots && i < 20_000; i++ { // the kernel may take its time
		_, _ = unix.Poll(nil, 1)
	}
	r.peer.Sent[3].Store(n)
	r.peer.Horizon.Store(1000)
	r.sweep("frames are missing", ahead)
	r.missing()
	r.ports[0].short -= int64(lostAfter) + 1 // a long time passes
	r.missing()
	r.wantFault(clock.FaultRing)
	r.sweep("on", 1000+ahead)
	if got := uint64(len(r.core.got)); got+r.page.Ports[0][link.DropRing].Load() != n {
		t.Errorf("%d frames and %d drops of %d", got, r.page.Ports[0][link.DropRing].Load(), n)
	}
}

func TestRejoinCountsAnew(t *testing.T) {
	r := newRig(t)
	r.send(600, 1)
	r.peer.Sent[3].Store(1)
	r.enqueue(100, 0, 2)
	r.peer.Horizon.Store(3000)
	r.sweep("on", 3000+ahead)
	r.peer.Reset(1500) // restarted: its horizon is behind ours
	r.rejoin(0)
	r.agreed()
	if r.horizon != 3000+2*ahead || r.page.Sent[0].Load() != 0 || r.page.Taken[0].Load() != 0 {
		t.Errorf("horizon %v, sent %d, taken %d", r.horizon, r.page.Sent[0].Load(), r.page.Taken[0].Load())
	}
}

func TestRealTimeTakesFramesNow(t *testing.T) {
	r := newRig(t)
	r.clock(clock.Segment{Flags: clock.Real, Limit: 1 << 60, Wall0: r.wall.Now()})
	r.send(1<<50, 1) // whatever its time
	r.write(1, eth(2, 100))
	for start := time.Now(); len(r.core.got) < 2 && time.Since(start) < 20*time.Second; {
		r.realtime()
	}
	if len(r.core.got) != 2 || r.core.got[0].at > vt.Time(r.wall.Now()-r.seg.Wall0) || r.late != 0 {
		t.Errorf("arrivals %+v", r.core.got)
	}
}

// TestMessagesAndTheirEnd hands over messages, and then the daemon dies.
func TestMessagesAndTheirEnd(t *testing.T) {
	r := newRig(t)
	var got []string
	r.onMessage = func(m *ctl.Message) error {
		got = append(got, m.Op)
		if m.Op == "gone" {
			return unix.EPIPE // nobody is there for the answer
		}
		return nil
	}
	for _, op := range []string{"a", "gone", "b"} {
		if err := r.dmn.Send(&ctl.Message{Op: op}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.messages(); err != nil || len(got) != 3 || r.orphan != 0 {
		t.Errorf("%v, %v", got, err)
	}
	r.dmn.Shutdown()
	if err := r.messages(); err != nil || r.orphan == 0 {
		t.Errorf("the end: %v, orphan %d", err, r.orphan)
	}
	tries := 0
	r.reconnect = func() (*ctl.Conn, error) { tries++; return nil, nil }
	if err := r.look(); err != nil || tries != 0 {
		t.Errorf("it looks at once: %v", err)
	}
	r.orphan = 1
	if err := r.look(); err != nil || tries != 1 || r.orphan <= r.wall.Now() {
		t.Errorf("%v, %d tries", err, tries)
	}
	r.orphan = 1
	r.reconnect = func() (*ctl.Conn, error) { return r.conn, nil }
	if err := r.look(); err != nil || r.orphan != 0 {
		t.Errorf("a new daemon: %v, orphan %d", err, r.orphan)
	}
	r.orphan = 1
	r.reconnect = func() (*ctl.Conn, error) { return nil, io.EOF }
	if err := r.look(); !errors.Is(err, io.EOF) {
		t.Errorf("the lab is gone: %v", err)
	}
}

// TestSweepsAllocateNothing passes frames in and out in the steady state.
func TestSweepsAllocateNothing(t *testing.T) {
	r := newRig(t)
	r.core.mute = true
	now, frame := vt.Time(1000), make([]byte, 0, 200)
	send := func(at vt.Time) {
		f := r.node.Pool.Get()
		f.B = f.B[:100]
		r.node.Ports[0].Offer(at, 0, f)
	}
	taken := uint64(0)
	work := func() {
		for i := range 8 {
			frame = wire.AppendTrailer(append(frame[:0], framed...), int64(now)+600, 0)
			r.far.Queue(0, frame)
			r.far.Flush(func(int, error) { taken = 1 << 60 })
			r.node.Change(now+vt.Time(i), send)
		}
		now += 1000
		r.peer.Sent[3].Add(8)
		r.peer.Horizon.Store(int64(now))
		r.agreed()
		for {
			if _, _, ok := r.far.Next(); !ok {
				break
			}
			r.far.Release()
		}
	}
	work()
	if n := testing.AllocsPerRun(50, work); n != 0 || r.page.Taken[0].Load() < 8 || r.page.Sent[0].Load() < 8 || taken != 0 {
		t.Errorf("%v allocations a sweep; %d frames taken, %d sent", n, r.page.Taken[0].Load(), r.page.Sent[0].Load())
	}
}

var framed = eth(1, 100)

// FuzzTake puts arbitrary bytes on a lab port and on a host's.
func FuzzTake(f *testing.F) {
	f.Add(eth(1, 64), true)
	f.Add(wire.AppendTrailer(eth(1, 64), 600, 0), true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, lab bool) {
		l := &loop{latency: latency, page: &clock.NodePage{}}
		l.node = engine.New(engine.Config{MaxFrame: 200, Ports: []link.Config{{Rate: 1e9, Queue: 1000}}}, l)
		l.node.Attach(&notes{mute: true})
		l.ports = []port{{lab: lab}}
		l.horizon = vt.Time(rand.Int64N(1 << 40))
		l.take(0, b, l.horizon+1)
		p := l.node.Ports[0]
		if waits := l.node.Next() != vt.Never; waits == (p.C.Drops() == 1) || p.C.Drops() > 1 {
			t.Errorf("waits %v, counters %v", waits, p.C)
		}
		if l.node.Advance(vt.Never - 1); l.node.Pool.Out() != 0 {
			t.Error("a frame is lost")
		}
	})
}
