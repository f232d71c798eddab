package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
)

const (
	// pdcWait bounds how long end points are waited for that are asked for their PDCs.
	pdcWait = 5 * time.Second
	// pdcEvents is how many events about failed PDCs an end point has in a run.
	pdcEvents = 3
)

// fetchPDCs asks an end point for all it knows of its PDCs. Between two parts of a long list time may go on.
func (d *Daemon) fetchPDCs(ctx context.Context, n *node) (*ctl.PDCs, error) {
	var all ctl.PDCs
	for first := true; first || all.Next > 0; first = false {
		var part ctl.PDCs
		if err := d.fetchMessage(ctx, n, ctl.Message{Op: "pdcs", From: all.Next}, &part); err != nil {
			return nil, err
		}
		if first {
			all = part
			continue
		}
		if part.Next <= all.Next {
			part.Next = 0
		}
		all.List, all.Next = append(all.List, part.List...), part.Next
	}
	return &all, nil
}

// fabricPDCs asks all end points at once, by node; nil is one that does not answer.
func (d *Daemon) fabricPDCs(ctx context.Context, wait time.Duration) []*ctl.PDCs {
	return askAll(ctx, d, wait, d.living(d.isEndPoint), d.fetchPDCs)
}

// pdcs gives the PDCs of an end point, with ended also those that have ended of late.
func (d *Daemon) pdcs(ctx context.Context, n *node, ended bool) ([]api.PDC, error) {
	ctx, cancel := context.WithTimeout(ctx, pdcWait)
	defer cancel()
	l, err := d.fetchPDCs(ctx, n)
	if err != nil {
		return nil, err
	}
	return d.namePDCs(nil, n, l, ended), nil
}

// namePDCs appends PDCs of a node, with the names of nodes.
func (d *Daemon) namePDCs(out []api.PDC, n *node, l *ctl.PDCs, ended bool) []api.PDC {
	for _, p := range l.List {
		if ended || !p.Ended {
			out = append(out, api.PDC{Node: n.name, Peer: d.nameOf(p.PeerAddr), PDC: p})
		}
	}
	return out
}

// nameOf gives the node that has a fabric address, or the address.
func (d *Daemon) nameOf(addr string) string {
	if name, ok := d.nodeAt[addr]; ok {
		return name
	}
	return addr
}

// addresses gives the names of nodes by their fabric addresses.
func addresses(plan *topology.Plan) map[string]string {
	m := make(map[string]string, 2*len(plan.Nodes))
	for i := range plan.Nodes {
		p := &plan.Nodes[i]
		m[p.Addr4.String()], m[p.Addr6.String()] = p.Name, p.Name
	}
	return m
}

// listPDCs gives the PDCs of one end point, or of all that live.
func (d *Daemon) listPDCs(ctx context.Context, name string, ended bool) ([]api.PDC, error) {
	out := []api.PDC{}
	if name == "" {
		for i, l := range d.fabricPDCs(ctx, pdcWait) {
			if l != nil {
				out = d.namePDCs(out, d.nodes[i], l, ended)
			}
		}
		return out, nil
	}
	p, err := d.plan.Node(name)
	if err != nil {
		return nil, api.Errorf(api.CodeNotFound, "PDCs: %w", err)
	}
	if p.Kind != topology.KindFEP {
		return nil, api.Errorf(api.CodeUsage, "node %s is a %s: only end points have PDCs", name, p.Kind)
	}
	list, err := d.pdcs(ctx, d.nodes[p.ID], ended)
	return append(out, list...), err
}

// failedPDCs counts the PDCs that have failed, by node.
func (d *Daemon) failedPDCs() []uint64 {
	n := make([]uint64, len(d.nodes))
	for i := range d.nodes {
		n[i] = d.nodes[i].page.FEP[fep.PDCFailed].Load()
	}
	return n
}

// tellPDCs says in events which PDCs have failed since there were so many, as far as end points remember them. Only those
// with failed PDCs are asked.
func (d *Daemon) tellPDCs(ctx context.Context, since vt.Time, before []uint64) {
	select {
	case <-d.down: // nodes end
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pdcWait)
	defer cancel()
	for i, now := range d.failedPDCs() {
		n := d.nodes[i]
		if now <= before[i] || n.isDead() { // fewer: the node is a new one
			continue
		}
		l, err := d.fetchPDCs(ctx, n)
		if err != nil {
			d.log.Warn("ask for failed PDCs", "node", n.name, "err", err)
			continue
		}
		for _, text := range d.failures(l.List, since, now-before[i]) {
			d.event("pdc", n.name, "", text)
		}
	}
}

// failures tells of failed PDCs, total in all, those of one peer and reason together.
func (d *Daemon) failures(list []ctl.PDC, since vt.Time, total uint64) []string {
	var order []string
	count := map[string]uint64{}
	for _, p := range list {
		if p.Error == "" || p.State == pdcExpired || p.EndedNs < int64(since) {
			continue
		}
		what := fmt.Sprintf("%s PDCs with %s failed: %s", p.Mode, d.nameOf(p.PeerAddr), p.Error)
		if count[what] == 0 {
			order = append(order, what)
		}
		count[what]++
	}
	slices.SortStableFunc(order, func(a, b string) int { return int(count[b]) - int(count[a]) })
	var out []string
	told := uint64(0)
	for _, what := range order[:min(len(order), pdcEvents)] {
		n := count[what]
		told += n
		out = append(out, fmt.Sprintf("%d %s", n, oneOrMore(what, n)))
	}
	switch left := max(total, told) - told; {
	case left > 0 && len(out) > 0:
		out[len(out)-1] += fmt.Sprintf("; %d more failed", left)
	case left > 0: // the end point has forgotten them
		out = append(out, oneOrMore(fmt.Sprintf("%d PDCs failed", left), left))
	}
	return out
}

// pdcExpired is the state of a PDC whose end nobody waited for.
const pdcExpired = "expired"

// oneOrMore says PDC for one.
func oneOrMore(what string, n uint64) string {
	if n == 1 {
		return strings.Replace(what, "PDCs", "PDC", 1)
	}
	return what
}
