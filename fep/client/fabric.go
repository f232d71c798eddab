package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/shm"
)

// Fabric is a FEP that was found (fi_fabric).
type Fabric struct{ socket string }

// Open finds the FEP of the node that this process runs in. socket is empty for the standard one, or what UETLAB_FEP names; a path,
// or @ and an abstract name.
func Open(socket string) (*Fabric, error) {
	if socket == "" {
		socket = shm.Socket()
	}
	fd, err := shm.Dial(socket)
	if err != nil {
		return nil, fmt.Errorf("client: no FEP here: %w: run the program in a node, as `uetlab exec host0 -- …` does", err)
	}
	unix.Close(fd)
	return &Fabric{socket}, nil
}

// AnyPID lets the FEP choose.
const AnyPID = -1

// DomainOptions say as what a process attaches.
type DomainOptions struct {
	PID     int      // PIDonFEP within the job, or AnyPID
	Job     uint32   // JobID; 0: job 1, which is open to all
	Token   [16]byte // of the job, if it has one
	Free    bool     // the FEP does not wait for this process
	Threads int      // goroutines that act by themselves; 0: 1. See Domain.Go
	// PollStep is the virtual time that a poll without result takes in a synchronous process: without it a loop of polls would wait
	// forever. 0: 100 ns.
	PollStep time.Duration
	// Near, with --time real, binds all threads of this process to the processor that its FEP is bound to, if it is to one, until Close; there both look
	// for work and give the processor to each other, which is much faster than to wake one that sleeps. It is for programs that do little but
	// communicate: what others compute keeps the FEP from its work. Without real time, or where there are processors for all, nothing changes.
	Near  bool
	Queue int // submissions that may wait for the FEP; 0: 256
}

// Info describes an attachment.
type Info struct {
	Addr       netip.Addr // fabric address
	PID        uint16     // PIDonFEP
	Job        uint32
	PayloadMTU int // bytes
	InjectSize int // bytes
	MaxMessage int64
	Real       bool // virtual time is the wall's
	Limits     Limits
}

// Limits are what one process may have.
type Limits = shm.Limits

// Domain is the attachment of this process to a FEP (fi_domain). All its objects are closed with it.
type Domain struct {
	info  Info
	sq    *shm.SQ
	sqMem []byte
	sock  int
	bell  int // the FEP's
	kick  int // wakes our own leader

	mu      sync.Mutex
	err     error         // why nothing works any more
	over    chan struct{} // closed with it
	closed  bool
	tail    uint32
	ops     []pending
	spare   []uint32 // free places in ops
	cqs     []*CQ    // replaced, never changed in place: the leader reads it without the lock
	byID    map[uint32]*Endpoint
	regions []*Memory // by address
	sys     *CQ
	bounce  bounce
	remote  uint32 // region of all our addresses, 0: not yet

	waiters   []*waiter
	leading   bool
	threads   int
	handed    int64  // when the latest completion was handed over: it may be here before the page says so
	seen      uint64 // the last Hold that we have looked at …
	waited    uint64 // … and answered
	spin      time.Duration
	near      bool      // we are on the processor of the FEP …
	sharedTil time.Time // … and until then others are at work there, too
	step      time.Duration

	reqMu   sync.Mutex // one request at a time
	reqID   uint32
	reply   []byte
	replied bool
	fds     []int
}

// Domain attaches this process.
func (f *Fabric) Domain(ctx context.Context, o DomainOptions) (*Domain, error) {
	if o.Job == 0 {
		o.Job = 1
	}
	sock, err := shm.Dial(f.socket)
	if err != nil {
		return nil, fmt.Errorf("client: attach: %w", err)
	}
	d := &Domain{sock: sock, over: make(chan struct{}), bell: -1, kick: -1, byID: map[uint32]*Endpoint{}, threads: max(o.Threads, 1), step: o.PollStep}
	if runtime.NumCPU() >= spinCPUs {
		d.spin = spinFirst
	}
	if d.step <= 0 {
		d.step = 100 * time.Nanosecond
	}
	if d.kick, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(sock)
		return nil, fmt.Errorf("client: eventfd: %w", err)
	}
	if err := d.hello(ctx, o); err != nil {
		d.release()
		return nil, err
	}
	if d.sys, err = d.OpenCQ(ctx, sysEntries); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// sysEntries is the room for completions that nobody reads: of sleeps, and of endpoints without a queue.
