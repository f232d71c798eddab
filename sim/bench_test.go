package sim

import (
	"testing"

	"github.com/uetlab/uetlab/workload"
)

// BenchmarkFabric runs one permutation of 2 MiB a rank. ns/hop counts the time of the run alone: neither the fabric nor the
// data are made in it, as htsim makes neither.
func BenchmarkFabric(b *testing.B) {
	for _, topo := range []string{"fat-tree-2x4", "fat-tree-k4", "fat-tree-k8"} {
		b.Run(topo, func(b *testing.B) {
			hops := uint64(0)
			for b.Loop() {
				b.StopTimer()
				plan, f := build(b, topo)
				s := spec(b, plan, workload.Permutation, 2<<20, 1)
				s.Check = false
				b.StartTimer()
				res, err := f.Run(s, t0, Options{})
				if err != nil {
					b.Fatal(err)
				}
				hops += res.PacketHops
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(hops), "ns/hop")
		})
	}
}
