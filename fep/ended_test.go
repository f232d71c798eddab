package fep

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// ended describes the PDCs of an end point that have ended.
func (l *lab) ended(i int) []PDCInfo { return l.feps[i].EndedPDCs(nil) }

// TestEndedPDCsAreRemembered closes a PDC after its idle time, and looks at both ends at each moment.
func TestEndedPDCsAreRemembered(t *testing.T) {
	l := newLab(t, Config{})
	l.exchange(5 * 4096)
	l.run(vt.Time(10 * time.Second)) // both ends close
	for i, initiator := range []bool{true, false} {
		got := l.ended(i)
		if len(got) != 1 || len(l.feps[i].PDCs(nil)) != 0 {
			t.Fatalf("node %d remembers %+v", i, got)
		}
		p := got[0]
		if p.End != pds.EndClosed || p.State != pds.Closed || p.Code != 0 || p.Initiator != initiator || p.Peer != l.feps[1-i].Addr() || p.Job != testJob {
			t.Errorf("node %d: %+v", i, p)
		}
		if s := p.Start; initiator && (p.Tx.Next != s+6 || p.Tx.Clear != s+5) { // 5 packets and the Close Command
			t.Errorf("node %d: start %d, %+v", i, s, p.Tx)
		}
		if s := p.Start; !initiator && (p.Rx.Max != s+4 || p.Rx.CACK != s+4) {
			t.Errorf("node %d: start %d, %+v", i, s, p.Rx)
		}
		if age := time.Duration(p.Ended) - p.Age; p.Age < 2*time.Second || age < 0 || age > time.Millisecond {
			t.Errorf("node %d: age %v at %v", i, p.Age, p.Ended)
		}
	}
	l.feps[0].Reset(l.nodes[0].Now())
	if len(l.ended(0)) != 1 {
		t.Error("forgotten by Reset")
	}
}

// TestLingeringIsNotEnded wants a PDC that answers stragglers only in one list, with how it ended.
func TestLingeringIsNotEnded(t *testing.T) {
	l := newLab(t, Config{Hold: time.Hour})
	l.call(0, 1, func(now vt.Time) {
		if err := l.eps[0].TagSend(now, 1, make([]byte, 100), 5, 22); err != nil {
			t.Error(err)
		}
	})
	l.run(vt.Time(10 * time.Second))
	live := l.feps[1].PDCs(nil)
	if len(live) != 1 || live[0].State != pds.Linger || live[0].End != pds.EndClosed || live[0].Ended == 0 || len(l.ended(1)) != 0 {
		t.Errorf("%+v, ended %+v", live, l.ended(1))
	}
}

// TestFailuresAreRemembered fails more PDCs than are remembered, and wants the latest, in their order, each with its reason.
func TestFailuresAreRemembered(t *testing.T) {
	l := newLab(t, Config{PDCsPerKey: 1})
	l.script = func(int, []byte) fate { return fate{drop: true} }
	const n = 20
	for i := range n {
		l.call(0, max(l.nodes[0].Now(), 0)+1, func(now vt.Time) {
			if err := l.eps[0].TagSend(now, 1, make([]byte, 100), 5, uint64(i)); err != nil {
				t.Error(err)
			}
		})
		l.run(l.nodes[0].Now().Add(100 * time.Millisecond))
	}
	got := l.ended(0)
	if l.count(PDCFailed) != n || len(got) != 16 {
		t.Fatalf("%d failed, %d remembered", l.count(PDCFailed), len(got))
	}
	for k, p := range got {
		if p.End != pds.EndFailed || p.Code != 0 || p.PeerID != 0 || p.RetxBy[pds.CauseRTO] != 5 || k > 0 && p.Ended <= got[k-1].Ended {
			t.Errorf("%d: %+v", k, p)
		}
	}
}

// TestNacksAreCountedByCode trims one packet.
func TestNacksAreCountedByCode(t *testing.T) {
	l := newLab(t, Config{PDCsPerKey: 1})
	trimmed := false
	l.script = func(from int, b []byte) fate {
		if _, u := uet(b); from == 0 && !trimmed && wire.Prologue(u).Type().IsRequest() {
			trimmed = true
			wire.IPv4(b[wire.EthLen:]).SetDSCP(34)
		}
		return fate{}
	}
	l.exchange(3 * 4096)
	for i, f := range l.feps {
		var tx, rx uint64
		f.PDS().Nacks(func(code wire.NackCode, t, r uint64) {
			if code == wire.NackTrimmed {
				tx, rx = t, r
			} else {
				l.t.Errorf("node %d: %d, %d NACKs %v", i, t, r, code)
			}
		})
		if want := uint64(i); tx != want || rx != 1-want || f.C[NackTxTrim] != tx || f.C[NackRxTrim] != rx {
			t.Errorf("node %d: %d NACKs sent, %d received", i, tx, rx)
		}
	}
}
