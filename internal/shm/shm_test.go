package shm

import (
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestLayout holds the structures to what docs/attach.md says: other languages have it from there.
func TestLayout(t *testing.T) {
	var p Page
	var c cqHead
	var s SQE
	var e CQE
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"page hold", unsafe.Offsetof(p.Hold), 64}, {"page now", unsafe.Offsetof(p.Now), 72}, {"page flags", unsafe.Offsetof(p.Flags), 80},
		{"page virt0", unsafe.Offsetof(p.Virt0), 88}, {"page wall0", unsafe.Offsetof(p.Wall0), 96}, {"page free", unsafe.Offsetof(p.FreeCalls), 104},
		{"page taken", unsafe.Offsetof(p.SQHead), 128}, {"page FEP sleeps", unsafe.Offsetof(p.FEPSleeps), 132}, {"page made", unsafe.Offsetof(p.SQTail), 192},
		{"page wait", unsafe.Offsetof(p.Wait), 256}, {"page sleeps", unsafe.Offsetof(p.Sleeps), 320},
		{"ring made", unsafe.Offsetof(c.Tail), 64}, {"ring overflow", unsafe.Offsetof(c.Overflow), 68}, {"ring dropped", unsafe.Offsetof(c.Dropped), 72}, {"ring taken", unsafe.Offsetof(c.Head), 128},
		{"entry object", unsafe.Offsetof(s.Object), 2}, {"entry ctx", unsafe.Offsetof(s.Ctx), 8}, {"entry peer", unsafe.Offsetof(s.Peer), 16}, {"entry region", unsafe.Offsetof(s.Region), 20},
		{"entry buf", unsafe.Offsetof(s.Buf), 24}, {"entry len", unsafe.Offsetof(s.Len), 32}, {"entry tag", unsafe.Offsetof(s.Tag), 40}, {"entry key", unsafe.Offsetof(s.Key), 56},
		{"entry offset", unsafe.Offsetof(s.Offset), 64}, {"entry data", unsafe.Offsetof(s.Data), 72}, {"entry operator", unsafe.Offsetof(s.AOp), 80}, {"entry result", unsafe.Offsetof(s.RRegion), 84},
		{"entry result offset", unsafe.Offsetof(s.RBuf), 88}, {"entry compare", unsafe.Offsetof(s.CRegion), 96}, {"entry compare offset", unsafe.Offsetof(s.CBuf), 104},
		{"completion len", unsafe.Offsetof(e.Len), 16}, {"completion data", unsafe.Offsetof(e.Data), 32}, {"completion peer", unsafe.Offsetof(e.Peer), 40}, {"completion status", unsafe.Offsetof(e.Status), 44},
		{"completion detail", unsafe.Offsetof(e.Detail), 48}, {"completion offset", unsafe.Offsetof(e.Offset), 56}, {"completion key", unsafe.Offsetof(e.Key), 64}, {"completion posted", unsafe.Offsetof(e.Posted), 72},
		{"completion now", unsafe.Offsetof(e.Now), 88},
	} {
		if f.got != f.want {
			t.Errorf("%s at %d, the page says %d", f.name, f.got, f.want)
		}
	}
	for _, m := range []struct {
		v    any
		want int
	}{{Header{}, HeaderLen}, {Hello{}, 64}, {Welcome{}, 112}, {Limits{}, 40}, {Memory{}, 32}, {EPOpen{}, 56}, {EPOpened{}, 40}, {MRRegister{}, 56}, {MRRegistered{}, 16}, {Addr{}, AddrLen}, {Stat{}, 64}, {Opened{}, 8}, {Close{}, 8}} {
		if got := binary.Size(m.v); got != m.want {
			t.Errorf("%T has %d bytes, the page says %d", m.v, got, m.want)
		}
	}
	for status, n := range map[Status]Status{StatusResponse: 10, StatusInvalid: 13, StatusReset: 15, StatusBusy: 20, StatusAccess: 22, StatusOther: 24, StatusNoReceive: 25, StatusSource: 26} {
		if status != n {
			t.Errorf("status %v is %d, the page says %d", status, status, n)
		}
	}
}

func TestMessagesComeBack(t *testing.T) {
	in := EPOpen{AV: 1, TxCQ: 2, RxCQ: 3, SRX: 4, Flags: 5, PID: -1, Initiator: 6, RMARI: 7, SendRI: 8, TagRI: 9, TC: 10, Profiles: 11, MinMultiRecv: 12, EagerSize: 13, Unexpected: 14, MaxRTR: 15}
	b := Append(nil, Header{Kind: ReqEPOpen, ID: 77}, &in)
	h, rest, err := ParseHeader(append(b, 1, 2))
	if err != nil || h.Kind != ReqEPOpen || h.ID != 77 {
		t.Fatal(h, err)
	}
	var out EPOpen
	rest, err = Parse(rest, &out)
	if err != nil || out != in || len(rest) != 2 {
		t.Errorf("%+v, %v, %d bytes left", out, err, len(rest))
	}
	if _, _, err := ParseHeader(b[:15]); err == nil {
		t.Error("a header of 15 bytes")
	}
	if _, err := Parse(b[HeaderLen:HeaderLen+50], &out); err == nil {
		t.Error("a payload cut short")
	}
}

func TestCreatedMemoryKeepsItsSize(t *testing.T) {
	fd, mem, err := Create("t", 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	defer Unmap(mem)
	if err := unix.Ftruncate(fd, 4096); !errors.Is(err, unix.EPERM) {
		t.Errorf("shrunk: %v", err)
	}
	other, err := Map(fd, 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(other)
	if mem[5000] = 7; other[5000] != 7 {
		t.Error("not the same memory")
	}
	if _, err := Map(fd, 8193); !errors.Is(err, ErrSeals) {
		t.Errorf("more than there is: %v", err)
	}
}

func TestRingsRefuseWhatIsNotTheirs(t *testing.T) {
	for _, n := range []uint32{0, 1, 8, 9, 1000, 1 << 30} {
		if got := RingSize(n, 256); got&(got-1) != 0 || got < 8 || got > MaxRing || n != 0 && n <= MaxRing && got < n {
			t.Errorf("a ring of %d has %d entries", n, got)
		}
	}
	mem := make([]byte, SQLen(8))
	NewSQ(mem, 8)
	if _, err := OpenSQ(mem); err != nil {
		t.Error(err)
	}
	if _, err := OpenSQ(mem[:len(mem)-1]); err == nil {
		t.Error("a ring that is cut short")
	}
	mem[4]++
	if _, err := OpenSQ(mem); err == nil {
		t.Error("a page of another version")
	}
	if _, err := OpenCQ(make([]byte, 4096)); err == nil {
		t.Error("a completion ring of zeros")
	}
}
