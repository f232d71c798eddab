package faults

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
)

// Link is what is wrong with both directions of a link.
type Link struct {
	AB    link.Impair      `json:"ab"`
	BA    link.Impair      `json:"ba"`
	Since vt.Time          `json:"sinceNs"`       // when the last change took effect
	LLR   bool             `json:"llr"`           // link layer retry is on
	CBFC  bool             `json:"cbfc"`          // credits are on, or will be with the next run; off: there are none, but what waits drains
	Wish  [2]topology.Wish `json:"wish,omitzero"` // of a negotiated link: of A and B; LLR and CBFC say whether one of them wants it
}

// Healthy says whether nothing is wrong.
func (l *Link) Healthy() bool { return l.AB == link.Impair{} && l.BA == link.Impair{} }

// Down says whether routes must lead around the link.
func (l *Link) Down() bool { return l.AB.Down || l.BA.Down }

func (l *Link) apply(plan *topology.Plan, f *Fault) {
	if f.Op == undone {
		return
	}
	p := &plan.Links[f.Link]
	if f.From == Both || f.From == p.A.Node {
		l.AB = f.over(l.AB, p.Rate)
	}
	if f.From == Both || f.From == p.B.Node {
		l.BA = f.over(l.BA, p.Rate)
	}
	if f.Op == Change {
		l.Want(p, f)
	}
	l.Since = f.At
}

// State is what is wrong with the links of a fabric and what is going to be. Changes take place in the order of their
// times, whatever the order in which they are scheduled. It is not for concurrent use.
type State struct {
	plan    *topology.Plan
	settled []Link // all that was done up to some time …
	pending []op   // … and what follows, in order
	batches uint64
	memo    map[string]map[int][]ctl.RouteGroup // routes around sets of links
}

type op struct {
	Fault
	batch uint64
}

// New gives the state of a fabric with which nothing is wrong.
func New(plan *topology.Plan) *State {
	s := &State{plan: plan, settled: make([]Link, len(plan.Links)), memo: map[string]map[int][]ctl.RouteGroup{}}
	for i := range plan.Links {
		l := &plan.Links[i]
		s.settled[i] = Link{AB: l.Impair(), BA: l.Impair(), LLR: l.LLR != nil, CBFC: l.CBFC != nil}
		s.settled[i].begin(l)
	}
	return s
}

// Saved is a state as it stands in a file.
type Saved struct {
	Links   []Link  `json:"links"` // in the order of the plan
	Pending []Fault `json:"pending"`
}

// Save gives what Load takes.
func (s *State) Save() Saved {
	v := Saved{Links: slices.Clone(s.settled)}
	for _, o := range s.pending {
		v.Pending = append(v.Pending, o.Fault)
	}
	return v
}

// Load takes a state over that another has saved for the same plan.
func (s *State) Load(v Saved) error {
	if len(v.Links) != len(s.plan.Links) {
		return fmt.Errorf("faults: %d links saved, the plan has %d", len(v.Links), len(s.plan.Links))
	}
	var pending []op
	for _, f := range v.Pending {
		sound := f
		if f.Op == undone {
			sound.Op = Fail
		}
		if err := sound.Check(s.plan); err != nil {
			return fmt.Errorf("faults: %w", err)
		}
		pending = append(pending, op{Fault: f})
	}
	s.settled, s.pending = slices.Clone(v.Links), pending
	return nil
}

// At gives all links as they are at time t, in the order of the plan.
func (s *State) At(t vt.Time) []Link {
	links := slices.Clone(s.settled)
	for i := range s.pending {
		if f := &s.pending[i].Fault; f.At <= t {
			links[f.Link].apply(s.plan, f)
		}
	}
	return links
}

// Final gives a link as it is when all has happened that is scheduled.
func (s *State) Final(id int) Link {
	l := s.settled[id]
	for i := range s.pending {
		if f := &s.pending[i].Fault; f.Link == id {
			l.apply(s.plan, f)
		}
	}
	return l
}

// Settle says that nothing will be scheduled at now or before it any more.
func (s *State) Settle(now vt.Time) {
	n := 0
	for n < len(s.pending) && s.pending[n].At <= now {
		f := &s.pending[n].Fault
		s.settled[f.Link].apply(s.plan, f)
		n++
	}
	s.pending = slices.Delete(s.pending, 0, n)
}

// maxPrefixes is how many prefixes the changes of routes of one batch may have in all: some hundred MB in the nodes.
const maxPrefixes = 10_000_000

// Batch is what must be sent to nodes for faults that were scheduled together.
type Batch struct {
	Changes  map[int][]ctl.Change // by node, to be scheduled in this order
	Done     vt.Time              // when the last change has taken place, that of routes too
	Turns    []vt.Time            // when links go down or up, so that routes change once the fabric has converged
	Routes   vt.Time              // when the last change of routes takes effect: 0 none, -1 never
	Links    []int                // those that change, ascending
	Comes    []int                // of them, those that are up in a direction at some time in it
	prefixes int                  // in changes of routes
	id       uint64
}

