package attach

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/shm"
)

// region is memory of a process that buffers are parts of.
type region struct {
	mem    []byte // mapped; nil: remote
	addr   uint64
	size   uint64
	remote bool
	users  int // operations and registrations
}

func (r *region) free() {
	if r != nil && r.mem != nil {
		shm.Unmap(r.mem)
		r.mem = nil
	}
}

// remote moves bytes between a FEP's copy and a process' own memory.
type remote struct {
	c    *client
	addr uint64
	b    []byte
}

// Pull implements fep.Syncer.
func (m *remote) Pull(off, n int) error { return m.move(off, n, unix.ProcessVMReadv) }

// Push implements fep.Syncer.
func (m *remote) Push(off, n int) error { return m.move(off, n, unix.ProcessVMWritev) }

type vmCall func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

func (m *remote) move(off, n int, call vmCall) error {
	if n == 0 {
		return nil
	}
	if !m.c.alive() {
		return unix.ESRCH
	}
	local := []unix.Iovec{{Base: &m.b[off]}}
	local[0].SetLen(n)
	got, err := call(m.c.pid, local, []unix.RemoteIovec{{Base: uintptr(m.addr) + uintptr(off), Len: n}}, 0)
	switch {
	case err != nil:
		return fmt.Errorf("attach: memory of process %d: %w", m.c.pid, err)
	case got != n:
		return fmt.Errorf("attach: memory of process %d: %d of %d bytes: %w", m.c.pid, got, n, unix.EFAULT)
	}
	return nil
}

// pidfdOf is the process at the other end of a socket, -1: it is not to be had. A number alone might be that of a later process.
func pidfdOf(sock, pid int) int {
	if fd, err := unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
		return fd
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil { // Linux before 6.5: it has connected just now
		return fd
	}
	return -1
}

// alive says whether the process is still the one that attached: its number may be another's otherwise.
func (c *client) alive() bool {
	return c.pidfd >= 0 && !c.gone && unix.PidfdSendSignal(c.pidfd, 0, nil, 0) == nil
}

// probe tries to read and write one byte of a process.
func (c *client) probe(addr uint64) error {
	if c.pid <= 0 || c.pidfd < 0 {
		return unix.ESRCH
	}
	m := remote{c: c, addr: addr, b: make([]byte, 1)}
	if err := m.Pull(0, 1); err != nil {
		return err
	}
	return m.Push(0, 1)
}

// buffer finds memory that a submission or registration names. copied are the bytes that others of the same submission are copies of.
func (c *client) buffer(id uint32, off, n, copied uint64) (fep.Buffer, *region, shm.Status) {
	if n == 0 && id == shm.NoRegion {
		return fep.Buffer{}, nil, shm.StatusOK
	}
	if id == 0 || uint64(id) > uint64(len(c.regions)) || c.regions[id-1] == nil {
		return fep.Buffer{}, nil, shm.StatusMemory
	}
	r := c.regions[id-1]
	if off > r.size || n > r.size-off {
		return fep.Buffer{}, nil, shm.StatusMemory
	}
	if !r.remote {
		return fep.Buffer{B: r.mem[off : off+n : off+n]}, r, shm.StatusOK
	}
	if most := c.s.cfg.Limits.Copies - c.counts.copies; copied > most || n > most-copied {
		return fep.Buffer{}, nil, shm.StatusLimit
	}
	m := &remote{c: c, addr: r.addr + off, b: make([]byte, n)}
	return fep.Buffer{B: m.b, Sync: m}, r, shm.StatusOK
}

// use counts a buffer in, unuse out.
func (c *client) use(r *region, n uint64) {
	if r == nil {
		return
	}
	r.users++
	if r.remote {
		c.counts.copies += n
		c.s.total.Copies += n
	}
}

func (c *client) unuse(r *region, n uint64) {
	if r == nil {
		return
	}
	r.users--
	if r.remote {
		c.counts.copies -= n
		c.s.total.Copies -= n
	}
}

// addMemory maps memory of a process, or notes where it is.
func (c *client) addMemory(m *shm.Memory, fds []int) (uint32, shm.Status, string) {
	l := &c.s.cfg.Limits
	if c.counts.regions >= l.Regions {
		return 0, shm.StatusLimit, fmt.Sprintf("more than %d regions of memory", l.Regions)
	}
	r := &region{addr: m.Addr, size: m.Len}
	switch m.Kind {
	case shm.MemShared:
		if m.Len == 0 || m.Len > l.Bytes-c.counts.bytes {
			return 0, shm.StatusLimit, fmt.Sprintf("more than %d bytes of shared memory", l.Bytes)
		}
		if len(fds) != 1 {
			return 0, shm.StatusSeals, ""
		}
		var err error
		if r.mem, err = shm.Map(fds[0], int(m.Len)); err != nil {
			return 0, shm.StatusSeals, ""
		}
		c.counts.bytes += m.Len
		c.s.total.Bytes += m.Len
	case shm.MemRemote:
		if m.Addr+m.Len < m.Addr {
			return 0, shm.StatusInvalid, "addresses beyond the end"
		}
		if err := c.probe(m.Probe); err != nil {
			return 0, shm.StatusAccess, shm.StatusAccess.String() + ": " + err.Error()
		}
		r.remote = true
	default:
		return 0, shm.StatusInvalid, "kind of memory"
	}
	c.counts.regions++
	c.s.total.Regions++
	return place(&c.regions, r), shm.StatusOK, ""
}

func (c *client) closeMemory(id uint32) shm.Status {
	r := find(c.regions, id)
	switch {
	case r == nil:
		return shm.StatusObject
	case r.users > 0:
		return shm.StatusBusy
	}
	if !r.remote {
		c.counts.bytes -= r.size
		c.s.total.Bytes -= r.size
	}
	r.free()
	c.regions[id-1] = nil
	c.counts.regions--
	c.s.total.Regions--
	return shm.StatusOK
}

// place puts a thing into the first free place of a table, and gives its ID.
func place[T any](table *[]*T, x *T) uint32 {
	for i, y := range *table {
		if y == nil {
			(*table)[i] = x
			return uint32(i + 1)
		}
	}
	*table = append(*table, x)
	return uint32(len(*table))
}

// find gives the thing with an ID, nil if there is none.
func find[T any](table []*T, id uint32) *T {
	if id == 0 || uint64(id) > uint64(len(table)) {
		return nil
	}
	return table[id-1]
}
