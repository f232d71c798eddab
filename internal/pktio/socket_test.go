package pktio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The tests' goroutines never run on the main thread, which could not be thrown away with its namespace.
func init() { runtime.LockOSThread() }

const (
	mtu      = 9100
	maxFrame = mtu + 14
	ethType  = 0x88B5 // which the kernel leaves alone
)

// inNet puts the test into a network namespace of its own; both go with the test's goroutine.
func inNet(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a network namespace")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

// veth makes a pair of ports that are up.
func veth(t testing.TB, a, b string) {
	t.Helper()
	err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: a, MTU: mtu, NumTxQueues: 1, NumRxQueues: 1}, PeerName: b, PeerMTU: mtu})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{a, b} {
		// No IPv6: the kernel would send frames of its own. The path leads to the namespace of this thread.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Log(err)
		}
		set(t, name, true)
	}
}

func link(t testing.TB, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func set(t testing.TB, name string, up bool) {
	t.Helper()
	change := netlink.LinkSetDown
	if up {
		change = netlink.LinkSetUp
	}
	if err := change(link(t, name)); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, slots int, ports ...string) *Socket {
	t.Helper()
	s, err := Open(ports, maxFrame, slots)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// frame makes a frame that tells its number and whose bytes follow from it.
func frame(n, size int) []byte {
	b := make([]byte, size)
	copy(b, []byte{2, 0, 0, 0, 0, 1, 2, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 3})
	binary.BigEndian.PutUint16(b[12:], ethType)
	for i := 14; i < size; i++ {
		b[i] = byte(n + i)
	}
	return b
}

func number(b []byte) int { return int(binary.BigEndian.Uint32(b[7:])) }

func ours(b []byte) bool { return len(b) >= 14 && binary.BigEndian.Uint16(b[12:]) == ethType }

// take takes one of our frames out of the ring, waiting for the kernel if it must; ok is false when none comes.
func take(s *Socket) (port int, b []byte, ok bool) {
	for range 2000 { // 20 s
		for {
			port, b, ok = s.Next()
			if ok && ours(b) {
				return port, b, true
			}
			if !ok {
				break
			}
			s.Release()
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}, 10)
	}
	return 0, nil, false
}

// drain empties the ring of what the kernel has put there already, and says how many of our frames there were.
func drain(s *Socket) (n int) {
	for {
		_, b, ok := s.Next()
		if !ok {
			return n
		}
		if ours(b) {
			n++
		}
		s.Release()
	}
}

func never(t testing.TB) func(int, error) {
	return func(port int, err error) { t.Errorf("port %d: %v", port, err) }
}

// TestFramesOfAllSizes sends frames of every size in both directions, in batches of every size, and looks at every byte.
func TestFramesOfAllSizes(t *testing.T) {
	inNet(t)
	veth(t, "a1", "b1")
	a, b := open(t, 256, "a1"), open(t, 256, "b1")
	n, size := 0, 14
	for size <= 9000 {
		from, to := a, b
		if n%3 == 1 {
			from, to = b, a
		}
		first := n
		var want [][]byte
		for range 1 + n%97 { // more than one batch at times
			f := frame(n, size)
			want = append(want, f)
			n++
			size++
			if from.Queue(0, f) {
				from.Flush(never(t))
			}
		}
		from.Flush(never(t))
		for i, w := range want {
			_, got, ok := take(to)
			if !ok || !bytes.Equal(got, w) {
				t.Fatalf("frame %d of %d bytes: %d bytes came, ok %v", first+i, len(w), len(got), ok)
			}
			to.Release()
		}
		drain(from)
	}
	if a.Drops()+b.Drops() != 0 {
		t.Errorf("%d and %d drops", a.Drops(), b.Drops())
	}
}

// TestTagsStayInTheFrame sends frames with a VLAN tag, which the kernel takes out on the way, and without, in turn.
func TestTagsStayInTheFrame(t *testing.T) {
	inNet(t)
	veth(t, "a1", "b1")
	a, b := open(t, 64, "a1"), open(t, 64, "b1")
	for i := range 200 { // several times round the ring
		f := frame(i, 64+i)
		copy(f[12:], [][]byte{{0x81, 0x00, 0x60, 0x05}, {0x88, 0xA8, 0xFF, 0xFF}, {0x81, 0x00, 0x00, 0x00}, f[12:16]}[i%4])
		a.Queue(0, f)
		a.Flush(never(t))
		var got []byte
		for tries := 0; got == nil && tries < 2000; tries++ {
			if _, g, ok := b.Next(); !ok {
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(b.FD()), Events: unix.POLLIN}}, 10)
			} else if bytes.Equal(g[:6], f[:6]) {
				got = g
			} else {
				b.Release() // the kernel's own
			}
		}
		if !bytes.Equal(got, f) {
			t.Fatalf("frame %d: got %x, want %x", i, got, f)
		}
		b.Release()
	}
}

