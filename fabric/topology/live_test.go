package topology

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/engine"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/switchd"
)

// sandbox is a lab with one switch of eight ports, and the switch's node id.
func sandbox(t testing.TB, more string) (*Plan, int) {
	t.Helper()
	p := planOf(t, "name: x\nfabric: {kind: star, hosts: 8}\n"+more)
	n, err := p.Node("leaf0")
	if err != nil {
		t.Fatal(err)
	}
	return p, n.ID
}

func TestDefaultSettings(t *testing.T) {
	p, id := sandbox(t, "")
	s := p.Nodes[id].Switch
	data, best, trimmed, control := s.Queues[queueData], s.Queues[queueBestEffort], s.Queues[queueTrimmed], s.Queues[queueControl]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"classes of DSCPs", []uint8{s.Classes[46], s.Classes[10], s.Classes[12], s.Classes[34], s.Classes[36], s.Classes[8], s.Classes[26], s.Classes[0]}, []uint8{3, 1, 1, 2, 2, 5, 4, 0}},
		{"a queue that trims holds 1 BDP", data.Limit, p.BDP},
		{"one that does not 5", best.Limit, 5 * p.BDP},
		{"the port says the data queue", p.Nodes[id].Ports[3].Queue, p.BDP},
		{"retransmissions", s.Trim.RetxLimit, (3*p.BDP + 1) / 2},
		{"trimming", []any{s.Trim.Enabled, s.Trim.Size, s.Trim.Trimmable, s.Trim.Trimmed, s.Trim.LastHop, s.Trim.Retx, s.Trim.FixIP}, []any{true, 64, []uint8{8, 10, 12}, uint8(34), uint8(36), uint8(12), true}},
		{"ECN", []any{data.Kmin, data.Kmax, data.Pmax, trimmed.Kmax, control.Kmax}, []any{(p.BDP + 4) / 5, (4*p.BDP + 4) / 5, 1.0, int64(0), int64(0)}},
		{"service", []any{data.Weight, trimmed.Weight, control.Strict, control.Weight}, []any{25, 75, true, 0}},
		{"small queues", []int64{trimmed.Limit, control.Limit}, []int64{p.BDP, p.BDP}},
		{"shared", s.Buffer, switchd.Buffer{}},
		{"nothing is lossless", slices.ContainsFunc(s.Queues[:], func(q switchd.Queue) bool { return q.Lossless }), false},
		{"mirror", s.Mirror, switchd.Mirror{To: -1, Sample: 1, From: -1}},
		{"flowlet gap", s.ECMP.FlowletGap, p.BaseRTT / 2},
		{"fields", s.ECMP.Fields, []string{"src", "dst", "proto", "sport", "dport"}},
		// 400 Gb/s × (2 × 500 ns + 500 ns) are 75 000 bytes, as the peers are end points; three frames of 4538 and a pause of 84 on the line.
		{"PFC", []int64{s.PFC.Xoff, s.PFC.Xon, s.PFC.Headroom}, []int64{p.BDP, p.BDP / 2, 75_000 + 3*4538 + 84}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
	if err := s.Validate(8); err != nil {
		t.Error(err)
	}
}

func TestSwitchSettingsOfFile(t *testing.T) {
	p, id := sandbox(t, `dscp: {data: 11, trimmed: 0}
defaults:
  switch:
    shared: {size: 16MiB, reserved: 1KiB}
    trim: {enabled: false}
    pfc: {enabled: true, watchdog: off}
    queues: {1: {weight: 50}, roce: {alpha: 0.5}, control: {strict: false}, 6: {ecn: false}}
    csig: {enabled: true, compact: 0x9999, strip: [eth2, eth8]}
nodes:
  leaf*: {mirror: {to: eth5, from: eth1, sample: 100}, weight: {eth3: 2}, ecn: {kmin: 0B}, hash: xor}
  leaf0: {ecmp: {balance: flowlet, fields: [dst, src]}, classes: {18: 6, "20": roce}, ecn: {wred: true}}
`)
	s := p.Nodes[id].Switch
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"classes", []uint8{s.Classes[11], s.Classes[10], s.Classes[0], s.Classes[18], s.Classes[20]}, []uint8{1, 0, 2, 6, 4}},
		{"shared", s.Buffer, switchd.Buffer{Shared: 16 << 20, Reserved: 1 << 10}},
		{"alpha", []float64{s.Queues[1].Alpha, s.Queues[3].Alpha, s.Queues[4].Alpha}, []float64{1, 0, 0.5}},
		{"without trimming", s.Queues[queueData].Limit, 5 * p.BDP},
		{"lossless", []any{s.Queues[4].Lossless, s.Queues[4].Limit, s.Queues[4].WRED, s.Queues[1].WRED}, []any{true, int64(0), false, true}},
		{"weights", []int{s.Queues[1].Weight, s.Queues[3].Weight}, []int{50, 25}},
		{"ECN", []int64{s.Queues[1].Kmin, s.Queues[1].Kmax, s.Queues[6].Kmax}, []int64{0, (4*p.BDP + 4) / 5, 0}},
		{"watchdog", s.PFC.Watchdog, time.Duration(0)},
		{"csig", []any{s.CSIG.Enabled, s.CSIG.Compact, s.CSIG.Strip[1], s.CSIG.Strip[7], s.CSIG.Strip[0]}, []any{true, uint16(0x9999), true, true, false}},
		{"mirror", s.Mirror, switchd.Mirror{To: 4, From: 0, Sample: 100}},
		{"port weight", s.ECMP.PortWeight[2], uint8(2)},
		{"ecmp", []any{s.ECMP.Hash, s.ECMP.Balance, s.ECMP.Fields}, []any{"xor", "flowlet", []string{"src", "dst"}}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
	if err := s.Validate(8); err != nil {
		t.Error(err)
	}
}

