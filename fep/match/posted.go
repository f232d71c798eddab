// Package match pairs messages with receives, for one RI space of an endpoint or of a shared receive queue: Posted holds the
// receives that wait for messages, Unexpected the messages that wait for receives (stored or deferred). Both find the eldest
// that matches. Tags and sources are hashed, so that exact matches cost the same however many wait.
//
// It knows no packets, buffers, profiles or time, allocates nothing per operation (elements belong to the caller, tables only
// grow), and is for one goroutine.
package match

import "math/bits"

// maxMasks is how many different Ignore masks are hashed at a time. Receives with further masks are kept in a list.
const maxMasks = 16

// listed is the kind of the receives in that list; the others have twice the number of their mask, plus one with any source.
const listed = 2 * maxMasks

// Recv is one posted receive. The caller owns it, may use it again after Remove, and leaves the key alone while it is posted.
// A receive of the untagged space has Ignore ^0: every tag matches.
type Recv[T any] struct {
	Tag    uint64 // match bits
	Ignore uint64 // bits of Tag that need not match
	From   uint32 // initiator ID
	Any    bool   // any source: From does not count
	V      T      // the caller's own

	seq   uint64 // of its post
	in    *Posted[T]
	order link[Recv[T]] // all receives
	group link[Recv[T]] // receives with the same key, or the list
}

// Match says whether a message fits the receive: uet-pds-ses.md section 14.
func (r *Recv[T]) Match(from uint32, tag uint64) bool {
	return (tag^r.Tag)&^r.Ignore == 0 && (r.Any || from == r.From)
}

// Posted is receives in the order of their posts. It is made by NewPosted.
type Posted[T any] struct {
	n     int
	seq   uint64
	order ring[Recv[T]]
	list  ring[Recv[T]] // receives whose mask has no number
	index index[Recv[T]]
	masks [maxMasks]uint64
	count [2 * maxMasks]int // receives of each kind
	live  uint32            // bit k: there are receives of kind k
}

// NewPosted makes an empty queue. The seed is of the hash alone: it has no influence on results.
func NewPosted[T any](seed uint64) *Posted[T] {
	return &Posted[T]{index: newIndex[Recv[T]](seed)}
}

// Len is the number of posted receives.
func (p *Posted[T]) Len() int { return p.n }

// Has says whether the receive is posted here.
func (p *Posted[T]) Has(r *Recv[T]) bool { return r.in == p }

// First is the eldest receive, nil if there is none.
func (p *Posted[T]) First() *Recv[T] { return p.order.first() }

// Next is the receive posted after r, nil behind the last. Ask before r is removed.
func (p *Posted[T]) Next(r *Recv[T]) *Recv[T] { return p.order.after(&r.order) }

// Post queues the receive behind all others. One that is posted already, here or elsewhere, is a mistake of the caller: it panics.
func (p *Posted[T]) Post(r *Recv[T]) {
	if r.in != nil {
		panic("match: Post of a receive that is posted: remove it first")
	}
	p.seq++
	p.n++
	r.seq, r.in = p.seq, p
	r.order.of, r.group.of = r, r
	p.order.push(&r.order)
	m := p.number(r.Ignore)
	if m < 0 {
		r.group.key = key{kind: listed}
		p.list.push(&r.group)
		return
	}
	k := p.key(uint32(2*m), r.From, r.Tag)
	if r.Any {
		k = p.key(uint32(2*m+1), 0, r.Tag)
	}
	r.group.key = k
	p.index.add(&r.group)
	p.count[k.kind]++
	p.live |= 1 << k.kind
}

// number is the place of a mask, given to it now if need be; -1 if all places are taken by others.
func (p *Posted[T]) number(ignore uint64) int {
	free := -1
	for m := range p.masks {
		switch used := p.live>>(2*m)&3 != 0; {
		case used && p.masks[m] == ignore:
			return m
		case !used && free < 0:
			free = m
		}
	}
	if free >= 0 {
		p.masks[free] = ignore
	}
	return free
}

// key of the receives of a kind that a message matches.
func (p *Posted[T]) key(kind, from uint32, tag uint64) key {
	if kind&1 != 0 {
		from = 0
	}
	return key{tag: tag &^ p.masks[kind/2], from: from, kind: kind}
}

// Find is the eldest receive that a message matches, nil if none does. It stays posted: a multi-receive buffer serves several
// messages. It costs a look at the eldest of all, one look-up for each mask with and without source that is in use, and a walk
// over the list up to the receive that was found.
func (p *Posted[T]) Find(from uint32, tag uint64) *Recv[T] {
	best := p.order.first()
	if best == nil || best.Match(from, tag) {
		return best
	}
	best = nil
	for live := p.live; live != 0; live &= live - 1 {
		l := p.index.find(p.key(uint32(bits.TrailingZeros32(live)), from, tag))
		if l != nil && (best == nil || l.of.seq < best.seq) {
			best = l.of
		}
	}
	for r := p.list.first(); r != nil && (best == nil || r.seq < best.seq); r = p.list.after(&r.group) {
		if r.Match(from, tag) {
			return r
		}
	}
	return best
}

// Remove takes the receive out; one that is not posted here is left as it is.
func (p *Posted[T]) Remove(r *Recv[T]) {
	if r.in != p {
		return
	}
	p.n--
	r.in = nil
	p.order.drop(&r.order)
	kind := r.group.key.kind
	if kind == listed {
		p.list.drop(&r.group)
		return
	}
	p.index.remove(&r.group)
	if p.count[kind]--; p.count[kind] == 0 {
		p.live &^= 1 << kind
	}
}
