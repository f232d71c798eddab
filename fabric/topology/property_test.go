package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uetlab/uetlab/topologies"
)

var (
	update  = flag.Bool("update", false, "rewrite golden files and topologies/schema.json")
	mutSeed = flag.Uint64("seed", 1, "seed of the random tests")
)

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not current; look at the difference, then run go test ./fabric/topology -update", path)
	}
}

// TestGoldenPlans holds every figure of a plan, and its routes, one node, link or route a line.
func TestGoldenPlans(t *testing.T) {
	full, err := Parse("full.yaml", []byte(readFull(t)))
	plans := map[string]*Plan{"full": mustPlan(t, full, err)}
	for _, name := range append(topologies.Names(), "fat-tree-1x2x1", "fat-tree-k2") {
		plans[name] = resolved(t, name)
	}
	for name, p := range plans {
		golden(t, filepath.Join("testdata", "plans", name+".txt"), dumpPlan(t, p))
	}
}

func dumpPlan(t *testing.T, p *Plan) []byte {
	var b bytes.Buffer
	line := func(what string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", what, text)
	}
	head := *p
	head.Nodes, head.Links = nil, nil
	line("plan", head)
	for _, n := range p.Nodes {
		ports, settings := n.Ports, n.Switch
		n.Ports, n.Switch = nil, nil
		line("node", n)
		if settings != nil {
			b.WriteString("  switch")
			for _, kv := range p.FormatSwitch(*settings) {
				fmt.Fprintf(&b, " %s=%s", kv.Key, kv.Value)
			}
			b.WriteByte('\n')
		}
		for _, port := range ports {
			line("  port", port)
		}
	}
	for _, l := range p.Links {
		line("link", l)
	}
	routes := p.Routes(nil)
	for id := range p.Nodes {
		for _, r := range routes[id] {
			fmt.Fprintf(&b, "route %s %s %v\n", p.Nodes[id].Name, r.Prefix, r.Ports)
		}
	}
	return b.Bytes()
}

func TestSchemaIsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "topologies", "schema.json")
	golden(t, path, Schema())
	if !*update && !bytes.Equal(topologies.Schema, Schema()) {
		t.Error("the embedded schema is not current")
	}
}

// plain turns a YAML tree into what a JSON schema validator takes; ok is false for what JSON cannot say.
func plain(n ast.Node) (v any, ok bool) {
	switch n := rejoin(n).(type) {
	case nil, *ast.NullNode:
		return nil, true
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.BoolNode:
		return n.Value, true
	case *ast.IntegerNode:
		return json.Number(fmt.Sprint(n.Value)), true
	case *ast.FloatNode:
		return n.Value, true
	case *ast.SequenceNode:
		list := []any{}
		for _, item := range n.Values {
			v, ok := plain(item)
			if !ok {
				return nil, false
			}
			list = append(list, v)
		}
		return list, true
	case *ast.MappingNode:
		m := map[string]any{}
		for _, p := range n.Values {
			key := ""
			switch k := p.Key.(type) {
			case *ast.StringNode:
				key = k.Value
			case *ast.IntegerNode: // editors take 7 for "7"
				key = raw(k)
			default:
				return nil, false
			}
			v, ok := plain(p.Value)
			if !ok {
				return nil, false
			}
			if _, twice := m[key]; twice {
				return nil, false
			}
			m[key] = v
		}
		return m, true
	}
	return nil, false
}

// TestSchemaAgreesWithDecoder: over good, broken and mutated files, the schema refuses a file exactly when the
// decoder finds fault with its form.
func TestSchemaAgreesWithDecoder(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	sch, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(*mutSeed, 2))
	var texts []string
	for _, b := range brokenCorpus(t) {
		texts = append(texts, b.text)
	}
	bases := baseTexts(t)
	texts = append(texts, bases...)
	for range 2000 {
		texts = append(texts, mutate(rng, bases))
	}
	good, bad := 0, 0
	for _, text := range texts {
		tree, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
		if _, why := unreadable([]byte(text)); err != nil || why != "" || len(tree.Docs) != 1 {
			continue
		}
		v, ok := plain(tree.Docs[0].Body)
		if !ok {
			continue
		}
		_, d := decode("x", []byte(text))
		form := false
		for _, p := range d.problems {
			form = form || !p.meaning
		}
		schemaErr := sch.Validate(v)
		if form != (schemaErr != nil) {
			t.Errorf("seed %d: decoder says %v\nschema says %v\nof:\n%s", *mutSeed, d.problems, schemaErr, text)
		}
		if form {
			bad++
		} else {
			good++
		}
	}
	t.Logf("schema and decoder agree on %d files they accept and %d they refuse", good, bad)
	if good < 100 || bad < 300 {
		t.Errorf("only %d good and %d bad files were compared", good, bad)
	}
}

