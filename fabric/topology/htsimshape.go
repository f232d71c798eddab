package topology

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
)

// htsimShape is a file's graph in numbers.
type htsimShape struct {
	hosts, perEdge      int
	pods                int
	edges, aggs         int // of a pod; with two tiers, of the one pod
	coresPerAgg         int // 0: two tiers
	bundle, bundle2     int // parallel links between an edge and an agg, an agg and a core
	rd0, ru0, rd1, ru1  int // radix down and up
	rd2                 int
	twoTiers, wholeTree bool
}

// divide gives a/b, and a problem where that leaves something.
func (h *htsimFile) divide(at htsimValue, what string, a, b int, why string) int {
	if a%b != 0 {
		h.problem(at.at, what, strconv.FormatInt(at.n, 10), fmt.Sprintf("%s: %d is no multiple of %d", why, a, b), "make one a multiple of the other")
	}
	return a / b
}

// equal is a problem where a number is not what the others make it.
func (h *htsimFile) equal(tier int, key string, want int, why string) {
	v := h.tiers[tier][key]
	if int(v.n) != want {
		h.problem(v.at, key, fmt.Sprint(v.n), why, fmt.Sprintf("write %d", want))
	}
}

// shape works the numbers out as htsim does: hosts fill edges, edges fill pods, every edge reaches every agg of
// its pod, and every core every pod.
func (h *htsimFile) shape() (s htsimShape) {
	s.twoTiers = h.header["Tiers"].n == 2
	s.hosts = int(h.header["Nodes"].n)
	podsize := h.header["Podsize"]
	if s.twoTiers && int(podsize.n) != s.hosts {
		h.problem(podsize.at, "Podsize", fmt.Sprint(podsize.n), "two tiers make one pod", fmt.Sprintf("write %d", s.hosts))
		return s
	}
	s.pods = h.divide(podsize, "Podsize", s.hosts, int(podsize.n), "hosts fill whole pods")
	s.rd0, s.ru0, s.rd1 = h.count(0, "Radix_Down"), h.count(0, "Radix_Up"), h.count(1, "Radix_Down")
	s.bundle, s.bundle2 = h.count(1, "Bundle"), 1
	s.perEdge = s.rd0
	s.edges = h.divide(h.tiers[0]["Radix_Down"], "Radix_Down", int(podsize.n), s.rd0, "hosts fill whole switches")
	s.aggs = h.divide(h.tiers[0]["Radix_Up"], "Radix_Up", s.ru0, s.bundle, "links upwards go in bundles")
	h.equal(1, "Radix_Down", s.edges*s.bundle, fmt.Sprintf("below it are %d switches with %d links each", s.edges, s.bundle))
	h.oversubscribed(0)
	if !s.twoTiers {
		s.ru1, s.rd2, s.bundle2 = h.count(1, "Radix_Up"), h.count(2, "Radix_Down"), h.count(2, "Bundle")
		s.coresPerAgg = h.divide(h.tiers[1]["Radix_Up"], "Radix_Up", s.ru1, s.bundle2, "links upwards go in bundles")
		h.equal(2, "Radix_Down", s.pods*s.bundle2, fmt.Sprintf("a core reaches each of the %d pods by %d links", s.pods, s.bundle2))
		h.oversubscribed(1)
		s.wholeTree = s.rd0 == s.ru0 && s.rd0 == s.rd1 && s.rd0 == s.ru1 && s.rd2 == 2*s.rd0 && s.bundle*s.bundle2 == 1
	}
	return s
}

// oversubscribed compares what is said with what the radixes and speeds make it, within a thousandth: speeds may be rounded.
func (h *htsimFile) oversubscribed(tier int) {
	v, said := h.tiers[tier]["Oversubscribed"]
	down := float64(h.count(tier, "Radix_Down")) * float64(h.link(tier).Rate)
	up := float64(h.count(tier, "Radix_Up")) * float64(h.link(tier+1).Rate)
	if said && math.Abs(down/up/float64(v.n)-1) > 1e-3 {
		h.problem(v.at, "Oversubscribed", fmt.Sprint(v.n), fmt.Sprintf("radix and speed make it %.6g", down/up), "change Radix_Up or a speed, or leave the line out")
	}
}

