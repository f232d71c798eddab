package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/uetlab/uetlab/fabric/labdir"
)

// snapshot is all of the machine in which a lab of these tests could leave something: key is what, value is told when it
// is a leak. Others work on the machine too. What is provably theirs is left out: processes that carry no
// sign of these tests, namespaces in which only such processes are, labs of other names, and the engine's own mounts and links.
type snapshot map[string]string

func takeSnapshot(t testing.TB) snapshot {
	t.Helper()
	s := snapshot{}
	s.processes()
	s.mounts(t)
	s.links(t)
	s.files()
	s.containers(t)
	return s
}

// processes notes the processes that these tests have started, directly or not, and the namespaces that they are in.
func (s snapshot) processes() {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid := filepath.Base(dir)
		if pid == fmt.Sprint(os.Getpid()) {
			continue
		}
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		if !ours(dir, cmdline) {
			continue
		}
		if _, err := os.Readlink(dir + "/exe"); err != nil {
			continue // it has ended, and only waits for its parent to notice
		}
		what := strings.ReplaceAll(string(cmdline), "\x00", " ")
		s["process "+pid] = what
		for _, kind := range []string{"net", "mnt", "pid", "user"} {
			own, _ := os.Readlink("/proc/self/ns/" + kind)
			if ns, err := os.Readlink(dir + "/ns/" + kind); err == nil && ns != own {
				s["namespace "+ns] = "of process " + pid + " " + what
			}
		}
	}
}

// ours says whether a process carries a sign of these tests: the mark or a lab of ours in its environment or on its
// command line, or the binary under test.
func ours(dir string, cmdline []byte) bool {
	environ, _ := os.ReadFile(dir + "/environ")
	if bytes.Contains(environ, []byte(mark)) || bytes.Contains(cmdline, []byte(mark)) {
		return true
	}
	var exe, bin syscall.Stat_t
	return syscall.Stat(dir+"/exe", &exe) == nil && syscall.Stat(binary, &bin) == nil && exe.Dev == bin.Dev && exe.Ino == bin.Ino
}

// mounts notes the mounts that this process sees. An engine's mounts live as long as its containers, which are counted
// themselves.
func (s snapshot) mounts(t testing.TB) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if at := f[4]; !strings.HasPrefix(at, "/var/lib/docker/") && !strings.HasPrefix(at, "/run/docker/") {
			s["mount "+f[0]+" "+at] = line
		}
	}
}

// links notes the links of this network namespace, but for what an engine hangs on its own bridges.
func (s snapshot) links(t testing.TB) {
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if a := l.Attrs(); l.Type() != "veth" || a.MasterIndex == 0 {
			s[fmt.Sprintf("link %d", a.Index)] = l.Type() + " " + a.Name
		}
	}
}

// files notes files, sockets and directories where labs have them. Directories of labs of other names are others'.
func (s snapshot) files() {
	var bases []string
	for _, pattern := range []string{"/run/uetlab", "/dev/shm/uetlab-*", "/tmp/uetlab-*"} {
		found, _ := filepath.Glob(pattern)
		bases = append(bases, found...)
	}
	for _, base := range bases {
		_ = filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it went while we looked
			}
			rest, _ := filepath.Rel(base, path)
			top, _, _ := strings.Cut(rest, "/")
			if rest != "." && d.IsDir() && rest == top && labdir.CheckName(top) == nil && !strings.Contains(top, mark) {
				return filepath.SkipDir
			}
			if rest != "." { // the base itself stays for the next lab
				s["file "+path] = d.Type().String()
			}
			return nil
		})
	}
}

// containers notes containers of our labs, running or not.
func (s snapshot) containers(t testing.TB) {
	if exec.Command("docker", "info").Run() != nil {
		return
	}
	out, err := exec.Command("docker", "ps", "-a", "--no-trunc", "--filter", "label=uetlab.lab", "--format", `{{.ID}} {{.Label "uetlab.lab"}} {{.Names}}`).Output()
	if err != nil {
		t.Fatalf("docker ps: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if id, what, _ := strings.Cut(strings.TrimSpace(line), " "); strings.Contains(what, mark) {
			s["container "+id] = what
		}
	}
}

