package main

import (
	"errors"
	"fmt"
	"math/bits"
	"net"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/wire"
)

func inspectCommand() *cli.Command {
	return verb{name: "inspect", args: "[NODE|LINK]", usage: "show all about a lab, a node or a link", max: 1,
		text: "Without an argument: the lab, its plane BDP and base RTT, and the address plan. With a node: its ports, MACs,\n" +
			"neighbours and, for a switch, the settings that matter most, its queues and its routes while every link is up; for an end\n" +
			"point, its PDCs as `uetlab pdc` lists them. With a link: both ends, what is wrong with it and its counters.",
		examples: []string{"uetlab inspect", "uetlab inspect leaf0", "uetlab inspect leaf0-spine1 --format json", "uetlab inspect leaf0:eth3"},
		flags:    labFlags(), run: runInspect}.command()
}

func runInspect(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	plan, err := cl.Plan(c.ctx)
	if err != nil {
		return explain(d, err)
	}
	switch name := c.arg(0); {
	case name == "":
		err = c.inspectLab(cl, &plan)
	case strings.ContainsAny(name, "-:"): // node names have neither
		err = c.inspectLink(cl, &plan, name)
	default:
		err = c.inspectNode(cl, &plan, name)
	}
	return explain(d, notFound(err))
}

// labView is the answer to inspect.
type labView struct {
	Lab  api.Lab        `json:"lab"`
	Plan *topology.Plan `json:"plan"`
}

func (c *call) inspectLab(cl *api.Client, plan *topology.Plan) error {
	lab, err := cl.Lab(c.ctx)
	if err != nil {
		return err
	}
	v := labView{lab, plan}
	if c.String("format") != formatTable {
		return c.render(v, nil)
	}
	if err := facts([][2]string{
		{"lab", lab.Name}, {"state", lab.State}, {"topology", lab.Topology}, {"runtime", lab.Runtime}, {"time", lab.Time},
		{"seed", fmt.Sprint(lab.Seed)}, {"daemon", fmt.Sprintf("pid %d, version %s", lab.Pid, lab.Version)}, {"directory", lab.Dir},
		{"base RTT", nanos(int64(plan.BaseRTT))}, {"plane BDP", fmt.Sprintf("%d bytes", plan.BDP)},
		{"payload MTU", fmt.Sprintf("%d bytes", plan.PayloadMTU)}, {"convergence", convergence(plan)},
	}).write(c.out); err != nil {
		return err
	}
	fmt.Fprintln(c.out)
	if err := addressTable(plan).write(c.out); err != nil {
		return err
	}
	fmt.Fprintln(c.out)
	return planLinkTable(plan).write(c.out)
}

// facts is a table of names and values.
func facts(rows [][2]string) table {
	t := table{columns: []string{"FACT", "VALUE"}}
	for _, r := range rows {
		t.add(r[0], r[1])
	}
	return t
}

func convergence(plan *topology.Plan) string {
	if plan.Convergence < 0 {
		return "never"
	}
	return nanos(int64(plan.Convergence))
}

// addressTable lists the nodes of a plan.
func addressTable(plan *topology.Plan) table {
	t := table{columns: []string{"ID", "NODE", "KIND", "TIER", "PORTS", "IPV4", "IPV6", "LATENCY"}}
	for _, n := range plan.Nodes {
		t.add(n.ID, n.Name, n.Kind, n.Tier, len(n.Ports), n.Addr4, n.Addr6, nanos(int64(n.Latency)))
	}
	return t
}

// planLinkTable lists the links of a plan.
func planLinkTable(plan *topology.Plan) table {
	t := table{columns: []string{"LINK", "A", "B", "RATE", "DELAY", "MTU"}}
	says := make([]string, len(plan.Links))
	for i := range plan.Links {
		says[i] = linkSays(plan, i)
	}
	some := slices.ContainsFunc(says, func(s string) bool { return s != "" })
	if some {
		t.columns = append(t.columns, "LINK LAYER")
	}
	for i, l := range plan.Links {
		cells := []any{l.Name, endName(plan, l.A), endName(plan, l.B), rate(l.Rate), nanos(int64(l.Delay)), l.MTU}
		if some {
			cells = append(cells, dash(says[i]))
		}
		t.add(cells...)
	}
	return t
}

