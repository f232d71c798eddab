package topology

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func htsimPlan(t *testing.T, file string) (*Spec, *Plan) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "htsim", file))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseHTSim(file, b)
	if err != nil {
		t.Fatal(err)
	}
	p, err := BuildPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

// TestHTSimFiles compares sizes and BDPs with those that htsim reports for the same files (htsim-baselines), within 3 %
// for the size of headers.
func TestHTSimFiles(t *testing.T) {
	for _, c := range []struct {
		file         string
		hosts, nodes int
		links        int
		rtt          time.Duration // 0: not known
		bdp          float64
	}{
		{"ls16.topo", 16, 24, 32, 9350 * time.Nanosecond, 117e3},
		{"ls32.topo", 32, 44, 64, 9350 * time.Nanosecond, 117e3},
		{"ls64.topo", 64, 80, 128, 9350 * time.Nanosecond, 117e3},
		{"ls32_400g.topo", 32, 44, 64, 0, 0},
		{"ls32_roce.topo", 32, 44, 64, 9350 * time.Nanosecond, 117e3},
		{"ls32_200m.topo", 32, 44, 64, 0, 0},
		{"ls32_200m_50us.topo", 32, 44, 64, 0, 0},
		{"toy.topo", 64, 82, 96, 9350 * time.Nanosecond, 117e3},
		{"ft128.topo", 128, 208, 384, 14020 * time.Nanosecond, 175e3},
		{"ft128_400g.topo", 128, 208, 384, 12510 * time.Nanosecond, 625e3},
		{"ft128_800g.topo", 128, 208, 384, 12250 * time.Nanosecond, 1225e3},
	} {
		s, p := htsimPlan(t, c.file)
		hosts := 0
		for _, n := range p.Nodes {
			if n.Kind == KindFEP {
				if n.Name != fmt.Sprintf("host%d", hosts) {
					t.Errorf("%s: end point %d is called %s", c.file, hosts, n.Name)
				}
				hosts++
			}
		}
		if hosts != c.hosts || len(p.Nodes) != c.nodes || len(p.Links) != c.links {
			t.Errorf("%s: %d hosts, %d nodes, %d links, want %+v", c.file, hosts, len(p.Nodes), len(p.Links), c)
		}
		if s.Fabric == nil {
			t.Errorf("%s: no fabric, though it is exactly one", c.file)
		}
		if c.rtt > 0 && (math.Abs(float64(p.BaseRTT)/float64(c.rtt)-1) > 0.03 || math.Abs(float64(p.BDP)/c.bdp-1) > 0.03) {
			t.Errorf("%s: base RTT %v, BDP %d, want %v and %v within 3 %%", c.file, p.BaseRTT, p.BDP, c.rtt, c.bdp)
		}
		if p.PayloadMTU != 4096 {
			t.Errorf("%s: payload %d", c.file, p.PayloadMTU)
		}
	}
}

func TestHTSimParameters(t *testing.T) {
	_, p := htsimPlan(t, "ls32_roce.topo")
	leaf, spine := &p.Nodes[p.find(t, "leaf0")], &p.Nodes[p.find(t, "spine0")]
	if leaf.Ports[0].Queue != 4_150_000 || spine.Ports[0].Queue == 4_150_000 || leaf.Latency != 0 {
		t.Errorf("leaf %d B, latency %v; spine %d B", leaf.Ports[0].Queue, leaf.Latency, spine.Ports[0].Queue)
	}
	_, p = htsimPlan(t, "ls32_200m.topo")
	if l := p.Links[0]; l.Rate != 200_000_000 || l.Delay != 500*time.Microsecond {
		t.Errorf("link %+v", l)
	}
	if s, err := ParseHTSim("a/B_c.topo", []byte(htsimThree)); err != nil || s.Name != "b-c" || s.Description != "three tiers" {
		t.Errorf("%v: %+v", err, s)
	}
}

