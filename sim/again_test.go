package sim

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// trace is a digest of the UET packets that end points send from a moment on, with their times.
func trace(plan *topology.Plan, f *Fabric, begin *vt.Time) func() uint64 {
	h := fnv.New64a()
	for _, id := range hosts(plan) {
		f.Tap(id, 0, func(fr *link.Frame) {
			if fr.Due < *begin {
				return
			}
			h.Write(binary.BigEndian.AppendUint64([]byte{byte(id)}, uint64(fr.Due-*begin)))
			if in, err := wire.ParseUET(fr.B, 0); err == nil {
				h.Write(in.UET)
			}
		})
	}
	return h.Sum64
}

// TestRunsDoNotDependOnThoseBefore runs one workload on a fresh fabric, on one that has run it before, and on one where a run was
// broken off, right after that and when all its PDCs have been closed: all that is sent is the same, to the byte and to the
// nanosecond, and so are the counts.
func TestRunsDoNotDependOnThoseBefore(t *testing.T) {
	for _, c := range []struct {
		topo, what string
		ordered    bool
	}{
		{"fat-tree-2x4", workload.Permutation, false},
		{"star-9", workload.Incast, false},
		{"star-9", workload.Incast, true},
		{"pair", workload.Sendrecv, false},
	} {
		run := func(first bool, stop, gap time.Duration) (uint64, [4]uint64) {
			plan, f := build(t, c.topo)
			begin := vt.Never
			sum := trace(plan, f, &begin)
			s := spec(t, plan, c.what, 128<<10, 1)
			s.Check, s.Ordered = false, c.ordered
			begin = t0
			if first {
				opt := Options{}
				if stop > 0 {
					opt.Until = t0.Add(stop)
				}
				begin = vt.Never
				if _, err := f.Run(s, t0, opt); err != nil && !errors.Is(err, ErrUntil) {
					t.Fatal(err)
				}
				begin = f.Now().Add(gap)
			}
			res, err := f.Run(s, begin, Options{})
			if err != nil {
				t.Fatal(err)
			}
			return sum(), [4]uint64{res.PacketHops, res.DataPacketHops, res.Retransmits, res.Trims}
		}
		want, counts := run(false, 0, 0)
		for _, stop := range []time.Duration{0, 9 * time.Microsecond, 40 * time.Microsecond} {
			for _, gap := range []time.Duration{1, 3 * time.Second} {
				if got, n := run(true, stop, gap); got != want || n != counts {
					t.Errorf("%s %s, ordered %v: %v after a run of %v: %x, %v; on a fresh fabric %x, %v", c.topo, c.what, c.ordered, gap, stop, got, n, want, counts)
				}
			}
		}
	}
}
