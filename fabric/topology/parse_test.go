package topology

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/topologies"
)

func readFull(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mustPlan(t testing.TB, s *Spec, err error) *Plan {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	p, err := BuildPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func resolved(t testing.TB, name string) *Plan {
	t.Helper()
	s, err := Resolve(name)
	return mustPlan(t, s, err)
}

func TestFullFile(t *testing.T) {
	s, err := Parse("full.yaml", []byte(readFull(t)))
	p := mustPlan(t, s, err)
	node := func(name string) *Node {
		n, err := p.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"description", s.Description, "all keys: at once"},
		{"convergence", p.Convergence, 100 * time.Millisecond},
		{"a glob changes the buffer", node("leaf1").Ports[0].Queue, (p.BDP*125_000 + 999_999) / 1_000_000},
		{"an exact name wins over a glob", node("leaf0").Ports[0].Queue, p.BDP},
		{"defaults hold elsewhere", node("spine0").Ports[0].Queue, (p.BDP*3 + 1) / 2},
		{"latency", []time.Duration{node("leaf0").Latency, node("leaf1").Latency}, []time.Duration{750, 0}},
		{"hash", []string{node("leaf0").Switch.ECMP.Hash, node("leaf1").Switch.ECMP.Hash, node("leaf2").Switch.ECMP.Hash}, []string{"mix", "crc32_rot", "crc32"}},
		{"seed", node("leaf0").Seed, uint64(7)},
		{"lb", []string{node("host1").FEP.LB, node("host2").FEP.LB}, []string{"spray", "fixed"}},
		{"window", node("host2").FEP.Window, int64(1 << 20)},
		{"kind", node("host5").Kind, KindHost},
		{"command", node("host5").Command, []string{"sh"}},
		{"a new switch ranks above its end point", node("extra").Tier, 1},
		{"a later link entry adds to an earlier", p.Links[node("leaf0").Ports[2].Link], Link{
			ID: node("leaf0").Ports[2].Link, Name: "leaf0-spine0", A: End{node("leaf0").ID, 2}, B: End{node("spine0").ID, 0}, Rate: 100e9, Delay: 2000, MTU: 9000}},
		{"parallel link", p.Links[node("leaf0").Ports[3].Link].Name, "leaf0-spine0#2"},
		{"mtu of a new link", node("spine1").Ports[6].MTU, 9100},
		{"payload", p.PayloadMTU, 8192},
		{"addresses", node("host2").Addr4.String() + " " + node("host2").Addr6.String(), "172.16.1.1 fd12:3456:0:1::1"},
		{"gateway", node("host2").Gate4, node("leaf1").Addr4},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestShippedFilesEqualGenerated(t *testing.T) {
	for _, name := range topologies.Names() {
		text, _ := topologies.Read(name)
		lines := strings.SplitN(string(text), "\n", 3)
		if lines[0] != "# yaml-language-server: $schema=./schema.json" || !strings.HasPrefix(lines[1], "# ") {
			t.Errorf("%s must start with a modeline and a comment that says what it is for", name)
		}
		s, err := Parse(name, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Name != name || s.Description == "" {
			t.Errorf("%s: is called %q, %q", name, s.Name, s.Description)
		}
		if g, err := Generate(name); err == nil {
			if a, b := mustPlan(t, s, nil), mustPlan(t, g, nil); !reflect.DeepEqual(a, b) {
				t.Errorf("%s: the shipped file and the generated topology differ", name)
			}
		}
	}
}

func TestYAMLRoundTrip(t *testing.T) {
	texts := map[string]string{"full": readFull(t)}
	for _, name := range topologies.Names() {
		text, _ := topologies.Read(name)
		texts[name] = string(text)
	}
	for name, text := range texts {
		s, err := Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(name, s.YAML())
		if err != nil {
			t.Fatalf("%s: printed file is refused: %v\n%s", name, err, s.YAML())
		}
		s.where, again.where = nil, nil
		if !reflect.DeepEqual(s, again) {
			t.Errorf("%s: printed file says something else:\n%s", name, s.YAML())
		}
	}
}

func TestGenerate(t *testing.T) {
	for _, c := range []struct {
		name                   string
		nodes, links, switches int
		first, last            string
	}{
		{"fat-tree-2x4", 14, 16, 6, "spine0", "host7"},
		{"fat-tree-1x2x3", 9, 8, 3, "spine0", "host5"},
		{"fat-tree-k2", 7, 6, 5, "core0", "host1"},
		{"fat-tree-k4", 36, 48, 20, "core0", "host15"},
		{"fat-tree-k8", 208, 384, 80, "core0", "host127"},
		{"fat-tree-k16", 1344, 3072, 320, "core0", "host1023"},
		{"dumbbell-3", 8, 7, 2, "leaf0", "host5"},
		{"star-64", 65, 64, 1, "leaf0", "host63"},
		{"pair", 2, 1, 0, "host0", "host1"},
	} {
		s, err := Generate(c.name)
		p := mustPlan(t, s, err)
		switches := 0
		for _, n := range p.Nodes {
			if n.Kind == KindSwitch {
				switches++
			}
		}
		if len(p.Nodes) != c.nodes || len(p.Links) != c.links || switches != c.switches || p.Nodes[0].Name != c.first || p.Nodes[c.nodes-1].Name != c.last {
			t.Errorf("%s: %d nodes (%s to %s), %d switches, %d links", c.name, len(p.Nodes), p.Nodes[0].Name, p.Nodes[len(p.Nodes)-1].Name, switches, len(p.Links))
		}
	}
}

func TestNamesThatAreNone(t *testing.T) {
	for _, c := range []struct {
		name, want string
		unknown    bool
	}{
		{"fat-tree-2by4", `did you mean "fat-tree-2x4"?`, true},
		{"ring-4", "generated are fat-tree-<spines>x<leaves>", true},
		{"fat-tree-02x4", `did you mean "fat-tree-2x4"?`, true},
		{"fat-tree-k3", "fabric.k (3): odd", false},
		{"fat-tree-k24", "fabric.k (24): out of range; from 2 to 22", false},
		{"fat-tree-0x4", "fabric.spines (0): out of range", false},
		{"fat-tree-40x4x40", "80 ports, at most 64", false},
		{"fat-tree-999999x4", "out of range", false},
		{"star-1", "end points: 1; two are needed", false},
		{"star-65", "fabric.hosts (65): out of range", false},
		{"dumbbell-64", "65 ports, at most 64", false},
		{"nowhere/lab.yaml", "nowhere/lab.yaml", false},
		{"testdata/", "is a folder", false},
	} {
		_, err := Resolve(c.name)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUnknown) != c.unknown {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}

func TestResolveFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("lab", []byte("name: a\nfabric: {kind: pair}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("lab.yml", []byte("name: b\nfabric: {kind: pear}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Resolve("lab"); err != nil || s.Name != "a" || s.File != "lab" {
		t.Errorf("lab: %v", err)
	}
	_, err := Resolve("lab.yml")
	want := `lab.yml:2:16: fabric.kind (pear): not one of leaf-spine, fat-tree, dumbbell, star, pair; did you mean "pair"?`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestSpecWithoutFile(t *testing.T) {
	for _, s := range []*Spec{
		{},
		{Name: "x", Fabric: &Fabric{}},
		{Name: "x", Fabric: &Fabric{Kind: FatTree, K: 3}},
		{Name: "x", Fabric: &Fabric{Kind: LeafSpine, Spines: -1, Leaves: 1 << 40}},
		{Name: "X y", Fabric: &Fabric{Kind: Pair}},
		{Name: "x", Fabric: &Fabric{Kind: Pair}, Defaults: Defaults{Link: LinkParams{Rate: -5}}},
		{Name: "x", Fabric: &Fabric{Kind: Pair}, Defaults: Defaults{Link: LinkParams{Delay: -5}}},
	} {
		_, err := BuildPlan(s)
		var problems Problems
		if !errors.As(err, &problems) || len(problems) == 0 {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestFind(t *testing.T) {
	p := resolved(t, "fat-tree-2x4")
	double := planOf(t, "name: d\nfabric: {kind: leaf-spine, spines: 1, leaves: 2, uplinks: 2}\n")
	for _, c := range []struct {
		plan *Plan
		name string
		want string
		end  int
	}{
		{p, "leaf0-spine1", "leaf0-spine1", EitherEnd},
		{p, "spine1-leaf0", "leaf0-spine1", EitherEnd},
		{p, "leaf0:eth4", "leaf0-spine1", EndA},
		{p, "spine1:eth1", "leaf0-spine1", EndB},
		{p, "host0:eth1", "host0-leaf0", EndA},
		{double, "leaf1-spine0", "leaf1-spine0", EitherEnd},
		{double, "leaf1-spine0#2", "leaf1-spine0#2", EitherEnd},
		{double, "spine0-leaf1#2", "leaf1-spine0#2", EitherEnd},
	} {
		id, end, err := c.plan.FindLink(c.name)
		if err != nil || c.plan.Links[id].Name != c.want || end != c.end {
			t.Errorf("%s: link %d end %d: %v", c.name, id, end, err)
		}
	}
	for name, want := range map[string]string{
		"leaf0-spine9": `link (leaf0-spine9): no such name; did you mean "leaf0-spine0"?`,
		"leaf0:eth9":   `port of leaf0 (eth9): no such name; did you mean "eth1"?`,
		"laef0:eth1":   `node (laef0): no such name; did you mean "leaf0"?`,
		"":             "link: no such name; valid are host0-leaf0",
	} {
		if _, _, err := p.FindLink(name); !errors.Is(err, ErrUnknown) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFindLinks(t *testing.T) {
	p := resolved(t, "fat-tree-2x4")
	for _, c := range []struct {
		names []string
		want  string
	}{
		{nil, ""}, // all
		{[]string{"leaf*-spine1"}, "leaf0-spine1 leaf1-spine1 leaf2-spine1 leaf3-spine1"},
		{[]string{"leaf1:eth4", "spine0-leaf0", "leaf[01]-spine1", "leaf1-spine1"}, "leaf0-spine0 leaf0-spine1 leaf1-spine1"},
	} {
		ids, err := p.FindLinks(c.names)
		var got []string
		for _, id := range ids {
			got = append(got, p.Links[id].Name)
		}
		if all := c.names == nil; err != nil || all && len(ids) != len(p.Links) || !all && strings.Join(got, " ") != c.want {
			t.Errorf("%q: %q, %v", c.names, got, err)
		}
	}
	for _, name := range []string{"leaf9*", "leaf[", "leaf0-spine9"} {
		if ids, err := p.FindLinks([]string{"leaf0-spine0", name}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
	}
}

func planOf(t testing.TB, text string) *Plan {
	t.Helper()
	s, err := Parse("", []byte(text))
	return mustPlan(t, s, err)
}

func TestQuantities(t *testing.T) {
	for _, m := range []measure{rates, durations, sizes, percents} {
		for _, v := range []int64{1, 7, 1000, 1024, 1500, 12_500, 1_000_000, 1 << 20, 1_600_000_000_000, 3_200_000_000_001} {
			got, form, ok := m.parse(m.format(v))
			if !form || !ok || got != v {
				t.Errorf("%s: %d is printed as %s and read as %d", m.noun, v, m.format(v), got)
			}
		}
	}
	for text, want := range map[string]string{
		"400G": `did you mean "400Gbps"?`, "400 Gbps": `did you mean "400Gbps"?`, "100Gbit": `did you mean "100Gbps"?`, "1gbps": `did you mean "1Gbps"?`, "fast": "write it like 400Gbps",
	} {
		if got := rates.hint(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	valid := []string{"rate", "delay", "mtu", "endpoints"}
	for got, want := range map[string]string{"rat": "rate", "Rate": "rate", "dealy": "delay", "endpoint": "endpoints", "colour": "", "": "", "tmu": "mtu"} {
		if near := nearest(got, valid); near != want {
			t.Errorf("%q: %q, want %q", got, near, want)
		}
	}
}

// linesOf lists the lines of an error's problems, without repeats.
func linesOf(err error) []int {
	var problems Problems
	if !errors.As(err, &problems) {
		return nil
	}
	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func ExampleProblems() {
	_, err := Parse("lab.yaml", []byte("name: lab\nfabric: {kind: star, hosts: 4}\ndefaults:\n  link: {rate: 400G, dealy: 500ns}\nlinks:\n  - {endpoints: [leaf0, hots1], rate: 1Gbps}\n"))
	fmt.Println(err)
	// Output:
	// lab.yaml:4:16: defaults.link.rate (400G): not a rate; did you mean "400Gbps"?
	// lab.yaml:4:22: key (defaults.link.dealy): not a key of defaults.link; did you mean "delay"?
	// lab.yaml:6:25: endpoint (hots1): no such node; did you mean "host1"?
}

// TestDocs keeps the reference page honest: its file is accepted, and every key of the tables is on the page.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "topology.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	_, rest, found := strings.Cut(page, "```yaml\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the page has no example file")
	}
	if _, err := Parse("docs/topology.md", []byte(text)); err != nil {
		t.Error(err)
	}
	_, part, found := strings.Cut(page, "### Switches\n")
	_, part, opened := strings.Cut(part, "```yaml\n")
	if part, _, closed = strings.Cut(part, "```"); !found || !opened || !closed {
		t.Fatal("the page has no example of a switch")
	}
	if _, err := Parse("docs/topology.md", []byte("name: x\nfabric: {kind: star, hosts: 8}\n"+part)); err != nil {
		t.Error(err)
	}
	_, part, found = strings.Cut(page, "### Congestion management\n")
	_, part, opened = strings.Cut(part, "```yaml\n")
	if part, _, closed = strings.Cut(part, "```"); !found || !opened || !closed {
		t.Fatal("the page has no example of congestion management")
	}
	if _, err := Parse("docs/topology.md", []byte("name: x\nfabric: {kind: star, hosts: 8}\n"+part)); err != nil {
		t.Error(err)
	}
	for _, s := range []struct {
		prefix string
		of     fielder
	}{
		{"", new(Spec)}, {"", new(Fabric)}, {"", new(NodeSpec)}, {"", new(LinkSpec)}, {"", new(Routing)}, {"", new(Addressing)},
		{"link.", new(LinkParams)}, {"switch.", new(SwitchParams)}, {"fep.", new(FEPParams)}, {"host.", new(HostParams)}, {"", new(DSCPParams)},
		{"shared.", new(SharedParams)}, {"ecn.", new(ECNParams)}, {"trim.", new(TrimParams)}, {"ecmp.", new(ECMPParams)}, {"", new(QueueParams)}, {"pfc.", new(PFCParams)},
		{"csig.", new(CSIGParams)}, {"mirror.", new(MirrorParams)},
		{"signals.", new(SignalParams)}, {"nscc.", new(NSCCParams)}, {"rccc.", new(RCCCParams)}, {"dctcp.", new(DCTCPParams)}, {"mprdma.", new(MPRDMAParams)}, {"swift.", new(SwiftParams)},
		{"dcqcn.", new(DCQCNParams)}, {"reps.", repsKeys{new(lb.Params)}}, {"bitmap.", bitmapKeys{new(lb.Params)}}, {"ecmp.", ecmpKeys{new(lb.Params)}}, {"plb.", plbKeys{new(lb.Params)}}, {"flowlet.", flowletKeys{new(lb.Params)}}, {"uccl.", ucclKeys{new(lb.Params)}}, {"mp.", mpKeys{new(lb.Params)}},
	} {
		for _, f := range s.of.fields() {
			if !strings.Contains(page, "`"+s.prefix+f.key+"`") {
				t.Errorf("the page does not mention `%s%s`", s.prefix, f.key)
			}
		}
	}
	for _, name := range topologies.Names() {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("the page does not list %s", name)
		}
	}
	for _, g := range GeneratedNames() {
		if !strings.Contains(page, "| `"+g.Usage+"` |") {
			t.Errorf("the page does not list %s", g.Usage)
		}
	}
}
