package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/workload"
)

// TestPlainHosts has programs of this machine talk across a fabric of plain hosts: ping over both families, TCP, and
// tcpdump on a switch.
func TestPlainHosts(t *testing.T) {
	needRoot(t)
	needTools(t, "ping", "iperf3", "tcpdump")
	l := up(t, "hosts-2x2", "--time", "real")
	from, to := "host0", l.plan.Nodes[nodeID(t, l, "host3")]
	for _, addr := range []string{to.Addr4.String(), to.Addr6.String()} {
		out := l.ok(t, "exec", from, "--", "ping", "-n", "-c", "5", "-i", "0.05", "-w", "20", addr)
		if !strings.Contains(out, "5 received") || !strings.Contains(out, " 0% packet loss") {
			t.Errorf("ping %s:\n%s", addr, out)
		}
	}
	leaf := l.plan.Nodes[nodeID(t, l, "leaf1")]
	for _, addr := range []string{leaf.Addr4.String(), leaf.Addr6.String()} {
		if out := l.ok(t, "exec", from, "--", "ping", "-n", "-c", "2", "-i", "0.05", "-w", "20", addr); !strings.Contains(out, "2 received") {
			t.Errorf("ping to switch address %s:\n%s", addr, out)
		}
	}

	server := l.start(t, "exec", to.Name, "--", "iperf3", "-s", "-1", "--forceflush")
	until(t, "the iperf3 server to listen", func() bool {
		return server.ended() || strings.Contains(l.do(t, "exec", to.Name, "--", "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout, ":1451 ")
	})
	out := l.ok(t, "exec", from, "--", "iperf3", "-c", to.Addr4.String(), "-n", "20M", "-J")
	var r struct {
		End struct {
			Received struct {
				Bytes         int64   `json:"bytes"`
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	// The client ends the test while the last bytes are still under way.
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.End.Received.Bytes < 10<<20 {
		t.Errorf("iperf3: %v: %d bytes received:\n%s", err, r.End.Received.Bytes, out)
	}
	t.Logf("iperf3 over a 1 Gb/s fabric: %.0f Mb/s", r.End.Received.BitsPerSecond/1e6)
	if a := server.wait(); a.code != 0 {
		t.Error(a)
	}

	sniff := l.start(t, "exec", "leaf0", "--", "tcpdump", "-ni", "eth1", "-c", "3")
	until(t, "tcpdump to listen", func() bool { return sniff.ended() || strings.Contains(sniff.err.String(), "listening on eth1") })
	l.ok(t, "exec", from, "--", "ping", "-n", "-c", "4", "-i", "0.05", "-w", "20", to.Addr4.String())
	// The hosts' own IPv6 has something to say as well.
	if a := sniff.wait(); a.code != 0 || !strings.Contains(a.stdout, "ICMP echo") || !strings.Contains(a.stderr, "3 packets captured") {
		t.Errorf("tcpdump in leaf0: %v", a)
	}
	// The project's own tcpdump takes hosts' traffic too.
	p := l.start(t, "tcpdump", "host0-leaf0", "-c", "2", "icmp")
	for !p.ended() {
		l.ok(t, "exec", from, "--", "ping", "-n", "-c", "2", "-i", "0.05", "-w", "20", to.Addr4.String())
	}
	if a := p.wait(); a.code != 0 || strings.Count(strings.ToLower(a.stdout), "icmp") != 2 {
		t.Errorf("uetlab tcpdump of hosts: %v", a)
	}
}

const mixed = `name: mixed
fabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 2}
defaults:
  link: {rate: 1Gbps, delay: 10us, mtu: 1500}
  switch: {latency: 500ns, buffer: 512KiB}
nodes:
  host0: {kind: host}
`

// TestMixedLab has a plain host ping switches and end points, and end points run beside it.
func TestMixedLab(t *testing.T) {
	needRoot(t)
	needTools(t, "ping")
	file := filepath.Join(t.TempDir(), "mixed.yaml")
	if err := os.WriteFile(file, []byte(mixed), 0o600); err != nil {
		t.Fatal(err)
	}
	l := up(t, file, "--time", "real")
	for _, node := range []string{"leaf0", "spine0", "leaf1", "host1", "host3"} {
		n := l.plan.Nodes[nodeID(t, l, node)]
		for _, addr := range []string{n.Addr4.String(), n.Addr6.String()} {
			if a := l.do(t, "exec", "host0", "--", "ping", "-n", "-c", "2", "-i", "0.05", "-w", "20", addr); a.code != 0 {
				t.Errorf("ping from host0 to %s: %v", node, a)
			}
		}
	}
	a := l.do(t, "run", "sendrecv", "--size", "16KiB", "--check", "--format", "json")
	if a.code != 0 {
		t.Fatal(a)
	}
	if r := decode[workload.Result](t, a.stdout); r.Ranks != 3 || r.Fidelity.Verdict != "real" || r.Correct == nil || !*r.Correct {
		t.Errorf("a run in real time: %+v", r)
	}
	if a := l.do(t, "clock", "pause"); a.code != 5 {
		t.Errorf("clock pause with --time real: %v", a)
	}
}
