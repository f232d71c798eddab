package shm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where a process finds the FEP of its node.
const (
	// EnvSocket is the environment variable that names another socket: a path, or @ and an abstract name.
	EnvSocket = "UETLAB_FEP"
	// DefaultSocket is an abstract name. Abstract names belong to a network namespace, so each node has its own, which all processes
	// in the node reach whatever they have as root, and nobody outside.
	DefaultSocket = "@uetlab-fep"
)

// ErrAgain says that a socket would have to wait.
var ErrAgain = errors.New("shm: would have to wait")

// Socket is the name of the FEP's socket: that of the environment, or the standard one.
func Socket() string {
	if s := os.Getenv(EnvSocket); s != "" {
		return s
	}
	return DefaultSocket
}

// Listen opens a SEQPACKET socket that does not block. One with a path is private to the user.
func Listen(name string) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, err
	}
	if !strings.HasPrefix(name, "@") {
		_ = unix.Fchmod(fd, 0o600) // the inode that bind makes has this mode from the start
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err == nil {
		err = unix.Listen(fd, 64)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("shm: listen on %s: %w", name, err)
	}
	return fd, nil
}

// Dial connects to a FEP; the socket blocks.
func Dial(name string) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("shm: connect to %s: %w", name, err)
	}
	return fd, nil
}

// Send sends one message without waiting, with descriptors beside it; ErrAgain if the other side does not read.
func Send(fd int, b []byte, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for {
		_, err := unix.SendmsgN(fd, b, oob, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return ErrAgain
		default:
			return err
		}
	}
}

// Recv takes one message into b, without waiting, and the first descriptors that came beside it; more than two are closed. io.EOF: the
// other side is gone.
func Recv(fd int, b []byte) (n int, fds []int, err error) {
	// unix.Recvmsg would allocate an address for every message.
	var oob [64]byte
	iov := unix.Iovec{Base: unsafe.SliceData(b)}
	iov.SetLen(len(b))
	msg := unix.Msghdr{Iov: &iov, Control: &oob[0]}
	msg.SetIovlen(1)
	var errno unix.Errno
	for {
		msg.SetControllen(len(oob))
		r, _, e := unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if n, errno = int(r), e; errno != unix.EINTR {
			break
		}
	}
	oobn := int(msg.Controllen)
	switch errno {
	case 0:
	case unix.EAGAIN:
		return 0, nil, ErrAgain
	case unix.ECONNRESET:
		return 0, nil, io.EOF
	default:
		return 0, nil, errno
	}
	if oobn > 0 {
		fds = rights(oob[:oobn])
	}
	if n == 0 {
		CloseAll(fds)
		return 0, nil, io.EOF
	}
	return n, fds, nil
}

func rights(oob []byte) (fds []int) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	if len(fds) > 2 {
		CloseAll(fds[2:])
		fds = fds[:2]
	}
	return fds
}

var doorbell = Append(nil, Header{Kind: ReqDoorbell}, nil)

// SendDoorbell wakes a process that sleeps on its socket. Where that is full the process has something to wake up for anyway.
func SendDoorbell(fd int) {
	_, _ = unix.SendmsgN(fd, doorbell, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
