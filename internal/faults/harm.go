package faults

import (
	"slices"
	"strconv"
	"strings"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
)

// harmSettings are the words for what is done to chosen frames and kinds of frames.
func harmSettings() []setting {
	return []setting{
		{"exact", "exact=901:drop or exact=5:duplicate,10-19:corrupt-payload,1r:corrupt (" + strings.Join(link.DeedNames(), ", ") + "; r: replays)", readExact,
			func(s *Set) { s.Exact = &link.Hits{} }, false},
		{"corrupt", "corrupt=1% or corrupt=1%,llr or corrupt=1%,payload,3bits (payload, header, llr, fcs)", readCorrupt, func(s *Set) { s.Corrupt = &link.Corrupt{} }, false},
		chance("poison", "poison=0.1%", 1, func(s *Set) **float64 { return &s.Poison }),
		{"setloss", "setloss=5% or setloss=100%,nack (" + strings.Join(link.SetKindNames(), ", ") + ")", readSetLoss, func(s *Set) { s.SetLoss = &link.SetLoss{} }, false},
		chance("ccloss", "ccloss=100%", 1, func(s *Set) **float64 { return &s.CCLoss }),
	}
}

func readExact(s *Set, v string) bool {
	s.Exact = new(link.Hits)
	return s.Exact.UnmarshalText([]byte(v)) == nil
}

func readCorrupt(s *Set, v string) bool {
	v, rest, more := strings.Cut(v, ",")
	x, ok := share(v, 0)
	c := &link.Corrupt{Share: x}
	s.Corrupt = c
	for more && ok {
		v, rest, more = strings.Cut(rest, ",")
		if r := link.Region(v); slices.Contains(link.Regions(), r) && c.Region == "" && c.Bits == 0 {
			c.Region = r
			continue
		}
		number, is := strings.CutSuffix(strings.TrimSuffix(v, "s"), "bit")
		n, err := strconv.Atoi(number)
		ok = is && err == nil && n >= 1 && n <= 32 && c.Bits == 0
		c.Bits = n
	}
	if c.Share == 0 {
		*c = link.Corrupt{}
	}
	return ok
}

func readSetLoss(s *Set, v string) bool {
	v, kinds, has := strings.Cut(v, ",")
	x, ok := share(v, 0)
	s.SetLoss = &link.SetLoss{Share: x}
	if has {
		ok = ok && kinds != "" && s.SetLoss.Kinds.UnmarshalText([]byte(kinds)) == nil
	}
	if x == 0 {
		*s.SetLoss = link.SetLoss{}
	}
	return ok
}

// harmText writes what is done to chosen frames as the words that ParseSettings reads.
func harmText(i *link.Impair) (out []string) {
	if exact, _ := i.Exact.MarshalText(); len(exact) > 0 {
		out = append(out, "exact="+string(exact))
	}
	if c := &i.Corrupt; c.Share > 0 {
		w := "corrupt=" + percent(c.Share)
		if c.Region != "" {
			w += "," + string(c.Region)
		}
		if c.Bits > 1 {
			w += "," + strconv.Itoa(c.Bits) + "bits"
		}
		out = append(out, w)
	}
	if i.Poison > 0 {
		out = append(out, "poison="+percent(i.Poison))
	}
	if l := &i.SetLoss; l.Share > 0 {
		w := "setloss=" + percent(l.Share)
		if kinds, _ := l.Kinds.MarshalText(); len(kinds) > 0 {
			w += "," + string(kinds)
		}
		out = append(out, w)
	}
	if i.CCLoss > 0 {
		out = append(out, "ccloss="+percent(i.CCLoss))
	}
	return out
}

// harmOff names what of this is ended.
func (s *Set) harmOff() (names []string) {
	for _, x := range []struct {
		off  bool
		name string
	}{{s.Exact != nil && *s.Exact == link.Hits{}, "exact"}, {s.Corrupt != nil && s.Corrupt.Share == 0, "corrupt"}, {s.Poison != nil && *s.Poison == 0, "poison"},
		{s.SetLoss != nil && s.SetLoss.Share == 0, "setloss"}, {s.CCLoss != nil && *s.CCLoss == 0, "ccloss"}} {
		if x.off {
			names = append(names, x.name+"=off")
		}
	}
	return names
}

// putHarm gives the impairments of this kind that follow.
func (s *Set) putHarm(imp *link.Impair) {
	put(&imp.Exact, s.Exact)
	put(&imp.Corrupt, s.Corrupt)
	put(&imp.Poison, s.Poison)
	put(&imp.SetLoss, s.SetLoss)
	put(&imp.CCLoss, s.CCLoss)
}

// checkTrailer refuses what hits the link trailer, where a plain host at the link's end knows of none.
func (s *Set) checkTrailer(plan *topology.Plan, l *topology.Link) error {
	what := ""
	switch {
	case s.Poison != nil && *s.Poison > 0:
		what = "poison"
	case s.Corrupt != nil && (s.Corrupt.Region == link.RegionLLR || s.Corrupt.Region == link.RegionFCS):
		what = "corrupt=…," + string(s.Corrupt.Region)
	case s.Exact != nil:
		for _, x := range s.Exact {
			if x.First > 0 && (x.Do == link.DoPoison || x.Do == link.DoCorruptLLR || x.Do == link.DoCorruptFCS) {
				what = "exact=…:" + link.DeedNames()[x.Do]
			}
		}
	}
	if what == "" {
		return nil
	}
	for _, e := range []topology.End{l.A, l.B} {
		if n := &plan.Nodes[e.Node]; n.Kind == topology.KindHost {
			return problem("use corrupt=…,payload or loss", "%s: %s at link %s is a plain host, to which frames go without preamble and FCS", what, n.Name, l.Name)
		}
	}
	return nil
}
