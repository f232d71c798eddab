//go:build !amd64

package link

import "unsafe"

func prefetch(unsafe.Pointer) {}
