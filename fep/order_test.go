package fep

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// TestOrderAcrossPDCs sends ordered messages over PDCs that are replaced after a few packets each, while packets are lost: what goes to
// the next PDC does not overtake what is sent again on the one before.
func TestOrderAcrossPDCs(t *testing.T) {
	l := newLab(t, Config{PSNLimit: 10})
	lost := 0
	l.script = func(from int, b []byte) fate {
		if from == 0 && requests(from, firstUET(b)) {
			lost++
		}
		return fate{drop: from == 0 && requests(from, firstUET(b)) && lost%9 == 0}
	}
	const n = 40
	l.eps[0].SetOrdered(true)
	l.call(1, 1, func(now vt.Time) {
		for i := range uint64(n) {
			if err := l.eps[1].TagRecv(now, 0, make([]byte, 10_000), i, i); err != nil {
				t.Error(err)
			}
		}
	})
	l.call(0, 2, func(now vt.Time) {
		for i := range uint64(n) {
			if err := l.eps[0].TagSend(now, 1, fill(10_000, i), i, i); err != nil {
				t.Error(err)
			}
		}
	})
	l.run(vt.Time(10 * time.Second))
	if len(l.got[0]) != n || len(l.got[1]) != n || l.feps[0].C[PDCOpened] < 4 {
		t.Fatalf("%d messages sent, %d received, of %d, over %d PDCs", len(l.got[0]), len(l.got[1]), n, l.feps[0].C[PDCOpened])
	}
	for i, c := range l.got[1] {
		if c.Ctx != uint64(i) || c.Err != nil {
			t.Fatalf("message %d is the number %d to come: %+v", c.Ctx, i, c)
		}
	}
	l.checkEmpty()
}

// TestSlotBehindGap lets the answer that must not be lost of a later packet take the only slot. The packet below it needs one, too, and
// nothing clears that slot before the packet has been let in.
func TestSlotBehindGap(t *testing.T) {
	l := newLab(t, Config{GtdSlots: 1, PDCsPerKey: 1, MaxNackRetx: InfiniteNack})
	l.script = nth(0, fate{drop: true}, requests)
	l.call(0, 2, func(now vt.Time) {
		for i := range uint64(2) { // on one PDC; nobody receives them
			if err := l.eps[0].TagSend(now, 1, fill(10, i), i, i); err != nil {
				t.Error(err)
			}
		}
	})
	l.run(vt.Time(10 * time.Second))
	if len(l.got[0]) != 2 {
		t.Errorf("%d of 2 messages are answered", len(l.got[0]))
	}
	l.checkEmpty()
}