// TestFullBatchIsTold fills a batch and flushes it only then.
func TestFullBatchIsTold(t *testing.T) {
	inNet(t)
	veth(t, "a1", "b1")
	a, b := open(t, 256, "a1"), open(t, 256, "b1")
	for i := range batch {
		if full := a.Queue(0, frame(i, 100)); full != (i == batch-1) {
			t.Fatalf("after %d frames: full %v", i+1, full)
		}
	}
	if n := drain(b); n != 0 {
		t.Errorf("%d frames left before the flush", n)
	}
	a.Flush(never(t))
	a.Flush(never(t)) // of nothing
	for i := range batch {
		_, f, ok := take(b)
		if !ok || number(f) != i {
			t.Fatalf("frame %d: ok %v", i, ok)
		}
		b.Release()
	}
	if n := drain(b); n != 0 {
		t.Errorf("%d frames came twice", n)
	}
}

// TestPortsAreTold sends on several ports in one batch; frames of an interface that is no port are skipped.
func TestPortsAreTold(t *testing.T) {
	inNet(t)
	for i := range 4 {
		veth(t, fmt.Sprint("a", i), fmt.Sprint("b", i))
	}
	a := open(t, 256, "a3", "a0", "a2", "a1")
	b := open(t, 256, "b0", "b1", "b3") // not b2
	far := map[int]int{1: 0, 3: 1, 0: 2}
	var want []int
	for i := range 60 {
		a.Queue(i%4, frame(i, 64+i))
		if p, ok := far[i%4]; ok {
			want = append(want, p<<16|i)
		}
	}
	a.Flush(never(t))
	for _, w := range want {
		p, f, ok := take(b)
		if !ok || p<<16|number(f) != w {
			t.Fatalf("port %d frame %d, want port %d frame %d (ok %v)", p, number(f), w>>16, w&0xFFFF, ok)
		}
		b.Release()
	}
	if n := drain(b) + drain(a); n != 0 || b.Drops() != 0 || a.Drops() != 0 {
		t.Errorf("%d frames too many, drops %d and %d", n, a.Drops(), b.Drops())
	}
}

// TestOverflowIsCounted sends more than the ring holds: the first are there in order, the rest are counted, and the ring
// works again once it has been emptied.
func TestOverflowIsCounted(t *testing.T) {
	inNet(t)
	veth(t, "a1", "b1")
	a, b := open(t, 256, "a1"), open(t, 32, "b1")
	const sent = 1000
	for round := range 3 {
		before := b.Drops()
		for i := range sent {
			if a.Queue(0, frame(i, 200)) {
				a.Flush(never(t))
			}
		}
		a.Flush(never(t))
		lost := 0
		for range 20_000 { // the kernel may take its time
			if lost = int(b.Drops() - before); lost >= sent-b.slots {
				break
			}
			_, _ = unix.Poll(nil, 1)
		}
		got := 0
		for {
			_, f, ok := b.Next()
			if !ok {
				break
			}
			if number(f) != got {
				t.Fatalf("round %d: frame %d where %d was due", round, number(f), got)
			}
			got++
			b.Release()
		}
		if b.slots < 32 || got != b.slots || got+lost != sent {
			t.Errorf("round %d: %d frames and %d drops of %d in %d slots", round, got, lost, sent, b.slots)
		}
		if b.Drops() != before+uint64(lost) {
			t.Errorf("drops are counted twice")
		}
	}
}

