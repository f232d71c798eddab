// Package nodeproc is the process of one node: it enters its root, says hello to the lab daemon, takes its ports up, and
// then loops: real frames in, events in the agreed order, real frames out. One thread does everything.
package nodeproc

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/capture"
	"github.com/uetlab/uetlab/fabric/runtime/docker"
	"github.com/uetlab/uetlab/fabric/runtime/embedded"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/wiring/hostnet"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/pktio"
	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

const (
	// ringSlots, and slotsPerPort for each port at least, are what neighbours may send before they wait for this node. At the
	// wall's pace nobody waits.
	ringSlots     = 512
	slotsPerPort  = 32
	ringSlotsReal = 2048
	redial        = 200 * time.Millisecond

	carrierWait = 10 * time.Second
)

// Main runs a node with the arguments of `uetlab node` and returns the exit code.
func Main(args []string) int {
	fs := flag.NewFlagSet("node", flag.ContinueOnError)
	var h ctl.Hello
	fs.StringVar(&h.Lab, "lab", "", "name of the lab")
	fs.StringVar(&h.Node, "node", "", "name of the node")
	fs.IntVar(&h.ID, "id", -1, "number of the node")
	dir := fs.String("dir", embedded.Dir, "where the node sees the lab")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	// The last sign of a lab that is taken down is a signal to everything in it; a terminal's is not meant for us.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	runtime.LockOSThread()
	if err := run(h, *dir); err != nil {
		fmt.Fprintf(os.Stderr, "uetlab node %s: %v\n", h.Node, err)
		return 1
	}
	return 0
}

// proc is a node process.
type proc struct {
	hello  ctl.Hello
	socket string // for processes that use the FEP; empty: none can
	dir    string
	conn   *ctl.Conn
	netns  *os.File
	cfg    *ctl.Config
	page   *clock.NodePage
	clk    *clock.ClockPage
	core   *nodecore.Node
	loop   *loop

	windows  *ctl.Windows // changes that the daemon has not been told of; nil: it does not want to know
	nWindows int          // how many
}

func run(h ctl.Hello, dir string) error {
	if err := embedded.Enter(dir); err != nil {
		return err
	}
	if err := docker.TakeLog(); err != nil {
		return err
	}
	p := &proc{hello: h, dir: dir, socket: shm.DefaultSocket}
	var err error
	if p.netns, err = os.Open("/proc/self/ns/net"); err != nil {
		return err
	}
	if p.page, err = clock.OpenNode(dir, h.ID, true); err != nil {
		return err
	}
	if err := p.dial(); err != nil {
		return err
	}
	if p.clk, err = clock.OpenClock(dir, false); err != nil {
		return err
	}
	// Configuration and start come before there is a loop.
	for started := false; !started; {
		var m ctl.Message
		files, err := p.conn.Recv(&m, true)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			return fmt.Errorf("lab socket: %w", err)
		}
		switch m.Op {
		case "config":
			err = p.configure(m.Config)
		case "start":
			err = p.start()
			started = err == nil
		case "stop":
			return nil
		}
		if rerr := p.reply(m.ID, err, nil); rerr != nil {
			return rerr
		}
	}
	if p.loop == nil {
		return p.host()
	}
	signal.Ignore(syscall.SIGCHLD) // as the namespace's first process: the kernel buries orphans of commands run in it
	return p.loop.run()
}

// dial connects to the lab socket and says who we are.
func (p *proc) dial() error {
	c, err := ctl.Dial(filepath.Join(p.dir, "node.sock"))
	if err != nil {
		return err
	}
	if err := c.Send(&ctl.Reply{Hello: &p.hello}, p.netns); err != nil {
		c.Close()
		return err
	}
	p.conn = c
	return nil
}

func (p *proc) reply(id uint64, err error, data any, files ...*os.File) error {
	if id == 0 {
		return nil
	}
	r := ctl.Reply{ID: id}
	if err != nil {
		r.Error = err.Error()
	}
	if data != nil {
		b, err := json.Marshal(data)
		if err != nil {
			return err
		}
		r.Data = b
	}
	return p.conn.Send(&r, files...)
}

