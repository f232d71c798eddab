// Package clock is the memory through which the nodes of a lab agree on virtual time. Every node writes one page that
// all others may read: how far it has come, and how many frames it has sent and taken on each port. The lab daemon writes
// the clock page: how far time may go. Nobody ever waits for a writer, so a dead process blocks no reader.
package clock

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// Limits of the page layout.
const (
	MaxPorts    = 64
	MaxNodes    = 4096
	MaxFEP      = 128 // counters of an end point
	clockMagic  = 0x55454c4300000001
	nodeFileLen = 64 << 10
	clockLen    = 64 << 10
)

// Fault says why a node's results are worthless.
type Fault uint64

// Faults.
const (
	FaultNone Fault = iota
	FaultRing       // the kernel dropped frames in front of the receive ring
	FaultSend       // the kernel refused frames
	FaultLost       // frames that a neighbour has sent never came
	FaultLate       // a frame came after its time
)

var faultNames = [...]string{"none", "receive ring overflowed", "kernel refused a frame", "frames lost between nodes", "late frame"}

func (f Fault) String() string {
	if f >= Fault(len(faultNames)) {
		return fmt.Sprintf("fault %d", uint64(f))
	}
	return faultNames[f]
}

// NodePage is a node's page in shared memory. Only the node writes it.
type NodePage struct {
	Seq     atomic.Uint64 // odd during a sweep; two equal even readings frame a consistent view
	Horizon atomic.Int64  // all events up to here are handled and their frames are written
	Next    atomic.Int64  // the next event that waits, vt.Never if none
	Ack     atomic.Uint64 // the last clock segment that the node has obeyed
	Fault   atomic.Uint64
	Sweeps  atomic.Uint64 // sweeps of the loop that handled something
	Frames  atomic.Uint64 // frames taken in this run
	Late    atomic.Uint64 // of them, too late
	Worst   atomic.Int64  // worst lateness, virtual ns
	Results atomic.Uint64 // ranks that have finished on this node since it started
	Room    atomic.Uint64 // frames that this node's receive ring is sure to hold for each of its ports, 0 = there is no ring
	Total   atomic.Int64  // bytes that the ranks of this node send in the run
	Sent    [MaxPorts]atomic.Uint64
	Taken   [MaxPorts]atomic.Uint64
	Ports   [MaxPorts][link.NumCounters]atomic.Uint64
	FEP     [MaxFEP]atomic.Uint64
	Work    atomic.Uint64 // what attached processes have under way: time has to go on while it is not 0
	Free    atomic.Uint64 // operations of processes that the node did not wait for
	Left    atomic.Int64  // Next, but vt.Never if nothing will come of the node by itself: LLDP goes on for ever
}

// Segment is one setting of the clock. Nodes read the newest as a whole.
type Segment struct {
	Seq   uint64
	Limit vt.Time // no event beyond is handled
	Jump  vt.Time // nothing happens anywhere before this: horizons may leap to it
	Flags uint64
	K     uint64 // wall ns per virtual ns at least, in 1/1000; 0 = no cap
	Wall0 int64  // the cap's anchor: CLOCK_MONOTONIC ns …
	Virt0 vt.Time
}

// segment is a Segment in shared memory. Its words are atomic, so that no machine moves them past the index.
type segment [7]atomic.Uint64

func (w *segment) store(s *Segment) {
	for i, v := range [...]uint64{s.Seq, uint64(s.Limit), uint64(s.Jump), s.Flags, s.K, uint64(s.Wall0), uint64(s.Virt0)} {
		w[i].Store(v)
	}
}

func (w *segment) load() Segment {
	return Segment{Seq: w[0].Load(), Limit: vt.Time(w[1].Load()), Jump: vt.Time(w[2].Load()), Flags: w[3].Load(), K: w[4].Load(),
		Wall0: int64(w[5].Load()), Virt0: vt.Time(w[6].Load())}
}

// Reset empties the page of a node that joins at virtual time now. A node that was killed may have left it in the middle
// of a sweep, which is over then: Seq is even again.
func (n *NodePage) Reset(now vt.Time) {
	n.Seq.Store((n.Seq.Load() + 1) &^ 1)
	for i := range n.Sent {
		n.Sent[i].Store(0)
		n.Taken[i].Store(0)
	}
	n.Fault.Store(uint64(FaultNone))
	n.Next.Store(int64(vt.Never))
	n.Left.Store(int64(vt.Never))
	n.Horizon.Store(int64(now))
}

