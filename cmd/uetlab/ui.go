package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/uetlab/uetlab/fabric/api"
)

// Keys of the parser's metadata: the ui, and the words of the command line as they were typed.
const (
	uiKey    = "ui"
	wordsKey = "words"
)

// ui is what a command may touch of the world around it: data goes to out, everything else to err.
type ui struct {
	in      *os.File
	out     *counter
	err     io.Writer
	signals *signals
}

// counter is a writer that knows whether anything was written.
type counter struct {
	io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += int64(n)
	return n, err
}

// note tells the user something that is not data.
func (u *ui) note(format string, args ...any) { fmt.Fprintf(u.err, format+"\n", args...) }

// terminal says whether w is a terminal.
func terminal(w any) bool {
	if c, ok := w.(*counter); ok {
		w = c.Writer
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// stopped is the cause of a context that a signal ended.
type stopped struct{ sig os.Signal }

func (s stopped) Error() string { return s.sig.String() }

// code is the exit code that shells give a process that the signal ended.
func (s stopped) code() int {
	if n, ok := s.sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return api.CodeInterrupted
}

// signals ends a context at the first SIGINT, SIGTERM or SIGHUP, and lets the second one end the process; or passes all of
// them on to a command in a node while there is one.
type signals struct {
	mu     sync.Mutex
	onward chan<- os.Signal
}

// watch starts to take signals; the goroutine lasts as long as the process.
func (s *signals) watch(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	in := make(chan os.Signal, 4)
	signal.Notify(in, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for sig := range in {
			if s.forward(sig) {
				continue
			}
			signal.Stop(in) // the next one ends the process at once
			cancel(stopped{sig})
		}
	}()
	return ctx
}

func (s *signals) forward(sig os.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onward == nil {
		return false
	}
	select {
	case s.onward <- sig:
	default: // the command is slow to take them: one more of the same tells it nothing new
	}
	return true
}

// passTo sends signals to ch from now on; nil ends that.
func (s *signals) passTo(ch chan<- os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onward = ch
}

// exitCode is the error of a command in a node that ended with a code other than 0: nothing to print.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// run executes one command line, words without the program's name, and gives the exit code.
func run(ctx context.Context, u *ui, words []string) int {
	err := dispatch(ctx, u, words)
	var code exitCode
	var sig stopped
	switch {
	case err == nil:
		return api.CodeOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(context.Cause(ctx), &sig):
		u.note("uetlab: ended by %s", sig)
		return sig.code()
	case errors.Is(err, context.DeadlineExceeded):
		err = api.Errorf(api.CodeTimeout, "%w", err)
	}
	return u.fail(api.AsError(err), wantsJSON(words))
}

// dispatch puts the command line in order and runs its command.
func dispatch(ctx context.Context, u *ui, words []string) error {
	l, err := reorder(commands(), words)
	if err != nil {
		return err
	}
	if l.help || l.command() == nil || len(l.args) > 0 && l.args[0] == "help" && len(l.command().Subcommands) > 0 {
		return u.help(l)
	}
	app := newApp(u, commands())
	app.Metadata[wordsKey] = words
	return app.RunContext(ctx, l.argv(program))
}

const program = "uetlab"

// newApp makes the parser of command lines that are in order. It prints nothing and ends nothing by itself.
func newApp(u *ui, commands []*cli.Command) *cli.App {
	return &cli.App{
		Name: program, Commands: commands, HideHelp: true, HideVersion: true, DisableSliceFlagSeparator: true, Writer: u.out, ErrWriter: u.err,
		Metadata:       map[string]any{uiKey: u},
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return flagError(err) },
	}
}

// fail prints an error, one line and a hint, and gives its exit code. A script that asked for JSON and has got nothing yet
// gets the error as JSON too.
func (u *ui) fail(e *api.Error, asJSON bool) int {
	u.note("uetlab: %s", e.Message)
	if e.Hint != "" {
		u.note("hint: %s", e.Hint)
	}
	if asJSON && u.out.n == 0 {
		_ = json.NewEncoder(u.out).Encode(map[string]*api.Error{"error": e}) // the exit code says it as well
	}
	return e.Code
}

// wantsJSON looks for --format json on a command line that may be wrong elsewhere.
func wantsJSON(words []string) bool {
	for i, w := range words {
		if w == "--" && !slices.ContainsFunc(words[:i], func(s string) bool { return slices.Contains(dividing, s) }) {
			return false
		}
		if w == "--format=json" || w == "--format" && i+1 < len(words) && words[i+1] == "json" {
			return true
		}
	}
	return false
}