// spec makes the Spec, of a fabric where that is the same thing. The number of problems says whether it is one.
func (h *htsimFile) spec() *Spec {
	shape := h.shape()
	if n := shape.pods*(shape.edges+shape.aggs) + shape.aggs*shape.coresPerAgg + shape.hosts; n > maxNodes {
		h.problem(h.header["Nodes"].at, "Nodes", fmt.Sprint(shape.hosts), fmt.Sprintf("makes %d nodes with the switches, at most %d are possible", n, maxNodes), "take fewer")
	}
	if len(h.problems) > 0 {
		return nil
	}
	s := &Spec{File: h.name, Name: htsimName(h.name), Description: h.about}
	switch {
	case shape.twoTiers:
		s.Fabric = &Fabric{Kind: LeafSpine, Spines: shape.aggs, Leaves: shape.edges, HostsPerLeaf: shape.perEdge, Uplinks: shape.bundle}
		h.params(s, "leaf*", "spine*")
	case shape.wholeTree:
		s.Fabric = &Fabric{Kind: FatTree, K: 2 * shape.rd0}
		h.params(s, "edge*", "agg*", "core*")
	default:
		h.explicit(s, shape)
	}
	return s
}

// params says the links' and switches' parameters of a fabric, each tier by its pattern where they differ.
func (h *htsimFile) params(s *Spec, tiers ...string) {
	s.Defaults.Link, s.Defaults.Switch = h.link(0), h.switches(0)
	for i := 1; i < len(tiers); i++ {
		if p := h.link(i); p != s.Defaults.Link {
			s.Links = append(s.Links, &LinkSpec{Endpoints: [2]string{tiers[i-1], tiers[i]}, LinkParams: p})
		}
		p := h.switches(i)
		if *p.Latency == *s.Defaults.Switch.Latency && p.Buffer == s.Defaults.Switch.Buffer {
			continue
		}
		if p.Buffer == (Size{}) {
			p.Buffer = Size{Auto: true}
		}
		s.Nodes = append(s.Nodes, &NodeSpec{Name: tiers[i], SwitchParams: p})
	}
}

// explicit lays three tiers that are no k-ary fat tree, node by node.
func (h *htsimFile) explicit(s *Spec, g htsimShape) {
	name := func(base string, i int) string { return base + strconv.Itoa(i) }
	add := func(base string, n, tier int) {
		for i := range n {
			node := &NodeSpec{Name: name(base, i), Kind: KindFEP}
			if tier > 0 {
				node.Kind, node.SwitchParams = KindSwitch, h.switches(tier-1)
			}
			s.Nodes = append(s.Nodes, node)
		}
	}
	join := func(times, tier int, a, b string) {
		for range times {
			s.Links = append(s.Links, &LinkSpec{Endpoints: [2]string{a, b}, LinkParams: h.link(tier)})
		}
	}
	add("core", g.aggs*g.coresPerAgg, 3)
	add("agg", g.pods*g.aggs, 2)
	add("edge", g.pods*g.edges, 1)
	add("host", g.hosts, 0)
	for i := range g.hosts {
		join(1, 0, name("host", i), name("edge", i/g.perEdge))
	}
	for e := range g.pods * g.edges {
		for a := range g.aggs {
			join(g.bundle, 1, name("edge", e), name("agg", e/g.edges*g.aggs+a))
		}
	}
	for a := range g.pods * g.aggs {
		for c := range g.coresPerAgg {
			join(g.bundle2, 2, name("agg", a), name("core", a%g.aggs*g.coresPerAgg+c))
		}
	}
}

// htsimName makes a lab name of a file name.
func htsimName(file string) string {
	base := strings.TrimSuffix(path.Base(file), path.Ext(file))
	var b strings.Builder
	for _, r := range strings.ToLower(base) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			r = '-'
		}
		b.WriteRune(r)
	}
	const most = 31
	n := strings.Trim(b.String(), "-")
	n = strings.TrimRight(n[:min(len(n), most)], "-")
	if n == "" {
		return "htsim"
	}
	return n
}
