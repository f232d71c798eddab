package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/switchd"
)

const (
	// mostEVs is how many entropy values there are.
	mostEVs = 1 << 16
	// waysAtOnce is how many of them nodes are asked for in one message.
	waysAtOnce = 1000
	// mostHops bounds a way: packets whose routes turn in a circle have run out of TTL.
	mostHops = 64
)

// way is where a packet goes.
type way struct {
	nodes []int // switches
	ports []topology.End
	end   string // why it does not come to the peer; empty: it does
}

// paths describes the ways between two end points.
func (d *Daemon) paths(ctx context.Context, name, peer string, evs int) (*api.Paths, error) {
	ctx, cancel := context.WithTimeout(ctx, pdcWait)
	defer cancel()
	nodes, err := d.endPoints(name, "paths")
	if err != nil {
		return nil, err
	}
	peers, err := d.endPoints(peer, "paths")
	switch {
	case err != nil:
		return nil, err
	case len(nodes) != 1 || len(peers) != 1 || nodes[0] == peers[0]:
		return nil, api.Errorf(api.CodeUsage, "paths: needs two end points that are not one and the same")
	}
	from, to := nodes[0], peers[0]
	addr := d.plan.Nodes[to.id].Addr4.String() // the fabric address
	known, err := d.fetchPaths(ctx, from, addr)
	if err != nil {
		return nil, err
	}
	out := &api.Paths{Node: name, Peer: peer, Counts: known.Counts, PDCs: known.PDCs, EVs: []api.PathEV{}, Routes: []api.PathRoute{}}
	frozen := map[uint16]bool{}
	for i := range out.PDCs {
		p := &out.PDCs[i]
		frozen[p.PDC] = p.Frozen
		for _, e := range p.EVs {
			out.EVs = append(out.EVs, api.PathEV{PDC: p.PDC, EV: e})
		}
		p.EVs = nil
	}
	if len(out.EVs) == 0 {
		for i := range min(max(evs, 1), mostEVs-1) {
			out.EVs = append(out.EVs, api.PathEV{EV: ctl.EV{EV: uint16(i + 1), State: lb.StateNone.String(), Last: lb.None.String()}})
		}
	}
	ways, err := d.ways(ctx, from, to.id, addr, out.EVs)
	if err != nil {
		return nil, err
	}
	d.time.mu.Lock()
	links := d.faults.At(d.virtualNow(&d.time))
	d.time.mu.Unlock()
	for i := range out.EVs {
		d.describeWay(&out.EVs[i], &ways[i], links, frozen[out.EVs[i].PDC])
	}
	shares(out.EVs)
	out.Routes = routesOf(out.EVs)
	return out, nil
}

// fetchPaths asks an end point for what it knows of a peer's fabric address.
func (d *Daemon) fetchPaths(ctx context.Context, n *node, addr string) (all ctl.Paths, err error) {
	all.PDCs = []ctl.PDCPaths{}
	for first := true; first || all.Next > 0; first = false {
		var part ctl.Paths
		if err := d.fetchMessage(ctx, n, ctl.Message{Op: "paths", Peer: addr, From: all.Next}, &part); err != nil {
			return all, err
		}
		if part.Next <= all.Next {
			part.Next = 0
		}
		for _, x := range part.PDCs {
			i := slices.IndexFunc(all.PDCs, func(y ctl.PDCPaths) bool { return y.PDC == x.PDC })
			if i < 0 {
				all.PDCs = append(all.PDCs, x)
				continue
			}
			all.PDCs[i].EVs = append(all.PDCs[i].EVs, x.EVs...)
		}
		all.Counts, all.Next = part.Counts, part.Next
	}
	return all, nil
}

// ways follows packets of entropy values from switch to switch, each of which says where it would send them now.
func (d *Daemon) ways(ctx context.Context, from *node, to int, addr string, evs []api.PathEV) ([]way, error) {
	out := make([]way, len(evs))
	headers := make([][]byte, 0, len(evs))
	for part := range slices.Chunk(evs, waysAtOnce) {
		m := ctl.Message{Op: "headers", Peer: addr}
		for i := range part {
			m.EVs = append(m.EVs, part[i].EV.EV)
		}
		var got [][]byte
		if err := d.fetchMessage(ctx, from, m, &got); err != nil {
			return nil, err
		}
		if len(got) != len(part) {
			return nil, fmt.Errorf("node %s: %d headers for %d entropy values", from.name, len(got), len(part))
		}
		headers = append(headers, got...)
	}
	first := make([]int, len(evs))
	for i := range out {
		first[i] = i
		out[i].ports = []topology.End{{Node: from.id}}
	}
	at := map[int][]int{d.plan.Nodes[from.id].Ports[0].Peer: first} // packets by the node that they have come to
	for hops := 0; len(at) > 0; hops++ {
		next := map[int][]int{}
		for id, list := range at {
			if id == to {
				continue
			}
			if hops == mostHops || d.plan.Nodes[id].Kind != topology.KindSwitch {
				for _, i := range list {
					out[i].end = "goes astray at " + d.nodes[id].name
				}
				continue
			}
			if err := d.hop(ctx, id, list, headers, out, next); err != nil {
				return nil, err
			}
		}
		at = next
	}
	return out, nil
}

