package pktio

import (
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

var sizes = []int{64, 1500, 4200}

// BenchmarkSend compares what a frame costs with this package, 64 in a batch, with what the kernel takes for the same
// frames in the same batches with nothing around it, and one by one. The far end drops them.
func BenchmarkSend(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("pktio/%d", size), func(b *testing.B) {
			inNet(b)
			veth(b, "a1", "b1")
			s := open(b, 64, "a1")
			f := frame(1, size)
			refused := 0
			report(b, size, func() {
				for range batch {
					s.Queue(0, f)
				}
				s.Flush(func(int, error) { refused++ })
			})
			if refused > 0 {
				b.Errorf("%d frames refused", refused)
			}
		})
		b.Run(fmt.Sprintf("sendmmsg/%d", size), func(b *testing.B) {
			fd, to := plain(b)
			f := frame(1, size)
			iov := unix.Iovec{Base: &f[0], Len: uint64(size)}
			var msgs [batch]mmsghdr
			for i := range msgs {
				msgs[i].hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&to)), Namelen: unix.SizeofSockaddrLinklayer, Iov: &iov, Iovlen: 1}
			}
			report(b, size, func() {
				n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msgs)), batch, 0, 0, 0)
				if n != batch {
					b.Fatal(n, e)
				}
			})
		})
		b.Run(fmt.Sprintf("sendto/%d", size), func(b *testing.B) {
			fd, to := plain(b)
			f := frame(1, size)
			report(b, size, func() {
				for range batch {
					_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&f[0])), uintptr(size), 0, uintptr(unsafe.Pointer(&to)), unix.SizeofSockaddrLinklayer)
					if e != 0 {
						b.Fatal(e)
					}
				}
			})
		})
	}
}

// report runs work, which handles a batch, and tells the cost of a frame.
func report(b *testing.B, size int, work func()) {
	b.ReportAllocs()
	b.SetBytes(int64(batch * size))
	for b.Loop() {
		work()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/frame")
}

// plain makes a packet socket with nothing around it, and the address of a veth whose far end drops everything.
func plain(b *testing.B) (fd int, to unix.RawSockaddrLinklayer) {
	b.Helper()
	inNet(b)
	veth(b, "a1", "b1")
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		b.Fatal(err)
	}
	return fd, unix.RawSockaddrLinklayer{Family: unix.AF_PACKET, Halen: 6, Ifindex: int32(link(b, "a1").Attrs().Index)}
}

// BenchmarkReceive is what a frame costs from one end to the other, sending included.
func BenchmarkReceive(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			inNet(b)
			veth(b, "a1", "b1")
			s, r := open(b, 64, "a1"), open(b, 256, "b1")
			f := frame(1, size)
			report(b, size, func() {
				for range batch {
					s.Queue(0, f)
				}
				s.Flush(func(int, error) {})
				drain(r)
				drain(s)
			})
		})
	}
}

// BenchmarkTwoThreads is what the kernel and two processors make of it: one thread sends, 16 or 64 in a batch and at most 128
// ahead, and another in a second namespace takes, with or without looking at the bytes.
func BenchmarkTwoThreads(b *testing.B) {
	for _, size := range []int{64, 4200, 8300} {
		for _, n := range []int{1, 16, 64} {
			for _, look := range []bool{false, true} {
				b.Run(fmt.Sprintf("%d/batch=%d/look=%v", size, n, look), func(b *testing.B) { twoThreads(b, size, n, look) })
			}
		}
	}
}

func twoThreads(b *testing.B, size, n int, look bool) {
	inNet(b)
	veth(b, "a1", "b1")
	s := open(b, 64, "a1")
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { home.Close() })
	var taken atomic.Uint64
	ready, stop := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			ready <- err
			return
		}
		r, err := Open([]string{"b1"}, maxFrame, 256)
		ready <- err
		if err != nil {
			return
		}
		defer r.Close()
		sum := uint32(0)
		for {
			_, f, ok := r.Next()
			if !ok {
				select {
				case <-stop:
					_ = sum
					return
				default:
					continue
				}
			}
			if look {
				sum += crc32.ChecksumIEEE(f)
			}
			r.Release()
			taken.Add(1)
		}
	}()
	if err := <-ready; err != nil {
		b.Fatal(err)
	}
	f := frame(1, size)
	sent := uint64(0)
	b.SetBytes(int64(n * size))
	for b.Loop() {
		for sent-taken.Load() > 128 {
		}
		for range n {
			s.Queue(0, f)
		}
		s.Flush(func(int, error) {})
		drain(s)
		sent += uint64(n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/frame")
	close(stop)
}
