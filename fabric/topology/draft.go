package topology

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// draft is a topology on its way from Spec to Plan: names and pointers, not yet ids and addresses.
type draft struct {
	spec     *Spec
	nodes    []*draftNode
	byName   map[string]*draftNode
	links    []*draftLink
	problems Problems
}

type draftNode struct {
	name string
	kind Kind
	tier int
	made bool // by the fabric
	at   position
	sw   SwitchParams
	seed *uint64
	fep  FEPParams
	host HostParams

	ports map[int]*draftLink // by number, from 1
	next  int                // no port below it is free
	id    int
}

type draftEnd struct {
	node *draftNode
	port int // number from 1; 0 while not chosen
}

type draftLink struct {
	ends   [2]draftEnd
	params LinkParams
	made   bool // by the fabric
	at     position
	mtuAt  position // of what set the mtu
	cbfcAt position // of what asks for credits
}

func (d *draft) problem(at position, what, value, why, hint string) {
	if at == (position{}) && d.spec.where != nil {
		at = position{Line: 1, Col: 1} // what is missing stands nowhere
	}
	d.problems = append(d.problems, Problem{
		File: d.spec.File, Line: at.Line, Col: at.Col, Msg: about(what, value) + ": " + why, Hint: hint, meaning: true,
	})
}

// freePort finds the lowest port number without a link.
func (n *draftNode) freePort() int {
	for n.next = max(n.next, 1); n.ports[n.next] != nil; n.next++ {
	}
	return n.next
}

func (d *draft) add(n *draftNode) {
	n.ports = map[int]*draftLink{}
	d.nodes = append(d.nodes, n)
	d.byName[n.name] = n
}

// link enters a link, and its ports so far as they are chosen.
func (d *draft) link(l *draftLink) {
	d.links = append(d.links, l)
	for _, e := range l.ends {
		if e.port > 0 {
			e.node.ports[e.port] = l
		}
	}
}

// newDraft lays the fabric, then the file's own nodes and links over it, and checks what came out. When the
// fabric itself does not hold, nothing after it is looked at: every name would be unknown.
func newDraft(s *Spec) *draft {
	d := &draft{spec: s, byName: map[string]*draftNode{}}
	if !d.layFabric() {
		return d
	}
	d.checkDSCP()
	d.checkHashes()
	d.applyNodes()
	for _, l := range d.links {
		l.params, l.mtuAt, l.cbfcAt = s.Defaults.Link, s.at(&s.Defaults.Link.MTU), s.whereCBFC(&s.Defaults.Link)
	}
	before := len(d.problems)
	for _, l := range s.Links {
		d.applyLink(l)
	}
	if !s.entryBroken && len(d.problems) == before { // else links are missing, and nodes seem cut off
		d.choosePorts()
		d.check()
	}
	return d
}

var (
	labName  = lazily(`^[a-z0-9][a-z0-9-]{0,30}$`)
	nodeName = lazily(`^[a-z][a-z0-9]{0,31}$`)
)

func isGlob(name string) bool { return strings.ContainsAny(name, "*?[") }

// applyNodes lets globs speak first and exact names last, each group in file order, so that the more exact wins.
func (d *draft) applyNodes() {
	for _, n := range d.spec.Nodes {
		if !isGlob(n.Name) && d.byName[n.Name] == nil {
			d.addNode(n)
		}
	}
	for _, n := range d.nodes {
		n.sw, n.fep, n.host = laid(d.spec.Defaults.Switch.explicit(), d.spec.Defaults.FEP.fabric(d.spec.DSCP.plan())), d.spec.Defaults.FEP, d.spec.Defaults.Host
	}
	seen := map[string]bool{}
	for _, globs := range []bool{true, false} {
		for _, n := range d.spec.Nodes {
			if isGlob(n.Name) != globs {
				continue
			}
			if seen[n.Name] {
				d.problem(d.spec.at(&n.Name), "node", n.Name, "named twice", "put both sets of keys under one name")
			}
			seen[n.Name] = true
			d.changeNodes(n)
		}
	}
}

