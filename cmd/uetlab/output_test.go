package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
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
		"link-ls": "link ls", "link-fail": "link fail host0-host1 --at +30us", "link-flap": "link flap host0-host1 --down 20us --period 100us --count 5",
		"chaos-dry-run": "chaos testdata/chaos.yaml --dry-run", "switch-ls": "switch ls", "switch-show": "switch show leaf0", "switch-changed": "switch show leaf0 --changed",
		"switch-set": "switch set leaf* ecn.kmin=10% --at +30us", "switch-queues": "switch queues leaf0 --hist", "switch-queues-port": "switch queues --port eth4",
		"clock": "clock show", "run": "run permutation --check",
		"stats": "stats", "stats-node": "stats host0", "events": "events",
		"cbfc": "cbfc", "cbfc-link": "cbfc host0-*", "lldp": "lldp", "lldp-detail": "lldp host0 --detail", "phy": "phy", "phy-detail": "phy host0-host1 --detail",
		"llr": "llr", "llr-detail": "llr host0-host1 --detail", "llr-reinit": "llr reinit host0-host1 --from host0 --at +30us",
		"cc": "cc", "paths": "paths host0 host1", "paths-none": "paths host1 host0 --evs 2",
		"pdc": "pdc", "pdc-all": "pdc host0 --all", "pdc-state": "pdc --state failed,opening", "pdc-none": "pdc --state linger",
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
		y = bytes.ReplaceAll(y, []byte("--format yaml"), []byte("--format json")) // reports name the command that made them
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
		{"link set host0-host1 rate=100Gbps", `POST /v1/links/host0-host1 {"op":"set","set":{"rateBps":100000000000}}`},
		{"link set host0-host1 burst=p:1%,r:25% jitter=1us,normal ber=off", `POST /v1/links/host0-host1 {"op":"set","set":{"burst":{"toBad":0.01,"toGood":0.25,"lossBad":1},"ber":0,"jitterNs":1000,"dist":"normal"}}`},
		{"link flap host0-host1 --down 20us --period 100us --count 5 --at +10us --from host1",
			`POST /v1/faults {"at":"+10us","steps":[{"atNs":0,"link":"host0-host1","op":"flap","from":"host1","flap":{"downNs":20000,"periodNs":100000,"count":5}}]}`},
		{"chaos testdata/chaos.yaml", `POST /v1/faults {"at":"+0s","steps":[{"atNs":20000,"link":"host0-host1","op":"fail"},{"atNs":50000,"link":"host0-host1","op":"set","from":"host0","set":{"loss":0.001,"delayNs":2000}},` +
			`{"atNs":60000,"link":"host0-host1","op":"flap","flap":{"downNs":20000,"periodNs":100000,"count":2}}]}`},
		{"chaos testdata/chaos.yaml --at 1ms", `POST /v1/faults {"at":"1ms","steps":[{"atNs":20000,"link":"host0-host1","op":"fail"},{"atNs":50000,"link":"host0-host1","op":"set","from":"host0","set":{"loss":0.001,"delayNs":2000}},` +
			`{"atNs":60000,"link":"host0-host1","op":"flap","flap":{"downNs":20000,"periodNs":100000,"count":2}}]}`},
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
		{"cbfc host0-host1 leaf*", `GET /v1/cbfc?link=host0-host1&link=leaf%2A`},
		{"lldp", `GET /v1/lldp`},
		{"lldp host1 --detail", `GET /v1/lldp?node=host1`},
		{"phy", `GET /v1/phy`},
		{"phy leaf0-spine0 leaf0:eth1 --detail", `GET /v1/phy?link=leaf0-spine0&link=leaf0%3Aeth1`},
		{"link set host0-host1 ucr=1e-6 rawber=2e-4", `POST /v1/links/host0-host1 {"op":"set","set":{"ucr":0.000001,"rawBer":0.0002}}`},
		{"llr", `GET /v1/llr`},
		{"llr host0-host1 --detail", `GET /v1/llr?link=host0-host1`},
		{"llr reinit host0-host1 --from host1 --at 1ms", `POST /v1/links/host0-host1 {"op":"set","from":"host1","set":{"llrReInit":true},"at":"1ms"}`},
		{"link set host0-host1 llr=reinit", `POST /v1/links/host0-host1 {"op":"set","set":{"llrReInit":true}}`},
		{"pdc", `GET /v1/pdcs`},
		{"cc host1", `GET /v1/cc?node=host1`},
		{"cc host0 --trace -", `GET /v1/cc/windows?node=host0`},
		{"paths host0 host1 --evs 0", `GET /v1/paths?evs=65535&node=host0&peer=host1`},
		{"run incast --every 2us --format json", `POST /v1/run {"workload":"incast","sizes":[1048576],"iterations":1,"check":false,"seed":1,"warm":false,"everyNs":2000}`},
		{"pdc host1 --state closed", `GET /v1/pdcs?ended=1&node=host1`},
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

