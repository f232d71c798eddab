// Package control is the lab daemon: it brings a lab up on a runtime, wires it, drives its clock, runs workloads on it,
// schedules link changes, and answers the command line over a unix socket. Nodes outlive it; `uetlab down` cleans up
// whether it lives or not.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/wiring"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/lldp"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

// Options say what to bring up, and how the daemon itself is to behave.
type Options struct {
	api.UpOptions
	Version string // of this binary
	Adopt   bool   // the lab is there, only its daemon has died
	Listen  string // also serve TCP there, with a bearer token; empty = no
}

// Daemon is the daemon of one lab.
type Daemon struct {
	opt  Options
	dir  *labdir.Dir
	plan *topology.Plan
	rt   runtime.Runtime
	log  *slog.Logger

	clk       *clock.ClockPage
	nodes     []*node
	faults    *faults.State // under time.mu
	settings  *switchStates // under time.mu
	noCarrier []bool        // under time.mu: by link, whose veth pair has been taken down
	armed     []deed        // under time.mu: what waits for the next run
	converged vt.Time       // under time.mu: a run begins no earlier: the last change of routes, or of a run before, takes effect
	seqs      []uint64      // under time.mu
	time      clockwork
	kick      chan struct{}
	hasHosts  bool
	agents    bool // a link has LLDP
	isReal    bool

	runBusy   sync.Mutex // held for the whole of a run request, and while a restarted node rejoins
	runMu     sync.Mutex
	inForce   map[string]string // under runBusy: settings of end points that the latest run overrode
	turn      context.Context   // under runMu: of the request that holds runBusy
	cur       *run              // under runMu
	measuring *totals           // under runMu: counters at the beginning of the measurement that is under way
	runEnd    chan struct{}     // under runMu: closed when a run request ends; nil when nobody waits for that

	restarting sync.Mutex // held for the whole of a restart request

	listeners listeners

	events    eventLog
	mu        sync.Mutex
	handles   []runtime.Handle    // under mu
	saving    sync.Mutex          // of the state file
	nodeAt    map[string]string   // nodes by their fabric addresses
	wrongTold map[lldp.End]string // under mu: ports at which somebody else was heard than the topology says, as told by events
	created   time.Time
	state     atomic.Value // string, api.Lab…
	deaths    atomic.Int64
	stopping  atomic.Bool
	nodeSock  int
	down      chan struct{} // closed when the lab is to go
	downOnce  sync.Once
	downDone  chan struct{}
	servers   []*http.Server
	crews     atomic.Uint32 // runs with processes so far
	leaping   sync.Mutex    // from the look at the pages that decides a leap to the write of the clock page
}

const (
	helloWait = 60 * time.Second
	stopWait  = 30 * time.Second
)

// New prepares a daemon; Up brings the lab up.
func New(opt Options, dir *labdir.Dir, rt runtime.Runtime, log *slog.Logger) (*Daemon, error) {
	plan := opt.Plan
	if plan == nil || len(plan.Nodes) == 0 {
		return nil, errors.New("the lab has no plan")
	}
	d := &Daemon{opt: opt, dir: dir, plan: plan, rt: rt, log: log, kick: make(chan struct{}, 1), nodeSock: -1,
		down: make(chan struct{}), downDone: make(chan struct{}), created: time.Now(), faults: faults.New(plan), settings: newSwitchStates(plan), noCarrier: make([]bool, len(plan.Links)), nodeAt: addresses(plan), wrongTold: map[lldp.End]string{}}
	d.state.Store(api.LabStarting)
	d.time.wall = clock.NewWall()
	d.agents = slices.ContainsFunc(plan.Links, func(l topology.Link) bool { return l.LLDP })
	feps := 0
	for i := range plan.Nodes {
		switch plan.Nodes[i].Kind {
		case topology.KindHost:
			d.hasHosts = true
		case topology.KindFEP:
			feps++
		}
	}
	switch opt.Time {
	case "", "auto":
		d.isReal = feps == 0 // nobody there whose time could be agreed
	case "real":
		d.isReal = true
	default:
		k, err := strconv.ParseFloat(opt.Time, 64)
		if err != nil || !(k >= 1 && k <= 1e9) {
			return nil, api.Errorf(api.CodeUsage, "--time (%s): use auto, real, or K between 1 and 1e9", opt.Time)
		}
		d.time.k = k
	}
	return d, nil
}

