package fep

// tokens names things for peers: the lower half of a token is a place, the upper half counts how often the place was given. So what a
// peer says of a thing that is gone is not taken for what has its place now. No token is 0.
type tokens[T any] struct {
	places []tokenPlace[T]
	free   []uint16
	n      int
	first  uint16 // generation of a place that was never given
}

type tokenPlace[T any] struct {
	v    T
	gen  uint16 // never 0
	used bool
}

// add names v. 0: all places are taken.
func (t *tokens[T]) add(v T) uint32 {
	var i int
	switch n := len(t.free); {
	case n > 0:
		i = int(t.free[n-1])
		t.free = t.free[:n-1]
	case len(t.places) > 0xFFFF:
		return 0
	default:
		i = len(t.places)
		t.places = append(t.places, tokenPlace[T]{gen: max(t.first, 1)})
	}
	p := &t.places[i]
	p.v, p.used = v, true
	t.n++
	return uint32(p.gen)<<16 | uint32(i)
}

// get finds what a peer means.
func (t *tokens[T]) get(token uint32) (v T, ok bool) {
	i := int(token & 0xFFFF)
	if i >= len(t.places) || !t.places[i].used || uint32(t.places[i].gen) != token>>16 {
		return v, false
	}
	return t.places[i].v, true
}

// remove ends a token. Its place is given again under another one.
func (t *tokens[T]) remove(token uint32) {
	if _, ok := t.get(token); !ok {
		return
	}
	var none T
	i := uint16(token)
	p := &t.places[i]
	p.v, p.used = none, false
	if p.gen++; p.gen == 0 {
		p.gen = 1
	}
	t.free = append(t.free, i)
	t.n--
}

// reset ends all tokens. Generations begin where the caller says, so that a FEP which starts again does not give the same ones again,
// and a run that is done again does.
func (t *tokens[T]) reset(first uint16) { *t = tokens[T]{first: first} }
