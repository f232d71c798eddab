package topology

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// applyLink changes the fabric's links that the entry names, or adds one where it names none.
func (d *draft) applyLink(l *LinkSpec) {
	if l.broken {
		return
	}
	var names [2]string
	var ports [2]int
	for i, e := range l.Endpoints {
		names[i], ports[i] = splitEndpoint(e)
		if !d.checkEndpoint(l, i, names[i], ports[i]) {
			return
		}
	}
	at := d.spec.at(&l.Endpoints[0])
	if names[0] == names[1] && !isGlob(names[0]) {
		d.problem(at, "endpoints", strings.Join(l.Endpoints[:], ", "), "both ends are the same node", "a link joins two nodes")
		return
	}
	if changed := d.made(names, ports); len(changed) > 0 {
		if l.LinkParams == (LinkParams{}) {
			d.problem(at, "endpoints", strings.Join(l.Endpoints[:], ", "), "the fabric already has this link and nothing is changed", d.parallelHint(changed[0]))
		}
		for _, c := range changed {
			d.setParams(c, l)
		}
		return
	}
	if isGlob(names[0]) || isGlob(names[1]) {
		d.problem(at, "endpoints", strings.Join(l.Endpoints[:], ", "), "no link of the fabric matches", "a pattern changes links of the fabric; to add one, name both nodes")
		return
	}
	link := &draftLink{at: at, params: d.spec.Defaults.Link, mtuAt: d.spec.at(&d.spec.Defaults.Link.MTU), cbfcAt: d.spec.whereCBFC(&d.spec.Defaults.Link)}
	d.setParams(link, l)
	for i, name := range names {
		node := d.byName[name]
		if used := node.ports[ports[i]]; used != nil {
			d.problem(d.spec.at(&l.Endpoints[i]), "endpoint", l.Endpoints[i], fmt.Sprintf("this port already goes to %s", used.far(node)), freeHint(node))
			return
		}
		link.ends[i] = draftEnd{node, ports[i]}
	}
	d.link(link)
}

func (d *draft) setParams(link *draftLink, l *LinkSpec) {
	link.params = l.LinkParams.over(link.params)
	if l.MTU != 0 {
		link.mtuAt = d.spec.at(&l.MTU)
	}
	link.cbfcAt = cmp.Or(d.spec.whereCBFC(&l.LinkParams), link.cbfcAt)
}

// checkEndpoint reports whether an endpoint names nodes that are there and a port that can be.
func (d *draft) checkEndpoint(l *LinkSpec, i int, name string, port int) bool {
	at := d.spec.at(&l.Endpoints[i])
	if port < 0 {
		d.problem(at, "endpoint", l.Endpoints[i], "no such port", fmt.Sprintf("ports are eth1 to eth%d, e.g. leaf0:eth3", maxPorts))
		return false
	}
	if _, err := path.Match(name, ""); err != nil {
		d.problem(at, "endpoint", l.Endpoints[i], "a bracket of the pattern is not closed", "e.g. leaf[0-3]")
		return false
	}
	if isGlob(name) || d.byName[name] != nil {
		return true
	}
	d.problem(at, "endpoint", l.Endpoints[i], "no such node", didYouMean(name, d.names()))
	return false
}

// made finds the links of the fabric between the named ends, in either order.
func (d *draft) made(names [2]string, ports [2]int) []*draftLink {
	links := d.links
	if !isGlob(names[0]) {
		links = d.byName[names[0]].linksInOrder()
	}
	var found []*draftLink
	for _, l := range links {
		if !l.made {
			continue
		}
		a, b := l.ends[0], l.ends[1]
		if a.matches(names[0], ports[0]) && b.matches(names[1], ports[1]) ||
			b.matches(names[0], ports[0]) && a.matches(names[1], ports[1]) {
			found = append(found, l)
		}
	}
	return found
}

// linksInOrder lists the node's links by port number.
func (n *draftNode) linksInOrder() []*draftLink {
	links := make([]*draftLink, 0, len(n.ports))
	for _, port := range slices.Sorted(maps.Keys(n.ports)) {
		links = append(links, n.ports[port])
	}
	return links
}

// far names the other end of the link as seen from n.
func (l *draftLink) far(n *draftNode) string {
	e := l.ends[0]
	if e.node == n {
		e = l.ends[1]
	}
	if e.port == 0 {
		return e.node.name
	}
	return fmt.Sprintf("%s:eth%d", e.node.name, e.port)
}

func freeHint(n *draftNode) string {
	if p := n.freePort(); p <= maxPorts {
		return fmt.Sprintf("the next free port is %s:eth%d", n.name, p)
	}
	return fmt.Sprintf("all %d ports of %s are in use", maxPorts, n.name)
}

func (d *draft) parallelHint(l *draftLink) string {
	a, b := l.ends[0].node, l.ends[1].node
	return fmt.Sprintf("give rate, delay or mtu; to add a parallel link name free ports, e.g. [%s:eth%d, %s:eth%d]", a.name, a.freePort(), b.name, b.freePort())
}

