package docker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTakeLog runs this test again as a process of its own, whose output it takes over.
func TestTakeLog(t *testing.T) {
	if os.Getenv(envLog) != "" {
		if err := TakeLog(); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		fmt.Println("to output")
		fmt.Fprintln(os.Stderr, "to error")
		os.Exit(0)
	}
	if err := TakeLog(); err != nil {
		t.Errorf("without a log: %v", err)
	}
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(path string) (string, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTakeLog$")
		cmd.Env = append(os.Environ(), envLog+"="+path)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(log); err != nil || out != "" {
		t.Fatalf("output %q, %v", out, err)
	}
	if b, _ := os.ReadFile(log); string(b) != "before\nto output\nto error\n" {
		t.Errorf("log is %q", b)
	}
	if out, err := run(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Errorf("a missing log did not fail: %q", out)
	}
}
