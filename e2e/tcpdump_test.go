package e2e

import (
	le "encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/scripts/wireshark"
)

// packets counts the packet blocks of a pcapng file that may still grow; -1 says that it is not there yet.
func packets(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return -1
	}
	defer f.Close()
	n, blocks := 0, 0
	for {
		var head [8]byte
		if _, err := io.ReadFull(f, head[:]); err != nil {
			break
		}
		const packetBlock = 6
		if le.LittleEndian.Uint32(head[:]) == packetBlock {
			n++
		}
		blocks++
		if _, err := f.Seek(int64(le.LittleEndian.Uint32(head[4:]))-8, io.SeekCurrent); err != nil {
			break
		}
	}
	if blocks == 0 {
		return -1
	}
	return n
}

// capture starts tcpdump into a file and waits until it is at work.
func (l *lab) capture(t testing.TB, args ...string) (*process, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "link.pcapng")
	p := l.start(t, append([]string{"tcpdump", "-w", file}, args...)...)
	until(t, "the capture to begin", func() bool { return p.ended() || packets(file) >= 0 })
	if p.ended() {
		t.Fatal(p.wait())
	}
	return p, file
}

// stop ends a capture as Ctrl-C does, once it holds n packets.
func stop(t testing.TB, p *process, file string, n uint64) {
	t.Helper()
	until(t, fmt.Sprintf("%d captured packets", n), func() bool { return p.ended() || packets(file) >= int(n) })
	p.signal(t, syscall.SIGINT)
	if a := p.wait(); a.code != 0 {
		t.Error(a)
	}
	if got := packets(file); got != int(n) {
		t.Errorf("%d packets captured, the link's counters say %d", got, n)
	}
}

// settle lets the PDCs of earlier runs close, whose packets would come beside what is captured. The clock goes on afterwards.
func (l *lab) settle(t testing.TB) {
	t.Helper()
	l.freeClock(t)
	l.clockTo(t, "pause")
	l.clockTo(t, "step", "5s")
	l.clockTo(t, "resume")
}