// choosePorts gives the ends without a port the lowest free one, in file order, and then insists on numbers without gaps.
func (d *draft) choosePorts() {
	for _, l := range d.links {
		for i := range l.ends {
			if e := &l.ends[i]; e.port == 0 {
				e.port = e.node.freePort()
				e.node.ports[e.port] = l
			}
		}
	}
	crowded := false
	for _, n := range d.nodes {
		if len(n.ports) > maxPorts {
			if n.made && crowded {
				continue // the fabric's other switches have the same trouble
			}
			crowded = crowded || n.made
			d.problem(n.at, "node", n.name, fmt.Sprintf("has %d ports, at most %d are possible", len(n.ports), maxPorts), "use more switches or fewer links")
			continue
		}
		if gap := n.freePort(); gap <= len(n.ports) {
			for p := gap; ; p++ {
				if l := n.ports[p]; l != nil {
					d.problem(l.at, "endpoint", fmt.Sprintf("%s:eth%d", n.name, p), fmt.Sprintf("eth%d has no link, and ports are numbered without gaps", gap), fmt.Sprintf("use eth%d", gap))
					break
				}
			}
		}
	}
}

// check looks at the graph as a whole.
func (d *draft) check() {
	if len(d.nodes) > maxNodes {
		d.problem(d.spec.at(&d.spec.Fabric), "topology", "", fmt.Sprintf("%d nodes, at most %d are possible", len(d.nodes), maxNodes), "")
		return
	}
	d.checkDegrees()
	if len(d.problems) == 0 && !d.spec.partial {
		d.checkReach()
		d.checkMTU()
		d.setTiers()
	}
}

// checkDegrees wants one link at each end point, in this release, and at least one at a switch.
func (d *draft) checkDegrees() {
	points := 0
	for _, n := range d.nodes {
		if n.kind != KindSwitch {
			points++
		}
		switch {
		case len(n.ports) == 0:
			d.problem(n.at, "node", n.name, "has no link", fmt.Sprintf("add one under links, e.g. {endpoints: [%s, leaf0]}", n.name))
		case n.kind != KindSwitch && len(n.ports) > 1:
			second := n.ports[2]
			if second == nil {
				continue // a gap in its port numbers, reported already
			}
			d.problem(second.at, "node", n.name, fmt.Sprintf("has %d links; an end point has one in this release", len(n.ports)), "remove all but one, or make it a switch")
		}
	}
	if points < 2 {
		d.problem(d.spec.at(&d.spec.Name), "topology", d.spec.Name, fmt.Sprintf("end points: %d; two are needed for anything to be sent", points), "ask for more hosts, or add nodes of kind fep or host")
	}
}

// checkReach wants a path from the first end point to each other one.
func (d *draft) checkReach() {
	var first *draftNode
	for _, n := range d.nodes {
		if n.kind != KindSwitch {
			first = n
			break
		}
	}
	reached := map[*draftNode]bool{first: true}
	for queue := []*draftNode{first}; len(queue) > 0; queue = queue[1:] {
		for _, l := range queue[0].ports {
			for _, e := range l.ends {
				if !reached[e.node] {
					reached[e.node] = true
					queue = append(queue, e.node)
				}
			}
		}
	}
	for _, n := range d.nodes {
		if n.kind != KindSwitch && !reached[n] {
			d.problem(n.at, "node", n.name, fmt.Sprintf("cannot be reached from %s", first.name), "add a link that joins the two parts")
		}
	}
}

// checkMTU wants packets that fit the sender's link to fit every further one.
func (d *draft) checkMTU() {
	var ref *draftLink
	toPoint := func(l *draftLink) bool { return l.ends[0].node.kind != KindSwitch || l.ends[1].node.kind != KindSwitch }
	for _, l := range d.links {
		if toPoint(l) {
			ref = l
			break
		}
	}
	want := ref.mtu()
	for _, l := range d.links {
		if got := l.mtu(); got < want || got != want && toPoint(l) {
			d.problem(l.mtuAt, "mtu", fmt.Sprint(got), fmt.Sprintf("%s-%s does not match the %d of %s-%s", l.ends[0].node.name, l.ends[1].node.name, want, ref.ends[0].node.name, ref.ends[1].node.name),
				"links of end points share one mtu, and links between switches carry at least that")
		}
	}
}

func (l *draftLink) mtu() int {
	if l.params.MTU == 0 {
		return defaultMTU
	}
	return l.params.MTU
}

// setTiers ranks the switches that the file added: one more than the way to the nearest end point, at most 3.
func (d *draft) setTiers() {
	dist := map[*draftNode]int{}
	var queue []*draftNode
	for _, n := range d.nodes {
		if n.kind != KindSwitch {
			dist[n] = 0
			queue = append(queue, n)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		for _, l := range n.ports {
			for _, e := range l.ends {
				if _, seen := dist[e.node]; !seen {
					dist[e.node] = dist[n] + 1
					queue = append(queue, e.node)
				}
			}
		}
	}
	for _, n := range d.nodes {
		if n.kind == KindSwitch && !n.made {
			n.tier = min(max(dist[n], 1), 3)
		}
	}
	slices.SortStableFunc(d.nodes, func(a, b *draftNode) int { return b.tier - a.tier })
}
