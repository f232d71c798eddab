package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
)

func TestExitCodeOfEveryDaemonError(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	for _, code := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9} {
		f.err = &api.Error{Code: code, Message: "it: did not", Hint: "do"}
		for _, cmd := range []string{"ps", "link ls", "link fail host0-host1", "clock pause", "run incast", "stats", "events", "logs host0", "tcpdump host0-host1", "inspect host0"} {
			o := runLine(t, context.Background(), cmd)
			if o.code != code || o.out != "" || o.err != "uetlab: it: did not\nhint: do\n" {
				t.Errorf("%s: %+v, want code %d", cmd, o, code)
			}
		}
	}
	f.err = &api.Error{Code: 3, Message: "it: is <not> there"}
	o := runLine(t, context.Background(), "ps --format json")
	var body struct{ Error api.Error }
	if err := json.Unmarshal([]byte(o.out), &body); err != nil || body.Error.Code != 3 || !strings.Contains(o.err, "it: is <not> there") {
		t.Errorf("JSON error: %v, %+v", err, o)
	}
}

func TestLabThatIsNotThere(t *testing.T) {
	here(t)
	check := func(cmd string, code int, parts ...string) {
		t.Helper()
		o := runLine(t, context.Background(), cmd)
		if o.code != code {
			t.Errorf("%s: code %d, want %d: %s", cmd, o.code, code, o.err)
		}
		for _, p := range parts {
			if !strings.Contains(o.err, p) {
				t.Errorf("%s: %q has no %q", cmd, o.err, p)
			}
		}
	}
	check("ps", api.CodeNotFound, "lab: none is up", "uetlab up")
	check("ps -n two", api.CodeNotFound, "lab two: not there", "no lab is up")
	check("ps -n Two", api.CodeUsage, "not a lab name")
	fakeLab(t, "one")
	check("ps", api.CodeOK)
	check("ps -n two", api.CodeNotFound, "there are one")
	check("inspect nodeX", api.CodeNotFound, "nodeX")
	check("inspect host0-host9", api.CodeNotFound, "host0-host9")
	fakeLab(t, "three")
	check("ps", api.CodeUsage, "one, three", "--name")
	check("down", api.CodeUsage, "one, three", "--all")
	check("ps -n three", api.CodeOK)
	t.Setenv(labEnv, "one")
	check("ps", api.CodeOK)
}

func TestLabWhoseDaemonIsGone(t *testing.T) {
	here(t)
	d, err := labdir.Create("dead")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Remove()
	o := runLine(t, context.Background(), "ps -n dead")
	if o.code != api.CodeFailure || !strings.Contains(o.err, "uetlab down dead") {
		t.Errorf("%+v", o)
	}
	if o = runLine(t, context.Background(), "ps"); o.code != api.CodeFailure || !strings.Contains(o.err, "left over are dead") {
		t.Errorf("%+v", o)
	}
	if o = runLine(t, context.Background(), "ls --format json"); !strings.Contains(o.out, `"state": "dead"`) {
		t.Errorf("%+v", o)
	}
}

func TestWrongDataAndBadFidelity(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	wrong := false
	f.results[0].Correct = &wrong
	if o := runLine(t, context.Background(), "run permutation --check"); o.code != api.CodeCheck || !strings.Contains(o.out, "permutation") {
		t.Errorf("wrong data: %+v", o)
	}
	f.results[0] = fakeResult(1 << 20)
	f.results[0].Fidelity.Verdict = "invalid: kernel dropped a frame"
	if o := runLine(t, context.Background(), "run permutation"); o.code != api.CodeFidelity || !strings.Contains(o.err, "kernel dropped a frame") {
		t.Errorf("fidelity: %+v", o)
	}
	f.results = nil
	if o := runLine(t, context.Background(), "run permutation"); o.code != api.CodeFailure {
		t.Errorf("no result: %+v", o)
	}
}

func TestInterruptedCommands(t *testing.T) {
	here(t)
	fakeLab(t, "one")
	for sig, code := range map[os.Signal]int{syscall.SIGINT: api.CodeInterrupted, syscall.SIGTERM: api.CodeTerminated} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(stopped{sig})
		for _, cmd := range []string{"ps -n one", "run incast -n one", "events -f -n one"} {
			if o := runLine(t, ctx, cmd); o.code != code {
				t.Errorf("%s: code %d, want %d", cmd, o.code, code)
			}
		}
	}
}

// upLab is a lab name that nobody else on this machine uses.
func upLab() string { return fmt.Sprintf("clitest-%d", os.Getpid()) }

