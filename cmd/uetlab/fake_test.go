package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/workload"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/cli.md")

// fakeEnv tells the test binary, started by up as a lab daemon, how to behave.
const fakeEnv = "UETLAB_TEST_DAEMON"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == labdName {
		fakeDaemon(os.Getenv(fakeEnv), os.Args[3])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeDaemon behaves like a daemon that is ready, fails, dies, or takes its time until it is told to stop.
func fakeDaemon(how, lab string) {
	pipe := json.NewEncoder(os.NewFile(3, "progress"))
	_ = pipe.Encode(api.Progress{Stage: "nodes", Done: 1, Total: 2})
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	switch how {
	case "fail":
		_ = pipe.Encode(api.Progress{Error: &api.Error{Code: api.CodePrecondition, Message: "nodes: no", Hint: "yes"}})
	case "die":
		fmt.Fprintln(os.Stderr, "boom")
	case "hang":
		<-stop
	case "ready":
		d, err := labdir.Open(lab)
		if err != nil {
			panic(err)
		}
		var opt api.UpOptions
		b, err := os.ReadFile(d.Options())
		if err != nil || json.Unmarshal(b, &opt) != nil {
			panic(err)
		}
		f := &fake{lab: api.Lab{Name: lab, Topology: opt.Topology, Runtime: opt.Runtime, Time: opt.Time, Seed: opt.Seed, State: api.LabReady,
			Nodes: len(opt.Plan.Nodes), Links: len(opt.Plan.Links)}, gone: make(chan struct{})}
		f.serve(d)
		_ = pipe.Encode(api.Progress{Stage: api.StageReady})
		select {
		case <-stop:
		case <-f.gone:
		}
	}
}

// fake is a lab daemon's API with canned answers.
type fake struct {
	lab     api.Lab
	plan    *topology.Plan
	err     *api.Error // answer to everything but GET /v1/lab
	results []workload.Result
	run     func(body string) []workload.Result // in place of results
	nowNs   int64                               // of the clock; 0: some time
	healthy bool                                // nothing is wrong with links
	gone    chan struct{}
	onGot   func(r *http.Request) // called when a request is in got, before its answer
	got     []string              // method, path, query and body of every request but GET /v1/lab and /v1/plan
}

func (f *fake) serve(d *labdir.Dir) {
	l, err := net.Listen("unix", d.Sock())
	if err != nil {
		panic(err)
	}
	go http.Serve(l, f) // lasts as long as the process
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	enc := json.NewEncoder(w)
	switch r.URL.Path {
	case "/v1/lab":
		_ = enc.Encode(f.lab)
		return
	case "/v1/plan":
		_ = enc.Encode(f.plan)
		return
	}
	f.got = append(f.got, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+body.String()))
	if f.onGot != nil {
		f.onGot(r)
	}
	if f.err != nil {
		api.WriteError(w, f.err)
		return
	}
	f.answer(w, r, enc)
}