// linkSays is what a topology asks of a link beyond carrying frames, in the words of link set where there are such.
func linkSays(plan *topology.Plan, id int) string {
	l := &plan.Links[id]
	var words []string
	add := func(on bool, word string) {
		if on {
			words = append(words, word)
		}
	}
	wish := func(key string, a, b bool) string {
		switch {
		case !l.Negotiated || a && b:
			return key + "=on"
		case a:
			return key + " wanted by " + plan.Nodes[l.A.Node].Name
		case b:
			return key + " wanted by " + plan.Nodes[l.B.Node].Name
		}
		return key + " wanted by nobody"
	}
	add(l.LLDP && l.Negotiated, "lldp=on")
	add(l.LLDP && !l.Negotiated, "lldp=static")
	add(l.LLR != nil, wish("llr", l.Wishes[0].LLR, l.Wishes[1].LLR))
	add(l.CBFC != nil, wish("cbfc", l.Wishes[0].CBFC, l.Wishes[1].CBFC))
	impair := l.Impair()
	add(faults.Text(&impair) != "", faults.Text(&impair))
	add(l.Interleave != 0, fmt.Sprintf("interleave=%d", l.Interleave))
	add(plan.Miswired(id), "miswired")
	return strings.Join(words, " ")
}

func endName(plan *topology.Plan, e topology.End) string {
	n := plan.Nodes[e.Node]
	return n.Name + ":" + n.Ports[e.Port].Name
}

// nodeView is the answer to inspect NODE.
type nodeView struct {
	Status     *api.NodeStatus  `json:"status"`
	Plan       *topology.Node   `json:"plan"`
	Neighbours []neighbour      `json:"neighbours"`
	Routes     []topology.Route `json:"routes,omitempty"`

	Switch *api.SwitchStatus `json:"switch,omitempty"`
	Queues []api.QueueStats  `json:"queues,omitempty"` // of a switch
	PDCs   []api.PDC         `json:"pdcs,omitempty"`   // of an end point

	Settings []topology.KeyValue `json:"settings,omitempty"` // of an end point: what the topology has for congestion management
}

// neighbour is what a port finds at the far end of its link.
type neighbour struct {
	Port      string `json:"port"`
	MAC       string `json:"mac"`
	Link      string `json:"link"`
	Peer      string `json:"peer"` // node:port
	PeerMAC   string `json:"peerMac"`
	PeerAddr4 string `json:"peerAddr4"`
	PeerAddr6 string `json:"peerAddr6"`
	RateBps   int64  `json:"rateBps"`
	DelayNs   int64  `json:"delayNs"`
	MTU       int    `json:"mtu"`
	Queue     int64  `json:"queueBytes"`
}

func neighbours(plan *topology.Plan, n *topology.Node) []neighbour {
	out := make([]neighbour, 0, len(n.Ports))
	for _, p := range n.Ports {
		peer := &plan.Nodes[p.Peer]
		far := peer.Ports[p.PeerIdx]
		out = append(out, neighbour{Port: p.Name, MAC: mac(p.MAC), Link: plan.Links[p.Link].Name, Peer: peer.Name + ":" + far.Name,
			PeerMAC: mac(far.MAC), PeerAddr4: peer.Addr4.String(), PeerAddr6: peer.Addr6.String(),
			RateBps: p.Rate, DelayNs: int64(p.Delay), MTU: p.MTU, Queue: p.Queue})
	}
	return out
}

func mac(b [6]byte) string { return net.HardwareAddr(b[:]).String() }

func (c *call) inspectNode(cl *api.Client, plan *topology.Plan, name string) error {
	n, err := plan.Node(name)
	if err != nil {
		return err
	}
	all, err := cl.Nodes(c.ctx)
	if err != nil {
		return err
	}
	v := nodeView{Plan: n, Neighbours: neighbours(plan, n), Routes: plan.Routes(nil)[n.ID]}
	if i := slices.IndexFunc(all, func(s api.NodeStatus) bool { return s.Name == name }); i >= 0 {
		v.Status = &all[i]
	}
	if v.Status == nil {
		return errors.New("node " + name + ": in the plan, but the daemon knows nothing of it")
	}
	if n.Kind == topology.KindFEP {
		if v.Settings, err = plan.FormatFEP(n.ID); err != nil {
			return err
		}
	}
	switch {
	case n.Kind == topology.KindSwitch:
		err = v.askSwitch(c, cl)
	case n.Kind == topology.KindFEP && v.Status.State == api.NodeUp:
		v.PDCs, err = cl.PDCs(c.ctx, name, false)
	}
	if err != nil {
		return err
	}
	if c.String("format") != formatTable {
		return c.render(v, nil)
	}
	return v.print(c)
}