func (d *draft) addNode(n *NodeSpec) {
	at := d.spec.at(&n.Name)
	switch {
	case !nodeName.MatchString(n.Name):
		d.problem(at, "node", n.Name, "not a node name", "a small letter, then at most 31 small letters and digits, e.g. leaf0")
	case n.Kind == "" && n.broken:
		d.add(&draftNode{name: n.Name, kind: KindSwitch, at: at}) // so that its links find it
	case n.Kind == "":
		d.problem(at, "node", n.Name, "no such node in the fabric, and without kind it is not a new one", didYouMean(n.Name, d.names()))
	default:
		d.add(&draftNode{name: n.Name, kind: n.Kind, at: at})
	}
}

// changeNodes lays one entry of nodes over every node that it names.
func (d *draft) changeNodes(n *NodeSpec) {
	if n.broken {
		return
	}
	at := d.spec.at(&n.Name)
	if _, err := path.Match(n.Name, ""); err != nil {
		d.problem(at, "node", n.Name, "a bracket of the pattern is not closed", "e.g. leaf[0-3]")
		return
	}
	nodes := d.nodes
	if !isGlob(n.Name) {
		nodes = nil
		if node := d.byName[n.Name]; node != nil {
			nodes = []*draftNode{node}
		}
	}
	matched := 0
	for _, node := range nodes {
		if ok, _ := path.Match(n.Name, node.name); !ok {
			continue
		}
		matched++
		if !d.changeNode(node, n) {
			return
		}
	}
	if matched == 0 && isGlob(n.Name) {
		d.problem(at, "node", n.Name, "no node has such a name", "nodes are "+strings.Join(abridge(d.names()), ", "))
	}
}

// changeNode reports whether the entry suits the node.
func (d *draft) changeNode(node *draftNode, n *NodeSpec) bool {
	if n.Kind != "" && n.Kind != node.kind {
		if (n.Kind == KindSwitch) != (node.kind == KindSwitch) {
			d.problem(d.spec.at(&n.Kind), n.Name+".kind", string(n.Kind), fmt.Sprintf("%s is a %s of the fabric and cannot become a %s", node.name, node.kind, n.Kind), "a fep may become a host and the other way round")
			return false
		}
		node.kind = n.Kind
	}
	for _, of := range []struct {
		kind Kind
		keys []field
	}{
		{KindSwitch, append(n.SwitchParams.fields(), field{key: "seed", to: seed{&n.Seed}})},
		{KindFEP, n.FEPParams.fields()},
		{KindHost, n.HostParams.fields()},
	} {
		if of.kind == node.kind {
			continue
		}
		for _, k := range of.keys {
			if _, set := k.to.print(); set {
				d.problem(d.spec.at(k.to.pointer()), n.Name+"."+k.key, "", fmt.Sprintf("belongs to a %s, and %s is a %s", of.kind, node.name, node.kind), "leave it out, or name only nodes of that kind")
				return false
			}
		}
	}
	switch node.kind {
	case KindSwitch:
		node.sw = laid(n.SwitchParams.explicit(), node.sw)
	case KindFEP:
		node.fep = laid(n.FEPParams, node.fep)
	case KindHost:
		node.host = laid(n.HostParams, node.host)
	}
	if n.Seed != nil {
		node.seed = n.Seed
	}
	return true
}

func (d *draft) names() []string {
	names := make([]string, len(d.nodes))
	for i, n := range d.nodes {
		names[i] = n.name
	}
	return names
}

// abridge keeps a list of names readable.
func abridge(names []string) []string {
	const most = 12
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), "…")
}

// splitEndpoint takes "leaf0:eth3" apart; port 0 when none is named, -1 when what is named is no port.
func splitEndpoint(s string) (name string, port int) {
	name, eth, found := strings.Cut(s, ":")
	if !found {
		return name, 0
	}
	digits, ok := strings.CutPrefix(eth, "eth")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > maxPorts || digits != strconv.Itoa(n) {
		return name, -1
	}
	return name, n
}

// matches reports whether the end is the one that name and port speak of.
func (e draftEnd) matches(name string, port int) bool {
	ok, _ := path.Match(name, e.node.name)
	return ok && (port == 0 || port == e.port)
}
