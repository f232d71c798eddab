// Package nodecore makes a running node out of its description: the engine, its ports, and a switch or an end point as
// its core; it applies scheduled changes and plays a rank in a run. A node process and the simulator use the same, which
// is why they agree to the nanosecond.
package nodecore

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

const (
	jobID = 1 // of every run
	// realWindow is what is in flight per PDC with --time real: a BDP of the modelled rate would queue for longer than the
	// retransmission timeout on a machine that forwards at a hundredth of it.
	realWindow = 64 << 10
	// directWindow is what it is where the other end point is at the far end of the link: nothing can overflow but its ring,
	// and more at once saves system calls. directAck is the AckGenTrigger that belongs to it: an ACK costs as much as a packet.
	directWindow = 256 << 10
	directAck    = 32 << 10
	// bigRun is the message size, in bytes, from which memory is made room for first.
	bigRun = 64 << 20
	// ethAndTag is what a frame has around an IP packet: Ethernet header and one tag, of CSIG at most 8 bytes.
	ethAndTag = 22
)

// Node is a node of the fabric with its core; exactly one of Switch and FEP is set.
type Node struct {
	*engine.Node
	Switch *switchd.Switch
	FEP    *fep.FEP

	cfg     *ctl.Config
	inForce *topology.FEPConfig // of the end point, from the latest run on

	names   []string    // of the ports
	plain   []bool      // those that know no LLR: the far end is no lab node, or time is the wall's
	lldp    *neighbours // nil: no link has LLDP
	mem     *Memory
	part    *part                    // nil: none
	opened  map[uint16]*fep.Endpoint // of ranks within the FEP, by PIDonFEP
	report  func(workload.RankResult)
	series  *series                 // nil: none is wanted of this run
	reInits map[reInit]bool         // scheduled handshakes; false: taken back
	window  func(c ctl.ContextPart) // see WatchWindows

	// Heard is called with what LLDP has brought about at a port, within its event; may be nil.
	Heard      func(e ctl.LLDPEvent)
	AfterReset func(now vt.Time) // called when a run has made the node forget everything; may be nil
	// Begin has an attached process begin its part of a run, within a call at its start; false: it is not there. Nil: there are no processes.
	Begin func(now vt.Time, job uint32, pid uint16) bool
	// Taken says whether an attached process has a PIDonFEP of a job. Nil: there are no processes.
	Taken func(job uint32, pid uint16) bool
}

// MaxFrame is the longest Ethernet frame of a node, in bytes without trailer.
func MaxFrame(n *topology.Node) (most int) {
	for _, q := range n.Ports {
		most = max(most, q.MTU+ethAndTag)
	}
	return most
}

// Memory is what nodes of one thread may share.
type Memory struct {
	Pool  *link.Pool // frames that pass by reference; nil: each node has its own
	zeros []byte
}

// take gives n zeros; they are for data that stays zero.
func (m *Memory) take(n int64) []byte {
	if n > int64(len(m.zeros)) {
		m.zeros = make([]byte, n)
	}
	return m.zeros[:n:n]
}

// New makes a node. report is called with the result of a rank when it has finished.
func New(cfg *ctl.Config, out engine.Out, mem *Memory, report func(workload.RankResult)) (*Node, error) {
	p := &cfg.Node
	ec := engine.Config{ID: p.ID, Latency: p.Latency, Seed: cfg.LabSeed, MaxFrame: MaxFrame(p), Pool: mem.Pool}
	n := &Node{cfg: cfg, mem: mem, report: report, opened: map[uint16]*fep.Endpoint{}, reInits: map[reInit]bool{}}
	for i, q := range p.Ports {
		c := link.Config{Rate: q.Rate, Delay: q.Delay, Queue: q.Queue, MTU: q.MTU, Queued: p.Kind == topology.KindSwitch, MAC: q.MAC, LLR: q.LLR, CBFC: q.CBFC, Interleave: q.Interleave, Negotiated: q.Negotiated}
		n.plain = append(n.plain, cfg.Real || !cfg.Peers[i].Lab)
		if n.plain[i] {
			c.LLR, c.CBFC = nil, nil
		}
		if q.Negotiated {
			c.LLR = nil
		}
		ec.Ports = append(ec.Ports, c)
		n.names = append(n.names, q.Name)
	}
	n.Node = engine.New(ec, out)
	n.expectAgreement(cfg)
	var err error
	switch p.Kind {
	case topology.KindSwitch:
		err = n.makeSwitch(cfg)
	case topology.KindFEP:
		err = n.makeFEP(cfg)
	default:
		err = fmt.Errorf("node %s: kind %s has no core", p.Name, p.Kind)
	}
	if err != nil {
		return nil, err
	}
	n.makeLinks(cfg)
	return n, nil
}