func TestSetSwitch(t *testing.T) {
	p, id := sandbox(t, "")
	for _, c := range []struct {
		set  string
		want func(s *switchd.Settings) // what changes of the defaults
	}{
		{"ecn.kmin=10%", func(s *switchd.Settings) {
			for _, q := range []int{0, 1, 4, 5, 6, 7} {
				s.Queues[q].Kmin = (p.BDP + 9) / 10
			}
		}},
		{"queues.data.kmax=9000B queues.data.kmin=0B", func(s *switchd.Settings) { s.Queues[1].Kmin, s.Queues[1].Kmax = 0, 9000 }},
		{"trim.enabled=false", func(s *switchd.Settings) { s.Trim.Enabled = false }},
		{"trim.enabled=false buffer=auto", func(s *switchd.Settings) {
			s.Trim.Enabled = false
			s.Queues[1].Limit, s.Queues[5].Limit = 5*p.BDP, 5*p.BDP
		}},
		{"queues.data.weight=50", func(s *switchd.Settings) { s.Queues[1].Weight = 50 }},
		{"queues.1.weight=50", func(s *switchd.Settings) { s.Queues[1].Weight = 50 }},
		{"queues.trimmed.strict=true", func(s *switchd.Settings) { s.Queues[2].Strict, s.Queues[2].Weight = true, 0 }},
		{"ecmp.balance=adaptive", func(s *switchd.Settings) { s.ECMP.Balance = "adaptive" }},
		{"ecmp.fields=dst,src", func(s *switchd.Settings) { s.ECMP.Fields = []string{"src", "dst"} }},
		{"hash=crc32", func(s *switchd.Settings) { s.ECMP.Hash = "crc32" }},
		{"weight.eth3=2 weight.eth4=1", func(s *switchd.Settings) { s.ECMP.PortWeight[2] = 2 }},
		{"mirror.to=eth5 mirror.sample=7", func(s *switchd.Settings) { s.Mirror.To, s.Mirror.Sample = 4, 7 }},
		{"pfc.enabled=true pfc.xoff=100KiB pfc.xon=auto", func(s *switchd.Settings) {
			s.Queues[4].Lossless, s.Queues[4].Limit, s.PFC.Xoff, s.PFC.Xon = true, 0, 100<<10, 50<<10
		}},
		{"shared.size=4MiB", func(s *switchd.Settings) {
			s.Buffer.Shared = 4 << 20
			for _, q := range []int{0, 1, 2, 4, 5, 6, 7} {
				s.Queues[q].Alpha = 1
			}
		}},
		{"csig.strip=eth1,eth2", func(s *switchd.Settings) { s.CSIG.Strip[0], s.CSIG.Strip[1] = true, true }},
		{"trim.disable=10.0.0.0/24,fd00::/64 trim.victim=coin", func(s *switchd.Settings) {
			s.Trim.Disabled, s.Trim.Coin = []string{"10.0.0.0/24", "fd00::/64"}, true
		}},
		{"classes.18=roce classes.19=7", func(s *switchd.Settings) { s.Classes[18], s.Classes[19] = 4, 7 }},
		{"ecn.enabled=false", func(s *switchd.Settings) {
			for q := range s.Queues {
				s.Queues[q].Kmin, s.Queues[q].Kmax = 0, 0
			}
		}},
		{"pfc.watchdog=off", func(s *switchd.Settings) { s.PFC.Watchdog = 0 }},
	} {
		before := clone(*p.Nodes[id].Switch)
		want := clone(before)
		c.want(&want)
		got, err := p.SetSwitch(id, before, strings.Fields(c.set))
		if err != nil {
			t.Errorf("%s: %v", c.set, err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v, want\n%+v", c.set, got, want)
		}
		if !reflect.DeepEqual(before, *p.Nodes[id].Switch) {
			t.Fatalf("%s: changed its argument", c.set)
		}
		if err := got.Validate(8); err != nil {
			t.Errorf("%s: %v", c.set, err)
		}
	}
}

func TestSetSwitchRefuses(t *testing.T) {
	p, id := sandbox(t, "")
	for set, want := range map[string]string{
		"ecn.kmin":                                  `setting (ecn.kmin): not an assignment; write it like ecn.kmin=10%`,
		"ecn.kmin=":                                 "not an assignment",
		"ecn.kmn=10%":                               `setting (ecn.kmn): not a setting of a switch; did you mean "ecn.kmin"?`,
		"ecn.kmin.x=10%":                            "not a setting of a switch",
		"queues.dta.weight=3":                       `did you mean "queues.data.weight"?`,
		"ecn=10%":                                   "setting (ecn): a section of settings; valid are ecn.enabled, ecn.kmin",
		"queues.data=3":                             "a section of settings",
		"latency=1us":                               "fixed while a lab runs",
		"ecn.kmin=10":                               `ecn.kmin (10): a bare number; write it like 2MiB`,
		"ecn.kmin=90%":                              "ecn.kmin (90%)",
		"ecn.pmax=101%":                             "out of range; from 0% to 100%",
		"trim.enabled=maybe":                        "not true or false",
		"trim.enabled=false trim.enabled=true":      "given twice, first as trim.enabled=false",
		"queues.data.weight=1 queues.1.weight=2":    "given twice",
		"queues.data.weight=0":                      "out of range; from 1 to 10000",
		"queues.control.weight=5":                   "a strict queue goes before all others and has no weight",
		"queues.control.ecn=true":                   "never marked",
		"queues.roce.lossless=true":                 "without PFC nothing keeps a queue from overflowing; add pfc.enabled: true",
		"queues.data.alpha=2":                       "of which there is none",
		"pfc.enabled=true pfc.xon=2MiB":             "pfc.xon (2MiB): above xoff",
		"pfc.enabled=true queues.roce.trim=true":    "drops nothing that could be trimmed",
		"pfc.enabled=true shared.size=64KiB":        "less than the",
		"shared.size=64KiB shared.reserved=10KiB":   "8 ports with 8 lossy queues",
		"buffer=1KiB":                               "buffer (1KiB): then queues.besteffort.limit (1KiB) is does not hold",
		"buffer=800%":                               "buffer (800%)",
		"trim.retxLimit=50%":                        "trim.retxLimit (50%): below the data queue's limit",
		"trim.trimmable=10,46":                      "never trimmed",
		"trim.trimmable=10,10":                      "given twice",
		"trim.disable=10.0.0.1/24":                  `did you mean "10.0.0.0/24"?`,
		"mirror.to=eth9":                            "mirror.to (eth9): leaf0 has no such port; its ports are eth1 to eth8",
		"mirror.to=9":                               "write it like eth1",
		"mirror.to=eth2 mirror.from=eth2":           "copies would go to the port that they are copies of",
		"weight.eth9=2":                             "leaf0 has no such port",
		"weight.eth99=2":                            "not a setting of a switch",
		"csig.strip=eth1,eth64":                     "leaf0 has no such port",
		"ecmp.hash=md5":                             "not one of mix, crc32, crc32_rot, xor",
		"ecmp.group=resilient ecmp.buckets=4":       "fewer than the 8 ports",
		"csig.wide=0x0800":                          "what other frames have",
		"csig.wide=0xCCDD":                          "also the TPID of the other tag",
		"ecn.enabled=false ecn.kmin=10%":            "nothing is marked here; add ecn.enabled=true",
		"queues.data.ecn=false queues.data.kmin=1B": "nothing is marked here; add queues.data.ecn=true",
		"buffer=[":                                  "not a value",
		"buffer=&a 2KiB":                            "anchor",
	} {
		before := clone(*p.Nodes[id].Switch)
		sep := strings.Fields(set)
		if strings.Contains(set, "&") {
			sep = []string{set}
		}
		got, err := p.SetSwitch(id, before, sep)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", set, err, want)
		}
		if !reflect.DeepEqual(got, before) {
			t.Errorf("%s: refused and still changed", set)
		}
	}
	if _, err := p.SetSwitch(len(p.Nodes)-1, switchd.Settings{}, nil); err == nil {
		t.Error("an end point has been set")
	}
}

