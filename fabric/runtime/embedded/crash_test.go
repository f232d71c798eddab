package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/runtime/embedded"
	"github.com/uetlab/uetlab/fabric/topology"
)

// daemonMain is a lab daemon as far as this package cares: it starts the nodes that it reads from its input, says so, and
// waits to be killed.
func daemonMain() error {
	var specs []runtime.Spec
	in := bufio.NewReader(os.Stdin)
	if err := json.NewDecoder(in).Decode(&specs); err != nil {
		return err
	}
	rt := embedded.New()
	for _, s := range specs {
		fmt.Println("starting", s.Name)
		if _, err := rt.Start(context.Background(), []runtime.Spec{s}, nil); err != nil {
			return err
		}
	}
	fmt.Println("started all")
	return unix.Pause()
}

// TestNodesOfAKilledDaemonAreStopped kills a daemon that lives in a user namespace of its own at several moments, and cleans
// up from outside of it as the same user.
func TestNodesOfAKilledDaemonAreStopped(t *testing.T) {
	needNamespaces(t)
	const nodes = 4
	before := takeSnapshot(t)
	for _, last := range []string{"starting n0", "starting n1", "starting n3", "started all"} {
		l := newLab(t, "crash", nodes, topology.KindFEP)
		cmd := exec.Command("/proc/self/exe", "daemon")
		cmd.SysProcAttr = embedded.OuterNamespaces()
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Skipf("user namespaces are not allowed here: %v", err)
		}
		if err := json.NewEncoder(in).Encode(l.specs); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != last {
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if last == "started all" && len(embedded.Leftovers("crash")) != nodes {
			t.Errorf("Leftovers finds %v, want %d nodes", embedded.Leftovers("crash"), nodes)
		}
		l.stop()
		buryOrphans(t)
		before.unchanged(t)
		l.close()
	}
}

// buryOrphans reaps what this process inherited as the first of its PID namespace. The runtime's own children are all
// reaped by then.
func buryOrphans(t *testing.T) {
	t.Helper()
	if os.Getpid() != 1 {
		t.Fatal("not the first process of the stage")
	}
	for {
		_, err := syscall.Wait4(-1, nil, 0, nil)
		if err == syscall.ECHILD {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestStopLeavesLookalikesAlone starts processes whose command lines resemble a node's.
func TestStopLeavesLookalikesAlone(t *testing.T) {
	needNamespaces(t)
	for _, argv := range [][]string{
		{"/uetlab", "node", "--lab", "twin", "--node", "n0", "--id", "0", "--dir", "/lab"}, // in a container
		{"uetlab", "node", "--lab", "twin2", "--node", "n0", "--id", "0", "--dir", "/lab"},
		{"uetlab", "node", "--lab", "twin"},
		{"grep", "uetlab node --lab twin --node n0 --id 0 --dir /lab"},
	} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = argv
		cmd.Env = append(os.Environ(), envIdle+"=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		h := runtime.Handle{Node: "n0", ID: 0, Pid: cmd.Process.Pid}
		if err := embedded.New().Stop(context.Background(), "twin", []runtime.Handle{h}); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("%s: %v", strings.Join(argv, " "), err)
		}
		if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("%s was stopped: %v", strings.Join(argv, " "), err)
		}
	}
}
