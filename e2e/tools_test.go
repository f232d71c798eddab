package e2e

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
)

// TestExec runs commands in nodes: exit codes, streams, signals, and what they see.
func TestExec(t *testing.T) {
	l := sharedLab(t)
	for _, c := range []struct {
		argv []string
		code int
	}{
		{[]string{"true"}, 0}, {[]string{"sh", "-c", "exit 7"}, 7}, {[]string{"sh", "-c", "exit 255"}, 255},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143}, {[]string{"/no/such/program"}, api.CodeExecMissing},
		{[]string{"no-such-program"}, api.CodeExecMissing}, {[]string{"/etc"}, api.CodeExecDenied},
	} {
		if a := l.do(t, append([]string{"exec", "host1", "--"}, c.argv...)...); a.code != c.code {
			t.Errorf("want exit code %d: %v", c.code, a)
		}
	}
	p := spawn(t, func(c *exec.Cmd) { c.Stdin = strings.NewReader("one\ntwo\n") }, "exec", "host1", "--name", l.name, "--", "sh", "-c", "cat; echo err >&2")
	if a := p.wait(); a.code != 0 || a.stdout != "one\ntwo\n" || a.stderr != "err\n" {
		t.Errorf("streams: %v", a)
	}
	out := l.ok(t, "exec", "leaf0", "--", "cat", "/proc/net/dev")
	for _, port := range []string{"eth1:", "eth2:", "eth3:", "eth4:"} {
		if !strings.Contains(out, port) {
			t.Errorf("leaf0 has no %s\n%s", port, out)
		}
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := l.start(t, "exec", "host1", "--", "sh", "-c", "trap 'echo caught; exit 9' INT TERM; echo ready >&2; while :; do sleep 0.02; done")
		until(t, "the command to be ready", func() bool { return p.ended() || strings.Contains(p.err.String(), "ready") })
		p.signal(t, s)
		if a := p.wait(); a.code != 9 || !strings.Contains(a.stdout, "caught") {
			t.Errorf("%v: %v", s, a)
		}
	}
	// A command whose client is killed ends with it.
	q := l.start(t, "exec", "host1", "--", "sleep", "98765")
	sleeps := func() bool {
		return strings.Contains(l.ok(t, "exec", "host1", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"), "sleep 98765")
	}
	until(t, "the sleep to begin", func() bool { return q.ended() || sleeps() })
	q.kill()
	until(t, "the sleep to end", func() bool { return !sleeps() })
}

// TestStatsEventsLogs reads what a lab tells of itself.
func TestStatsEventsLogs(t *testing.T) {
	l := sharedLab(t)
	before := l.counters(t)
	r := l.run(t, "sendrecv", "--size", "64KiB", "--seed", "11")
	gained := minus(l.counters(t), before)
	if got := dataSent(gained); got != r.Packets {
		t.Errorf("end points count %d data packets, the result %d", got, r.Packets)
	}
	if got := sum(gained, func(_, port, counter string) bool { return port != "fep" && counter == "rx_frames" }); got != r.PacketHops {
		t.Errorf("ports count %d frames, the result %d", got, r.PacketHops)
	}
	one := decode[[]api.NodeStats](t, l.ok(t, "stats", "host0", "--format", "json"))
	if len(one) != 1 || one[0].Name != "host0" || len(one[0].Ports) != 1 || len(one[0].FEP) == 0 {
		t.Errorf("stats host0: %+v", one)
	}
	if out := l.ok(t, "stats"); !strings.Contains(out, "leaf3") || !strings.Contains(out, "eth4") {
		t.Errorf("stats:\n%s", out)
	}

	p := l.start(t, "events", "-f", "--format", "json")
	l.ok(t, "link", "fail", "leaf3-spine1")
	l.ok(t, "link", "restore", "leaf3-spine1")
	var kinds []string
	for last, line := range strings.Split(strings.TrimSpace(l.ok(t, "events", "--format", "json")), "\n") {
		var e api.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != uint64(last)+1 {
			t.Fatalf("event %d: %v: %s", last+1, err, line)
		}
		kinds = append(kinds, e.Kind+" "+e.Link)
	}
	if all := strings.Join(kinds, ","); !strings.HasPrefix(all, "lab ") || !strings.HasSuffix(all, "link leaf3-spine1,link leaf3-spine1") || !strings.Contains(all, "run ") {
		t.Errorf("events: %s", all)
	}
	p.signal(t, syscall.SIGINT)
	if a := p.wait(); a.code != 0 && a.code != api.CodeInterrupted {
		t.Errorf("events -f: %v", a)
	}
	if a := l.do(t, "logs", "leaf0"); a.code != 0 {
		t.Error(a)
	}
	var states []api.NodeStatus
	for _, s := range decode[[]api.NodeStatus](t, l.ok(t, "ps", "--format", "json")) {
		if s.State != api.NodeUp || s.Pid == 0 || (s.Container != "") != (runtime == "docker") {
			t.Errorf("ps: %+v", s)
		}
		states = append(states, s)
	}
	if len(states) != 14 {
		t.Errorf("ps lists %d nodes", len(states))
	}
	for _, what := range []string{"", "leaf0", "host7", "leaf0-spine1", "leaf0:eth3"} {
		args := []string{"inspect", "--format", "json"}
		if what != "" {
			args = append(args, what)
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(l.ok(t, args...)), &v); err != nil || len(v) == 0 {
			t.Errorf("inspect %s: %v", what, err)
		}
	}
}

// TestSweep runs several sizes at once.
func TestSweep(t *testing.T) {
	l := sharedLab(t)
	rs := decode[[]workload.Result](t, l.ok(t, "run", "alltoall", "--size", "8:2K:16", "--check", "--format", "json"))
	for i, size := range []int64{8, 128, 2048} {
		if i >= len(rs) || rs[i].SizeBytes != size || rs[i].Correct == nil || !*rs[i].Correct || rs[i].Fidelity.Verdict != "exact" {
			t.Fatalf("a sweep from 8 to 2048: %+v", rs)
		}
	}
}

// TestMetrics parses the metrics page and wants every node and port on it.
func TestMetrics(t *testing.T) {
	l := sharedLab(t)
	l.run(t, "sendrecv", "--size", "4KiB")
	page, err := l.api.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		t.Fatal(err)
	}
	value := func(family string, labels map[string]string) (float64, bool) {
		f := families[family]
		if f == nil {
			return 0, false
		}
		for _, m := range f.Metric {
			if has(m, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue(), true
			}
		}
		return 0, false
	}
	counters := l.counters(t)
	for _, n := range l.plan.Nodes {
		if v, ok := value("uetlab_node_up", map[string]string{"lab": l.name, "node": n.Name}); !ok || v != 1 {
			t.Errorf("node %s is not up in the metrics: %v %v", n.Name, v, ok)
		}
		if v, ok := value("uetlab_node_late_frames_total", map[string]string{"node": n.Name}); !ok || v != 0 {
			t.Errorf("node %s: late frames %v %v", n.Name, v, ok)
		}
		for _, p := range n.Ports {
			labels := map[string]string{"lab": l.name, "node": n.Name, "port": p.Name, "link": l.plan.Links[p.Link].Name}
			for _, c := range []string{"tx_frames", "rx_frames", "tx_bytes", "rx_bytes"} {
				want := float64(counters[n.Name+" "+p.Name+" "+c])
				if v, ok := value("uetlab_port_"+c+"_total", labels); !ok || v != want {
					t.Errorf("%s:%s %s is %v (%v) in the metrics, %v in the statistics", n.Name, p.Name, c, v, ok, want)
				}
			}
			labels["reason"] = "queue_full"
			if _, ok := value("uetlab_port_drops_total", labels); !ok {
				t.Errorf("no metric of drops at %s:%s", n.Name, p.Name)
			}
		}
		if n.Kind == topology.KindFEP {
			if v, ok := value("uetlab_fep_data_tx_total", map[string]string{"node": n.Name}); !ok || v == 0 {
				t.Errorf("data packets of %s: %v %v", n.Name, v, ok)
			}
		}
	}
	if families["uetlab_port_tx_frames_total"].GetType() != dto.MetricType_COUNTER || families["uetlab_queue_bytes"].GetType() != dto.MetricType_GAUGE {
		t.Error("frames sent are no counter, or bytes in the queue no gauge")
	}
}

func has(m *dto.Metric, labels map[string]string) bool {
	n := 0
	for _, l := range m.Label {
		if want, ok := labels[l.GetName()]; ok && want == l.GetValue() {
			n++
		}
	}
	return n == len(labels)
}
