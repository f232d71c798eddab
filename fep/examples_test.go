package fep

import (
	"bytes"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestWorkedExample: a send of 5 KiB with 0xCAFEBABE as header data, message ID 0x1234, packets of 4 KiB: what each field of both packets
// says and what comes back, also when the first packet comes last.
func TestWorkedExample(t *testing.T) {
	for _, late := range []bool{false, true} {
		l := newLab(t, Config{PayloadMTU: 4096, SendThreshold: -1})
		if late {
			l.script = nth(0, fate{delay: 1500}, requests)
		}
		l.feps[0].mids.next = 0x1234
		list := l.watch()
		src, dst := fill(5<<10, 1), make([]byte, 8<<10)
		l.post(1, Op{Kind: OpRecv, Peer: AnySource, Buf: buf(dst)})
		l.post(0, Op{Kind: OpSend, Flags: FlagData, Data: 0xCAFEBABE, Peer: 1, Buf: buf(src)})
		l.after(100_000)
		hs, payload := stdsIn(*list)
		if len(hs) != 2 {
			t.Fatalf("late %v: %d packets", late, len(hs))
		}
		for i, h := range hs {
			head, first := h.Head(), i == 0
			if head.Opcode() != wire.OpSend || !head.Rel() || head.DC() || head.IE() || h.MessageID() != 0x1234 || h.RequestLength() != 5120 ||
				head.JobID() != testJob || head.PIDonFEP() != 1 || head.ResourceIndex() != defaultRI || h.Initiator() != 100 || h.BufferOffset() != 0 {
				t.Errorf("late %v, packet %d: %x", late, i, []byte(h))
			}
			if head.SOM() != first || head.EOM() == first || payload[i] != [2]int{4096, 1024}[i] {
				t.Errorf("late %v, packet %d: SOM %v, EOM %v, %d bytes", late, i, head.SOM(), head.EOM(), payload[i])
			}
		}
		if !hs[0].Head().HD() || hs[0].HeaderData() != 0xCAFEBABE || hs[1].MessageOffset() != 4096 || hs[1].PayloadLength() != 1024 {
			t.Errorf("late %v: header data %x; %d bytes at %d", late, hs[0].HeaderData(), hs[1].PayloadLength(), hs[1].MessageOffset())
		}
		said := answersOf(*list, 1)
		if len(said) != 1 || said[0] != (saidBack{rc: wire.RCOK, list: wire.ListExpected, mod: 5120, mid: 0x1234}) {
			t.Errorf("late %v: answers %+v", late, said)
		}
		c := l.last(1)
		if l.last(0).Err != nil || c.Err != nil || c.Len != 5120 || c.Flags != FlagData || c.Data != 0xCAFEBABE || !bytes.Equal(dst[:5120], src) {
			t.Errorf("late %v: %+v, %+v", late, l.last(0), c)
		}
	}
}

// TestNumbersInMatchBits: over a link that reorders, unordered messages reach untagged receives in the order in which they happen to come.
// With the number of the message as its tag each has the receive that was posted for it, so whoever waits for these in turn is told in the
// order of sending, though packets are delivered as they come.
func TestNumbersInMatchBits(t *testing.T) {
	const n = 30
	for _, tagged := range []bool{false, true} {
		l := newLab(t, Config{})
		sent := 0
		l.script = func(from int, b []byte) fate {
			if from != 0 || !requests(from, firstUET(b)) {
				return fate{}
			}
			sent++
			return fate{delay: []time.Duration{0, 3000, 900}[sent%3]}
		}
		send, recv := OpSend, OpRecv
		if tagged {
			send, recv = OpTagSend, OpTagRecv
		}
		var dst [n][]byte
		l.call(1, l.now()+1, func(now vt.Time) {
			for i := range dst {
				dst[i] = make([]byte, 100)
				if err := l.eps[1].Post(now, &Op{Kind: recv, Peer: AnySource, Tag: uint64(i), Buf: buf(dst[i]), Ctx: uint64(i)}); err != nil {
					t.Error(err)
				}
			}
		})
		l.call(0, l.now()+2, func(now vt.Time) {
			for i := range uint64(n) {
				if err := l.eps[0].Post(now, &Op{Kind: send, Peer: 1, Tag: i, Buf: buf(fill(100, i))}); err != nil {
					t.Error(err)
				}
			}
		})
		l.after(1_000_000)
		inOrder, own := true, true
		for i, c := range l.got[1] {
			inOrder = inOrder && c.Ctx == uint64(i)
			own = own && c.Err == nil && bytes.Equal(dst[c.Ctx], fill(100, c.Ctx))
		}
		if len(l.got[1]) != n || inOrder == tagged || own != tagged {
			t.Errorf("tagged %v: %d messages; completions in order: %v; each in the receive of its number: %v", tagged, len(l.got[1]), inOrder, own)
		}
	}
}
