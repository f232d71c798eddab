package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
)

const us = time.Microsecond

func TestWordsAreReadAndWritten(t *testing.T) {
	for words, want := range map[string]struct {
		imp  link.Impair
		text string // as written again, where it differs
	}{
		"down":                     {link.Impair{Down: true}, ""},
		"down=on":                  {link.Impair{Down: true}, "down"},
		"blackhole":                {link.Impair{Blackhole: true}, ""},
		"loss=0.1%":                {link.Impair{Loss: 0.001}, ""},
		"loss=0.001":               {link.Impair{Loss: 0.001}, "loss=0.1%"},
		"burst=p:1%,r:25%":         {link.Impair{Burst: link.Burst{ToBad: 0.01, ToGood: 0.25, LossBad: 1}}, ""},
		"burst=r:25%,p:1%,bad:50%": {link.Impair{Burst: link.Burst{ToBad: 0.01, ToGood: 0.25, LossBad: 0.5}}, "burst=p:1%,r:25%,bad:50%"},
		"burst=p:1%,r:25%,bad:100%,good:0.5%": {link.Impair{Burst: link.Burst{ToBad: 0.01, ToGood: 0.25, LossBad: 1, LossGood: 0.005}},
			"burst=p:1%,r:25%,good:0.5%"},
		"ber=1e-7":                     {link.Impair{BER: 1e-7}, "ber=1e-7"},
		"ucr=1e-6 rawber=2e-4":         {link.Impair{UCR: 1e-6, RawBER: 2e-4}, "ucr=1e-6 rawber=2e-4"},
		"ucr=100% rawber=off":          {link.Impair{UCR: 1}, "ucr=1"},
		"duplicate=0.1%":               {link.Impair{Duplicate: 0.001}, ""},
		"reorder=1%":                   {link.Impair{Reorder: 0.01}, ""},
		"reorder=1%,500ns":             {link.Impair{Reorder: 0.01, ReorderBy: us / 2}, ""},
		"delay=+2us":                   {link.Impair{Delay: 2 * us}, ""},
		"delay=2us":                    {link.Impair{Delay: 2 * us}, "delay=+2us"},
		"jitter=1us":                   {link.Impair{Jitter: us, Dist: link.Uniform}, ""},
		"jitter=1us,pareto":            {link.Impair{Jitter: us, Dist: link.Pareto}, ""},
		"rate=25%":                     {link.Impair{Rate: 0.25}, ""},
		"rate=100Gbps":                 {link.Impair{Rate: 0.25}, "rate=25%"},
		"rate=100%":                    {link.Impair{}, ""},
		"loss=0 delay=0 rate=off":      {link.Impair{}, ""},
		"loss=1% delay=+1.5us down":    {link.Impair{Down: true, Loss: 0.01, Delay: 1500}, "down loss=1% delay=+1.5us"},
		"ber=off jitter=off burst=off": {link.Impair{}, ""},
		"reorder=off duplicate=off":    {link.Impair{}, ""},
		"down=off blackhole=false":     {link.Impair{}, ""},
		"exact=901:drop":               {link.Impair{Exact: link.Hits{{First: 901, Last: 901}}}, ""},
		"exact=5:duplicate,10-19:corrupt-llr,1r:corrupt": {link.Impair{Exact: link.Hits{{First: 5, Last: 5, Do: link.DoDuplicate}, {First: 10, Last: 19, Do: link.DoCorruptLLR},
			{First: 1, Last: 1, Replay: true, Do: link.DoCorrupt}}}, ""},
		"exact=7-7:seqskip":             {link.Impair{Exact: link.Hits{{First: 7, Last: 7, Do: link.DoSeqSkip}}}, "exact=7:seqskip"},
		"corrupt=1%":                    {link.Impair{Corrupt: link.Corrupt{Share: 0.01}}, ""},
		"corrupt=1%,llr":                {link.Impair{Corrupt: link.Corrupt{Share: 0.01, Region: link.RegionLLR}}, ""},
		"corrupt=0.01,payload,3bits":    {link.Impair{Corrupt: link.Corrupt{Share: 0.01, Region: link.RegionPayload, Bits: 3}}, "corrupt=1%,payload,3bits"},
		"corrupt=1%,2bits":              {link.Impair{Corrupt: link.Corrupt{Share: 0.01, Bits: 2}}, ""},
		"poison=0.1% ccloss=100%":       {link.Impair{Poison: 0.001, CCLoss: 1}, ""},
		"setloss=5%":                    {link.Impair{SetLoss: link.SetLoss{Share: 0.05}}, ""},
		"setloss=100%,nack,ack":         {link.Impair{SetLoss: link.SetLoss{Share: 1, Kinds: 3}}, "setloss=100%,ack,nack"},
		"setloss=0,cf corrupt=0%,fcs":   {link.Impair{}, ""},
		"exact=off corrupt=off":         {link.Impair{}, ""},
		"poison=off setloss=off":        {link.Impair{}, ""},
		"jitter=1us,uniform loss=12.5%": {link.Impair{Jitter: us, Dist: link.Uniform, Loss: 0.125}, "loss=12.5% jitter=1us"},
	} {
		s, err := ParseSettings(strings.Fields(words))
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		if err := s.check("x", 400e9); err != nil {
			t.Errorf("%s: %v", words, err)
		}
		got := s.over(link.Impair{}, 400e9)
		text := want.text
		if text == "" && want.imp != (link.Impair{}) {
			text = words
		}
		if got != want.imp || Text(&got) != text {
			t.Errorf("%s: %+v, %q; want %+v, %q", words, got, Text(&got), want.imp, text)
		}
		again, err := ParseSettings(strings.Fields(s.Text()))
		if err != nil || again.over(bad, 400e9) != s.over(bad, 400e9) {
			t.Errorf("%s is written %q: %v", words, s.Text(), err)
		}
	}
}

