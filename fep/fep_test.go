package fep

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

func TestSizes(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		sizes := []int{0, 1, 4095, 4096, 4097, 1 << 20}
		if !testing.Short() && !v6 {
			sizes = append(sizes, 64<<20)
		}
		for _, n := range sizes {
			l := newLab(t, Config{IPv6: v6})
			l.exchange(n)
			if got := l.count(Retx); got != 0 {
				t.Errorf("%d bytes: %d retransmissions without loss", n, got)
			}
			l.leaks()
		}
	}
}

// TestLife is the trace of uet-pds-ses.md 4.6, without the Probe, which belongs to NSCC.
func TestLife(t *testing.T) {
	l := newLab(t, Config{})
	got := l.trace()
	l.exchange(100)
	l.exchange(200)
	l.run(vt.Time(10 * time.Second))
	wantLines(t, *got, []string{
		"0 RUD_REQ psn 0 clr -1 SYN off 0 AR",
		"1 ACK_CC cack 0 off 0 RESPONSE OK 100",
		"0 RUD_REQ psn 1 clr -1 AR",
		"1 ACK_CC cack 1 off 0 RESPONSE OK 200",
		"0 CLOSE_COMMAND psn 2 AR",
		"1 ACK_CC cack 2 off 0 NONE",
	})
	for i, f := range l.feps {
		if f.C[PDCOpened] != 1 || f.C[PDCClosed] != 1 || len(f.PDCs(nil)) != 0 {
			t.Errorf("node %d: opened %d, closed %d, left %v", i, f.C[PDCOpened], f.C[PDCClosed], f.PDCs(nil))
		}
	}
	l.leaks()
}
