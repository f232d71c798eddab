package filter

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
)

func compile(t testing.TB, expr string) *Program {
	t.Helper()
	p, err := Compile(expr, Options{})
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return p
}

// same checks that two expressions pass the same frames of the corpus.
func same(t *testing.T, a, b *Program, what string) {
	t.Helper()
	for i, f := range corpus() {
		if a.Match(f) != b.Match(f) {
			t.Fatalf("%s: frame %d: %v and %v\n%x", what, i, a.Match(f), b.Match(f), f)
		}
	}
}

func TestAdditionsMeanTheirLongForms(t *testing.T) {
	for short, long := range map[string]string{
		"uet":                           "udp dst port 4793",
		"not uet or tcp":                "not udp dst port 4793 or tcp",
		"uet and host 10.0.0.1":         "udp dst port 4793 and host 10.0.0.1",
		"net 10/8":                      "net 10.0.0.0/8",
		"ip proto udp":                  `ip proto \udp`,
		"ether proto arp":               `ether proto \arp`,
		"port uet":                      "port 4793",
		"ether proto lldp":              "ether proto 0x88cc",
		"len-20>40":                     "len - 20 > 40",
		"ip[len-15]=0":                  "ip[len - 15] = 0",
		"ether host 020000000001":       "ether host 02:00:00:00:00:01",
		"port 80 or (443 or tcp[0]=1)":  "port 80 or port 443 or tcp[0] = 1",
		"ip[1]&(2|1)=3":                 "(ip[1] & 3) = 3",
		"tcp[-20] = 0x45":               "ip[0] = 0x45 and tcp and ip[6:2] & 0x1fff = 0",
		"0 - ip[8] > 5":                 "ip and 0 - ip[8] > 5", // libpcap forgets ip here
		"ip[2:2] + (udp[4:2] - 8) > 60": "udp[0] >= 0 and ip[2:2] + (udp[4:2] - 8) > 60",
		"-1 = 0xffffffff and ip":        "ip",
		"len ^ 3 ^ 5 > 60":              "len ^ 6 > 60",
		"vlan && (ip || ip6)":           "vlan and (ip or ip6)",
	} {
		same(t, compile(t, short), compile(t, long), short)
	}
}

func TestEmptyExpressionMatchesAll(t *testing.T) {
	for _, expr := range []string{"", "  ", "1 = 1"} {
		if p := compile(t, expr); !p.Match(nil) || !p.Match(make([]byte, 60)) {
			t.Errorf("%q does not match", expr)
		}
	}
	if compile(t, "1 = 2").Match(make([]byte, 60)) {
		t.Error("1 = 2 matches")
	}
}

func TestNamesStandForAllTheirAddresses(t *testing.T) {
	opts := Options{Names: func(n string) []netip.Addr {
		if n != "host0" {
			return nil
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}
	}}
	for expr, long := range map[string]string{
		"host host0":                 "host 10.0.0.1 or host 2001:db8::1",
		"src host0 and port 80":      "src host 10.0.0.1 and port 80 or src host 2001:db8::1 and port 80",
		"ip host host0":              "ip host 10.0.0.1",
		"ip6 dst host0":              "ip6 dst host 2001:db8::1",
		"host 10.1.2.3 or host0":     "host 10.1.2.3 or 10.0.0.1 or 2001:db8::1",
		"arp host host0 or uet":      "arp host 10.0.0.1 or udp dst port 4793",
		"not host host0 and not arp": "not host 10.0.0.1 and not host 2001:db8::1 and not arp",
	} {
		p, err := Compile(expr, opts)
		if err != nil {
			t.Fatal(err)
		}
		if expr == "src host0 and port 80" { // and binds as or does: spell it out
			long = "(src host 10.0.0.1 or src host 2001:db8::1) and port 80"
		}
		same(t, p, compile(t, long), expr)
	}
	if _, err := Compile("host host9", opts); err == nil {
		t.Error("an unknown name compiles")
	}
}