func (f *fake) answer(w http.ResponseWriter, r *http.Request, enc *json.Encoder) {
	switch path := r.URL.Path; {
	case path == "/v1/nodes":
		_ = enc.Encode(fakeNodes())
	case path == "/v1/links":
		links := fakeLinks()
		if f.healthy {
			links[0].State = api.LinkUp
		}
		_ = enc.Encode(links)
	case strings.HasPrefix(path, "/v1/links/"):
		_ = enc.Encode(api.LinkChangeResult{Link: strings.TrimPrefix(path, "/v1/links/"), When: api.WhenThisRun, AtNs: 1_030_000, RelNs: 30_000, RoutesAtNs: 1_530_000})
	case path == "/v1/faults":
		_ = enc.Encode(api.FaultScriptResult{When: api.WhenNow, AtNs: 1_001_000, Changes: 10, LastNs: 1_421_000, RoutesAtNs: 1_921_000})
	case path == "/v1/switches" && r.Method == http.MethodPost:
		_ = enc.Encode([]api.SwitchChangeResult{{Switch: "leaf0", When: api.WhenNextRun, RelNs: 30_000}, {Switch: "leaf1", When: api.WhenNextRun, RelNs: 30_000}})
	case path == "/v1/switches":
		_ = enc.Encode(fakeSwitches())
	case path == "/v1/queues":
		_ = enc.Encode(fakeQueues())
	case path == "/v1/clock":
		_ = enc.Encode(api.Clock{State: api.ClockPaused, NowNs: max(f.nowNs, 1_234_567), LimitNs: 1_234_567, Cap: 1000, MinHorizonNs: 1_234_567, MaxHorizonNs: 1_234_567, Dilation: 3012.25})
	case path == "/v1/stats":
		_ = enc.Encode(fakeStats(r.URL.Query().Get("node")))
	case path == "/v1/pdcs":
		_ = enc.Encode(fakePDCs(r.URL.Query().Get("node"), r.URL.Query().Get("ended") != ""))
	case path == "/v1/lldp":
		_ = enc.Encode(fakeLLDP(r.URL.Query().Get("node")))
	case path == "/v1/phy":
		_ = enc.Encode(fakePHY(r.URL.Query()["link"]))
	case path == "/v1/llr":
		_ = enc.Encode(fakeLLR())
	case path == "/v1/cbfc":
		_ = enc.Encode(fakeCredits())
	case path == "/v1/cc":
		_ = enc.Encode(fakeCCs(r.URL.Query().Get("node")))
	case path == "/v1/cc/windows":
		for _, l := range fakeWindows() {
			_ = enc.Encode(l)
		}
	case path == "/v1/paths":
		_ = enc.Encode(fakePaths(r.URL.Query().Get("node")))
	case path == "/v1/events":
		_ = enc.Encode(api.Event{Seq: 1, Wall: time.Unix(1_800_000_000, 0), VirtualNs: 500, Kind: "lab-ready", Text: "lab is ready"})
		_ = enc.Encode(api.Event{Seq: 2, Wall: time.Unix(1_800_000_001, 5e6), VirtualNs: 30_000, Kind: "link-down", Link: "host0-host1", Text: "fails"})
	case path == "/v1/run":
		_ = enc.Encode(api.RunEvent{Type: api.RunProgress, Progress: &api.RunProgressInfo{DoneBytes: 1, TotalBytes: 2}})
		results := f.results
		if f.run != nil {
			results = f.run(f.got[len(f.got)-1])
		}
		for i := range results {
			_ = enc.Encode(api.RunEvent{Type: api.RunResult, Result: &results[i]})
		}
	case path == "/v1/capture" && r.URL.Query().Get("format") == api.FormatText:
		_, _ = w.Write([]byte("00:00:00.000000500 host0 > host1 RUD_REQ\n"))
	case path == "/v1/capture":
		_, _ = w.Write(fakePcapng(3))
	case path == "/v1/logs":
		_, _ = w.Write([]byte("one\ntwo\n"))
	case path == "/v1/down":
		_ = enc.Encode(struct{}{})
		if f.gone != nil {
			close(f.gone)
		}
	default:
		http.NotFound(w, r)
	}
}

func fakeNodes() []api.NodeStatus {
	return []api.NodeStatus{
		{Name: "host0", ID: 0, Kind: "fep", State: api.NodeUp, Pid: 4711, Addr4: "10.0.0.1", Addr6: "fd00::1", Ports: 1, HorizonNs: 1_234_567, NextNs: 2_000_000, Counters: map[string]uint64{"packets": 7}},
		{Name: "host1", ID: 1, Kind: "fep", State: api.NodeDead, Container: "0123456789abcdef", Addr4: "10.0.0.2", Addr6: "fd00::2", Ports: 1, HorizonNs: -1},
	}
}

func fakeLinks() []api.LinkStatus {
	return []api.LinkStatus{{Name: "host0-host1", A: api.End{Node: "host0", Port: "eth1"}, B: api.End{Node: "host1", Port: "eth1"}, RateBps: 400e9, DelayNs: 500,
		State: api.LinkImpaired, AB: api.Direction{Impair: api.Impair{Loss: 0.001, DelayNs: 2000, Rate: 0.25}, Counters: map[string]uint64{"tx_frames": 10, "drop_loss": 1}},
		BA: api.Direction{Impair: api.Impair{Rate: 1}, Counters: map[string]uint64{"tx_frames": 9}}}}
}

