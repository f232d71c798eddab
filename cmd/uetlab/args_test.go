package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
)

func TestReorderPutsFlagsFirst(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"ps", "uetlab ps"},
		{"up fat-tree-2x4 --seed 7", "uetlab up --seed=7 -- fat-tree-2x4"},
		{"up --seed 7 fat-tree-2x4", "uetlab up --seed=7 -- fat-tree-2x4"},
		{"-n lab ps --format json", "uetlab ps -n=lab --format=json"},
		{"--name=lab link fail leaf0-spine0 --at +30us", "uetlab link fail --name=lab --at=+30us -- leaf0-spine0"},
		{"link --at +30us fail leaf0-spine0", "uetlab link fail --at=+30us -- leaf0-spine0"},
		{"link set leaf0-spine0 loss=0.1% --from leaf0 delay=+2us", "uetlab link set --from=leaf0 -- leaf0-spine0 loss=0.1% delay=+2us"},
		{"exec leaf0 -- ip -br addr", "uetlab exec -- leaf0 ip -br addr"},
		{"exec leaf0 ip -br addr", "uetlab exec -- leaf0 ip -br addr"},
		{"exec -T leaf0 sh -c exit", "uetlab exec -T -- leaf0 sh -c exit"},
		{"exec leaf0 -n lab -- env -- -n", "uetlab exec -n=lab -- leaf0 env -- -n"},
		{"exec -- leaf0 ls", "uetlab exec -- leaf0 ls"},
		{"tcpdump leaf0-spine0 -w - udp port 4793 -c 5", "uetlab tcpdump -w=- -c=5 -- leaf0-spine0 udp port 4793"},
		{"tcpdump -Ac5 leaf0-spine0", "uetlab tcpdump -A -c=5 -- leaf0-spine0"},
		{"tcpdump -c5 leaf0-spine0", "uetlab tcpdump -c=5 -- leaf0-spine0"},
		{"tcpdump -c=5 leaf0-spine0", "uetlab tcpdump -c=5 -- leaf0-spine0"},
		{"logs -fn lab leaf0", "uetlab logs -f -n=lab -- leaf0"},
		{"run allreduce -size 4MiB --check", "uetlab run --size=4MiB --check -- allreduce"},
		{"run allreduce --check=false", "uetlab run --check=false -- allreduce"},
		{"sim pair -- incast --size 4MiB", "uetlab sim --size=4MiB -- pair incast"},
		{"sim --size 4MiB pair incast --seed 2", "uetlab sim --size=4MiB --seed=2 -- pair incast"},
		{"--seed 2 sim -- pair incast", "uetlab sim --seed=2 -- pair incast"},
		{"clock step 100ns", "uetlab clock step -- 100ns"},
		{"clock", "uetlab clock"},
		{"clock --format yaml", "uetlab clock --format=yaml"},
		{"sh h", "uetlab sh -- h"},
		{"down", "uetlab down"},
	} {
		l, err := reorder(commands(), strings.Fields(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := strings.Join(l.argv(program), " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestReorderNamesTheNearest(t *testing.T) {
	for _, c := range []struct{ in, msg, hint string }{
		{"dwn", "dwn: no such command", "did you mean uetlab down?"},
		{"xyzzy", "xyzzy: no such command", "valid are up, down"},
		{"link fial leaf0-spine0", "link fial: no such command", "did you mean uetlab link fail?"},
		{"run allreduce --sise 4", "--sise: uetlab run has no such flag", "did you mean --size?"},
		{"ps --seed 4", "--seed: uetlab ps has no such flag", "uetlab ps --help"},
		{"ps -x", "-x: uetlab ps has no such flag", ""},
		{"up --seed", "--seed: needs a value", ""},
		{"tcpdump l -c", "-c: needs a value", ""},
		{"--seed 7", "--seed: no command given", ""},
	} {
		_, err := reorder(commands(), strings.Fields(c.in))
		e := api.AsError(err)
		if e == nil || e.Code != api.CodeUsage || e.Message != c.msg || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: %+v, want %q with hint %q", c.in, e, c.msg, c.hint)
		}
	}
}

// TestFlagsMeanTheSameEverywhere holds flagIndex to its assumption.
func TestFlagsMeanTheSameEverywhere(t *testing.T) {
	seen := map[string]bool{}
	walk(commands(), func(_ []string, c *cli.Command) {
		for _, f := range c.Flags {
			for _, n := range f.Names() {
				if v, ok := seen[n]; ok && v != takesValue(f) {
					t.Errorf("%s takes a value in one command and none in %s", dashed(n), c.Name)
				}
				seen[n] = takesValue(f)
			}
		}
	})
}

// walk calls f for every command with the names that lead to it.
func walk(commands []*cli.Command, f func(path []string, c *cli.Command)) {
	var down func(path []string, cs []*cli.Command)
	down = func(path []string, cs []*cli.Command) {
		for _, c := range cs {
			p := append(slices.Clone(path), c.Name)
			f(p, c)
			down(p, c.Subcommands)
		}
	}
	down(nil, commands)
}

// parseOnly runs a command line up to the point where its command would begin.
func parseOnly(words []string) error {
	cmds := commands()
	l, err := reorder(cmds, words)
	if err != nil || l.help || l.command() == nil {
		return err
	}
	ran := false
	walk(cmds, func(_ []string, c *cli.Command) {
		if c.Action != nil && !(len(c.Subcommands) > 0 && c.Name != "clock" && c.ArgsUsage == "") {
			c.Action = func(*cli.Context) error { ran = true; return nil }
		}
	})
	u := &ui{out: &counter{Writer: io.Discard}, err: io.Discard, signals: &signals{}}
	if err := newApp(u, cmds).RunContext(context.Background(), l.argv(program)); err != nil {
		return err
	}
	if !ran {
		return usage("%v: nothing would run", words)
	}
	return nil
}

func TestEveryExampleParses(t *testing.T) {
	n := 0
	walk(commands(), func(path []string, c *cli.Command) {
		if c.Hidden {
			return
		}
		if len(examples(c)) == 0 {
			t.Errorf("%v has no example", path)
		}
		for _, e := range examples(c) {
			n++
			words := shellWords(e)
			if words[0] != program {
				t.Errorf("%v: example %q is not a uetlab command", path, e)
			} else if err := parseOnly(words[1:]); err != nil {
				t.Errorf("%s: %v", e, err)
			}
			if l, err := reorder(commands(), words[1:]); err == nil && l.command() != nil && l.path[0].Name != path[0] {
				t.Errorf("%v: example %q is of another command", path, e)
			}
		}
	})
	if n < 40 {
		t.Errorf("only %d examples found", n)
	}
}

// TestEveryDocumentedLineParses takes every uetlab command line of the documentation: in code blocks, and between backquotes where it is whole.
func TestEveryDocumentedLineParses(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../README.md", "../../CONTRIBUTING.md") {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // not every tree has every page
		}
		blocks := documentedLines(string(b))
		for n, cmd := range append(blocks, quotedLines(string(b))...) {
			err := parseOnly(cmd[1:])
			if n >= len(blocks) && err != nil && strings.Contains(err.Error(), "needs ") {
				continue // the text names a command or a flag, not the whole line
			}
			if err != nil {
				t.Errorf("%s, command %d, %q: %v", file, n+1, cmd, err)
			}
		}
	}
}

