package topology

import (
	"fmt"
	"strconv"
)

// Bounds of one lab. A port number beyond maxPorts could not be told apart in addresses; maxNodes bounds what an
// error in a size can cost.
const (
	maxPorts = 64
	maxNodes = 4096
)

// fabricSize is a number that fabric takes.
type fabricSize struct {
	key      string
	doc      string
	of       func(*Fabric) *int
	min, max int
	def      int // 0: must be given
}

var fabricSizes = []fabricSize{
	{"spines", "Number of spines, each joined to every leaf.", func(f *Fabric) *int { return &f.Spines }, 1, maxPorts, 0},
	{"leaves", "Number of leaves.", func(f *Fabric) *int { return &f.Leaves }, 1, maxPorts, 0},
	{"hostsPerLeaf", "End points at each leaf.", func(f *Fabric) *int { return &f.HostsPerLeaf }, 1, maxPorts - 1, defaultHostsPerLeaf},
	{"uplinks", "Parallel links between each leaf and each spine.", func(f *Fabric) *int { return &f.Uplinks }, 1, maxPorts - 1, 1},
	{"k", "Ports of every switch; an even number. There are k pods and k³/4 end points.", func(f *Fabric) *int { return &f.K }, 2, 22, 0},
	{"hosts", "End points: of the whole star, or on each side of the dumbbell.", func(f *Fabric) *int { return &f.Hosts }, 1, maxPorts, 0},
}

// fabricRule says which sizes a kind of fabric takes and how it is laid out.
type fabricRule struct {
	kind FabricKind
	doc  string
	keys []string
	lay  func(*draft, Fabric)
}

// fabricRules is a function, not a variable, because laying out refers to the draft that refers to the rules.
func fabricRules() []fabricRule {
	return []fabricRule{
		{LeafSpine, "two tiers, every leaf joined to every spine", []string{"spines", "leaves", "hostsPerLeaf", "uplinks"}, layLeafSpine},
		{FatTree, "three tiers of k-port switches", []string{"k"}, layFatTree},
		{Dumbbell, "two leaves joined by one link", []string{"hosts"}, layDumbbell},
		{Star, "end points around one leaf", []string{"hosts"}, layStar},
		{Pair, "two end points on one wire", nil, layPair},
	}
}

func ruleOf(kind FabricKind) (fabricRule, bool) {
	for _, r := range fabricRules() {
		if r.kind == kind {
			return r, true
		}
	}
	return fabricRule{}, false
}

func sizeOf(key string) fabricSize {
	for _, s := range fabricSizes {
		if s.key == key {
			return s
		}
	}
	panic("topology: no fabric size " + key)
}

// layFabric checks the sizes and, when they hold, puts the fabric's nodes and links into the draft.
func (d *draft) layFabric() bool {
	f := d.spec.Fabric
	if f == nil {
		return true
	}
	rule, ok := ruleOf(f.Kind)
	if !ok {
		d.problem(d.spec.at(&f.Kind), "fabric.kind", string(f.Kind), "no such fabric", didYouMean(string(f.Kind), fabricKindNames()))
		return false
	}
	sized := *f
	good := true
	for _, key := range rule.keys {
		size := sizeOf(key)
		n := size.of(&sized)
		if *n == 0 && size.def != 0 {
			*n = size.def
		}
		if *n < size.min || *n > size.max {
			d.problem(d.spec.at(size.of(f)), "fabric."+key, fmt.Sprint(*n), "out of range", fmt.Sprintf("%s takes %d to %d", f.Kind, size.min, size.max))
			good = false
		}
	}
	if f.Kind == FatTree && f.K%2 != 0 {
		d.problem(d.spec.at(&f.K), "fabric.k", fmt.Sprint(f.K), "odd; half of a switch's ports go down and half up", fmt.Sprintf("write %d or %d", f.K-1, f.K+1))
		good = false
	}
	if good {
		rule.lay(d, sized)
	}
	return good
}

func fabricKindNames() []string {
	var names []string
	for _, r := range fabricRules() {
		names = append(names, string(r.kind))
	}
	return names
}

func layLeafSpine(d *draft, f Fabric) {
	spines := d.series("spine", f.Spines, KindSwitch, 2)
	leaves := d.series("leaf", f.Leaves, KindSwitch, 1)
	hosts := d.series("host", f.Leaves*f.HostsPerLeaf, KindFEP, 0)
	d.attach(hosts, leaves, f.HostsPerLeaf)
	for _, leaf := range leaves {
		for _, spine := range spines {
			for range f.Uplinks {
				d.join(leaf, spine)
			}
		}
	}
}

// layFatTree lays k pods of k/2 edges and k/2 aggs; agg j of every pod is joined to the cores of group j.
func layFatTree(d *draft, f Fabric) {
	half := f.K / 2
	cores := d.series("core", half*half, KindSwitch, 3)
	aggs := d.series("agg", f.K*half, KindSwitch, 2)
	edges := d.series("edge", f.K*half, KindSwitch, 1)
	hosts := d.series("host", f.K*half*half, KindFEP, 0)
	d.attach(hosts, edges, half)
	for pod := range f.K {
		for _, edge := range edges[pod*half : (pod+1)*half] {
			for _, agg := range aggs[pod*half : (pod+1)*half] {
				d.join(edge, agg)
			}
		}
	}
	for i, agg := range aggs {
		group := i % half
		for _, core := range cores[group*half : (group+1)*half] {
			d.join(agg, core)
		}
	}
}

func layDumbbell(d *draft, f Fabric) {
	leaves := d.series("leaf", 2, KindSwitch, 1)
	d.attach(d.series("host", 2*f.Hosts, KindFEP, 0), leaves, f.Hosts)
	d.join(leaves[0], leaves[1])
}

func layStar(d *draft, f Fabric) {
	leaves := d.series("leaf", 1, KindSwitch, 1)
	d.attach(d.series("host", f.Hosts, KindFEP, 0), leaves, f.Hosts)
}

func layPair(d *draft, _ Fabric) {
	hosts := d.series("host", 2, KindFEP, 0)
	d.join(hosts[0], hosts[1])
}

// series adds base0, base1, …
func (d *draft) series(base string, n int, kind Kind, tier int) []*draftNode {
	nodes := make([]*draftNode, n)
	for i := range nodes {
		nodes[i] = &draftNode{name: fmt.Sprintf("%s%d", base, i), kind: kind, tier: tier, made: true, at: d.spec.at(&d.spec.Fabric)}
		d.add(nodes[i])
	}
	return nodes
}

// attach joins perSwitch end points to each switch, in order.
func (d *draft) attach(hosts, switches []*draftNode, perSwitch int) {
	for i, host := range hosts {
		d.join(host, switches[i/perSwitch])
	}
}

// join adds a link of the fabric on the next port of either side.
func (d *draft) join(a, b *draftNode) {
	l := &draftLink{made: true, at: d.spec.at(&d.spec.Fabric)}
	l.ends[0] = draftEnd{a, a.freePort()}
	l.ends[1] = draftEnd{b, b.freePort()}
	d.link(l)
}

// defText writes the default as a file would; empty where the size must be given.
func (s fabricSize) defText() string {
	if s.def == 0 {
		return ""
	}
	return strconv.Itoa(s.def)
}
