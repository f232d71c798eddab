package cms

import (
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

// TestTrimsOfIncast compares with htsim: n sources of 2 MB each to one destination, 100G leaf-spine, with trimming. Its trims are
// 290, 690, 1820 for 8, 16, 32 sources with NSCC, 208, 484, 1046 with NSCC and RCCC. The loop here has one queue in place of a fabric,
// acknowledges every packet, and its sources never run out: it counts for as long as n x 2 MB take.
func TestTrimsOfIncast(t *testing.T) {
	for _, x := range []struct {
		alg  Algorithm
		n    int
		want int
	}{
		{AlgNSCC, 8, 290}, {AlgNSCC, 16, 690}, {AlgNSCC, 32, 1820},
		{AlgNSCCRCCC, 8, 208}, {AlgNSCCRCCC, 16, 484}, {AlgNSCCRCCC, 32, 1046},
	} {
		for _, v := range []Variant{0, VarHtsim} {
			l := newLoop(t, Config{Algorithm: x.alg, NSCC: NSCC{Variant: v}}, 100, x.n, 1)
			l.run(vt.Time(x.n) * 163_000)
			t.Logf("%v %d:1, variant %#x: %d trims, htsim %d", x.alg, x.n, uint8(v), l.trims, x.want)
			if d := float64(l.trims)/float64(x.want) - 1; d > 0.3 || d < -0.3 {
				t.Errorf("%v %d:1, variant %#x: %d trims, htsim %d", x.alg, x.n, uint8(v), l.trims, x.want)
			}
		}
	}
}