// diff lists what differs between two snapshots.
func (s snapshot) diff(after snapshot) []string {
	var d []string
	for k, v := range s {
		if _, ok := after[k]; !ok {
			d = append(d, "- "+k+": "+v)
		}
	}
	for k, v := range after {
		if _, ok := s[k]; !ok {
			d = append(d, "+ "+k+": "+v)
		}
	}
	sort.Strings(d)
	return d
}

// unchanged demands that the machine is as it was. Namespaces of processes that have just ended, and what others on the
// machine have just made, may take a moment to go.
func (s snapshot) unchanged(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		d := s.diff(takeSnapshot(t))
		if len(d) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("the machine is not as it was:\n%s", strings.Join(d, "\n"))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestSnapshotSeesLeaks plants one leak of each kind.
func TestSnapshotSeesLeaks(t *testing.T) {
	needRoot(t)
	child := func(t *testing.T, flags uintptr, args ...string) {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Env = []string{envHelper + "=wait"}
		if len(args) == 0 {
			cmd.Env = append(cmd.Env, "UETLAB_LAB="+mark+"-leak")
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	}
	dir := func(top, sub string) func(*testing.T) {
		return func(t *testing.T) {
			if err := os.MkdirAll(top+sub, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(top) })
		}
	}
	for name, plant := range map[string]func(*testing.T){
		"process by environment":  func(t *testing.T) { child(t, 0) },
		"process by command line": func(t *testing.T) { child(t, 0, "node", "--lab", mark+"-leak") },
		"namespace net":           func(t *testing.T) { child(t, syscall.CLONE_NEWNET) },
		"namespace pid":           func(t *testing.T) { child(t, syscall.CLONE_NEWPID) },
		"link": func(t *testing.T) {
			a := netlink.NewLinkAttrs()
			a.Name = "e2eleak0"
			veth := &netlink.Veth{LinkAttrs: a, PeerName: "e2eleak1"}
			if err := netlink.LinkAdd(veth); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = netlink.LinkDel(veth) })
		},
		"mount": func(t *testing.T) {
			at := t.TempDir()
			if err := syscall.Mount("leak", at, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(at, 0) })
		},
		"file in /run/uetlab":     dir("/run/uetlab/"+mark+"-leak", "/logs"),
		"file in /dev/shm/uetlab": dir("/dev/shm/uetlab-"+mark, "/"+mark+"-leak/node"),
		"file in /tmp/uetlab":     dir("/tmp/uetlab-"+mark, "/"+mark+"-leak"),
		"file socket": func(t *testing.T) {
			dir("/run/uetlab/"+mark+"-sock", "")(t)
			l, err := net.Listen("unix", "/run/uetlab/"+mark+"-sock/labd.sock")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		},
		"container": plantContainer,
	} {
		kind, _, _ := strings.Cut(name, " ")
		t.Run(name, func(t *testing.T) {
			before := takeSnapshot(t)
			t.Cleanup(func() { before.unchanged(t) }) // after what plant cleans up
			plant(t)
			var d []string
			until(t, "the snapshot to show it", func() bool {
				d = before.diff(takeSnapshot(t))
				return strings.Contains(strings.Join(d, "\n"), "+ "+kind)
			})
		})
	}
}

// plantContainer makes a container of the image that labs' nodes have, or of whatever image is there.
func plantContainer(t *testing.T) {
	if runtime != "docker" {
		t.Skip("not on docker")
	}
	sharedLab(t) // so that there is an image
	out, err := exec.Command("docker", "images", "-q").Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("no image: %v", err)
	}
	image := strings.Fields(string(out))[0]
	out, err = exec.Command("docker", "create", "--label", "uetlab.lab="+mark+"-leak", "--network", "none", image, "true").CombinedOutput()
	if err != nil {
		t.Fatalf("docker create: %v: %s", err, out)
	}
	id := strings.TrimSpace(lastLine(out))
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rm", "-f", id).CombinedOutput(); err != nil {
			t.Errorf("docker rm: %v: %s", err, out)
		}
	})
}
