package e2e

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
)

// TestPathsAreThoseTaken counts what an end point sends by entropy value and way, and compares with what arrived at the spines.
func TestPathsAreThoseTaken(t *testing.T) {
	needRoot(t)
	for _, lb := range []string{"reps", "oblivious", "mp-8", "fixed", "spray"} {
		l := up(t, writeFile(t, "managed.yaml", strings.Replace(managedTree, "reps", lb, 1)))
		p := decode[api.Paths](t, l.ok(t, "paths", "host0", "host4", "--evs", "100", "--format", "json"))
		if len(p.PDCs) != 0 || len(p.EVs) != 100 || len(p.Routes) != 2 || !p.Counts {
			t.Errorf("%s: before any PDC: %d PDCs, %d EVs, %+v", lb, len(p.PDCs), len(p.EVs), p.Routes)
		}
		var before map[string]uint64
		until(t, "a run to be looked at before its PDCs close", func() bool { // after 2 s: a busy machine may be too late
			before = l.counters(t)
			l.run(t, "sendrecv", "--ranks", "0,4", "--size", "1MiB", "--seed", "5")
			p = decode[api.Paths](t, l.ok(t, "paths", "host0", "host4", "--format", "json"))
			return len(p.PDCs) > 0
		})
		gained := minus(l.counters(t), before)
		total := uint64(0)
		for spine := range 2 {
			name, sent := fmt.Sprintf("spine%d", spine), uint64(0)
			for _, r := range p.Routes {
				if r.Route[1] == name {
					sent += r.Packets
				}
			}
			total += sent
			if came := gained[name+" eth1 rx_data_frames"]; sent != came { // eth1 leads to leaf0
				t.Errorf("%s: %d packets by way of %s, %d came there: %+v", lb, sent, name, came, p.Routes)
			}
		}
		if total < 256 {
			t.Errorf("%s: %d packets in all", lb, total)
		}
	}
}

// TestTraceOfWindows traces a run in two ways: they have the same changes, one since the lab came up, the other since the run's start.
func TestTraceOfWindows(t *testing.T) {
	needRoot(t)
	l := up(t, writeFile(t, "managed.yaml", managedTree))
	if a := l.do(t, "cc"); a.code != 0 || !strings.Contains(a.stdout, "no end point has a PDC open") {
		t.Error(a)
	}
	name := filepath.Join(t.TempDir(), "cwnd.csv")
	p := l.start(t, "cc", "--trace", name)
	until(t, "the trace to begin", func() bool { return strings.Contains(p.err.String(), "tracing") })
	r := l.run(t, "incast", "--size", "512KiB", "--every", "1ms")
	if a := p.wait(); a.code != 0 {
		t.Fatal(a)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	traced := map[string][][]string{}
	for _, row := range rows[1:] {
		key := row[1] + " " + row[2]
		traced[key] = append(traced[key], row)
	}
	if r.Series == nil || len(r.Series.Contexts) != 7 || len(traced) != 7 {
		t.Fatalf("%d contexts traced, series %v", len(traced), r.Series)
	}
	shift := int64(-1)
	for _, c := range r.Series.Contexts {
		got := traced[c.Node+" "+c.Peer]
		if len(got) != len(c.Points) || len(got) < 20 {
			t.Errorf("%s to %s: %d changes traced, %d in the series", c.Node, c.Peer, len(got), len(c.Points))
			continue
		}
		for i, x := range c.Points {
			at, err := strconv.ParseInt(got[i][0], 10, 64)
			if shift < 0 {
				shift = at - x.AtNs
			}
			want := []string{strconv.FormatInt(x.AtNs+shift, 10), c.Node, c.Peer, "0", strconv.FormatInt(x.Cwnd, 10), strconv.FormatInt(x.InFlight, 10),
				strconv.FormatInt(x.RTTNs, 10), strconv.FormatInt(x.DelayNs, 10), x.Decision}
			if err != nil || strings.Join(got[i], ",") != strings.Join(want, ",") {
				t.Fatalf("%s to %s, change %d: %v, want %v", c.Node, c.Peer, i, got[i], want)
			}
		}
	}
	page, err := l.api.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	metrics, err := io.ReadAll(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range decode[[]api.CC](t, l.ok(t, "cc", "--format", "json")) {
		if want := fmt.Sprintf("uetlab_cc_window_bytes{algorithm=\"nscc\",lab=%q,node=%q,peer=%q,tc=\"0\"}", l.name, x.Node, x.Peer); !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics have no %s", want)
		}
		points := traced[x.Node+" "+x.Peer]
		if last := points[len(points)-1]; last[4] != strconv.FormatInt(x.Cwnd, 10) || x.Acks == 0 || x.Algorithm != "nscc" {
			t.Errorf("%s to %s has a window of %d after %v", x.Node, x.Peer, x.Cwnd, last)
		}
	}
}
