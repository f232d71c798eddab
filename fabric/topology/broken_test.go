package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// mark stands at the end of each line that must be named by a problem.
const mark = "§"

// slips replace one line of testdata/full.yaml by each of several wrong ones. A replacement without a mark is the
// wrong line itself; with marks, it may be several lines of which the marked ones are wrong.
var slips = []struct {
	line  string
	wrong []string
}{
	{"name: full", []string{"", "name:", "name: 7", "name: Full", "name: my lab", "name: -x", "name: [a]", "name: {a: b}", "name: true", `name: ""`,
		"nmae: full", "Name: full", "name: abcdefghijklmnopqrstuvwxyz0123456", "name: full" + "\nname: twice §", "name: &a full", "name: !!str full"}},
	{`description: "all keys: at once"`, []string{"description: [a]", "description: 12", "description:", "descripton: x", "description: true"}},
	{"  kind: leaf-spine", []string{"", "  kind: leafspine", "  kind: fattree", "  kind: 3", "  kind:", "  kind: ring", "  knid: leaf-spine", "  kind: [leaf-spine]", "  kind: Leaf-Spine",
		"  kind: leaf-spine\n  kind: star §", "  kind: leaf-spine\n  color: red §"}},
	{"  spines: 2", []string{"", "  spines: 0", "  spines: -1", "  spines: 65", "  spines: two", `  spines: "2"`, "  spines: 2.5", "  spines: 2.0", "  spines:", "  spins: 2", "  spines: 99999999999999999999",
		"  spines: [2]", "  spines: 2\n  k: 4 §", "  spines: 2\n  hosts: 4 §", "  spines: true", "  spines: .inf"}},
	{"  leaves: 3", []string{"", "  leaves: 0", "  leaves: 3x", "  leafs: 3", "  leaves: 65"}},
	{"  hostsPerLeaf: 2", []string{"  hostsPerLeaf: 0", "  hostsPerLeaf: 64", "  hostsperleaf: 2", "  hostsPerLeaf: 2 hosts", "  hosts_per_leaf: 2"}},
	{"  uplinks: 2", []string{"  uplinks: 0", "  uplinks: 64", "  uplink: 2"}},
	{"    rate: 200Gbps", []string{"    rate: 200", "    rate: 200G", "    rate: 200 Gbps", "    rate: 200gbps", "    rate: 200Gbit", "    rate: 200Gb/s", "    rate: -200Gbps", "    rate: fast", "    rate:",
		"    rate: 0Gbps", "    rate: 999kbps", "    rate: 3201Gbps", "    rate: 99999999999999999999Tbps", "    rate: 1e3Gbps", "    rate: .5Gbps", "    rate: [200Gbps]", "    rate: 1.0000000000001Gbps",
		"    rate: 200Gbps200Gbps", "    speed: 200Gbps", "    rate: 200ns", "    rate: 200GiB", "    rate: 0x10Gbps", "    rate: true", "    rate: 200Gbps\n    rate: 100Gbps §", `    rate: ""`}},
	{"    delay: 1.5us", []string{"    delay: 1.5", "    delay: 0ns", "    delay: 2s", "    delay: 1.5ns", "    delay: 500", "    delay: 500nsec", "    delay: 1h", "    delay: 1m", "    delay: -1us", "    delay: soon",
		"    delay: never", "    dealy: 1us", "    delay: 1 us", "    delay: 1µs", "    delay:", "    delay: {ns: 5}"}},
	{"    mtu: 9000", []string{"    mtu: 9000B", `    mtu: "9000"`, "    mtu: 1279", "    mtu: 9217", "    mtu: 0", "    mtu: -1", "    mtu: jumbo", "    mut: 9000", "    MTU: 9000", "    mtu:"}},
	{"    latency: 0ns", []string{"    latency: 0", "    latency: 1.1s", "    latency: 500", "    latency: auto", "    latancy: 1us"}},
	{"    buffer: 150%", []string{"    buffer: 150", "    buffer: big", "    buffer: Auto", "    buffer: 0%", "    buffer: 0B", "    buffer: 2MB", "    buffer: 2M", "    buffer: 5BDP", "    buffer: 2GiB", "    buffer: -1%",
		"    buffer: 100001%", "    buffer: 0.00001%", "    buffers: 150%", "    buffer: 0.5B", "    buffer: 150 %", "    buffer:", "    ecn: {kmin: 20%}", "    trim: {enabled: true}"}},
	{"    hash: crc32", []string{"    hash: crc", "    hash: CRC32", "    hash: md5", "    hash:", "    hash: 32"}},
	{"    lb: fixed", []string{"    lb: reps", "    lb: sprey", "    lb: 1", "    lb:", "    cc: nscc", "    profile: ai-full"}},
	{"    window: 1MiB", []string{"    window: 1MB", "    window: 1", "    window: 2GiB", "    window: none", "    windows: 1MiB", "    window: 1Mbps"}},
	{"    image: alpine:3.22", []string{"    image: al pine", "    image: 7", "    image:", `    image: ""`, "    image: -x", "    images: alpine"}},
	{`    command: [sleep, "1000"]`, []string{"    command: sleep", "    command: []", "    command: [sleep, 1000]", "    command:", "    cmd: [sh]", "    command: [[sh]]", "    command: {a: b}"}},
	{"  convergence: 100ms", []string{"  convergence: 100", "  convergence: nver", "  convergence: 101s", "  convergence: Never", "  convergance: never", "  convergence:", "  convergence: -1ms"}},
	{"  ipv4: 172.16.0.0/12", []string{"  ipv4: 172.16.0.0", "  ipv4: 172.16.0.1/12", "  ipv4: 172.16.0.0/17", "  ipv4: 0.0.0.0/8", "  ipv4: 224.0.0.0/8", "  ipv4: 127.0.0.0/8", "  ipv4: 300.1.0.0/16", "  ipv4: 10.0.0.0/7",
		"  ipv4: fd00::/48", "  ipv4: 172.16/12", "  ipv4:", "  ip4: 10.0.0.0/8", "  ipv4: 10"}},
	{"  ipv6: fd12:3456::/48", []string{"  ipv6: fd12::/64", "  ipv6: fd12::1/48", "  ipv6: 10.0.0.0/8", "  ipv6: ff02::/16", "  ipv6: fd12:3456", "  ipv6: fd12:::/48", "  ipv6: fd12::/7", "  ipv6: ::/48x"}},
	{"  leaf*:", []string{"  leef*:", "  leaf[:", "  Leaf*:"}},
	{"    buffer: 12.5%", []string{"    buffer: 12.5", "    lb: spray", "    image: x", "    kind: fep", "    rate: 1Gbps", "    buffr: 1%", "    window: 1MiB"}},
	{"  leaf0:", []string{"  leaf9:", "  leaf-0:", "  Leaf0:", "  leaf0:eth1:", "  spin0:", "  7:", "  abcdefghijklmnopqrstuvwxyz01234567:"}},
	{"    seed: 7", []string{"    seed: -7", "    seed: 7.5", "    seed: 99999999999999999999", "    seed: 9007199254740992", `    seed: "7"`, "    seed: abc", "    seed:", "    sede: 7"}},
	{"    lb: spray", []string{"    lb: sprays", "    hash: mix", "    kind: switch", "    seed: 1", "    latency: 1us", "    buffer: auto"}},
	{"    command: [sh]", []string{"    command: sh", "    command: [1]", "    window: 1MiB", "    command: [sh]\n    command: [sh] §"}},
	{"    kind: switch", []string{"    kind: swtich", "    kind: router", "    kind:", "    kind: Switch", "    kind: [switch]", "    kind: switch\n    lb: fixed §", "    kind: switch\n    ranks: 2 §"}},
	{"    kind: fep", []string{"    kind: feb", "    kind: external", "    kind: 1", "    kind: fep\n    hash: mix §"}},
	{"    rate: 100Gbps", []string{"    rate: 100", "    rate: 100GBps", "    rat: 100Gbps", "    rate: 9Tbps", "    loss: 1%"}},
	{"  - endpoints: [leaf*, spine0]", []string{"  - endpoints: [leaf*, spine9]", "  - endpoints: [leaf*]", "  - endpoints: [leaf*, spine0, spine1]", "  - endpoints: leaf0-spine0", "  - endpoints:", "  - endpoints: [leaf*, host[45]]",
		"  - endpoints: [leaf*, leef*]", "  - endpoints: [leaf[, spine0]", "  - endpoints: [7, spine0]", "  - endpoints: {a: leaf0, b: spine0}", "  - endponts: [leaf0, spine0]", "  - ends: [leaf0, spine0]", "  - endpoints: [Leaf0, spine0]", "  - endpoints: []"}},
	{"  - endpoints: [leaf0:eth3, spine0:eth1]", []string{"  - endpoints: [leaf0:eth3, spine1:eth1]", "  - endpoints: [leaf0:3, spine0:eth1]", "  - endpoints: [leaf0:eth0, spine0:eth1]", "  - endpoints: [leaf0:eth65, spine0:eth1]",
		"  - endpoints: [leaf0:eth03, spine0:eth1]", "  - endpoints: [leaf0:eth2, spine0:eth1]", "  - endpoints: [leaf0:, spine0:eth1]", "  - endpoints: [leaf0:eth3, spine0:et1]", "  - endpoints: [leaf3:eth3, spine0:eth1]",
		"  - endpoints: [leaf0:eth3:eth4, spine0:eth1]", "  - endpoints: [leaf0, leaf0]", "  - endpoints: [leaf0.eth3, spine0.eth1]"}},
	{"  - endpoints: [extra, spine0]", []string{"  - endpoints: [extra, spine2]", "  - endpoints: [extra, extra]", "  - endpoints: [extar, spine0]", "  - endpoints: [extra, spine0:eth1]", "  - endpoints: [extra, spine0:eth2]",
		"  - endpoints: [host0, spine0]", "  - endpoints: [extra, host1]"}},
	{"  - endpoints: [extra:eth2, spine1:eth7]", []string{"  - endpoints: [extra:eth5, spine1:eth7]", "  - endpoints: [extra:eth2, spine1:eth8]", "  - endpoints: [extra:eth2, spine1:eth3]"}},
	{"    mtu: 9100", []string{"    mtu: 100", "    mtu: 9100.5", "    mtu: 9.1KiB"}},
	{"  - endpoints: [probe, extra]", []string{"  - endpoints: [probe, extras]", "  - endpoints: [probe, extra]\n  - endpoints: [probe, spine0] §", "  - endpoints: [probe, extra]\n  - endpoints: [leaf0, spine0] §",
		"  - endpoints: [probe, extra]\n  - endpoints: [leaf0, spine1:eth1] §", "  - endpoints: [probe, extra]\n  - 7 §", "  - endpoints: [probe, extra]\n  - [a, b] §", "  - endpoints: [probe, extra]\n    mtu: 1500 §",
		"  - endpoints: [probe, extra]\n  - endpoints: [host0, host1] §", "  - endpoints: [probe, extra]\ntopology: x §", "  - endpoints: [probe, extra]\nfabrik: {kind: pair} §"}},
}