// bad is a link with everything wrong.
var bad = link.Impair{Down: true, Blackhole: true, Loss: 0.5, Burst: link.Burst{ToBad: 0.5, ToGood: 0.5, LossBad: 1}, BER: 1e-3, Duplicate: 0.1,
	Reorder: 0.2, ReorderBy: us, Delay: 7, Jitter: us, Dist: link.Normal, Rate: 0.5, UCR: 1e-3, RawBER: 1e-4,
	Exact: link.Hits{{First: 1, Last: 2, Do: link.DoPoison}}, Corrupt: link.Corrupt{Share: 0.1, Region: link.RegionFCS}, Poison: 0.1, SetLoss: link.SetLoss{Share: 0.2, Kinds: 1}, CCLoss: 0.5}

func TestOffEndsEverything(t *testing.T) {
	var words []string
	for _, n := range SettingNames() {
		words = append(words, n+"=off")
	}
	s, err := ParseSettings(words)
	if got := s.over(bad, 400e9); err != nil || got != (link.Impair{}) {
		t.Errorf("%v: %+v is left", err, got)
	}
	for i, n := range SettingNames() { // each ends its own only
		if n == "llr" || n == "cbfc" {
			continue // nothing is wrong with a link for it
		}
		one, err := ParseSettings(words[i : i+1])
		rest := one.over(bad, 400e9)
		if err != nil || rest == bad || strings.Contains(" "+Text(&rest), " "+n) || len(strings.Fields(Text(&rest))) != len(words)-3 {
			t.Errorf("%s=off: %v, %q is left", n, err, Text(&rest))
		}
	}
}

func TestWordsThatAreRefused(t *testing.T) {
	for words, hint := range map[string]string{
		"los=1%": "did you mean loss?", "dealy=2us": "did you mean delay?", "xyz": "valid are", "loss": "loss=0.1%", "loss=": "loss=0.1%",
		"loss=101%": "loss=0.1%", "loss=-1": "loss=0.1%", "loss=NaN": "loss=0.1%", "rate=0": "rate=25%", "rate=2": "rate=25%", "rate=Gbps": "rate=25%",
		"delay=-1us": "delay=+2us", "delay=2": "delay=+2us", "delay=2s": "delay=+2us", "down=perhaps": "down=off", "down=": "down=off", "burst=p:1%": "burst=p:1%,r:25%",
		"burst=p:1%,r:2": "burst=p:1%,r:25%", "burst=p:1%,r:1%,q:1%": "burst=p", "burst=p:1%,p:1%,r:1%": "burst=p", "reorder=1%,0s": "reorder=1%",
		"jitter=1us,gauss": "pareto", "jitter=1s": "jitter=1us", "ber=2": "ber=1e-7", "ber=0.6": "ber=1e-7", "ucr=1.1": "ucr=1e-6", "rawber=0.6": "rawber=2e-4", "rawber": "rawber=2e-4", "": "valid are", "loss=1% loss=2%": "keep one",
		"exact=": "exact=901:drop", "exact=0:drop": "exact=901:drop", "exact=9-8:drop": "exact=901:drop", "exact=1:kill": "corrupt-payload", "exact=1": "exact=901:drop", "exact=1:drop,": "exact=901:drop",
		"exact=4294967296:drop": "exact=901:drop", "exact=1:drop,2:drop,3:drop,4:drop,5:drop,6:drop,7:drop,8:drop,9:drop": "exact=901:drop", "corrupt=2": "corrupt=1%", "corrupt=1%,trailer": "payload, header",
		"corrupt=1%,33bits": "3bits", "corrupt=1%,llr,llr": "corrupt=1%", "corrupt=1%,": "corrupt=1%", "setloss=5%,": "nack", "setloss=5%,nak": "nack", "setloss=5%,ack,ack": "nack", "poison=101%": "poison=0.1%",
		"ccloss=x": "ccloss=100%", "setlos=1%": "did you mean setloss?",
	} {
		list := strings.Fields(words)
		if len(list) == 0 {
			list = []string{""}
		}
		_, err := ParseSettings(list)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, hint) || !strings.Contains(e.Msg, list[len(list)-1]) {
			t.Errorf("%q: %v, hint %+v; want %q in the hint", words, err, e, hint)
		}
	}
}

