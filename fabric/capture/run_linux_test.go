package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/capture/filter"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// inNamespace runs fn in a network namespace of its own. The thread goes back before it is done, which ends the
// namespace, since nothing else refers to it; only if that fails does the thread end with its goroutine.
func inNamespace(t *testing.T, fn func() error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := visit(fn)
		if err == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// visit has the current thread run fn in a new network namespace and come back.
func visit(fn func() error) error {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	err = fn()
	return errors.Join(err, unix.Setns(int(home.Fd()), unix.CLONE_NEWNET))
}

// veth makes a link a-b in the current namespace and returns the interface indices of its ends.
func veth() (a, b int, err error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return 0, 0, err
	}
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "a", 9000
	if err := h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "b", PeerMTU: 9000}); err != nil {
		return 0, 0, fmt.Errorf("veth: %w", err)
	}
	var index [2]int
	for i, name := range []string{"a", "b"} {
		l, err := h.LinkByName(name)
		if err != nil {
			return 0, 0, err
		}
		// No IPv6: the kernel would send frames of its own. The path leads to the namespace of this thread.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, 0, err
		}
		if err := h.LinkSetUp(l); err != nil {
			return 0, 0, err
		}
		index[i] = l.Attrs().Index
	}
	return index[0], index[1], nil
}

// wireEnds are a link, a sender at each end, and the capture's sources: sources[0] hears what sender 0 sends.
type wireEnds struct {
	senders [2]int
	sources []*Source
	sent    [2]uint64 // that the sources have to hear of, with the probes
}

func openWire() (*wireEnds, error) {
	a, b, err := veth()
	if err != nil {
		return nil, err
	}
	w := &wireEnds{}
	for i, at := range []struct{ from, to int }{{a, b}, {b, a}} {
		fd, err := OpenSocket(at.to)
		if err != nil {
			return nil, err
		}
		w.sources = append(w.sources, NewSource(fd))
		if w.senders[i], err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return nil, err
		}
		if err := unix.Bind(w.senders[i], &unix.SockaddrLinklayer{Ifindex: at.from}); err != nil {
			return nil, err
		}
	}
	return w, w.awaitCarrier()
}

// awaitCarrier sends probes until both directions deliver the last one, so that none is on its way any more. A veth that has just come up
// drops what it is given until the kernel's link watch has run.
func (w *wireEnds) awaitCarrier() error {
	probe := append(make([]byte, 12, 60), 0x88, 0xb6)
	probe = append(probe, make([]byte, 46)...)
	for dir, s := range w.sources {
		heard := false
		for tries := 0; !heard; tries++ {
			if tries == 20_000 {
				return errors.New("the veth delivers nothing")
			}
			binary.BigEndian.PutUint32(probe[14:], uint32(tries))
			if err := w.send(dir, probe); err != nil {
				return err
			}
			if err := wait(w.sources[dir:dir+1], w.senders[dir], time.Millisecond); err != nil {
				return err
			}
			for empty := false; !empty; {
				var err error
				if empty, err = s.Read(func(b []byte, _ int, _ int64) { heard = heard || bytes.Equal(b, probe) }); err != nil {
					return err
				}
			}
		}
		st, err := s.Stats()
		if err != nil {
			return err
		}
		w.sent[dir] = st.Received
	}
	return nil
}

func (w *wireEnds) send(dir int, frame []byte) error {
	w.sent[dir]++
	return unix.Sendto(w.senders[dir], frame, 0, nil)
}

// arrived waits until all that was sent has come to the sources, which have no filter yet: the kernel may hand frames over after the send
// call, when the machine is busy.
func (w *wireEnds) arrived() error {
	for dir, s := range w.sources {
		for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
			st, err := s.Stats()
			if err != nil {
				return err
			}
			if st.Received >= w.sent[dir] {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("direction %d: %d of %d frames come", dir, st.Received, w.sent[dir])
			}
		}
	}
	return nil
}

func (w *wireEnds) close() {
	for i, s := range w.sources {
		s.Close()
		unix.Close(w.senders[i])
	}
}

