package workload

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/workload/matrix"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "8": 8, "8B": 8, "64K": 64 << 10, "64k": 64 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20, "128M": 128 << 20,
		"2G": 2 << 30, "1gib": 1 << 30, "0007": 7, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "not", "K": "no number", "-1": "not a number", "1.5M": "not a number", "1 M": "not a number", "64KB": "64K (1024)",
		"1T": "not a number", "9223372036854775808": "too big", "9007199254740992K": "too big", "0x10": "not a number",
		"١": "not a number",
	} {
		_, err := ParseSize(in)
		if in == "" {
			want = "no number"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func TestParseSizes(t *testing.T) {
	for in, want := range map[string][]int64{
		"1MiB": {1 << 20}, "8:64": {8, 16, 32, 64}, "8:63:2": {8, 16, 32}, "1K:1M:32": {1 << 10, 1 << 15, 1 << 20},
		"5:5:9": {5}, "0": {0}, "4611686018427387904:9223372036854775807": {1 << 62},
	} {
		if got, err := ParseSizes(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	if got, err := ParseSizes("8:128M:2"); err != nil || len(got) != 25 || got[24] != 128<<20 {
		t.Errorf("8:128M:2: %v, %v", got, err)
	}
	for in, want := range map[string]string{
		"8:": "no number", ":8": "no number", "8:4": "smaller size first", "0:8": "cannot grow from 0", "1:8:1": "factor",
		"1:8:x": "factor", "1:8:2:2": "too many", "1:8:": "factor", "1:8:2K": "factor",
	} {
		if _, err := ParseSizes(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func FuzzParseSizes(f *testing.F) {
	for _, s := range []string{"8:128M:2", "1MiB", "0", "1:9223372036854775807:2", "64KB", "1:2:9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sizes, err := ParseSizes(s)
		if err != nil {
			return
		}
		if len(sizes) == 0 || len(sizes) > 63 || sizes[0] < 0 || !slices.IsSorted(sizes) {
			t.Errorf("%q: %v", s, sizes)
		}
	})
}

func TestValidate(t *testing.T) {
	good := Spec{Workload: Allreduce, Size: 7, Ranks: 3, Iters: 1}
	for _, w := range Workloads() {
		s := good
		s.Workload = w.Name
		if w.Name == Matrix {
			s.Size, s.Matrix = 0, &matrix.Matrix{Nodes: 3, Flows: []matrix.Flow{{ID: 1, Dst: 1, Size: 9}}}
		}
		if err := s.Validate(); err != nil || w.Text == "" {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
	for _, c := range []struct {
		change func(*Spec)
		want   []string
	}{
		{func(s *Spec) { s.Workload = "reduce" }, []string{`"reduce"`, "allreduce, allgather"}},
		{func(s *Spec) { s.Size = -1 }, []string{"--size -1"}},
		{func(s *Spec) { s.Ranks = 1 }, []string{"--ranks 1"}},
		{func(s *Spec) { s.Iters = 0 }, []string{"--iters 0"}},
		{func(s *Spec) { s.Window = -3 }, []string{"--window -3"}},
		{func(s *Spec) { s.Guard = -1 }, []string{"guard -1ns"}},
		{func(s *Spec) { s.Algo = "tree" }, []string{"--algo tree", "ring and rd"}},
		{func(s *Spec) { s.Workload, s.Algo = Incast, AlgoRD }, []string{"--algo rd", "leave the flag out"}},
		{func(s *Spec) { s.Op = "read" }, []string{"--op read"}},
		{func(s *Spec) { s.Op = OpWrite }, []string{"--op write: allreduce"}},
		{func(s *Spec) { s.Type = "int8" }, []string{"--type int8"}},
		{func(s *Spec) { s.Root = 1 }, []string{"--root 1", "leave the flag out"}},
		{func(s *Spec) { s.Workload, s.Root = Broadcast, 3 }, []string{"--root 3", "0 to 2"}},
		{func(s *Spec) { s.Workload, s.Root = Incast, -1 }, []string{"--root -1"}},
		{func(s *Spec) { s.Nodes = []int{1, 2} }, []string{"2 nodes are named for 3 ranks"}},
		{func(s *Spec) { s.Nodes = []int{1, -2, 2} }, []string{"node id -2"}},
		{func(s *Spec) { s.Ranks, s.Nodes = MaxPerNode+1, make([]int, MaxPerNode+1) }, []string{"--per-node: more than 4096"}},
		{func(s *Spec) { s.Workload, s.Size = Sendrecv, 1<<30+1 }, []string{"--size 1073741825", "smaller size"}},
		{func(s *Spec) { s.Workload = Matrix }, []string{"matrix: there is none; name its file"}},
		{func(s *Spec) { s.Matrix = &matrix.Matrix{Nodes: 3} }, []string{"--file: allreduce takes no matrix"}},
		{func(s *Spec) { s.Workload, s.Matrix = Matrix, &matrix.Matrix{Nodes: 3} }, []string{"--size 7: a matrix says its sizes itself", "Connections (0)"}},
		{func(s *Spec) { s.Workload, s.Size, s.Matrix = Matrix, 0, &matrix.Matrix{Nodes: 4} }, []string{"--ranks 3: the matrix has 4 hosts"}},
		{func(s *Spec) { s.Size, s.Iters, s.Op = -4, -1, "x" }, []string{"--size -4", "--iters -1", "--op x"}},
	} {
		s := good
		c.change(&s)
		err := s.Validate()
		for _, w := range c.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: %v, want %q", s, err, w)
			}
		}
	}
}

func TestPIDsCountRanksOfANode(t *testing.T) {
	s := Spec{Nodes: []int{4, 4, 1, 4, 1}}
	if got := s.PIDs(); !slices.Equal(got, []uint16{0, 1, 0, 2, 1}) {
		t.Errorf("processes %v", got)
	}
	if got := s.On(4); !slices.Equal(got, []int{0, 1, 3}) {
		t.Errorf("ranks on node 4: %v", got)
	}
	if s.Nodes = nil; s.PIDs() != nil || s.On(0) != nil {
		t.Error("processes without nodes")
	}
}
