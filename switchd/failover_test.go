package switchd

import (
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// twoSpines is a leaf, two spines, and a leaf: switches 0, 1, 2 and 3.
func twoSpines(t *testing.T, set Settings) *testFabric {
	f := newFabric(t, set, [][]int64{{400, 400, 400}, {400, 400}, {400, 400}, {400, 400, 400}},
		[2]end{{0, 1}, {1, 0}}, [2]end{{0, 2}, {2, 0}}, [2]end{{1, 1}, {3, 1}}, [2]end{{2, 1}, {3, 2}})
	f.route(0, 1, 2)
	f.route(1, 1)
	f.route(2, 1)
	f.route(3, 0)
	return f
}

// cutLink takes a link down at both ends at one time, as the lab does.
func (f *testFabric) cutLink(at vt.Time, a end) {
	for _, e := range []end{a, f.peers[a]} {
		f.nodes[e.node].Change(at, func(now vt.Time) {
			p := f.nodes[e.node].Ports[e.port]
			p.SetImpair(now, link.Impair{Down: true})
			p.SetRxDown(now, true)
			f.sw[e.node].LinksChanged()
		})
	}
}

// ECMP-05: a leaf whose own link is cut uses the other at once; one that is cut further away loses what goes there, counted, until
// new routes are there after the configured delay, and nothing from then on.
func TestECMP05_FailoverWithinTheConfiguredDelay(t *testing.T) {
	const at, convergence, every = 100_000, 500_000, 1000
	for _, far := range []bool{false, true} {
		f := twoSpines(t, Settings{Mirror: Mirror{To: -1}})
		cut := end{0, 1}
		if far {
			cut = end{1, 1}
		}
		f.cutLink(at, cut)
		f.nodes[0].Change(at+convergence, func(vt.Time) { f.route(0, 2) })
		sent := 0
		for due := vt.Time(1000); due < 1_000_000; due += every {
			f.arrive(end{0, 0}, due, uint16(sent), 100, nil)
			sent++
		}
		f.run(2_000_000)
		got := map[uint16]bool{}
		for _, g := range f.got[end{3, 0}] {
			in, err := wire.ParseUET(g.B, 0)
			if err != nil {
				t.Fatal(err)
			}
			got[in.EV] = true
		}
		lost := 0
		for ev := range sent {
			if got[uint16(ev)] {
				continue
			}
			lost++
			// the way to the cut takes 1.5 µs, the reach of what is under way when it happens
			if due := vt.Time(1000 + ev*every); due < at-4000 || due > at+convergence || !far && due > at {
				t.Errorf("far %v: the packet of %v is lost", far, due)
			}
		}
		holes := uint64(0)
		for _, n := range f.nodes {
			for _, p := range n.Ports {
				holes += p.C.Drops()
			}
		}
		if int(holes) != lost || len(got)+lost != sent {
			t.Errorf("far %v: %d lost, %d counted", far, lost, holes)
		}
		if n := f.nodes[1].Ports[0].C[link.DropNoRoute]; far && (n < 200 || n > 300) || !far && (lost > 4 || n != 0) {
			t.Errorf("far %v: %d lost, %d of them without route at the spine, of 500 in the time of convergence", far, lost, n)
		}
	}
}

// ECMP-06, in switches: tags, code points and sizes do not change a packet's path.
func TestECMP06_TagsDoNotChangeThePath(t *testing.T) {
	path := func(tag *wire.CSIGFields, payload int) map[uint16]int {
		f := twoSpines(t, csigSettings())
		for ev := range uint16(300) {
			if tag != nil {
				tag.Signal = uint32(ev) % 32
				tag.Locator = ev % 64
			}
			f.arrive(end{0, 0}, vt.Time(1000+int(ev)*1000), ev*77, payload, tag)
		}
		at := map[uint16]int{}
		for _, n := range []int{1, 2} { // what a spine gets is seen where it would go: there is no way on
			delete(f.peers, end{0, n})
		}
		f.run(1e9)
		for _, n := range []int{1, 2} {
			for _, g := range f.got[end{0, n}] {
				in, err := wire.ParseUET(g.B, 0)
				if err != nil {
					t.Fatal(err)
				}
				at[in.EV] = n
			}
		}
		return at
	}
	plain := path(nil, 100)
	if len(plain) != 300 {
		t.Fatalf("%d flows arrived", len(plain))
	}
	for _, tag := range []*wire.CSIGFields{{Type: wire.CSIGABW}, {Wide: true, Type: wire.CSIGDelay}, {Type: wire.CSIGQueue, Trimmed: true}} {
		for ev, n := range path(tag, 2000) {
			if n != plain[ev] {
				t.Errorf("%+v: EV %d takes port %d, without tag %d", tag, ev, n, plain[ev])
			}
		}
	}
}