// whole files that are wrong, with what the first problem must say.
var wrongFiles = []struct{ text, want string }{
	{"§", "empty"},
	{"# only a comment§", "empty"},
	{"- a§", "not a mapping"},
	{"just text§", "not a mapping"},
	{"name: x§", "two are needed"},
	{"name: x\nfabric:§", "nothing, not a mapping"},
	{"name: x\nfabric: pair§", "not a mapping"},
	{"name: x\nfabric: {}§", "kind is missing"},
	{"name: x\nfabric: {kind: pair, hosts: 2}§", "it takes kind alone"},
	{"name: x\nfabric: {kind: star}§", "hosts is missing"},
	{"name: x\nfabric: {kind: star, hosts: 1}\nrouting: {}", "two are needed"},
	{"name: x\nfabric: {kind: fat-tree, k: 3}§", "odd"},
	{"name: x\nfabric: {kind: fat-tree, k: 24}§", "out of range"},
	{"name: x\nfabric: {kind: dumbbell, hosts: 64}§", "65 ports"},
	{"name: x\nfabric: {kind: leaf-spine, spines: 64, leaves: 2}§", "66 ports"},
	{"name: x\nfabric: {kind: pair}\nnodes: {far0: {kind: host}}§", "has no link"},
	{"name: x\nfabric: {kind: pair}\nnodes: {far0: {kind: host}, far1: {kind: host}}§\nlinks: [{endpoints: [far0, far1]}]", "cannot be reached from host0"},
	{"name: x\nfabric: {kind: star, hosts: 3}\nlinks: [{endpoints: [host2, leaf0], mtu: 1500}]", "does not match the 4500"},
	{"name: x\nnodes: {a: {kind: fep}, b: {kind: fep}, s: {kind: switch}}\nlinks: [{endpoints: [a, s]}, {endpoints: [a, b]}]§", "has 2 links"},
	{"name: x\nfabric: {kind: pair}\ndefaults: {fep: {window: 1KiB}}§", "does not hold one packet"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {buffer: 1KiB}}§", "does not hold one full frame"},
	{"name: x\nfabric: {kind: star, hosts: 2}\nnodes: {leaf0: {buffer: 1%}}§", "does not hold one full frame"},
	{"name: x\nfabric: {kind: pair§\n", "not YAML"},
	{"name: x\n\tfabric: {kind: pair}§", "not YAML"},
	{"name: x\nfabric: {kind: pair}\n---\nname: y§", "document 2"},
	{"name: \"x§\nfabric: {kind: pair}", "not YAML"},
	{"name: x\nfabric: &f {kind: pair}§\n", "anchor"},
	{"name: x\nfabric: {kind: pair}\n? [a, b]\n: c§", "not"},
	{"name: x\nfabric: {kind: pair}\n1: 2§", "not a key"},
	{"name: x\nfabric: {kind: pair}\n<<: {a: 1}§", "not a key"},
	{"name: x\nfabric: {kind: pair}\nnodes: [host0]§", "not a mapping"},
	{"name: x\nfabric: {kind: pair}\nlinks: {a: b}§", "not a list"},
	{"name: x\nfabric: {kind: pair}\ndefaults: []§", "not a mapping"},
	{"name: x\nfabric: {kind: pair}\nrouting: never§", "not a mapping"},
	{"name: x\xff\nfabric: {kind: pair}", "not UTF-8"},
	{"name: x\nfabric: " + strings.Repeat("[", 100) + "§", "nested too deeply"},
	{"# x§" + strings.Repeat("\n", 16_001), "at most 16000 are read"},
	{"# x§" + strings.Repeat("x", 512<<10), "at most 524288 are read"},
	{"name: x\nlinks: [" + strings.Repeat(",", 60_001) + "]§", "more than 60000 colons"},
	{"name: x\nfabric: {kind: leaf-spine, spines: 60, leaves: 300}§", "out of range"},
	{"name: x\nfabric: {kind: star, hosts: 2}\naddressing: {ipv4: 10.0.0.0/24}§", "the wrong size"},
}

