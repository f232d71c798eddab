package nodeproc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime/debug"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
)

// realEnv tells a second process of the test binary that it is the far end of a benchmark, and of which.
const realEnv = "UETLAB_TEST_REAL"

// realCase is a benchmark of two end points at the wall's pace, each in its own process and namespace.
type realCase struct {
	Dir    string
	MTU    int // of the link
	Size   int // of a message
	Stream int // messages under way in one direction; 0: one that goes to and fro
}

func TestMain(m *testing.M) {
	if s := os.Getenv(realEnv); s != "" {
		if err := farEnd(s); err != nil {
			fmt.Fprintln(os.Stderr, "far end:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// farEnd is the second process: it says when it has a namespace, is told when it has its port, and says when it is ready.
func farEnd(s string) error {
	var c realCase
	if err := json.Unmarshal([]byte(s), &c); err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	fmt.Println("namespace")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	p, addrs, err := realProc(&c, 1)
	if err != nil {
		return err
	}
	if err := p.carrier(&ctl.Message{}); err != nil {
		return err
	}
	e := newRealEnd(p, addrs, &c, 1)
	e.l.node.Call(0, e.begin)
	go func() {
		_, _ = in.ReadString('\n') // the benchmark is over, or has died
		os.Exit(0)
	}()
	fmt.Println("ready")
	return e.l.run()
}

// realProc makes a node of the pair with its port, as its process does.
func realProc(c *realCase, id int) (*proc, []netip.Addr, error) {
	spec, err := topology.Generate("pair")
	if err != nil {
		return nil, nil, err
	}
	spec.Defaults.Link.MTU = c.MTU
	plan, err := topology.BuildPlan(spec)
	if err != nil {
		return nil, nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	p := &proc{hello: ctl.Hello{ID: id}, dir: c.Dir, conn: ctl.NewConn(fds[0])}
	var errs [2]error
	p.page, errs[0] = clock.OpenNode(c.Dir, id, true)
	p.clk, errs[1] = clock.OpenClock(c.Dir, false)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, nil, err
	}
	cfg := nodecore.Config(plan, id, 1, nil)
	cfg.Real = true
	if err := p.configure(cfg); err != nil {
		return nil, nil, err
	}
	return p, []netip.Addr{plan.Nodes[0].Addr4, plan.Nodes[1].Addr4}, p.start()
}

// realEnd is a small application within a node.
type realEnd struct {
	l      *loop
	c      *realCase
	id     int
	ep     *fep.Endpoint
	in     []byte
	out    []byte
	left   int // messages that the first end has still to get back, or to send
	posted int
	err    error
}

func newRealEnd(p *proc, addrs []netip.Addr, c *realCase, id int) *realEnd {
	e := &realEnd{l: p.loop, c: c, id: id, in: make([]byte, c.Size), out: make([]byte, c.Size)}
	for i := range e.in {
		e.in[i], e.out[i] = 1, 2
	}
	e.ep = p.core.FEP.OpenEndpoint(1, 0, uint32(id), e.complete)
	for i, a := range addrs {
		e.ep.InsertAddr(a, 0, uint32(i))
	}
	return e
}

func (e *realEnd) fail(err error) {
	if err != nil && e.err == nil {
		e.err, e.l.stop = err, true
	}
}

func (e *realEnd) recv(now vt.Time) { e.fail(e.ep.TagRecv(now, 1-e.id, e.in, 1, 0)) }
func (e *realEnd) send(now vt.Time) {
	e.posted++
	e.fail(e.ep.TagSend(now, 1-e.id, e.out, 1, 0))
}

// begin posts what an end has to post first.
func (e *realEnd) begin(now vt.Time) {
	switch {
	case e.c.Stream == 0:
		e.recv(now)
		if e.id == 0 {
			e.send(now)
		}
	case e.id == 1:
		for range 4 * e.c.Stream {
			e.recv(now)
		}
	default:
		for e.posted = 0; e.posted < min(e.c.Stream, e.left); {
			e.send(now)
		}
	}
}

func (e *realEnd) complete(now vt.Time, c fep.Completion) {
	e.fail(c.Err)
	switch {
	case c.Kind == fep.OpTagRecv && e.id == 1:
		e.recv(now)
		if e.c.Stream == 0 {
			e.send(now)
		}
	case e.id == 1:
	case c.Kind == fep.OpTagRecv:
		if e.left--; e.left == 0 {
			e.l.stop = true
			return
		}
		e.recv(now)
		e.send(now)
	case e.c.Stream > 0:
		if e.left--; e.left == 0 {
			e.l.stop = true
		}
		if e.left >= e.c.Stream {
			e.send(now)
		}
	}
}

// BenchmarkReal is what a message costs between two end points of a pair at the wall's pace, without client processes:
// an operation is a message to and fro, or one of a stream.
func BenchmarkReal(b *testing.B) {
	for _, mtu := range []int{4500, 9000} {
		for _, size := range []int{8, 1024, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("pingpong/mtu=%d/size=%d", mtu, size), func(b *testing.B) { benchReal(b, realCase{MTU: mtu, Size: size}) })
		}
		for _, c := range []realCase{{Size: 8, Stream: 64}, {Size: 64 << 10, Stream: 16}, {Size: 1 << 20, Stream: 4}} {
			c.MTU = mtu
			b.Run(fmt.Sprintf("stream/mtu=%d/size=%d", mtu, c.Size), func(b *testing.B) { benchReal(b, c) })
		}
	}
}

func benchReal(b *testing.B, c realCase) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	inNet(b)
	c.Dir = b.TempDir()
	clk, err := clock.Create(c.Dir, 2)
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	must(err)
	clk.Write(clock.Segment{Flags: clock.Real, Limit: 1 << 62, Wall0: clock.NewWall().Now()})
	js, err := json.Marshal(c)
	must(err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), realEnv+"="+string(js), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(err)
	pipe, err := cmd.StdoutPipe()
	must(err)
	out := bufio.NewReader(pipe)
	must(cmd.Start())
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	await(b, out, "namespace\n")
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1", MTU: c.MTU + 14, NumTxQueues: 1, NumRxQueues: 1},
		PeerName: "eth1", PeerMTU: uint32(c.MTU + 14), PeerNamespace: netlink.NsPid(cmd.Process.Pid)}
	must(netlink.LinkAdd(pair))
	p, addrs, err := realProc(&c, 0)
	must(err)
	_, err = io.WriteString(in, "\n")
	must(err)
	await(b, out, "ready\n")
	must(p.carrier(&ctl.Message{}))
	e := newRealEnd(p, addrs, &c, 0)
	e.run(b, 200)
	n, total := 2000, 0
	if c.Size >= 64<<10 {
		n = max(n*(64<<10)/c.Size, 100)
	}
	var d time.Duration
	for b.Loop() {
		d += e.run(b, n)
		total += n
	}
	us := float64(d.Nanoseconds()) / float64(total) / 1000
	if c.Stream == 0 {
		us /= 2
	}
	b.ReportMetric(us, "us/message")
	b.ReportMetric(float64(c.Size)/us, "MB/s")
	f := &p.core.FEP.C
	b.ReportMetric(float64(f[fep.Retx]), "retx")
}

func (e *realEnd) run(b *testing.B, n int) time.Duration {
	e.left, e.l.stop = n, false
	e.l.seg, _ = e.l.clk.Read()
	start := time.Now()
	e.l.node.Call(e.l.wallTime(), e.begin)
	if err := e.l.run(); err != nil {
		b.Fatal(err)
	}
	if e.err != nil {
		b.Fatal(e.err)
	}
	return time.Since(start)
}

func await(b *testing.B, r *bufio.Reader, want string) {
	b.Helper()
	if got, err := r.ReadString('\n'); got != want {
		b.Fatalf("the far end says %q (%v), want %q", got, err, want)
	}
}
