package wiring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// batchSize is how many requests go into one send: 64 creations fill 16 KiB, and their answers fit the socket's
// receive buffer.
const batchSize = 64

// attempts bounds the tries for a request that fails for a passing reason; with the pauses between, 1.3 s.
const attempts = 9

// errNoAnswer says that the kernel had no memory left for the answer to a request, which may have been carried out or not.
var errNoAnswer = errors.New("the kernel's answer was lost")

// Netlink's numbers that the unix package lacks.
const (
	ackAttributes = 0x200 // NLM_F_ACK_TLVS: text follows the error
	attrMessage   = 1     // NLMSGERR_ATTR_MSG
)

// conn is an rtnetlink socket in the namespace of the thread that opened it. Not for concurrent use.
type conn struct {
	fd  int
	seq uint32
	buf []byte
}

func dial() (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("rtnetlink socket: %w", err)
	}
	// Both are comforts: the kernel's own words with an error, and answers without a copy of the question.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("rtnetlink socket: bind: %w", err)
	}
	return &conn{fd: fd, buf: make([]byte, 32<<10)}, nil
}

func (c *conn) close() { unix.Close(c.fd) }

// do sends up to batchSize requests at once and returns the answer to each.
func (c *conn) do(msgs []message) []error {
	answers := make([]error, len(msgs))
	var out []byte
	first := c.seq + 1
	for i, m := range msgs {
		answers[i] = errNoAnswer
		binary.NativeEndian.PutUint32(m[8:], first+uint32(i))
		out = append(out, m...)
		out = append(out, make([]byte, -len(out)&3)...)
	}
	c.seq += uint32(len(msgs))
	for {
		err := unix.Sendto(c.fd, out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err == unix.EINTR {
			continue // nothing was sent: the kernel handles requests inside the call and only then returns
		}
		if err != nil {
			for i := range answers {
				answers[i] = fmt.Errorf("rtnetlink send: %w", err)
			}
			return answers
		}
		break
	}
	c.collect(first, answers)
	return answers
}

// collect reads all answers that are there. The kernel has queued them before the send returned, so an empty socket means
// that no more will come.
func (c *conn) collect(first uint32, answers []error) {
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buf, unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR, err == unix.ENOBUFS: // the latter reports an answer lost; others may still be queued
			continue
		case err != nil:
			return
		}
		parseAnswers(c.buf[:n], first, answers)
	}
}

// parseAnswers takes NLMSG_ERROR messages; an error of 0 is success.
func parseAnswers(b []byte, first uint32, answers []error) {
	const header = unix.SizeofNlMsghdr
	for len(b) >= header {
		size := int(binary.NativeEndian.Uint32(b))
		if size < header || size > len(b) {
			return
		}
		kind, flags := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:])
		i := binary.NativeEndian.Uint32(b[8:]) - first
		if kind == unix.NLMSG_ERROR && size >= header+4+header && i < uint32(len(answers)) {
			answers[i] = nil
			if code := int32(binary.NativeEndian.Uint32(b[header:])); code != 0 {
				answers[i] = unix.Errno(-code)
				if text := ackText(b[header+4+header:size], flags); text != "" {
					answers[i] = fmt.Errorf("%w: %s", unix.Errno(-code), text)
				}
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
}

// ackText is the kernel's explanation of an error, if it gave one.
func ackText(attrs []byte, flags uint16) string {
	if flags&ackAttributes == 0 {
		return ""
	}
	for len(attrs) >= 4 {
		size := int(binary.NativeEndian.Uint16(attrs))
		if size < 4 || size > len(attrs) {
			return ""
		}
		if binary.NativeEndian.Uint16(attrs[2:]) == attrMessage && size > 4 {
			return string(attrs[4 : size-1]) // zero-terminated
		}
		attrs = attrs[min((size+3)&^3, len(attrs)):]
	}
	return ""
}

// transient says whether a request may succeed if it is repeated. EEXIST is among them: the name may still belong to a
// link that a dying namespace takes with it.
func transient(err error) bool {
	for _, e := range []error{errNoAnswer, unix.EINTR, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.ENOMEM, unix.EEXIST} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pause waits before the next attempt, 5 ms at first and doubling; false when there shall be none.
func pause(ctx context.Context, attempt int) bool {
	if attempt+1 >= attempts {
		return false
	}
	t := time.NewTimer(5 * time.Millisecond << attempt)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
