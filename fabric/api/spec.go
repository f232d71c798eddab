package api

import (
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
)

// Spec works the request out for one size, in bytes per sender: its ranks become nodes of the plan. alive says of a node
// whether it can take part; nil: all can. Errors are of CodeUsage, or of CodePartial where a rank's node is dead.
func (r *RunRequest) Spec(plan *topology.Plan, size int64, alive func(node int) bool) (workload.Spec, error) {
	s := workload.Spec{Workload: r.Workload, Size: size, Iters: max(1, r.Iterations), Check: r.Check, Seed: r.Seed,
		Algo: r.Algo, Op: r.Op, Type: r.Type, Root: r.Root, Window: r.Window, Ordered: r.Ordered, Matrix: r.Matrix}
	nodes, err := r.place(plan, alive)
	if err != nil {
		return s, err
	}
	s.Nodes, s.Ranks = nodes, len(nodes)
	if err := s.Validate(); err != nil {
		return s, Errorf(CodeUsage, "run: %w", err)
	}
	if s.Iters > 1 {
		if s.Guard, err = workload.SafeGuard(s, plan); err != nil {
			return s, Errorf(CodeFailure, "run: %w", err)
		}
	}
	return s, nil
}

// place gives the node of every rank.
func (r *RunRequest) place(plan *topology.Plan, alive func(node int) bool) ([]int, error) {
	var hosts []int
	for i := range plan.Nodes {
		if plan.Nodes[i].Kind == topology.KindFEP {
			hosts = append(hosts, i)
		}
	}
	pick := r.Ranks
	if len(pick) == 0 {
		n := r.RankCount
		switch {
		case n != 0:
		case r.Matrix == nil:
			n = len(hosts)
		default:
			n = r.Matrix.Nodes
			if n > len(hosts) {
				return nil, Errorf(CodeUsage, "matrix: %d hosts, the lab has %d end points", n, len(hosts)).WithHint("take a larger topology")
			}
		}
		if n > len(hosts) {
			return nil, Errorf(CodeUsage, "--ranks (%d): the lab has %d end points", n, len(hosts))
		}
		for i := range n {
			pick = append(pick, i)
		}
	}
	var nodes []int
	for _, h := range pick {
		if h < 0 || h >= len(hosts) {
			return nil, Errorf(CodeUsage, "--ranks (%d): the lab has end points 0 to %d", h, len(hosts)-1)
		}
		if id := hosts[h]; alive != nil && !alive(id) {
			return nil, Errorf(CodePartial, "--ranks (%d): node %s is dead", h, plan.Nodes[id].Name)
		}
		nodes = append(nodes, hosts[h])
	}
	return nodes, nil
}
