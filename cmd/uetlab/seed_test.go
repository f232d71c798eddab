package main

import "testing"

func TestSeedInWords(t *testing.T) {
	for _, c := range []struct {
		word string
		seed uint64
		want string
	}{
		{"perm_s{seed}.cm", 12, "perm_s12.cm"}, {"perm_s{seed%3}.cm", 1, "perm_s1.cm"}, {"perm_s{seed%3}.cm", 3, "perm_s3.cm"}, {"perm_s{seed%3}.cm", 4, "perm_s1.cm"},
		{"{seed%1}", 0, "1"}, {"{seed%3}", 0, "3"}, {"{seed%0}", 1, "{seed%0}"}, {"{Seed}", 1, "{Seed}"}, {"--size", 1, "--size"}, {"{seed}{seed%2}", 2, "22"},
		{"{seed%3}", 1<<64 - 1, "3"},
	} {
		if got := seedIn(c.word, c.seed); got != c.want {
			t.Errorf("%s with seed %d is %s, want %s", c.word, c.seed, got, c.want)
		}
	}
}
