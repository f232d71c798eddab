package cleanup

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime"
)

// envPlay makes this binary play a process that does nothing until its standard input ends, whatever its arguments are.
const envPlay = "UETLAB_TEST_PLAY"

func TestMain(m *testing.M) {
	switch os.Getenv(envPlay) {
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		fallthrough
	case "sleep":
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// actor is a process with a command line of the test's choice.
type actor struct {
	cmd  *exec.Cmd
	done chan error
}

func (a *actor) pid() int { return a.cmd.Process.Pid }

// ended says whether the process has ended; it waits for that only if it is to have.
func (a *actor) ended(wait bool) bool {
	if wait {
		err := <-a.done
		a.done <- err
		return true
	}
	select {
	case err := <-a.done:
		a.done <- err
		return true
	default:
		return false
	}
}

// play starts this binary under another command line and waits until it is there.
func play(t *testing.T, how string, argv ...string) *actor {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = argv
	cmd.Env = append(os.Environ(), envPlay+"="+how)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q: %q, %v", argv, line, err)
	}
	a := &actor{cmd, make(chan error, 1)}
	go func() { a.done <- cmd.Wait() }() // ends with the process
	t.Cleanup(func() { in.Close(); <-a.done })
	return a
}

// labName is a name that no lab of this machine has.
func labName() string { return fmt.Sprintf("t%d", os.Getpid()) }

func TestDaemonsAreRecognized(t *testing.T) {
	lab := labName()
	var want []int
	for _, c := range []struct {
		argv []string
		is   bool
	}{
		{[]string{"uetlab", "labd", "--name", lab}, true},
		{[]string{"/usr/bin/uetlab", "labd", "--listen", ":1", "--name", lab, "--adopt"}, true},
		{[]string{"uetlab", "labd", "--name", lab + "x"}, false},
		{[]string{"uetlab", "labd", "--name", lab[1:]}, false},
		{[]string{"uetlab", "labd", "--name"}, false},
		{[]string{"uetlab", "labd", lab, "--name"}, false},
		{[]string{"uetlab", "labd", "--other", lab}, false},
		{[]string{"uetlab", "node", "--name", lab}, false},
		{[]string{"uetlab", "down", lab}, false},
		{[]string{"grep", "-r", "labd", "--name", lab}, false},
		{[]string{"uetlab labd --name " + lab}, false},
	} {
		a := play(t, "sleep", c.argv...)
		if isDaemon(a.pid(), lab) != c.is {
			t.Errorf("%q: daemon %v", c.argv, !c.is)
		}
		if c.is {
			want = append(want, a.pid())
		}
	}
	got := Daemons(lab)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("processes %v, want %v", got, want)
	}
	if isDaemon(os.Getpid(), lab) || isDaemon(1<<22+1, lab) {
		t.Error("this process, or one that is not there")
	}
}

// TestStopEndsTheLabsDaemonAlone has daemons of other labs beside the one that is to end.
func TestStopEndsTheLabsDaemonAlone(t *testing.T) {
	lab := labName()
	mine := play(t, "sleep", "uetlab", "labd", "--name", lab)
	others := []*actor{play(t, "sleep", "uetlab", "labd", "--name", lab+"2"), play(t, "sleep", "uetlab", "node", "--name", lab), play(t, "sleep", "sh", "-c", "labd --name "+lab)}
	if err := stopDaemons(context.Background(), lab); err != nil {
		t.Fatal(err)
	}
	if !mine.ended(true) || mine.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the daemon: %v", mine.cmd.ProcessState)
	}
	if err := stopDaemons(context.Background(), lab); err != nil { // there is none any more
		t.Error(err)
	}
	for _, o := range others {
		if o.ended(false) {
			t.Errorf("%q was ended", o.cmd.Args)
		}
	}
}

// TestDeafDaemonIsKilled stops a daemon that does not heed SIGTERM; nobody waits any longer once ctx has ended.
func TestDeafDaemonIsKilled(t *testing.T) {
	lab := labName()
	deaf := play(t, "deaf", "uetlab", "labd", "--name", lab)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := stopDaemons(ctx, lab); err != nil {
		t.Fatal(err)
	}
	if !deaf.ended(true) || deaf.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the daemon: %v", deaf.cmd.ProcessState)
	}
}

// TestNumberThatIsUsedAgain ends nothing when the process that is held fast is not the daemon any more.
func TestNumberThatIsUsedAgain(t *testing.T) {
	a := play(t, "sleep", "uetlab", "labd", "--name", labName())
	asked := 0
	if err := endDaemon(context.Background(), -1, func() bool { asked++; return false }); err != nil || asked != 1 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	if a.ended(false) {
		t.Error("it was ended")
	}
}

func TestContainersAreTold(t *testing.T) {
	if hasContainers(nil) || hasContainers([]runtime.Handle{{Node: "a", Pid: 1}}) || !hasContainers([]runtime.Handle{{}, {Ref: "x"}}) {
		t.Error("a handle with a reference is a container, others are not")
	}
}

// TestLabRemovesWhatIsThere removes a lab of which a daemon, a damaged state file and files are left, and once more.
func TestLabRemovesWhatIsThere(t *testing.T) {
	t.Setenv(labdir.EnvDir, t.TempDir())
	lab := labName()
	for _, state := range []string{"", "{", `{"nodes":[{"node":"host0","id":0,"pid":999999999}]}`} {
		dir, err := labdir.Create(lab)
		if err != nil {
			t.Fatal(err)
		}
		other, err := labdir.Create(lab + "-other")
		if err != nil {
			t.Fatal(err)
		}
		if state != "" {
			if err := os.WriteFile(dir.State(), []byte(state), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		daemon := play(t, "sleep", "uetlab", "labd", "--name", lab)
		for range 2 {
			if err := Lab(context.Background(), lab); err != nil {
				t.Errorf("state %q: %v", state, err)
			}
			if dir.Exists() || !daemon.ended(true) {
				t.Errorf("state %q: it is still there", state)
			}
		}
		if !other.Exists() {
			t.Error("another lab is gone")
		}
		if err := other.Remove(); err != nil {
			t.Error(err)
		}
	}
	if err := Lab(context.Background(), "../up"); err == nil {
		t.Error("a name that is none")
	}
}
