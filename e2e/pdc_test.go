package e2e

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/workload"
)

func (l *lab) pdcs(t testing.TB, args ...string) []api.PDC {
	t.Helper()
	return decode[[]api.PDC](t, l.ok(t, append([]string{"pdc", "--format", "json"}, args...)...))
}

// TestPDCsOfARun looks at PDCs in the middle of a run and after their idle time.
func TestPDCsOfARun(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	l.clockTo(t, "pause")
	l.clockTo(t, "step", "5s") // PDCs of earlier runs close
	if out := l.ok(t, "pdc"); out != "no PDCs: no end point has one open; --all lists those that have ended\n" {
		t.Errorf("before a run: %q", out)
	}
	began := l.clock(t).NowNs // an earlier run with the same seed had the same PDCIDs and PSNs
	p := l.startRun(t, "permutation", "--size", "2MiB", "--seed", "1")
	until(t, "the run to begin", func() bool { return p.ended() || l.running(t) })
	l.clockTo(t, "step", "20us")

	list := l.pdcs(t)
	byID := map[string]map[uint16]api.PDC{}
	for _, d := range list {
		if byID[d.Node] == nil {
			byID[d.Node] = map[uint16]api.PDC{}
		}
		byID[d.Node][d.ID] = d
	}
	senders := 0
	for _, d := range list {
		if d.Mode != "RUD" || d.Ended || d.Error != "" || d.AgeNs <= 0 || d.AgeNs > 20_000 || d.IdleNs < 0 || d.IdleNs > d.AgeNs {
			t.Errorf("%+v", d)
		}
		if d.Role != ctl.RoleInitiator {
			if d.State != "established" || byID[d.Peer][d.PeerID].PeerID != d.ID {
				t.Errorf("%s has a target's PDC %+v, %s says %+v", d.Node, d, d.Peer, byID[d.Peer][d.PeerID])
			}
			continue
		}
		senders++
		sent := func(psn uint32) int32 { return int32(psn + 1 - d.StartPSN) }
		if d.State != "established" || d.RTTNs < d.RTTMinNs || d.RTTMinNs <= 0 || d.RTTNs > 20_000 {
			t.Errorf("%+v", d)
		}
		if c, k, n := sent(d.Tx.Clear), sent(d.Tx.CACK), sent(d.Tx.Next)-1; c <= 0 || c > k || k > n || n > k+d.Tx.MPR || n >= 512 {
			t.Errorf("%d sent, %d acknowledged, %d cleared: %+v", n, k, c, d)
		}
		if d.InFlight <= 0 || d.InFlight > d.Window+int64(l.plan.PayloadMTU) || d.Tx.Unacked <= 0 || d.Messages != 1 {
			t.Errorf("%+v", d)
		}
		if far := byID[d.Peer][d.PeerID]; far.Role != ctl.RoleTarget || far.PeerID != d.ID || far.StartPSN != d.StartPSN || sent(far.Rx.CACK) < sent(d.Tx.CACK) || sent(far.Rx.Next) > sent(d.Tx.Next) {
			t.Errorf("%s has %+v, %s has %+v", d.Node, d, d.Peer, far)
		}
	}
	if senders != 8 || len(list) != 16 {
		t.Errorf("%d PDCs, %d of them initiators', with 8 senders", len(list), senders)
	}
	if one := l.pdcs(t, "host3"); len(one) != 2 || one[0].Node != "host3" || one[1].Node != "host3" {
		t.Errorf("of host3: %+v", one)
	}
	if out := l.ok(t, "inspect", "host3"); !strings.Contains(out, "established") || !strings.Contains(out, "PEER PDC") {
		t.Errorf("inspect says nothing of PDCs:\n%s", out)
	}
	l.wantMetric(t, `uetlab_fep_pdcs_by_state{lab="`+l.name+`",mode="RUD",node="host3",role="initiator",state="established"} 1`)
	l.wantMetric(t, `uetlab_pdc_rtt_seconds{lab="`+l.name+`",node="host3"`)

	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Permutation, Size: 2 << 20, Iters: 1, Seed: 1}, nil)
	l.clockTo(t, "resume")
	same(t, "a run whose PDCs were looked at", result(t, p), want)
	l.clockTo(t, "pause")
	l.clockTo(t, "step", "5s")
	if left := l.pdcs(t); len(left) != 0 {
		t.Errorf("left after the idle time: %+v", left)
	}
	closed := map[string]int{}
	for _, d := range l.pdcs(t, "--state", "closed") {
		if old, ok := byID[d.Node][d.ID]; ok && old.StartPSN == d.StartPSN && d.EndedNs > began {
			closed[d.Node]++
			if d.Role == ctl.RoleInitiator && (d.Tx.Next-d.StartPSN != 513 || d.Tx.Clear+1 != d.Tx.Next || d.InFlight != 0 || d.AgeNs < int64(2*time.Second)) {
				t.Errorf("closed with %+v", d)
			}
		}
	}
	for node, n := range closed {
		if n != 2 {
			t.Errorf("%s has closed %d of 2 PDCs", node, n)
		}
	}
	if len(closed) != 8 {
		t.Errorf("closed: %v", closed)
	}
}

func (l *lab) wantMetric(t testing.TB, what string) {
	t.Helper()
	rc, err := l.api.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil || !strings.Contains(string(b), what) {
		t.Errorf("/metrics has no %s, %v", what, err)
	}
}

// TestFailedPDCSaysWhy sends to a peer that cannot be reached.
func TestFailedPDCSaysWhy(t *testing.T) {
	needRoot(t)
	l := up(t, "pair")
	link := l.plan.Links[0].Name
	a, b := l.plan.Nodes[l.plan.Links[0].A.Node].Name, l.plan.Nodes[l.plan.Links[0].B.Node].Name
	l.ok(t, "link", "set", link, "blackhole")
	if r := l.do(t, "run", "sendrecv", "--size", "64KiB"); r.code == 0 || !strings.Contains(r.stderr, "did not acknowledge in time") {
		t.Errorf("a run over a blackhole: %v", r)
	}
	failed := l.pdcs(t, "--state", "failed")
	if len(failed) == 0 {
		t.Fatalf("no PDC has failed: %+v", l.pdcs(t, "--all"))
	}
	for _, d := range failed {
		if d.Node != a && d.Node != b || d.Peer == d.Node || d.Error != "the peer did not acknowledge in time" || d.PeerID != 0 || d.RetxBy["rto"] == 0 || d.AgeNs < int64(63*time.Millisecond) {
			t.Errorf("%+v", d)
		}
	}
	if out := l.ok(t, "pdc", "--all"); !strings.Contains(out, "the peer did not acknowledge in time") || !strings.Contains(out, "rto=") {
		t.Errorf("the table does not say why:\n%s", out)
	}
	var events []api.Event
	if err := l.api.Events(context.Background(), false, func(e api.Event) error {
		if e.Kind == "pdc" {
			events = append(events, e)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(events) == 0 || len(events) > 2 || events[0].Node != failed[0].Node || !strings.Contains(events[0].Text, "with "+failed[0].Peer+" failed: the peer did not acknowledge in time") {
		t.Errorf("events: %+v", events)
	}
}
