package workload

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload/matrix"
)

// Buffers of a rank that plays a matrix.
const (
	bufOut = iota // what it sends
	bufIn         // where receives go
	bufMem        // what others write into
	numBufs
)

// matrixPart builds one rank's part of a matrix.
type matrixPart struct {
	*schedule
	spec   *Spec
	me     int
	sent   map[int]int // flow to the op that sends it here
	got    map[int]int // flow to the receive here
	notice int         // tags handed out, alike at all ranks
}

// sends says whether a flow is a tagged send: a receiver that has to notice the last byte needs a receive for it.
func (s *Spec) sends(f *matrix.Flow) bool { return !s.write() || f.RecvDone != 0 }

// matrix builds the part of rank me: its connections in the order of the file, then what triggers need.
func (s *Spec) matrix(sc *schedule, me int) {
	m := s.Matrix
	p := &matrixPart{schedule: sc, spec: s, me: me, sent: map[int]int{}, got: map[int]int{}, notice: len(m.Flows)}
	p.connections()
	for i, role := range m.Roles() {
		if m.Triggers[i].Kind == matrix.MultiShot {
			p.stepper(&role)
		} else {
			p.gather(&role)
		}
	}
}

// connections lays the rank's connections. Every one has memory of its own, at both ends, where somebody looks at the data; else
// all of a rank share it.
func (p *matrixPart) connections() {
	m := p.spec.Matrix
	p.bufs = make([]int64, numBufs)
	used := make([][numBufs]int64, m.Nodes) // of each rank's buffers
	place := func(rank, buf int, size int64) region {
		u := &used[rank][buf]
		r := region{buf: int8(buf), n: size}
		if p.spec.Check {
			r.off = *u
			*u += size
		} else {
			*u = max(*u, size)
		}
		return r
	}
	for i := range m.Flows {
		f := &m.Flows[i]
		to := bufMem
		if p.spec.sends(f) {
			to = bufIn
		}
		out, in := place(f.Src, bufOut, f.Size), place(f.Dst, to, f.Size)
		if f.Src == p.me {
			p.sent[i] = p.flow(i, f, out, in.off)
		}
		if f.Dst != p.me {
			continue
		}
		if to == bufIn {
			p.got[i] = p.recv(f.Src, i, in)
		}
		if p.spec.Check {
			p.want = append(p.want, block{region: in, from: i})
		}
	}
	copy(p.bufs, used[p.me][:])
}

// flow adds a connection that begins here.
func (p *matrixPart) flow(i int, f *matrix.Flow, out region, there int64) int {
	k := p.send(f.Dst, i, none, out)
	o := &p.ops[k]
	o.flow, o.start = int32(i+1), f.StartNs
	if f.Trigger != 0 {
		o.after = gated
	}
	if !p.spec.sends(f) {
		o.kind, o.there = opWrite, there
	}
	if p.spec.Check {
		p.fill = append(p.fill, block{region: out, from: i})
	}
	return k
}

// flows counts the connections that begin at the rank.
func (s *schedule) flows() int {
	n := 0
	for _, o := range s.ops {
		n += int(min(o.flow, 1))
	}
	return n
}

// activation is a moment that activates a trigger: op, if it is here, is done at rank.
type activation struct{ rank, op int }

// activations lists the moments that activate a trigger; op is -1 where that is another rank's.
func (p *matrixPart) activations(role *matrix.Role) []activation {
	at := func(ops map[int]int, flow, rank int) activation {
		if op, ok := ops[flow]; ok {
			return activation{rank, op}
		}
		return activation{rank, none}
	}
	var all []activation
	for _, i := range role.SentBy {
		all = append(all, at(p.sent, i, p.spec.Matrix.Flows[i].Src))
	}
	for _, i := range role.GotBy {
		all = append(all, at(p.got, i, p.spec.Matrix.Flows[i].Dst))
	}
	return all
}

// sources are the ranks where the targets begin, each once.
func (p *matrixPart) sources(role *matrix.Role) []int {
	var ranks []int
	for _, i := range role.Targets {
		if src := p.spec.Matrix.Flows[i].Src; !slices.Contains(ranks, src) {
			ranks = append(ranks, src)
		}
	}
	return ranks
}

// tell adds what carries an activation to rank to, and gives the op there whose end says so, -1 elsewhere.
func (p *matrixPart) tell(a activation, to int) int {
	if a.rank == to {
		return a.op
	}
	tag := p.notice
	p.notice++
	switch p.me {
	case a.rank:
		k := p.send(to, tag, a.op, region{})
		p.ops[k].note = true
	case to:
		k := p.recv(a.rank, tag, region{})
		p.ops[k].note = true
		return k
	}
	return none
}

