package control

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/runtime"
)

// serveExec runs commands in nodes for clients that hand over their standard streams.
func (d *Daemon) serveExec() error {
	l, err := listenUnix("unixpacket", d.dir.ExecSock())
	if err != nil {
		return err
	}
	go func() { // ends when the lab goes
		<-d.downDone
		l.Close()
	}()
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go d.execOne(c.(*net.UnixConn)) // ends with the command
		}
	}()
	return nil
}

func (d *Daemon) execOne(conn *net.UnixConn) {
	defer conn.Close()
	req, files, err := api.ReadExecRequest(conn)
	if err != nil {
		d.log.Warn("exec", "err", err)
		return
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	code, err := d.exec(ctx, cancel, conn, req, runtime.Exec{Argv: req.Argv, Env: req.Env, Files: files, TTY: req.TTY})
	r := api.ExecReply{Code: code}
	if err != nil {
		r.Error = api.AsError(err)
		if r.Code == 0 {
			r.Code = api.CodeExec
		}
	}
	_ = api.WriteExecReply(conn, r) // a client that is gone needs no answer
}

func (d *Daemon) exec(ctx context.Context, cancel func(), conn *net.UnixConn, req api.ExecRequest, e runtime.Exec) (int, error) {
	n, err := d.plan.Node(req.Node)
	if err != nil {
		return api.CodeNotFound, api.Errorf(api.CodeNotFound, "exec: %w", err)
	}
	if len(e.Argv) == 0 {
		return api.CodeExec, api.Errorf(api.CodeUsage, "exec: no command")
	}
	e.Handle, _ = d.handle(n.ID)
	sigs := make(chan syscall.Signal, 8)
	e.Signals = sigs
	go func() { // ends with the connection
		defer cancel()
		for {
			s, err := api.ReadExecSignal(conn)
			if err != nil {
				return
			}
			select {
			case sigs <- s:
			default: // the command is behind with the ones before
			}
		}
	}()
	code, err := d.rt.Exec(ctx, e)
	if errors.Is(err, context.Canceled) {
		return api.CodeInterrupted, nil
	}
	return code, err
}
