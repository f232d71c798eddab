package fep

// links are a record's neighbours in a chain; it embeds them, so that a chain allocates nothing.
type links[T any] struct{ prev, next *T }

func (l *links[T]) chained() *links[T] { return l }

// linked is a pointer to a record that embeds links.
type linked[T any] interface {
	*T
	chained() *links[T]
}

// chain is records in the order in which they were added. Each is in one at most.
type chain[T any, P linked[T]] struct{ head, tail *T }

func (c *chain[T, P]) add(r *T) {
	l := P(r).chained()
	l.prev, l.next = c.tail, nil
	if c.tail == nil {
		c.head = r
	} else {
		P(c.tail).chained().next = r
	}
	c.tail = r
}

func (c *chain[T, P]) remove(r *T) {
	l := P(r).chained()
	if l.prev == nil {
		c.head = l.next
	} else {
		P(l.prev).chained().next = l.next
	}
	if l.next == nil {
		c.tail = l.prev
	} else {
		P(l.next).chained().prev = l.prev
	}
	l.prev, l.next = nil, nil
}