// makeLinks gives ports what their links are like from the start. A node that joins later than its neighbours shakes hands with them.
func (n *Node) makeLinks(cfg *ctl.Config) {
	for i, q := range cfg.Node.Ports {
		p := n.Ports[i]
		if n.Switch != nil || n.lldp != nil {
			p.Changed = func(now vt.Time) { n.linkGone(now, i) }
		}
		p.JoinLine(cfg.Start)
		if imp := q.Impair(); imp != (link.Impair{}) {
			p.SetImpair(cfg.Start, imp)
		}
		if cfg.Start > 0 && p.LLR() != nil {
			n.Node.Change(cfg.Start.Add(1), p.JoinLLR)
		}
	}
}

// linkGone follows a port that has gone down later than its link.
func (n *Node) linkGone(now vt.Time, port int) {
	if n.Switch != nil {
		n.Switch.LinksChanged()
	}
	if n.lldp != nil {
		n.lldp.linkChanged(now, port)
	}
}

func (n *Node) makeSwitch(cfg *ctl.Config) error {
	p := &cfg.Node
	sc := switchd.Config{Addr4: p.Addr4, Addr6: p.Addr6, Seed: p.Seed}
	if p.Switch != nil {
		sc.Settings = *p.Switch
	}
	for i, q := range p.Ports {
		sc.Ports = append(sc.Ports, switchd.Port{MAC: q.MAC, Peer: cfg.Peers[i].MAC, Host: cfg.Peers[i].End})
	}
	var err error
	if n.Switch, err = switchd.New(n.Node, sc); err != nil {
		return fmt.Errorf("node %s: %w", p.Name, err)
	}
	n.Attach(n.Switch)
	routes, err := n.routes(cfg.Routes)
	if err != nil {
		return fmt.Errorf("node %s: %w", p.Name, err)
	}
	n.Switch.SetRoutes(routes)
	n.addNeighbours(cfg, n.Switch)
	return nil
}

func (n *Node) makeFEP(cfg *ctl.Config) error {
	p := &cfg.Node
	if len(p.Ports) != 1 {
		return fmt.Errorf("node %s: an end point has one port, not %d", p.Name, len(p.Ports))
	}
	fc, err := n.endPoint(p.FEP)
	if err != nil {
		return fmt.Errorf("node %s: %w", p.Name, err)
	}
	n.inForce = p.FEP
	n.FEP = fep.New(n.Node, fc)
	n.addNeighbours(cfg, n.FEP)
	return nil
}

// endPoint is the configuration of an end point that is to do what c says; nil: it has all defaults.
func (n *Node) endPoint(c *topology.FEPConfig) (fep.Config, error) {
	cfg := n.cfg
	p := &cfg.Node
	fc := fep.Config{MAC: p.Ports[0].MAC, NextHop: cfg.Peers[0].MAC, Addr4: p.Addr4, Addr6: p.Addr6,
		PayloadMTU: cfg.PayloadMTU, Window: cfg.Around.BDP, Class: cfg.Class, ClassControl: cfg.Control, ClassUnmanaged: cfg.Unmanaged,
		CSIGCompactTPID: wire.EtherType(cfg.CSIG[0]), CSIGWideTPID: wire.EtherType(cfg.CSIG[1]), ByRef: n.mem.Pool != nil,
		DSCPData: cfg.DSCP.Data, DSCPRetx: cfg.DSCP.Retx, DSCPControl: cfg.DSCP.Control,
		Incarnation: uint64(cfg.Start),
		DSCPTrimmed: cfg.DSCP.Trimmed, DSCPTrimmedLastHop: cfg.DSCP.LastHop, DSCPUnmanaged: cfg.DSCP.Unreliable}
	if c != nil {
		if err := manage(&fc, c, cfg); err != nil {
			return fc, err
		}
		semantics(c, &fc)
	}
	if cfg.Real { // at the wall's pace timers must bear the machine's jitter (uet-pds-ses 20, preset real), and so must windows
		fc.Window = min(fc.Window, realWindow)
		if cfg.Peers[0].End {
			fc.Window = directWindow
			if fc.AckGenTrigger == 0 {
				fc.AckGenTrigger = directAck
			}
		}
		fc.RTOInit, fc.NackRetxTime, fc.ClearTime, fc.MaxAckDelay = 20*time.Millisecond, 5*time.Millisecond, 20*time.Millisecond, 2*time.Millisecond
		fc.NewPDCTime, fc.CloseReqTime = 100*time.Millisecond, 50*time.Millisecond
	}
	return fc, nil
}

// manage sets up congestion management. At the wall's pace round trips are the machine's, and only the fixed window makes sense.
func manage(fc *fep.Config, c *topology.FEPConfig, cfg *ctl.Config) error {
	d, err := c.Delivery(cfg.Around)
	if err != nil {
		return err
	}
	fc.Ordered = c.Ordered
	fc.Window, fc.LB, fc.Balance, fc.AckGenTrigger, fc.CSIG = d.Window, d.LB, d.Balance, d.AckGenTrigger, d.CSIG
	if cfg.Real {
		return nil
	}
	fc.NoDFC = d.NoDFC
	fc.CC, fc.NoInfer, fc.NoECN, fc.NoRTT, fc.NoTrim = d.CC, d.NoInfer, d.NoECN, d.NoRTT, d.NoTrim
	fc.RTOInit, fc.RTOConstant, fc.MaxRTORetx, fc.OwnPDC, fc.MaxNackRetx = d.RTOInit, d.RTOConstant, d.MaxRTORetx, d.OwnPDC, d.MaxNackRetx
	return nil
}

