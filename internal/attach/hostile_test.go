package attach_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/internal/attach"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
	"github.com/uetlab/uetlab/internal/shm"
)

// limit is a guard against hanging, not a measure.
func limit(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func fabric(t testing.TB, cfg attachtest.Config) *attachtest.Fabric {
	t.Helper()
	f, err := attachtest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// raw is a process that speaks the protocol by hand.
type raw struct {
	t    testing.TB
	sock int
	bell int
	mem  []byte
	sq   *shm.SQ
	tail uint32
	id   uint32
}

func dial(t testing.TB, f *attachtest.Fabric) *raw {
	t.Helper()
	fd, err := shm.Dial(f.Socket(0))
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t, sock: fd, bell: -1}
	t.Cleanup(func() { r.hangUp() })
	return r
}

func (r *raw) hangUp() {
	for _, fd := range []*int{&r.sock, &r.bell} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
}

// ask sends a message and takes the reply; an error says that the FEP has hung up.
func (r *raw) ask(kind shm.Request, payload any, more []byte, fds ...int) (shm.Header, []byte, []int, error) {
	r.id++
	return r.exchange(append(shm.Append(nil, shm.Header{Kind: kind, ID: r.id}, payload), more...), fds...)
}

func (r *raw) exchange(b []byte, fds ...int) (shm.Header, []byte, []int, error) {
	r.t.Helper()
	if err := shm.Send(r.sock, b, fds...); err != nil {
		return shm.Header{}, nil, nil, err
	}
	buf := make([]byte, shm.MaxMessage)
	for ctx := limit(r.t); ; {
		n, got, err := shm.Recv(r.sock, buf)
		if err == shm.ErrAgain && ctx.Err() == nil {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(r.sock), Events: unix.POLLIN}}, 100)
			continue
		}
		if err != nil {
			return shm.Header{}, nil, nil, err
		}
		h, rest, err := shm.ParseHeader(buf[:n])
		if err != nil {
			r.t.Fatal(err)
		}
		if h.Kind == shm.ReqDoorbell && h.ID == 0 {
			continue
		}
		return h, rest, got, nil
	}
}

// must is ask of what has to be granted.
func (r *raw) must(kind shm.Request, payload any, result any, fds ...int) []int {
	r.t.Helper()
	h, rest, got, err := r.ask(kind, payload, nil, fds...)
	if err != nil || h.Status != 0 {
		r.t.Fatalf("request %d: %v, status %v: %s", kind, err, shm.Status(h.Status), rest)
	}
	if result != nil {
		if _, err := shm.Parse(rest, result); err != nil {
			r.t.Fatal(err)
		}
	}
	return got
}

func (r *raw) attach(hello shm.Hello) *raw {
	r.t.Helper()
	hello.Magic, hello.Version = shm.Magic, shm.Version
	if hello.Job == 0 {
		hello.Job = 1
	}
	var w shm.Welcome
	fds := r.must(shm.ReqHello, &hello, &w)
	var err error
	if r.mem, err = shm.Map(fds[0], shm.SQLen(int(w.SQEntries))); err == nil {
		r.sq, err = shm.OpenSQ(r.mem)
	}
	unix.Close(fds[0])
	if r.bell = fds[1]; err != nil {
		r.t.Fatal(err)
	}
	return r
}

func (r *raw) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(r.bell, one[:])
}

func (r *raw) submit(e *shm.SQE) {
	r.sq.Put(r.tail, e)
	r.tail++
	r.sq.SQTail.Store(r.tail)
}

