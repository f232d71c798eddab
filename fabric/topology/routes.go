package topology

import (
	"net/netip"
	"slices"
)

// Routes gives every switch, by node id, its ECMP entries over the links that are not down: all equal-cost
// shortest paths, counted in hops. What lies behind one switch is one prefix: the subnet it owns (a /24 and a
// /64), or its own address (/32 and /128); the end points at the switch itself are host routes. A switch has no
// entry for itself, nor for what it cannot reach. Entries are in the order of their prefixes, IPv4 first; ports
// ascend. Entries share their port slices: do not change them.
func (p *Plan) Routes(down map[int]bool) map[int][]Route {
	routes := make(map[int][]Route)
	for i := range p.Nodes {
		if p.Nodes[i].Kind == KindSwitch {
			routes[i] = p.localRoutes(i, down)
		}
	}
	owns := make([]bool, len(p.Nodes))
	for _, id := range owners(p) {
		owns[id] = true
	}
	dist, queue := make([]int, len(p.Nodes)), make([]int, 0, len(routes))
	for dest := range p.Nodes {
		n := &p.Nodes[dest]
		if n.Kind != KindSwitch {
			continue
		}
		queue = p.distances(dest, down, dist, queue)
		bits4, bits6 := 32, 128
		if owns[dest] {
			bits4, bits6 = 24, 64
		}
		prefix4, prefix6 := netip.PrefixFrom(n.Addr4, bits4).Masked(), netip.PrefixFrom(n.Addr6, bits6).Masked()
		for _, id := range queue[1:] {
			ports := p.nearer(id, down, dist)
			routes[id] = append(routes[id], Route{prefix4, ports}, Route{prefix6, ports})
		}
	}
	for _, rs := range routes {
		slices.SortFunc(rs, func(a, b Route) int { return comparePrefixes(a.Prefix, b.Prefix) })
	}
	return routes
}

// localRoutes leads to the end points at the switch itself.
func (p *Plan) localRoutes(id int, down map[int]bool) []Route {
	var rs []Route
	for i, port := range p.Nodes[id].Ports {
		if peer := &p.Nodes[port.Peer]; peer.Kind != KindSwitch && !down[port.Link] {
			ports := []int{i}
			rs = append(rs, Route{netip.PrefixFrom(peer.Addr4, 32), ports}, Route{netip.PrefixFrom(peer.Addr6, 128), ports})
		}
	}
	return rs
}

// distances counts the hops to dest from every switch; -1 where there is no path. It returns the switches that have
// one, dest first.
func (p *Plan) distances(dest int, down map[int]bool, dist, queue []int) []int {
	for i := range dist {
		dist[i] = -1
	}
	dist[dest] = 0
	queue = append(queue[:0], dest)
	for head := 0; head < len(queue); head++ {
		u := queue[head]
		for _, port := range p.Nodes[u].Ports {
			if v := port.Peer; dist[v] < 0 && p.Nodes[v].Kind == KindSwitch && !down[port.Link] {
				dist[v] = dist[u] + 1
				queue = append(queue, v)
			}
		}
	}
	return queue
}

// nearer lists the ports whose far end is one hop nearer.
func (p *Plan) nearer(id int, down map[int]bool, dist []int) []int {
	var ports []int
	for i, port := range p.Nodes[id].Ports {
		if dist[port.Peer] == dist[id]-1 && !down[port.Link] {
			ports = append(ports, i)
		}
	}
	return ports
}

func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}