// Each calls fn for all nodes in order until it fails.
func (b *Batch) Each(fn func(node int, changes ...ctl.Change) error) error {
	var ids []int
	for id := range b.Changes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := fn(id, b.Changes[id]...); err != nil {
			return err
		}
	}
	return nil
}

// Schedule takes faults up, all or none. Their times must lie ahead of what was settled and of the nodes that the batch
// is sent to. Errors are *Error.
func (s *State) Schedule(list ...Fault) (*Batch, error) {
	var ops []op
	s.batches++
	for i := range list {
		if err := list[i].Check(s.plan); err != nil {
			return nil, err
		}
		if len(ops)+2*list[i].Flap.Count >= MaxFaults {
			return nil, problem("schedule fewer of them", "more than %d changes at once", MaxFaults)
		}
		for _, f := range list[i].Expand() {
			ops = append(ops, op{f, s.batches})
		}
	}
	before := slices.Clone(s.pending)
	s.pending = append(s.pending, ops...)
	slices.SortStableFunc(s.pending, func(a, b op) int { return cmp.Compare(a.At, b.At) })
	if err := s.checkReInit(s.batches); err != nil {
		s.pending = before
		return nil, err
	}
	b := s.emit(s.batches)
	if b.prefixes > maxPrefixes {
		s.pending = before
		return nil, problem("let links flap less often", "links go down and up %d times at once, each with new routes for all switches: too much for a fabric of this size", len(b.Turns))
	}
	b.Done = b.Routes
	for _, o := range ops {
		b.Done = max(b.Done, o.At)
	}
	return b, nil
}

// checkReInit says whether links of a batch have link layer retry when their ports are to shake hands anew.
func (s *State) checkReInit(batch uint64) error {
	links := slices.Clone(s.settled)
	for i := range s.pending {
		o := &s.pending[i]
		if o.Op != Change {
			continue
		}
		l, p := &links[o.Link], &s.plan.Links[o.Link]
		l.Want(p, &o.Fault)
		if o.batch == batch && o.Set.ReInit != nil && !l.Retries(p) {
			return NoRetry(p.Name)
		}
	}
	return nil
}

// NoRetry is the error of a new handshake on a link without link layer retry.
func NoRetry(link string) error {
	return problem(fmt.Sprintf("turn it on: uetlab link set %s llr=on", link), "llr reinit: link %s has no link layer retry then", link)
}

// Undo takes a batch back of which some nodes may have been told: it gives what to tell all, at the same times. Something
// is scheduled at these times still, which must follow whatever is scheduled ahead of it.
func (s *State) Undo(b *Batch) *Batch {
	for i := range s.pending {
		if o := &s.pending[i]; o.batch == b.id {
			o.Op, o.Set = undone, Set{LLR: o.Set.LLR, CBFC: o.Set.CBFC, Limit: o.Set.Limit, ReInit: o.Set.ReInit} // ports that were told of these must be told again
		}
	}
	return s.emit(b.id)
}

// emit works out what nodes must be told because of one batch: its own changes, and those that others have scheduled for
// later and that come out differently now.
func (s *State) emit(batch uint64) *Batch {
	e := emission{s: s, batch: batch, touched: map[int]bool{}, links: slices.Clone(s.settled), out: &Batch{Changes: map[int][]ctl.Change{}, id: batch}}
	for i := 0; i < len(s.pending); {
		j := i
		for j < len(s.pending) && s.pending[j].At == s.pending[i].At {
			j++
		}
		e.moment(s.pending[i:j])
		i = j
	}
	for id := range e.touched {
		e.out.Links = append(e.out.Links, id)
	}
	slices.Sort(e.out.Links)
	slices.Sort(e.out.Comes)
	e.out.Comes = slices.Compact(e.out.Comes)
	return e.out
}

// emission goes through all that is scheduled, in order.
type emission struct {
	s       *State
	batch   uint64
	links   []Link       // as they are now
	touched map[int]bool // links that the batch has changed so far
	routes  bool         // it may have changed routes so far
	out     *Batch
}