// documentedLines finds the uetlab commands in the fenced blocks of a Markdown page: in those without a language only lines that begin with
// one, and only up to two blanks, behind which they explain it.
func documentedLines(page string) [][]string {
	var out [][]string
	in, plain, other := false, false, false
	for _, l := range strings.Split(page, "\n") {
		if lang, fence := strings.CutPrefix(strings.TrimSpace(l), "```"); fence {
			open := !in && !plain && !other
			in = open && slices.Contains([]string{"sh", "bash", "console", "shell"}, lang)
			plain = open && lang == ""
			other = open && !in && !plain
			continue
		}
		if plain && (strings.HasPrefix(l, program+" ") || strings.HasPrefix(l, "$ ")) {
			if l, _, _ = strings.Cut(l, "  "); strings.ContainsAny(l, "[…") || slices.ContainsFunc(strings.Fields(l), isPlaceholder) {
				continue // how to use a command in general
			}
		} else if !in {
			continue
		}
		words := shellWords(strings.TrimPrefix(strings.TrimSpace(l), "$ "))
		for len(words) > 0 && (words[0] == "sudo" || words[0] == "time" || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
		if len(words) > 1 && filepath.Base(words[0]) == program {
			out = append(out, words)
		}
	}
	return out
}

// quotedLines finds whole uetlab commands between backquotes: those with an option or an argument, without gaps to be filled in.
func quotedLines(page string) [][]string {
	var out [][]string
	for i, l := range strings.Split(page, "`") {
		words := shellWords(l)
		if i%2 == 1 && len(words) > 2 && words[0] == program && !strings.ContainsAny(l, "…<[\n") && !slices.ContainsFunc(words, isPlaceholder) {
			out = append(out, words)
		}
	}
	return out
}

// isPlaceholder says whether a word stands for others, as NODE does.
func isPlaceholder(w string) bool {
	return len(w) > 1 && w == strings.ToUpper(w) && w[0] >= 'A' && w[0] <= 'Z' && !strings.ContainsAny(w, ".=:")
}

// shellWords splits the first command of a line as a shell would, without expansions.
func shellWords(s string) []string {
	var words []string
	var w strings.Builder
	var quote rune
	some := false
	flush := func() {
		if some {
			words = append(words, w.String())
		}
		w.Reset()
		some = false
	}
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			w.WriteRune(r)
		case r == '\'' || r == '"':
			quote, some = r, true
		case r == ' ' || r == '\t':
			flush()
		case strings.ContainsRune("|;&>", r), r == '#' && !some:
			flush()
			return words
		default:
			w.WriteRune(r)
			some = true
		}
	}
	flush()
	return words
}

