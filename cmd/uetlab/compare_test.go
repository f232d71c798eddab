package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/experiment"
	"github.com/uetlab/uetlab/workload"
)

// experimentFile writes a file and gives its name.
func experimentFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// reported makes the lab answer with flows that take so long for each load balancer.
func reported(f *fake) {
	f.run = func(body string) []workload.Result {
		var req api.RunRequest
		if err := json.Unmarshal([]byte(body[strings.Index(body, "{"):]), &req); err != nil {
			panic(err)
		}
		t := map[string]int64{"reps": 42_000, "ecmp": 61_500, "oblivious": 42_000}[req.FEP["lb"]] + 1000*int64(req.Seed)
		r := fakeResult(1 << 20)
		r.Seed, r.PeakQueue, r.Trims = req.Seed, 65536, uint64(req.Seed)
		for i := range 2 {
			r.PerRank = append(r.PerRank, workload.RankResult{Rank: i, Iterations: []workload.Span{{StartNs: 0, EndNs: t, AckedNs: t + int64(i)*500}}, SentBytes: 1 << 20})
		}
		if req.FEP["lb"] == "oblivious" && req.Seed == 2 {
			r.PerRank = r.PerRank[:1]
		}
		return []workload.Result{r}
	}
}

func TestCompareOnALab(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	f.healthy = true
	reported(f)
	const line = "compare --cc nscc --lb ecmp,reps,oblivious --seeds 1,2 permutation --iters 1 --fep reps.freeze=100us"
	for _, format := range []string{formatTable, formatJSON, formatYAML} {
		o := runLine(t, context.Background(), line+" --format "+format)
		if o.code != 0 || o.err != "" {
			t.Fatalf("%+v", o)
		}
		golden(t, filepath.Join("testdata", "output", "compare."+format), strings.NewReplacer(version(), "VERSION", "--format "+format, "--format FORMAT").Replace(o.out))
	}
	if !strings.Contains(f.got[0], `"seed":1`) || !strings.Contains(f.got[0], `"fep":{"cc":"nscc","lb":"ecmp","reps.freeze":"100us"}`) {
		t.Errorf("asked for %s", f.got[0])
	}
}

func TestCompareFilesOnALab(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	reported(f)
	plan, err := simPlan("pair")
	if err != nil {
		t.Fatal(err)
	}
	f.plan = plan
	good := experimentFile(t, "name: good\nclaim: it holds\ntopology: pair\nworkload: permutation\nfep: {cc: nscc}\nvary: [{name: a, fep: {lb: reps}}, {name: b, fep: {lb: ecmp}}]\nexpect: [a.max < b.max, 'ideal == 41000']\n")
	bad := experimentFile(t, "name: bad\ntopology: pair\nworkload: permutation\nseeds: 7\nlb: [reps, ecmp]\nexpect: [reps.max >= ecmp.max]\n")
	o := runLine(t, context.Background(), "compare "+good+" "+bad)
	if o.code != api.CodeCheck || o.err != "uetlab: compare: 1 expectation did not come true\n" {
		t.Errorf("%+v", o)
	}
	golden(t, filepath.Join("testdata", "output", "compare-files.table"), o.out)
	for text, want := range map[string]string{
		"name: x\ntopology: star-8\nworkload: incast\nlb: [reps]\n":                        "lab one is not of the topology star-8",
		"name: x\ntopology: pair\nworkload: incast\nlb: reps\nswitch: {ecn.kmin: 10%}\n":   "variant reps: switch (ecn.kmin=10%): a lab's switches are as its topology says",
		"name: x\ntopology: pair\nworkload: incast --until 3us\nlb: reps\n":                ":3:11: variant reps: --until: uetlab run has no such flag",
		"name: x\ntopology: pair\nworkload: incast\nlb: reps\nlinks: host0-host1 fail\n":   "",
		"name: x\ntopology: pair\nworkload: incast\nlb: reps\nlinks: host0-host9 loss=1\n": "host0-host9",
	} {
		o := runLine(t, context.Background(), "compare "+experimentFile(t, text))
		if want == "" {
			want = "the link is impaired already"
			o.err = o.out
		}
		if !strings.Contains(o.err, want) || o.code == 0 {
			t.Errorf("%s: %+v", text, o)
		}
	}
}