func (p *Plan) find(t *testing.T, name string) int {
	t.Helper()
	for i, n := range p.Nodes {
		if n.Name == name {
			return i
		}
	}
	t.Fatalf("no node %s", name)
	return 0
}

// htsimThree has 16 hosts in 2 pods of 4 edges, 2 aggs with bundles of 2 upwards of each edge, and 3 cores for each agg.
const htsimThree = `# three tiers
Nodes 16
Tiers 3
Podsize 8
Tier 0
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 1000
Switch_Latency_ns 10
Tier 1
downlink_speed_gbps 50
Radix_Down 8
Radix_Up 3
Downlink_Latency_ns 2000
Bundle 2
Queue_Up 50000
Queue_Down 50000
Oversubscribed 2
Tier 2
Downlink_speed_Gbps 66.666
Radix_Down 2
Downlink_Latency_ns 3000
`

func TestHTSimUnevenTree(t *testing.T) {
	s, err := ParseHTSim("x.topo", []byte(htsimThree))
	if err != nil {
		t.Fatal(err)
	}
	p, err := BuildPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Nodes) != 16+8+4+6 || len(p.Links) != 16+8*4+4*3 || s.Fabric != nil {
		t.Errorf("%d nodes, %d links", len(p.Nodes), len(p.Links))
	}
	for name, tier := range map[string]int{"host15": 0, "edge7": 1, "agg3": 2, "core5": 3} {
		if n := p.Nodes[p.find(t, name)]; n.Tier != tier {
			t.Errorf("%s is in tier %d, want %d", name, n.Tier, tier)
		}
	}
	agg := p.Nodes[p.find(t, "agg2")]
	if len(agg.Ports) != 8+3 || agg.Ports[0].Queue != 50_000 || agg.Ports[0].Rate != 50e9 || agg.Ports[0].Delay != 2*time.Microsecond {
		t.Errorf("agg2: %d ports, %+v", len(agg.Ports), agg.Ports[0])
	}
	if l := p.Links[len(p.Links)-1]; l.Rate != 66_666_000_000 || l.Delay != 3*time.Microsecond {
		t.Errorf("link %+v", l)
	}
}