func fakeSwitches() []api.SwitchStatus {
	set := switchd.Settings{Trim: switchd.Trim{Enabled: true, Size: 64}, ECMP: switchd.ECMP{Hash: switchd.HashMix, Balance: switchd.BalanceFlowlet}}
	set.Queues[1] = switchd.Queue{Limit: 65536, Kmin: 1000, Kmax: 4000, Lossless: true}
	set.Buffer.Shared = 1 << 20
	return []api.SwitchStatus{{Name: "leaf0", State: api.NodeUp, Ports: 4, Routes: 14, Resolved: set,
		Settings: []topology.KeyValue{{Key: "buffer", Value: "64KiB"}, {Key: "shared.size", Value: "1MiB"}, {Key: "ecn.kmin", Value: "1000B"}},
		Changed:  []api.SettingChange{{Key: "ecn.kmin", Value: "1000B", Topology: "2000B"}, {Key: "queues.data.limit", Topology: "5000B"}},
		Pending: []api.SwitchPending{{When: api.WhenNextRun, AtNs: 30_000, Assignments: []string{"ecn.kmin=10%", "trim.enabled=false"}},
			{When: api.WhenNow, AtNs: 1_500_000}}}}
}

func fakeQueues() []api.QueueStats {
	q := api.QueueStats{Node: "leaf0", Port: "eth3", Queue: 1, Class: "data", Counters: map[string]uint64{"tx_frames": 1000, "tx_bytes": 4_000_000,
		"dropped_frames": 30, "trimmed": 20, "trim_dropped": 1, "watchdog_dropped": 2, "ecn_marked": 7, "bytes": 500, "peak_bytes": 40_000, "paused": 3}}
	q.Depth[0], q.Depth[1], q.Depth[3] = 400, 3, 800
	return []api.QueueStats{q, {Node: "leaf0", Port: "eth4", Queue: 3, Class: "control", Counters: map[string]uint64{"tx_frames": 5}}}
}

func fakeStats(node string) []api.NodeStats {
	all := []api.NodeStats{
		{Name: "host0", Kind: "fep", Ports: []api.PortStats{{Name: "eth1", Link: "host0-host1", Counters: map[string]uint64{"tx_frames": 10, "tx_bytes": 41000, "rx_frames": 9, "rx_bytes": 900, "drop_loss": 1, "drop_fcs": 2, "late": 0}}},
			FEP: map[string]uint64{"retransmits": 1, "trims": 0}, PDCs: fakePDCs("host0", false)},
		{Name: "host1", Kind: "fep", Ports: []api.PortStats{{Name: "eth1", Link: "host0-host1", Counters: map[string]uint64{"tx_frames": 9}}}},
	}
	return slices.DeleteFunc(all, func(s api.NodeStats) bool { return node != "" && s.Name != node })
}

// fakePDCs has one PDC in use, one about to open, and two that have ended.
func fakePDCs(node string, ended bool) []api.PDC {
	used := ctl.PDC{ID: 0x1001, PeerID: 9, PeerAddr: "10.0.0.2", Role: ctl.RoleInitiator, Mode: "RUD", Job: 1, State: "established", AgeNs: 42_000, IdleNs: 100,
		StartPSN: 4_294_967_290, Tx: ctl.PDCSend{Next: 506, CACK: 497, Clear: 495, MPR: 1024, Unacked: 10, Backlog: 65536, Recovering: true},
		Rx: ctl.PDCRecv{Next: 4_294_967_290, CACK: 4_294_967_289, Clear: 4_294_967_289, MPR: 1024}, InFlight: 41_600, Window: 150_000, RTTNs: 12_340, RTTMinNs: 11_900,
		Retx: 3, RetxBy: map[string]uint32{"trim": 2, "rto": 1}, NackRx: "TRIMMED", Messages: 1, CSIG: &ctl.CSIG{Signal: 4096, Locator: 3}}
	opening := ctl.PDC{ID: 0x1001, PeerAddr: "10.0.0.1", Role: ctl.RoleInitiator, Mode: "ROD", TC: 2, Job: 1, State: "opening", AgeNs: 100, StartPSN: 77,
		Tx: ctl.PDCSend{Next: 77, CACK: 76, Clear: 76, MPR: 1024}, Rx: ctl.PDCRecv{Next: 77, CACK: 76, Clear: 76, MPR: 1024}, Window: 150_000, Messages: 1}
	closed, failed := used, used
	closed.ID, closed.State, closed.Ended, closed.EndedNs, closed.Tx, closed.InFlight = 0x0FFF, "closed", true, 1_000_000, ctl.PDCSend{Next: 507, CACK: 506, Clear: 506, MPR: 1024}, 0
	failed.ID, failed.State, failed.Ended, failed.EndedNs, failed.Error, failed.NackTx = 0x1000, "failed", true, 1_100_000, "the peer did not acknowledge in time", "PKT_NOT_RCVD"
	all := []api.PDC{{Node: "host0", Peer: "host1", PDC: used}, {Node: "host0", Peer: "host1", PDC: closed}, {Node: "host0", Peer: "10.9.9.9", PDC: failed}, {Node: "host1", Peer: "host0", PDC: opening}}
	return slices.DeleteFunc(all, func(p api.PDC) bool { return node != "" && p.Node != node || p.Ended && !ended })
}

