// Package labdir knows where a lab keeps its files: sockets, state, logs, and the directory that its nodes see. It makes
// and removes these directories and locks them; it does not know what is in the files and starts or stops nothing.
//
//	<base>/<lab>/labd.sock   REST API of the daemon
//	<base>/<lab>/exec.sock   exec requests, SEQPACKET
//	<base>/<lab>/up.json     what the lab was asked to be
//	<base>/<lab>/state.json  what the daemon made, written before it makes it
//	<base>/<lab>/lock        flock of the lab's daemon
//	<base>/<lab>/logs/       labd.log and one file per node
//	<base>/<lab>/node/       what nodes see: node.sock and pages/; under /dev/shm where base is not on tmpfs
package labdir

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Errors that a caller can act on.
var (
	ErrName    = errors.New("not a lab name")
	ErrMissing = errors.New("no such lab")
	ErrExists  = errors.New("lab directory exists already")
)

// Dir is the directory of one lab.
type Dir struct {
	Lab  string // name
	Path string
	node string
}

// maxSockPath is the longest path of a unix socket, bytes.
const maxSockPath = 107

var nameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)

// CheckName says what is wrong with a lab name, in an error that wraps ErrName.
func CheckName(lab string) error {
	if nameRule.MatchString(lab) {
		return nil
	}
	return fmt.Errorf("%w (%q): 1 to 31 of a-z, 0-9 and -, the first not a -", ErrName, lab)
}

// place tells the directories of a user; a test moves it.
type place struct {
	uid     int
	run     string // /run
	tmp     string // /tmp
	shm     string // /dev/shm
	runtime string // $XDG_RUNTIME_DIR
	own     string // $UETLAB_DIR
}

func here() place {
	return place{uid: os.Geteuid(), run: "/run", tmp: "/tmp", shm: "/dev/shm", runtime: os.Getenv("XDG_RUNTIME_DIR"), own: os.Getenv(EnvDir)}
}

// EnvDir names the environment variable that puts the labs somewhere else.
const EnvDir = "UETLAB_DIR"

// Base gives the directory that holds the directories of this user's labs, and makes it: $UETLAB_DIR where that is set,
// /run/uetlab for root, else $XDG_RUNTIME_DIR/uetlab, else /tmp/uetlab-<uid>. It refuses one that belongs to somebody else.
func Base() (string, error) { return here().base() }

func (p place) base() (string, error) {
	dir := filepath.Join(p.run, "uetlab")
	if p.uid != 0 {
		dir = filepath.Join(p.tmp, "uetlab-"+strconv.Itoa(p.uid))
		if p.runtime != "" {
			dir = filepath.Join(p.runtime, "uetlab")
		}
	}
	if p.own != "" {
		dir = p.own
	}
	return dir, p.private(dir)
}

// shmBase is where node directories go when base is not on tmpfs. It depends on base alone, for a daemon in a user
// namespace sees itself as another user than the one who started it.
func (p place) shmBase(base string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(base)) // never fails
	return filepath.Join(p.shm, fmt.Sprintf("uetlab-%08x", h.Sum32()))
}

// private makes dir with mode 0700, or checks that it is a directory (no link) of this user that no one else can enter.
func (p place) private(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("lab directories: %w", err)
	}
	return p.check(dir)
}

// check refuses a directory of somebody else and shuts others out of this user's; one that is not there is fine.
func (p place) check(dir string) error {
	fi, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lab directories: %w", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.IsDir() || !ok || int(st.Uid) != p.uid {
		return fmt.Errorf("lab directories: %s belongs to somebody else: remove it or set XDG_RUNTIME_DIR", dir)
	}
	if fi.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("lab directories: %w", err)
		}
	}
	return nil
}

// dir works out the paths of a lab without touching them.
func (p place) dir(lab string) (*Dir, error) {
	if err := CheckName(lab); err != nil {
		return nil, err
	}
	base, err := p.base()
	if err != nil {
		return nil, err
	}
	d := &Dir{Lab: lab, Path: filepath.Join(base, lab)}
	d.node = filepath.Join(d.Path, "node")
	tmpfs, err := onTmpfs(base)
	if err != nil {
		return nil, err
	}
	if !tmpfs {
		if err := p.check(p.shmBase(base)); err != nil {
			return nil, err
		}
		d.node = filepath.Join(p.shmBase(base), lab, "node")
	}
	return d, nil
}

// At gives the directory of a lab whether or not it is there: for cleaning up.
func At(lab string) (*Dir, error) { return here().dir(lab) }

// Open gives the directory of a lab that is there; its error wraps ErrMissing when it is not.
func Open(lab string) (*Dir, error) { return here().open(lab) }

func (p place) open(lab string) (*Dir, error) {
	d, err := p.dir(lab)
	if err != nil {
		return nil, err
	}
	if fi, err := os.Stat(d.Path); err != nil || !fi.IsDir() {
		return nil, fmt.Errorf("%w: %s", ErrMissing, lab)
	}
	return d, nil
}

