// Package workload is what the ranks of a run do: collectives and traffic patterns as schedules of messages, the state
// machine that plays one rank's part over an end point, the bound on how fast a pattern can be on a topology, and the
// figures of a result. It opens no socket, starts no goroutine and reads no clock: node processes and the simulator
// hand it virtual time and completions, and get the same run from it.
package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uetlab/uetlab/workload/matrix"
)

// Names of the workloads.
const (
	Allreduce   = "allreduce"
	Allgather   = "allgather"
	Alltoall    = "alltoall"
	Broadcast   = "broadcast"
	Permutation = "permutation"
	Incast      = "incast"
	Sendrecv    = "sendrecv"
	Matrix      = "matrix"
)

// Algorithms of Spec.Algo.
const (
	AlgoRing = "ring" // allreduce: reduce-scatter and all-gather around a ring
	AlgoRD   = "rd"   // allreduce: recursive doubling, for small vectors
)

// Operations of Spec.Op.
const (
	OpSend  = "send"  // tagged send into a posted receive
	OpWrite = "write" // RMA write into registered memory
)

// Element types of Spec.Type.
const (
	Uint32  = "uint32"
	Int32   = "int32"
	Float32 = "float32"
)

// Info describes a workload for help texts.
type Info struct {
	Name string
	Text string // one line
}

var infos = []Info{
	{Allreduce, "sum a vector of --size bytes over all ranks, result everywhere (ring; --algo rd: recursive doubling)"},
	{Allgather, "gather --size/n bytes of every rank into a vector of --size bytes everywhere (ring)"},
	{Alltoall, "every rank sends --size/n bytes to every other rank (spread, a window of sends under way)"},
	{Broadcast, "copy --size bytes from --root to all ranks (binomial tree)"},
	{Permutation, "every rank sends --size bytes to one other rank, drawn by --seed; each receives once"},
	{Incast, "all ranks send --size bytes each to --root at once"},
	{Sendrecv, "every rank sends --size bytes to the next one and receives from the one before"},
	{Matrix, "the connections of an htsim matrix (.cm), each with its size, start and triggers; rank i is host i"},
}

// Workloads lists the workloads in the order of help texts.
func Workloads() []Info { return slices.Clone(infos) }

// Limits of a Spec.
const (
	MaxRanks   = 32768   // float32 sums stay exact up to here
	MaxPerNode = 4096    // PIDonFEP has 12 bits
	MaxIters   = 1 << 24 // iterations fit their field of the tag
	MaxMessage = 1 << 30 // bytes of one message
)

// Spec says what to run. The zero values of Algo, Op, Type, Window and Nodes stand for the defaults.
type Spec struct {
	Workload string `json:"workload"`
	Size     int64  `json:"sizeBytes"`       // bytes per sender, with nccl-tests' meaning for collectives; any size >= 0
	Ranks    int    `json:"ranks"`           // number of ranks, 2 or more
	Nodes    []int  `json:"nodes,omitempty"` // node id of every rank, several of which may be one; default: the first end points of the plan
	Iters    int    `json:"iterations"`      // 1 or more
	Check    bool   `json:"check"`           // compare every element of every result
	Seed     uint64 `json:"seed"`            // data and permutation
	Algo     string `json:"algo,omitempty"`  // allreduce: ring (default) or rd
	Op       string `json:"op,omitempty"`    // send (default; matrix: write) or write (permutation, incast, sendrecv, matrix)
	Type     string `json:"type,omitempty"`  // allreduce: uint32 (default), int32 or float32
	Root     int    `json:"root,omitempty"`  // broadcast and incast
	Window   int    `json:"window,omitempty"`
	// FEP overrides settings of the end points for this run: keys and values of a topology file's mapping fep (topology.Plan.OverrideFEP).
	FEP     map[string]string `json:"fep,omitempty"`
	Ordered bool              `json:"ordered,omitempty"` // messages keep their order (ROD) instead of being sprayed (RUD)
	// Guard lets all ranks begin an iteration at one instant: that long after the last rank entered the barrier. It needs
	// a Waker; 0 lets each rank begin as it leaves the barrier. See SafeGuard.
	Guard time.Duration `json:"guardNs,omitempty"`
	// Matrix is what the workload matrix plays. It says the number of ranks and the sizes: Ranks is its Nodes, Size is 0. A
	// matrix whose connections have start times needs a Waker.
	Matrix *matrix.Matrix `json:"matrix,omitempty"`
	// Every is the step in which ports are sampled, in virtual time; 0: nothing is. See Series.
	Every time.Duration `json:"everyNs,omitempty"`
}