// TestCutFramesAreDropped sends a frame that does not fit a slot.
func TestCutFramesAreDropped(t *testing.T) {
	inNet(t)
	veth(t, "a1", "b1")
	a := open(t, 64, "a1")
	b, err := Open([]string{"b1"}, 1000, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i, size := range []int{1000, 5000, 999} {
		a.Queue(0, frame(i, size))
	}
	a.Flush(never(t))
	for _, want := range []int{0, 2} {
		_, f, ok := take(b)
		if !ok || number(f) != want {
			t.Fatalf("frame %d, want %d", number(f), want)
		}
		b.Release()
	}
	if b.Drops() != 1 {
		t.Errorf("%d drops", b.Drops())
	}
}

// TestRefusedFramesAreTold mixes a healthy port with dead ones in one batch: the kernel stops at each frame that it
// refuses, and every one of them is told by port, while the others arrive in order.
func TestRefusedFramesAreTold(t *testing.T) {
	inNet(t)
	for _, c := range []struct {
		name string
		kill func()
		want error
	}{
		{"far end down", func() { set(t, "d1", false) }, unix.ENOBUFS},
		{"own end down", func() { set(t, "c1", false) }, unix.ENETDOWN},
		{"gone", func() {
			if err := netlink.LinkDel(link(t, "c1")); err != nil {
				t.Fatal(err)
			}
		}, unix.ENXIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNet(t)
			veth(t, "a1", "b1")
			veth(t, "c1", "d1")
			a, b := open(t, 256, "c1", "a1"), open(t, 256, "b1")
			c.kill()
			dead := func(i int) bool { return i%5 == 0 || i > 100 && i < 110 || i >= 190 }
			refused, bad := 0, 0
			failed := func(port int, err error) {
				refused++
				if port != 0 || !errors.Is(err, c.want) {
					t.Errorf("port %d: %v, want port 0: %v", port, err, c.want)
				}
			}
			for i := range 200 {
				port := 1
				if dead(i) {
					port = 0
					bad++
				}
				if a.Queue(port, frame(i, 100)) {
					a.Flush(failed)
				}
			}
			a.Flush(failed)
			if refused != bad {
				t.Errorf("%d frames refused, want %d", refused, bad)
			}
			for i := range 200 {
				if dead(i) {
					continue
				}
				_, f, ok := take(b)
				if !ok || number(f) != i {
					t.Fatalf("frame %d where %d was due, ok %v", number(f), i, ok)
				}
				b.Release()
			}
		})
	}
}

// TestRebindFollowsANewInterface replaces a pair by another of the same names, as when a node was restarted.
func TestRebindFollowsANewInterface(t *testing.T) {
	inNet(t)
	veth(t, "a1", "b1")
	veth(t, "a2", "b2")
	a, b := open(t, 256, "a1", "a2"), open(t, 256, "b1", "b2")
	old := link(t, "a1").Attrs().Index
	if err := netlink.LinkDel(link(t, "a1")); err != nil {
		t.Fatal(err)
	}
	if err := a.Rebind(0, "a1"); err == nil {
		t.Error("bound to a port that is not there")
	}
	veth(t, "a1", "b1")
	if link(t, "a1").Attrs().Index == old {
		t.Fatal("the same index: the test is of no use")
	}
	refused := 0
	a.Queue(0, frame(1, 100))
	a.Flush(func(int, error) { refused++ })
	if refused != 1 {
		t.Error("the old index still takes frames")
	}
	if err := errors.Join(a.Rebind(0, "a1"), b.Rebind(0, "b1")); err != nil {
		t.Fatal(err)
	}
	a.Queue(0, frame(2, 100))
	a.Queue(1, frame(3, 100))
	a.Flush(never(t))
	for port, want := range []int{2, 3} {
		p, f, ok := take(b)
		if !ok || p != port || number(f) != want {
			t.Fatalf("port %d frame %d, want port %d frame %d (ok %v)", p, number(f), port, want, ok)
		}
		b.Release()
	}
}

func TestOpenRefusesWhatCannotBe(t *testing.T) {
	inNet(t)
	before := descriptors(t)
	veth(t, "a1", "b1")
	if s, err := Open([]string{"a1", "eth9"}, 1500, 64); err == nil {
		s.Close()
		t.Error("a port that is not there")
	}
	if s, err := Open([]string{"a1"}, 1<<20, 64); err == nil {
		s.Close()
		t.Error("frames larger than a block")
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestFramesCostNoAllocation(t *testing.T) {
	inNet(t)
	veth(t, "a1", "b1")
	a, b := open(t, 256, "a1"), open(t, 256, "b1")
	f, refused := frame(1, 1000), 0
	got, sent := 0, 0
	n := testing.AllocsPerRun(50, func() {
		for range 10 {
			a.Queue(0, f)
			sent++
		}
		a.Flush(func(int, error) { refused++ })
		got += drain(b)
		drain(a)
	})
	if n != 0 || refused != 0 || got == 0 {
		t.Errorf("%v allocations a round; %d of %d frames came, %d refused", n, got, sent, refused)
	}
}