// honest is a pair of well-behaved processes that exchange messages; it fails if a hostile one beside them gets in their way.
func honest(t testing.TB, f *attachtest.Fabric) {
	t.Helper()
	var eps [2]*client.Endpoint
	var doms [2]*client.Domain
	var avs [2]*client.AV
	for i := range 2 {
		fab, err := client.Open(f.Socket(i))
		if err != nil {
			t.Fatal(err)
		}
		d, err := fab.Domain(limit(t), client.DomainOptions{PID: client.AnyPID})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if avs[i], err = d.OpenAV(limit(t)); err == nil {
			eps[i], err = d.OpenEndpoint(limit(t), client.EndpointConfig{AV: avs[i]})
		}
		if err != nil {
			t.Fatal(err)
		}
		doms[i] = d
	}
	for i := range 2 {
		if _, err := avs[i].Insert(limit(t), eps[1-i].Addr()); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { // ends with the message
		defer doms[1].Close()
		b := make([]byte, 10_000)
		c, err := eps[1].Do(limit(t), &client.Op{Kind: fep.OpTagRecv, Buf: b, Tag: 3})
		if err == nil && (c.Len != len(b) || !bytes.Equal(b, bytes.Repeat([]byte{7}, len(b)))) {
			err = errors.New("another message came")
		}
		done <- err
	}()
	if err := doms[0].Sleep(limit(t), 1000); err != nil {
		t.Error(err)
	}
	if _, err := eps[0].Do(limit(t), &client.Op{Kind: fep.OpTagSend, Buf: bytes.Repeat([]byte{7}, 10_000), Tag: 3}); err != nil {
		t.Error(err)
	}
	doms[0].Outside(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// level waits until all but n processes are gone and gives what is held then.
func level(t testing.TB, f *attachtest.Fabric, node int, n uint64) (st shm.Stat) {
	t.Helper()
	for ctx := limit(t); ; {
		f.Do(func() { st = f.Server(node).Stat() })
		if st.Processes <= n {
			st.FreeCalls = 0
			return st
		}
		if ctx.Err() != nil {
			t.Fatalf("processes do not go: %+v", st)
		}
	}
}

func TestHelloIsChecked(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	f.Do(func() { f.Server(0).AllowJob(9, [16]byte{1, 2, 3}, true) })
	good := shm.Hello{Magic: shm.Magic, Version: shm.Version, Job: 1, PID: -1}
	for _, c := range []struct {
		name string
		edit func(h *shm.Hello)
		want shm.Status
	}{
		{"version", func(h *shm.Hello) { h.Version++ }, shm.StatusVersion},
		{"magic", func(h *shm.Hello) { h.Magic++ }, shm.StatusVersion},
		{"job 0", func(h *shm.Hello) { h.Job = 0 }, shm.StatusJob},
		{"job of 25 bits", func(h *shm.Hello) { h.Job = 1 << 24 }, shm.StatusJob},
		{"unknown job", func(h *shm.Hello) { h.Job = 8 }, shm.StatusJob},
		{"job without token", func(h *shm.Hello) { h.Job = 9 }, shm.StatusJob},
		{"PID of 13 bits", func(h *shm.Hello) { h.PID = 1 << 12 }, shm.StatusPID},
		{"PID of the ranks", func(h *shm.Hello) { h.PID = 0 }, shm.StatusPID},
	} {
		h := good
		c.edit(&h)
		r := dial(t, f)
		got, text, _, err := r.ask(shm.ReqHello, &h, nil)
		if err != nil || shm.Status(got.Status) != c.want || len(text) == 0 {
			t.Errorf("%s: %v, status %v %q, want %v", c.name, err, shm.Status(got.Status), text, c.want)
		}
	}
	h := good
	h.Job, h.Token, h.PID = 9, [16]byte{1, 2, 3}, 0
	dial(t, f).attach(h)
	r := dial(t, f)
	if got, _, _, _ := r.ask(shm.ReqHello, &h, nil); shm.Status(got.Status) != shm.StatusPID {
		t.Errorf("a PID twice: %v", shm.Status(got.Status))
	}
	if _, _, _, err := dial(t, f).ask(shm.ReqStat, nil, nil); err != io.EOF {
		t.Errorf("a process that does not greet: %v, want to be cut off", err)
	}
	level(t, f, 0, 1)
}

func TestMemoryMustNotShrink(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	r := dial(t, f).attach(shm.Hello{PID: -1})
	memfd := func(size int64, seals int, flags int) int {
		fd, err := unix.MemfdCreate("t", unix.MFD_ALLOW_SEALING|flags)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	pipe := make([]int, 2)
	if err := unix.Pipe(pipe); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shm.CloseAll(pipe) })
	for _, c := range []struct {
		name string
		fds  []int
		size uint64
		want shm.Status
	}{
		{"sealed", []int{memfd(8192, unix.F_SEAL_SHRINK, 0)}, 8192, shm.StatusOK},
		{"not sealed", []int{memfd(8192, 0, 0)}, 8192, shm.StatusSeals},
		{"sealed against growing alone", []int{memfd(8192, unix.F_SEAL_GROW, 0)}, 8192, shm.StatusSeals},
		{"not to be written", []int{memfd(8192, unix.F_SEAL_SHRINK|unix.F_SEAL_WRITE, 0)}, 8192, shm.StatusSeals},
		{"shorter than told", []int{memfd(4096, unix.F_SEAL_SHRINK, 0)}, 8192, shm.StatusSeals},
		{"no descriptor", nil, 8192, shm.StatusSeals},
		{"a pipe", []int{pipe[0]}, 8192, shm.StatusSeals},
		{"nothing", []int{memfd(8192, unix.F_SEAL_SHRINK, 0)}, 0, shm.StatusLimit},
		{"everything", []int{memfd(8192, unix.F_SEAL_SHRINK, 0)}, 1 << 63, shm.StatusLimit},
	} {
		h, _, _, err := r.ask(shm.ReqMemory, &shm.Memory{Kind: shm.MemShared, Len: c.size}, nil, c.fds...)
		if err != nil || shm.Status(h.Status) != c.want {
			t.Errorf("%s: %v, status %v, want %v", c.name, err, shm.Status(h.Status), c.want)
		}
	}
	h, _, _, _ := r.ask(shm.ReqMemory, &shm.Memory{Kind: shm.MemRemote, Len: 1 << 47, Probe: 8}, nil)
	if shm.Status(h.Status) != shm.StatusAccess {
		t.Errorf("memory that is not there: %v", shm.Status(h.Status))
	}
}

func TestLimits(t *testing.T) {
	cfg := attachtest.Config{}
	cfg.Attach = attach.Config{Clients: 3, Limits: shm.Limits{Endpoints: 3, CQs: 2, MRs: 1, Addresses: 4, Regions: 2, Ops: 2, Bytes: 8192, Copies: 100}}
	f := fabric(t, cfg)
	r := dial(t, f).attach(shm.Hello{PID: -1})
	refused := func(want shm.Status, kind shm.Request, payload any, more []byte, fds ...int) {
		t.Helper()
		if h, text, _, err := r.ask(kind, payload, more, fds...); err != nil || shm.Status(h.Status) != want {
			t.Errorf("request %d: %v, %v %s, want %v", kind, err, shm.Status(h.Status), text, want)
		}
	}
	mem := func(n int) int {
		fd, b, err := shm.Create("t", n)
		if err != nil {
			t.Fatal(err)
		}
		shm.Unmap(b)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	r.must(shm.ReqCQOpen, &shm.CQOpen{Entries: 8}, nil)
	r.must(shm.ReqCQOpen, &shm.CQOpen{Entries: 8}, nil)
	refused(shm.StatusLimit, shm.ReqCQOpen, &shm.CQOpen{}, nil)
	r.must(shm.ReqAVOpen, nil, nil)
	refused(shm.StatusLimit, shm.ReqAVInsert, &shm.AVInsert{AV: 1, Count: 5}, make([]byte, 5*shm.AddrLen))
	refused(shm.StatusInvalid, shm.ReqAVInsert, &shm.AVInsert{AV: 1, Count: 1 << 31}, make([]byte, 5*shm.AddrLen))
	r.must(shm.ReqEPOpen, &shm.EPOpen{AV: 1, TxCQ: 1, RxCQ: 1, PID: -1}, nil)
	r.must(shm.ReqEPOpen, &shm.EPOpen{TxCQ: 1, RxCQ: 2, PID: 7}, nil)
	refused(shm.StatusLimit, shm.ReqEPOpen, &shm.EPOpen{TxCQ: 1, RxCQ: 2, PID: 8}, nil)
	refused(shm.StatusObject, shm.ReqEPOpen, &shm.EPOpen{TxCQ: 1, RxCQ: 3, PID: 8}, nil)
	r.must(shm.ReqMemory, &shm.Memory{Kind: shm.MemShared, Len: 8192}, nil, mem(8192))
	refused(shm.StatusLimit, shm.ReqMemory, &shm.Memory{Kind: shm.MemShared, Len: 4096}, nil, mem(4096))
	refused(shm.StatusMemory, shm.ReqMRRegister, &shm.MRRegister{EP: 1, Region: 1, Offset: 8000, Len: 200}, nil)
	refused(shm.StatusMemory, shm.ReqMRRegister, &shm.MRRegister{EP: 1, Region: 1, Offset: ^uint64(0) - 10, Len: 200}, nil)
	r.must(shm.ReqMRRegister, &shm.MRRegister{EP: 1, Region: 1, Len: 8192, Access: shm.MRWrite}, nil)
	refused(shm.StatusLimit, shm.ReqMRRegister, &shm.MRRegister{EP: 1, Region: 1, Len: 10, Access: shm.MRWrite}, nil)
	refused(shm.StatusBusy, shm.ReqClose, &shm.Close{Kind: shm.KindMemory, ID: 1}, nil)
	refused(shm.StatusBusy, shm.ReqClose, &shm.Close{Kind: shm.KindAV, ID: 1}, nil)
	refused(shm.StatusBusy, shm.ReqClose, &shm.Close{Kind: shm.KindCQ, ID: 1}, nil)
	refused(shm.StatusObject, shm.ReqClose, &shm.Close{Kind: shm.KindMR, ID: 1 << 30}, nil)
	r.hangUp()
	if st := level(t, f, 0, 0); st != (shm.Stat{}) {
		t.Errorf("left: %+v", st)
	}
	for range 3 {
		dial(t, f).attach(shm.Hello{PID: -1})
	}
	if _, _, _, err := dial(t, f).ask(shm.ReqHello, &shm.Hello{}, nil); err == nil {
		t.Error("one process too many is let in")
	}
}

// TestARingFullOfGarbage submits entries at random, with indices of what is there and what is not, while others go about their work.
func TestARingFullOfGarbage(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	f := fabric(t, attachtest.Config{})
	r := dial(t, f).attach(shm.Hello{PID: 100, Flags: shm.HelloFree})
	before := level(t, f, 0, 1)
	r.must(shm.ReqCQOpen, &shm.CQOpen{Entries: 1024}, nil)
	r.must(shm.ReqAVOpen, nil, nil)
	addr := shm.Addr{PID: 1, Initiator: 3}
	copy(addr.FA[:], func() []byte { a := attachtest.Addr(1).As16(); return a[:] }())
	more := shm.Append(nil, shm.Header{}, &addr)[shm.HeaderLen:]
	if h, text, _, err := r.ask(shm.ReqAVInsert, &shm.AVInsert{AV: 1, Count: 1}, more); err != nil || h.Status != 0 {
		t.Fatal(err, string(text))
	}
	r.must(shm.ReqEPOpen, &shm.EPOpen{AV: 1, TxCQ: 1, RxCQ: 1, PID: -1}, nil)
	r.must(shm.ReqSRXOpen, &shm.SRXOpen{CQ: 1}, nil)
	fd, b, err := shm.Create("t", 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	shm.Unmap(b)
	defer unix.Close(fd)
	r.must(shm.ReqMemory, &shm.Memory{Kind: shm.MemShared, Len: 1 << 16}, nil, fd)
	some := func(most uint64) uint64 {
		switch rnd.IntN(4) {
		case 0:
			return rnd.Uint64N(most + 1)
		case 1:
			return rnd.Uint64()
		case 2:
			return 1
		}
		return ^uint64(0) >> rnd.IntN(64)
	}
	for range 40 {
		for range 200 {
			r.submit(&shm.SQE{Op: shm.Op(some(uint64(shm.NumOps))), Object: uint16(some(2)), Flags: uint32(some(63)), Ctx: some(9), Peer: int32(some(1)),
				Region: uint32(some(2)), Buf: some(1 << 16), Len: some(1 << 14), Tag: some(3), Ignore: some(1), Key: some(3), Offset: some(100), Data: some(1),
				AOp: uint8(some(20)), AType: uint8(some(17)), RRegion: uint32(some(2)), RBuf: some(1 << 16), CRegion: uint32(some(2)), CBuf: some(1 << 16)})
		}
		r.ring()
		for ctx := limit(t); r.sq.SQHead.Load() != r.tail && ctx.Err() == nil; {
		}
		if h, _, _, err := r.ask(shm.ReqStat, nil, nil); err != nil || h.Status != 0 {
			t.Fatalf("seed %d: the FEP has let go of a process that only posts nonsense: %v", seed, err)
		}
	}
	honest(t, f)
	r.hangUp()
	before.Processes--
	if st := level(t, f, 0, 0); st != (shm.Stat{}) {
		t.Errorf("seed %d: left %+v", seed, st)
	}
}

// TestWordsOfThePage writes nonsense into every word that a process may write, and those that it may not.
func TestWordsOfThePage(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 2))
	f := fabric(t, attachtest.Config{})
	for range 20 {
		r := dial(t, f).attach(shm.Hello{PID: -1, Flags: uint32(rnd.IntN(2))})
		for range 100 {
			at := rnd.IntN(384/8) * 8
			binary.LittleEndian.PutUint64(r.mem[at:], rnd.Uint64()>>rnd.IntN(64))
			r.ring()
		}
		_, _, _, _ = r.ask(shm.ReqCQOpen, &shm.CQOpen{Entries: 1 << 31}, nil)
		r.hangUp()
	}
	if st := level(t, f, 0, 0); st != (shm.Stat{}) {
		t.Errorf("seed %d: left %+v", seed, st)
	}
	honest(t, f)
}

// TestTheBellIsNotForBlocking lets a process make its eventfd block and fill it, flood the socket, and never read.
func TestTheBellIsNotForBlocking(t *testing.T) {
	f := fabric(t, attachtest.Config{})
	r := dial(t, f).attach(shm.Hello{PID: -1, Flags: shm.HelloFree})
	most := [8]byte{0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}
	_, _ = unix.Write(r.bell, most[:])
	if _, err := unix.FcntlInt(uintptr(r.bell), unix.F_SETFL, 0); err != nil {
		t.Fatal(err)
	}
	b := shm.Append(nil, shm.Header{Kind: shm.ReqStat, ID: 1}, nil)
	for ctx := limit(t); ctx.Err() == nil; {
		if err := shm.Send(r.sock, b); err != nil && err != shm.ErrAgain {
			break // cut off: it reads no answers
		}
	}
	honest(t, f)
	level(t, f, 0, 0)
}

// FuzzMessage sends any bytes as a control message of an attached process: the FEP answers or hangs up, and goes on for others.
func FuzzMessage(f *testing.F) {
	fab, err := attachtest.New(attachtest.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(fab.Close)
	for kind := shm.ReqHello; kind <= shm.ReqDoorbell; kind++ {
		f.Add(shm.Append(nil, shm.Header{Kind: kind, ID: 1}, make([]byte, 64)))
	}
	f.Add(shm.Append(nil, shm.Header{Kind: shm.ReqEPOpen, ID: 1}, &shm.EPOpen{AV: 1, TxCQ: 1, RxCQ: 1, PID: -1}))
	f.Add(shm.Append(nil, shm.Header{Kind: shm.ReqClose, ID: 1}, &shm.Close{Kind: shm.KindAV, ID: 1}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || len(b) > shm.MaxMessage {
			return
		}
		r := dial(t, fab).attach(shm.Hello{PID: -1})
		r.must(shm.ReqCQOpen, &shm.CQOpen{Entries: 8}, nil)
		r.must(shm.ReqAVOpen, nil, nil)
		if _, _, fds, err := r.exchange(b); err == nil {
			shm.CloseAll(fds)
		}
		shm.Unmap(r.mem)
		r.hangUp()
		if st := level(t, fab, 0, 0); st != (shm.Stat{}) {
			t.Errorf("left: %+v", st)
		}
	})
}