// moment handles all that takes place at one time. What is done to one link at one time shows as one change.
func (e *emission) moment(ops []op) {
	var order []int
	was, fresh := map[int]Link{}, map[int]bool{}
	told := false // switches may have been told routes that follow from this time
	for i := range ops {
		o := &ops[i]
		id := o.Link
		if _, ok := was[id]; !ok {
			was[id] = e.links[id]
			order = append(order, id)
			fresh[id] = true
		}
		if o.batch == e.batch {
			e.touched[id] = true
		}
		if o.batch != e.batch || o.Op == undone {
			fresh[id] = false // somebody may have been told something else for this time
		}
		e.links[id].apply(e.s.plan, &o.Fault)
		e.routes = e.routes || o.routing() && o.batch == e.batch
		told = told || o.routing() && !(o.batch == e.batch && o.Op != undone)
	}
	turned := false
	for _, id := range order {
		before, now := was[id], e.links[id]
		turned = turned || e.touched[id] && before.Down() != now.Down()
		if e.touched[id] {
			e.link(ops, id, &before, !fresh[id])
		}
	}
	if turned || e.routes && told {
		e.reroute(ops[0].At)
	}
}

// link tells both ends of a link what becomes of it. anew: they may have been told otherwise before.
func (e *emission) link(ops []op, id int, before *Link, anew bool) {
	p, now := &e.s.plan.Links[id], &e.links[id]
	at := ops[0].At
	if !now.AB.Down || !now.BA.Down {
		e.out.Comes = append(e.out.Comes, id)
	}
	dir := func(from, to topology.End, was, imp *link.Impair) {
		meant := slices.ContainsFunc(ops, func(o op) bool { return o.Link == id && (o.From == Both || o.From == from.Node) })
		if !meant {
			return
		}
		sent := *imp
		e.tell(from.Node, ctl.Change{At: at, Port: from.Port, Impair: &sent})
		if was.Down != imp.Down || anew {
			e.tell(to.Node, ctl.Change{At: at, Port: to.Port, RxDown: &sent.Down})
		}
	}
	dir(p.A, p.B, &before.AB, &now.AB)
	dir(p.B, p.A, &before.BA, &now.BA)
	if p.Negotiated {
		e.wishes(ops, id, before, anew)
		return
	}
	if now.LLR != before.LLR || anew && slices.ContainsFunc(ops, func(o op) bool { return o.Link == id && o.Set.LLR != nil }) {
		c := ctl.Change{At: at, Retry: &ctl.Retry{}}
		if now.LLR {
			c.Retry.LLR = e.s.plan.Retry(id)
		}
		e.both(p, c)
	}
	e.handshakes(ops, id)
	if now.CBFC != before.CBFC || anew && slices.ContainsFunc(ops, func(o op) bool { return o.Link == id && o.Set.CBFC != nil }) {
		c := ctl.Change{At: at, Credit: &ctl.Credit{}}
		if now.CBFC {
			c.Credit.CBFC = p.CBFC
		}
		e.both(p, c)
	}
}

// handshakes tells sending ports of a link to shake hands anew, or no longer to do so. That depends on nothing else: only the batch itself is told.
func (e *emission) handshakes(ops []op, id int) {
	p := &e.s.plan.Links[id]
	for _, o := range ops {
		if o.Link != id || o.batch != e.batch || o.Set.ReInit == nil {
			continue
		}
		again := o.Op != undone
		for _, end := range []topology.End{p.A, p.B} {
			if o.From == Both || o.From == end.Node {
				e.tell(end.Node, ctl.Change{At: o.At, Port: end.Port, ReInit: &again})
			}
		}
	}
}

// both tells both ends of a link.
func (e *emission) both(p *topology.Link, c ctl.Change) {
	for _, end := range []topology.End{p.A, p.B} {
		c.Port = end.Port
		e.tell(end.Node, c)
	}
}

func (e *emission) tell(node int, c ctl.Change) { e.out.Changes[node] = append(e.out.Changes[node], c) }

// reroute tells all switches their routes for when the fabric has converged after time at.
func (e *emission) reroute(at vt.Time) {
	e.out.Turns = append(e.out.Turns, at)
	if e.s.plan.Convergence < 0 {
		e.out.Routes = -1
		return
	}
	at = at.Add(e.s.plan.Convergence)
	e.out.Routes = at
	if e.out.prefixes > maxPrefixes {
		return
	}
	for sw, r := range e.s.around(e.links) {
		for i := range r {
			e.out.prefixes += len(r[i].Prefixes)
		}
		e.tell(sw, ctl.Change{At: at, Port: -1, Routes: r})
	}
}

// around gives the routes of all switches around the links that are down.
func (s *State) around(links []Link) map[int][]ctl.RouteGroup {
	down := DownOf(links)
	key := fmt.Sprint(down) // in order
	if r, ok := s.memo[key]; ok {
		return r
	}
	const most = 16
	if len(s.memo) >= most {
		clear(s.memo)
	}
	groups := map[int][]ctl.RouteGroup{}
	for sw, r := range s.plan.Routes(down) {
		groups[sw] = nodecore.Groups(r)
	}
	s.memo[key] = groups
	return groups
}

// DownOf is the set of links that are down, by id.
func DownOf(links []Link) map[int]bool {
	down := map[int]bool{}
	for id := range links {
		if links[id].Down() {
			down[id] = true
		}
	}
	return down
}
