package namespace

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime"
)

// DefaultPath is where commands are looked for when their environment has no PATH.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookup finds the command first in the node's root, then on the host. code is nonzero if there is nothing to run.
func lookup(e runtime.Exec) (file string, inNode bool, code int) {
	candidates := candidates(e)
	own := candidates
	if name := e.Argv[0]; name != "" && !strings.Contains(name, "/") {
		own = append(slices.Clone(own), "/"+name) // a node's root has little but the node's own program, right at its top
	}
	node := search(fmt.Sprintf("/proc/%d/root", e.Handle.Pid), own)
	if node.file != "" {
		return node.file, true, 0
	}
	host := search("/", candidates)
	if host.file != "" {
		return host.file, false, 0
	}
	if node.present || host.present {
		return "", false, ExitNotExecutable
	}
	return "", false, ExitNotFound
}

// candidates lists the absolute paths that the command's name may mean. Relative ones start at the root, which is
// the command's working directory.
func candidates(e runtime.Exec) []string {
	name := e.Argv[0]
	if name == "" {
		return nil
	}
	if strings.Contains(name, "/") {
		return []string{path.Join("/", name)}
	}
	dirs := DefaultPath
	for _, kv := range e.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			dirs = v
		}
	}
	var list []string
	for dir := range strings.SplitSeq(dirs, ":") {
		list = append(list, path.Join("/", dir, name))
	}
	return list
}

type found struct {
	file    string // executable
	present bool   // something of that name exists that cannot be executed
}

// search looks for the first executable among candidates below root, with links resolved as a process with
// that root sees them.
func search(root string, candidates []string) (f found) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return f
	}
	defer unix.Close(dir)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	for _, c := range candidates {
		fd, err := unix.Openat2(dir, c, &how)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err != nil {
			continue
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			return found{file: c}
		}
		f.present = true
	}
	return f
}