// TestCompareMendsLinks looks at what a lab is told before and after each run.
func TestCompareMendsLinks(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	f.healthy, f.nowNs = true, 5_000_000
	reported(f)
	f.onGot = func(*http.Request) { f.nowNs += 1_000_000 }
	o := runLine(t, context.Background(), "compare --lb reps,ecmp permutation --link host0-host1 rate=25%")
	if o.code != api.CodeUsage { // words are split at blanks here: rate=25% is an argument of its own
		t.Fatalf("%+v", o)
	}
	file := experimentFile(t, "name: x\ntopology: pair\nworkload: permutation\nlb: [reps, ecmp]\nlinks: [host0-host1 rate=25%, host0-host1 fail at=+30us from=host0]\n")
	plan, err := simPlan("pair")
	if err != nil {
		t.Fatal(err)
	}
	f.plan, f.got = plan, nil
	if o = runLine(t, context.Background(), "compare "+file); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	var got []string
	for _, g := range f.got {
		if strings.Contains(g, "/v1/clock") || strings.HasPrefix(g, "GET /v1/links") {
			continue
		}
		got = append(got, strings.NewReplacer("POST /v1/links/host0-host1 ", "", "POST /v1/run ", "run ").Replace(g))
	}
	want := []string{`{"op":"set","set":{"rate":0.25}}`, `{"op":"fail","from":"host0","at":"+30µs"}`, "run ", `{"op":"restore"}`}
	if len(got) != 8 {
		t.Fatalf("%q", got)
	}
	for i, g := range got {
		if !strings.HasPrefix(g, want[i%4]) {
			t.Errorf("step %d: %s, want %s", i, g, want[i%4])
		}
	}
}

const small = "compare --sim fat-tree-2x2 --cc nscc,dctcp --lb reps,fixed --ack packet --seeds 1,2 permutation --size 64KiB"

func TestCompareDoesNotDependOnJobs(t *testing.T) {
	one, four := runLine(t, context.Background(), small+" --format json --jobs 1"), runLine(t, context.Background(), small+" --format json --jobs 4")
	if one.code != 0 || strings.ReplaceAll(one.out, "--jobs 1", "--jobs 4") != four.out {
		t.Errorf("%+v\n%+v", one, four)
	}
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(one.out), &c); err != nil || len(c.Variants) != 4 || len(c.Variants[3].Runs) != 2 || c.Variants[3].Stats.Flows != 8 {
		t.Fatalf("%v: %s", err, one.out)
	}
	var sim workload.Result
	simResult(t, "fat-tree-2x2 -- permutation --size 64KiB --seed 2 --cc dctcp --lb fixed --ack packet", &sim)
	a, _ := json.Marshal(c.Variants[3].Runs[1].Result)
	b, _ := json.Marshal(sim)
	if c.Variants[3].Name != "dctcp_fixed" || string(a) != string(b) {
		t.Errorf("not what sim says:\n%s\n%s", a, b)
	}
}

// TestHighestQueue compares the highest queue with those that a result tells of one by one.
func TestHighestQueue(t *testing.T) {
	var r workload.Result
	simResult(t, "fat-tree-2x2 -- incast --size 1MiB --cc nscc", &r)
	most := uint64(0)
	for _, q := range r.Queues {
		if !strings.HasPrefix(q.Node, "host") {
			most = max(most, q.PeakBytes)
		}
	}
	if most == 0 || r.PeakQueue != most {
		t.Errorf("%d, and of the queues %d", r.PeakQueue, most)
	}
}

func TestCompareReport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.html")
	o := runLine(t, context.Background(), small+" --html "+name)
	page, err := os.ReadFile(name)
	if err != nil || o.code != 0 || !strings.Contains(o.err, "report: "+name) {
		t.Fatalf("%v, %+v", err, o)
	}
	for _, want := range []string{"nscc_reps", "dctcp_fixed", small + " --html " + name, version(), "Completion of flows", "Highest queue", "Windows: "} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(string(page), "http") || strings.Contains(string(page), "<script") {
		t.Error("the page loads something")
	}
	plain := runLine(t, context.Background(), small)
	if o.out != plain.out {
		t.Errorf("a report changes figures:\n%s\n%s", o.out, plain.out)
	}
}

func TestCompareWhatDidNotFinish(t *testing.T) {
	file := experimentFile(t, "name: x\ntopology: pair\nworkload: incast --size 1MiB --until 3us\nlb: [fixed]\nexpect: [fixed.unfinished == 1, fixed.max > 1000 * ideal, not (fixed.mean < 1e9)]\n")
	o := runLine(t, context.Background(), "compare --sim "+file)
	if o.code != api.CodeUsage || !strings.Contains(o.err, "write --sim behind it") {
		t.Errorf("%+v", o)
	}
	if o = runLine(t, context.Background(), "compare "+file+" --sim"); o.code != 0 || !strings.Contains(o.out, "1 of 1 flows did not finish") || !strings.Contains(o.out, "(never and ") {
		t.Errorf("%+v", o)
	}
}