// TestWrongFaults holds the errors of link set, link flap and chaos to name the word and the remedy, and nothing to be sent.
func TestWrongFaults(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("steps:\n- {at: +1us, link: host0-host1, fial: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for cmd, want := range map[string]string{
		"link set host0-host1 los=1%":                                 "los=1%: no such setting of a link\nhint: did you mean loss?",
		"link set host0-host1 burst=1%":                               "hint: write burst=p:1%,r:25%",
		"link set host0-host1 down=perhaps":                           "hint: write down or down=off",
		"link flap host0-host1 --down 20us":                           "--period is missing",
		"link flap host0-host1 --down 20us --period 20us":             "not longer than",
		"link flap host0-host1 --down 20us --period 1ms --count 9999": "hint: give 1 to 1000",
		"chaos " + bad:       "2:33: key (fial): not one that stands here; did you mean fail?",
		"chaos nowhere.yaml": "script of faults: open nowhere.yaml",
	} {
		f.got = nil
		o := runLine(t, context.Background(), cmd)
		if o.code != api.CodeUsage || !strings.Contains(o.err, want) || len(f.got) != 0 {
			t.Errorf("%s: code %d, %s, sent %q; want %s", cmd, o.code, o.err, f.got, want)
		}
	}
}

// TestNoPDCs says what was not found and where else to look, and wants lists that are empty to be lists.
func TestNoPDCs(t *testing.T) {
	here(t)
	fakeLab(t, "one")
	for cmd, want := range map[string]string{
		"pdc leaf0":                              "no PDCs: leaf0 does not have one open; --all lists those that have ended\n",
		"pdc leaf0 --all":                        "no PDCs: leaf0 does not have one, or has had one of late\n",
		"pdc --state linger,pending":             "no PDCs: no end point has one in state linger or pending\n",
		"pdc --state pending --format json":      "[]\n",
		"pdc host1 --state failed --format yaml": "[]\n",
	} {
		if o := runLine(t, context.Background(), cmd); o.code != 0 || o.out != want {
			t.Errorf("%s: code %d, %q %s, want %q", cmd, o.code, o.out, o.err, want)
		}
	}
	if o := runLine(t, context.Background(), "pdc --state broken"); o.code != api.CodeUsage || !strings.Contains(o.err, "there are opening, established") {
		t.Errorf("%+v", o)
	}
}

// TestWatchAsksAgain interrupts a watch when it asks for the second time.
func TestWatchAsksAgain(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.onGot = func(r *http.Request) {
		if len(f.got) == 2 {
			cancel()
			<-r.Context().Done() // it has hung up: it does not take an answer that comes at the same time
		}
	}
	o := runLine(t, ctx, "pdc --watch")
	if n := strings.Count(o.out, "PEER PDC"); o.code == 0 || n != 1 || len(f.got) != 2 {
		t.Errorf("code %d, printed %d times, asked %q: %s", o.code, n, f.got, o.err)
	}
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
		{"link ", "ls fail restore set flap"},
		{"link f", "fail flap"},
		{"link fail ", "host0-host1"},
		{"exec ", "host0 host1"},
		{"exec -n one host1", "host1"},
		{"exec -n other ", ""},
		{"ps --name ", "one"},
		{"ps --form", "--format"},
		{"ps --format y", "yaml"},
		{"run all", "allreduce allgather alltoall"},
		{"up fat-tree-2", "fat-tree-2x4"},
		{"link set host0-host1 l", "loss= llr="},
		{"pdc ", "host0 host1"},
		{"pdc --state cl", "close-wait close-sent closed"},
		{"run permutation --cc n", "nscc nscc+rccc"},
		{"sim pair permutation --fep reps.f", "reps.freeze= reps.firstWindow="},
		{"completion f", "fish"},
		{"compare --cc nscc,sw", "nscc,swift"},
		{"compare --lb obl", "oblivious"},
		{"compare --sim fat-tree-2", "fat-tree-2x4"},
		{"compare --fep nscc.g", "nscc.gamma="},
		{"compare per", "permutation"},
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
