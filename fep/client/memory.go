package client

import (
	"context"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/shm"
)

// Memory is memory that this process and the FEP share. Operations on it copy nothing on the way, and peers' operations on it need no help
// of this process.
type Memory struct {
	d    *Domain
	b    []byte
	all  []byte // the whole pages
	base uintptr
	id   uint32
}

// Alloc makes n bytes of shared memory, zeroed.
func (d *Domain) Alloc(ctx context.Context, n int) (*Memory, error) {
	if n <= 0 {
		return nil, &Error{"alloc", "give a size above 0"}
	}
	page := unix.Getpagesize()
	fd, b, err := shm.Create("uetlab-memory", (n+page-1)&^(page-1))
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var r shm.Opened
	if _, err := d.request(ctx, "alloc", shm.ReqMemory, &shm.Memory{Kind: shm.MemShared, Len: uint64(len(b))}, nil, fd, &r); err != nil {
		shm.Unmap(b)
		return nil, err
	}
	m := &Memory{d: d, b: b[:n:n], all: b, base: uintptr(unsafe.Pointer(unsafe.SliceData(b))), id: r.ID}
	d.mu.Lock()
	defer d.mu.Unlock()
	at, _ := slices.BinarySearchFunc(d.regions, m.base, func(x *Memory, base uintptr) int {
		if x.base < base {
			return -1
		}
		return 1
	})
	d.regions = slices.Insert(d.regions, at, m)
	return m, nil
}

// Bytes is the memory. It must not be used after Close.
func (m *Memory) Bytes() []byte { return m.b }

// Close gives the memory back. It must not be registered, nor in use by an operation (ErrBusy).
func (m *Memory) Close() error {
	if err := m.d.closeObject("close memory", shm.KindMemory, m.id); err != nil {
		return err
	}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if i := slices.Index(m.d.regions, m); i >= 0 {
		m.d.regions = slices.Delete(m.d.regions, i, i+1)
		m.release()
	}
	return nil
}

func (m *Memory) release() {
	shm.Unmap(m.all)
	m.all = nil
	m.b = nil
}

// find gives the shared memory that holds all of b. Callers hold mu.
func (d *Domain) find(b []byte) (region uint32, off uint64, ok bool) {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	lo, hi := 0, len(d.regions)
	for lo < hi {
		if mid := (lo + hi) / 2; d.regions[mid].base <= p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0, 0, false
	}
	m := d.regions[lo-1]
	off = uint64(p - m.base)
	return m.id, off, off+uint64(len(b)) <= uint64(len(m.b))
}

// place is where the FEP finds a buffer.
type place struct {
	region uint32
	off    uint64
	slot   int32  // in the bounce memory, from 1; 0: none
	user   []byte // the buffer of a slot
	out    bool   // to be copied back
}

const (
	slotLen   = 4096
	slotCount = 128
	allMemory = 1 << 47 // of a process
)

// bounce is shared memory in slots, for small buffers that are elsewhere.
type bounce struct {
	mem  *Memory
	free []int32
}

// prepare makes what plain buffers need, before mu is taken.
func (d *Domain) prepare(ctx context.Context, bufs ...[]byte) error {
	small, large := false, false
	d.mu.Lock()
	for _, b := range bufs {
		if _, _, ok := d.find(b); ok || len(b) == 0 {
			continue
		}
		if len(b) <= slotLen && d.bounce.mem == nil {
			small = true
		}
		if (len(b) > slotLen || d.bounce.mem != nil && len(d.bounce.free) == 0) && d.remote == 0 {
			large = true
		}
	}
	d.mu.Unlock()
	if small {
		if err := d.makeBounce(ctx); err != nil {
			return err
		}
	}
	if large {
		return d.makeRemote(ctx)
	}
	return nil
}

func (d *Domain) makeBounce(ctx context.Context) error {
	m, err := d.Alloc(ctx, slotLen*slotCount)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bounce.mem != nil {
		go m.Close() // another goroutine was faster; this one ends with the reply
		return nil
	}
	d.bounce.mem = m
	for i := range slotCount {
		d.bounce.free = append(d.bounce.free, int32(slotCount-i))
	}
	return nil
}

func (d *Domain) makeRemote(ctx context.Context) error {
	probe := new(byte)
	var pin runtime.Pinner
	pin.Pin(probe)
	defer pin.Unpin()
	var r shm.Opened
	m := shm.Memory{Kind: shm.MemRemote, Len: allMemory, Probe: uint64(uintptr(unsafe.Pointer(probe)))}
	if _, err := d.request(ctx, "use memory of this process", shm.ReqMemory, &m, nil, -1, &r); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.remote == 0 {
		d.remote = r.ID
	}
	return nil
}

// locate says where the FEP finds b, and keeps b alive in p. out says that the FEP writes it. Callers hold mu.
func (d *Domain) locate(p *pending, b []byte, out, whole bool) (place, error) {
	if len(b) == 0 {
		return place{}, nil
	}
	if region, off, ok := d.find(b); ok {
		return place{region: region, off: off}, nil
	}
	if n := len(d.bounce.free); len(b) <= slotLen && n > 0 && !whole {
		slot := d.bounce.free[n-1]
		d.bounce.free = d.bounce.free[:n-1]
		at := uint64(slot-1) * slotLen
		copy(d.bounce.mem.b[at:at+slotLen], b)
		return place{region: d.bounce.mem.id, off: at, slot: slot, user: b, out: out}, nil
	}
	if d.remote == 0 {
		return place{}, errPrepare
	}
	if p.pin == nil {
		p.pin = new(runtime.Pinner)
	}
	p.pin.Pin(unsafe.SliceData(b))
	return place{region: d.remote, off: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))}, nil
}

// errPrepare: what prepare made was used up meanwhile.
var errPrepare = &Error{"post", "no room for a small buffer"}
