package wiring

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// answer builds an NLMSG_ERROR message as the kernel does, with an explanation if text is given.
func answer(seq uint32, code int32, text string) []byte {
	b := make([]byte, 36)
	flags := uint16(0x100) // NLM_F_CAPPED
	if text != "" {
		flags |= ackAttributes
		attr := binary.NativeEndian.AppendUint16(nil, uint16(4+len(text)+1))
		attr = binary.NativeEndian.AppendUint16(attr, attrMessage)
		attr = append(append(attr, text...), 0)
		b = append(b, append(attr, make([]byte, -len(attr)&3)...)...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.NLMSG_ERROR)
	binary.NativeEndian.PutUint16(b[6:], flags)
	binary.NativeEndian.PutUint32(b[8:], seq)
	binary.NativeEndian.PutUint32(b[16:], uint32(-code))
	return b
}

func TestParseAnswers(t *testing.T) {
	b := answer(10, 0, "")
	b = append(b, answer(12, int32(unix.EPERM), "not yours")...)
	b = append(b, answer(9, 0, "")...)  // of an earlier batch
	b = append(b, answer(14, 0, "")...) // beyond the batch
	answers := []error{errNoAnswer, errNoAnswer, errNoAnswer, errNoAnswer}
	parseAnswers(b, 10, answers)
	if answers[0] != nil || answers[1] != errNoAnswer || answers[3] != errNoAnswer {
		t.Errorf("answers: %v", answers)
	}
	if !errors.Is(answers[2], unix.EPERM) || answers[2].Error() != "operation not permitted: not yours" {
		t.Errorf("answer with text: %v", answers[2])
	}
	for cut := range b { // a message cut short is no answer
		answers := []error{errNoAnswer, errNoAnswer, errNoAnswer}
		parseAnswers(b[:cut], 10, answers)
		if cut < 36 && answers[0] != errNoAnswer {
			t.Fatalf("%d bytes give an answer", cut)
		}
	}
}

func FuzzParseAnswers(f *testing.F) {
	f.Add(answer(1, 0, ""))
	f.Add(append(answer(2, int32(unix.EEXIST), "x"), answer(1, int32(unix.EINVAL), "a longer text")...))
	f.Fuzz(func(t *testing.T, b []byte) {
		answers := []error{errNoAnswer, errNoAnswer, errNoAnswer}
		parseAnswers(b, 1, answers)
	})
}
