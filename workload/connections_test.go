package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload/matrix"
)

// matrixSpec is a run of a matrix.
func matrixSpec(m *matrix.Matrix, iters int, check bool, op string) Spec {
	return Spec{Workload: Matrix, Matrix: m, Ranks: m.Nodes, Iters: iters, Check: check, Op: op, Seed: 3, Guard: 200 * time.Microsecond}
}

func parseMatrix(t *testing.T, text string) *matrix.Matrix {
	t.Helper()
	m, _, err := matrix.Parse("test.cm", []byte(text), matrix.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMatrixRuns plays random matrices over a network that delays and reorders. Every connection runs once an
// iteration, its data is right, and it begins when the matrix says.
func TestMatrixRuns(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 150 {
		m := matrix.Random(rng, 2+rng.IntN(8), 1+rng.IntN(60), 20_000)
		s := matrixSpec(m, 1+rng.IntN(3), rng.IntN(3) > 0, []string{"", OpSend, OpWrite}[rng.IntN(3)])
		what := fmt.Sprintf("seed %d, round %d: %d flows, %d iterations, check %v, op %q", seed, round, len(m.Flows), s.Iters, s.Check, s.Op)
		n, run := newNetwork(t, s, rng.Uint64())
		results := run()
		if len(results) != s.Ranks {
			t.Fatalf("%s: %d of %d ranks finished", what, len(results), s.Ranks)
		}
		var sent int64
		for i, r := range results {
			if r.Error != "" || r.Wrong > 0 {
				t.Fatalf("%s: %+v", what, r)
			}
			if done, total := n.ranks[i].Progress(); done != total {
				t.Errorf("%s: rank %d has done %d of %d bytes", what, i, done, total)
			}
			sent += r.SentBytes
		}
		res := Summarize(s, results, Totals{Fidelity: Fidelity{Verdict: "exact"}}, nil)
		if !res.OK() || (res.Correct != nil) != s.Check || sent != m.Bytes()*int64(s.Iters) || res.SizeBytes != m.Bytes() {
			t.Errorf("%s: %d bytes sent, correct %v", what, sent, res.Correct)
		}
		if len(res.PerFlow) != len(m.Flows)*s.Iters {
			t.Fatalf("%s: %d flows reported", what, len(res.PerFlow))
		}
		for i := range s.Iters {
			begin := results[0].Iterations[i].StartNs
			checkStarts(t, what, m, res.PerFlow[i*len(m.Flows):(i+1)*len(m.Flows)], begin)
		}
		for i, ep := range n.eps {
			if len(ep.recvs) != 0 {
				t.Errorf("%s: rank %d leaves %d receives behind", what, i, len(ep.recvs))
			}
		}
	}
}

// checkStarts compares when flows began with what the matrix says, where senders alone know: send_done triggers. What is
// acknowledged is told to the rank up to 2 ns later (network.carry).
func checkStarts(t *testing.T, what string, m *matrix.Matrix, flows []FlowResult, begin int64) {
	t.Helper()
	for i, f := range m.Flows {
		r := flows[i]
		if r.ID != f.ID || r.Src != f.Src || r.Dst != f.Dst || r.SizeBytes != f.Size || r.FCTNs != r.EndNs-r.StartNs || r.FCTNs <= 0 {
			t.Errorf("%s: flow %d is reported as %+v", what, i, r)
		}
		if f.Trigger == 0 && r.StartNs != begin+f.StartNs {
			t.Errorf("%s: flow %d starts at %d, not at %d", what, i, r.StartNs, begin+f.StartNs)
		}
	}
	for k, role := range m.Roles() {
		if len(role.GotBy) > 0 {
			continue
		}
		var ends, starts []int64
		local := true
		for _, i := range role.SentBy {
			ends = append(ends, flows[i].EndNs)
			local = local && m.Flows[i].Src == m.Flows[role.SentBy[0]].Src
		}
		for _, i := range role.Targets {
			starts = append(starts, flows[i].StartNs)
			local = local && m.Flows[i].Src == m.Flows[role.SentBy[0]].Src
		}
		slices.Sort(ends)
		for j, start := range starts {
			need := ends[len(ends)-1]
			if m.Triggers[k].Kind == matrix.MultiShot {
				need = ends[j]
			}
			if start < need || local && start > need+4 {
				t.Errorf("%s: %s trigger %d starts its connection %d at %d, the activation is at %d (one rank: %v)", what, m.Triggers[k].Kind, m.Triggers[k].ID, j, start, need, local)
			}
		}
	}
}

// TestMatrixBound plays random matrices with a perfect transport: the bound is never above it.
func TestMatrixBound(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, plan := range []*topology.Plan{leafSpine(2, 4, 2, 400), leafSpine(2, 4, 2, 100), dumbbell(4, 400), leafSpine(0, 1, 8, 0)} {
		for range 30 {
			m := matrix.Random(rng, 2+rng.IntN(7), 1+rng.IntN(40), 100_000)
			s := matrixSpec(m, 1, true, "")
			r := runFluid(t, s, plan)
			if r.IdealNs <= 0 || r.Ratio < 1 || r.Ratio > 6 || !r.OK() || !*r.Correct {
				_, why, err := IdealNs(s, plan)
				t.Fatalf("seed %d, %s: ideal %d (%s, %v), ratio %.4f: %+v", seed, plan.Name, r.IdealNs, why, err, r.Ratio, m)
			}
		}
	}
}

// TestMatrixBoundIsTight has matrices whose time is known.
func TestMatrixBoundIsTight(t *testing.T) {
	star := leafSpine(0, 1, 8, 0)
	for _, c := range []struct {
		name, text string
		plan       *topology.Plan
		most       float64
	}{
		{"one", "Nodes 2\nConnections 1\n0->1 start 0 size 1000000\n", pairPlan(), 1.0002},
		{"late", "Nodes 2\nConnections 1\n0->1 start 100 size 1000000\n", pairPlan(), 1.0002},
		{"two in a row", "Nodes 2\nConnections 2\nTriggers 1\n0->1 start 0 size 1000000 send_done_trigger 1\n0->1 trigger 1 size 500000\ntrigger id 1 oneshot\n", pairPlan(), 1.0002},
		{"there and back", "Nodes 2\nConnections 2\nTriggers 1\n0->1 start 0 size 1000000 recv_done_trigger 1\n1->0 trigger 1 size 500000\ntrigger id 1 oneshot\n", pairPlan(), 1.0002},
		{"barrier", "Nodes 8\nConnections 3\nTriggers 1\n0->1 start 0 size 1000000 send_done_trigger 4\n2->3 start 5 size 1000000 recv_done_trigger 4\n4->5 trigger 4 size 500000\ntrigger id 4 barrier count 2\n", star, 1.002},
		{"multishot", "Nodes 8\nConnections 4\nTriggers 1\n0->1 start 0 size 1000000 send_done_trigger 4\n2->3 start 0 size 2000000 send_done_trigger 4\n4->5 trigger 4 size 100000\n4->6 trigger 4 size 3000000\ntrigger id 4 multishot\n", star, 1.002},
		{"incast", "Nodes 8\nConnections 3\n1->0 start 0 size 1000000\n2->0 start 0 size 1000000\n3->0 start 0 size 1000000\n", star, 1.002},
	} {
		s := matrixSpec(parseMatrix(t, c.text), 1, true, "")
		r := runFluid(t, s, c.plan)
		_, why, err := IdealNs(s, c.plan)
		if err != nil || r.Ratio < 1 || r.Ratio > c.most {
			t.Errorf("%s: ratio %.4f, want 1 to %.4f (%d ns: %s) %v", c.name, r.Ratio, c.most, r.IdealNs, why, err)
		}
	}
}

// TestMatrixIsIncast plays the same as a matrix and as the workload incast: times agree.
func TestMatrixIsIncast(t *testing.T) {
	plan := dumbbell(4, 100)
	m := &matrix.Matrix{Nodes: 8}
	for i := 1; i < 8; i++ {
		m.Flows = append(m.Flows, matrix.Flow{ID: i, Src: i, Dst: 0, Size: 300_000})
	}
	a := runFluid(t, Spec{Workload: Incast, Op: OpWrite, Ranks: 8, Size: 300_000, Iters: 1, Check: true, Seed: 3}, plan)
	b := runFluid(t, matrixSpec(m, 1, true, ""), plan)
	if a.FCT != b.FCT || a.IdealNs != b.IdealNs || len(b.PerFlow) != 7 {
		t.Errorf("incast %+v, ideal %d; matrix %+v, ideal %d", a.FCT, a.IdealNs, b.FCT, b.IdealNs)
	}
}

func TestMatrixCorruptionShows(t *testing.T) {
	m := parseMatrix(t, "Nodes 3\nConnections 3\nTriggers 1\n0->1 start 0 size 5000 recv_done_trigger 1\n1->2 trigger 1 size 5000\n2->1 start 3 size 4000\ntrigger id 1 oneshot\n")
	for _, victim := range [][2]int{{0, 1}, {1, 2}, {2, 1}} {
		s := matrixSpec(m, 2, true, "")
		n, run := newNetwork(t, s, 11)
		n.spoil = func(src, dst int, b []byte) {
			if len(b) > stampBytes && src == victim[0] && dst == victim[1] {
				b[len(b)/2] ^= 0x10
			}
		}
		var wrong int64
		for _, r := range run() {
			wrong += r.Wrong
		}
		if wrong != 2 {
			t.Errorf("%v: %d elements are wrong, want one an iteration", victim, wrong)
		}
	}
}

func TestMatrixFailure(t *testing.T) {
	m := parseMatrix(t, "Nodes 3\nConnections 2\n0->1 id 8 start 0 size 5000\n1->2 start 4 size 5000\n")
	s := matrixSpec(m, 1, true, "")
	n, run := newNetwork(t, s, 11)
	n.fail = func(src, dst int) error {
		if src == 0 && dst == 1 {
			return os.ErrDeadlineExceeded
		}
		return nil
	}
	var text string
	for _, r := range run() {
		text += r.Error
	}
	if !strings.Contains(text, "rank 0: iteration 0, connection 8: write to rank 1: i/o timeout") {
		t.Errorf("error %q", text)
	}
	if _, err := NewRank(s, 1, accepting{}, nil); err == nil || !strings.Contains(err.Error(), "needs an end point that can be woken") {
		t.Errorf("without a waker: %v", err)
	}
}

// TestMatrixMemory holds a matrix without check to the memory of its largest connection.
func TestMatrixMemory(t *testing.T) {
	m := &matrix.Matrix{Nodes: 2}
	for i := range 50 {
		m.Flows = append(m.Flows, matrix.Flow{ID: i + 1, Src: 0, Dst: 1, Size: int64(1000 + i)})
	}
	for check, want := range map[bool]int64{false: 1049, true: 50*1000 + 49*50/2} {
		s := matrixSpec(m, 1, check, "")
		if got := s.schedule(0).bufs[bufOut]; got != want {
			t.Errorf("check %v: %d bytes to send from, want %d", check, got, want)
		}
		if got := s.schedule(1).bufs[bufMem]; got != want {
			t.Errorf("check %v: %d bytes to write into, want %d", check, got, want)
		}
	}
}

// TestMatrixFiles plays htsim's files.
func TestMatrixFiles(t *testing.T) {
	names, err := filepath.Glob("matrix/testdata/*.cm")
	if err != nil || len(names) < 6 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := parseMatrix(t, string(b))
		for i := range m.Flows {
			m.Flows[i].Size /= 1000
		}
		s := matrixSpec(m, 1, true, "")
		_, run := newNetwork(t, s, 5)
		res := Summarize(s, run(), Totals{Fidelity: Fidelity{Verdict: "exact"}}, nil)
		if !res.OK() || !*res.Correct || len(res.PerFlow) != len(m.Flows) {
			t.Errorf("%s: correct %v, %d flows of %d", name, *res.Correct, len(res.PerFlow), len(m.Flows))
		}
	}
}

func TestMatrixOutput(t *testing.T) {
	m := parseMatrix(t, "Nodes 3\nConnections 3\n0->1 id 8 start 0 size 5000\n1->2 id 5 msg 1 start 4 size 100000\n1->2 id 5 msg 2 start 4.25 size 200\n")
	s := matrixSpec(m, 1, false, "")
	ranks := []RankResult{
		{Rank: 1, Iterations: []Span{{EndNs: 9300, AckedNs: 9300}}, Flows: []FlowSpan{{Flow: 2, StartNs: 4250, EndNs: 7005}, {Flow: 1, StartNs: 4000, EndNs: 9300}}},
		{Rank: 0, Iterations: []Span{{EndNs: 2100, AckedNs: 2100}}, Flows: []FlowSpan{{Flow: 0, EndNs: 2100}}},
		{Rank: 2, Iterations: []Span{{AckedNs: -1}}},
	}
	r := Summarize(s, ranks, Totals{Fidelity: Fidelity{Verdict: "exact"}}, leafSpine(2, 2, 2, 400))
	if r.FCT.Max != 5300 || r.FCT.Min != 2100 || r.Ratio != 9300/float64(r.IdealNs) || len(ranks[0].Flows) != 2 {
		t.Errorf("fct %+v, ratio %v of %d", r.FCT, r.Ratio, r.IdealNs)
	}
	var lines bytes.Buffer
	if err := WriteFinishLines(&lines, &r); err != nil {
		t.Fatal(err)
	}
	golden(t, "matrix-finish.txt", lines.Bytes())
	var table bytes.Buffer
	if err := WriteTable(&table, []Result{r}); err != nil {
		t.Fatal(err)
	}
	golden(t, "matrix-table.txt", table.Bytes())
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "matrix.json", append(b, '\n'))
}
