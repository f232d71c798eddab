package fep

// maxMids is how many message IDs there are.
const maxMids = 0xFFFE

// midPool hands out message IDs 1..0xFFFE, each once among the outstanding messages of the FEP.
type midPool struct {
	used [1 << 10]uint64
	next uint16
	n    int
}

func (m *midPool) reset() { *m = midPool{next: 1} }

// get returns 0 if all are taken.
func (m *midPool) get() uint16 {
	if m.n == maxMids {
		return 0
	}
	for m.next == 0 || m.next == 0xFFFF || m.used[m.next>>6]>>(m.next&63)&1 != 0 {
		m.next++
	}
	id := m.next
	m.used[id>>6] |= 1 << (id & 63)
	m.n++
	m.next++
	return id
}

func (m *midPool) put(id uint16) {
	m.used[id>>6] &^= 1 << (id & 63)
	m.n--
}
