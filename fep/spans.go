package fep

import "slices"

// spans is a set of bytes of a message, as ranges that neither touch nor overlap, in order. It says what of an exposed buffer was
// read, however the reader cuts it and however often it reads the same.
type spans []span

type span struct{ from, to uint32 }

// mostSpans is how many ranges a set has at most. A reader that takes packets in a row makes no more than its window has, so beyond that
// those are not noted that touch no other.
const mostSpans = 1 << 14

// add puts a range in.
func (s *spans) add(from, to uint32) {
	if from >= to {
		return
	}
	// The ranges [i, j) touch the new one.
	i, _ := slices.BinarySearchFunc(*s, from, func(a span, v uint32) int {
		if a.to < v {
			return -1
		}
		return 1
	})
	j := i
	for j < len(*s) && (*s)[j].from <= to {
		from, to = min(from, (*s)[j].from), max(to, (*s)[j].to)
		j++
	}
	if i < j || len(*s) < mostSpans {
		*s = slices.Replace(*s, i, j, span{from, to})
	}
}

// covers says whether a whole range is in the set.
func (s spans) covers(from, to uint32) bool {
	if from >= to {
		return true
	}
	for _, a := range s {
		if a.from <= from && to <= a.to {
			return true
		}
	}
	return false
}
