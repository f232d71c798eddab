package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/scripts/wireshark"
)

// programs makes a folder of shell scripts the only place where programs are found.
func programs(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin-none")
	return dir
}

func TestWiresharkInstall(t *testing.T) {
	here(t)
	dir := filepath.Join(t.TempDir(), "new", "plugins")
	file := filepath.Join(dir, "uet.lua")
	for _, step := range []struct{ cmd, says string }{
		{"wireshark install --dir " + dir, "installed " + file},
		{"wireshark install --dir " + dir, "current"},
		{"wireshark install --uninstall --dir " + dir, "removed " + file},
		{"wireshark install --uninstall --dir " + dir, "nothing to remove"},
	} {
		o := runLine(t, context.Background(), step.cmd)
		if o.code != 0 || o.out != "" || !strings.Contains(o.err, step.says) {
			t.Errorf("%s: %+v, want %q", step.cmd, o, step.says)
		}
		b, err := os.ReadFile(file)
		if gone := strings.Contains(step.cmd, "--uninstall"); gone != os.IsNotExist(err) || !gone && !bytes.Equal(b, wireshark.Dissector) {
			t.Errorf("%s: %d bytes, %v", step.cmd, len(b), err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestWiresharkFolder asks the program where plugins lie, and takes its default where there is none.
func TestWiresharkFolder(t *testing.T) {
	here(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	programs(t, nil)
	for _, file := range []string{filepath.Join(home, ".local/lib/wireshark/plugins/uet.lua"), filepath.Join(home, "else where/uet.lua")} {
		if o := runLine(t, context.Background(), "wireshark install"); o.code != 0 {
			t.Fatalf("%+v", o)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		programs(t, map[string]string{"tshark": `echo "Personal Plugins:    	/nowhere"; echo "Personal Lua Plugins:	` + home + `/else where"`})
	}
}

func TestWiresharkLink(t *testing.T) {
	here(t)
	t.Setenv("HOME", t.TempDir())
	programs(t, nil)
	pipe := "uetlab tcpdump -w - host0-host1 udp port 4793 or '(tcp)' | wireshark -k -i -"
	o := runLine(t, context.Background(), "wireshark host0-host1 --print udp port 4793 or (tcp)")
	if o.code != 0 || o.out != pipe+"\n" || o.err != "" {
		t.Errorf("--print: %+v", o)
	}
	o = runLine(t, context.Background(), "wireshark host0-host1 udp port 4793 or (tcp)")
	if o.code != api.CodePrecondition || !strings.Contains(o.err, "not installed") || !strings.Contains(o.err, pipe) {
		t.Errorf("without Wireshark: %+v", o)
	}
	fakeLab(t, "one")
	dir := programs(t, nil)
	script := `echo "$@" > ` + dir + `/args; while [ $# -gt 1 ]; do shift; done
f=${1#lua_script:}; while read -r l; do echo "$l"; done < "$f" > ` + dir + `/lua; /bin/cat > ` + dir + `/packets`
	if err := os.WriteFile(filepath.Join(dir, "wireshark"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	if o = runLine(t, context.Background(), "wireshark host0-host1"); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil || !strings.HasPrefix(string(args), "-k -i - ") {
		t.Errorf("arguments: %s, %v", args, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "packets")); err != nil || !bytes.Equal(b, fakePcapng(3)) {
		t.Errorf("%d bytes of packets, %v", len(b), err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "lua")); err != nil || !bytes.Contains(b, []byte("GPL-2.0-or-later")) {
		t.Errorf("%d bytes of dissector, %v", len(b), err)
	}
}

func TestWiresharkUsage(t *testing.T) {
	here(t)
	for _, cmd := range []string{"wireshark", "wireshark install more", "wireshark install --print", "wireshark a-b --dir /tmp", "wireshark a-b --uninstall"} {
		if o := runLine(t, context.Background(), cmd); o.code != api.CodeUsage || !strings.Contains(o.err, "hint: ") {
			t.Errorf("%s: %+v", cmd, o)
		}
	}
}