func baseTexts(t testing.TB) []string {
	bases := []string{readFull(t)}
	for _, name := range topologies.Names() {
		text, _ := topologies.Read(name)
		bases = append(bases, string(text))
	}
	return bases
}

// mutate changes a file blindly: bytes, words, lines.
func mutate(rng *rand.Rand, bases []string) string {
	b := []byte(bases[rng.IntN(len(bases))])
	if rng.IntN(2) == 0 {
		b = []byte(bases[0])
	}
	words := []string{"[", "]", "{", "}", ":", ": ", "- ", "\n", "\t", "#", "&a ", "*a", "!!str ", "|\n", ">", "'", `"`, "?", "%", "0", "-1", "9999999999999", "1.5", "null", "~", "true", "never", "auto",
		"400Gbps", "500ns", "leaf0", "host*", "leaf0:eth3", "kind", "links", "nodes", "rate", "---\n", "<<: ", "\x00", "\xff", "é", "\r\n", "  "}
	for range 1 + rng.IntN(3) {
		if len(b) == 0 {
			break
		}
		i := rng.IntN(len(b))
		j := min(len(b), i+rng.IntN(12))
		switch rng.IntN(6) {
		case 0:
			b[i] = byte(rng.IntN(256))
		case 1:
			b = append(b[:i:i], b[j:]...)
		case 2:
			b = append(b[:i:i], append([]byte(words[rng.IntN(len(words))]), b[i:]...)...)
		case 3:
			b = append(b[:i:i], append([]byte(words[rng.IntN(len(words))]), b[j:]...)...)
		case 4:
			b = append(b[:j:j], append(bytes.Clone(b[i:j]), b[j:]...)...)
		case 5:
			lines := strings.SplitAfter(string(b), "\n")
			x, y := rng.IntN(len(lines)), rng.IntN(len(lines))
			lines[x], lines[y] = lines[y], lines[x]
			b = []byte(strings.Join(lines, ""))
		}
	}
	return string(b)
}

func TestBlindMutations(t *testing.T) {
	rng := rand.New(rand.NewPCG(*mutSeed, 1))
	bases := baseTexts(t)
	accepted, refused := 0, 0
	for i := range 10_000 {
		text := mutate(rng, bases)
		s, err := Parse("x.yaml", []byte(text))
		if err == nil {
			accepted++
			if s == nil || s.Name == "" {
				t.Fatalf("seed %d, mutation %d: accepted as nothing:\n%s", *mutSeed, i, text)
			}
			continue
		}
		refused++
		checkProblems(t, err, text)
	}
	t.Logf("seed %d: %d mutations accepted, %d refused with a line", *mutSeed, accepted, refused)
	if accepted < 100 || refused < 1000 {
		t.Errorf("the mutations are too kind or too harsh: %d accepted, %d refused", accepted, refused)
	}
}

