package nodeproc

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/uetlab/uetlab/fabric/wiring/hostnet"
	"github.com/uetlab/uetlab/internal/clock"
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

// host keeps a plain host's namespaces alive, runs its command if it has one, and waits for the end.
func (p *proc) host() error {
	p.page.State.Store(uint64(clock.Ready))
	if argv := p.cfg.Node.Command; len(argv) > 0 {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("host command: %w", err)
		}
		go func() { // ends with the command
			if err := cmd.Wait(); err != nil {
				fmt.Fprintln(os.Stderr, "host command:", err)
			}
		}()
	}
	for {
		var m ctl.Message
		_, err := p.conn.Recv(&m, true)
		if errors.Is(err, io.EOF) {
			for again := false; !again; {
				time.Sleep(redial)
				if again, err = p.reconnect(); err != nil {
					return nil
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
