package link

import (
	"reflect"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

// TestSeries plays events by hand against a series of four intervals of 100 ns.
func TestSeries(t *testing.T) {
	type event struct {
		at   vt.Time
		wait int64 // -1: sends
		size int
	}
	for _, c := range []struct {
		name        string
		begin       int64 // waits already
		events      []event
		depth, sent []int64
		left        int64
	}{
		{"nothing", 0, nil, []int64{}, []int64{}, 0},
		{"the most of each interval", 0, []event{{1000, 50, 0}, {1010, 200, 0}, {1020, 80, 0}, {1150, 120, 0}}, []int64{200, 120}, []int64{0, 0}, 0},
		{"what waits goes on to wait", 0, []event{{1050, 70, 0}, {1350, 0, 0}}, []int64{70, 70, 70, 70}, []int64{0, 0, 0, 0}, 0},
		{"from before", 30, []event{{1250, 0, 0}}, []int64{30, 30, 30}, []int64{0, 0, 0}, 0},
		{"line bytes, least frame", 0, []event{{1099, -1, 40}, {1100, -1, 1000}, {1199, -1, 1000}}, []int64{0, 0}, []int64{84, 2 * 1024}, 0},
		{"empty end", 0, []event{{1000, -1, 60}, {1310, 0, 0}}, []int64{0}, []int64{84}, 0},
		{"no room", 0, []event{{1390, 10, 0}, {1400, 0, 0}, {1410, -1, 60}, {1420, -1, 60}, {1500, 0, 0}, {1600, 9, 0}}, []int64{0, 0, 0, 10}, []int64{0, 0, 0, 0}, 2},
		{"no room, and all the while something waits", 0, []event{{1399, 10, 0}, {1850, 20, 0}, {1999, 0, 0}}, []int64{0, 0, 0, 10}, []int64{0, 0, 0, 0}, 6},
	} {
		s := &Series{start: 1000, every: 100, most: 4, cur: -1, waits: c.begin}
		for _, e := range c.events {
			if e.wait < 0 {
				s.send(e.at, e.size)
			} else {
				s.wait(e.at, e.wait)
			}
		}
		depth, sent := s.Whole()
		if !reflect.DeepEqual(append([]int64{}, depth...), c.depth) || !reflect.DeepEqual(append([]int64{}, sent...), c.sent) || s.LeftOut != c.left {
			t.Errorf("%s: %v %v, %d left out, want %v %v %d", c.name, depth, sent, s.LeftOut, c.depth, c.sent, c.left)
		}
	}
}