func (d *Daemon) real() bool { return d.isReal }

// takesPart says whether a node speaks the trailer and is steered by the daemon: all but plain hosts.
func (d *Daemon) takesPart(id int) bool { return d.plan.Nodes[id].Kind != topology.KindHost }

// Up brings the lab up and reports its stages. When it fails or ctx ends, what it made is there for Close to undo.
func (d *Daemon) Up(ctx context.Context, report func(api.Progress)) error {
	var err error
	if d.clk, err = clock.Create(d.dir.Node(), len(d.plan.Nodes)); err != nil {
		return fmt.Errorf("shared pages: %w", err)
	}
	if err := d.openPages(); err != nil {
		return err
	}
	if err := d.writeHosts(); err != nil {
		return err
	}
	d.startClock()
	if err := d.listenNodes(); err != nil {
		return err
	}
	if err := d.saveState(); err != nil {
		return err
	}
	if err := d.startNodes(ctx, report); err != nil {
		return err
	}
	report(api.Progress{Stage: "wire", Total: len(d.plan.Links), Text: "joining nodes"})
	if err := d.wire(ctx); err != nil {
		return err
	}
	report(api.Progress{Stage: "start", Total: len(d.nodes), Text: "taking ports up"})
	if err := d.each(ctx, func(n *node) *ctl.Message { return &ctl.Message{Op: "start"} }); err != nil {
		return err
	}
	if err := d.each(ctx, func(n *node) *ctl.Message { return &ctl.Message{Op: "carrier"} }); err != nil {
		return err
	}
	if err := d.serve(); err != nil {
		return err
	}
	d.state.Store(api.LabReady)
	if gone := d.lost(); len(gone) > 0 { // one that goes from now on is noticed
		return fmt.Errorf("node %s: %w%s", gone[0].name, errNodeGone, d.lastWords(gone[0]))
	}
	if err := d.saveState(); err != nil {
		return err
	}
	d.event("lab", "", "", "ready")
	report(api.Progress{Stage: api.StageReady, Done: len(d.nodes), Total: len(d.nodes)})
	return nil
}

// lost marks the nodes as dead that are not connected, and gives those of which nobody knew it.
func (d *Daemon) lost() (gone []*node) {
	for _, n := range d.nodes {
		n.mu.Lock()
		if n.conn == nil && !n.dead {
			n.dead = true
			d.clk.SetDead(n.id, true)
			gone = append(gone, n)
		}
		n.mu.Unlock()
	}
	return gone
}

// writeHosts tells nodes each other's addresses, and behind a # what their FEPs speak.
func (d *Daemon) writeHosts() error {
	var b strings.Builder
	for i := range d.plan.Nodes {
		n := &d.plan.Nodes[i]
		note := ""
		if n.Kind == topology.KindFEP {
			p := workload.PeerAt(d.plan, i, 0)
			note = fmt.Sprintf(" # profiles=%s mtu=%d", p.Profiles, p.PayloadMTU)
		}
		fmt.Fprintf(&b, "%v %s%s\n%v %s%s\n", n.Addr4, n.Name, note, n.Addr6, n.Name, note)
	}
	return os.WriteFile(labdir.Hosts(d.dir.Node()), []byte(b.String()), 0o644)
}

