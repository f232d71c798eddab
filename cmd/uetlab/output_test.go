package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/workload"
)

func TestOutput(t *testing.T) {
	here(t)
	fakeLab(t, "one")
	for name, cmd := range map[string]string{
		"ls": "ls", "ps": "ps", "inspect": "inspect", "inspect-node": "inspect host0", "inspect-link": "inspect host1-host0",
		"link-ls": "link ls", "link-fail": "link fail host0-host1 --at +30us", "clock": "clock show", "run": "run permutation --check",
		"stats": "stats", "stats-node": "stats host0", "events": "events",
	} {
		for _, format := range []string{formatTable, formatJSON, formatYAML} {
			if name == "run" && format == formatTable {
				continue // the table is the workload package's
			}
			o := runLine(t, context.Background(), cmd+" --format "+format)
			if o.code != 0 || o.err != "" {
				t.Errorf("%s %s: code %d, stderr %q", cmd, format, o.code, o.err)
			}
			golden(t, filepath.Join("testdata", "output", name+"."+format), o.out)
		}
	}
}

// TestJSONAndYAMLSayTheSame compares the two forms of every golden answer.
func TestJSONAndYAMLSayTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/output/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		j, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		y, err := os.ReadFile(strings.TrimSuffix(file, "json") + "yaml")
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "events.json") {
			continue // a stream of lines
		}
		back, err := yaml.YAMLToJSON(y)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var a, b any
		if err := json.Unmarshal(j, &a); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := json.Unmarshal(back, &b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		x, _ := json.Marshal(a)
		z, _ := json.Marshal(b)
		if !bytes.Equal(x, z) {
			t.Errorf("%s: YAML says something else:\n%s\n%s", file, x, z)
		}
	}
}

func TestBigNumbersSurviveYAML(t *testing.T) {
	var b bytes.Buffer
	if err := writeYAML(&b, map[string]any{"seed": uint64(18446744073709551615), "text": "yes", "n": int64(9007199254740993), "s": "1e3"}); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Seed uint64
		Text string
		N    int64
		S    string
	}
	if err := yaml.Unmarshal(b.Bytes(), &back); err != nil || back.Seed != 18446744073709551615 || back.N != 9007199254740993 || back.Text != "yes" || back.S != "1e3" {
		t.Errorf("%+v, %v from %s", back, err, b.String())
	}
}

func TestSweepPrintsAnArray(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	f.results = []workload.Result{fakeResult(8), fakeResult(16)}
	o := runLine(t, context.Background(), "run permutation --size 8:16 --format json")
	var results []workload.Result
	if err := json.Unmarshal([]byte(o.out), &results); err != nil || len(results) != 2 || o.code != 0 {
		t.Errorf("code %d, %v: %s", o.code, err, o.out)
	}
	f.results = []workload.Result{fakeResult(8)}
	o = runLine(t, context.Background(), "run permutation --size 8 --format json")
	var one workload.Result
	if err := json.Unmarshal([]byte(o.out), &one); err != nil || one.SizeBytes != 8 {
		t.Errorf("one size: %v: %s", err, o.out)
	}
}

