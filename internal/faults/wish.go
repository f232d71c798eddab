package faults

import (
	"slices"
	"strconv"
	"strings"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
)

// begin sets what the ends of a link want at first.
func (l *Link) begin(p *topology.Link) {
	if !p.Negotiated {
		return
	}
	l.Wish = p.Wishes
	l.sum()
}

func (l *Link) sum() {
	l.LLR, l.CBFC = l.Wish[0].LLR || l.Wish[1].LLR, l.Wish[0].CBFC || l.Wish[1].CBFC
}

// Want takes what a change says of LLR and CBFC: of both ends at once, or, where they negotiate, of what each wants.
func (l *Link) Want(p *topology.Link, f *Fault) {
	if !p.Negotiated {
		put(&l.LLR, f.Set.LLR)
		put(&l.CBFC, f.Set.CBFC)
		return
	}
	for i, e := range []topology.End{p.A, p.B} {
		if f.From == Both || f.From == e.Node {
			put(&l.Wish[i].LLR, f.Set.LLR)
			put(&l.Wish[i].CBFC, f.Set.CBFC)
			put(&l.Wish[i].Limit, f.Set.Limit)
		}
	}
	l.sum()
}

// Retries says whether a link has link layer retry, or may agree on it: both ends want it.
func (l *Link) Retries(p *topology.Link) bool {
	if !p.Negotiated {
		return l.LLR
	}
	return l.Wish[0].LLR && l.Wish[1].LLR
}

// wishes tells both ends of a negotiated link what they want: the one that wants something else, and the other since frames may come sooner then.
func (e *emission) wishes(ops []op, id int, before *Link, anew bool) {
	p, now := &e.s.plan.Links[id], &e.links[id]
	told := func(o op) bool {
		return o.Link == id && (o.Set.LLR != nil || o.Set.CBFC != nil || o.Set.Limit != nil)
	}
	if now.Wish == before.Wish && !(anew && slices.ContainsFunc(ops, told)) {
		return
	}
	for i, end := range []topology.End{p.A, p.B} {
		e.tell(end.Node, ctl.Change{At: ops[0].At, Port: end.Port, Wish: &ctl.Wish{Wish: now.Wish[i], Retry: e.s.plan.Retry(id)}})
	}
}

var sizeUnits = []struct {
	name string
	size int64
}{{"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// readLimit reads limit:64KiB.
func readLimit(s *Set, v string) bool {
	text, ok := strings.CutPrefix(v, "limit:")
	if !ok {
		return false
	}
	for _, u := range sizeUnits {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			n, err := strconv.ParseInt(number, 10, 32)
			n *= u.size
			s.Limit = &n
			return err == nil && n > 0
		}
	}
	return false
}

func sizeText(n int64) string {
	for _, u := range sizeUnits {
		if n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return ""
}
