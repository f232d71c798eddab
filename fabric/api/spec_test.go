package api

import (
	"slices"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

func TestSpecPlacesRanks(t *testing.T) {
	s, err := topology.Generate("star-4")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	host := func(i ...int) (ids []int) { // end points stand behind the switch
		for _, n := range i {
			ids = append(ids, n+1)
		}
		return ids
	}
	cm := func(nodes int) *matrix.Matrix {
		return &matrix.Matrix{Nodes: nodes, Flows: []matrix.Flow{{ID: 1, Src: 0, Dst: 1, Size: 10}}}
	}
	for name, c := range map[string]struct {
		req   RunRequest
		size  int64
		nodes []int
		code  int
	}{
		"all":            {RunRequest{Workload: workload.Incast}, 10, host(0, 1, 2, 3), 0},
		"count":          {RunRequest{Workload: workload.Incast, RankCount: 3}, 10, host(0, 1, 2), 0},
		"named":          {RunRequest{Workload: workload.Incast, Ranks: []int{2, 0}}, 10, host(2, 0), 0},
		"too many":       {RunRequest{Workload: workload.Incast, RankCount: 5}, 10, nil, CodeUsage},
		"no such":        {RunRequest{Workload: workload.Incast, Ranks: []int{0, 4}}, 10, nil, CodeUsage},
		"dead":           {RunRequest{Workload: workload.Incast, Ranks: []int{3, 0}}, 10, nil, CodePartial},
		"matrix":         {RunRequest{Workload: workload.Matrix, Matrix: cm(2)}, 0, host(0, 1), 0},
		"matrix, named":  {RunRequest{Workload: workload.Matrix, Matrix: cm(2), Ranks: []int{2, 1}}, 0, host(2, 1), 0},
		"large matrix":   {RunRequest{Workload: workload.Matrix, Matrix: cm(5)}, 0, nil, CodeUsage},
		"matrix, count":  {RunRequest{Workload: workload.Matrix, Matrix: cm(2), RankCount: 3}, 0, nil, CodeUsage},
		"matrix of size": {RunRequest{Workload: workload.Matrix, Matrix: cm(2)}, 10, nil, CodeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			alive := func(node int) bool { return name != "dead" || node != host(3)[0] }
			got, err := c.req.Spec(plan, c.size, alive)
			if c.code != 0 {
				if e := AsError(err); e == nil || e.Code != c.code {
					t.Fatalf("%+v, want code %d", err, c.code)
				}
				return
			}
			if err != nil || !slices.Equal(got.Nodes, c.nodes) || got.Ranks != len(c.nodes) || got.Iters != 1 {
				t.Errorf("%v, %+v", err, got)
			}
			if _, err := c.req.Spec(plan, c.size, nil); err != nil {
				t.Error(err)
			}
		})
	}
}
