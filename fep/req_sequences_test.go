package fep

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

var updateGolden = flag.Bool("update", false, "write the golden files of this package anew")

// sequence is one of the worked sequences of uet-pds-ses.md 5.6, or the example of 20.1: what packets go, when, and what is in
// them, is in testdata/sequences. run brings the lab up to the first packet of interest, calls r.record, and goes on.
type sequence struct {
	name string
	run  func(t *testing.T, l *lab, r *recorder)
	cfg  Config
	// page is what the page demands: parts of lines, in this order. A golden file that was written anew must still have them.
	page []string
}

// recorder writes down every packet of a lab.
type recorder struct {
	l     *lab
	zero  vt.Time
	lines []string
}

// record begins, with time 0; the script of the lab is the one that there is now.
func (r *recorder) record() {
	l := r.l
	script := l.script
	r.zero = l.now()
	l.script = func(from int, b []byte) (ft fate) {
		if script != nil {
			ft = script(from, b)
		}
		r.add(l.nodes[from].Now(), from, b, ft)
		return ft
	}
}

// add describes a packet in one line: nanoseconds, direction, PDS, SES, and what became of it.
func (r *recorder) add(now vt.Time, from int, b []byte, ft fate) {
	_, u := uet(b)
	s := fmt.Sprintf("%8d %s %s", now-r.zero, [2]string{"I->T", "T->I"}[from], describe(u))
	switch {
	case ft.drop:
		s += "  (lost)"
	case ft.delay > 0:
		s += fmt.Sprintf("  (%d late)", ft.delay)
	}
	r.lines = append(r.lines, s)
}

// flags lists the names whose condition holds.
func flags(kv ...any) (s string) {
	for i := 0; i < len(kv); i += 2 {
		if kv[i+1].(bool) {
			s += " " + kv[i].(string)
		}
	}
	return s
}

func describe(u []byte) string {
	switch t := wire.Prologue(u).Type(); {
	case t.IsRequest():
		r, _ := wire.ParseRequest(u)
		s := fmt.Sprintf("%v psn %d%s", t, r.PSN(), flags("SYN", r.SYN(), "AR", r.AR(), "RETX", r.RETX()))
		if r.SYN() {
			s += fmt.Sprintf(" start %d", r.StartPSN())
		}
		return s + fmt.Sprintf(" clear %d (%+d)%s", r.ClearPSN(), r.ClearOffset(), describeSES(r.Next(), u[len(r):]))
	case t.IsAck():
		a, _ := wire.ParseAck(u)
		s := fmt.Sprintf("%v cack %d", t, a.CACK())
		if !a.P() {
			s += fmt.Sprintf(" off %+d (ack %d)", a.AckOffset(), a.AckPSN())
		}
		s += fmt.Sprintf(" req %v%s mpr %d sack %d:%b", a.Req(), flags("M", a.M(), "RETX", a.RETX(), "P", a.P()), a.MPR(), a.SACKBase(), a.SACKBitmap())
		return s + describeSES(a.Next(), u[len(a):])
	case t.IsNack():
		n, _ := wire.ParseNack(u)
		return fmt.Sprintf("%v psn %d %v%s", t, n.PSN(), n.Code(), flags("M", n.M(), "RETX", n.RETX()))
	}
	c, _ := wire.ParseCtrl(u)
	return fmt.Sprintf("%v psn %d%s payload %d", c.Ctl(), c.PSN(), flags("AR", c.AR(), "RETX", c.RETX()), c.Payload())
}

