package control

import (
	"net/http"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
)

// What is told of a direction of a link is known at both its ends: what was sent at one, what has come of it at the other.

// linksOf gives the links that a request means, by its parameters `link`: all where it has none.
func (d *Daemon) linksOf(r *http.Request) ([]int, error) {
	ids, err := d.plan.FindLinks(r.URL.Query()["link"])
	if err != nil {
		return nil, api.Errorf(api.CodeNotFound, "%w", err)
	}
	return ids, nil
}

// livingAt are the living nodes that links come to, plain hosts left out. Cables may be miswired.
func (d *Daemon) livingAt(links []int) []*node {
	at := map[int]bool{}
	eachDirection(d.plan, links, func(_ *topology.Link, from, to topology.End) { at[from.Node], at[to.Node] = true, true })
	return d.living(func(id int) bool { return at[id] && d.takesPart(id) })
}

// eachDirection calls do for both directions of links; where a cable is miswired to is where it leads.
func eachDirection(plan *topology.Plan, links []int, do func(l *topology.Link, from, to topology.End)) {
	for _, id := range links {
		l := &plan.Links[id]
		for _, from := range []topology.End{l.A, l.B} {
			do(l, from, plan.Nodes[from.Node].Ports[from.Port].Far())
		}
	}
}

// apiEnd names an end of a link.
func apiEnd(plan *topology.Plan, e topology.End) api.End {
	n := &plan.Nodes[e.Node]
	return api.End{Node: n.Name, Port: n.Ports[e.Port].Name}
}

// linkNames names the links at a node's ports, by name of the port.
func (d *Daemon) linkNames(node int) map[string]string {
	names := map[string]string{}
	for _, q := range d.plan.Nodes[node].Ports {
		names[q.Name] = d.plan.Links[q.Link].Name
	}
	return names
}
