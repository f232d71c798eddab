package attach_test

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// restless is a process that posts what is valid, and takes its things away while they are in use.
type restless struct {
	*raw
	rnd  *rand.Rand
	node int
	addr shm.Addr
	keys []uint64
}

const (
	restlessMem = 1 << 20
	restlessMRs = 3
)

func newRestless(t *testing.T, f *attachtest.Fabric, node int, pid int32, rnd *rand.Rand) *restless {
	t.Helper()
	fd, err := shm.Dial(f.Socket(node))
	if err != nil {
		t.Fatal(err)
	}
	r := &restless{raw: &raw{t: t, sock: fd, bell: -1}, rnd: rnd, node: node}
	t.Cleanup(r.hangUp)
	r.attach(shm.Hello{PID: pid, Flags: shm.HelloFree, SQEntries: 4096})
	r.cq(4096)
	r.must(shm.ReqAVOpen, nil, nil)
	var ep shm.EPOpened
	r.must(shm.ReqEPOpen, &shm.EPOpen{AV: 1, TxCQ: 1, RxCQ: 1, PID: -1, Flags: rnd.Uint32N(2), Initiator: uint32(pid)}, &ep)
	r.addr = ep.Addr
	mfd, b, err := shm.Create("t", restlessMem)
	if err != nil {
		t.Fatal(err)
	}
	shm.Unmap(b)
	defer unix.Close(mfd)
	for range restlessMRs {
		r.must(shm.ReqMemory, &shm.Memory{Kind: shm.MemShared, Len: restlessMem}, nil, mfd)
	}
	for i := range uint32(restlessMRs) {
		var m shm.MRRegistered
		r.must(shm.ReqMRRegister, &shm.MRRegister{EP: 1, Region: i + 1, Len: restlessMem, Access: shm.MRRead | shm.MRWrite | shm.MRAtomic, Flags: rnd.Uint32N(2)}, &m)
		r.keys = append(r.keys, m.Key)
	}
	return r
}

// post submits some operations to peers that are all in the vector.
func (r *restless) post(all []*restless) {
	for range 30 {
		i := r.rnd.IntN(len(all))
		e := shm.SQE{Op: shm.OpSend + shm.Op(r.rnd.IntN(int(shm.OpCompareAtomic))), Object: 1, Peer: int32(i), Region: 1 + r.rnd.Uint32N(restlessMRs),
			Buf: r.rnd.Uint64N(1 << 10), Len: r.rnd.Uint64N(1 << uint(r.rnd.IntN(20))), Key: all[i].keys[r.rnd.IntN(restlessMRs)], Tag: r.rnd.Uint64N(3),
			AOp: uint8(wire.AtomicSum), AType: uint8(wire.AtomicUint64)}
		if e.Op >= shm.OpAtomic {
			e.Len, e.RRegion, e.CRegion = 8, 1, 2
		}
		if (e.Op == shm.OpRecv || e.Op == shm.OpTagRecv) && r.rnd.IntN(2) == 0 {
			e.Peer, e.Len = -1, restlessMem/2
		}
		r.submit(&e)
	}
	r.ring()
}

// take takes something away; it may be in use, and may be gone.
func (r *restless) take() {
	kind, id := []uint32{shm.KindMR, shm.KindMemory, shm.KindMR, shm.KindMemory, shm.KindEP}[r.rnd.IntN(5)], 1+r.rnd.Uint32N(restlessMRs)
	if _, _, _, err := r.ask(shm.ReqClose, &shm.Close{Kind: kind, ID: id}, nil); err != nil {
		r.t.Error(err)
	}
}

// TestNothingIsTouchedThatWasTakenAway has processes take back memory, registrations and endpoints, and leave, while operations are under way, and runs begin in
// between. A FEP that touched memory after that would take the test along.
func TestNothingIsTouchedThatWasTakenAway(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 2))
	for _, profiles := range []fep.Profiles{fep.AIFull | fep.AIBase, fep.HPC} {
		cfg := attachtest.Config{}
		cfg.FEP.Profiles = profiles
		f := fabric(t, cfg)
		for range 12 {
			var all []*restless
			for pid := range int32(2) {
				for node := range 2 {
					all = append(all, newRestless(t, f, node, pid+1, rnd))
				}
			}
			for _, r := range all {
				var more []byte
				for _, peer := range all {
					more = append(more, shm.Append(nil, shm.Header{}, &peer.addr)[shm.HeaderLen:]...)
				}
				if h, text, _, err := r.ask(shm.ReqAVInsert, &shm.AVInsert{AV: 1, Count: uint32(len(all))}, more); err != nil || h.Status != 0 {
					t.Fatal(err, string(text))
				}
			}
			reset := rnd.IntN(12)
			for i := range 12 {
				for _, r := range all {
					r.post(all)
				}
				if i == reset {
					f.Do(func() {
						for node := range 2 {
							n := f.Node(node)
							n.StartRun(n.Now(), uint64(i))
							f.Server(node).AfterReset(n.Now())
						}
					})
				}
				if i > 2 {
					all[rnd.IntN(len(all))].take()
				}
			}
			for _, i := range rnd.Perm(len(all)) {
				all[i].hangUp()
			}
			for node := range 2 {
				if st := level(t, f, node, 0); st != (shm.Stat{}) {
					t.Fatalf("seed %d: node %d still holds %+v", seed, node, st)
				}
			}
		}
		f.Do(func() {
			for node := range 2 { // what is still under way ends
				f.Node(node).Advance(f.Node(node).Now() + vt.Time(1e6))
			}
		})
	}
}