func (d *Daemon) openPages() error {
	for i := range d.plan.Nodes {
		n := &node{id: i, name: d.plan.Nodes[i].Name, wait: map[uint64]chan answer{}, hello: make(chan struct{})}
		var err error
		if n.page, err = clock.OpenNode(d.dir.Node(), i, false); err != nil {
			return err
		}
		d.nodes = append(d.nodes, n)
	}
	return nil
}

func (d *Daemon) startClock() {
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = ackLimit
	now := c.wall.Now()
	c.restWall, c.markWall, c.seg.Wall0 = now, now, now
	c.seg.Flags = clock.Rest
	if d.real() {
		c.seg.Flags, c.seg.Limit = clock.Real, forever
	}
	d.write(c)
}

// startNodes starts all nodes and answers each one's hello with its configuration.
func (d *Daemon) startNodes(ctx context.Context, report func(api.Progress)) error {
	specs := make([]runtime.Spec, len(d.plan.Nodes))
	for i := range specs {
		specs[i] = d.nodeSpec(i)
	}
	started := 0
	report(api.Progress{Stage: "nodes", Total: len(specs), Text: "starting nodes"})
	configured := make(chan error, 1)
	cctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	go func() { configured <- d.configureAll(cctx) }() // ends with the last node's answer or cctx
	_, err := d.rt.Start(ctx, specs, func(h runtime.Handle) {
		started++
		d.mu.Lock()
		d.handles = append(d.handles, h)
		d.mu.Unlock()
		report(api.Progress{Stage: "nodes", Done: started, Total: len(specs), Text: h.Node})
	})
	if err != nil {
		cancel()
		<-configured
		return err
	}
	return <-configured
}

func (d *Daemon) nodeSpec(id int) runtime.Spec {
	p := &d.plan.Nodes[id]
	return runtime.Spec{Lab: d.opt.Lab, Name: p.Name, ID: id, Kind: p.Kind, Dir: d.dir.Node(), Page: clock.NodeFile(d.dir.Node(), id),
		Log: d.dir.NodeLog(p.Name), Image: p.Image, Command: p.Command,
		Labels: map[string]string{"uetlab.lab": d.opt.Lab, "uetlab.node": p.Name, "uetlab.uid": strconv.Itoa(os.Getuid())}}
}

// configureAll sends every node its configuration as soon as it says hello.
func (d *Daemon) configureAll(ctx context.Context) error {
	routes := d.plan.Routes(nil)
	errs := make([]error, len(d.nodes))
	var wg sync.WaitGroup
	for i, n := range d.nodes {
		wg.Add(1)
		go func() { // ends with the node's answer or ctx
			defer wg.Done()
			if errs[i] = d.awaitHello(ctx, n); errs[i] != nil {
				return
			}
			cfg := d.config(i, routes[i])
			errs[i] = d.ask(ctx, n, ctl.Message{Op: "config", Config: cfg})
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// awaitHello waits until a node has connected. One that has ended instead is reported with the last line of its log.
func (d *Daemon) awaitHello(ctx context.Context, n *node) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-n.hello:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("node %s did not come up: %w%s", n.name, ctx.Err(), d.lastWords(n))
		case <-tick.C:
			if h, ok := d.handle(n.id); ok && !d.rt.Alive(ctx, h) {
				return fmt.Errorf("node %s has ended before it was up%s", n.name, d.lastWords(n))
			}
		}
	}
}

func (d *Daemon) lastWords(n *node) string {
	b, err := os.ReadFile(d.dir.NodeLog(n.name))
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return ": " + string(lines[len(lines)-1])
}

// handle gives what the runtime knows a node by.
func (d *Daemon) handle(id int) (runtime.Handle, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.handles {
		if h.ID == id {
			return h, true
		}
	}
	return runtime.Handle{}, false
}

func (d *Daemon) config(id int, routes []topology.Route) *ctl.Config {
	cfg := nodecore.Config(d.plan, id, d.opt.Seed, routes)
	cfg.Real = d.real()
	return cfg
}