// configure prepares an end point for a run that has settings of its own, or is the first after one that had: nil where it stays as it is.
// The settings in force are those of the latest run that was scheduled.
func (n *Node) configure(r *ctl.Run) (*fep.Config, error) {
	if n.FEP == nil {
		return nil, nil
	}
	want := r.FEP
	if want == nil {
		want = n.cfg.Node.FEP
	}
	if reflect.DeepEqual(want, n.inForce) {
		return nil, nil
	}
	if r.Warm {
		return nil, errors.New("run: a warm one keeps windows and PDCs as they are, and the settings of end points would change: run it cold, or with the settings of the run before")
	}
	fc, err := n.endPoint(want)
	if err == nil {
		err = n.FEP.Check(fc)
	}
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	n.inForce = want
	return &fc, nil
}

// semantics says what an end point does with messages. Numbers of which 0 is none are -1 there.
func semantics(p *topology.FEPConfig, c *fep.Config) {
	orNone := func(n int64) int {
		if n == 0 {
			return -1
		}
		return int(n)
	}
	c.Profiles = fep.ProfilesOf(p.Profiles)
	c.RejectTooLong = p.TooLong == topology.TooLongReject
	c.SendThreshold = int(p.Threshold)
	c.EagerSize, c.Unexpected, c.MaxRTR, c.MaxAckData = int(p.Eager), orNone(p.Unexpected), orNone(int64(p.RTR)), orNone(p.AckData)
}

// routes reads routes as messages have them.
func (n *Node) routes(groups []ctl.RouteGroup) ([]switchd.Route, error) {
	routes := make([]switchd.Route, len(groups))
	for i, g := range groups {
		for _, port := range g.Ports {
			if port < 0 || port >= len(n.Ports) {
				return nil, fmt.Errorf("route: no port %d", port)
			}
		}
		routes[i].Ports = g.Ports
		for _, s := range g.Prefixes {
			p, err := netip.ParsePrefix(s)
			if err != nil {
				return nil, fmt.Errorf("route: %w", err)
			}
			routes[i].Prefixes = append(routes[i].Prefixes, p)
		}
	}
	return routes, nil
}

// Peers describes the far ends of a node's ports, and whether each speaks the trailer.
func Peers(plan *topology.Plan, id int) []ctl.PortPeer {
	var peers []ctl.PortPeer
	lab := func(i int) bool { return plan.Nodes[i].Kind != topology.KindHost }
	for _, q := range plan.Nodes[id].Ports {
		peers = append(peers, ctl.PortPeer{MAC: plan.Nodes[q.Peer].Ports[q.PeerIdx].MAC, Lab: lab(id) && lab(q.Peer),
			End: plan.Nodes[q.Peer].Kind != topology.KindSwitch})
	}
	return peers
}

// Groups joins routes that share their ports. It never gives nil, which in a ctl.Change says that the routes stay.
func Groups(routes []topology.Route) []ctl.RouteGroup {
	out := []ctl.RouteGroup{}
	index := map[string]int{}
	for _, r := range routes {
		key := fmt.Sprint(r.Ports)
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out = append(out, ctl.RouteGroup{Ports: r.Ports})
		}
		out[i].Prefixes = append(out[i].Prefixes, r.Prefix.String())
	}
	return out
}

// Config describes node id of a plan to itself.
func Config(plan *topology.Plan, id int, seed uint64, routes []topology.Route) *ctl.Config {
	p := &plan.Nodes[id]
	c := &ctl.Config{Node: *p, Peers: Peers(plan, id), LabSeed: seed, PayloadMTU: plan.PayloadMTU, DSCP: plan.DSCP, Routes: Groups(routes)}
	if p.Kind == topology.KindFEP {
		c.Around = plan.Around(id)
		if sw := plan.Nodes[p.Ports[0].Peer].Switch; sw != nil {
			c.CSIG = [2]uint16{sw.CSIG.Compact, sw.CSIG.Wide}
		}
		classes := plan.Classes(plan.Nodes[id].Ports[0].Peer)
		c.Class, c.Control, c.Unmanaged = classes[plan.DSCP.Data], classes[plan.DSCP.Control], classes[plan.DSCP.Unreliable]
	}
	if p.Kind == topology.KindHost {
		sw := &plan.Nodes[p.Ports[0].Peer]
		c.Gateway = &ctl.Neighbour{Addr4: sw.Addr4.String(), Addr6: sw.Addr6.String(), MAC: c.Peers[0].MAC}
	}
	return c
}
