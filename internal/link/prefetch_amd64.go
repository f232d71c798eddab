package link

import "unsafe"

// prefetch has the processor fetch the cache line at p, and does not wait for it.
//
//go:noescape
func prefetch(p unsafe.Pointer)