// wire joins the nodes' namespaces with veth pairs.
func (d *Daemon) wire(ctx context.Context) error {
	ns := make([]*os.File, len(d.nodes))
	for i, n := range d.nodes {
		n.mu.Lock()
		ns[i] = n.netns
		n.mu.Unlock()
		if ns[i] == nil {
			return fmt.Errorf("node %s: %w", n.name, errNodeGone)
		}
	}
	return wiring.Wire(ctx, d.plan, ns)
}

// state file: what was made, for whoever cleans up.
type stateFile struct {
	Lab     string           `json:"lab"`
	Runtime string           `json:"runtime"`
	Pid     int              `json:"pid"`
	State   string           `json:"state"`
	Created time.Time        `json:"createdAt"`
	Handles []runtime.Handle `json:"nodes"`
	Faults  faults.Saved     `json:"faults"`    // what is wrong with links, and will be
	Dark    []bool           `json:"noCarrier"` // links whose veth pair has been taken down, in the order of the plan
	Changed savedSwitches    `json:"switches"`  // settings of switches
}

// saveState writes the state file. Callers do not hold time.mu.
func (d *Daemon) saveState() error {
	d.saving.Lock()
	defer d.saving.Unlock()
	d.time.mu.Lock()
	saved, dark, switches := d.faults.Save(), slices.Clone(d.noCarrier), d.settings.save()
	d.time.mu.Unlock()
	d.mu.Lock()
	s := stateFile{d.opt.Lab, d.rt.Name(), os.Getpid(), d.state.Load().(string), d.created, slices.Clone(d.handles), saved, dark, switches}
	d.mu.Unlock()
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp := d.dir.State() + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	return os.Rename(tmp, d.dir.State())
}

// poke lets the rest loop look again.
func (d *Daemon) poke() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// Run serves until somebody asks for the lab's end or ctx ends.
func (d *Daemon) Run(ctx context.Context) {
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go d.heartbeat(rctx)                                // ends with rctx
	go func() { defer close(done); d.restLoop(rctx) }() // ends with rctx
	select {
	case <-ctx.Done():
	case <-d.down:
	}
	cancel()
	<-done
}

// Stop asks Run to return.
func (d *Daemon) Stop() { d.downOnce.Do(func() { close(d.down) }) }

// Close stops all nodes and removes the lab's directory.
func (d *Daemon) Close() error {
	d.stopping.Store(true)
	d.state.Store(api.LabStopping)
	d.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	d.mu.Lock()
	handles := slices.Clone(d.handles)
	d.mu.Unlock()
	err := d.rt.Stop(ctx, d.opt.Lab, handles)
	if d.nodeSock >= 0 {
		_ = unix.Shutdown(d.nodeSock, unix.SHUT_RDWR)
		unix.Close(d.nodeSock)
	}
	if err == nil {
		err = d.dir.Remove()
	}
	close(d.downDone)
	sctx, scancel := context.WithTimeout(context.Background(), time.Second)
	defer scancel()
	for _, s := range d.servers {
		_ = s.Shutdown(sctx) // whoever still reads has had its answer
		_ = s.Close()
	}
	return err
}

// serve opens the REST socket, the exec socket, and the TCP port if one is wanted.
func (d *Daemon) serve() error {
	l, err := listenUnix("unix", d.dir.Sock())
	if err != nil {
		return err
	}
	d.serveHTTP(l, d.handler())
	if err := d.serveExec(); err != nil {
		return err
	}
	if d.opt.Listen == "" {
		return nil
	}
	return d.serveTCP(d.opt.Listen)
}

func (d *Daemon) serveHTTP(l net.Listener, h http.Handler) {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	d.servers = append(d.servers, s)
	go func() { _ = s.Serve(l) }() // ends with Close
}

func listenUnix(network, path string) (net.Listener, error) {
	_ = os.Remove(path) // of a daemon that died; the directory is ours alone
	l, err := net.Listen(network, path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
