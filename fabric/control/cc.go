package control

import (
	"context"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
)

// fetchCCs asks an end point for all its congestion control contexts. Between two parts of a long list time may go on.
func (d *Daemon) fetchCCs(ctx context.Context, n *node) (*ctl.CCs, error) {
	var all ctl.CCs
	for first := true; first || all.Next > 0; first = false {
		var part ctl.CCs
		if err := d.fetchMessage(ctx, n, ctl.Message{Op: "ccs", From: all.Next}, &part); err != nil {
			return nil, err
		}
		if part.Next <= all.Next {
			part.Next = 0
		}
		all.Algorithm, all.List, all.Next = part.Algorithm, append(all.List, part.List...), part.Next
	}
	return &all, nil
}

// isEndPoint says whether a node is an end point.
func (d *Daemon) isEndPoint(id int) bool { return d.plan.Nodes[id].Kind == topology.KindFEP }

// endPoints are the end point of a name, or all that live where it is empty. what says in an error of what only they have any.
func (d *Daemon) endPoints(name, what string) ([]*node, error) {
	if name == "" {
		return d.living(d.isEndPoint), nil
	}
	p, err := d.plan.Node(name)
	if err != nil {
		return nil, api.Errorf(api.CodeNotFound, "%s: %w", what, err)
	}
	if p.Kind != topology.KindFEP {
		return nil, api.Errorf(api.CodeUsage, "node %s is a %s: only end points have %s", name, p.Kind, what)
	}
	if d.nodes[p.ID].isDead() {
		return nil, api.Errorf(api.CodePartial, "node %s is dead", name).WithHint("`uetlab restart %s` brings it back", name)
	}
	return []*node{d.nodes[p.ID]}, nil
}

// ccs gives the congestion control contexts of one end point, or of all that live.
func (d *Daemon) ccs(ctx context.Context, name string) (*api.CCs, error) {
	nodes, err := d.endPoints(name, "congestion control contexts")
	if err != nil {
		return nil, err
	}
	out := &api.CCs{Algorithms: map[string]string{}, List: []api.CC{}}
	for i, l := range askAll(ctx, d, pdcWait, nodes, d.fetchCCs) {
		if l == nil {
			continue
		}
		out.Algorithms[d.nodes[i].name] = l.Algorithm
		for _, c := range l.List {
			out.List = append(out.List, api.CC{Node: d.nodes[i].name, Peer: d.nameOf(c.PeerAddr), CC: c})
		}
	}
	if name != "" && len(out.Algorithms) == 0 {
		return nil, api.Errorf(api.CodeTimeout, "node %s does not answer", name)
	}
	return out, nil
}
