package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
)

func execCommand() *cli.Command {
	return verb{name: "exec", args: "NODE -- COMMAND…", usage: "run a command in a node", min: 2, max: -1,
		text: "The command is looked for in the node's root first, then on this machine; it runs in the node's namespaces. Where input\n" +
			"and output are a terminal it gets one. The exit code is the command's own; 125 exec failed, 126 the command cannot be\n" +
			"executed, 127 it is not there.",
		examples: []string{"uetlab exec leaf0 -- ip -br addr", "uetlab exec leaf0 -- tcpdump -ni eth1 -c 5", "uetlab exec host0 --no-tty -- cat /proc/net/dev"},
		flags:    execFlags(), run: func(c *call) error { return c.exec(c.args[0], c.args[1:]) }}.command()
}

func shCommand() *cli.Command {
	return verb{name: "sh", args: "NODE", usage: "open a shell in a node", min: 1, max: 1,
		examples: []string{"uetlab sh leaf0"},
		flags:    execFlags(), run: func(c *call) error { return c.exec(c.args[0], []string{"sh"}) }}.command()
}

func execFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: "no-tty", Aliases: []string{"T"}, Usage: "give the command plain pipes even on a terminal"}, nameFlag()}
}

// passedOn are the environment variables that a command in a node inherits.
var passedOn = []string{"PATH", "HOME", "USER", "SHELL", "TERM", "COLORTERM", "LANG", "LC_ALL", "NO_COLOR"}

func (c *call) exec(node string, argv []string) error {
	d, err := c.lab(runs)
	if err != nil {
		return err
	}
	req := api.ExecRequest{Node: node, Argv: argv}
	for _, k := range passedOn {
		if v, ok := os.LookupEnv(k); ok {
			req.Env = append(req.Env, k+"="+v)
		}
	}
	sigs := make(chan os.Signal, 8)
	c.signals.passTo(sigs)
	defer c.signals.passTo(nil)
	out, isFile := c.out.Writer.(*os.File)
	errFile, errIsFile := c.err.(*os.File)
	if !isFile || !errIsFile {
		return errors.New("exec: output is not a file")
	}
	if !c.Bool("no-tty") && terminal(c.in) && terminal(out) {
		return c.execTerminal(d, req, out, sigs)
	}
	code, err := api.Exec(c.ctx, d.ExecSock(), req, [3]*os.File{c.in, out, errFile}, sigs)
	return execResult(d, code, err)
}

// execResult makes an error of how a command ended. What went wrong before the command ran has a code of its own.
func execResult(d *labdir.Dir, code int, err error) error {
	switch {
	case err != nil && errors.Is(err, api.ErrNoDaemon):
		return explain(d, err)
	case err != nil:
		e := *api.AsError(err)
		if code != 0 {
			e.Code = code
		}
		return &e
	case code != 0:
		return exitCode(code)
	}
	return nil
}

// drainTime is how long the last output of a command that has ended may take.
const drainTime = 200 * time.Millisecond

// execTerminal runs the command on a new pseudo-terminal, with this one in raw mode.
func (c *call) execTerminal(d *labdir.Dir, req api.ExecRequest, out *os.File, sigs chan os.Signal) error {
	master, slave, err := pty.Open()
	if err != nil {
		return fmt.Errorf("exec: terminal: %w", err)
	}
	defer master.Close()
	defer slave.Close()
	if size, err := pty.GetsizeFull(out); err == nil {
		req.Rows, req.Cols = size.Rows, size.Cols
	}
	req.TTY = true
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	go func() { // lasts as long as the process
		for ; ; <-resized {
			_ = pty.InheritSize(out, master) // a terminal without a size leaves the command's as it is
		}
	}()
	old, err := term.MakeRaw(int(c.in.Fd()))
	if err != nil {
		return fmt.Errorf("exec: terminal: %w", err)
	}
	defer term.Restore(int(c.in.Fd()), old)
	go func() { _, _ = io.Copy(master, c.in) }() // lasts until input ends or the process does
	copied := make(chan struct{})
	go func() { // ends when the last holder of the slave has closed it
		_, _ = io.Copy(out, master)
		close(copied)
	}()
	code, err := api.Exec(c.ctx, d.ExecSock(), req, [3]*os.File{slave, slave, slave}, sigs)
	_ = slave.Close()
	select {
	case <-copied:
	case <-time.After(drainTime): // something that the command left behind holds the terminal
	}
	return execResult(d, code, err)
}
