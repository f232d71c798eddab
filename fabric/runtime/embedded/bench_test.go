package embedded_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
)

// BenchmarkLab brings labs of the size of a small leaf-spine fabric and of a fat tree with k = 8 up and down, two links a
// node, and reports each phase in milliseconds: start until all nodes have reported from their roots, wire, ports up, stop.
func BenchmarkLab(b *testing.B) {
	needNamespaces(b)
	for _, n := range []int{14, 208} {
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			plan := chain(n, topology.KindFEP)
			connect(plan, n-1, 0)
			for i := range n {
				connect(plan, i, (i+3)%n)
			}
			var total [4]time.Duration
			for i := range b.N {
				l := newLab(b, fmt.Sprintf("bench%d", i), n, topology.KindFEP)
				for p, phase := range []func(){l.start, func() { l.wire(plan) }, func() { l.portsUp(plan) }, l.stop} {
					t0 := time.Now()
					phase()
					total[p] += time.Since(t0)
				}
				l.close()
			}
			for p, name := range []string{"start", "wire", "ports", "stop"} {
				b.ReportMetric(float64(total[p].Microseconds())/1000/float64(b.N), name+"-ms")
			}
		})
	}
}

// portsUp has all nodes guard their ports and bring them up.
func (l *lab) portsUp(plan *topology.Plan) {
	for i := range plan.Nodes {
		var ports []string
		for _, p := range plan.Nodes[i].Ports {
			ports = append(ports, p.Name)
		}
		l.send(i, order{Ports: ports})
	}
	for i := range plan.Nodes {
		l.obeyed(i)
	}
}
