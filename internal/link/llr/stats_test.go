package llr

import (
	"testing"
	"time"
)

func TestBucketsHoldWhatTheySay(t *testing.T) {
	last := time.Duration(0)
	for i := range Buckets - 1 {
		b := Below(i)
		if b <= last || bucket(b-1) != i || bucket(b) != i+1 || bucket(last) != i {
			t.Fatalf("bucket %d is from %v to below %v; %v lies in %d and %v in %d", i, last, b, b-1, bucket(b-1), b, bucket(b))
		}
		if i > 16 && (b-last)*8 > b {
			t.Errorf("bucket %d: %v wide, up to %v", i, b-last, b)
		}
		last = b
	}
	if Below(Buckets-1) != last || bucket(time.Hour) != Buckets-1 || bucket(-1) != 0 {
		t.Errorf("the last bucket begins at %v", Below(Buckets-1))
	}
}

func TestQuantiles(t *testing.T) {
	var l Latency
	if l.Quantile(0.5) != 0 {
		t.Error("nothing has a median")
	}
	for i := range 1000 {
		l.add(time.Duration(i+1) * time.Microsecond)
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		exact := time.Duration(q*1000) * time.Microsecond
		if got := l.Quantile(q); got < exact || got > exact+exact/8 {
			t.Errorf("quantile %v is %v, exactly %v", q, got, exact)
		}
	}
	if l.Count() != 1000 || l.Max != time.Millisecond || l.Sum != 500_500*time.Microsecond {
		t.Errorf("%d, %v, %v", l.Count(), l.Max, l.Sum)
	}
}