// several problems in one file: every marked line, and no other, must be named.
var manyWrong = []string{
	"name: X§\nfabric: {kind: star, hosts: 4}\ndefaults:\n  link: {rate: 400G}§\n  switch: {hsah: mix}§\nnodes:\n  host9: {}§\n  leaf0: {lb: spray}§\nlinks:\n  - {endpoints: [leaf0, hots1], rate: 1Gbps}§\n  - {endpoints: [leaf0:eth1, host1]}§\n",
	"fabric: {kind: pair} # the name is missing, which is said of line 1\nroutng: {}§\nnodes: {host0: {kind: switch}}§\n",
	"name: x\nfabric: {kind: leaf-spine, spines: 2, leafs: 3}§\nnodes:\n  leaf99: {latency: 5}§\n  leaf0: {buffer: 3KB}§\n",
	"name: x\nfabric: {kind: leaf-spine, spines: 99, uplinks: 0, hosts: 4, leavs: 2}§\n",
	"name: x\nnodes:\n  a: {kind: fep}\n  b: {kind: fpe}§\n  c: {kind: fep, hash: mix}§\nlinks:\n  - {endpoints: [a, d]}§\n  - {endpoints: [a, b]}\n",
}

func TestBrokenFiles(t *testing.T) {
	corpus := brokenCorpus(t)
	for _, b := range corpus {
		_, err := Parse("lab.yaml", []byte(b.text))
		if err == nil {
			t.Errorf("%s: accepted:\n%s", b.what, b.text)
			continue
		}
		if got := linesOf(err); !slices.Equal(got, b.lines) {
			t.Errorf("%s: lines %v, want %v:\n%v", b.what, got, b.lines, err)
		}
		if !strings.Contains(err.Error(), b.want) {
			t.Errorf("%s: %v\nwant %q", b.what, err, b.want)
		}
	}
	t.Logf("%d broken files, each refused in the line that is wrong", len(corpus))
	if len(corpus) < 200 {
		t.Errorf("only %d broken files", len(corpus))
	}
}