func checkProblems(t *testing.T, err error, text string) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("%v for:\n%s", err, text)
	}
	lines := strings.Count(text, "\n") + 1
	for _, p := range problems {
		if p.Line < 1 || p.Line > lines+1 || p.Col < 1 || p.Msg == "" || p.File == "" {
			t.Fatalf("no place or no word in %+v for:\n%s", p, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range baseTexts(f) {
		f.Add([]byte(text))
	}
	for _, w := range wrongFiles {
		f.Add([]byte(unmark(w.text).text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("x.yaml", data)
		if err != nil {
			checkProblems(t, err, string(data))
			return
		}
		again, err := Parse("x.yaml", s.YAML())
		if err != nil {
			t.Fatalf("printed file is refused: %v\n%s", err, s.YAML())
		}
		a, errA := BuildPlan(s)
		b, errB := BuildPlan(again)
		if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("printed file gives another plan: %v %v\n%s", errA, errB, s.YAML())
		}
	})
}

func TestAddressesAreUnique(t *testing.T) {
	for _, name := range []string{"fat-tree-k16", "fat-tree-2x4", "fat-tree-1x64x62", "pair", "dumbbell-63"} {
		p := resolved(t, name)
		seen := map[any]string{}
		claim := func(key any, who string) {
			if other, taken := seen[key]; taken {
				t.Fatalf("%s: %v belongs to %s and %s", name, key, other, who)
			}
			seen[key] = who
		}
		for _, n := range p.Nodes {
			claim(n.Addr4, n.Name)
			claim(n.Addr6, n.Name)
			if n.Kind == KindSwitch {
				claim(n.Seed, n.Name)
			}
			if !defaultIPv4.Contains(n.Addr4) || !defaultIPv6.Contains(n.Addr6) {
				t.Fatalf("%s: %s has %s and %s", name, n.Name, n.Addr4, n.Addr6)
			}
			for _, port := range n.Ports {
				claim(port.MAC, n.Name+port.Name)
				if port.MAC[0]&3 != 2 {
					t.Fatalf("%s: %x is not a locally administered unicast address", name, port.MAC)
				}
			}
		}
	}
}

func TestBaseRTT(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		bdp  int64
	}{
		// 4096+88 bytes of IP are 4222 on the line: 84.44 ns at 400 Gb/s, 85 when due; an ACK_CC of 76 is 114: 3 ns.
		{"name: x\nfabric: {kind: pair}", 85 + 500 + 3 + 500, 54_400},
		{"name: x\nfabric: {kind: leaf-spine, spines: 2, leaves: 2}", 4*(85+500) + 3*500 + 4*(3+500) + 3*500, 367_600},
		// The slower of two equal paths counts: 100 Gb/s on one spine, 338 ns out and 10 ns back on two of four hops.
		{"name: x\nfabric: {kind: leaf-spine, spines: 2, leaves: 2}\nlinks: [{endpoints: [leaf*, spine1], rate: 100Gbps}]",
			2*(85+338) + 4*500 + 3*500 + 2*(3+10) + 4*500 + 3*500, 393_600},
		// A small payload: 1024+88 are 1150 bytes on the line, 9.2 us at 1 Gb/s.
		{"name: x\nfabric: {kind: pair}\ndefaults: {link: {rate: 1Gbps, mtu: 1500}}", 9200 + 500 + 912 + 500, 1389},
	} {
		if p := planOf(t, c.text); p.BaseRTT != c.want || p.BDP != c.bdp {
			t.Errorf("%s: %v and %d bytes, want %v and %d", c.text, p.BaseRTT, p.BDP, c.want, c.bdp)
		}
	}
}

// slowDist counts hops between switches by relaxing every link until nothing changes.
func slowDist(p *Plan, to int, down map[int]bool) []int {
	const far = 1 << 20
	dist := make([]int, len(p.Nodes))
	for i := range dist {
		dist[i] = far
	}
	dist[to] = 0
	for changed := true; changed; {
		changed = false
		for _, l := range p.Links {
			a, b := l.A.Node, l.B.Node
			if down[l.ID] || p.Nodes[a].Kind != KindSwitch || p.Nodes[b].Kind != KindSwitch {
				continue
			}
			for _, e := range [][2]int{{a, b}, {b, a}} {
				if dist[e[0]] > dist[e[1]]+1 {
					dist[e[0]], changed = dist[e[1]]+1, true
				}
			}
		}
	}
	return dist
}

// lookup finds the ports of the longest matching prefix.
func lookup(routes []Route, a netip.Addr) []int {
	best, ports := -1, []int(nil)
	for _, r := range routes {
		if r.Prefix.Contains(a) && r.Prefix.Bits() > best {
			best, ports = r.Prefix.Bits(), r.Ports
		}
	}
	return ports
}

func TestRoutesUnderRandomFailures(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 3))
	texts := []string{readFull(t)}
	for _, name := range []string{"fat-tree-2x4", "fat-tree-k4", "dumbbell-2", "star-8", "pair"} {
		s, err := Generate(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(s.YAML()))
	}
	for _, text := range texts {
		p := planOf(t, text)
		for round := range 12 {
			down := map[int]bool{}
			for id := range p.Links {
				if rng.IntN(12) < round {
					down[id] = true
				}
			}
			routes := p.Routes(down)
			if !reflect.DeepEqual(routes, p.Routes(down)) {
				t.Fatalf("%s: routes differ from call to call", p.Name)
			}
			for dest := range p.Nodes {
				checkRoutesTo(t, p, routes, dest, down, seed)
			}
		}
	}
}

// checkRoutesTo compares every switch's entry for one node with the slow twin.
func checkRoutesTo(t *testing.T, p *Plan, routes map[int][]Route, dest int, down map[int]bool, seed uint64) {
	t.Helper()
	d := p.Nodes[dest]
	via := dest // the switch to go to
	if d.Kind != KindSwitch {
		via = d.Ports[0].Peer
	}
	dist := slowDist(p, via, down)
	for id, n := range p.Nodes {
		if n.Kind != KindSwitch || id == dest {
			continue
		}
		var want []int
		for i, port := range n.Ports {
			last := id == via && port.Peer == dest
			nearer := id != via && p.Nodes[port.Peer].Kind == KindSwitch && dist[id] < 1<<20 && dist[port.Peer] == dist[id]-1
			if (last || nearer) && !down[port.Link] {
				want = append(want, i)
			}
		}
		for _, a := range []netip.Addr{d.Addr4, d.Addr6} {
			if got := lookup(routes[id], a); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %s: %s to %s: ports %v, want %v (down: %v)", seed, p.Name, n.Name, d.Name, got, want, down)
			}
		}
	}
}

func BenchmarkBuildPlanK16(b *testing.B) {
	s, err := Generate("fat-tree-k16")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := BuildPlan(s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRoutes(b *testing.B) {
	for _, name := range []string{"fat-tree-k8", "fat-tree-k16"} {
		p := resolved(b, name)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p.Routes(map[int]bool{len(p.Links) - 1: true})
			}
		})
	}
}