func TestValuesThatAreNone(t *testing.T) {
	for _, c := range []struct{ in, msg string }{
		{"up --time soon", "--time (soon): not a way for time to pass"},
		{"up --time 0.5", "--time (0.5): not a way for time to pass"},
		{"up --runtime dokcer", "--runtime (dokcer): not a runtime"},
		{"up --seed -1", "--seed (-1): not a value that it takes"},
		{"run allreduce --iters x", "--iters (x): not a value that it takes"},
		{"ps --format josn", "--format (josn): not a format"},
		{"link fail l --at soon", "--at (soon): not a virtual time"},
		{"link fail", "link fail: needs LINK…"},
		{"inspect a b", "inspect: one argument too many (b)"},
	} {
		err := api.AsError(parseOnly(strings.Fields(c.in)))
		if err == nil || err.Code != api.CodeUsage || err.Message != c.msg {
			t.Errorf("%s: %+v, want %q", c.in, err, c.msg)
		}
	}
}

func FuzzReorder(f *testing.F) {
	for _, s := range []string{"up fat-tree-2x4 --seed 7", "exec leaf0 -- ip -br addr", "-fn", "tcpdump -Ac5 x", "--=", "-=", "--", "link set l loss=1%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := reorder(commands(), strings.Split(s, " "))
		if err != nil {
			if e := api.AsError(err); e.Code != api.CodeUsage || e.Message == "" {
				t.Fatalf("%q: %+v", s, e)
			}
			return
		}
		if len(l.flags)+len(l.args)+len(l.path) > strings.Count(s, " ")+1+len(s) {
			t.Fatalf("%q: more words than letters", s)
		}
	})
}