func TestHTSimProblems(t *testing.T) {
	base, err := os.ReadFile("testdata/htsim/ls16.topo")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"Radix_Up 4", "Radix_Upp 4", `x.topo:8:1: key (Radix_Upp): there is none of that name in Tier 0; did you mean "Radix_Up"?`},
		{"Podsize 16", "Podsise 16", `x.topo:4:1: key (Podsise): there is none of that name in the header; did you mean "Podsize"?`},
		{"Podsize 16", "Podsize 8", "x.topo:4:1: Podsize (8): two tiers make one pod; write 16"},
		{"Podsize 16\n", "", "x.topo:1:1: Podsize: the header lacks it"},
		{"Nodes 16", "Nodes many", "x.topo:2:1: Nodes (many): out of range, or no number; write a whole number from 2 to 4096"},
		{"Tiers 2", "Tiers 4", "x.topo:3:1: Tiers (4): out of range"},
		{"Tier 1", "Tier 0", "x.topo:12:1: Tier (0): said twice"},
		{"Tier 1", "Tier 7", "x.topo:12:1: Tier (7): no such tier"},
		{"Tier 1\n", "Tier 2\n", "Downlink_speed_Gbps: Tier 1 lacks it"},
		{"Radix_Up 4", "Radix_Up 4 5", "x.topo:8:1: line (Radix_Up 4 5): not a key with one value"},
		{"Radix_Up 4\n", "", "x.topo:5:1: Radix_Up: Tier 0 lacks it"},
		{"Radix_Up 4", "Radix_Up 4\nRadix_Up 4", "x.topo:9:1: Radix_Up (4): said twice"},
		{"Radix_Down 4\nRadix_Up 4", "Radix_Down 5\nRadix_Up 4", "x.topo:7:1: Radix_Down (5): hosts fill whole switches: 16 is no multiple of 5"},
		{"Radix_Up 4", "Radix_Up 2", "x.topo:11:1: Oversubscribed (1): radix and speed make it 2"},
		{"Oversubscribed 1\n", "Queue_Up 10000\nQueue_Down 20000\n", "x.topo:12:1: Queue_Down (20000): Queue_Up is 10000"},
		{"Oversubscribed 1\n", "Bundle 2\n", "x.topo:11:1: Bundle (2): a host has one link"},
		{"Oversubscribed 1\n", "Oversubscribed 0\n", "x.topo:11:1: Oversubscribed (0): out of range"},
		{"Tier 1\n", "Tier 1\nQueue_Up 5\n", "x.topo:13:1: Queue_Up (5): the top tier has no links upwards"},
		{"Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 4", "Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 6", "x.topo:14:1: Radix_Down (6): below it are 4 switches with 1 links each; write 4"},
		{"Tier 1\nDownlink_speed_Gbps 100", "Tier 1\nDownlink_speed_Gbps 100G", "x.topo:13:1: Downlink_speed_Gbps (100G): out of range, or no number; write a number from 1Mbps"},
	} {
		text := strings.Replace(string(base), c.old, c.new, 1)
		if _, err := ParseHTSim("x.topo", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q:\n got %v\nwant %s", c.new, c.old, err, c.want)
		}
	}
	if _, err := ParseHTSim("x.topo", []byte(strings.Replace(htsimThree, "Oversubscribed 2", "Oversubscribed 3", 1))); err == nil ||
		!strings.Contains(err.Error(), "x.topo:19:1: Oversubscribed (3): radix and speed make it 2.00002") {
		t.Errorf("uneven: %v", err)
	}
	if _, err := ParseHTSim("x.topo", nil); err == nil || !strings.Contains(err.Error(), "Nodes: the header lacks it") {
		t.Errorf("empty: %v", err)
	}
}

func FuzzParseHTSim(f *testing.F) {
	names, _ := filepath.Glob("testdata/htsim/*.topo")
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(htsimThree))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseHTSim("f.topo", b)
		if (s == nil) == (err == nil) {
			t.Fatalf("spec %v, error %v", s, err)
		}
	})
}

func TestHTSimLink(t *testing.T) {
	_, tree := htsimPlan(t, "ft128.topo")
	_, toy := htsimPlan(t, "toy.topo")
	s, err := ParseHTSim("x.topo", []byte(htsimThree))
	if err != nil {
		t.Fatal(err)
	}
	uneven, err := BuildPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		plan     *Plan
		tier     string
		sw, link int
		want     string // name of the link, or a part of the error
	}{
		{tree, "AGG", 0, 0, "agg0-core0"}, {tree, "AGG", 6, 3, "agg6-core11"}, {tree, "TOR", 31, 1, "edge31-agg29"},
		{toy, "TOR", 1, 15, "leaf1-spine15"}, {uneven, "TOR", 5, 1, "edge5-agg3"}, {uneven, "AGG", 3, 2, "agg3-core5"},
		{tree, "CORE", 0, 0, "link_id (0): core0 is at the top"}, {toy, "AGG", 0, 0, "link_id (0): spine0 is at the top"},
		{tree, "AGG", 32, 0, "switch_id (32): ft128 has 32 switches of tier AGG"}, {tree, "AGG", 0, 4, "link_id (4): agg0 has 4 ways up"},
		{tree, "SPINE", 0, 0, "switch_type (SPINE): no tier"}, {tree, "AGG", -1, 0, "switch_id (-1)"}, {tree, "AGG", 0, -1, "link_id (-1)"},
	} {
		id, err := c.plan.HTSimLink(c.tier, c.sw, c.link)
		if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && c.plan.Links[id].Name != c.want {
			t.Errorf("%s %d %d of %s: link %d, error %v, want %s", c.tier, c.sw, c.link, c.plan.Name, id, err, c.want)
		}
	}
}
