package match

// kinds of keys under which a message stands.
const (
	byBoth   = iota // tag and source
	byTag           // tag, for receives from any source
	bySource        // source, for receives of some tags from one source
	kinds
)

// Msg is one message that no receive has matched yet. The caller owns it, may use it again after Remove, and leaves the key
// alone while it is queued.
type Msg[T any] struct {
	Tag  uint64 // match bits; 0 in the untagged space
	From uint32 // initiator ID
	V    T      // the caller's own

	in    *Unexpected[T]
	order link[Msg[T]]        // all messages
	group [kinds]link[Msg[T]] // messages with the same key
}

// Unexpected is messages in the order of their arrival. It is made by NewUnexpected.
type Unexpected[T any] struct {
	n     int
	order ring[Msg[T]]
	index index[Msg[T]]
}

// NewUnexpected makes an empty queue. The seed is of the hash alone: it has no influence on results. Tags come from the wire,
// so peers should not know it.
func NewUnexpected[T any](seed uint64) *Unexpected[T] {
	return &Unexpected[T]{index: newIndex[Msg[T]](seed)}
}

// Len is the number of messages.
func (u *Unexpected[T]) Len() int { return u.n }

// Has says whether the message is queued here.
func (u *Unexpected[T]) Has(m *Msg[T]) bool { return m.in == u }

// First is the message that arrived first, nil if there is none.
func (u *Unexpected[T]) First() *Msg[T] { return u.order.first() }

// Next is the message that arrived after m, nil behind the last. Ask before m is removed.
func (u *Unexpected[T]) Next(m *Msg[T]) *Msg[T] { return u.order.after(&m.order) }

// Add queues the message behind all others. One that is queued already, here or elsewhere, is a mistake of the caller: it panics.
func (u *Unexpected[T]) Add(m *Msg[T]) {
	if m.in != nil {
		panic("match: Add of a message that is queued: remove it first")
	}
	u.n++
	m.in = u
	m.order.of = m
	u.order.push(&m.order)
	m.group[byBoth].key = key{tag: m.Tag, from: m.From, kind: byBoth}
	m.group[byTag].key = key{tag: m.Tag, kind: byTag}
	m.group[bySource].key = key{from: m.From, kind: bySource}
	for k := range m.group {
		m.group[k].of = m
		u.index.add(&m.group[k])
	}
}

// Find is the message that arrived first of those that match a receive (the parameters are as in Recv), nil if none does. It
// stays queued. With ignore 0 or ^0 it costs one look-up; other masks walk over the messages of the source, or over all with
// any source, up to the one that is found.
func (u *Unexpected[T]) Find(tag, ignore uint64, from uint32, any bool) *Msg[T] {
	m := u.order.first()
	if m == nil || (m.Tag^tag)&^ignore == 0 && (any || m.From == from) {
		return m
	}
	if ignore == 0 {
		k := key{tag: tag, from: from, kind: byBoth}
		if any {
			k = key{tag: tag, kind: byTag}
		}
		l := u.index.find(k)
		if l == nil {
			return nil
		}
		return l.of
	}
	if any {
		for ; m != nil && (m.Tag^tag)&^ignore != 0; m = u.order.after(&m.order) {
		}
		return m
	}
	source := ring[Msg[T]]{u.index.find(key{from: from, kind: bySource})}
	for m = source.first(); m != nil && (m.Tag^tag)&^ignore != 0; m = source.after(&m.group[bySource]) {
	}
	return m
}

// Remove takes the message out; one that is not queued here is left as it is.
func (u *Unexpected[T]) Remove(m *Msg[T]) {
	if m.in != u {
		return
	}
	u.n--
	m.in = nil
	u.order.drop(&m.order)
	for k := range m.group {
		u.index.remove(&m.group[k])
	}
}