// defaultWindow is how many sends of an alltoall are under way at one rank.
const defaultWindow = 8

// element is the size of every element type.
const element = 4

// reduces says whether the workload adds elements up.
func (s *Spec) reduces() bool { return s.Workload == Allreduce }

// Flows says whether the workload is a set of independent flows, whose completion times are taken one by one; a
// collective is taken as a whole.
func (s *Spec) Flows() bool {
	return s.Workload == Permutation || s.Workload == Incast || s.Workload == Sendrecv || s.Workload == Matrix
}

// rooted says whether Root means something.
func (s *Spec) rooted() bool { return s.Workload == Broadcast || s.Workload == Incast }

// vector is Size, for allreduce padded to whole elements.
func (s *Spec) vector() int64 {
	if s.reduces() {
		return (s.Size + element - 1) / element * element
	}
	return s.Size
}

func (s *Spec) window() int {
	if s.Window > 0 {
		return s.Window
	}
	return defaultWindow
}

// write says whether ranks write into each other's memory. (A matrix sends where the receiver has to notice.)
func (s *Spec) write() bool { return s.Op == OpWrite || s.Op == "" && s.Workload == Matrix }

// confirms says whether a barrier has to tell ranks that what others wrote is there, before they look at it.
func (s *Spec) confirms() bool { return s.write() && s.Check }

// Validate says everything that is wrong with the spec, each with flag, value and remedy.
func (s *Spec) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if !slices.ContainsFunc(infos, func(i Info) bool { return i.Name == s.Workload }) {
		bad("workload %q: there is none of that name; take one of %s", s.Workload, strings.Join(names(), ", "))
	}
	if s.Size < 0 {
		bad("--size %d: less than nothing; give 0 or more bytes", s.Size)
	}
	if s.Ranks < 2 || s.Ranks > MaxRanks {
		bad("--ranks %d: a run has 2 to %d ranks; name at least two end points", s.Ranks, MaxRanks)
	}
	if s.Iters < 1 || s.Iters > MaxIters {
		bad("--iters %d: give 1 to %d iterations", s.Iters, MaxIters)
	}
	if s.Window < 0 {
		bad("--window %d: give the number of sends under way, or 0 for %d", s.Window, defaultWindow)
	}
	if s.Guard < 0 {
		bad("guard %v: give 0 or more", s.Guard)
	}
	if s.Every < 0 {
		bad("--every %v: give a step of virtual time, or 0 for no series", s.Every)
	}
	s.validateChoices(bad)
	s.validateNodes(bad)
	s.validateMatrix(bad)
	if len(errs) == 0 {
		if m := s.longest(); m > MaxMessage {
			bad("--size %d: makes messages of %d bytes, the transport carries %d; take a smaller size or more ranks",
				s.Size, m, MaxMessage)
		}
	}
	return errors.Join(errs...)
}

func (s *Spec) validateChoices(bad func(string, ...any)) {
	switch {
	case s.Algo == "" || s.Algo == AlgoRing && (s.Workload == Allreduce || s.Workload == Allgather):
	case s.Algo == AlgoRD && s.Workload == Allreduce:
	case s.Workload == Allreduce:
		bad("--algo %s: allreduce has ring and rd; take one of them", s.Algo)
	default:
		bad("--algo %s: only allreduce has a choice (ring, rd); leave the flag out", s.Algo)
	}
	switch {
	case s.Op == "" || s.Op == OpSend:
	case s.Op != OpWrite:
		bad("--op %s: take send or write", s.Op)
	case !s.Flows():
		bad("--op write: %s is built of tagged sends; write goes with permutation, incast, sendrecv and matrix", s.Workload)
	}
	switch s.Type {
	case "", Uint32, Int32, Float32:
	default:
		bad("--type %s: take uint32, int32 or float32", s.Type)
	}
	switch {
	case s.Root != 0 && !s.rooted():
		bad("--root %d: only broadcast and incast have a root; leave the flag out", s.Root)
	case s.Root < 0 || s.Root >= max(s.Ranks, 1):
		bad("--root %d: ranks go from 0 to %d; take one of them", s.Root, s.Ranks-1)
	}
}