// TestCompareKeepsOtherVariants lets one variant fail.
func TestCompareKeepsOtherVariants(t *testing.T) {
	file := experimentFile(t, "name: x\ntopology: pair\nworkload: incast --size 1MiB\nvary: [{name: a}, {name: b, links: host0-host1 blackhole}, {name: c, flags: --size 2MiB}]\nexpect: [a.max > 0, b.max > 0, c.max > 1.9 * a.max]\n")
	o := runLine(t, context.Background(), "compare --format json --sim pair "+file)
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(o.out), &c); err != nil || o.code != api.CodePartial || c.Variants[0].Error != "" || c.Variants[1].Error == "" || !c.Checks[0].OK || c.Checks[1].OK || !c.Checks[2].OK || c.Checks[1].Figures != "b failed" {
		t.Errorf("%v, %+v", err, o)
	}
}

func TestCompareCommandLines(t *testing.T) {
	here(t)
	file := experimentFile(t, "name: x\ntopology: pair\nworkload: incast --sise 3\nlb: [reps]\n")
	lb := experimentFile(t, "name: x\ntopology: pair\nworkload: incast\nvary:\n- {name: a, fep: {lb: resp}}\n")
	for in, want := range map[string]string{
		"compare":                                                         "needs FILE… or WORKLOAD",
		"compare --sim pair incast":                                       "nothing to compare",
		"compare --sim pair --lb resp incast":                             `fep.lb (resp): not a load balancer; did you mean "reps"?`,
		"compare --sim pair --cc nsccc incast":                            `did you mean "nscc"?`,
		"compare --sim pair --lb reps --fep nscc.gama=1 incast":           `did you mean "nscc.gamma"?`,
		"compare --sim pair --lb reps --fep lb=ecmp incast":               "has a flag of its own",
		"compare --sim pair --lb reps --fep evs incast":                   "not KEY=VALUE",
		"compare --sim pair --lb reps,reps incast":                        "variant reps twice",
		"compare --sim pair --lb reps --seeds 1,x incast":                 "--seeds (1,x)",
		"compare --sim pair --lb reps --seeds 1,1 incast":                 "--seeds (1,1)",
		"compare --sim pair --lb reps incasd":                             "did you mean incast?",
		"compare --sim pair --lb reps incast --size 1:8:2":                "a sweep",
		"compare --sim pair --lb reps incast --root 9":                    "--root 9",
		"compare --sim pair --lb reps incast --jobs 0":                    "--jobs (0)",
		"compare --lb reps incast --sim":                                  "--sim: which topology?",
		"compare --sim nowhere --lb reps incast":                          "nowhere",
		"compare --sim hosts-2x2 --lb reps incast":                        "is a plain host",
		"compare --lb reps incast":                                        "--sim runs it in the simulator",
		"compare x.yaml --sim":                                            "x.yaml: no such file",
		"compare " + file + " --sim":                                      file + ":3:11: variant reps: --sise: uetlab sim has no such flag",
		"compare " + lb + " --sim":                                        lb + `:5:3: variant a: run: fep.lb (resp): not a load balancer; did you mean "reps"?`,
		"compare " + lb + " --sim --seeds 1":                              "--seeds: the experiment's file says what is run",
		"compare " + lb + " --sim --size 1":                               "--size: the experiment's file says what is run",
		"compare --sim pair --lb reps,ecmp --html /nowhere/x.html incast": "--html: open",
	} {
		o := runLine(t, context.Background(), in)
		if o.code == 0 || !strings.Contains(o.err, want) || strings.Count(o.err, "\n") > 2 {
			t.Errorf("%s: %+v, want %s", in, o, want)
		}
	}
}

func TestCompareStopsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancel(stopped{syscall.SIGINT}) }) // while it runs; whenever that is, the outcome is the same
	o := runLine(t, ctx, "compare --sim fat-tree-2x4 --lb reps,oblivious permutation --size 1GiB")
	if o.code != api.CodeInterrupted || o.out != "" || !errors.As(context.Cause(ctx), &stopped{}) {
		t.Errorf("%+v", o)
	}
}