// describeSES describes what follows the PDS header.
func describeSES(next wire.NextHdr, b []byte) string {
	s := fmt.Sprintf(" | %v", next)
	switch next {
	case wire.NextRequestStd:
		h, _ := wire.ParseSESStd(b)
		s += fmt.Sprintf(" %v mid %d%s off %d of %d", h.Head().Opcode(), h.MessageID(), flags("SOM", h.Head().SOM(), "EOM", h.Head().EOM()),
			h.MessageOffset(), h.RequestLength())
	case wire.NextRequestMedium:
		h, _ := wire.ParseSESMedium(b)
		s += fmt.Sprintf(" %v%s of %d", h.Head().Opcode(), flags("SOM", h.Head().SOM(), "EOM", h.Head().EOM()), h.RequestLength())
	case wire.NextResponse:
		r, _ := wire.ParseSESResponse(b)
		s = fmt.Sprintf(" | %v %v mid %d len %d", r.Head().Opcode(), r.Head().ReturnCode(), r.MessageID(), r.ModifiedLength())
	case wire.NextResponseData:
		r, _ := wire.ParseSESResponseData(b)
		s += fmt.Sprintf(" %v read mid %d off %d bytes %d of %d", r.Head().ReturnCode(), r.ReadRequestMessageID(), r.MessageOffset(), r.PayloadLength(),
			r.ModifiedLength())
	case wire.NextResponseDataSmall:
		r, _ := wire.ParseSESResponseDataSmall(b)
		s += fmt.Sprintf(" %v request psn %d bytes %d", r.Head().ReturnCode(), r.OriginalRequestPSN(), r.PayloadLength())
	}
	return s
}

// byPSN applies a fate to requests of node 0 that are sent for the first time, by PSN.
func byPSN(fates map[wire.PSN]fate) func(int, []byte) fate {
	return func(from int, b []byte) fate {
		r, err := wire.ParseRequest(firstUET(b))
		if err != nil || from != 0 || r.RETX() {
			return fate{}
		}
		return fates[r.PSN()]
	}
}

// to332 brings forward PSNs up to 332, the first of them being the Start_PSN.
func to332(l *lab) {
	n := 332 - int(l.feps[0].Config().Secure.(fixed)) + 1
	l.writeOne(0, n*4096)
	l.after(200_000)
	l.feps[0].mids.next = 1
}

// read posts a read of n bytes as message mid.
func (l *lab) read(mid uint16, n int) {
	l.feps[0].mids.next = mid
	l.call(0, l.now()+1, func(now vt.Time) {
		if err := l.eps[0].Read(now, 1, make([]byte, n), 1, 0, 9); err != nil {
			l.t.Error(err)
		}
	})
}

// fates joins a fate for certain packets to what the link does anyway.
func (l *lab) ackFate(psn wire.PSN, ft fate) {
	was, used := l.script, false
	l.script = func(from int, b []byte) fate {
		if a, err := wire.ParseAck(firstUET(b)); err == nil && from == 1 && !a.P() && a.AckPSN() == psn && !used {
			used = true
			return ft
		}
		if was != nil {
			return was(from, b)
		}
		return fate{}
	}
}

// overflow makes node 1 say that it had no room for a packet.
func (l *lab) overflow(now vt.Time, r *recorder, psn wire.PSN) {
	p, g := l.source(), l.nodes[0].Pool.Get()
	ff := wire.FrameFields{DstMAC: testMAC(0), SrcMAC: testMAC(1), Src: testAddr(1), Dst: testAddr(0), EV: 9, DSCP: 46}
	g.B = wire.AppendUETCRC(wire.AppendNack(wire.AppendUDPFrame(g.B, &ff), &wire.NackFields{Type: wire.TypeNack, Code: wire.NackNoPktBuffer,
		PSN: psn, SPDCID: p.PeerID, DPDCID: p.ID}))
	r.add(now, 1, g.B, fate{})
	g.Due = now + 502
	l.deliver(0, g)
}