// Create makes the directories of a new lab; its error wraps ErrExists when the lab has one.
func Create(lab string) (*Dir, error) { return here().create(lab) }

func (p place) create(lab string) (*Dir, error) {
	d, err := p.dir(lab)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(d.Path, 0o700); errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %s", ErrExists, d.Path)
	} else if err != nil {
		return nil, fmt.Errorf("lab directory: %w", err)
	}
	if err := p.fill(d); err != nil {
		return nil, errors.Join(err, d.Remove())
	}
	return d, nil
}

// fill makes what a lab directory holds from the start. A node directory that an earlier lab left in shm is replaced.
func (p place) fill(d *Dir) error {
	if n := max(len(d.Sock()), len(d.NodeSock())); n > maxSockPath {
		return fmt.Errorf("lab directory: %s: a socket in it would have a path of %d bytes, more than %d: set XDG_RUNTIME_DIR to a shorter one", d.Path, n, maxSockPath)
	}
	if d.outside() {
		if err := p.private(filepath.Dir(filepath.Dir(d.node))); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Dir(d.node)); err != nil {
			return fmt.Errorf("lab directory: %w", err)
		}
	}
	for _, sub := range []string{d.Logs(), d.Pages()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return fmt.Errorf("lab directory: %w", err)
		}
	}
	return nil
}

// List gives the directories of this user's labs by name, also those of which only the node directory is left.
func List() ([]*Dir, error) { return here().list() }

func (p place) list() ([]*Dir, error) {
	base, err := p.base()
	if err != nil {
		return nil, err
	}
	parents := []string{base}
	if tmpfs, err := onTmpfs(base); err != nil {
		return nil, err
	} else if !tmpfs {
		if err := p.check(p.shmBase(base)); err != nil {
			return nil, err
		}
		parents = append(parents, p.shmBase(base))
	}
	var names []string
	for _, parent := range parents {
		entries, err := os.ReadDir(parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("lab directories: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() && CheckName(e.Name()) == nil {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	var dirs []*Dir
	for _, name := range slices.Compact(names) {
		d, err := p.dir(name)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, d)
	}
	return dirs, nil
}

// onTmpfs says whether path is on a memory file system; shared pages on a disk would be written back all the time.
func onTmpfs(path string) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false, fmt.Errorf("file system of %s: %w", path, err)
	}
	return st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC, nil
}

// Sock is the daemon's REST socket.
func (d *Dir) Sock() string { return filepath.Join(d.Path, "labd.sock") }

// ExecSock is the daemon's exec socket.
func (d *Dir) ExecSock() string { return filepath.Join(d.Path, "exec.sock") }

// State is the daemon's state file.
func (d *Dir) State() string { return filepath.Join(d.Path, "state.json") }

// Options is the file in which up tells the daemon what to bring up, api.UpOptions in JSON.
func (d *Dir) Options() string { return filepath.Join(d.Path, "up.json") }

// Logs is the directory of the logs.
func (d *Dir) Logs() string { return filepath.Join(d.Path, "logs") }

// DaemonLog is the daemon's own log.
func (d *Dir) DaemonLog() string { return filepath.Join(d.Logs(), "labd.log") }

// NodeLog is the log of a node.
func (d *Dir) NodeLog(node string) string { return filepath.Join(d.Logs(), node+".log") }

// Node is the directory that nodes see, always on tmpfs.
func (d *Dir) Node() string { return d.node }

// NodeSock is the socket through which nodes talk to the daemon.
func (d *Dir) NodeSock() string { return filepath.Join(d.node, "node.sock") }

// Pages is the directory of the shared pages.
func (d *Dir) Pages() string { return filepath.Join(d.node, "pages") }

// Hosts is the file in a node directory, wherever that is seen, with the addresses of the lab's nodes, one a line as in /etc/hosts. Behind
// the name of an end point stands "# profiles=ai-base,ai-full mtu=4096": the profiles that its FEP speaks, and its payload MTU in bytes.
func Hosts(node string) string { return filepath.Join(node, "hosts") }

// outside says whether the node directory stands apart from the lab directory.
func (d *Dir) outside() bool { return filepath.Dir(d.node) != d.Path }

// Exists says whether anything of the lab is left on disk.
func (d *Dir) Exists() bool {
	for _, path := range []string{d.Path, d.node} {
		if _, err := os.Lstat(path); err == nil {
			return true
		}
	}
	return false
}

// Remove deletes all that the lab has on disk; what is not there is no error.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.Path)
	if d.outside() {
		err = errors.Join(err, os.RemoveAll(filepath.Dir(d.node)))
		_ = os.Remove(filepath.Dir(filepath.Dir(d.node))) // fails while another lab is in there
	}
	if err != nil {
		return fmt.Errorf("remove lab directory: %w", err)
	}
	return nil
}
