package switchd

import (
	"bytes"
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// One of Sample frames is copied to the mirror port, of those that go out by From; the copies are what the others got.
func TestMirrorCopiesSamples(t *testing.T) {
	for _, c := range []struct {
		m    Mirror
		want int
	}{{Mirror{To: 3, Sample: 1, From: -1}, 40}, {Mirror{To: 3, Sample: 4, From: -1}, 10}, {Mirror{To: 3, Sample: 3, From: 1}, 13}, {Mirror{To: 3, Sample: 1, From: 2}, 0},
		{Mirror{To: 1, Sample: 1, From: -1}, 0}, {Mirror{To: -1, Sample: 1, From: -1}, 0}, {Mirror{To: 3}, 0}} {
		set := csigSettings()
		set.Mirror = c.m
		f := newFabric(t, set, [][]int64{{400, 400, 400, 400}})
		f.route(0, 1)
		for i := range 40 {
			f.arrive(end{0, 0}, vt.Time(1000+100*i), uint16(i), 100, nil)
		}
		f.run(1e9)
		sent, copies := f.got[end{0, 1}], f.got[end{0, 3}]
		if len(sent) != 40 || len(copies) != c.want {
			t.Errorf("%+v: %d sent, %d mirrored, want %d", c.m, len(sent), len(copies), c.want)
			continue
		}
		if c.m.To >= 0 {
			if n := f.nodes[0].Ports[c.m.To].C[link.Mirrored]; n != uint64(c.want) {
				t.Errorf("%+v: %d counted, want %d", c.m, n, c.want)
			}
		}
		for i, g := range copies {
			if of := sent[(i+1)*c.m.Sample-1]; !bytes.Equal(g.B, of.B) {
				t.Errorf("%+v: copy %d is\n%x, the frame\n%x", c.m, i, g.B, of.B)
			}
		}
		for _, g := range append(sent, copies...) {
			g.Release()
		}
		if n := f.nodes[0].Pool.Out(); n != 0 {
			t.Errorf("%d frames leaked", n)
		}
	}
}

func TestMirrorSettingsAreChecked(t *testing.T) {
	_, s := fan(t, "leaf0", 2, ECMP{})
	for _, m := range []Mirror{{To: 2, Sample: 1}, {To: 1, From: 2}, {To: 1, Sample: -1}} {
		if err := s.setMirror(&Settings{Mirror: m}); err == nil {
			t.Errorf("%+v is accepted", m)
		}
	}
}