var sequences = []sequence{
	{name: "A", cfg: Config{Secure: fixed(332)}, page: []string{
		"I->T RUD_REQ psn 333 AR clear 332", "T->I ACK_CC cack 333 off +0 (ack 333) req NONE", "I->T RUD_REQ psn 334 AR clear 333",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		to332(l)
		r.record()
		l.writeOne(1, 100)
		l.after(10_000)
		l.writeOne(2, 100)
		l.after(10_000)
	}},
	{name: "B", cfg: Config{Secure: fixed(332), Keepalive: 250 * time.Microsecond}, page: []string{
		"I->T RUD_REQ psn 333", "T->I ACK_CC cack 332 off +1 (ack 333) req CLEAR", "I->T CLEAR_COMMAND psn 0 payload 333", "T->I ACK_CC cack 333 req NONE P",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		to332(l)
		r.record()
		l.sendBad(1)
		l.after(300_000) // the next ACK is that of a keepalive Probe
	}},
	{name: "C", cfg: Config{Secure: fixed(332)}, page: []string{
		"cack 332 off +1 (ack 333) req CLEAR", "cack 332 off +2 (ack 334) req CLEAR", "cack 332 off +3 (ack 335) req CLEAR",
		"cack 332 off +4 (ack 336) req CLEAR", "I->T RUD_REQ psn 337 clear 334 (-3)", "I->T RUD_REQ psn 338 AR clear 336 (-2)",
		"T->I ACK_CC cack 338 off +0 (ack 338) req NONE",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		to332(l)
		l.ackFate(335, fate{delay: 60})
		l.ackFate(336, fate{delay: 60})
		r.record()
		l.sendBad(4)
		for l.source().Tx.Clear != 334 && l.step(vt.Never) {
		}
		l.writeOne(1, 4196) // between the ACKs of 334 and 335
		l.after(100_000)
	}},
	{name: "D", cfg: Config{Secure: fixed(332), AckGenTrigger: 8192}, page: []string{
		"I->T RUD_REQ psn 336 AR", "T->I ACK_CC cack 334 off +0 (ack 334) req NONE", "T->I ACK_CC cack 336 off +0 (ack 336) req NONE",
		"I->T RUD_REQ psn 337 AR clear 336 (-1)",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		to332(l)
		r.record()
		l.writeOne(1, 4*4096)
		l.after(10_000)
		l.writeOne(2, 100)
		l.after(10_000)
	}},
	{name: "E", cfg: Config{Secure: fixed(48)}, page: []string{
		"I->T RUD_REQ psn 333 AR", "T->I ACK_CC cack 333 off +0 (ack 333) req NONE", "RESPONSE OK",
		"T->I RUD_REQ psn 48 AR clear 47 (-1) | RESPONSE_DATA OK read mid 1", "I->T ACK_CC cack 48 off +0 (ack 48) req NONE",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		to332(l)
		r.record()
		l.read(1, 100)
		l.after(100_000)
	}},
	{name: "G", cfg: Config{Secure: fixed(48)}, page: []string{
		"I->T RUD_REQ psn 333 clear 332", "mid 88", "T->I RUD_REQ psn 48 clear 47 (-1)", "T->I ACK_CC cack 334 off +0 (ack 334) req NONE",
		"DEFAULT_RESPONSE", "T->I RUD_REQ psn 49 clear 47 (-2)", "T->I ACK_CC cack 335 off +0 (ack 335) req NONE", "RESPONSE OK mid 88",
		"T->I RUD_REQ psn 50 AR clear 47 (-3)", "I->T ACK_CC cack 49 off +0 (ack 49)", "I->T RUD_REQ psn 336 AR clear 335 (-1)",
		"I->T ACK_CC cack 50 off +0 (ack 50)",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		to332(l)
		l.feps[0].PDS().Config().AckGenTrigger = 8192 // the reader acknowledges two full packets, the target two requests
		l.feps[1].PDS().Config().AckGenTrigger = 2048
		l.script = byPSN(map[wire.PSN]fate{335: {delay: 200}})
		r.record()
		l.read(88, 2*4096+100)
		for l.source().Tx.Clear != 335 && l.step(vt.Never) {
		}
		l.writeOne(1, 100)
		l.after(100_000)
	}},
	{name: "H", cfg: Config{Secure: fixed(332), NoInfer: true}, page: []string{
		"I->T RUD_REQ psn 333 AR", "T->I NACK psn 333 NO_PKT_BUFFER", "I->T RUD_REQ psn 333 AR RETX", "T->I ACK_CC cack 333 off +0 (ack 333) req NONE RETX",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		to332(l)
		drop := byPSN(map[wire.PSN]fate{333: {drop: true}})
		l.script = func(from int, b []byte) fate {
			ft := drop(from, b)
			if q, err := wire.ParseRequest(firstUET(b)); err == nil && ft.drop {
				l.call(1, l.nodes[0].Now()+505, func(now vt.Time) { l.overflow(now, r, q.PSN()) })
			}
			return ft
		}
		r.record()
		l.writeOne(1, 100)
		l.after(2_000_000)
	}},
	{name: "I", cfg: Config{Secure: fixed(332), NoInfer: true}, page: []string{
		"I->T RUD_REQ psn 333 AR clear", "(lost)", "I->T RUD_REQ psn 333 AR RETX", "T->I ACK_CC cack 333 off +0 (ack 333) req NONE RETX", "RESPONSE OK",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		to332(l)
		l.script = byPSN(map[wire.PSN]fate{333: {drop: true}})
		r.record()
		l.writeOne(1, 100)
		l.after(2_000_000)
	}},
	{name: "J", cfg: Config{Secure: fixed(332), NoInfer: true}, page: []string{
		"T->I ACK_CC cack 333 off +0 (ack 333)", "(lost)", "I->T RUD_REQ psn 333 AR RETX", "T->I ACK_CC cack 333 off +0 (ack 333) req NONE RETX", "DEFAULT_RESPONSE",
		"T->I ACK_CC cack 333 off +1 (ack 334) req CLEAR", "NO_MATCH", "(lost)", "I->T RUD_REQ psn 334 AR RETX",
		"T->I ACK_CC cack 333 off +1 (ack 334) req CLEAR RETX", "NO_MATCH", "CLEAR_COMMAND psn 0 payload 334",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		to332(l)
		l.ackFate(333, fate{drop: true})
		l.ackFate(334, fate{drop: true})
		r.record()
		l.writeOne(1, 100)
		l.after(2_000_000)
		l.sendBad(1)
		l.after(2_000_000)
		if c := l.feps[1].C; c[RespErrTx] != 1 || c[DupRx] != 2 || c[DataRx] != 3 {
			t.Errorf("SES saw a duplicate: %d errors, %d duplicates, %d packets", c[RespErrTx], c[DupRx], c[DataRx])
		}
	}},
	{name: "pinned", cfg: Config{Secure: fixed(1000), MPR: 1, Keepalive: 20 * time.Microsecond}, page: []string{
		"T->I ACK_CC cack 1000 off +0 (ack 1000) req NONE mpr 1", "T->I ACK_CC cack 1000 off +2 (ack 1002) req NONE mpr 1 sack 1001:10 ",
		"T->I ACK_CC cack 1000 off +1 (ack 1001) req CLEAR mpr 1 sack 1001:11 ", "T->I ACK_CC cack 1000 off +3 (ack 1003) req NONE mpr 1 sack 1001:111 ",
		"I->T CLEAR_COMMAND psn 0 payload 1003", "T->I ACK_CC cack 1003",
	}, run: func(t *testing.T, l *lab, r *recorder) {
		l.script = byPSN(map[wire.PSN]fate{1001: {delay: 200}, 1003: {delay: 400}})
		r.record()
		l.writeOne(1, 100)
		l.sendBad(1)
		l.writeOne(2, 100)
		l.writeOne(3, 100)
		l.after(25_000)
	}},
}

// TestSequences holds the sequences of uet-pds-ses.md 5.6, and the example of 20.1 as "pinned", to their golden files, packet by
// packet and nanosecond by nanosecond. F is TestSequenceF.
func TestSequences(t *testing.T) {
	for _, s := range sequences {
		t.Run(s.name, func(t *testing.T) {
			s.cfg.PDCsPerKey, s.cfg.IdleClose = 1, time.Hour
			l := newLab(t, s.cfg)
			r := &recorder{l: l}
			s.run(t, l, r)
			golden(t, s.name, r.lines, s.page)
		})
	}
}

// golden compares lines with a golden file, and with what must be in them.
func golden(t *testing.T, name string, lines, page []string) {
	t.Helper()
	i := 0
	for _, part := range page {
		for ; i < len(lines) && !strings.Contains(lines[i], part); i++ {
		}
		if i == len(lines) {
			t.Fatalf("no packet %q in turn among\n%s", part, strings.Join(lines, "\n"))
		}
	}
	file := filepath.Join("testdata", "sequences", name+".golden")
	got := strings.Join(lines, "\n") + "\n"
	if *updateGolden {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	wantLines(t, lines, strings.Split(strings.TrimSuffix(string(want), "\n"), "\n"))
}
