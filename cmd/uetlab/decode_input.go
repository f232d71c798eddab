package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/capture/pcapfile"
)

// rawPacket is a packet as it was found.
type rawPacket struct {
	data    []byte
	length  int    // on the wire; more than data where the capture cut it
	timed   bool   // time is known
	time    int64  // ns
	iface   string // of a capture, or ""
	comment string
	frame   bool // it is an Ethernet frame, for sure
	foreign bool // it begins with some other header
	link    uint16
}

// packets is an input of packets.
type packets struct {
	name  string // for messages
	next  func() (*rawPacket, error)
	close func()
}

// openPackets finds out what the arguments mean: a file, standard input, or hex.
func (c *call) openPackets() (*packets, error) {
	arg := strings.Join(c.args, " ")
	switch {
	case len(c.args) == 0 && terminal(c.in):
		return nil, usage("decode: no FILE and no HEX, and standard input is a terminal").WithHint("uetlab help decode has examples; - reads what you type")
	case len(c.args) == 0 || arg == "-":
		return readPackets("standard input", c.in)
	}
	f, err := os.Open(arg)
	if err == nil {
		in, err := readPackets(arg, f)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		in.close = func() { _ = f.Close() } // it was only read
		return in, nil
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, api.Errorf(api.CodePrecondition, "decode: %w", err)
	}
	data, bad := parseHex(nil, arg, 1)
	if bad != nil {
		return nil, usage("decode %q: no such file, and not hex: %w", shorten(arg), bad).WithHint("HEX is digits in pairs, with blanks, colons and 0x where you like")
	}
	if len(data) == 0 {
		return nil, usage("decode: HEX without a digit").WithHint("uetlab help decode has examples")
	}
	done := false
	return &packets{name: "HEX", close: func() {}, next: func() (*rawPacket, error) {
		if done {
			return nil, io.EOF
		}
		done = true
		return &rawPacket{data: data, length: len(data)}, nil
	}}, nil
}

// shorten cuts a text for a message.
func shorten(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// readPackets tells captures from text by how they begin.
func readPackets(name string, r io.Reader) (*packets, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("decode: %w", err)
	}
	p := &packets{name: name, close: func() {}}
	if pcapfile.Is(head) {
		file, err := pcapfile.NewReader(in)
		if err != nil {
			return nil, inputError(name, err)
		}
		p.next = func() (*rawPacket, error) { return captured(file) }
		return p, nil
	}
	if head, _ = in.Peek(min(in.Buffered(), 512)); len(head) == 0 { // what is there cannot fail
		return nil, usage("decode %s: is empty", name).WithHint("give a pcap or pcapng file, or hex")
	}
	for _, b := range head {
		if b != '\t' && b != '\n' && b != '\r' && (b < ' ' || b > '~') {
			return nil, usage("decode %s: begins with %x: neither pcap, pcapng nor hex", name, head[:min(len(head), 4)]).
				WithHint("unpack what is compressed; other captures editcap turns into pcapng")
		}
	}
	p.next = newHexReader(in).next
	return p, nil
}

// captured reads a packet of a capture file.
func captured(file *pcapfile.Reader) (*rawPacket, error) {
	pk, err := file.Next()
	if err != nil {
		return nil, err
	}
	ether := pk.LinkType == pcapfile.LinkEthernet
	return &rawPacket{data: pk.Data, length: pk.Len, timed: pk.Timed, time: pk.Time, iface: pk.Iface, comment: pk.Comment,
		frame: ether, foreign: !ether, link: pk.LinkType}, nil
}

// hexError says what is wrong in hex, and where.
type hexError struct {
	line, column int // from 1; line 0: there is only one
	what         string
}

func (e *hexError) Error() string {
	if e.line == 0 {
		return fmt.Sprintf("column %d: %s", e.column, e.what)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.line, e.column, e.what)
}

// parseHex appends the bytes of s to dst. column is that of the first character of s.
func parseHex(dst []byte, s string, column int) ([]byte, *hexError) {
	start := true // of a group of digits, where 0x may stand
	for i := 0; i < len(s); {
		switch {
		case strings.IndexByte(" \t\r\n:,", s[i]) >= 0:
			start = true
			i++
			continue
		case start && (strings.HasPrefix(s[i:], "0x") || strings.HasPrefix(s[i:], "0X")):
			start = false
			i += 2
			continue
		}
		start = false
		hi, ok := hexDigit(s, i)
		if !ok {
			return dst, &hexError{column: column + i, what: fmt.Sprintf("%q is no hex digit", []rune(s[i:])[0])}
		}
		lo, ok := hexDigit(s, i+1)
		if !ok {
			if i+1 < len(s) && strings.IndexByte(" \t\r\n:,", s[i+1]) < 0 {
				return dst, &hexError{column: column + i + 1, what: fmt.Sprintf("%q is no hex digit", []rune(s[i+1:])[0])}
			}
			return dst, &hexError{column: column + i, what: "half a byte: digits come in pairs"}
		}
		dst = append(dst, hi<<4|lo)
		i += 2
	}
	return dst, nil
}

