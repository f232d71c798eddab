// Package vethtest has tests send their frames through the kernel: a frame is written to one end of a veth pair and read from the other
// before anything else happens, so that order and virtual time are those without. It is for tests alone, and decides nothing: what a frame
// says, and when it arrives, is the tests' to know.
package vethtest

import (
	"bytes"
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
	"github.com/uetlab/uetlab/internal/pktio"
	"github.com/uetlab/uetlab/wire"
)

// On says that frames go through veth pairs: UETLAB_TEST_VETH=1, which needs root.
var On = os.Getenv("UETLAB_TEST_VETH") == "1"

const (
	wait = 10 * time.Second // how long a frame may take, in the machine's time
	mtu  = 9300             // room for the longest frame with its trailer
)

// names are the interfaces by the numbers of Cross: 0 and 1 are a pair, and so are 2 and 3.
var names = []string{"near0", "far0", "near1", "far1"}

// pairs are in a network namespace that goes with the process, however that ends: only the socket holds it.
type pairs struct {
	s      *pktio.Socket
	b      []byte
	marked testing.TB // the latest test that is known to have used them
}

var thePairs = sync.OnceValues(func() (*pairs, error) {
	p, done := &pairs{}, make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is in the namespace, and ends with this function
		done <- p.open()
	}()
	return p, <-done
})

func (p *pairs) open() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("a network namespace (UETLAB_TEST_VETH needs root): %w", err)
	}
	if err := hostnet.PrepareLab(); err != nil {
		return err
	}
	for i := 0; i < len(names); i += 2 {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = names[i], mtu
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: names[i+1], PeerMTU: mtu}
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("veth pair %s: %w", attrs.Name, err)
		}
	}
	for _, name := range names {
		if err := errors.Join(hostnet.Guard(name), hostnet.OffloadsOff(name), hostnet.Up(name)); err != nil {
			return err
		}
	}
	s, err := pktio.Open(names, mtu+wire.EthLen, 64)
	p.s = s
	return err
}

// Cross writes a frame, with trailer and all, to interface from, and returns what is read at interface to, until the next call. They are
// the two ends of a pair: 0 and 1, or 2 and 3. A frame that does not come, or comes out changed or elsewhere, fails the test.
// Without veth it returns b.
func Cross(t testing.TB, from, to int, b []byte) []byte {
	if !On {
		return b
	}
	t.Helper()
	p, err := thePairs()
	if err != nil {
		t.Fatalf("veth: %v", err)
	}
	if p.marked != t {
		p.marked = t
		t.Attr("link", "veth")
	}
	got, err := p.cross(from, to, b)
	if err != nil {
		t.Fatalf("veth: %s to %s: %v", names[from], names[to], err)
	}
	return got
}

// Carry is Cross for a frame without trailer, from 0 to 1: it gets one for the way.
func Carry(t testing.TB, b []byte) []byte {
	if !On {
		return b
	}
	t.Helper()
	got := Cross(t, 0, 1, wire.AppendTrailer(bytes.Clone(b), 0, 0))
	return bytes.Clone(got[:len(got)-wire.TrailerLen])
}

func (p *pairs) cross(from, to int, b []byte) (got []byte, err error) {
	if port, _, ok := p.s.Next(); ok {
		p.s.Release()
		return nil, fmt.Errorf("a frame nobody sent waited at %s", names[port])
	}
	p.s.Queue(from, b)
	p.s.Flush(func(_ int, e error) { err = fmt.Errorf("write %d bytes: %w", len(b), e) })
	if err != nil {
		return nil, err
	}
	if got, err = p.read(to); err != nil {
		return nil, err
	}
	defer p.s.Release()
	if !bytes.Equal(b, got) {
		at := 0
		for at < min(len(b), len(got)) && b[at] == got[at] {
			at++
		}
		return nil, fmt.Errorf("%d bytes were written and %d read, others from byte %d on", len(b), len(got), at)
	}
	p.b = append(p.b[:0], got...)
	return p.b, nil
}

// read waits for the next frame, which must come by a certain interface. The caller releases it.
func (p *pairs) read(to int) ([]byte, error) {
	for end := time.Now().Add(wait); ; {
		if at, b, ok := p.s.Next(); ok {
			if at != to {
				p.s.Release()
				return nil, fmt.Errorf("the frame came out at %s", names[at])
			}
			return b, nil
		}
		left := time.Until(end)
		if left <= 0 {
			return nil, fmt.Errorf("no frame within %v (%d dropped)", wait, p.s.Drops())
		}
		fds := []unix.PollFd{{Fd: int32(p.s.FD()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return nil, fmt.Errorf("poll: %w", err)
		}
	}
}