// fakePcapng is a section with so many packet blocks of 4 bytes.
func fakePcapng(packets int) []byte {
	block := func(kind uint32, body []byte) []byte {
		n := uint32(12 + len(body))
		b := binary.LittleEndian.AppendUint32(nil, kind)
		b = binary.LittleEndian.AppendUint32(b, n)
		b = append(b, body...)
		return binary.LittleEndian.AppendUint32(b, n)
	}
	out := block(0x0A0D0D0A, []byte{0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF})
	for range packets {
		out = append(out, block(packetBlock, make([]byte, 24))...)
	}
	return out
}

func fakeResult(size int64) workload.Result {
	correct := true
	return workload.Result{Workload: "permutation", Ranks: 2, SizeBytes: size, Iterations: 1, Correct: &correct, FCT: workload.FCT{Min: 42000, Mean: 42500, P50: 42500, P99: 43000, Max: 43000},
		IdealNs: 41000, Ratio: 43.0 / 41, AlgBW: 390, BusBW: 390, Packets: 512, PacketHops: 1024, DataPacketHops: 512,
		Fidelity: workload.Fidelity{Frames: 1024, Verdict: "exact"}, Dilation: 3000, WallSeconds: 0.13, Seed: 1}
}

// here moves the labs into a fresh directory with a short path, for sockets stand in it.
func here(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ul")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv(labdir.EnvDir, filepath.Join(dir, "labs"))
	t.Setenv(labEnv, "")
}

// fakeLab makes a lab with a daemon that gives canned answers.
func fakeLab(t *testing.T, name string) *fake {
	t.Helper()
	var plan *topology.Plan // of pair, as it once was: what is printed must not change with the topology's figures
	b, err := os.ReadFile("testdata/plan.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &plan); err != nil {
		t.Fatal(err)
	}
	d, err := labdir.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Remove() })
	f := &fake{plan: plan, results: []workload.Result{fakeResult(1 << 20)}, lab: api.Lab{Name: name, Topology: "pair", Runtime: "embedded", Time: "auto", Seed: 1, Pid: 4242,
		State: api.LabReady, CreatedAt: time.Unix(1_800_000_000, 0).UTC(), Version: "v0", Nodes: 2, Links: 1, Dir: "/labs/" + name}}
	f.serve(d)
	return f
}

// outcome is what a command line has led to.
type outcome struct {
	code     int
	out, err string
}

// runLine runs a command line, words split at blanks.
func runLine(t *testing.T, ctx context.Context, words string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	u := &ui{in: os.Stdin, out: &counter{Writer: &out}, err: &errOut, signals: &signals{}}
	code := run(ctx, u, strings.Fields(words))
	return outcome{code, out.String(), errOut.String()}
}

// golden compares got with a file under testdata.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test ./cmd/uetlab -update writes it", err)
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Errorf("%s, line %d, is not what comes out (go test ./cmd/uetlab -update):\n got %q\nwant %q", path, i+1, at(g, i), at(w, i))
			return
		}
	}
}

// at is a line of a text, empty past its end.
func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
