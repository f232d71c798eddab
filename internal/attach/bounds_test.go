package attach_test

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/attach"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
	"github.com/uetlab/uetlab/internal/shm"
)

// cq opens a completion ring and maps it.
func (r *raw) cq(entries uint32) *shm.CQ {
	r.t.Helper()
	var o shm.Opened
	fds := r.must(shm.ReqCQOpen, &shm.CQOpen{Entries: entries}, &o)
	mem, err := shm.Map(fds[0], shm.CQLen(int(o.Count)))
	unix.Close(fds[0])
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { shm.Unmap(mem) })
	q, err := shm.OpenCQ(mem)
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

// until asks something until it is so.
func (r *raw) until(what string, so func() bool) {
	r.t.Helper()
	for ctx := limit(r.t); !so(); runtime.Gosched() {
		if ctx.Err() != nil {
			r.t.Fatal(what)
		}
	}
}

// TestCopiesOfOneSubmissionCountTogether: three buffers that each are within the limit are not so together.
func TestCopiesOfOneSubmissionCountTogether(t *testing.T) {
	cfg := attachtest.Config{}
	cfg.Attach.Limits = attach.DefaultLimits
	cfg.Attach.Limits.Copies = 100
	f := fabric(t, cfg)
	r := dial(t, f).attach(shm.Hello{PID: -1, Flags: shm.HelloFree})
	q := r.cq(8)
	r.must(shm.ReqEPOpen, &shm.EPOpen{TxCQ: 1, RxCQ: 1, PID: -1}, nil)
	mem := make([]byte, 4096)
	addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	if h, _, _, err := r.ask(shm.ReqMemory, &shm.Memory{Kind: shm.MemRemote, Addr: addr, Len: 4096, Probe: addr}, nil); err != nil || shm.Status(h.Status) == shm.StatusAccess {
		t.Skipf("memory of processes cannot be reached here: %v", err)
	} else if h.Status != 0 {
		t.Fatal(shm.Status(h.Status))
	}
	r.must(shm.ReqMRRegister, &shm.MRRegister{EP: 1, Region: 1, Len: 80, Access: shm.MRWrite}, nil)
	for i, want := range []shm.Status{shm.StatusLimit, shm.StatusPeer} { // 3 × 8 and 3 × 6 bytes; nobody is in the vector
		n := uint64(8 - 2*i)
		r.submit(&shm.SQE{Op: shm.OpCompareAtomic, Object: 1, Region: 1, RRegion: 1, CRegion: 1, Len: n})
		r.ring()
		r.until("a completion", func() bool { return q.Tail.Load() == uint32(i+1) })
		var e shm.CQE
		if q.Take(uint32(i), &e); e.Status != want {
			t.Errorf("%d bytes thrice: %v, want %v", n, e.Status, want)
		}
	}
	runtime.KeepAlive(mem)
}

// TestManyCancels has a process that looks for what is not there among all the receives that it may have: others do not wait for it.
func TestManyCancels(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	r := dial(t, f).attach(shm.Hello{PID: 100, SQEntries: shm.MaxRing})
	r.cq(shm.MaxRing)
	r.must(shm.ReqEPOpen, &shm.EPOpen{TxCQ: 1, RxCQ: 1, PID: -1}, nil)
	taken := func() bool { return r.sq.SQHead.Load() == r.tail }
	for i := range 60_000 {
		r.submit(&shm.SQE{Op: shm.OpTagRecv, Object: 1, Peer: -1, Ctx: uint64(i), Tag: uint64(i)})
	}
	r.until("receives to be taken", taken)
	for range 60_000 {
		r.submit(&shm.SQE{Op: shm.OpCancel, Object: 1, Offset: 1 << 40})
	}
	start := r.tail - 60_000
	r.until("the first cancels to be taken", func() bool { return r.sq.SQHead.Load() != start })
	if taken() {
		t.Error("all were taken in one turn")
	}
	r.hangUp() // the FEP sees it between turns
	if st := level(t, f, 0, 0); st.Ops != 0 {
		t.Errorf("left: %+v", st)
	}
}
