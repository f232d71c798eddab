package embedded_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime/embedded"
)

// Tests compare the machine before and after, so they run on a machine of their own: the test binary starts itself in new
// PID, network, mount and IPC namespaces, as an ordinary user inside embedded.OuterNamespaces.
const envStage = "UETLAB_TEST_STAGE"

// envIdle makes the test binary do nothing.
const envIdle = "UETLAB_TEST_IDLE"

// noNamespaces is why tests cannot run here, or empty.
var noNamespaces string

func TestMain(m *testing.M) {
	if os.Getenv(envIdle) != "" {
		_ = unix.Pause() // until killed
	}
	if len(os.Args) > 1 && (os.Args[1] == "node" || os.Args[1] == "daemon") {
		act := daemonMain
		if os.Args[1] == "node" {
			act = func() error { return nodeMain(os.Args[2:]) }
		}
		if err := act(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(envStage) == "" {
		code, err := restage()
		if err == nil {
			os.Exit(code)
		}
		noNamespaces = err.Error()
	} else if err := settle(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// restage runs this test binary with the same arguments in namespaces of its own.
func restage() (int, error) {
	runtime.LockOSThread() // the parent-death signal is bound to the thread
	attr := embedded.OuterNamespaces()
	stage := "rootless"
	if os.Geteuid() == 0 {
		stage = "root"
		attr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC}
	}
	attr.Cloneflags |= syscall.CLONE_NEWPID
	attr.Pdeathsig = syscall.SIGKILL
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), envStage+"="+stage)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// settle makes /proc show the stage's own processes.
func settle() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the stage's mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount the stage's /proc: %w", err)
	}
	return nil
}

// needNamespaces skips tests where namespaces cannot be made.
func needNamespaces(t testing.TB) {
	t.Helper()
	if noNamespaces != "" {
		t.Skipf("namespaces cannot be made here, neither as root nor in a user namespace: %s", noNamespaces)
	}
}

// TestRootless runs this package's other tests once more as an ordinary user.
func TestRootless(t *testing.T) {
	needNamespaces(t)
	if os.Getenv(envStage) != "root" {
		t.Skip("already without root")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "uet")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "embedded.test")
	copyExecutable(t, bin)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/tmp", 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir+"/tmp", nobody, nobody); err != nil {
		t.Skipf("this root cannot act for other users: %v", err)
	}
	args := []string{"-test.v", "-test.skip", "^TestRootless$"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.Command(bin, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir + "/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		Pdeathsig:  syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "namespaces cannot be made here") {
		t.Skipf("user namespaces are not allowed to ordinary users here:\n%s", out)
	}
	if err != nil {
		t.Fatalf("as uid %d: %v\n%s", nobody, err, out)
	}
	if n := strings.Count(string(out), "\n--- PASS"); n < 5 {
		t.Errorf("only %d tests ran as uid %d:\n%s", n, nobody, out)
	}
	t.Logf("\n%s", out)
}

func copyExecutable(t *testing.T, to string) {
	t.Helper()
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}