// TestSwitchKeys: every key has an example that is taken, and what FormatSwitch prints names no other.
func TestSwitchKeys(t *testing.T) {
	p, id := sandbox(t, "")
	keys := map[string]bool{}
	for _, k := range SwitchKeys() {
		if keys[k.Name] = true; k.Doc == "" || !strings.HasPrefix(k.Example, k.Name+"=") {
			t.Errorf("%+v", k)
		}
		set := []string{k.Example, "shared.size=64MiB"}
		if strings.HasPrefix(k.Name, "shared.size") {
			set = set[:1]
		}
		if strings.HasPrefix(k.Name, "weight.") && len(k.Name) > len("weight.eth8") {
			continue // ports that this switch has not
		}
		if strings.HasPrefix(k.Name, "queues.control.weight") {
			set = append(set, "queues.control.strict=false")
		}
		if strings.HasPrefix(k.Name, "queues.control.ecn") || strings.HasPrefix(k.Name, "queues.trimmed.ecn") || strings.HasPrefix(k.Name, "queues.control.k") || strings.HasPrefix(k.Name, "queues.trimmed.k") {
			continue // these are never marked
		}
		if _, err := p.SetSwitch(id, *p.Nodes[id].Switch, set); err != nil {
			t.Errorf("%v: %v", set, err)
		}
	}
	for _, kv := range p.FormatSwitch(*p.Nodes[id].Switch) {
		if !keys[kv.Key] || kv.Value == "" {
			t.Errorf("%+v is not among the keys", kv)
		}
	}
}

