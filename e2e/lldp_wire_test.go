package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/lldp"
	"github.com/uetlab/uetlab/scripts/wireshark"
	"github.com/uetlab/uetlab/wire"
)

// malformed and expert are what tshark has of a packet that it finds fault with.
const malformed, expert = "_ws.malformed", "_ws.expert.severity"

const spoken = "name: spoken\nfabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 1}\ndefaults: {link: {lldp: on}}\n"

// dissector writes uet.lua and gives tshark's arguments for it.
func dissector(t testing.TB) []string {
	t.Helper()
	lua := filepath.Join(t.TempDir(), wireshark.FileName)
	if err := os.WriteFile(lua, []byte(wireshark.Dissector), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-X", "lua_script:" + lua}
}

// read has tshark read fields of a capture; each packet gives a map of fields to values. Fields that a packet does not have are missing.
func read(t testing.TB, file string, fields []string, args ...string) (packets []map[string]string) {
	t.Helper()
	args = append(args, "-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=,")
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	for _, line := range tshark(t, file, args...) {
		p := map[string]string{}
		for i, v := range strings.Split(line, "|") {
			if v != "" {
				p[fields[i]] = v
			}
		}
		packets = append(packets, p)
	}
	return packets
}

// captureUntil captures a link, or all, until done says that it is enough, and gives the file.
func (l *lab) captureUntil(t testing.TB, link string, done func(n int) bool, filter ...string) string {
	t.Helper()
	p, file := l.capture(t, append([]string{link}, filter...)...)
	until(t, "the frames to be captured", func() bool { return p.ended() || done(packets(file)) })
	p.signal(t, syscall.SIGINT)
	if a := p.wait(); a.code != 0 {
		t.Fatal(a)
	}
	return file
}

// TestTsharkReadsLLDP captures what all ports say in a lab that rests: tshark finds every port's chassis, name, time to live, system,
// capabilities and address right, and nothing wrong; the TLVs of the UEC are those of its OUI without the dissector, and fields with it.
func TestTsharkReadsLLDP(t *testing.T) {
	needRoot(t)
	needTools(t, "tshark")
	l := up(t, write(t, spoken))
	ports := 2 * len(l.plan.Links)
	file := l.captureUntil(t, "all", func(n int) bool { return n >= 2*ports }, "ether", "proto", "0x88cc")

	fields := []string{"eth.src", "eth.dst", "lldp.chassis.id.mac", "lldp.port.id", "lldp.time_to_live", "lldp.tlv.system.name", "lldp.tlv.system_cap", "lldp.tlv.enable_system_cap", "lldp.mgn.addr.ip4", "lldp.mgn.interface.number",
		"lldp.orgtlv.oui", malformed, expert}
	heard := map[string]int{}
	for i, p := range read(t, file, fields) {
		src := p["eth.src"]
		if p[malformed] != "" || p[expert] != "" {
			t.Errorf("packet %d: tshark finds fault without the dissector", i+1)
		}
		if !slices.Contains(strings.Split(p["lldp.orgtlv.oui"], ","), uecID) {
			t.Errorf("packet %d has no TLV of the UEC's OUI but of %s", i+1, p["lldp.orgtlv.oui"])
		}
		for i := range l.plan.Nodes {
			n := &l.plan.Nodes[i]
			for k, q := range n.Ports {
				if src != wire.MAC(q.MAC).String() {
					continue
				}
				heard[n.Name+" "+q.Name]++
				can := uint64(wire.LLDPCapStation)
				if n.Kind == topology.KindSwitch {
					can = wire.LLDPCapBridge | wire.LLDPCapRouter
				}
				for name, want := range map[string]string{"eth.dst": "01:80:c2:00:00:0e", "lldp.chassis.id.mac": wire.MAC(n.Ports[0].MAC).String(), "lldp.port.id": q.Name, "lldp.time_to_live": "4",
					"lldp.tlv.system.name": n.Name, "lldp.mgn.addr.ip4": n.Addr4.String(), "lldp.mgn.interface.number": strconv.Itoa(k + 1)} {
					if p[name] != want {
						t.Errorf("%s %s: %s is %q, want %q", n.Name, q.Name, name, p[name], want)
					}
				}
				for _, name := range []string{"lldp.tlv.system_cap", "lldp.tlv.enable_system_cap"} {
					if got, err := strconv.ParseUint(p[name], 0, 16); err != nil || got != can {
						t.Errorf("%s %s: %s is %q, want %#x", n.Name, q.Name, name, p[name], can)
					}
				}
			}
		}
	}
	if len(heard) != ports {
		t.Errorf("%d ports of %d were heard: %v", len(heard), ports, heard)
	}
	for i, p := range sameAsGo(t, file) {
		if len(p["lldp.boot_id"]) != 1 || p["lldp.subtype"][0] != "1" {
			t.Errorf("packet %d: %v", i+1, p)
		}
	}
}

// uecID is the OUI of the UEC as fields have it.
var uecID = strconv.Itoa(wire.UECID)

// linkFields are the values of the fields that link control and the UEC's TLVs have in each packet of a capture, by name, as `uetlab decode` gives them.
func linkFields(t testing.TB, file string) (list []map[string][]string) {
	t.Helper()
	a := uetlab(t, "decode", file, "--flat")
	if a.code != 0 {
		t.Fatal(a)
	}
	for _, text := range strings.Split(strings.TrimSpace(a.stdout), "\n\n") {
		p := map[string][]string{}
		lines, ue := strings.Split(text, "\n"), map[string]bool{}
		for _, line := range lines {
			if tlv, ok := strings.CutSuffix(line, ".lldp.oui="+uecID); ok {
				ue[tlv] = true
			}
		}
		for _, line := range lines {
			name, value, _ := strings.Cut(line, "=")
			tlv, numbered := "", false
			for n, rest, ok := strings.Cut(name, "."); ok && strings.Trim(n, "0123456789") == ""; n, rest, ok = strings.Cut(name, ".") {
				if name = rest; !numbered {
					tlv, numbered = n, true
				}
			}
			layer, _, _ := strings.Cut(name, ".")
			if layer == "ctlos" || layer == "cc" || layer == "mac" || (layer == "lldp" || layer == "vc") && ue[tlv] {
				p[name] = append(p[name], value)
			}
		}
		list = append(list, p)
	}
	return list
}

// sameAsGo wants tshark to show with the dissector what the Go decoder finds of link control and the UEC's TLVs, field by field, and nothing wrong. It gives that.
func sameAsGo(t testing.TB, file string) []map[string][]string {
	t.Helper()
	want := linkFields(t, file)
	var names []string
	for _, p := range want {
		for name := range p {
			if !slices.Contains(names, "uet."+name) {
				names = append(names, "uet."+name)
			}
		}
	}
	lua := dissector(t)
	shown := read(t, file, append(names, "frame.number", malformed, expert), lua...)
	if len(shown) != len(want) || len(names) == 0 {
		t.Fatalf("tshark shows %d packets, the decoder %d with fields %v", len(shown), len(want), names)
	}
	for i, p := range want {
		if shown[i][malformed] != "" || shown[i][expert] != "" {
			t.Errorf("packet %d: tshark finds fault, severity %s", i+1, shown[i][expert])
		}
		for _, name := range names {
			if got, go1 := shown[i][name], strings.Join(p[strings.TrimPrefix(name, "uet.")], ","); got != go1 {
				t.Errorf("packet %d: %s is %q, the Go decoder says %q", i+1, name, got, go1)
			}
		}
	}
	return want
}

// TestTsharkReadsLinkControl captures a link with LLR and credits during a run: ordered sets, CF_Updates and CC_Updates, each shown as the Go decoder has it.
func TestTsharkReadsLinkControl(t *testing.T) {
	needRoot(t)
	needTools(t, "tshark")
	l := up(t, write(t, strings.Replace(spoken, "lldp: on", "llr: on, cbfc: {limit: 64KiB, ccEvery: 20us}, ber: 1e-7", 1)))
	before := l.counters(t)
	p, file := l.capture(t, "leaf0-spine0", "ether", "proto", "0x88b5", "or", "ether", "proto", "0x8808")
	l.run(t, "permutation", "--size", "2MiB", "--seed", "1")
	l.clockTo(t, "pause")
	came := l.ofEnds(t, "leaf0-spine0", minus(l.counters(t), before), "llr_rx_ctl_os_frames", "cbfc_cc_rx")
	until(t, fmt.Sprintf("%d frames of link control to be captured", came), func() bool { return p.ended() || packets(file) >= int(came) })
	p.signal(t, syscall.SIGINT)
	if a := p.wait(); a.code != 0 {
		t.Fatal(a)
	}
	count := map[string]int{}
	for i, p := range sameAsGo(t, file) {
		for _, kind := range p["ctlos.type"] {
			count[kind]++
		}
		if len(p["cc.type"]) > 0 {
			count["CC_Update"]++
		}
		if len(p) == 0 {
			t.Errorf("packet %d is none of link control", i+1)
		}
	}
	for _, kind := range []wire.CtlOSType{wire.CtlOSAck, wire.CtlOSCFUpdate} {
		if count[strconv.Itoa(int(kind))] == 0 {
			t.Errorf("no %v was captured: %v", kind, count)
		}
	}
	if count["CC_Update"] == 0 {
		t.Errorf("no CC_Update was captured: %v", count)
	}
}

// miswired is spoken with the far ends of two cables swapped.
const miswired = "name: miswired\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 1}\ndefaults: {link: {lldp: on}}\nmiswired: [[leaf0-spine0, leaf1-spine1]]\n"

// TestMiswiredLab plugs two cables together wrongly, for real: frames of LLDP come to the wrong nodes, up, lldp and the events name the four ends,
// a run fails with an error, and the ports there drop what is not for them. Right cables are found right.
func TestMiswiredLab(t *testing.T) {
	needRoot(t)
	file := write(t, miswired)
	l := up(t, file)
	want := []string{"spine0 eth1: LLDP neighbour leaf1 eth3, expected leaf0 eth2", "spine1 eth2: LLDP neighbour leaf0 eth2, expected leaf1 eth3",
		"leaf0 eth2: LLDP neighbour spine1 eth2, expected spine0 eth1", "leaf1 eth3: LLDP neighbour spine0 eth1, expected spine1 eth2"}
	a := l.do(t, "lldp", "--check")
	if got := strings.Split(strings.TrimSpace(a.stdout), "\n"); a.code != 1 || !slices.Equal(got, want) {
		t.Errorf("lldp --check: %v", a)
	}
	var told []string
	if err := l.api.Events(context.Background(), false, func(e api.Event) error {
		if e.Kind == "lldp" && strings.Contains(e.Text, "expected") { // others say who has appeared
			told = append(told, e.Text)
		}
		return nil
	}); err != nil || !slices.Equal(told, want) {
		t.Errorf("events %q, %v", told, err)
	}
	before, start := l.counters(t), time.Now()
	a = l.do(t, "run", "alltoall", "--size", "64KiB", "--seed", "1")
	if a.code == 0 || !strings.Contains(a.stderr, "did not acknowledge in time") {
		t.Errorf("a run after %v: %v", time.Since(start), a)
	}
	gained := minus(l.counters(t), before)
	for _, end := range []lldp.End{{Node: "leaf0", Port: "eth2"}, {Node: "leaf1", Port: "eth3"}, {Node: "spine0", Port: "eth1"}, {Node: "spine1", Port: "eth2"}} {
		if drops := gained[fmt.Sprintf("%s %s drop_bad_packet", end.Node, end.Port)]; drops == 0 {
			t.Errorf("%v dropped nothing that was not for it", end)
		}
	}
	// A node that comes back is plugged in as wrongly as before.
	l.ok(t, "restart", "leaf0")
	until(t, "leaf0 to be heard again", func() bool {
		got := strings.Split(strings.TrimSpace(l.do(t, "lldp", "--check").stdout), "\n")
		return slices.Equal(got, want)
	})
	right := up(t, write(t, strings.Split(miswired, "miswired: [")[0]))
	until(t, "all ports to be heard", func() bool { return right.do(t, "lldp", "--check").code == 0 })
	right.run(t, "alltoall", "--size", "64KiB", "--seed", "1")
}
