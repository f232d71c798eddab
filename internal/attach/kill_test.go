package attach_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
)

const (
	childEnv = "ATTACH_TEST_CHILD"
	stopEnv  = "ATTACH_TEST_STOP" // the process stops in the middle
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(childEnv); socket != "" {
		if err := stream(socket, os.Stdin, os.Stdout); err != nil {
			fmt.Println("error", err)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	streamSize = 1 << 20
	streamMost = 12 // writes
	streamSome = 3  // after which the other end may be killed
)

// stream is a process that tells its address and memory, learns those of another, and writes into that, again and again.
func stream(socket string, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	fab, err := client.Open(socket)
	if err != nil {
		return err
	}
	d, err := fab.Domain(ctx, client.DomainOptions{PID: client.AnyPID})
	if err != nil {
		return err
	}
	defer d.Close()
	av, err := d.OpenAV(ctx)
	if err != nil {
		return err
	}
	ep, err := d.OpenEndpoint(ctx, client.EndpointConfig{AV: av})
	if err != nil {
		return err
	}
	var mem [2]*client.Memory
	for i := range mem {
		if mem[i], err = d.Alloc(ctx, streamSize); err != nil {
			return err
		}
	}
	mr, err := ep.RegisterMR(ctx, mem[0].Bytes(), client.MRConfig{Access: client.RemoteWrite | client.RemoteRead})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "at %x %d\n", client.MarshalAddress(ep.Addr()), mr.Key())
	var peer string
	var key uint64
	d.Outside(func() { _, err = fmt.Fscan(in, &peer, &key) })
	if err != nil {
		return err
	}
	b, err := hex.DecodeString(peer)
	if err != nil {
		return err
	}
	addr, err := client.UnmarshalAddress(b)
	if err != nil {
		return err
	}
	if _, err := av.Insert(ctx, addr); err != nil {
		return err
	}
	for i := range streamMost {
		kind := fep.OpWrite
		if i%2 == 1 {
			kind = fep.OpRead
		}
		if _, err := ep.Do(ctx, &client.Op{Kind: kind, Buf: mem[1].Bytes(), Key: key}); err != nil {
			return err
		}
		if i == streamSome {
			fmt.Fprintln(out, "some")
			if os.Getenv(stopEnv) != "" { // in the middle: the FEP waits for us, and the peer's operation is under way
				_, _ = fmt.Fscan(in, &peer)
			}
		}
	}
	fmt.Fprintln(out, "done")
	d.Outside(func() { _, _ = fmt.Fscan(in, &peer) }) // the other may not be done with our memory
	return nil
}

type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, socket string, stops bool) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.CommandContext(limit(t), os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"="+socket)
	if stops {
		c.cmd.Env = append(c.cmd.Env, stopEnv+"=1")
	}
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// line is the next line that the process says.
func (c *child) line() string {
	if !c.out.Scan() {
		return "(ended)"
	}
	return c.out.Text()
}

// TestKilledProcesses has two processes at each of two nodes write into each other's memory, and kills one of them in the middle.
func TestKilledProcesses(t *testing.T) {
	for _, killed := range []int{0, 1} {
		f := fabric(t, attachtest.Config{})
		var cs [4]*child // 0 and 2 are at node 0; 0 and 1, 2 and 3 are peers
		var at [4]string
		for i := range cs {
			cs[i] = start(t, f.Socket(i%2), i == killed)
			at[i] = strings.TrimPrefix(cs[i].line(), "at ")
		}
		for i, c := range cs {
			fmt.Fprintln(c.in, at[i^1])
		}
		if s := cs[killed].line(); s != "some" {
			t.Fatalf("process %d says %q", killed, s)
		}
		if err := cs[killed].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if s := cs[killed^1].line(); s == "some" {
			s = cs[killed^1].line()
			if !strings.HasPrefix(s, "error ") {
				t.Errorf("the peer of the killed process says %q", s)
			}
		}
		for _, i := range []int{2, 3} {
			for _, want := range []string{"some", "done"} {
				if s := cs[i].line(); s != want {
					t.Errorf("process %d, which has nothing to do with it, says %q, want %q", i, s, want)
				}
			}
		}
		for _, c := range cs {
			c.in.Close()
			_ = c.cmd.Wait()
		}
		for node := range 2 {
			st := level(t, f, node, 0)
			st.FreeCalls = 0
			if st.Processes+st.Endpoints+st.MRs+st.Regions+st.Bytes+st.Copies+st.Ops != 0 {
				t.Errorf("killed %d: node %d still holds %+v", killed, node, st)
			}
		}
		f.Do(func() {
			for node := range 2 { // what is still under way ends
				f.Node(node).Advance(f.Node(node).Now())
			}
		})
	}
}
