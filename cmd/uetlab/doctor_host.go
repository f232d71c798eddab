package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime/docker"
	"github.com/uetlab/uetlab/fabric/runtime/embedded"
)

func dockerCheck(ctx context.Context, root bool) check {
	const name = "docker"
	rt, err := docker.New(ctx, docker.Config{})
	if err != nil {
		return warning(name, err.Error(), "only --runtime docker needs it; scripts/setup.sh installs and starts it")
	}
	defer rt.Close()
	version := "an engine answers"
	if out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").Output(); err == nil {
		version = "engine " + strings.TrimSpace(string(out))
	}
	if !root {
		return warning(name, version+", but --runtime docker needs root", "use sudo for --runtime docker")
	}
	return ok(name, version)
}

// Limits that a lab of 208 nodes stays below.
const (
	wantFiles   = 4096
	wantPids    = 4096
	wantInotify = 128
	wantPages   = 64 << 20 // bytes
)

func limitChecks() []check {
	return []check{filesCheck(), pidsCheck(), inotifyCheck()}
}

func filesCheck() check {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return warning("open files", err.Error(), "")
	}
	detail := fmt.Sprintf("%d, at most %d", l.Cur, l.Max)
	if l.Max < wantFiles {
		return warning("open files", detail, fmt.Sprintf("big labs need %d: ulimit -Hn %d, or LimitNOFILE= of the service", wantFiles, wantFiles))
	}
	return ok("open files", detail)
}

// pidsCheck looks at the process limits that may bind: the user's, the cgroup's and the kernel's.
func pidsCheck() check {
	least, which := uint64(1)<<62, "none"
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &l); err == nil && l.Cur < least {
		least, which = l.Cur, "ulimit -u"
	}
	for _, path := range append(cgroupFiles("pids.max"), "/proc/sys/kernel/pid_max") {
		if n, err := strconv.ParseUint(readSys(path), 10, 64); err == nil && n < least {
			least, which = n, path
		}
	}
	detail := fmt.Sprintf("%d (%s)", least, which)
	if which == "none" {
		detail = "no limit"
	}
	if least < wantPids {
		return warning("processes", detail, fmt.Sprintf("a lab of 200 nodes has some 2000 threads: raise the limit to %d", wantPids))
	}
	return ok("processes", detail)
}

// cgroupFiles gives where a control file of this process's cgroup and those above it stands (version 2, or 1 for pids).
func cgroupFiles(file string) []string {
	var out []string
	for _, l := range strings.Split(readSys("/proc/self/cgroup"), "\n") {
		parts := strings.SplitN(l, ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "pids" {
			continue
		}
		root := filepath.Join("/sys/fs/cgroup", parts[1])
		for dir := filepath.Clean(parts[2]); ; dir = filepath.Dir(dir) {
			out = append(out, filepath.Join(root, dir, file))
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return out
}

func inotifyCheck() check {
	const name, path = "inotify", "/proc/sys/fs/inotify/max_user_instances"
	n, err := strconv.Atoi(readSys(path))
	switch {
	case err != nil:
		return warning(name, path+" is not readable", "logs -f may not follow; nothing else depends on it")
	case n < wantInotify:
		return warning(name, fmt.Sprintf("%d instances a user", n), fmt.Sprintf("sysctl -w fs.inotify.max_user_instances=%d", wantInotify))
	}
	return ok(name, fmt.Sprintf("%d instances a user", n))
}

// pagesCheck looks for memory where the shared pages will live.
func pagesCheck() check {
	const name = "shared pages"
	d, err := labdir.At("doctor")
	if err != nil {
		return failed(name, err.Error(), "make the directory writable, or set "+labdir.EnvDir)
	}
	dir := filepath.Dir(d.Node()) // of a lab that is not there: its parent is
	for !exists(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return failed(name, err.Error(), "")
	}
	free := int64(st.Bavail) * st.Bsize
	detail := fmt.Sprintf("%s, %s free", dir, bytesText(free>>20<<20))
	switch {
	case st.Type != unix.TMPFS_MAGIC && st.Type != unix.RAMFS_MAGIC:
		return failed(name, dir+" is not on tmpfs", "mount -t tmpfs tmpfs /dev/shm")
	case free < wantPages:
		return warning(name, detail, "make it larger: mount -o remount,size=256m "+dir)
	}
	return ok(name, detail)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func coresCheck() check {
	n := runtime.NumCPU()
	detail := fmt.Sprintf("%d", n)
	if n < 2 {
		return warning("cores", detail, "results are the same on one core, only slower")
	}
	return ok("cores", detail)
}

// toolChecks looks for programs that are handy and not needed.
func toolChecks() []check {
	var out []check
	for _, tool := range []struct{ name, use string }{
		{"tcpdump", "uetlab tcpdump needs it not; uetlab exec NODE -- tcpdump does"},
		{"tshark", "only to look into captures"},
	} {
		path, err := exec.LookPath(tool.name)
		if err != nil {
			out = append(out, warning(tool.name, "not there", "optional: apt-get install "+tool.name+" ("+tool.use+")"))
		} else {
			out = append(out, ok(tool.name, path))
		}
	}
	return out
}

// leftoverChecks looks for what labs have left behind: directories without a daemon, processes and containers without a
// directory.
func leftoverChecks(ctx context.Context, root bool) []check {
	const name = "leftovers"
	dirs, err := labdir.List()
	if err != nil {
		return []check{warning(name, err.Error(), "")}
	}
	var known, out = []string{}, []check{}
	for _, d := range dirs {
		known = append(known, d.Lab)
		if !runs(ctx, d) {
			out = append(out, warning(name, fmt.Sprintf("lab %s has files but no daemon that answers", d.Lab), "uetlab down "+d.Lab))
		}
	}
	orphans := map[string]int{}
	for _, pid := range embedded.Leftovers("") {
		if lab := labOfProcess(pid); lab != "" && !slices.Contains(known, lab) {
			orphans[lab]++
		}
	}
	for lab, n := range orphans {
		out = append(out, warning(name, fmt.Sprintf("lab %s: %d processes without files", lab, n), "uetlab down "+lab))
	}
	if root {
		out = append(out, orphanContainers(ctx, known)...)
	}
	slices.SortFunc(out, func(a, b check) int { return strings.Compare(a.Detail, b.Detail) })
	if len(out) == 0 {
		return []check{ok(name, "none")}
	}
	return out
}

// labOfProcess reads the lab from a node's command line.
func labOfProcess(pid int) string {
	words := strings.Split(readSys(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00")
	if i := slices.Index(words, "--lab"); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

func orphanContainers(ctx context.Context, known []string) []check {
	rt, err := docker.New(ctx, docker.Config{})
	if err != nil {
		return nil // without an engine there are no containers
	}
	defer rt.Close()
	const wait = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	found, err := rt.List(ctx, "")
	if err != nil {
		return []check{warning("leftovers", err.Error(), "")}
	}
	count := map[string]int{}
	for _, f := range found {
		if !slices.Contains(known, f.Lab) {
			count[f.Lab]++
		}
	}
	var out []check
	for lab, n := range count {
		out = append(out, warning("leftovers", fmt.Sprintf("lab %s: %d containers without files", lab, n), "uetlab down "+lab))
	}
	return out
}