func TestUpUndoesWhatFailed(t *testing.T) {
	for _, c := range []struct {
		how  string
		code int
		text string
	}{
		{"fail", api.CodePrecondition, "uetlab: nodes: no\nhint: yes"},
		{"die", api.CodeFailure, "boom"},
	} {
		t.Run(c.how, func(t *testing.T) {
			here(t)
			t.Setenv(fakeEnv, c.how)
			o := runLine(t, context.Background(), "up pair --runtime embedded --name "+upLab())
			if o.code != c.code || !strings.Contains(o.err, c.text) || o.out != "" {
				t.Errorf("%+v, want code %d and %q", o, c.code, c.text)
			}
			if d, err := labdir.At(upLab()); err != nil || d.Exists() {
				t.Errorf("something is left: %v", err)
			}
		})
	}
}

// trigger ends a context when something is written.
type trigger struct {
	bytes.Buffer
	word string
	hit  func()
}

func (w *trigger) Write(b []byte) (int, error) {
	if strings.Contains(string(b), w.word) {
		w.hit()
	}
	return w.Buffer.Write(b)
}

func TestUpUndoesAtASignal(t *testing.T) {
	here(t)
	t.Setenv(fakeEnv, "hang")
	ctx, cancel := context.WithCancelCause(context.Background())
	var out bytes.Buffer
	w := &trigger{word: "nodes 1/2", hit: func() { cancel(stopped{syscall.SIGINT}) }}
	u := &ui{in: os.Stdin, out: &counter{Writer: &out}, err: w, signals: &signals{}}
	code := run(ctx, u, []string{"up", "pair", "--runtime", "embedded", "--name", upLab()})
	if code != api.CodeInterrupted || out.Len() > 0 {
		t.Errorf("code %d, %s%s", code, out.String(), w.String())
	}
	if d, err := labdir.At(upLab()); err != nil || d.Exists() {
		t.Errorf("something is left: %v", err)
	}
}

func TestUpAndDown(t *testing.T) {
	here(t)
	t.Setenv(fakeEnv, "ready")
	up := "up star-3 --runtime embedded --seed 9 --time 1000 --name " + upLab()
	o := runLine(t, context.Background(), up+" --format json")
	var lab api.Lab
	if err := json.Unmarshal([]byte(o.out), &lab); err != nil || o.code != 0 || lab.Seed != 9 || lab.Time != "1000" || lab.Nodes != 4 || lab.Topology != "star-3" {
		t.Fatalf("%v: %+v", err, o)
	}
	if o = runLine(t, context.Background(), up); o.code != api.CodeExists || !strings.Contains(o.err, "uetlab down "+upLab()) {
		t.Errorf("second up: %+v", o)
	}
	if o = runLine(t, context.Background(), "down"); o.code != 0 || o.out != "" || !strings.Contains(o.err, "is down") {
		t.Errorf("down: %+v", o)
	}
	if d, err := labdir.At(upLab()); err != nil || d.Exists() {
		t.Errorf("something is left: %v", err)
	}
	if o = runLine(t, context.Background(), "down "+upLab()); o.code != 0 || !strings.Contains(o.err, "not there; no lab is up") {
		t.Errorf("down again: %+v", o)
	}
	if o = runLine(t, context.Background(), "down --all"); o.code != 0 || !strings.Contains(o.err, "no lab is up") {
		t.Errorf("down --all: %+v", o)
	}
}

func TestCaptures(t *testing.T) {
	here(t)
	fakeLab(t, "one")
	file := filepath.Join(t.TempDir(), "a.pcapng")
	o := runLine(t, context.Background(), "tcpdump host0-host1 -w "+file)
	if b, err := os.ReadFile(file); err != nil || o.code != 0 || !bytes.Equal(b, fakePcapng(3)) || !strings.Contains(o.err, "3 packets") {
		t.Errorf("%v: %+v", err, o)
	}
	if o = runLine(t, context.Background(), "tcpdump host0-host1 -w -"); o.out != string(fakePcapng(3)) {
		t.Errorf("%+v", o)
	}
	if o = runLine(t, context.Background(), "tcpdump host0-host1"); !strings.HasPrefix(o.out, "00:00:00.000000500 ") {
		t.Errorf("%+v", o)
	}
}