type broken struct {
	what, text, want string
	lines            []int
}

// brokenCorpus makes every broken file there is.
func brokenCorpus(t testing.TB) []broken {
	t.Helper()
	full := readFull(t)
	var all []broken
	for _, s := range slips {
		if strings.Count("\n"+full, "\n"+s.line+"\n") != 1 {
			t.Fatalf("line %q is not in the file once", s.line)
		}
		for _, w := range s.wrong {
			if w != "" && !strings.Contains(w, mark) {
				w += mark
			}
			b := unmark(strings.Replace(full, s.line+"\n", w+"\n", 1))
			b.what = fmt.Sprintf("%q for %q", w, s.line)
			if w == "" { // something is missing: its section is named
				b.lines = []int{1}
				if strings.HasPrefix(s.line, "  ") {
					b.lines = []int{4}
				}
			}
			all = append(all, b)
		}
	}
	for _, w := range wrongFiles {
		b := unmark(w.text)
		b.what, b.want = fmt.Sprintf("%.60q", w.text), w.want
		if b.lines == nil {
			b.lines = map[string][]int{"two are needed": {1}, "does not match the 4500": {3}, "not UTF-8": {1}}[w.want]
		}
		all = append(all, b)
	}
	for _, text := range manyWrong {
		b := unmark(text)
		b.what = "many"
		if !strings.HasPrefix(text, "name") {
			b.lines = append([]int{1}, b.lines...)
		}
		all = append(all, b)
	}
	return all
}

// unmark takes the marks out and notes their lines.
func unmark(text string) broken {
	var b broken
	for i, line := range strings.Split(text, "\n") {
		if strings.Contains(line, mark) {
			b.lines = append(b.lines, i+1)
		}
	}
	b.text = strings.ReplaceAll(strings.ReplaceAll(text, " "+mark, ""), mark, "")
	return b
}