func FuzzSettings(f *testing.F) {
	for _, s := range settings() {
		f.Add(s.example)
	}
	for _, w := range []string{"exact=5:duplicate,10-19:corrupt-payload,1r:corrupt", "corrupt=1%,payload,3bits poison=0.1%", "setloss=100%,nack,cf ccloss=5%", "llr=reinit ucr=1e-6 rawber=2e-4", "cbfc=limit:64KiB"} {
		f.Add(w)
	}
	f.Add("rate=1e400% loss=1e-300")
	f.Add("burst=p:1%,r:25%,bad:NaN%")
	f.Fuzz(func(t *testing.T, s string) {
		set, err := ParseSettings(strings.Fields(s))
		if err != nil || set.check("x", 400e9) != nil {
			return
		}
		i := set.over(link.Impair{}, 400e9)
		for _, v := range []float64{i.Loss, i.BER, i.UCR, i.RawBER, i.Duplicate, i.Reorder, i.Rate, i.Burst.ToBad, i.Burst.ToGood, i.Burst.LossBad, i.Burst.LossGood,
			i.Corrupt.Share, i.Poison, i.SetLoss.Share, i.CCLoss} {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("%q gave %+v", s, i)
			}
		}
		if i.Delay < 0 || i.Jitter < 0 || i.ReorderBy < 0 {
			t.Fatalf("%q gave %+v", s, i)
		}
		again, err := ParseSettings(strings.Fields(Text(&i)))
		if err != nil {
			t.Fatalf("%q is written %q: %v", s, Text(&i), err)
		}
		if j := again.over(link.Impair{}, 400e9); j.Exact != i.Exact || j.Corrupt.Region != i.Corrupt.Region || max(j.Corrupt.Bits, 1) != max(i.Corrupt.Bits, 1) || j.SetLoss.Kinds != i.SetLoss.Kinds {
			t.Fatalf("%q is written %q", s, Text(&i))
		}
	})
}

func TestLLRIsOfBothDirections(t *testing.T) {
	p := plan(t, "fat-tree-2x4")
	on, err := ParseSettings([]string{"llr=on"})
	if err != nil || on.Text() != "llr=on" {
		t.Fatalf("%q: %v", on.Text(), err)
	}
	if err := (&Fault{Op: Change, From: p.Links[0].A.Node, Set: on}).Check(p); err == nil {
		t.Error("LLR is set in one direction")
	}
	s := New(p)
	b, err := s.Schedule(Fault{At: 100, From: Both, Op: Change, Set: on})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []topology.End{p.Links[0].A, p.Links[0].B} {
		told := 0
		for _, c := range b.Changes[e.Node] {
			if c.Retry != nil && c.Port == e.Port && c.Retry.LLR != nil && c.Retry.LLR.Validate() == nil {
				told++
			}
		}
		if told != 1 {
			t.Errorf("an end is told %d times", told)
		}
	}
	if !s.Final(0).LLR || s.At(99)[0].LLR || !s.At(100)[0].LLR {
		t.Error("the state does not follow")
	}
	again := s.Undo(b)
	for _, cs := range again.Changes {
		for _, c := range cs {
			if c.Retry != nil && c.Retry.LLR != nil {
				t.Error("LLR is on again after it was taken back")
			}
		}
	}
}

// TestHintsSayOffOnce looks at what is said of values that are none.
func TestHintsSayOffOnce(t *testing.T) {
	for word, hint := range map[string]string{"llr=foo": "write llr=on, llr=off or llr=reinit", "ber=2": "write ber=1e-7 (up to 0.5), or ber=off", "ber=": "write ber=1e-7 (up to 0.5), or ber=off"} {
		if _, err := ParseSettings([]string{word}); err == nil || err.(*Error).Hint != hint {
			t.Errorf("%s: %v", word, err)
		}
	}
	for v, want := range map[float64]string{1e-7: "1e-7", 2.5e-4: "2.5e-4", 0.01: "0.01", 0.5: "0.5", 1: "1", 1e-12: "1e-12", 1.5e-10: "1.5e-10"} {
		if got := small(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

func TestRoomOfAReceiver(t *testing.T) {
	set, err := ParseSettings([]string{"cbfc=limit:64KiB"})
	if err != nil || set.Limit == nil || *set.Limit != 64<<10 || set.CBFC != nil || set.Text() != "cbfc=limit:64KiB" {
		t.Errorf("%+v, %v: %q", set, err, set.Text())
	}
	for _, word := range []string{"cbfc=limit:", "cbfc=limit:0B", "cbfc=limit:-1KiB", "cbfc=limit:64", "cbfc=limit:64kib", "cbfc=limit:9999999999MiB", "cbfc=64KiB"} {
		if _, err := ParseSettings([]string{word}); err == nil || !strings.Contains(err.(*Error).Hint, "cbfc=limit:64KiB") {
			t.Errorf("%s: %v", word, err)
		}
	}
}
