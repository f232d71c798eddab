package workload

import (
	"encoding/binary"

	"github.com/uetlab/uetlab/internal/vt"
)

// barrier is a dissemination barrier: in round k a rank tells the one 2^k ahead and hears of the one 2^k behind, and after
// ⌈log2 n⌉ rounds it has heard of all. Messages are empty; with a guard they carry the latest time at which a rank known so
// far entered, so that all ranks learn the same one and begin together.
type barrier struct {
	rounds int
	size   int         // bytes of a message: 0, or 8 with a guard
	in     [2][][]byte // by parity of the barrier's number, since two have receives posted
	out    [2][][]byte
	sends  [2]int // not acknowledged
	got    [2]uint64
	round  int
	num    int // the barrier this rank is in, 0: none
	latest vt.Time
	take   func(n int64) []byte
}

const stampBytes = 8

func (b *barrier) init(ranks int, stamped bool, take func(n int64) []byte) {
	b.take = take
	for 1<<b.rounds < ranks {
		b.rounds++
	}
	if stamped {
		b.size = stampBytes
	}
	for p := range 2 {
		b.in[p], b.out[p] = b.stamps(), b.stamps()
	}
}

func (b *barrier) stamps() [][]byte {
	all := make([][]byte, b.rounds)
	for i := range all {
		if all[i] = []byte{}; b.size > 0 {
			all[i] = b.take(int64(b.size))
		}
	}
	return all
}

// barriers is the number of the last barrier: one ahead of each iteration but the first, and one at the end where only
// that tells a rank that what others write has arrived.
func (r *Rank) barriers() int {
	if r.spec.confirms() {
		return r.spec.Iters
	}
	return r.spec.Iters - 1
}

// postBarrier posts the receives of barrier num, if there is one.
func (r *Rank) postBarrier(now vt.Time, num int) {
	if num > r.barriers() {
		return
	}
	b := &r.bar
	b.got[num&1] = 0
	for k := 0; k < b.rounds && !r.finished; k++ {
		src := (r.me - 1<<k + r.spec.Ranks) % r.spec.Ranks
		err := r.ep.TagRecv(now, src, b.in[num&1][k], pack(ctxBarRecv, num, k), pack(ctxBarRecv, num, k))
		r.posted(err, ctxBarRecv, num, k)
	}
}

// enterBarrier enters barrier num, with the receives of the next one posted first: whoever sends to those has left
// this one, so that all have entered it.
func (r *Rank) enterBarrier(now vt.Time, num int) {
	r.postBarrier(now, num+1)
	b := &r.bar
	p := num & 1
	if b.sends[p] > 0 { // what barrier num-2 sent is not acknowledged: leave it alone
		b.out[p] = b.stamps()
	}
	b.num, b.round, b.latest = num, 0, now
	r.barrierSend(now)
	r.barrierStep(now)
}

func (r *Rank) barrierSend(now vt.Time) {
	if r.finished {
		return
	}
	b := &r.bar
	buf := b.out[b.num&1][b.round]
	if b.size > 0 {
		binary.BigEndian.PutUint64(buf, uint64(b.latest))
	}
	dst := (r.me + 1<<b.round) % r.spec.Ranks
	b.sends[b.num&1]++
	err := r.ep.TagSend(now, dst, buf, pack(ctxBarRecv, b.num, b.round), pack(ctxBarSend, b.num, b.round))
	r.posted(err, ctxBarSend, b.num, b.round)
}

func (r *Rank) barrierRecv(now vt.Time, num, round int) {
	r.bar.got[num&1] |= 1 << round
	if r.bar.num == num {
		r.barrierStep(now)
	}
}

// barrierStep goes as far as the messages that arrived allow.
func (r *Rank) barrierStep(now vt.Time) {
	b := &r.bar
	p := b.num & 1
	for b.num > 0 && b.got[p]>>b.round&1 == 1 && !r.finished {
		if b.size > 0 {
			b.latest = max(b.latest, vt.Time(binary.BigEndian.Uint64(b.in[p][b.round])))
		}
		b.round++
		if b.round < b.rounds {
			r.barrierSend(now)
			continue
		}
		b.num = 0
		if at := b.latest.Add(r.spec.Guard); r.wake != nil && at > now {
			r.wake.Wake(at, pack(ctxStart, 0, 0))
			return
		}
		r.iterate(now)
		return
	}
}
