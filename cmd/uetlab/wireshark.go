package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/scripts/wireshark"
)

const (
	installVerb = "install"
	// foldersTime bounds the question where plugins lie.
	foldersTime = 10 * time.Second
)

func wiresharkCommand() *cli.Command {
	return verb{name: "wireshark", args: "install|LINK [FILTER…]", usage: "install the Wireshark dissector, or watch a link in Wireshark", min: 1, max: -1,
		text: "install writes uet.lua, which takes apart UET packets and the lab's link frames, to the user's plugin folder of Wireshark;\n" +
			"with --uninstall it takes it away again. With a LINK it starts Wireshark on the packets of the link as they pass, with the\n" +
			"dissector loaded whether it is installed or not. FILTER is a pcap filter expression.",
		examples: []string{"uetlab wireshark install", "uetlab wireshark install --uninstall", "uetlab wireshark leaf0-spine0",
			"uetlab wireshark leaf0-spine0 --print udp port 4793"},
		flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "install: the plugin folder `DIR`; the user's of Wireshark by default"},
			&cli.BoolFlag{Name: "uninstall", Usage: "install: remove what was installed"},
			&cli.BoolFlag{Name: "print", Usage: "print the command line that shows the link, and start nothing"},
			nameFlag(),
		}, run: runWireshark}.command()
}

func runWireshark(c *call) error {
	install := c.arg(0) == installVerb
	switch {
	case install && len(c.args) > 1:
		return usage("wireshark install: one argument too many (%s)", c.arg(1)).WithHint("uetlab wireshark install [--dir DIR]")
	case install && c.Bool("print"):
		return usage("--print: install prints no command").WithHint("uetlab wireshark LINK --print")
	case !install && (c.String("dir") != "" || c.Bool("uninstall")):
		return usage("--dir, --uninstall: belong to install").WithHint("uetlab wireshark install --uninstall")
	case install:
		return c.installDissector()
	}
	if c.Bool("print") {
		_, err := fmt.Fprintln(c.out, c.watchLine())
		return err
	}
	return c.watchLink()
}

// watchLine is the shell's command line that shows a link in Wireshark.
func (c *call) watchLine() string {
	words := []string{program, "tcpdump"}
	if name := c.String("name"); name != "" {
		words = append(words, "--name", quoted(name))
	}
	words = append(words, "-w", "-")
	for _, a := range c.args {
		words = append(words, quoted(a))
	}
	return strings.Join(words, " ") + " | wireshark -k -i -"
}

// quoted makes one word of the shell of s.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// installDissector writes the dissector to the plugin folder, or removes it.
func (c *call) installDissector() error {
	dir, err := c.pluginDir()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, wireshark.FileName)
	if c.Bool("uninstall") {
		err := os.Remove(file)
		if errors.Is(err, os.ErrNotExist) {
			c.note("%s is not there: nothing to remove", file)
			return nil
		}
		if err != nil {
			return fmt.Errorf("wireshark: %w", err)
		}
		c.note("removed %s", file)
		return nil
	}
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, wireshark.Dissector) {
		c.note("%s is there already, and current", file)
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("wireshark: %w", err)
	}
	if err := writeWhole(file, wireshark.Dissector); err != nil {
		return fmt.Errorf("wireshark: %w", err)
	}
	c.note("installed %s", file)
	c.note("Wireshark loads it when it starts next, or with Analyze, Reload Lua Plugins")
	return nil
}

// writeWhole puts a file in its place in one step, so that a Wireshark that starts meanwhile reads the old or the new one.
func writeWhole(file string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".uet-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		os.Remove(tmp.Name()) // the error before it says more
	}
	return err
}

// pluginDir is where Wireshark looks for the user's Lua plugins: what --dir or Wireshark itself says, else its default.
func (c *call) pluginDir() (string, error) {
	if dir := c.String("dir"); dir != "" {
		return dir, nil
	}
	for _, bin := range []string{"tshark", "wireshark"} {
		ctx, cancel := context.WithTimeout(c.ctx, foldersTime)
		out, err := exec.CommandContext(ctx, bin, "-G", "folders").Output()
		cancel()
		if dir := luaFolder(string(out)); err == nil && dir != "" {
			return dir, nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", api.Errorf(api.CodeUsage, "wireshark: where are its plugins? %v", err).WithHint("uetlab wireshark install --dir DIR")
	}
	return filepath.Join(home, ".local", "lib", "wireshark", "plugins"), nil
}

// luaFolder finds the folder in the answer to -G folders.
func luaFolder(answer string) string {
	for l := range strings.Lines(answer) {
		if dir, ok := strings.CutPrefix(l, "Personal Lua Plugins:"); ok {
			return strings.TrimSpace(dir)
		}
	}
	return ""
}

// watchLink starts Wireshark and feeds it the packets of a link until one of the two ends.
func (c *call) watchLink() error {
	bin, err := exec.LookPath("wireshark")
	if err != nil {
		return api.Errorf(api.CodePrecondition, "wireshark: it is not installed on this machine").
			WithHint("install it, or where it is: %s", c.watchLine())
	}
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	req := api.CaptureRequest{Link: c.arg(0), Filter: strings.Join(c.args[1:], " "), Format: api.FormatPcapng}
	stream, err := cl.Capture(c.ctx, req)
	if err != nil {
		return explain(d, err)
	}
	defer stream.Close()
	dir, err := os.MkdirTemp("", "uetlab-wireshark-")
	if err != nil {
		return fmt.Errorf("wireshark: %w", err)
	}
	defer os.RemoveAll(dir)
	argv := []string{"-k", "-i", "-", "-o", "udp.ignore_ipv6_zero_checksum:TRUE"} // UET sends none
	if installed, err := c.pluginDir(); err != nil || !exists(filepath.Join(installed, wireshark.FileName)) {
		script := filepath.Join(dir, wireshark.FileName)
		if err := os.WriteFile(script, wireshark.Dissector, 0o644); err != nil {
			return fmt.Errorf("wireshark: %w", err)
		}
		argv = append(argv, "-X", "lua_script:"+script) // loaded twice it would be an error
	}
	return c.feed(exec.CommandContext(c.ctx, bin, argv...), stream)
}

// feed runs Wireshark with the stream as its input.
func (c *call) feed(cmd *exec.Cmd, stream io.ReadCloser) error {
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("wireshark: %w", err)
	}
	cmd.Stderr = c.err
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("wireshark: %w", err)
	}
	copied := make(chan error, 1)
	go func() {
		_, err := copyBlocks(in, stream)
		in.Close()
		copied <- err
	}()
	err = cmd.Wait()
	stream.Close() // the window was closed: the packets go nowhere
	lost := <-copied
	var sig stopped
	if errors.As(context.Cause(c.ctx), &sig) { // the way to end a capture
		return nil
	}
	if err != nil {
		return fmt.Errorf("wireshark: %w", errors.Join(err, lost))
	}
	return nil
}