// limited is a context that ends a capture which would otherwise wait for ever for frames that do not come.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func uetFilter(t *testing.T) *filter.Program {
	t.Helper()
	p, err := filter.Compile("uet and less 60", filter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sendBoth sends n acknowledgements in each direction, direction 1 always 5 ns later, and something the filter drops.
func sendBoth(t *testing.T, w *wireEnds, n int) error {
	for dir := range 2 { // one direction wholly before the other: only their dues tell the order
		for i := range n {
			due := int64(1000*i + 5*dir)
			frame := wire.AppendTrailer(ackFrame(t, uint32(i)), due, wire.LLRWord(wire.LLRPlain, 0, 0))
			if i == 3 {
				frame[30] ^= 1 // a destination address that the FCS does not fit
			}
			if err := w.send(dir, frame); err != nil {
				return err
			}
		}
		other := append(make([]byte, 12, 80), 0x88, 0xb5)
		if err := w.send(dir, wire.AppendTrailer(append(other, make([]byte, 46)...), int64(1000*n), 0)); err != nil {
			return err
		}
	}
	return nil
}

func TestCaptureOfAVeth(t *testing.T) {
	const n = 200
	var file bytes.Buffer
	var lines bytes.Buffer
	var report Report
	inNamespace(t, func() error {
		w, err := openWire()
		if err != nil {
			return err
		}
		defer w.close()
		if err := errors.Join(sendBoth(t, w, n), w.arrived()); err != nil {
			return err
		}
		dirs := testDirections(true)
		ng, err := NewWriter(&file, dirs, "uet and less 60", false)
		if err != nil {
			return err
		}
		both := &tee{ng, NewPrinter(&lines, dirs, wire.Options{}, false)}
		report, err = Run(limited(t), Config{
			Directions: dirs, Sources: w.sources, Filter: uetFilter(t), Sink: both, Count: 2 * n,
			Horizon: func() vt.Time { return 1000 * n },
		})
		return errors.Join(err, ng.Close(report.Stats))
	})
	if report.Late != 0 || report.Written != 2*n {
		t.Errorf("report %+v", report)
	}
	for i, s := range report.Stats {
		if s.Dropped != 0 || s.Delivered != n || s.Received < n {
			t.Errorf("direction %d: %+v", i, s)
		}
	}
	if got := strings.Count(lines.String(), "\n"); got != 2*n || !strings.HasPrefix(lines.String(), "00.000000000 leaf0>spine1 10.0.0.1") {
		t.Errorf("%d lines:\n%.200s", got, lines.String())
	}
	if got := strings.Count(lines.String(), commentFCS); got != 2 {
		t.Errorf("%d comments on the FCS, want 2", got)
	}
	checkWithTshark(t, file.Bytes(), n)
}

// checkWithTshark has tshark read the file: nothing malformed, times and directions as sent.
func checkWithTshark(t *testing.T, file []byte, n int) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed, so that nobody reads the capture file")
	}
	path := filepath.Join(t.TempDir(), "capture.pcapng")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tshark, "-r", path, "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.interface_name",
		"-e", "udp.dstport", "-e", "frame.len", "-e", "_ws.malformed").Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, out)
	}
	dirs, length := testDirections(true), len(ackFrame(t, 0))
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != 2*n {
		t.Fatalf("tshark shows %d packets, want %d", len(lines), 2*n)
	}
	for i, line := range lines {
		want := fmt.Sprintf("0.%09d\t%s\t4793\t%d", 1000*(i/2)+5*(i%2), dirs[i%2].Name(), length)
		if got := strings.TrimRight(line, "\t"); got != want {
			t.Fatalf("packet %d: tshark shows %q, want %q", i, got, want)
		}
	}
}

// tee gives packets to two sinks.
type tee [2]Sink

func (t *tee) Packet(p *Packet) error { return errors.Join(t[0].Packet(p), t[1].Packet(p)) }
func (t *tee) Flush() error           { return errors.Join(t[0].Flush(), t[1].Flush()) }

func TestKernelFilterDropsAndAgrees(t *testing.T) {
	var got collect
	inNamespace(t, func() error {
		w, err := openWire()
		if err != nil {
			return err
		}
		defer w.close()
		prog, err := uetFilter(t).Kernel(wire.TrailerLen)
		if err != nil {
			return err
		}
		if err := w.sources[0].Attach(prog); err != nil {
			return err
		}
		// What follows the 40 acknowledgements and what the filter is to drop ends the wait: frames stay in order.
		if err := errors.Join(sendBoth(t, w, 40), w.send(0, wire.AppendTrailer(ackFrame(t, 40), 40_000, 0))); err != nil {
			return err
		}
		last := func() bool { return len(got.packets) > 0 && got.packets[len(got.packets)-1].Due == 40_000 }
		for deadline := time.Now().Add(20 * time.Second); !last() && time.Now().Before(deadline); {
			if _, err = w.sources[0].Read(func(f []byte, length int, wall int64) {
				p := split(f, length, true)
				p.Wall = wall
				_ = got.Packet(&p)
			}); err != nil {
				return err
			}
		}
		return nil
	})
	// All acknowledgements, 54 bytes with their trailer 78, and nothing else: len is corrected in the kernel.
	if len(got.packets) != 41 || got.packets[39].Due != 39000 || got.packets[39].Len != len(ackFrame(t, 0)) {
		t.Fatalf("%d packets with dues %v", len(got.packets), dues(got.packets))
	}
	if !slices.IsSortedFunc(got.packets, func(a, b Packet) int { return int(a.Wall - b.Wall) }) || got.packets[0].Wall == 0 {
		t.Error("kernel times do not rise")
	}
}

