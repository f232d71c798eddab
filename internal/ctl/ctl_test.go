package ctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/workload"
)

// pair makes two connected ends; raw sends whatever it likes to the first.
func pair(t testing.TB) (c *Conn, raw int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c = NewConn(fds[0])
	t.Cleanup(func() { c.Close() })
	return c, fds[1]
}

func conns(t testing.TB) (a, b *Conn) {
	t.Helper()
	a, raw := pair(t)
	b = NewConn(raw)
	t.Cleanup(func() { b.Close() })
	return a, b
}

func TestMessagesGoBothWays(t *testing.T) {
	daemon, node := conns(t)
	yes := true
	m := Message{ID: 7, Op: "change", Port: 3, Up: true, Run: &Run{At: 5, Ranks: []int{2, 3}, Peers: []workload.Peer{{Addr: netip.MustParseAddr("10.0.0.1"), PID: 2, Profiles: 3, PayloadMTU: 4096}}, Spec: workload.Spec{Workload: "allreduce", Ranks: 2}},
		Changes: []Change{{At: 9, Port: 1, Impair: &link.Impair{Loss: 0.25, Delay: 3}}, {At: 10, RxDown: &yes}, {At: 11, Port: -1, Routes: []RouteGroup{}}}}
	if err := daemon.Send(&m); err != nil {
		t.Fatal(err)
	}
	var got Message
	if files, err := node.Recv(&got, false); err != nil || files != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%v, %v: got %+v, want %+v", err, files, got, m)
	}
	r := Reply{ID: 7, Error: "no", Data: json.RawMessage(`{"a":1}`), Hello: &Hello{Lab: "l", ID: 3}, Result: &workload.RankResult{Rank: 4}}
	if err := node.Send(&r); err != nil {
		t.Fatal(err)
	}
	var back Reply
	if _, err := daemon.Recv(&back, true); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%v: got %+v, want %+v", err, back, r)
	}
	if _, err := daemon.Recv(&back, false); !errors.Is(err, ErrAgain) {
		t.Errorf("an empty socket: %v", err)
	}
}

// named makes a file that holds its own name.
func named(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteString(name); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDescriptorsGoBothWays(t *testing.T) {
	a, b := conns(t)
	for n := range 9 { // eight is as many as a message takes
		var files []*os.File
		for i := range n {
			files = append(files, named(t, fmt.Sprint("file", i)))
		}
		from, to := a, b
		if n%2 == 1 {
			from, to = b, a
		}
		if err := from.Send(&Message{ID: uint64(n)}, files...); err != nil {
			t.Fatal(err)
		}
		var m Message
		got, err := to.Recv(&m, true)
		if err != nil || len(got) != n || m.ID != uint64(n) {
			t.Fatalf("%d files: %v, %d came with %+v", n, err, len(got), m)
		}
		for i, f := range got {
			buf := make([]byte, 16)
			k, err := f.ReadAt(buf, 0)
			if string(buf[:k]) != fmt.Sprint("file", i) {
				t.Errorf("descriptor %d of %d: %q, %v", i, n, buf[:k], err)
			}
			if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d of %d would be inherited", i, n)
			}
			f.Close()
		}
	}
}