func (s *Spec) validateNodes(bad func(string, ...any)) {
	if s.Nodes == nil {
		return
	}
	if len(s.Nodes) != s.Ranks {
		bad("--ranks: %d nodes are named for %d ranks; name one for each", len(s.Nodes), s.Ranks)
	}
	count := make(map[int]int, len(s.Nodes))
	for _, n := range s.Nodes {
		if n < 0 {
			bad("--ranks: node id %d: negative; name an end point", n)
		}
		if count[n]++; count[n] == MaxPerNode+1 {
			bad("--per-node: more than %d ranks on one end point; take more end points", MaxPerNode)
		}
	}
}

// PIDs gives the process number of every rank on its node: 0 for the first rank there, 1 for the next. It is nil without Nodes,
// where each rank has a node of its own.
func (s *Spec) PIDs() []uint16 {
	if s.Nodes == nil {
		return nil
	}
	next, pids := make(map[int]uint16, len(s.Nodes)), make([]uint16, len(s.Nodes))
	for i, n := range s.Nodes {
		pids[i] = next[n]
		next[n]++
	}
	return pids
}

// Operations bounds what a rank has open at one time: what an end point must have room for.
func (s *Spec) Operations(rank int) int {
	var b barrier
	b.init(s.Ranks, false, nil)
	return 2*len(s.schedule(rank).ops) + 4*b.rounds + 1 // what others leave behind may still be acknowledged when the next iteration is posted
}

// Sent is how many payload bytes a rank sends or writes in the whole run.
func (s *Spec) Sent(rank int) (n int64) {
	for _, o := range s.schedule(rank).ops {
		if o.kind != opRecv {
			n += o.at.n * int64(s.Iters)
		}
	}
	return n
}

// On lists the ranks that node id has, in their order.
func (s *Spec) On(id int) (ranks []int) {
	for i, n := range s.Nodes {
		if n == id {
			ranks = append(ranks, i)
		}
	}
	return ranks
}

// validateMatrix wants a matrix that fits, or none.
func (s *Spec) validateMatrix(bad func(string, ...any)) {
	m := s.Matrix
	switch {
	case s.Workload != Matrix:
		if m != nil {
			bad("--file: %s takes no matrix; leave it out, or run matrix", s.Workload)
		}
		return
	case m == nil:
		bad("matrix: there is none; name its file, as in --file a.cm")
		return
	case s.Size != 0:
		bad("--size %d: a matrix says its sizes itself; leave the flag out", s.Size)
	case s.Ranks != m.Nodes:
		bad("--ranks %d: the matrix has %d hosts, and rank i is host i; take %d", s.Ranks, m.Nodes, m.Nodes)
	}
	if err := m.Validate(); err != nil {
		bad("%w", err)
	}
}

// longest is the length of the longest message, bytes.
func (s *Spec) longest() int64 {
	switch {
	case s.Workload == Matrix:
		return 0 // matrix.MaxSize is the limit there
	case s.Workload == Allreduce && s.Algo != AlgoRD, s.Workload == Allgather, s.Workload == Alltoall:
		_, n := s.part(0)
		return n
	}
	return s.vector()
}

func names() []string {
	out := make([]string, len(infos))
	for i, w := range infos {
		out[i] = w.Name
	}
	return out
}

// part is offset and length in bytes of the part of the vector that belongs to rank i: as even as whole elements
// (allreduce) or bytes allow, the longer parts first.
func (s *Spec) part(i int) (off, n int64) {
	unit := int64(1)
	if s.reduces() {
		unit = element
	}
	count, ranks, k := s.vector()/unit, int64(s.Ranks), int64(i)
	base, rest := count/ranks, count%ranks
	off, n = base*k+min(k, rest), base
	if k < rest {
		n++
	}
	return off * unit, n * unit
}
