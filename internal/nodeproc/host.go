package nodeproc

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/wiring/hostnet"
	"github.com/uetlab/uetlab/internal/ctl"
)

// startHost configures a plain host: addresses, a static gateway, finished checksums.
func (p *proc) startHost() error {
	q := p.cfg.Node.Ports[0]
	h := hostnet.Host{Port: q.Name, MTU: q.MTU, Addrs: []netip.Addr{p.cfg.Node.Addr4, p.cfg.Node.Addr6}, Gateways: true}
	for _, s := range []string{p.cfg.Gateway.Addr4, p.cfg.Gateway.Addr6} {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		h.Neighbours = append(h.Neighbours, hostnet.Neighbour{Addr: a, MAC: p.cfg.Gateway.MAC})
	}
	return hostnet.ConfigureHost(h)
}

// reap buries the dead of the namespace, whose first process this is: its own command and orphans.
func reap() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGCHLD)
	for range c {
		for {
			var st unix.WaitStatus
			pid, err := unix.Wait4(-1, &st, unix.WNOHANG, nil)
			if err != nil || pid <= 0 {
				break
			}
			if st.ExitStatus() != 0 {
				fmt.Fprintf(os.Stderr, "process %d ended: exit status %d, signal %d\n", pid, st.ExitStatus(), st.Signal())
			}
		}
	}
}

// host keeps a plain host's namespaces alive, runs its command if it has one, and waits for the end.
func (p *proc) host() error {
	go reap() // ends with the process
	if argv := p.cfg.Node.Command; len(argv) > 0 {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			return fmt.Errorf("host command: %w", err)
		}
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer null.Close()
		if _, err := os.StartProcess(path, argv, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{null, os.Stdout, os.Stderr}}); err != nil {
			return fmt.Errorf("host command: %w", err)
		}
	}
	for {
		var m ctl.Message
		_, err := p.conn.Recv(&m, true)
		if errors.Is(err, io.EOF) {
			for c := (*ctl.Conn)(nil); c == nil; {
				time.Sleep(redial)
				if c, err = p.reconnect(); err != nil {
					return nil // the lab is over
				}
			}
			continue
		}
		if err != nil {
			return err
		}
		var files []*os.File
		switch m.Op {
		case "stop":
			return nil
		case "wake":
			continue
		case "carrier":
			err = p.carrier(&m)
		case "capture":
			var f *os.File
			if f, err = p.captureSocket(m.Port); err == nil {
				files = append(files, f)
			}
		default:
			err = fmt.Errorf("message %q: a plain host does not know it", m.Op)
		}
		err = p.reply(m.ID, err, nil, files...)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			return err
		}
	}
}
