package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// ExecRequest asks for a command in a node. It is the first packet on exec.sock, a SEQPACKET unix socket, and carries the
// command's standard input, output and error as three descriptors.
type ExecRequest struct {
	Node string   `json:"node"`
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"` // KEY=value
	TTY  bool     `json:"tty,omitempty"` // the descriptors are a terminal, to become the controlling one
	Rows uint16   `json:"rows,omitempty"`
	Cols uint16   `json:"cols,omitempty"`
}

// ExecSignal is any later packet from the client: a signal for the command. When the client closes the socket the daemon
// ends the command.
type ExecSignal struct {
	Signal int `json:"signal"`
}

// ExecReply is the daemon's one packet, sent when the command has ended: its exit code, or why it could not be run.
type ExecReply struct {
	Code  int    `json:"code"`
	Error *Error `json:"error,omitempty"`
}

// maxExecPacket bounds a packet on exec.sock, bytes.
const maxExecPacket = 128 << 10

// Exec runs a command in a node through the exec socket at path, with files as its standard input, output and error, and
// gives its exit code. Signals are passed on while it runs; when ctx ends the command is ended.
func Exec(ctx context.Context, path string, req ExecRequest, files [3]*os.File, signals <-chan os.Signal) (int, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return CodeExec, err
	}
	if len(body) > maxExecPacket {
		return CodeExec, fmt.Errorf("exec: command line of %d bytes: longer than %d", len(body), maxExecPacket)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", path)
	if err != nil {
		return CodeExec, dialError(err)
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	rights := syscall.UnixRights(int(files[0].Fd()), int(files[1].Fd()), int(files[2].Fd()))
	if _, _, err := conn.WriteMsgUnix(body, rights, nil); err != nil {
		return CodeExec, fmt.Errorf("exec: send: %w", err)
	}
	done := make(chan struct{})
	defer close(done)
	go passSignals(ctx, conn, signals, done) // ends with done
	return readExecReply(ctx, conn)
}

// passSignals sends the signals on until done is closed, and closes the connection when ctx ends.
func passSignals(ctx context.Context, conn *net.UnixConn, signals <-chan os.Signal, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			conn.Close()
			return
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				b, _ := json.Marshal(ExecSignal{int(n)}) // an int always encodes
				_, _ = conn.Write(b)                     // a command that has ended needs no signal
			}
		}
	}
}

func readExecReply(ctx context.Context, conn *net.UnixConn) (int, error) {
	buf := make([]byte, maxExecPacket)
	n, err := conn.Read(buf)
	switch {
	case ctx.Err() != nil:
		return CodeExec, ctx.Err()
	case errors.Is(err, io.EOF) || err == nil && n == 0:
		return CodeExec, fmt.Errorf("exec: %w: it closed the connection", ErrNoDaemon)
	case err != nil:
		return CodeExec, fmt.Errorf("exec: read: %w", err)
	}
	var r ExecReply
	if err := json.Unmarshal(buf[:n], &r); err != nil {
		return CodeExec, fmt.Errorf("exec: reply: %w", err)
	}
	if r.Error != nil {
		return r.Code, r.Error
	}
	return r.Code, nil
}

// ReadExecRequest reads the first packet of a client on the daemon's side. The caller owns the files, which it must close.
func ReadExecRequest(conn *net.UnixConn) (ExecRequest, [3]*os.File, error) {
	var files [3]*os.File
	buf, oob := make([]byte, maxExecPacket), make([]byte, syscall.CmsgSpace(3*4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return ExecRequest{}, files, fmt.Errorf("exec: read request: %w", err)
	}
	fds, err := parseRights(oob[:oobn])
	if err != nil {
		return ExecRequest{}, files, err
	}
	var req ExecRequest
	if err := json.Unmarshal(buf[:n], &req); err != nil || len(fds) != 3 || flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
		closeAll(fds)
		return ExecRequest{}, files, Errorf(CodeUsage, "exec: request of %d bytes with %d descriptors: not a request", n, len(fds))
	}
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "stdio")
	}
	return req, files, nil
}

// parseRights gives all descriptors of a control message, each of which the caller must close.
func parseRights(oob []byte) ([]int, error) {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("exec: control message: %w", err)
	}
	var all []int
	for _, m := range msgs {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("exec: descriptors: %w", err)
		}
		all = append(all, fds...)
	}
	return all, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// ReadExecSignal reads a later packet of the client; io.EOF says that the client is gone.
func ReadExecSignal(conn *net.UnixConn) (syscall.Signal, error) {
	var buf [256]byte
	n, err := conn.Read(buf[:])
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	var s ExecSignal
	if err := json.Unmarshal(buf[:n], &s); err != nil {
		return 0, fmt.Errorf("exec: signal: %w", err)
	}
	return syscall.Signal(s.Signal), nil
}

// WriteExecReply sends the daemon's one packet.
func WriteExecReply(conn *net.UnixConn, r ExecReply) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := conn.Write(b); err != nil {
		return fmt.Errorf("exec: send reply: %w", err)
	}
	return nil
}