// TestCutStreamLeavesWholeBlocks cuts a stream at every byte.
func TestCutStreamLeavesWholeBlocks(t *testing.T) {
	whole := fakePcapng(2)
	ends := map[int]bool{0: true, 28: true, 64: true, 100: true}
	for n := range len(whole) + 1 {
		var out bytes.Buffer
		_, err := copyBlocks(&out, bytes.NewReader(whole[:n]))
		if !ends[out.Len()] || (err == nil) != ends[n] {
			t.Errorf("cut at %d: %d bytes written, %v", n, out.Len(), err)
		}
	}
}

func FuzzCopyBlocks(f *testing.F) {
	f.Add(fakePcapng(1))
	f.Add([]byte{6, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		if _, err := copyBlocks(&out, bytes.NewReader(b)); err == nil && !bytes.Equal(out.Bytes(), b) {
			t.Fatalf("%d bytes in, %d out, and no error", len(b), out.Len())
		}
	})
}

func TestSignalsGoToACommandInANode(t *testing.T) {
	s := &signals{}
	if s.forward(syscall.SIGINT) {
		t.Error("a signal went to a command that is not there")
	}
	ch := make(chan os.Signal, 1)
	s.passTo(ch)
	first, second := s.forward(syscall.SIGINT), s.forward(syscall.SIGTERM) // the second finds no room
	if !first || !second || <-ch != syscall.SIGINT {
		t.Error("a signal did not go to the command")
	}
	s.passTo(nil)
	if s.forward(syscall.SIGINT) {
		t.Error("a signal went to a command that has ended")
	}
}

func TestExecResults(t *testing.T) {
	d := &labdir.Dir{Lab: "one"}
	if err := execResult(d, 0, nil); err != nil {
		t.Error(err)
	}
	if err := execResult(d, 7, nil); err != error(exitCode(7)) {
		t.Error(err)
	}
	missing := execResult(d, api.CodeExecMissing, &api.Error{Code: 1, Message: "x: not there"})
	if e := api.AsError(missing); e.Code != api.CodeExecMissing {
		t.Errorf("%+v", e)
	}
}

// TestRankSaysWhatItLacks before it looks for a FEP.
func TestRankSaysWhatItLacks(t *testing.T) {
	here(t)
	t.Setenv("UETLAB_FEP", filepath.Join(t.TempDir(), "none"))
	for cmd, want := range map[string]string{
		"rank":          "which workload?",
		"rank sendrecv": "--hosts host0,host1",
		"rank sendrecv --hosts 10.0.0.1,10.0.0.2":                       "--rank (-1): not one of 2",
		"rank sendrecv --rank 2 --hosts 10.0.0.1,10.0.0.2":              "give 0 to 1",
		"rank sendrecv --rank 0 --of 3 --hosts 10.0.0.1,10.0.0.2":       "give a multiple of 2",
		"rank sendrecv --rank 0 --hosts host0,host1":                    "names are known in nodes only",
		"rank sendrecv --rank 0 --hosts 10.0.0.1,10.0.0.2 --size 8:64":  "one size",
		"rank sendrecv --rank 0 --hosts 10.0.0.1,10.0.0.2 --per-node 2": "--of says",
		"rank juggle --rank 0 --hosts 10.0.0.1,10.0.0.2":                "no such workload",
		"rank sendrecv --rank 0 --hosts 10.0.0.1,10.0.0.2 --cc nscc":    "run --processes",
		"sim pair -- sendrecv --cc nsc":                                 `fep.cc (nsc): not one of nscc`,
		"sim pair -- sendrecv --fep nscc.gama=1":                        `did you mean "nscc.gamma"?`,
		"sim pair -- sendrecv --fep gamma":                              "write it like --fep nscc.gamma=0.5",
		"sim pair -- sendrecv --cc nscc --fep cc=swift":                 "given twice, first as nscc",
		"sim pair -- sendrecv --fep nscc.initWnd=1B":                    "fep.nscc.initWnd (1B): outside",
		"sim pair -- sendrecv --fep profile=hpc":                        "not one that a run can change",
		"run sendrecv --evs many":                                       "fep.evs (many)",
		"rank --task x.json":                                            "only - is taken",
		"run sendrecv --free":                                           "add --processes",
		"run sendrecv --per-node 0":                                     "--per-node (0)",
	} {
		if o := runLine(t, context.Background(), cmd); o.code != api.CodeUsage || !strings.Contains(o.err, want) {
			t.Errorf("%s: code %d, %q, want %q", cmd, o.code, o.err, want)
		}
	}
	if o := runLine(t, context.Background(), "rank sendrecv --rank 0 --hosts 10.0.0.1,10.0.0.2"); o.code != api.CodeFailure || !strings.Contains(o.err, "no FEP here") {
		t.Errorf("outside of a node: %+v", o)
	}
}