func TestTopoShow(t *testing.T) {
	o := runLine(t, context.Background(), "topo show fat-tree-1x2")
	for _, want := range []string{"plane BDP", "leaf0-spine0  leaf0:eth3  spine0:eth1", "10.0.1.2", "payload MTU"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	var plan topology.Plan
	if err := json.Unmarshal([]byte(runLine(t, context.Background(), "topo show fat-tree-1x2 --format json").out), &plan); err != nil || len(plan.Nodes) != 7 {
		t.Errorf("%d nodes, %v", len(plan.Nodes), err)
	}
}

func TestEmptyListIsAList(t *testing.T) {
	here(t)
	for format, want := range map[string]string{formatJSON: "[]\n", formatYAML: "[]\n", formatTable: "NAME  STATE"} {
		o := runLine(t, context.Background(), "ls --format "+format)
		if o.code != 0 || !strings.HasPrefix(o.out, want) {
			t.Errorf("%s: code %d, %q, want %q", format, o.code, o.out, want)
		}
	}
}

func TestRequestsSayWhatTheCommandLineSays(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	for _, c := range []struct{ cmd, want string }{
		{"link fail host0-host1 --at +30us --from host0", `POST /v1/links/host0-host1 {"op":"fail","from":"host0","at":"+30us"}`},
		{"link restore host0:eth1", `POST /v1/links/host0:eth1 {"op":"restore"}`},
		{"link set host0-host1 loss=0.1% delay=+2us rate=25% blackhole down=off", `POST /v1/links/host0-host1 {"op":"set","set":{"down":false,"blackhole":true,"loss":0.001,"delayNs":2000,"rate":0.25}}`},
		{"link set host0-host1 rate=100Gbps", `POST /v1/links/host0-host1 {"op":"set","set":{"rate":0.25}}`},
		{"clock step 1.5us", `POST /v1/clock {"op":"step","stepNs":1500}`},
		{"clock cap 1000x", `POST /v1/clock {"op":"cap","cap":1000}`},
		{"clock pause", `POST /v1/clock {"op":"pause"}`},
		{"clock", `GET /v1/clock`},
		{"run permutation --size 2MiB --seed 7 --ranks host1,0 --iters 3 --check --warm",
			`POST /v1/run {"workload":"permutation","sizes":[2097152],"ranks":[1,0],"iterations":3,"check":true,"seed":7,"warm":true}`},
		{"run allreduce --ranks 2 --algo rd", `POST /v1/run {"workload":"allreduce","sizes":[1048576],"rankCount":2,"iterations":1,"check":false,"seed":1,"warm":false,"algo":"rd"}`},
		{"tcpdump host0-host1 -c 5 -A --wall udp port 4793", `GET /v1/capture?count=5&filter=udp+port+4793&format=text&link=host0-host1&side=A&wall=1`},
		{"logs -f host0", `GET /v1/logs?follow=1&node=host0`},
		{"events -f", `GET /v1/events?follow=1`},
		{"stats host1", `GET /v1/stats?node=host1`},
	} {
		f.got = nil
		o := runLine(t, context.Background(), c.cmd)
		if o.code != 0 || len(f.got) != 1 || f.got[0] != c.want {
			t.Errorf("%s: code %d, %s\n got %q\nwant %s", c.cmd, o.code, o.err, f.got, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	var b strings.Builder
	for _, line := range []string{"", "help", "help exit-codes"} {
		b.WriteString("$ uetlab " + line + "\n" + runLine(t, context.Background(), line).out + "\n")
	}
	walk(commands(), func(path []string, c *cli.Command) {
		if c.Hidden {
			return
		}
		line := strings.Join(path, " ")
		help := runLine(t, context.Background(), "help "+line)
		if flag := runLine(t, context.Background(), line+" x --help"); len(c.Subcommands) == 0 && flag.out != help.out {
			t.Errorf("%s --help differs from help %s", line, line)
		}
		b.WriteString("$ uetlab help " + line + "\n" + help.out + "\n")
	})
	golden(t, "testdata/help.golden", b.String())
}

func TestCommandReferenceIsCurrent(t *testing.T) {
	var b strings.Builder
	if err := writeDocs(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/cli.md", b.String())
}

func TestUnits(t *testing.T) {
	for ns, want := range map[int64]string{0: "0s", 1: "1ns", 1234: "1.234us", 1_500_000: "1.5ms", 2e9: "2s", -1: "-"} {
		if got := nanos(ns); got != want {
			t.Errorf("nanos(%d) = %s, want %s", ns, got, want)
		}
	}
	for bps, want := range map[int64]string{400e9: "400Gbps", 2_500_000: "2500kbps", 2_500_010_000: "2500010kbps", 3_200_000_000_000: "3200Gbps", 1e12: "1Tbps", 12: "12bps"} {
		if got := rate(bps); got != want {
			t.Errorf("rate(%d) = %s, want %s", bps, got, want)
		}
	}
	for n, want := range map[int64]string{1 << 20: "1MiB", 1536: "1536B", 3 << 30: "3GiB", 0: "0B"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		word, text string // what impairText makes of it
		bps        int64
	}{
		{"loss=0.1%", "loss=0.1%", 0}, {"loss=0.25", "loss=25%", 0}, {"delay=2us", "delay=+2us", 0}, {"delay=+1.5ms", "delay=+1.5ms", 0},
		{"rate=25%", "rate=25%", 0}, {"rate=100Gbps", "-", 100e9}, {"blackhole", "blackhole", 0}, {"down", "down", 0}, {"down=off", "-", 0}, {"blackhole=on", "blackhole", 0},
	} {
		var s api.LinkSet
		bps, err := setting(&s, c.word)
		if got := impairText(applied(s)); err != nil || bps != c.bps || got != c.text {
			t.Errorf("%s: %s, %d, %v; want %s, %d", c.word, got, bps, err, c.text, c.bps)
		}
	}
	for _, bad := range []string{"", "los=1%", "loss", "loss=", "loss=101%", "loss=-1", "loss=NaN", "rate=0", "rate=2", "rate=Gbps", "delay=-1us", "delay=2", "down=perhaps"} {
		if _, err := setting(&api.LinkSet{}, bad); api.AsError(err) == nil || api.AsError(err).Code != api.CodeUsage || api.AsError(err).Hint == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// applied is what a set of impairments makes of a sound link.
func applied(s api.LinkSet) api.Impair {
	i := api.Impair{Rate: 1}
	if s.Down != nil {
		i.Down = *s.Down
	}
	if s.Blackhole != nil {
		i.Blackhole = *s.Blackhole
	}
	if s.Loss != nil {
		i.Loss = *s.Loss
	}
	if s.DelayNs != nil {
		i.DelayNs = *s.DelayNs
	}
	if s.Rate != nil {
		i.Rate = *s.Rate
	}
	return i
}

func FuzzSetting(f *testing.F) {
	for _, s := range []string{"loss=0.1%", "rate=100Gbps", "delay=+2us", "down=off", "rate=1e400%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var set api.LinkSet
		bps, err := setting(&set, s)
		if err != nil {
			return
		}
		i := applied(set)
		if !(i.Loss >= 0 && i.Loss <= 1) || !(i.Rate > 0 && i.Rate <= 1) || i.DelayNs < 0 || bps < 0 {
			t.Fatalf("%q gave %+v, %d", s, i, bps)
		}
	})
}

func FuzzRanks(f *testing.F) {
	for _, s := range []string{"8", "0,3,5", "host1,host2", "-1", ","} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, n, err := parseRanks(s)
		if err == nil && s != "" && (n < 2) == (len(list) == 0) {
			t.Fatalf("%q gave %v, %d", s, list, n)
		}
	})
}

func TestCompletion(t *testing.T) {
	here(t)
	fakeLab(t, "one")
	t.Chdir(t.TempDir())
	for _, c := range []struct{ words, want string }{
		{"d", "down decode doctor"},
		{"link ", "ls fail restore set"},
		{"link f", "fail"},
		{"link fail ", "host0-host1"},
		{"exec ", "host0 host1"},
		{"exec -n one host1", "host1"},
		{"exec -n other ", ""},
		{"ps --name ", "one"},
		{"ps --form", "--format"},
		{"ps --format y", "yaml"},
		{"run all", "allreduce allgather alltoall"},
		{"up fat-tree-2", "fat-tree-2x4"},
		{"link set host0-host1 l", "loss="},
		{"completion f", "fish"},
		{"nonsense ", ""},
	} {
		words := strings.Split(c.words, " ")
		got := complete(context.Background(), words[:len(words)-1], words[len(words)-1])
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: %v, want %s", c.words, got, c.want)
		}
	}
	if o := runLine(t, context.Background(), completeName+" -- link fail -n one h"); o.out != "host0-host1\n" {
		t.Errorf("%q, %s", o.out, o.err)
	}
}

func TestTopologyErrorsAreAllReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("name: bad\nfabric: {kind: star, hosts: 4}\ndefaults:\n  link: {rate: 400G}\n  fep: {lb: sprey}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []string{"up " + file, "topo show " + file, "topo validate " + file} {
		o := runLine(t, context.Background(), cmd)
		if o.code != api.CodeUsage || !strings.Contains(o.err, file+":4:") || !strings.Contains(o.err, file+":5:") {
			t.Errorf("%s: code %d, %s", cmd, o.code, o.err)
		}
	}
	o := runLine(t, context.Background(), "topo validate --format json pair "+file)
	var views []checkView
	if err := json.Unmarshal([]byte(o.out), &views); err != nil || len(views) != 2 || !views[0].Valid || len(views[1].Problems) != 2 || views[1].Problems[0].Line != 4 {
		t.Errorf("%v: %s", err, o.out)
	}
}

func TestGeneratedTopologyReadsBack(t *testing.T) {
	for _, name := range []string{"fat-tree-2x3", "pair", "star-8", "fat-tree-k4"} {
		o := runLine(t, context.Background(), "topo gen "+name)
		if _, err := topology.Parse(name, []byte(o.out)); err != nil || o.code != 0 {
			t.Errorf("%s: code %d, %v", name, o.code, err)
		}
	}
}
