package embedded

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Leftovers lists the processes of this user that are nodes of the lab, or of any lab if it is "".
// It needs no state file: it reads the command lines in /proc.
func Leftovers(lab string) []int {
	var pids []int
	for _, pid := range processes() {
		if id, ok := nodeOf(pid); ok && (lab == "" || id.lab == lab) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processes lists all PIDs.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// identity is what a node's command line says.
type identity struct {
	lab, node string
	id        int
}

// nodeOf reads who pid is; ok is false if it is no running node of this user.
func nodeOf(pid int) (id identity, ok bool) {
	if pid <= 1 {
		return id, false
	}
	proc := "/proc/" + strconv.Itoa(pid)
	cmdline, err := os.ReadFile(proc + "/cmdline") // empty for a zombie
	if err != nil {
		return id, false
	}
	if id, ok = parseArgv(cmdline); !ok {
		return id, false
	}
	st, err := os.Stat(proc)
	if err != nil {
		return id, false
	}
	sys, isStat := st.Sys().(*syscall.Stat_t)
	return id, isStat && int(sys.Uid) == os.Geteuid()
}

// parseArgv is the inverse of argv.
func parseArgv(cmdline []byte) (id identity, ok bool) {
	f := bytes.Split(bytes.TrimSuffix(cmdline, []byte{0}), []byte{0})
	if len(f) != 10 || string(f[0]) != argv0 || string(f[1]) != "node" || string(f[2]) != "--lab" || string(f[4]) != "--node" ||
		string(f[6]) != "--id" || string(f[8]) != "--dir" {
		return id, false
	}
	n, err := strconv.Atoi(string(f[7]))
	if err != nil {
		return id, false
	}
	return identity{lab: string(f[3]), node: string(f[5]), id: n}, true
}

// starting says whether some process of this user has been cloned to become a node but has not executed yet. Until it
// does it shows its parent's command line, so it cannot be told whose it is; it can only be waited for. If a daemon is
// killed in that moment the child goes on alone.
func starting() bool {
	var own syscall.Stat_t
	if syscall.Stat("/proc/self/exe", &own) != nil {
		return false
	}
	for _, pid := range processes() {
		proc := "/proc/" + strconv.Itoa(pid)
		var exe syscall.Stat_t
		if syscall.Stat(proc+"/exe", &exe) != nil || exe.Dev != own.Dev || exe.Ino != own.Ino {
			continue
		}
		if _, ok := nodeOf(pid); !ok && firstInside(proc) {
			return true
		}
	}
	return false
}

// firstInside says whether a process is the first of a PID namespace within ours.
func firstInside(proc string) bool {
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return false
	}
	_, rest, found := bytes.Cut(status, []byte("\nNSpid:"))
	if !found {
		return false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	pids := bytes.Fields(line)
	return len(pids) > 1 && string(pids[len(pids)-1]) == "1"
}
