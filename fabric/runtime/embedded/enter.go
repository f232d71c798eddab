package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/topology"
)

// Names of the environment variables by which spawn speaks to Enter. The first two also mark the process for people who
// look for leftovers.
const (
	envLab  = "UETLAB_LAB"
	envNode = "UETLAB_NODE"
	envKind = "UETLAB_KIND"
	envDir  = "UETLAB_DIR"
	envPage = "UETLAB_PAGE"
)

// Enter is the first act of a node process of the embedded runtime: it builds the node's root and moves into it.
// Afterwards dir is the lab's directory, read-only but for the node's own page; /uetlab is this binary; /proc shows
// the node's processes; the host name is the node's. Nodes of kind host also see the host's /usr, /bin, /sbin and /lib*
// read-only, and in /etc links to the host's files, except for the node's own names. In a process that the embedded runtime did not start, as in a container, it does nothing.
func Enter(dir string) error {
	source := os.Getenv(envDir)
	if source == "" {
		return nil
	}
	r := rootfs{
		name: os.Getenv(envNode),
		kind: topology.Kind(os.Getenv(envKind)),
		dir:  dir,
		from: source,
		page: os.Getenv(envPage),
	}
	for _, name := range []string{envLab, envNode, envKind, envDir, envPage} {
		_ = os.Unsetenv(name)
	}
	if r.kind != topology.KindHost {
		// The node is its PID namespace's first process and inherits orphans of commands run in it; ignoring their
		// end lets the kernel bury them.
		signal.Ignore(syscall.SIGCHLD)
	}
	// Only for people: ps would show "exe".
	_ = os.WriteFile("/proc/self/comm", []byte("uet:"+r.name), 0)
	if err := r.build(); err != nil {
		return fmt.Errorf("node %s: build its root: %w", r.name, err)
	}
	if err := unix.Sethostname([]byte(r.name)); err != nil {
		return fmt.Errorf("node %s: set host name: %w", r.name, err)
	}
	return nil
}

// rootfs is a node's root to be built.
type rootfs struct {
	name string
	kind topology.Kind
	dir  string // in the node
	from string // on the host
	page string // on the host
}

// base is where the new root is mounted while it is built. Every Linux has it, and nothing that the root needs is below it.
const base = "/sys"

// build mounts the new root and makes it the process's.
func (r *rootfs) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("uetlab", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64m,mode=0755"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	for _, step := range []func() error{r.plain, r.proc, r.devices, r.binary, r.lab} {
		if err := step(); err != nil {
			return err
		}
	}
	if r.kind == topology.KindHost {
		if err := r.system(); err != nil {
			return err
		}
	}
	return pivot()
}

// pivot makes base the root and drops the old one.
func pivot() error {
	if err := unix.Chdir(base); err != nil {
		return err
	}
	// Old root on top of the new one at the same place: no directory is needed for it.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("drop the host's root: %w", err)
	}
	return unix.Chdir("/")
}

// plain writes the files that are the same everywhere.
func (r *rootfs) plain() error {
	for _, d := range []string{"proc", "dev", "tmp", "run", "etc"} {
		if err := unix.Mkdir(filepath.Join(base, d), 0o755); err != nil {
			return fmt.Errorf("mkdir %s: %w", d, err)
		}
	}
	if err := unix.Chmod(filepath.Join(base, "tmp"), 0o1777); err != nil {
		return err
	}
	return r.identity(base + "/etc")
}

// identity writes the files in which Linux programs look for names.
func (r *rootfs) identity(etc string) error {
	for name, text := range map[string]string{
		"hostname": r.name + "\n",
		"hosts":    "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 " + r.name + "\n",
		"passwd":   "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
		"group":    "root:x:0:\nnogroup:x:65534:\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// proc mounts the new PID namespace's /proc. Where the kernel refuses that (a container whose own /proc is partly
// hidden, without root), the surrounding one is shown instead.
func (r *rootfs) proc() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err := unix.Mount("proc", base+"/proc", "proc", flags, "")
	if errors.Is(err, unix.EPERM) {
		err = unix.Mount("/proc", base+"/proc", "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// devices binds the host's devices: making nodes is not allowed in a user namespace.
func (r *rootfs) devices() error {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := bindFile("/dev/"+name, base+"/dev/"+name); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := unix.Symlink("/proc/self/"+to, base+"/dev/"+link); err != nil {
			return err
		}
	}
	return nil
}

// binary binds this executable to /uetlab, or copies it where its path no longer leads to it (it was replaced,
// or lies in a directory that the user cannot search).
func (r *rootfs) binary() error {
	const target = base + "/uetlab"
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	var running, named unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &running); err != nil {
		return fmt.Errorf("own binary: %w", err)
	}
	if err := unix.Stat(exe, &named); err != nil || named.Dev != running.Dev || named.Ino != running.Ino {
		return copyFile("/proc/self/exe", target)
	}
	if err := bindFile(exe, target); err != nil {
		return err
	}
	return readOnly(target)
}

// lab binds the lab's directory and the node's own page.
func (r *rootfs) lab() error {
	target := filepath.Join(base, r.dir)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(r.from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", r.from, r.dir, err)
	}
	if err := readOnly(target); err != nil {
		return err
	}
	if r.page == "" {
		return nil
	}
	page, err := filepath.Rel(r.from, r.page)
	if err != nil {
		return fmt.Errorf("page of the node: %w", err)
	}
	if err := unix.Mount(r.page, filepath.Join(target, page), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind page %s: %w", r.page, err)
	}
	return nil
}

// system shows the host's programs, libraries and configuration.
func (r *rootfs) system() error {
	paths := []string{"/usr", "/bin", "/sbin", "/etc"}
	libs, err := filepath.Glob("/lib*")
	if err != nil {
		return err
	}
	for _, p := range append(paths, libs...) {
		if err := showHost(p); err != nil {
			return err
		}
	}
	return nil
}
