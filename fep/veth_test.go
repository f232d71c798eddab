package fep

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/wiring/hostnet"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/pktio"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// onVeth says that frames of the tests' end points go through the kernel (UETLAB_TEST_VETH=1, as root): each end point has a veth
// pair, on whose far end is whoever the test puts there: a stub, or the impairment behind which the other end point is. Frames are
// written with their link trailers, as between the nodes of a lab, and what the far end reads is what everybody sees from there
// on: bytes and time. Each is read before anything else happens, so that order and virtual time are those without veth.
var onVeth = os.Getenv("UETLAB_TEST_VETH") == "1"

// vethWait is how long a frame may take through the kernel, in the machine's time.
const vethWait = 10 * time.Second

// veths are the pairs of the end points 0 and 1, in a network namespace that goes with the process, however that ends: only the
// socket holds it.
type veths struct {
	s      *pktio.Socket
	b      []byte
	marked testing.TB // the latest test that is known to have used them
}

// vethPorts are an end point's own port and the far end of its pair, for each end point.
var vethPorts = []string{"fep0", "far0", "fep1", "far1"}

var theVeths = sync.OnceValues(func() (*veths, error) {
	v, done := &veths{}, make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is in the namespace, and ends with this function
		done <- v.open()
	}()
	return v, <-done
})

func (v *veths) open() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("a network namespace (UETLAB_TEST_VETH needs root): %w", err)
	}
	if err := hostnet.PrepareLab(); err != nil {
		return err
	}
	for i := 0; i < len(vethPorts); i += 2 {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = vethPorts[i], 9000
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: vethPorts[i+1], PeerMTU: 9000}
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("veth pair %s: %w", attrs.Name, err)
		}
	}
	for _, name := range vethPorts {
		if err := errors.Join(hostnet.Guard(name), hostnet.OffloadsOff(name), hostnet.Up(name)); err != nil {
			return err
		}
	}
	s, err := pktio.Open(vethPorts, 9100, 64)
	v.s = s
	return err
}

// leave takes a frame from end point i to the far end of its pair, arrive the other way; without veth they do nothing.
func leave(t testing.TB, i int, f *link.Frame)  { cross(t, 2*i, 2*i+1, f) }
func arrive(t testing.TB, i int, f *link.Frame) { cross(t, 2*i+1, 2*i, f) }

func cross(t testing.TB, from, to int, f *link.Frame) {
	if !onVeth {
		return
	}
	t.Helper()
	v, err := theVeths()
	if err != nil {
		t.Fatalf("veth: %v", err)
	}
	if v.marked != t {
		v.marked = t
		t.Attr("link", "veth")
	}
	if err := v.cross(from, to, f); err != nil {
		t.Fatalf("veth: %s to %s: %v", vethPorts[from], vethPorts[to], err)
	}
}

func (v *veths) cross(from, to int, f *link.Frame) (err error) {
	if port, _, ok := v.s.Next(); ok {
		v.s.Release()
		return fmt.Errorf("a frame nobody sent waited at %s", vethPorts[port])
	}
	v.b = wire.AppendTrailer(append(v.b[:0], f.B...), int64(f.Due), 0)
	fcs, due, n := wire.TrailerOf(v.b).FCS(), f.Due, len(v.b)
	clear(f.B)
	f.B, f.Due = f.B[:0], 0
	v.s.Queue(from, v.b)
	v.s.Flush(func(_ int, e error) { err = fmt.Errorf("write %d bytes: %w", n, e) })
	if err != nil {
		return err
	}
	b, err := v.read(to)
	if err != nil {
		return err
	}
	defer v.s.Release()
	if !wire.FCSOK(b) || len(b) != n || wire.TrailerOf(b).FCS() != fcs {
		at := 0
		for at < min(n, len(b)) && b[at] == v.b[at] {
			at++
		}
		return fmt.Errorf("%d bytes were written and %d read, others from byte %d on", n, len(b), at)
	}
	f.B, f.Due = append(f.B, b[:n-wire.TrailerLen]...), vt.Time(wire.TrailerOf(b).Due())
	if f.Due != due {
		return fmt.Errorf("due at %d was written and %d read", due, f.Due)
	}
	return nil
}

// read waits for the next frame, which must come by a certain port. The caller releases it.
func (v *veths) read(port int) ([]byte, error) {
	for end := time.Now().Add(vethWait); ; {
		if at, b, ok := v.s.Next(); ok {
			if at != port {
				v.s.Release()
				return nil, fmt.Errorf("the frame came out at %s", vethPorts[at])
			}
			return b, nil
		}
		left := time.Until(end)
		if left <= 0 {
			return nil, fmt.Errorf("no frame within %v (%d dropped)", vethWait, v.s.Drops())
		}
		fds := []unix.PollFd{{Fd: int32(v.s.FD()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return nil, fmt.Errorf("poll: %w", err)
		}
	}
}