// Flags of a segment.
const (
	Real = 1 << iota // k = 1, no agreement
	Rest             // nodes may sleep once they have reached the limit
)

// ClockPage is the lab daemon's page.
type ClockPage struct {
	magic uint64
	index atomic.Uint64
	seg   [2]segment
	Beat  atomic.Uint64           // counts up while the daemon lives, a few times a second
	Owner atomic.Uint64           // counts the daemons that the lab has had
	Bell  [MaxNodes]atomic.Uint32 // rung when a control message waits for the node
	dead  [MaxNodes / 64]atomic.Uint64
}

// Read returns the newest segment; ok is false when the daemon changed it twice meanwhile (the caller keeps the old one).
func (c *ClockPage) Read() (s Segment, ok bool) {
	i := c.index.Load()
	s = c.seg[i&1].load()
	return s, c.index.Load() == i
}

// Write publishes a segment under the next sequence number, which it returns.
func (c *ClockPage) Write(s Segment) uint64 {
	i := c.index.Load() + 1
	s.Seq = i
	c.seg[i&1].store(&s)
	c.index.Store(i)
	return i
}

// Dead says whether a node has been released from the agreement.
func (c *ClockPage) Dead(node int) bool {
	return c.dead[node/64].Load()&(1<<(node%64)) != 0
}

// SetDead releases a node from the agreement, or takes it back.
func (c *ClockPage) SetDead(node int, dead bool) {
	w, bit := &c.dead[node/64], uint64(1)<<(node%64)
	if dead {
		w.Or(bit)
	} else {
		w.And(^bit)
	}
}

// NodeFile and ClockFile name the pages in the directory pages/ of a lab.
func NodeFile(dir string, id int) string { return filepath.Join(dir, "pages", fmt.Sprint(id)) }

// ClockFile names the clock page.
func ClockFile(dir string) string { return filepath.Join(dir, "pages", "clock") }

// Create makes the files of a lab's pages: one a node, and the clock's, which it returns mapped.
func Create(dir string, nodes int) (*ClockPage, error) {
	if nodes > MaxNodes {
		return nil, fmt.Errorf("%d nodes: a lab has at most %d", nodes, MaxNodes)
	}
	if err := os.MkdirAll(filepath.Join(dir, "pages"), 0o700); err != nil {
		return nil, err
	}
	for i := 0; i < nodes; i++ {
		if err := makeFile(NodeFile(dir, i), nodeFileLen); err != nil {
			return nil, err
		}
	}
	if err := makeFile(ClockFile(dir), clockLen); err != nil {
		return nil, err
	}
	p, err := mapFile(ClockFile(dir), clockLen, true)
	if err != nil {
		return nil, err
	}
	c := (*ClockPage)(p)
	c.magic = clockMagic
	c.Write(Segment{Flags: Rest})
	return c, nil
}

// Nodes is how many nodes' pages there are.
func Nodes(dir string) (int, error) {
	list, err := os.ReadDir(filepath.Join(dir, "pages"))
	if err != nil {
		return 0, err
	}
	return len(list) - 1, nil // without the clock's
}

func makeFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

func mapFile(path string, size int, write bool) (unsafe.Pointer, error) {
	flags, prot := os.O_RDONLY, unix.PROT_READ
	if write {
		flags, prot = os.O_RDWR, unix.PROT_READ|unix.PROT_WRITE
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() < int64(size) {
		return nil, fmt.Errorf("%s: not a page of this version", path)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, prot, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return unsafe.Pointer(unsafe.SliceData(b)), nil
}

// OpenClock maps the clock page for reading, or for writing by the daemon that adopts a lab.
func OpenClock(dir string, write bool) (*ClockPage, error) {
	p, err := mapFile(ClockFile(dir), clockLen, write)
	if err != nil {
		return nil, err
	}
	c := (*ClockPage)(p)
	if c.magic != clockMagic {
		return nil, fmt.Errorf("%s: not a clock page of this version", ClockFile(dir))
	}
	return c, nil
}

// OpenNode maps a node's page: for writing by the node itself, for reading by all others.
func OpenNode(dir string, id int, write bool) (*NodePage, error) {
	p, err := mapFile(NodeFile(dir, id), nodeFileLen, write)
	if err != nil {
		return nil, err
	}
	return (*NodePage)(p), nil
}

func init() {
	if unsafe.Sizeof(NodePage{}) > nodeFileLen || unsafe.Sizeof(ClockPage{}) > clockLen {
		panic("clock: page layout outgrew its file")
	}
}