const sysEntries = 1024

func (d *Domain) hello(ctx context.Context, o DomainOptions) error {
	h := shm.Hello{Magic: shm.Magic, Version: shm.Version, Job: o.Job, PID: int32(o.PID), SQEntries: uint32(o.Queue), Token: o.Token}
	if o.Free {
		h.Flags |= shm.HelloFree
	}
	if o.Near {
		h.Flags |= shm.HelloNear
	}
	copy(h.Name[:], filepath.Base(os.Args[0]))
	allowTrace(d.sock)
	var w shm.Welcome
	fds, err := d.request(ctx, "attach", shm.ReqHello, &h, nil, -1, &w)
	if err != nil {
		return err
	}
	if len(fds) != 2 {
		shm.CloseAll(fds)
		return &Error{"attach", "the FEP sent no shared memory"}
	}
	d.bell = fds[1]
	d.sqMem, err = shm.Map(fds[0], shm.SQLen(int(w.SQEntries)))
	unix.Close(fds[0])
	if err != nil {
		return fmt.Errorf("client: attach: %w", err)
	}
	sq, err := shm.OpenSQ(d.sqMem)
	if err != nil {
		return fmt.Errorf("client: attach: %w", err)
	}
	d.mu.Lock()
	d.sq = sq
	d.mu.Unlock()
	d.info = Info{Addr: netip.AddrFrom16(w.Addr).Unmap(), PID: uint16(w.PID), Job: o.Job, PayloadMTU: int(w.PayloadMTU),
		InjectSize: int(w.InjectSize), MaxMessage: int64(w.MaxMessage), Real: w.Flags&shm.PageReal != 0, Limits: w.Limits}
	if o.Near && w.Near > 0 {
		d.near = moveTo(int(w.Near) - 1)
	}
	return nil
}

// Info describes the attachment.
func (d *Domain) Info() Info { return d.info }

// Err says why the attachment has ended, nil while it has not.
func (d *Domain) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Free says whether the FEP goes on while this process thinks.
func (d *Domain) Free() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sq.Flags.Load()&(shm.PageFree|shm.PageReal) != 0
}

// Close ends the attachment and everything in it. Operations under way are given up; calls that wait return ErrClosed.
func (d *Domain) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.fail(ErrClosed)
	d.mu.Unlock()
	_ = unix.Shutdown(d.sock, unix.SHUT_RDWR)
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.leading { // it uses what is given back now
		d.mu.Unlock()
		d.wakeLeader()
		yield()
		d.mu.Lock()
	}
	d.release()
	if d.near {
		moveBack()
	}
	return nil
}

// release gives all memory and descriptors back. Callers see to it that nobody uses them.
func (d *Domain) release() {
	for _, fd := range []*int{&d.sock, &d.bell, &d.kick} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1 // whoever comes late, like a context that ends, must not write to what has this number next
		}
	}
	for _, q := range d.cqs {
		shm.Unmap(q.mem)
		q.mem, q.ring = nil, nil
	}
	d.cqs = nil
	for _, m := range d.regions {
		m.release()
	}
	for i := range d.ops {
		d.ops[i].unpin()
	}
	d.regions, d.ops = nil, nil
	shm.Unmap(d.sqMem)
	d.sqMem = nil
	d.sq = &deadPage
}

// deadPage is what a closed domain looks at: nothing ever happens there.
var deadPage = shm.SQ{Page: &shm.Page{}}