func hexDigit(s string, i int) (byte, bool) {
	if i >= len(s) {
		return 0, false
	}
	switch c := s[i]; {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// maxHexLine bounds a line of text, in bytes: more than the hex of any packet.
const maxHexLine = 1 << 20

// hexReader reads packets from text: a line each, or dumps that begin at offset 0.
type hexReader struct {
	in    *bufio.Scanner
	line  int
	again string // a line that ended a dump and belongs to the next packet
	held  bool
}

func newHexReader(r io.Reader) *hexReader {
	h := &hexReader{in: bufio.NewScanner(r)}
	h.in.Buffer(nil, maxHexLine)
	return h
}

// scan gives the next line.
func (h *hexReader) scan() (string, bool) {
	if h.held {
		h.held = false
		return h.again, true
	}
	if !h.in.Scan() {
		return "", false
	}
	h.line++
	return strings.TrimRight(h.in.Text(), " \t\r"), true
}

func (h *hexReader) next() (*rawPacket, error) {
	var data []byte
	for {
		s, ok := h.scan()
		if !ok {
			break
		}
		text := strings.TrimLeft(s, " \t")
		if text == "" && len(data) > 0 {
			return &rawPacket{data: data, length: len(data)}, nil
		}
		if text == "" || text[0] == '#' {
			continue
		}
		offset, start, dump := dumpLine(s, len(data))
		if len(data) > 0 && (!dump || offset == 0) {
			h.again, h.held = s, true
			return &rawPacket{data: data, length: len(data)}, nil
		}
		end := len(s)
		if dump {
			if offset != len(data) {
				return nil, &hexError{h.line, 1, fmt.Sprintf("offset 0x%x of a dump, but 0x%x bytes came before", offset, len(data))}
			}
			end = dumpEnd(s, start)
		}
		var bad *hexError
		if data, bad = parseHex(data, s[start:end], start+1); bad != nil {
			bad.line = h.line
			return nil, bad
		}
		if !dump && len(data) > 0 {
			return &rawPacket{data: data, length: len(data)}, nil
		}
	}
	if errors.Is(h.in.Err(), bufio.ErrTooLong) {
		return nil, &hexError{h.line + 1, maxHexLine, "the line goes on: no packet is that long"}
	}
	if err := h.in.Err(); err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, io.EOF
	}
	return &rawPacket{data: data, length: len(data)}, nil
}

// dumpLine reads the offset at the start of a line of a dump, as xxd ("00000010: "), hexdump -C and tshark -x
// ("0010  ") and tcpdump -x ("0x0010:  ") write it. hexdump -C ends with an offset alone. have is how many
// bytes came before, start where those of the line begin.
func dumpLine(s string, have int) (offset, start int, ok bool) {
	i := len(s) - len(strings.TrimLeft(s, " \t"))
	if strings.HasPrefix(s[i:], "0x") {
		i += 2
	}
	first := i
	for _, digit := hexDigit(s, i); digit; _, digit = hexDigit(s, i) {
		i++
	}
	v, err := strconv.ParseUint(s[first:i], 16, 31)
	if n := i - first; n < 4 || n > 8 || err != nil {
		return 0, 0, false
	}
	rest := s[i:]
	switch {
	case strings.HasPrefix(rest, ": "):
		return int(v), i + 2, true
	case strings.HasPrefix(rest, "  "):
		return int(v), i + 2, true
	case rest == "" && have > 0 && int(v) == have:
		return have, i, true
	}
	return 0, 0, false
}

// dumpEnd finds where the bytes of a line of a dump end and the characters begin.
func dumpEnd(s string, start int) int {
	start += len(s[start:]) - len(strings.TrimLeft(s[start:], " "))
	gap := "  "
	if strings.HasSuffix(s, "|") && strings.Contains(s[start:], "  |") {
		gap = "  |" // hexdump -C has a wide gap in the middle as well
	}
	if n := strings.Index(s[start:], gap); n >= 0 {
		return start + n
	}
	return len(s)
}
