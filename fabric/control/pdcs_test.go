package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
)

// withPDCs is a lab whose host0 has some, in two parts; the other end points have none.
func withPDCs(t *testing.T) *lab {
	t.Helper()
	t.Setenv(labdir.EnvDir, t.TempDir())
	dir, err := labdir.Create("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Remove() })
	l := newLab(t, "fat-tree-2x2", "auto")
	l.dir = dir
	l.connect()
	addr := func(name string) string { return l.plan.Nodes[l.id(name)].Addr4.String() }
	base := ctl.PDC{ID: 1, PeerID: 7, PeerAddr: addr("host3"), Role: ctl.RoleInitiator, Mode: "RUD", State: "established", RTTNs: 2500, RTTMinNs: 2000, InFlight: 100, Window: 900, Retx: 4}
	young, lone, closed, late, gone := base, base, base, base, base
	young.ID, young.State, young.RTTNs, young.PeerID = 2, "opening", 0, 0
	lone.ID, lone.Mode, lone.Role, lone.PeerAddr = 3, "ROD", ctl.RoleTarget, "192.0.2.9"
	closed.ID, closed.State, closed.Ended, closed.EndedNs = 4, "closed", true, 500
	late.ID, late.State, late.Ended, late.EndedNs, late.Error = 5, "failed", true, 2000, "the peer did not acknowledge in time"
	gone.ID, gone.State, gone.Ended, gone.EndedNs, gone.Error = 6, "failed", true, 900, "the peer sent NACK CLOSING"
	late2 := late
	late2.ID = 7
	for i, f := range l.fakes {
		f.mu.Lock()
		f.pdcs = func(from int) ctl.PDCs {
			switch {
			case i != l.id("host0"):
				return ctl.PDCs{List: []ctl.PDC{}}
			case from == 0:
				return ctl.PDCs{List: []ctl.PDC{base, young}, Next: 2, NacksTx: map[string]uint64{"TRIMMED": 3}, NacksRx: map[string]uint64{"CLOSING": 1}}
			}
			return ctl.PDCs{List: []ctl.PDC{lone, closed, gone, late, late2}}
		}
		f.mu.Unlock()
	}
	return l
}

func (l *lab) ask(path string) (int, string) {
	w := httptest.NewRecorder()
	l.handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

func TestPDCsAreListed(t *testing.T) {
	l := withPDCs(t)
	for path, want := range map[string]string{
		"/v1/pdcs":                    "1 host3, 2 host3, 3 192.0.2.9",
		"/v1/pdcs?node=host0&ended=1": "1 host3, 2 host3, 3 192.0.2.9, 4 host3, 6 host3, 5 host3, 7 host3",
		"/v1/pdcs?node=host1":         "",
	} {
		code, body := l.ask(path)
		var list []api.PDC
		if err := json.Unmarshal([]byte(body), &list); err != nil || list == nil || code != 200 {
			t.Fatalf("%s: %d %s, %v", path, code, body, err)
		}
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprintf("%d %s", p.ID, p.Peer))
			if p.Node != "host0" {
				t.Errorf("%+v", p)
			}
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s: %s, want %s", path, s, want)
		}
	}
	for path, code := range map[string]int{"/v1/pdcs?node=nobody": 404, "/v1/pdcs?node=leaf0": 400} {
		if got, body := l.ask(path); got != code {
			t.Errorf("%s: %d %s", path, got, body)
		}
	}
}

func TestPDCMetrics(t *testing.T) {
	l := withPDCs(t)
	_, body := l.ask("/metrics")
	for range 10 { // who does not answer in time is left out, which a busy machine may make of anybody
		if strings.Count(body, "uetlab_fep_pdcs_open{") == 4 {
			break
		}
		_, body = l.ask("/metrics")
	}
	for _, want := range []string{
		`uetlab_fep_pdcs_open{lab="test",node="host0"} 3`, `uetlab_fep_pdcs_open{lab="test",node="host1"} 0`,
		`uetlab_fep_pdcs_by_state{lab="test",mode="ROD",node="host0",role="target",state="established"} 1`,
		`uetlab_fep_pdcs_by_state{lab="test",mode="RUD",node="host0",role="initiator",state="opening"} 1`,
		`uetlab_fep_nacks_total{code="TRIMMED",direction="tx",lab="test",node="host0"} 3`,
		`uetlab_fep_nacks_total{code="CLOSING",direction="rx",lab="test",node="host0"} 1`,
		`uetlab_pdc_rtt_seconds{lab="test",node="host0",pdc="1",peer="host3",role="initiator"} 2.5e-06`,
		`uetlab_pdc_rtt_min_seconds{lab="test",node="host0",pdc="1",peer="host3",role="initiator"} 2e-06`,
		`uetlab_pdc_retx_total{lab="test",node="host0",pdc="3",peer="192.0.2.9",role="target"} 4`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for _, not := range []string{`pdc="2",peer="host3",role="initiator"} 0`, `uetlab_pdc_window_bytes{lab="test",node="host0",pdc="5"`, `state="failed"`} {
		if strings.Contains(body, not) {
			t.Errorf("there is %s", not)
		}
	}
}

// TestFailedPDCsAreEvents wants those of this run only, those of one peer and reason together, and what is not remembered as a number.
func TestFailedPDCsAreEvents(t *testing.T) {
	l := withPDCs(t)
	before := l.failedPDCs()
	l.tellPDCs(context.Background(), 1000, before)
	l.pages[l.id("host0")].FEP[fep.PDCFailed].Store(5)
	l.tellPDCs(context.Background(), 1000, before)
	l.pages[l.id("host1")].FEP[fep.PDCFailed].Store(1) // forgets which
	before[l.id("host0")] = 5
	l.tellPDCs(context.Background(), 1000, before)
	events, _ := l.events.since(0)
	const want = "2 RUD PDCs with host3 failed: the peer did not acknowledge in time; 3 more failed"
	if len(events) != 2 || events[0].Kind != "pdc" || events[0].Node != "host0" || events[0].Text != want || events[1].Node != "host1" || events[1].Text != "1 PDC failed" {
		t.Errorf("%+v", events)
	}
}

func TestFailuresAreFew(t *testing.T) {
	l := newLab(t, "fat-tree-2x2", "auto")
	var list []ctl.PDC
	for i := range 10 {
		for range i/2 + 1 {
			list = append(list, ctl.PDC{PeerAddr: fmt.Sprint("peer", i), Mode: "ROD", State: "failed", Error: "no", EndedNs: 5})
		}
	}
	got := l.failures(list, 5, uint64(len(list)))
	want := []string{"5 ROD PDCs with peer8 failed: no", "5 ROD PDCs with peer9 failed: no", "4 ROD PDCs with peer6 failed: no; 16 more failed"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := l.failures(list[:1], 5, 1); len(got) != 1 || got[0] != "1 ROD PDC with peer0 failed: no" {
		t.Errorf("%q", got)
	}
	if got := l.failures(list, 6, 3); len(got) != 1 || got[0] != "3 PDCs failed" {
		t.Errorf("of another run: %q", got)
	}
}
