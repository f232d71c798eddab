package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/labdir"
)

// Environment variables.
const (
	envRuntime = "UETLAB_E2E_RUNTIME"
	envBinary  = "UETLAB_BIN"
	envMark    = "UETLAB_E2E_MARK" // in the environment of every process that the tests start
	envHelper  = "UETLAB_E2E_HELPER"
)

var (
	binary  string // the uetlab binary under test
	runtime string // embedded or docker
	mark    = "e2e" + strconv.FormatInt(int64(os.Getpid()), 36)
	upTimes []string // what up and down took, printed at the end
)

func TestMain(m *testing.M) {
	if what := os.Getenv(envHelper); what != "" {
		os.Exit(helper(what))
	}
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "attach-") { // in a node, where the environment is the node's
		if err := attachHelper(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) (code int) {
	// A lab must not be found or placed by what the caller's shell happens to have set.
	for _, k := range []string{"UETLAB_LAB", labdir.EnvDir} {
		os.Unsetenv(k)
	}
	runtime = os.Getenv(envRuntime)
	switch runtime {
	case "":
		runtime = "embedded"
	case "embedded", "docker":
	default:
		fmt.Fprintf(os.Stderr, "%s=%s: use embedded or docker\n", envRuntime, runtime)
		return 2
	}
	flag.Parse()
	if testing.Short() || os.Geteuid() != 0 {
		return m.Run() // every test says why it is skipped
	}
	tmp, err := os.MkdirTemp("", "e2e-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer os.RemoveAll(tmp)
	if err := provide(tmp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer func() {
		if err := dropShared(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		for _, line := range upTimes {
			fmt.Println(line)
		}
	}()
	return m.Run()
}

// provide puts the binary under test into a directory of its own, from which an ordinary user can run it too.
func provide(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	binary = filepath.Join(dir, "uetlab")
	if given := os.Getenv(envBinary); given != "" {
		b, err := os.ReadFile(given)
		if err != nil {
			return fmt.Errorf("%s: %w", envBinary, err)
		}
		return os.WriteFile(binary, b, 0o755)
	}
	build := exec.Command("go", "build", "-o", binary, "./cmd/uetlab")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build uetlab: %w\n%s", err, out)
	}
	return nil
}

// helper is what this binary does as a child of a test.
func helper(what string) int {
	switch what {
	case "spin": // a CPU hog, until it is killed
		for n := 0; ; n++ {
			_ = n
		}
	case "wait": // a process that only exists, until its input ends
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	return 0
}

// needRoot skips what an ordinary user cannot do, and everything under -short.
func needRoot(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("brings real labs up: skipped by -short")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: run it with sudo")
	}
	if runtime == "docker" {
		if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
			t.Skipf("no Docker engine answers: %v: %s", err, lastLine(out))
		}
	}
}

// needTools skips where a program of the host is missing.
func needTools(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			t.Skipf("needs %s: %v", n, err)
		}
	}
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

const patience = 60 * time.Second // for anything that must happen; nothing that works takes so long

// until waits for a condition, which it asks every few milliseconds, and fails the test when it does not come true.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
