package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/nearest"
)

// line is a command line put in order: the command, its flags wherever they stood, and its positional arguments.
type line struct {
	path  []*cli.Command // from the top-level command down; empty when none was named
	flags []string
	args  []string
	help  bool // -h or --help stood somewhere
}

// argv gives the line in the one order that the flag parser takes: command, flags, "--", arguments.
func (l *line) argv(program string) []string {
	out := []string{program}
	for _, c := range l.path {
		out = append(out, c.Name)
	}
	out = append(out, l.flags...)
	if len(l.args) > 0 {
		out = append(append(out, "--"), l.args...)
	}
	return out
}

// names gives the command as the user types it: "link fail".
func (l *line) names() string {
	var names []string
	for _, c := range l.path {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// command is the command that the line names, nil when it names none.
func (l *line) command() *cli.Command {
	if len(l.path) == 0 {
		return nil
	}
	return l.path[len(l.path)-1]
}

// verbatimAfter says from which positional argument on the rest of a command line belongs to another program.
var verbatimAfter = map[string]int{"exec": 1}

// dividing are the commands in whose lines "--" only parts one argument from the next: flags may stand behind it too.
var dividing = []string{"sim"}

// mayLack are the flags whose value may be left out at the end of a line or before another flag.
var mayLack = []string{"sim"}

// reorder reads a command line without the program's name. Flags may stand anywhere before a "--" that does not just
// divide; a flag that takes a value takes the next word whatever it looks like. Its errors are usage errors that name the nearest valid word.
func reorder(commands []*cli.Command, words []string) (*line, error) {
	l := &line{}
	known := flagIndex(commands)
	level := commands
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case w == "--" && slices.Contains(dividing, l.names()):
		case w == "--":
			l.args = append(l.args, words...)
			words = nil
		case len(w) > 1 && w[0] == '-':
			rest, err := l.flag(known, w, words)
			if err != nil {
				return nil, err
			}
			words = rest
		default:
			if c := find(level, w); c != nil && len(l.args) == 0 {
				l.path, level = append(l.path, c), c.Subcommands
				continue
			}
			l.args = append(l.args, w)
			if n, ok := verbatimAfter[l.names()]; ok && len(l.args) > n {
				l.args, words = append(l.args, words...), nil
			}
		}
	}
	return l, l.check()
}

// flag takes one word that starts with a dash, and its value where it needs one, and gives the words that are left.
func (l *line) flag(known map[string]cli.Flag, w string, words []string) ([]string, error) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(w, "-"), "=")
	if name == "h" || name == "help" {
		l.help = true
		return words, nil
	}
	f, ok := known[name]
	if !ok && !strings.HasPrefix(w, "--") && known[name[:min(1, len(name))]] != nil {
		return l.cluster(known, w[1:], words)
	}
	switch {
	case !ok || !takesValue(f): // check tells the unknown ones from those of other commands
		l.flags = append(l.flags, w)
	case hasValue:
		l.flags = append(l.flags, dashed(name)+"="+value)
	case slices.Contains(mayLack, name) && (len(words) == 0 || strings.HasPrefix(words[0], "-")):
		l.flags = append(l.flags, dashed(name)+"=")
	case len(words) == 0:
		return nil, usage("%s: needs a value", dashed(name))
	default:
		l.flags = append(l.flags, dashed(name)+"="+words[0])
		words = words[1:]
	}
	return words, nil
}

// cluster takes short flags written together: -fn lab, -c5.
func (l *line) cluster(known map[string]cli.Flag, letters string, words []string) ([]string, error) {
	for i := range len(letters) {
		name := letters[i : i+1]
		f, ok := known[name]
		if !ok || !takesValue(f) {
			l.flags = append(l.flags, "-"+name)
			continue
		}
		if rest := letters[i+1:]; rest != "" {
			l.flags = append(l.flags, "-"+name+"="+strings.TrimPrefix(rest, "="))
			return words, nil
		}
		return l.flag(known, "-"+name, words)
	}
	return words, nil
}

// check tells what the command line names that is not there.
func (l *line) check() error {
	cmd := l.command()
	if cmd == nil {
		if len(l.args) > 0 && l.args[0] != "help" {
			return unknownCommand("", l.args[0], topNames())
		}
		if len(l.flags) > 0 && l.flags[0] != "--version" && l.flags[0] != "-v" {
			return usage("%s: no command given", flagName(l.flags[0])).WithHint("run uetlab help")
		}
		return nil
	}
	if len(cmd.Subcommands) > 0 && cmd.ArgsUsage == "" && len(l.args) > 0 && l.args[0] != "help" {
		return unknownCommand(l.names()+" ", l.args[0], names(cmd.Subcommands))
	}
	valid := flagNames(cmd, true)
	for _, f := range l.flags {
		if name := flagName(f); !slices.Contains(valid, name) {
			e := usage("%s: uetlab %s has no such flag", name, l.names())
			if near := nearest.Word(name, flagNames(cmd, false)); near != "" {
				return e.WithHint("did you mean %s?", near)
			}
			return e.WithHint("uetlab %s --help lists its flags", l.names())
		}
	}
	return nil
}

func unknownCommand(before, got string, valid []string) error {
	e := usage("%s%s: no such command", before, got)
	if near := nearest.Word(got, valid); near != "" {
		return e.WithHint("did you mean uetlab %s%s?", before, near)
	}
	return e.WithHint("valid are %s", strings.Join(valid, ", "))
}

// usage makes the error of a wrong command line.
func usage(format string, args ...any) *api.Error { return api.Errorf(api.CodeUsage, format, args...) }

// flagIndex gathers the flags of all commands by name. That one name takes a value everywhere or nowhere is tested.
func flagIndex(commands []*cli.Command) map[string]cli.Flag {
	index := map[string]cli.Flag{}
	for _, c := range commands {
		for _, f := range c.Flags {
			for _, n := range f.Names() {
				index[n] = f
			}
		}
		for n, f := range flagIndex(c.Subcommands) {
			index[n] = f
		}
	}
	return index
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// names gives the visible commands' names.
func names(commands []*cli.Command) []string {
	var out []string
	for _, c := range commands {
		if !c.Hidden {
			out = append(out, c.Name)
		}
	}
	return out
}

func topNames() []string { return append(names(commands()), "help") }

// hidden says that people are not told of a flag.
func hidden(f cli.Flag) bool {
	v, ok := f.(cli.VisibleFlag)
	return ok && !v.IsVisible()
}

// flagNames gives a command's flags, those that people are told of or all, as they are typed.
func flagNames(c *cli.Command, all bool) []string {
	var out []string
	for _, f := range c.Flags {
		if !all && hidden(f) {
			continue
		}
		for _, n := range f.Names() {
			out = append(out, dashed(n))
		}
	}
	return out
}

// dashed writes a flag's name as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagName gives the flag in a word like --size=1MiB, in its one spelling.
func flagName(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return dashed(name)
}