// TestFormatSwitchProperty: what is printed of random settings makes them again, and a switch takes them.
func TestFormatSwitchProperty(t *testing.T) {
	p, id := sandbox(t, "")
	rng := rand.New(rand.NewPCG(*mutSeed, 4))
	values := []string{"true", "false", "auto", "none", "0B", "off", "any", "eth1", "eth5", "1", "2", "8", "300", "0.25", "5%", "60%", "100%", "150%", "20KiB", "64MiB", "64B", "0xCCDF", "3us", "150ms", "coin",
		"crc32_rot", "resilient", "rate", "random", "alert", "10,12", "src,flowlabel", "flowlabel", "0x0800", "10.0.0.0/24", "roce", "6", "eth2,eth3", "[]"}
	keys := liveNames()
	base := *p.Nodes[id].Switch
	cur, changes := base, 0
	for i := range 15_000 {
		set := []string{}
		for range 1 + rng.IntN(3) {
			set = append(set, keys[rng.IntN(len(keys))]+"="+values[rng.IntN(len(values))])
		}
		next, err := p.SetSwitch(id, cur, set)
		if err != nil {
			continue
		}
		changes++
		var list []string
		for _, kv := range p.FormatSwitch(next) {
			list = append(list, kv.Key+"="+kv.Value)
		}
		again, err := p.SetSwitch(id, base, list)
		if err != nil || !reflect.DeepEqual(again, next) {
			t.Fatalf("seed %d, step %d, %v: %v\nprinted %s\n%+v\nmade\n%+v", *mutSeed, i, set, err, strings.Join(list, "\n"), next, again)
		}
		node := engine.New(engine.Config{ID: id, Ports: make([]link.Config, 8)}, nil)
		if _, err := switchd.New(node, switchd.Config{Ports: make([]switchd.Port, 8), Settings: next}); err != nil {
			t.Fatalf("seed %d, step %d, %v: %v", *mutSeed, i, set, err)
		}
		if cur = next; changes%40 == 0 {
			cur = base
		}
	}
	if changes < 300 {
		t.Errorf("only %d changes were made", changes)
	}
	t.Logf("%d changes", changes)
}

func ExamplePlan_SetSwitch() {
	s, _ := Generate("star-4")
	p, _ := BuildPlan(s)
	_, err := p.SetSwitch(0, *p.Nodes[0].Switch, []string{"ecn.kmim=10%", "queues.data.weight=none"})
	fmt.Println(err)
	// Output:
	// setting (ecn.kmim): not a setting of a switch; did you mean "ecn.kmin"?
	// queues.data.weight (none): not a whole number; write digits only, e.g. 4
}

// FuzzSetSwitch: whatever is assigned is refused, or makes settings that a switch takes.
func FuzzSetSwitch(f *testing.F) {
	for _, k := range SwitchKeys() {
		f.Add(k.Example)
	}
	f.Add("ecmp.fields=src,dst")
	f.Add("trim.disable=[10.0.0.0/24, {a: b}]")
	p, id := sandbox(f, "")
	f.Fuzz(func(t *testing.T, assignment string) {
		s, err := p.SetSwitch(id, *p.Nodes[id].Switch, []string{assignment})
		if err != nil {
			if !reflect.DeepEqual(s, *p.Nodes[id].Switch) {
				t.Fatalf("%q: refused and still changed", assignment)
			}
			return
		}
		if err := s.Validate(8); err != nil {
			t.Fatalf("%q: %v", assignment, err)
		}
	})
}