// fail ends everything, with a reason. Callers hold mu.
func (d *Domain) fail(err error) {
	if d.err == nil {
		d.err = err
		close(d.over)
	}
	for _, w := range d.waiters {
		w.wake()
	}
}

// Stat tells what all processes that are attached to the FEP hold together.
func (d *Domain) Stat(ctx context.Context) (Stat, error) {
	var s Stat
	_, err := d.request(ctx, "statistics", shm.ReqStat, nil, nil, -1, &s)
	return s, err
}

// Stat is what the processes of a FEP hold.
type Stat = shm.Stat

// Now is the virtual time: that of the last completion or wake, or with --time real the present one. It counts from the start of the
// lab.
func (d *Domain) Now() time.Duration {
	d.mu.Lock() // the page may go
	defer d.mu.Unlock()
	sq := d.sq
	if sq.Flags.Load()&shm.PageReal == 0 {
		return time.Duration(max(sq.Now.Load(), d.handed))
	}
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(sq.Virt0.Load() + ts.Nano() - sq.Wall0.Load())
}

// Sleep returns once dur of virtual time has passed, an hour at most (fep.ErrTooLarge).
func (d *Domain) Sleep(ctx context.Context, dur time.Duration) error {
	return d.wakeAt(ctx, max(dur, 0), 0)
}

// Compute is Sleep: it says that this process works for dur.
func (d *Domain) Compute(ctx context.Context, dur time.Duration) error { return d.Sleep(ctx, dur) }

// SleepUntil returns at virtual time t, or at once when that is past.
func (d *Domain) SleepUntil(ctx context.Context, t time.Duration) error {
	return d.wakeAt(ctx, t, shm.FlagAbsolute)
}

func (d *Domain) wakeAt(ctx context.Context, t time.Duration, flags uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &result{}
	_, err := d.submit(&shm.SQE{Op: shm.OpWake, Object: uint16(d.sys.id), Flags: flags, Offset: uint64(t)}, pending{cq: d.sys, wait: w})
	if err != nil {
		return err
	}
	if err := d.await(ctx, func() bool { return w.done }, true); err != nil {
		return err
	}
	return w.c.Err
}

// Address is where an endpoint is reached, to be given to peers.
type Address = fep.Address

// MarshalAddress writes an address in 32 bytes, to be sent to another process.
func MarshalAddress(a Address) []byte {
	b := shm.Append(nil, shm.Header{}, wireAddr(a))
	return b[shm.HeaderLen:]
}

// UnmarshalAddress reads what MarshalAddress wrote.
func UnmarshalAddress(b []byte) (Address, error) {
	var a shm.Addr
	if _, err := shm.Parse(b, &a); err != nil {
		return Address{}, fmt.Errorf("client: address: %w", err)
	}
	return goAddr(&a), nil
}

func wireAddr(a Address) *shm.Addr {
	w := shm.Addr{Initiator: a.Initiator, PID: a.PID, RMARI: a.RMARI, SendRI: a.SendRI, TagRI: a.TagRI, Profiles: uint8(a.Profiles), MTU: uint16(a.PayloadMTU)}
	if a.FA.IsValid() {
		w.FA = a.FA.As16()
	}
	if a.Absolute {
		w.Flags |= shm.AddrAbsolute
	}
	if a.SmallHeader {
		w.Flags |= shm.AddrSmallHeader
	}
	return &w
}

func goAddr(w *shm.Addr) Address {
	return Address{FA: netip.AddrFrom16(w.FA).Unmap(), PID: w.PID, RMARI: w.RMARI, SendRI: w.SendRI, TagRI: w.TagRI, Initiator: w.Initiator,
		Absolute: w.Flags&shm.AddrAbsolute != 0, SmallHeader: w.Flags&shm.AddrSmallHeader != 0, Profiles: fep.Profiles(w.Profiles), PayloadMTU: int(w.MTU)}
}
