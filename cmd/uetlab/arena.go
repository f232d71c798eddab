package main

import "golang.org/x/sys/unix"

// arenaBlock is what is asked of the kernel at a time, in bytes.
const arenaBlock = 64 << 20

// arena gives out memory in huge pages where the kernel has them, and falls back on the heap.
type arena struct {
	blocks [][]byte
	left   []byte
}

// clear gives all memory back; nobody uses it any more.
func (a *arena) clear() {
	for _, b := range a.blocks {
		_ = unix.Munmap(b)
	}
	*a = arena{}
}

func (a *arena) take(n int) []byte {
	if n > arenaBlock {
		return make([]byte, n)
	}
	if n > len(a.left) {
		b, err := unix.Mmap(-1, 0, arenaBlock, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return make([]byte, n)
		}
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // small pages do as well
		a.blocks, a.left = append(a.blocks, b), b
	}
	b := a.left[:n:n]
	a.left = a.left[n:]
	return b
}
