package api

import (
	"fmt"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
)

// ProfileHint is what to do about end points that have no profile in common.
const ProfileHint = "give them one with profile: in the topology, or leave one of them out"

// Spec works the request out for one size, in bytes per sender: its ranks become nodes of the plan. alive says of a node
// whether it can take part; nil: all can. Errors are of CodeUsage, or of CodePartial where a rank's node is dead.
func (r *RunRequest) Spec(plan *topology.Plan, size int64, alive func(node int) bool) (workload.Spec, error) {
	s := workload.Spec{Workload: r.Workload, Size: size, Iters: max(1, r.Iterations), Check: r.Check, Seed: r.Seed,
		Algo: r.Algo, Op: r.Op, Type: r.Type, Root: r.Root, Window: r.Window, Ordered: r.Ordered, Matrix: r.Matrix, FEP: r.FEP,
		Every: time.Duration(r.EveryNs)}
	if err := plan.CheckFEP(r.FEP); err != nil {
		return s, Errorf(CodeUsage, "run: %w", err)
	}
	nodes, err := r.place(plan, alive)
	if err != nil {
		return s, err
	}
	s.Nodes, s.Ranks = nodes, len(nodes)
	if err := s.Validate(); err != nil {
		return s, Errorf(CodeUsage, "run: %w", err)
	}
	if err := workload.Talk(plan, nodes...); err != nil {
		return s, Errorf(CodeUsage, "run: %w", err).WithHint(ProfileHint)
	}
	if s.Iters > 1 {
		if s.Guard, err = workload.SafeGuard(s, plan); err != nil {
			return s, Errorf(CodeFailure, "run: %w", err)
		}
	}
	return s, nil
}

// place gives the node of every rank: rank i is on end point i / PerNode of those that are taken.
func (r *RunRequest) place(plan *topology.Plan, alive func(node int) bool) ([]int, error) {
	var hosts []int
	for i := range plan.Nodes {
		if plan.Nodes[i].Kind == topology.KindFEP {
			hosts = append(hosts, i)
		}
	}
	per := max(1, r.PerNode)
	if per > workload.MaxPerNode {
		return nil, Errorf(CodeUsage, "--per-node (%d): an end point has room for %d processes of a job", per, workload.MaxPerNode)
	}
	n, err := r.count(len(hosts), per)
	if err != nil {
		return nil, err
	}
	seen := make(map[int]bool, len(r.Ranks))
	for _, h := range r.Ranks {
		if seen[h] {
			return nil, Errorf(CodeUsage, "--ranks: end point %d stands there twice", h).WithHint("--per-node 2 puts two ranks on each end point")
		}
		seen[h] = true
	}
	var nodes []int
	for i := range n {
		h := i / per
		if len(r.Ranks) > 0 {
			h = r.Ranks[h]
		}
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

// count is the number of ranks, on a fabric with so many end points and per ranks on each.
func (r *RunRequest) count(hosts, per int) (int, error) {
	switch n := r.RankCount; {
	case len(r.Ranks) > 0:
		return len(r.Ranks) * per, nil
	case n == 0 && r.Matrix == nil:
		return hosts * per, nil
	case n == 0 && r.Matrix.Nodes > hosts*per:
		return 0, Errorf(CodeUsage, "matrix: %d hosts, the lab has %s", r.Matrix.Nodes, room(hosts, per)).
			WithHint("take a larger topology, or --per-node for several on an end point")
	case n == 0:
		return r.Matrix.Nodes, nil
	case n > hosts*per:
		return 0, Errorf(CodeUsage, "--ranks (%d): the lab has %s", n, room(hosts, per)).WithHint("--per-node %d puts several on an end point", (n+hosts-1)/max(hosts, 1))
	default:
		return n, nil
	}
}

func room(hosts, per int) string {
	if per == 1 {
		return fmt.Sprintf("%d end points", hosts)
	}
	return fmt.Sprintf("%d end points for %d ranks each", hosts, per)
}