func TestVLANTagIsPutBack(t *testing.T) {
	tagged := append(make([]byte, 12), 0x81, 0, 0x20, 7, 0x88, 0xb5)
	copy(tagged, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2})
	tagged = append(tagged, bytes.Repeat([]byte{0xa5}, 46)...)
	match, err := filter.Compile("vlan 7 and ether proto 0x88b5", filter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got collect
	inNamespace(t, func() error {
		w, err := openWire()
		if err != nil {
			return err
		}
		defer w.close()
		if err := w.send(0, tagged); err != nil {
			return err
		}
		_, err = Run(limited(t), Config{Directions: testDirections(false), Sources: w.sources, Filter: match,
			Count: 1, Wall: true, Sink: &got})
		return err
	})
	if len(got.packets) != 1 || !bytes.Equal(got.packets[0].Data, tagged) || got.packets[0].Len != len(tagged) {
		t.Fatalf("%+v", got.packets)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	var got collect
	inNamespace(t, func() error {
		w, err := openWire()
		if err != nil {
			return err
		}
		defer w.close()
		if err := errors.Join(w.send(0, wire.AppendTrailer(ackFrame(t, 1), 77, 0)), w.arrived()); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(limited(t))
		calls := 0
		_, err = Run(ctx, Config{Directions: testDirections(true), Sources: w.sources, Filter: uetFilter(t), Sink: &got,
			Horizon: func() vt.Time {
				if calls++; calls == 3 { // it has waited twice: nothing may go before 77 is safe
					if len(got.packets) != 0 {
						t.Error("a packet went out before its time was safe")
					}
					cancel()
				}
				return 50
			}})
		return err
	})
	if want := []vt.Time{77}; !slices.Equal(dues(got.packets), want) {
		t.Errorf("at the end %v is written, want %v", dues(got.packets), want)
	}
}

func TestRunStopsWhenTheReaderIsGone(t *testing.T) {
	inNamespace(t, func() error {
		w, err := openWire()
		if err != nil {
			return err
		}
		defer w.close()
		if err := w.send(0, wire.AppendTrailer(ackFrame(t, 1), 77, 0)); err != nil {
			return err
		}
		_, err = Run(limited(t), Config{Directions: testDirections(true), Sources: w.sources, Sink: gone{},
			Horizon: func() vt.Time { return vt.Never }})
		if !errors.Is(err, ErrClosed) {
			return fmt.Errorf("run returned %w", err)
		}
		return nil
	})
}

// gone is the sink of a reader that has left.
type gone struct{}

func (gone) Packet(*Packet) error { return nil }
func (gone) Flush() error         { return ErrClosed }

func TestDropsAreCounted(t *testing.T) {
	inNamespace(t, func() error {
		w, err := openWire()
		if err != nil {
			return err
		}
		defer w.close()
		if err := unix.SetsockoptInt(w.sources[0].fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096); err != nil {
			return err
		}
		for range 100 {
			if err := w.send(0, make([]byte, 1500)); err != nil {
				return err
			}
		}
		if err := w.arrived(); err != nil {
			return err
		}
		st, err := w.sources[0].Stats()
		if err == nil && (st.Dropped == 0 || st.Received < 100) {
			err = fmt.Errorf("statistics %+v", st)
		}
		if again, err2 := w.sources[0].Stats(); err2 != nil || again.Dropped < st.Dropped {
			err = errors.Join(err, err2, fmt.Errorf("statistics fell from %+v to %+v", st, again))
		}
		return err
	})
}

func TestOpenSocketSaysWhatFailed(t *testing.T) {
	inNamespace(t, func() error {
		if fd, err := OpenSocket(4711); err == nil {
			unix.Close(fd)
			return errors.New("bound to an interface that is not there")
		} else if !strings.Contains(err.Error(), "bind to interface 4711") {
			return err
		}
		return nil
	})
}

func TestNoNamespaceIsLeft(t *testing.T) {
	inNamespace(t, func() error { return nil })
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		ns, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/net")
		if err == nil && ns != own { // an error: the thread has ended meanwhile
			t.Errorf("thread %s lives in %s, not in %s", task.Name(), ns, own)
		}
	}
}
