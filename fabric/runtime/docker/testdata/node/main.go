// Command node stands for the uetlab binary in tests of the docker runtime.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(64)
	}
	switch os.Args[1] {
	case "node":
		node()
	case "exit":
		n, _ := strconv.Atoi(os.Args[2])
		os.Exit(n)
	case "cat":
		fmt.Fprintln(os.Stderr, "copying")
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			os.Exit(1)
		}
	case "env":
		fmt.Println(os.Getenv(os.Args[2]))
	case "tty":
		var line string
		_, _ = fmt.Scanln(&line)
		ws, err := unix.IoctlGetWinsize(1, unix.TIOCGWINSZ)
		if err != nil {
			os.Exit(1)
		}
		fmt.Println(line, ws.Row, ws.Col)
	case "wait":
		fmt.Println("waiting")
		time.Sleep(time.Hour)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(time.Hour)
	}
}

// node writes to its page and tries to write everywhere else, says in its log how that went, and stays.
func node() {
	arg := map[string]string{}
	for i := 2; i+1 < len(os.Args); i += 2 {
		arg[os.Args[i]] = os.Args[i+1]
	}
	log, err := os.OpenFile(os.Getenv("UETLAB_LOG"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if arg["--node"] == "broken" {
		fmt.Fprintln(log, "first line\nno such fabric")
		os.Exit(3)
	}
	dir := arg["--dir"]
	try := func(what, path string, flags int) {
		f, err := os.OpenFile(path, flags, 0o600)
		if err == nil {
			_, err = f.WriteString(arg["--node"])
			f.Close()
		}
		fmt.Fprintf(log, "%s: %v\n", what, err == nil)
	}
	try("own page", filepath.Join(dir, "pages", arg["--id"]), os.O_WRONLY)
	try("other page", filepath.Join(dir, "pages", "clock"), os.O_WRONLY)
	try("new page", filepath.Join(dir, "pages", "new"), os.O_WRONLY|os.O_CREATE)
	try("lab directory", filepath.Join(dir, "new"), os.O_WRONLY|os.O_CREATE)
	try("root", "/new", os.O_WRONLY|os.O_CREATE)
	try("tmp", "/tmp/new", os.O_WRONLY|os.O_CREATE)
	if b, err := os.ReadFile(filepath.Join(dir, "pages", "clock")); err == nil {
		fmt.Fprintf(log, "clock page: %s\n", b)
	}
	host, _ := os.Hostname()
	fmt.Fprintf(log, "hostname: %s\nready\n", host)
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM)
	<-ch
}