// gather lays a oneshot or a barrier: a gate at every rank where targets begin, told of all activations.
func (p *matrixPart) gather(role *matrix.Role) {
	acts := p.activations(role)
	for _, to := range p.sources(role) {
		g := gate{need: int32(len(acts))}
		for _, i := range role.Targets {
			if k, ok := p.sent[i]; ok && to == p.me {
				g.out = append(g.out, int32(k))
			}
		}
		p.guard(g, acts, to)
	}
}

// stepper lays a multishot: one gate, because the order of all activations counts. It stands where the activations are, if
// that is one rank, else where the first target begins.
func (p *matrixPart) stepper(role *matrix.Role) {
	acts := p.activations(role)
	if len(role.Targets) == 0 || len(acts) == 0 {
		return
	}
	home := acts[0].rank
	if slices.ContainsFunc(acts, func(a activation) bool { return a.rank != home }) {
		home = p.spec.Matrix.Flows[role.Targets[0]].Src
	}
	g := gate{steps: true}
	for _, i := range role.Targets {
		src := p.spec.Matrix.Flows[i].Src
		if src == home {
			g.out = append(g.out, int32(p.opOf(i)))
			continue
		}
		k := p.tell(activation{home, gated}, src)
		switch p.me {
		case home:
			g.out = append(g.out, int32(len(p.ops)-1))
		case src:
			p.ops[p.opOf(i)].after = int32(k)
		}
	}
	p.guard(g, acts, home)
}

// opOf is the op that sends a flow, -1 where it is another rank's.
func (p *matrixPart) opOf(flow int) int {
	if k, ok := p.sent[flow]; ok {
		return k
	}
	return none
}

// guard puts a gate up at rank home, and lets the activations hit it.
func (p *matrixPart) guard(g gate, acts []activation, home int) {
	if p.me == home {
		p.gates = append(p.gates, g)
	}
	for _, a := range acts {
		if k := p.tell(a, home); p.me == home {
			p.ops[k].hits = int32(len(p.gates))
		}
	}
}

// perFlow joins what the ranks say of flows with what the matrix says, in its order, and lists the completion times.
// It takes the spans out of per.
func perFlow(m *matrix.Matrix, per []RankResult, plan *topology.Plan) (flows []FlowResult, times []int64) {
	var spans []FlowSpan
	for i := range per {
		spans = append(spans, per[i].Flows...)
		per[i].Flows = nil
	}
	slices.SortStableFunc(spans, func(a, b FlowSpan) int {
		return cmp.Or(cmp.Compare(a.Iteration, b.Iteration), cmp.Compare(a.Flow, b.Flow))
	})
	for _, s := range spans {
		if s.Flow < 0 || s.Flow >= len(m.Flows) {
			continue // no rank says so
		}
		f := &m.Flows[s.Flow]
		r := FlowResult{ID: f.ID, Msg: f.Msg, Iteration: s.Iteration, Src: f.Src, Dst: f.Dst, SizeBytes: f.Size,
			StartNs: s.StartNs, EndNs: s.EndNs, FCTNs: s.EndNs - s.StartNs}
		if plan != nil {
			r.Packets = split(f.Size, plan.PayloadMTU).packets
		}
		flows, times = append(flows, r), append(times, r.FCTNs)
	}
	return flows, times
}

// WriteFinishLines prints a line for each flow of a matrix, in the order in which they finish, as htsim's programs do:
// "Flow NAME flowId ID NODE finished at T …", T in microseconds since the start of the run. docs/workloads.md has all of it.
func WriteFinishLines(w io.Writer, r *Result) error {
	flows := slices.Clone(r.PerFlow)
	slices.SortStableFunc(flows, func(a, b FlowResult) int { return cmp.Compare(a.EndNs, b.EndNs) })
	for i := range flows {
		f := &flows[i]
		if _, err := fmt.Fprintf(w, "Flow Uet_%d_%d flowId %d uetSrc%d finished at %d.%03d total messages 1 total packets %d RTS 0 total bytes %d\n",
			f.Src, f.Dst, f.ID, f.Src, f.EndNs/1000, f.EndNs%1000, f.Packets, f.SizeBytes); err != nil {
			return err
		}
	}
	return nil
}