// configure builds the node's core; its ports do not exist yet.
func (p *proc) configure(c *ctl.Config) error {
	if c == nil {
		return errors.New("empty configuration")
	}
	p.cfg = c
	if c.Node.Kind == topology.KindHost {
		if err := hostnet.PrepareHost(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return nil
	}
	if err := hostnet.PrepareLab(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	l := &loop{id: p.hello.ID, page: p.page, clk: p.clk, conn: p.conn, wall: clock.NewWall(), latency: c.Node.Latency,
		out: make([]outgoing, 0, 64), onMessage: p.message, publish: p.publish, reconnect: p.reconnect}
	var err error
	if p.core, err = nodecore.New(c, l, &nodecore.Memory{}, p.result); err != nil {
		return err
	}
	l.node, l.settled = p.core.Node, p.core.Settled
	p.core.Heard = p.heard
	if f := p.core.FEP; f != nil {
		l.control = f.Config().DSCPControl
	}
	for i := range c.Node.Ports {
		far := c.Node.Ports[i].Far()
		lp := port{lab: c.Peers[i].Lab, peerID: far.Node, theirs: far.Port}
		if lp.lab {
			if lp.peer, err = clock.OpenNode(p.dir, far.Node, false); err != nil {
				return err
			}
		}
		l.ports = append(l.ports, lp)
	}
	l.lookAhead()
	l.horizon, l.owner = c.Start, p.clk.Owner.Load()
	for i := range l.ports {
		l.ports[i].valid = c.Start
	}
	p.page.Reset(c.Start)
	if err := p.serveProcesses(l); err != nil {
		return err
	}
	p.page.Next.Store(int64(l.node.Next())) // a core may have set timers already; nobody may leap over them
	p.loop = l
	return nil
}

// start takes the ports up: they exist now.
func (p *proc) start() error {
	if p.cfg == nil {
		return errors.New("start before configuration")
	}
	if p.cfg.Node.Kind == topology.KindHost {
		return p.startHost()
	}
	var names []string
	for _, q := range p.cfg.Node.Ports {
		names = append(names, q.Name)
		if err := hostnet.Guard(q.Name); err != nil {
			return err
		}
	}
	slots := max(ringSlots, slotsPerPort*len(names))
	if p.cfg.Real {
		slots = max(slots, ringSlotsReal)
		nodes, err := clock.Nodes(p.dir)
		if err != nil {
			return err
		}
		p.loop.settle(nodes)
	}
	sock, err := pktio.Open(names, nodecore.MaxFrame(&p.cfg.Node)+wire.TrailerLen, slots)
	if err != nil {
		return err
	}
	p.loop.sock = sock
	if err := p.openSocket(); err != nil {
		return err
	}
	p.page.Room.Store(uint64(slots / len(names)))
	for _, name := range names {
		if err := hostnet.Up(name); err != nil {
			return err
		}
	}
	return nil
}

// message handles what the daemon asks for while the loop runs.
func (p *proc) message(m *ctl.Message) error {
	var err error
	var data any
	var files []*os.File
	switch m.Op {
	case "wake":
	case "poked":
		p.loop.poked()
	case "job":
		err = p.job(m.Job)
	case "config", "start": // the daemon took it for dead, and its state and its neighbours' have parted
		err = errors.New("the node still runs with its old state: `uetlab restart` gives it a new one")
	case "stop":
		p.loop.stop = true
	case "run":
		if m.Run == nil {
			err = errors.New("run: nothing to run")
			break
		}
		if p.loop.past(m.Run.At) {
			err = fmt.Errorf("run at %v: virtual time is %v already", m.Run.At, p.loop.horizon)
			break
		}
		if err = p.core.StartRun(*m.Run); err == nil {
			p.page.Fault.Store(uint64(clock.FaultNone))
			p.loop.worst = 0
		}
	case "change":
		for _, c := range m.Changes {
			if p.loop.past(c.At) {
				err = fmt.Errorf("change at %v: virtual time is %v already", c.At, p.loop.horizon)
				break
			}
			if err = p.core.Change(c); err != nil {
				break
			}
		}
		p.loop.lookAhead()
		p.loop.enter() // the next event may be another one now
		p.loop.show()
	case "rewire":
		if err = p.rewire(m.Port); err == nil {
			p.loop.enter()
			p.loop.show()
		}
	case "carrier":
		err = p.carrier(m)
	case "port":
		err = p.setPort(m.Port, m.Up)
	case "capture":
		var f *os.File
		if f, err = p.captureSocket(m.Port); err == nil {
			files = append(files, f)
			defer f.Close()
		}
	case "switch":
		if p.core.Switch == nil {
			err = errors.New("switch: not one")
			break
		}
		data = p.core.Switch.Status(p.loop.horizon)
	default:
		var ok bool
		if data, err, ok = p.look(m); !ok {
			err = fmt.Errorf("message %q: not known", m.Op)
		}
	}
	if m.Op == "run" && err == nil {
		p.loop.enter()
		p.loop.show()
	}
	return p.reply(m.ID, err, data, files...)
}

// rewire takes a port up again whose link was made anew.
func (p *proc) rewire(i int) error {
	if i < 0 || i >= len(p.cfg.Node.Ports) {
		return fmt.Errorf("rewire: no port %d", i)
	}
	name := p.cfg.Node.Ports[i].Name
	if err := hostnet.Guard(name); err != nil {
		return err
	}
	if err := p.loop.sock.Rebind(i, name); err != nil {
		return err
	}
	p.loop.rejoin(i)
	return hostnet.Up(name)
}

// carrier waits until all ports are up at both ends: before that the kernel drops what is sent.
func (p *proc) carrier(m *ctl.Message) error {
	ports := p.cfg.Node.Ports
	if m.Up { // only this one
		if m.Port < 0 || m.Port >= len(ports) {
			return fmt.Errorf("carrier: no port %d", m.Port)
		}
		ports = ports[m.Port : m.Port+1]
	}
	deadline := time.Now().Add(carrierWait)
	for _, q := range ports {
		for {
			up, err := hostnet.Carrier(q.Name)
			if err != nil {
				return err
			}
			if up {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("port %s has no carrier after %v", q.Name, carrierWait)
			}
			time.Sleep(200 * time.Microsecond)
		}
	}
	return nil
}

// setPort takes a port's interface up or down, for the other end and for people to see.
func (p *proc) setPort(i int, up bool) error {
	if i < 0 || i >= len(p.cfg.Node.Ports) {
		return fmt.Errorf("no port %d", i)
	}
	if up {
		return hostnet.Up(p.cfg.Node.Ports[i].Name)
	}
	return hostnet.Down(p.cfg.Node.Ports[i].Name)
}

// captureSocket opens a packet socket on a port for the daemon to read.
func (p *proc) captureSocket(i int) (*os.File, error) {
	if i < 0 || i >= len(p.cfg.Node.Ports) {
		return nil, fmt.Errorf("capture: no port %d", i)
	}
	ifindex, err := pktio.Index(p.cfg.Node.Ports[i].Name)
	if err != nil {
		return nil, err
	}
	fd, err := capture.OpenSocket(ifindex)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "capture"), nil
}

// publish copies what the core counts into the page.
func (p *proc) publish() {
	if f := p.core.FEP; f != nil {
		c := &f.C
		for i := range c {
			p.page.FEP[i].Store(c[i])
		}
	}
	p.page.Total.Store(p.core.Sends())
}

// result reports a rank's end. It is called within an event, so the page tells of it before it tells that nothing is
// left to do.
func (p *proc) result(r workload.RankResult) {
	p.page.Results.Add(1)
	p.loop.shown = 0 // at the wall's pace too, the page is about to tell what came of it
	if err := p.conn.Send(&ctl.Reply{Result: &r}); err != nil {
		fmt.Fprintln(os.Stderr, "report a result:", err)
	}
}

// heard reports what LLDP has brought about at a port.
func (p *proc) heard(e ctl.LLDPEvent) {
	if err := p.conn.Send(&ctl.Reply{LLDP: &e}); err != nil {
		fmt.Fprintln(os.Stderr, "report a neighbour:", err)
	}
}

// reconnect looks for a daemon after the last one has died. The lab is over when its socket is gone.
func (p *proc) reconnect() (*ctl.Conn, error) {
	old := p.conn
	err := p.dial()
	switch {
	case err == nil:
		_ = old.Close()
		return p.conn, nil
	case errors.Is(err, unix.ENOENT):
		return nil, io.EOF
	}
	return nil, nil
}