// hop asks a switch where packets go on.
func (d *Daemon) hop(ctx context.Context, id int, list []int, headers [][]byte, out []way, next map[int][]int) error {
	n := d.nodes[id]
	for part := range slices.Chunk(list, waysAtOnce) {
		m := ctl.Message{Op: "ways"}
		for _, i := range part {
			out[i].nodes = append(out[i].nodes, id)
			m.Packets = append(m.Packets, headers[i])
		}
		if n.isDead() {
			for _, i := range part {
				out[i].end = n.name + " is dead"
			}
			continue
		}
		var ports []int
		if err := d.fetchMessage(ctx, n, m, &ports); err != nil {
			return err
		}
		for k, i := range part {
			port := switchd.WayNone
			if k < len(ports) {
				port = ports[k]
			}
			switch {
			case port == switchd.WayAny:
				out[i].end = "any port at " + n.name
			case port < 0 || port >= len(d.plan.Nodes[id].Ports):
				out[i].end = "no route at " + n.name
			default:
				out[i].ports = append(out[i].ports, topology.End{Node: id, Port: port})
				to := d.plan.Nodes[id].Ports[port].Peer
				next[to] = append(next[to], i)
			}
		}
	}
	return nil
}

// describeWay fills in where an EV leads, and how good that is.
func (d *Daemon) describeWay(e *api.PathEV, w *way, links []faults.Link, frozen bool) {
	e.Route, e.Ports, e.End = []string{}, []string{}, w.end
	for _, id := range w.nodes {
		e.Route = append(e.Route, d.nodes[id].name)
	}
	dead := w.end != "" && !strings.HasPrefix(w.end, "any port")
	var wrong []string
	for _, p := range w.ports {
		q := &d.plan.Nodes[p.Node].Ports[p.Port]
		e.Ports = append(e.Ports, d.nodes[p.Node].name+":"+q.Name)
		l, state := &d.plan.Links[q.Link], links[q.Link].BA
		if l.A == p {
			state = links[q.Link].AB
		}
		switch {
		case state.Down || state.Blackhole:
			dead = true
			wrong = append(wrong, l.Name+" is down")
		case !links[q.Link].Healthy():
			wrong = append(wrong, l.Name+" is impaired")
		}
	}
	e.Fault, e.Health = strings.Join(wrong, ", "), health(e, frozen)
	if dead {
		e.Health = api.HealthDead
	}
}

// health says what the balancer thinks of an EV.
func health(e *api.PathEV, frozen bool) string {
	switch {
	case e.State == lb.StatePenalty.String():
		return api.HealthPenalised
	case e.State == lb.StateCached.String() || e.State == lb.StateUsed.String():
		if frozen {
			return api.HealthFrozen
		}
		return api.HealthGood
	}
	switch e.Last {
	case lb.Good.String():
		return api.HealthGood
	case lb.ECN.String():
		return api.HealthMarked
	case lb.Nack.String():
		return api.HealthTrimmed
	case lb.Timeout.String():
		return api.HealthLost
	}
	return api.HealthUnknown
}

// shares gives every EV its part of all packets, or of all EVs where none were counted.
func shares(evs []api.PathEV) {
	var sum uint64
	for i := range evs {
		sum += evs[i].Packets
	}
	for i := range evs {
		evs[i].Share = 1 / float64(len(evs))
		if sum > 0 {
			evs[i].Share = float64(evs[i].Packets) / float64(sum)
		}
	}
}

// routesOf joins the EVs of one way, the most used first.
func routesOf(evs []api.PathEV) []api.PathRoute {
	index := map[string]int{}
	healths := []map[string]float64{}
	out := []api.PathRoute{}
	for i := range evs {
		e := &evs[i]
		key := strings.Join(e.Route, " ") + "|" + e.End
		k, ok := index[key]
		if !ok {
			k = len(out)
			index[key] = k
			out = append(out, api.PathRoute{Route: e.Route, End: e.End, Fault: e.Fault})
			healths = append(healths, map[string]float64{})
		}
		r := &out[k]
		r.EVs++
		r.Packets, r.Bytes, r.Share = r.Packets+e.Packets, r.Bytes+e.Bytes, r.Share+e.Share
		healths[k][e.Health] += e.Share
	}
	for k := range out {
		most := 0.0
		for _, h := range []string{api.HealthDead, api.HealthPenalised, api.HealthLost, api.HealthTrimmed, api.HealthMarked, api.HealthFrozen, api.HealthGood, api.HealthUnknown} {
			if n := healths[k][h]; n > most {
				most, out[k].Health = n, h
			}
		}
	}
	slices.SortStableFunc(out, func(a, b api.PathRoute) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), slices.Compare(a.Route, b.Route))
	})
	return out
}