// tshark reads fields of a capture, one packet a line.
func tshark(t testing.TB, file string, args ...string) []string {
	t.Helper()
	out, err := exec.Command("tshark", append([]string{"-n", "-r", file}, args...)...).Output()
	if err != nil {
		t.Fatalf("tshark %v: %v", args, err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// sent is how many frames each end of a link has sent: those of the test are all delivered.
func sent(gained map[string]uint64, ends ...string) (n uint64) {
	for _, e := range ends {
		n += gained[e+" tx_frames"]
	}
	return n
}

// TestCaptureOfARun captures both directions of a link during a run and has tshark read it.
func TestCaptureOfARun(t *testing.T) {
	l := sharedLab(t)
	needTools(t, "tshark")
	l.settle(t)
	p, file := l.capture(t, "leaf0-spine0")
	before := l.counters(t)
	r := l.run(t, "permutation", "--size", "128KiB", "--seed", "1")
	l.clockTo(t, "pause") // PDCs would close meanwhile
	gained := minus(l.counters(t), before)
	n := sent(gained, "leaf0 eth3", "spine0 eth1")
	if n == 0 || r.Drops != 0 {
		t.Fatalf("the run sent %d frames over the link and lost %d", n, r.Drops)
	}
	stop(t, p, file, n)

	lines := tshark(t, file, "-T", "fields", "-E", "separator=,", "-e", "frame.time_epoch", "-e", "ip.src", "-e", "ip.dst", "-e", "udp.dstport", "-e", "frame.interface_id", "-e", "frame.protocols")
	if len(lines) != int(n) {
		t.Fatalf("tshark shows %d packets of %d", len(lines), n)
	}
	last, per := 0.0, map[string]uint64{}
	for i, line := range lines {
		f := strings.Split(line, ",")
		if len(f) != 6 || f[1] == "" || f[2] == "" || f[3] != "4793" || !strings.Contains(f[5], "ip:udp") {
			t.Fatalf("packet %d is not IP and UDP port 4793: %s", i, line)
		}
		at, err := strconv.ParseFloat(f[0], 64)
		if err != nil || at < last {
			t.Fatalf("packet %d is stamped %s, the one before %f", i, f[0], last)
		}
		last = at
		per[f[4]]++
	}
	if a, b := gained["leaf0 eth3 tx_frames"], gained["spine0 eth1 tx_frames"]; per["0"] != a || per["1"] != b {
		t.Errorf("packets by interface: %v; the ports sent %d and %d", per, a, b)
	}
	if bad := tshark(t, file, "-Y", "_ws.malformed || _ws.expert.severity == error"); len(bad) > 0 {
		t.Errorf("tshark finds malformed packets:\n%s", strings.Join(bad, "\n"))
	}
	// The dissector takes every packet apart and finds nothing wrong with any.
	lua := filepath.Join(t.TempDir(), wireshark.FileName)
	if err := os.WriteFile(lua, []byte(wireshark.Dissector), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "lua_script:" + lua
	if dissected := tshark(t, file, "-X", script, "-Y", "uet.pds.type && !_ws.malformed && !(_ws.expert.severity == error)"); len(dissected) != int(n) {
		t.Errorf("the dissector takes %d packets of %d apart, the others are:\n%s", len(dissected), n,
			strings.Join(tshark(t, file, "-X", script, "-Y", "!uet.pds.type || _ws.malformed || _ws.expert.severity == error"), "\n"))
	}
	if clock := float64(l.clock(t).NowNs) / 1e9; last > clock {
		t.Errorf("the last packet is stamped %f, virtual time is %f", last, clock)
	}
}

// TestCaptureFilters captures with expressions and sides.
func TestCaptureFilters(t *testing.T) {
	l := sharedLab(t)
	host0 := l.plan.Nodes[nodeID(t, l, "host0")].Addr4
	type capt struct {
		args []string
		p    *process
		file string
		want func(gained map[string]uint64) uint64
	}
	up, down := func(g map[string]uint64) uint64 { return g["host0 eth1 tx_frames"] }, func(g map[string]uint64) uint64 { return g["leaf0 eth1 tx_frames"] }
	cs := []capt{
		{args: []string{"host0-leaf0", "src", "host", host0.String()}, want: up},
		{args: []string{"host0-leaf0", "udp port 4793 and dst host " + host0.String()}, want: down},
		{args: []string{"host0-leaf0", "src", "host", "host0"}, want: up}, // nodes have names in filters
		{args: []string{"host0-leaf0", "tcp or icmp"}, want: func(map[string]uint64) uint64 { return 0 }},
		{args: []string{"host0:eth1", "-A"}, want: nil}, {args: []string{"host0:eth1", "-B"}, want: nil},
	}
	end := func(node string) func(map[string]uint64) uint64 {
		if node == "host0" {
			return up
		}
		return down
	}
	k := l.linkState(t, "host0-leaf0")
	cs[4].want, cs[5].want = end(k.B.Node), end(k.A.Node) // what A receives B has sent
	l.settle(t)
	for i := range cs {
		cs[i].p, cs[i].file = l.capture(t, cs[i].args...)
	}
	before := l.counters(t)
	l.run(t, "sendrecv", "--size", "64KiB")
	l.clockTo(t, "pause") // PDCs would close meanwhile
	gained := minus(l.counters(t), before)
	for _, c := range cs {
		t.Logf("%v: %d packets", c.args, c.want(gained))
		stop(t, c.p, c.file, c.want(gained))
	}
	l.clockTo(t, "resume")
}

func nodeID(t testing.TB, l *lab, name string) int {
	t.Helper()
	n, err := l.plan.Node(name)
	if err != nil {
		t.Fatal(err)
	}
	return n.ID
}

var uetLine = regexp.MustCompile(`host[0-9]|10\.0\.[0-9]+\.[0-9]+`)

// TestCaptureAsText has N packets printed, with what UET says in them, and ends by itself.
func TestCaptureAsText(t *testing.T) {
	l := sharedLab(t)
	const n = 40
	p := l.start(t, "tcpdump", "host0-leaf0", "-c", strconv.Itoa(n))
	for !p.ended() { // there is no telling from outside when text begins; a run more does no harm
		l.run(t, "sendrecv", "--size", "64KiB")
	}
	a := p.wait()
	lines := strings.Split(strings.TrimSpace(a.stdout), "\n")
	if a.code != 0 || len(lines) != n {
		t.Fatalf("%d lines of %d: %v", len(lines), n, a)
	}
	all := strings.ToUpper(a.stdout)
	for _, field := range []string{"RUD", "ACK", "PSN", "PDCID", "MSG"} {
		if !strings.Contains(all, field) {
			t.Errorf("no line shows %s:\n%s", field, a.stdout)
		}
	}
	for _, line := range lines {
		if !uetLine.MatchString(line) {
			t.Errorf("a line without addresses: %s", line)
		}
	}
	if a := l.do(t, "tcpdump", "host0-leaf0", "-c", "1", "no such thing"); a.code != 2 {
		t.Errorf("a filter that is none: %v", a)
	}
	if a := l.do(t, "tcpdump", "host0-leaf9"); a.code != 3 || !strings.Contains(a.stderr, "host0-leaf0") {
		t.Errorf("a link that is none: %v", a)
	}
	// A file that is counted ends by itself too.
	q, file := l.capture(t, "host0-leaf0", "-c", "7")
	l.run(t, "sendrecv", "--size", "64KiB")
	if a := q.wait(); a.code != 0 || packets(file) != 7 {
		t.Errorf("%d packets of 7: %v", packets(file), a)
	}
}