func (v nodeView) print(c *call) error {
	s := v.Status
	rows := [][2]string{{"node", s.Name}, {"kind", s.Kind}, {"state", s.State}, {"pid", fmt.Sprint(s.Pid)}, {"container", short(s.Container)},
		{"IPv4", s.Addr4}, {"IPv6", s.Addr6}, {"horizon", nanos(s.HorizonNs)}, {"next event", nanos(s.NextNs)}}
	if v.Plan.Gate4.IsValid() {
		rows = append(rows, [2]string{"gateway", fmt.Sprintf("%s, %s", v.Plan.Gate4, v.Plan.Gate6)})
	}
	if v.Switch != nil {
		rows = append(rows, switchFacts(v.Switch)...)
	}
	if v.Plan.Kind == topology.KindFEP {
		if f := v.Plan.FEP; f != nil {
			rows = append(rows, settingRows(v.Settings)...)
			rows = append(rows, [2]string{"profiles", strings.Join(f.Profiles, ", ")},
				[2]string{"messages", fmt.Sprintf("eager %s, deferrable from %s, %s kept unexpected, %d deferred, too long: %s, read data with ACK: %s", orWord(f.Eager, 0, "auto"), orWord(f.Threshold, -1, "none"), bytesText(f.Unexpected), f.RTR, f.TooLong, bytesText(f.AckData))})
		}
		rows = append(rows, [2]string{"PDCs", fmt.Sprint(len(v.PDCs))})
	}
	ports := table{columns: []string{"PORT", "MAC", "LINK", "PEER", "PEER MAC", "PEER IPV4", "PEER IPV6", "RATE", "DELAY", "MTU", "QUEUE"}}
	for _, n := range v.Neighbours {
		ports.add(n.Port, n.MAC, n.Link, n.Peer, n.PeerMAC, n.PeerAddr4, n.PeerAddr6, rate(n.RateBps), nanos(n.DelayNs), n.MTU, n.Queue)
	}
	ts := tables{facts(rows), ports}
	if len(v.Queues) > 0 {
		ts = append(ts, queueTable(v.Queues))
	}
	if len(v.PDCs) > 0 {
		ts = append(ts, pdcTable(v.PDCs))
	}
	if len(v.Routes) > 0 {
		routes := table{columns: []string{"ROUTE", "PORTS"}}
		for _, r := range v.Routes {
			var names []string
			for _, p := range r.Ports {
				names = append(names, v.Plan.Ports[p].Name)
			}
			routes.add(r.Prefix, strings.Join(names, " "))
		}
		ts = append(ts, routes)
	}
	return append(ts, counterTable(s.Counters)...).write(c)
}

// tables are printed one after the other, a blank line between.
type tables []table

func (ts tables) write(c *call) error {
	for i, t := range ts {
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		if err := t.write(c.out); err != nil {
			return err
		}
	}
	return nil
}

// linkView is the answer to inspect LINK.
type linkView struct {
	api.LinkStatus
	PHY []api.PHY `json:"phy"`
}