func TestErrorsSayWhereAndWhatInstead(t *testing.T) {
	for _, c := range []struct {
		expr string
		col  int
		want string // part of the message
	}{
		{"prot 80", 1, `did you mean "port"?`},
		{"ip and pord 80", 8, `did you mean "port"?`},
		{"udp and UET", 9, `did you mean "uet"?`},
		{"tcp prot 80", 5, `did you mean "port"?`},
		{"hots 10.0.0.1", 1, `did you mean "host"?`},
		{"10.0.0.1", 1, `say what it is`},
		{"tcp and 80", 9, `say what it is`},
		{"host", 5, `after "host"`},
		{"host and", 6, `after "host"`},
		{"ip or", 6, "ends where a term"},
		{"ip ip6", 4, `join terms with`},
		{"port 80 443", 9, `join terms with`},
		{"(ip", 1, "not closed"},
		{"ip)", 3, "closes nothing"},
		{"ip[0", 3, "not closed"},
		{"(ip[0)] = 1", 6, "closes nothing"},
		{"port 70000", 6, "largest is 65535"},
		{"port htpp", 6, `did you mean "http"?`},
		{"portrange a-b", 11, "not a range"},
		{"ip port 80", 1, "ip has no ports"},
		{"tcp host 10.0.0.1", 1, `"tcp and host 10.0.0.1"`},
		{"ip6 host 10.0.0.1", 1, "ip6 has no IPv4"},
		{"ip host ::1", 1, "ip has no IPv6"},
		{"ether host 10.0.0.1", 12, "not a MAC address"},
		{"host 00:11:22:33:44:55", 6, `"ether host"`},
		{"host 256.1.1.1", 6, "not an address"},
		{"host 10.0.0.0/8", 14, `write "net"`},
		{"net 10.1.2.3/8", 5, "the net is 10.0.0.0"},
		{"net 10.0.0.0/33", 14, "largest is 32"},
		{"net 2001:db8:1234::/44", 5, "the net is 2001:db8:1230::/44"},
		{"net ::/129", 8, "largest is 128"},
		{"ip proto 256", 10, "largest is 255"},
		{"ip proto upd", 10, `did you mean "udp"?`},
		{"tcp proto 5", 1, "tcp has no protocols"},
		{"src proto 5", 5, "no direction"},
		{"ether proto 70000", 13, "largest is 65535"},
		{"vlan 4096", 6, "largest is 4095"},
		{"ether", 1, "every frame is Ethernet"},
		{"arp broadcast", 5, "arp has no broadcast"},
		{"less x", 6, "not a length"},
		{"ip[0]", 6, "expected a comparison"},
		{"len", 4, "expected a comparison"},
		{"ip[0:3] = 1", 6, "sizes are 1, 2 and 4"},
		{"ip[0] = tcp-snn", 9, `did you mean "tcp-syn"?`},
		{"tcp[tcpflag] = 1", 5, `did you mean "tcpflags"?`},
		{"ip[0] / 0 = 1", 7, "division by zero"},
		{"ip[0] % (3 - 3) = 1", 7, "division by zero"},
		{"ip[0] << 32 = 1", 7, "more than 31"},
		{"ether[-1] = 0", 1, "before the frame"},
		{"len & 3 ^ 1 = 2", 9, "parentheses"},
		{"len % 3 + 1 = 2", 9, "parentheses"},
		{"len % 3 % 2 = 1", 9, "parentheses"},
		{"port 4294967296", 6, "32 bits"},
		{"ip & é", 6, "unexpected character"},
		{`host \`, 6, "backslash"},
		{"ip protochain 6", 4, "not supported"},
		{"gateway foo", 1, "not supported"},
		{"mpls", 1, "0x8847"},
		{"ip and inbound", 8, "one interface per direction"},
		{strings.Repeat("(", 200) + "ip" + strings.Repeat(")", 200), 129, "brackets within"},
		{strings.Repeat("not ", 300) + "ip", 1025, "nested too deeply"},
		{longExpression(300), 1, "at most 4096"},
		{strings.Repeat("(len+", 40) + "1" + strings.Repeat("*len)", 40) + "=0", 402, "more than 16 values"},
	} {
		_, err := Compile(c.expr, Options{})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%.60s: error is %v", c.expr, err)
			continue
		}
		if e.Column != c.col || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: column %d, %v; want column %d and %q", c.expr, e.Column, err, c.col, c.want)
		}
	}
}

func TestLengthIsThatOfTheFrameWithoutTrailer(t *testing.T) {
	frame, trailer := make([]byte, 60), make([]byte, 24)
	for _, expr := range []string{"len = 60", "less 60", "greater 60", "len + len = 120"} {
		p := compile(t, expr)
		if !p.Match(frame) {
			t.Errorf("%s rejects a frame of 60 bytes", expr)
		}
		if !kernelVM(t, p, len(trailer)).match(t, append(frame[:60:60], trailer...)) {
			t.Errorf("%s rejects a frame of 60 bytes and its trailer in the kernel", expr)
		}
	}
}

type machine struct{ vm *bpf.VM }

func (m machine) match(t testing.TB, f []byte) bool {
	t.Helper()
	n, err := m.vm.Run(f)
	if err != nil {
		t.Fatal(err)
	}
	return n != 0
}

// kernelVM runs the program for the kernel, without the test for a VLAN tag that user space does not have.
func kernelVM(t testing.TB, p *Program, trailer int) machine {
	t.Helper()
	raw, err := p.Kernel(trailer)
	if err != nil {
		t.Fatal(err)
	}
	insns, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program does not disassemble")
	}
	if ext, isExt := insns[0].(bpf.LoadExtension); !isExt || ext.Num != bpf.ExtVLANTagPresent {
		t.Fatalf("the program begins with %v", insns[0])
	}
	skip := 2
	if _, long := insns[2].(bpf.Jump); long { // the jump to accept goes over a trampoline
		skip = 3
	}
	vm, err := bpf.NewVM(insns[skip:])
	if err != nil {
		t.Fatal(err)
	}
	return machine{vm}
}

func TestKernelPassesAllThatMatches(t *testing.T) {
	trailer, err := hex.DecodeString("55454c31000000000000303900000000deadbeefcafe4793")
	if err != nil {
		t.Fatal(err)
	}
	frames := corpus()
	for _, expr := range append(expressions(t), longExpression(60)) {
		p := compile(t, expr)
		vm := kernelVM(t, p, len(trailer))
		for i, f := range frames {
			if p.Match(f) && !vm.match(t, append(append([]byte(nil), f...), trailer...)) {
				t.Fatalf("%s: the kernel would drop frame %d, which matches\n%x", expr, i, f)
			}
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, expr := range expressions(f) {
		f.Add(expr)
	}
	for _, expr := range []string{"uet", "net 10/8", "host \\ip", "a-b:c.d", "((((", "ip[ip[ip[0]]]=1", "vlan 1 vlan", "::1", "port a-b-c"} {
		f.Add(expr)
	}
	frames := corpus()[:40]
	f.Fuzz(func(t *testing.T, expr string) {
		p, err := Compile(expr, Options{})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Column < 1 || e.Column > len(expr)+1 {
				t.Fatalf("%q: error %v", expr, err)
			}
			return
		}
		if _, err := bpf.Assemble(p.Instructions()); err != nil {
			t.Fatalf("%q: %v", expr, err)
		}
		raw, err := p.Kernel(24)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) { // longer than maxProgram with the corrections of len
				t.Fatalf("%q: %v", expr, err)
			}
			return
		}
		for _, ri := range raw { // what the kernel's checker refuses
			if alu := ri.Op&7 == 4; alu && ri.Op&8 == 0 && (ri.Op&0xf0 == 0x60 || ri.Op&0xf0 == 0x70) && ri.K > 31 {
				t.Fatalf("%q: shift by %d", expr, ri.K)
			}
		}
		for _, fr := range frames {
			p.Match(fr)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	p := compile(b, "uet and host 10.0.0.1")
	frames := corpus()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Match(frames[i%len(frames)])
	}
}
