// Package wiring joins the network namespaces of a lab's nodes by veth pairs as the cables of a topology.Plan go, in batches of
// rtnetlink messages. Both ends are made in their nodes' namespaces under their final names, so nothing of a lab
// ever shows in the caller's. Ports are left down: a node brings its own up once it can receive, so that a port with
// carrier is one that loses nothing. The package needs CAP_NET_ADMIN over the namespaces and enters none of them, except
// to remove what a dead node left at its neighbours. It sets no addresses and no routes.
package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime/namespace"
	"github.com/uetlab/uetlab/fabric/topology"
)

// trailerRoom is what a frame may carry beyond its IP packet: 24 bytes of link trailer and 4 of a VLAN tag.
const trailerRoom = 24 + 4

// reported is how many failed links an error names.
const reported = 8

// DeviceMTU is the MTU of a node's veth end in bytes: that of the plan for plain hosts, whose kernel sizes its packets by
// it, and room for the link trailer on top for nodes that write whole frames.
func DeviceMTU(kind topology.Kind, mtu int) int {
	if kind == topology.KindHost {
		return mtu
	}
	return mtu + trailerRoom
}

// Wire makes all links of the plan. ns[i] is the network namespace of node i. On an error some links may exist; they
// go with the namespaces. The error names the links that failed.
func Wire(ctx context.Context, plan *topology.Plan, ns []*os.File) error {
	pairs := make([]pair, 0, len(plan.Links))
	for i := range plan.Links {
		l := &plan.Links[i]
		far := plan.Nodes[l.A.Node].Ports[l.A.Port].Far()
		for _, end := range []topology.End{l.A, far} {
			if end.Node >= len(ns) || ns[end.Node] == nil {
				return fmt.Errorf("link %s: no network namespace of node %s", l.Name, plan.Nodes[end.Node].Name)
			}
		}
		pairs = append(pairs, makePair(plan, l, l.A, far, ns))
	}
	return create(ctx, pairs)
}

// WireNode makes the links of one node anew after it was restarted in a new network namespace, ns[node]. Its old links
// vanish with its old namespace, but not at once: ends that linger at its neighbours are deleted. Neighbours
// whose namespace is nil are left out, and get their links when they are wired themselves. The neighbours' new ends have
// new interface indices and are down, as at first: those nodes must bring them up again.
func WireNode(ctx context.Context, plan *topology.Plan, ns []*os.File, node int) error {
	if node >= len(ns) || ns[node] == nil {
		return fmt.Errorf("wire node %s: no network namespace of it", plan.Nodes[node].Name)
	}
	var pairs []pair
	for i := range plan.Nodes[node].Ports {
		port := &plan.Nodes[node].Ports[i]
		far := port.Far()
		if far.Node >= len(ns) || ns[far.Node] == nil {
			continue
		}
		l, peer := &plan.Links[port.Link], plan.Nodes[far.Node].Ports[far.Port].Name
		if err := remove(ns[far.Node], peer); err != nil {
			return fmt.Errorf("link %s: remove the old %s of %s: %w", l.Name, peer, plan.Nodes[far.Node].Name, err)
		}
		pairs = append(pairs, makePair(plan, l, topology.End{Node: node, Port: i}, far, ns))
	}
	return create(ctx, pairs)
}

// remove deletes a link in a namespace, from a socket opened there. A link that is not there is no error, nor is a
// right that is missing to enter: the kernel removes the link by itself in a moment.
func remove(ns *os.File, name string) error {
	err := namespace.InNet(ns, func() error {
		c, err := dial()
		if err != nil {
			return err
		}
		defer c.close()
		return c.do([]message{deleteMessage(name)})[0]
	})
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// create sends the pairs in batches and retries what fails for a passing reason.
func create(ctx context.Context, pairs []pair) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	var failed []error
	for len(pairs) > 0 {
		n := min(len(pairs), batchSize)
		failed = append(failed, c.createBatch(ctx, pairs[:n])...)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wire links: %w", err)
		}
		pairs = pairs[n:]
	}
	if more := len(failed) - reported; more > 0 {
		failed = append(failed[:reported], fmt.Errorf("and %d more links", more))
	}
	return errors.Join(failed...)
}

// createBatch makes up to batchSize pairs and returns an error for each that could not be made.
func (c *conn) createBatch(ctx context.Context, pairs []pair) (failed []error) {
	last := make([]error, len(pairs))
	unsure := make([]bool, len(pairs)) // the answer to an earlier attempt was lost
	todo := make([]int, len(pairs))
	for i := range todo {
		todo[i] = i
	}
	for attempt := 0; len(todo) > 0; attempt++ {
		msgs := make([]message, len(todo))
		for i, p := range todo {
			msgs[i] = pairs[p].message()
		}
		var again []int
		for i, err := range c.do(msgs) {
			p := todo[i]
			if unsure[p] && errors.Is(err, unix.EEXIST) {
				err = nil
			}
			last[p] = err
			if transient(err) {
				unsure[p] = unsure[p] || errors.Is(err, errNoAnswer)
				again = append(again, p)
			}
		}
		todo = again
		if len(todo) > 0 && !pause(ctx, attempt) {
			break
		}
	}
	for i, err := range last {
		if err != nil {
			failed = append(failed, fmt.Errorf("link %s: create veth: %w%s", pairs[i].name, err, hint(err)))
		}
	}
	return failed
}

func hint(err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return " (CAP_NET_ADMIN is needed over both namespaces)"
	case errors.Is(err, unix.EOPNOTSUPP):
		return " (does the kernel have the veth module?)"
	case errors.Is(err, unix.EBADF), errors.Is(err, unix.EINVAL):
		return " (has the node ended?)"
	}
	return ""
}