// descriptors counts this process's.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestDescriptorsOfGarbageAreClosed sends descriptors beside what is no message.
func TestDescriptorsOfGarbageAreClosed(t *testing.T) {
	c, raw := pair(t)
	defer unix.Close(raw)
	f := named(t, "x")
	before := descriptors(t)
	for _, garbage := range []string{"{", "null{", `{"id":"x"}`} {
		if err := unix.Sendmsg(raw, []byte(garbage), unix.UnixRights(int(f.Fd()), int(f.Fd())), nil, 0); err != nil {
			t.Fatal(err)
		}
		var m Message
		if files, err := c.Recv(&m, true); err == nil || files != nil {
			t.Errorf("%q: %v, %d files", garbage, err, len(files))
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// bigMessage is as large as the routes that a switch of a large fabric is sent.
func bigMessage(prefixes int) *Message {
	g := RouteGroup{Ports: []int{0, 1, 2, 3, 4, 5, 6, 7}}
	for i := range prefixes {
		g.Prefixes = append(g.Prefixes, fmt.Sprintf("fd00:1234:5678:%x::%x/128", i>>8, i))
	}
	return &Message{ID: 1, Op: "change", Changes: []Change{{Routes: []RouteGroup{g}}}}
}

func TestLargeMessages(t *testing.T) {
	a, b := conns(t)
	for _, n := range []int{1, 2_000, 4_000, 100, 60_000} {
		m := bigMessage(n)
		sent := make(chan error, 1)
		go func() { sent <- a.Send(m) }() // ends when the other end reads
		var got Message
		if _, err := b.Recv(&got, true); err != nil {
			t.Fatalf("%d prefixes: %v", n, err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&got, m) {
			t.Errorf("%d prefixes: it came otherwise than it was sent", n)
		}
	}
}

// TestTooLongIsRefusedAtOnce holds the sender to what the receiver takes: a message that is refused there would cost the
// connection, and so the node.
func TestTooLongIsRefusedAtOnce(t *testing.T) {
	a, b := conns(t)
	if err := a.Send(&Message{Op: strings.Repeat("x", maxMessage)}); err == nil || !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("a message that is too long: %v", err)
	}
	if err := a.Send(&Message{ID: 5}); err != nil {
		t.Fatal(err)
	}
	var m Message
	if _, err := b.Recv(&m, false); err != nil || m.ID != 5 {
		t.Errorf("the message after one that was refused: %+v, %v", m, err)
	}
}

func TestOversizedPacketIsAnError(t *testing.T) {
	c, raw := pair(t)
	defer unix.Close(raw)
	if err := unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4*maxMessage); err != nil {
		t.Skip("needs CAP_NET_ADMIN to send it:", err)
	}
	sent := make(chan error, 1)
	go func() { sent <- unix.Sendmsg(raw, make([]byte, maxMessage+1), nil, nil, 0) }() // ends when the socket is shut
	var m Message
	if _, err := c.Recv(&m, true); err == nil || errors.Is(err, io.EOF) || errors.Is(err, ErrAgain) {
		t.Errorf("error %v", err)
	}
	c.Shutdown()
	<-sent
}

func TestEndOfTheConnection(t *testing.T) {
	var m Message
	c, raw := pair(t)
	b := NewConn(raw)
	if err := b.Send(&Message{ID: 1}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if _, err := c.Recv(&m, false); err != nil || m.ID != 1 {
		t.Errorf("what was sent before the end: %+v, %v", m, err)
	}
	for _, wait := range []bool{false, true} {
		if _, err := c.Recv(&m, wait); !errors.Is(err, io.EOF) {
			t.Errorf("wait %v: %v", wait, err)
		}
	}
	if err := c.Send(&Message{}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("send to nobody: %v", err)
	}
	a, _ := conns(t)
	done := make(chan error, 1)
	go func() { _, err := a.Recv(&Message{}, true); done <- err }() // ends with the shutdown
	a.Shutdown()
	if err := <-done; !errors.Is(err, io.EOF) {
		t.Errorf("after a shutdown: %v", err)
	}
	if _, err := Dial(filepath.Join(t.TempDir(), "none")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no socket: %v", err)
	}
}

// FuzzRecv reads whatever a stranger on the lab socket may send, as node and as daemon.
func FuzzRecv(f *testing.F) {
	for _, v := range []any{bigMessage(2), &Reply{Hello: &Hello{Lab: "x"}}, &Message{Op: "config", Config: &Config{}}, nil} {
		b, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte("{\"id\":-1}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 60_000 {
			return // more than the socket takes at once
		}
		c, raw := pair(t)
		defer unix.Close(raw)
		for _, v := range []any{&Message{}, &Reply{}} {
			if err := unix.Sendmsg(raw, b, nil, nil, 0); err != nil {
				t.Skip(err)
			}
			_, err := c.Recv(v, false)
			if want := json.Valid(b); err == nil && !want {
				t.Errorf("%q is taken for a message", b)
			}
			if len(b) == 0 {
				continue // an end, as far as a reader can tell; a reader takes no more
			}
			if _, err := c.Recv(v, false); !errors.Is(err, ErrAgain) {
				t.Errorf("%q leaves something behind: %v", b, err)
			}
		}
	})
}

func BenchmarkMessage(b *testing.B) {
	x, y := conns(b)
	m := &Message{ID: 1, Op: "wake"}
	b.ReportAllocs()
	for b.Loop() {
		if err := x.Send(m); err != nil {
			b.Fatal(err)
		}
		var got Message
		if _, err := y.Recv(&got, false); err != nil {
			b.Fatal(err)
		}
	}
}