func (c *call) inspectLink(cl *api.Client, plan *topology.Plan, name string) error {
	id, _, err := plan.FindLink(name)
	if err != nil {
		return err
	}
	all, err := cl.Links(c.ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(s api.LinkStatus) bool { return s.Name == plan.Links[id].Name })
	if i < 0 {
		return errors.New("link " + name + ": in the plan, but the daemon knows nothing of it")
	}
	l := all[i]
	v := linkView{LinkStatus: l}
	if v.PHY, err = cl.PHY(c.ctx, l.Name); err != nil {
		return err
	}
	if c.String("format") != formatTable {
		return c.render(v, nil)
	}
	rows := [][2]string{{"link", l.Name}, {"state", l.State}, {"A", l.A.String()}, {"B", l.B.String()},
		{"rate", rate(l.RateBps)}, {"delay", nanos(l.DelayNs)},
		{"A to B", dash(l.AB.Impair.Text())}, {"B to A", dash(l.BA.Impair.Text())}, {"LLR", retryText(&l)}, {"CBFC", creditText(&l, plan.Links[id].CBFC)}}
	for i := range v.PHY {
		way := "A to B"
		if v.PHY[i].From != l.A {
			way = "B to A"
		}
		rows = append(rows, [2]string{"PHY " + way, phyFact(&v.PHY[i])})
	}
	ts := tables{facts(rows)}
	if l.LLR {
		ts = append(ts, retryTable(plan.Retry(id)))
		list, err := cl.LLR(c.ctx, l.Name)
		if err != nil {
			return err
		}
		if len(list) > 0 { // nobody is asked who is dead
			ts = append(ts, llrTable(list))
		}
	}
	if l.CBFC && plan.Links[id].CBFC != nil {
		list, err := cl.Credits(c.ctx, l.Name)
		if err != nil {
			return err
		}
		ts = append(ts, creditChannels(list)...)
	}
	return append(ts, directionTable(l)).write(c)
}

// retryText is on or off, and the states of both sending ports.
func retryText(l *api.LinkStatus) string {
	if text := l.LLRText(); text != "on" {
		return text
	}
	return fmt.Sprintf("on, A to B %s, B to A %s", dash(l.AB.LLR), dash(l.BA.LLR))
}

// creditText is on or off, or what is in the way, and the room for each class.
func creditText(l *api.LinkStatus, s *cbfc.Setup) string {
	if text := l.CBFCText(); text != "on" || s == nil {
		return text
	}
	p := &s.Profile
	if p.Method == wire.CBFCTotal {
		return fmt.Sprintf("on, %d credits of %d B for %d classes together", p.Total, p.CreditSize, bits.OnesCount32(p.Lossless))
	}
	var each []string
	said := uint32(0)
	for _, v := range p.VCs {
		if said>>v.Index&1 == 0 {
			said |= 1 << v.Index
			each = append(each, fmt.Sprintf("%d for class %s", v.Limit, topology.QueueName(int(v.Index))))
		}
	}
	return fmt.Sprintf("on, credits of %d B, %s", p.CreditSize, strings.Join(each, ", "))
}

// retryTable lists the parameters of link layer retry.
func retryTable(c *llr.Config) table {
	count, age := fmt.Sprint(c.ReplayCount), nanos(int64(c.DataAge))
	if c.ReplayCount == llr.Unlimited {
		count = "unlimited"
	}
	if c.DataAge == 0 {
		age = "none"
	}
	t := table{columns: []string{"LLR", "VALUE"}}
	for _, r := range [][2]string{{"window", fmt.Sprintf("%d frames, %d bytes", c.Frames, c.Bytes)}, {"replay timer", nanos(int64(c.ReplayTimer))},
		{"replays", count}, {"data age", age}, {"PCS lost", nanos(int64(c.PCSLost))}, {"in INIT", string(c.Init)}, {"in FLUSH", string(c.Flush)},
		{"shakes hands again", fmt.Sprint(c.ReInit)}, {"ACK", fmt.Sprintf("after %d bytes or %s", c.AckEvery, nanos(int64(c.AckDelay)))}} {
		t.add(r[0], r[1])
	}
	return t
}

// directionTable lists the counters of both directions side by side.
func directionTable(l api.LinkStatus) table {
	t := table{columns: []string{"COUNTER", "A TO B", "B TO A"}}
	for _, k := range keys(l.AB.Counters, l.BA.Counters) {
		t.add(k, l.AB.Counters[k], l.BA.Counters[k])
	}
	return t
}

// counterTable lists counters by name; nothing where there are none.
func counterTable(counters map[string]uint64) []table {
	if len(counters) == 0 {
		return nil
	}
	t := table{columns: []string{"COUNTER", "VALUE"}}
	for _, k := range keys(counters) {
		t.add(k, counters[k])
	}
	return []table{t}
}

// keys gives the sorted names of all counters in some sets.
func keys(sets ...map[string]uint64) []string {
	var out []string
	for _, s := range sets {
		for k := range s {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// orWord writes a size, or the word for the one that stands for it.
func orWord(n, special int64, word string) string {
	if n == special {
		return word
	}
	return bytesText(n)
}
