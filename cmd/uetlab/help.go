package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// exitCodes documents the exit codes, in help and in docs/cli.md.
var exitCodes = [][2]string{
	{"0", "done"},
	{"1", "failed, for a reason without a code of its own"},
	{"2", "wrong command line, topology or argument"},
	{"3", "no such lab, node or link"},
	{"4", "the lab exists already, or something else is under way"},
	{"5", "the kernel, rights or an engine are missing; uetlab doctor tells more"},
	{"6", "it did not happen in time"},
	{"7", "done in part"},
	{"8", "a run ended with wrong data"},
	{"9", "a run's fidelity is invalid: its figures cannot be trusted"},
	{"125", "exec: the command could not be run"},
	{"126", "exec: the command is there but cannot be executed"},
	{"127", "exec: the command is not there"},
	{"130", "ended by Ctrl-C (SIGINT)"},
	{"143", "ended by SIGTERM"},
}

const exitCodesTopic = "exit-codes"

// help answers --help, help and the bare command.
func (u *ui) help(l *line) error {
	words := l.args
	if len(words) > 0 && words[0] == "help" {
		words = words[1:]
	}
	if l.command() == nil && len(l.flags) > 0 && !l.help {
		_, err := fmt.Fprintf(u.out, "uetlab %s\n", version())
		return err
	}
	if len(l.path) == 0 && len(words) == 1 && words[0] == exitCodesTopic {
		return writeExitCodes(u.out)
	}
	path := l.path
	level := commands()
	if cmd := l.command(); cmd != nil {
		level = cmd.Subcommands
	}
	for _, w := range words {
		c := find(level, w)
		if c == nil && len(path) > 0 && l.help {
			break // the arguments of a command that was asked for its help
		}
		if c == nil {
			return unknownCommand((&line{path: path}).prefix(), w, append(names(level), exitCodesTopic))
		}
		path, level = append(path, c), c.Subcommands
	}
	if len(path) == 0 {
		return writeOverview(u.out)
	}
	return writeCommandHelp(u.out, path)
}

// prefix is the command with a blank after it, empty when there is none.
func (l *line) prefix() string {
	if len(l.path) == 0 {
		return ""
	}
	return l.names() + " "
}

func writeExitCodes(w io.Writer) error {
	t := table{columns: []string{"EXIT CODE", "MEANING"}}
	for _, e := range exitCodes {
		t.add(e[0], e[1])
	}
	return t.write(w)
}

func writeOverview(w io.Writer) error {
	var b strings.Builder
	b.WriteString("uetlab brings up an Ultra Ethernet fabric on this machine, with real packets in virtual time.\n\n")
	b.WriteString("  uetlab up fat-tree-2x4                  # 2 spines, 4 leaves, 8 end points\n")
	b.WriteString("  uetlab run allreduce --size 4MiB --check\n")
	b.WriteString("  uetlab tcpdump leaf0-spine0\n")
	b.WriteString("  uetlab down\n\nCommands:\n")
	for _, c := range commands() {
		if !c.Hidden {
			fmt.Fprintf(&b, "  %-11s %s\n", c.Name, c.Usage)
		}
	}
	b.WriteString("\nuetlab help COMMAND tells more; uetlab help exit-codes lists the exit codes.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCommandHelp prints examples first, then what the command does, its commands and its flags.
func writeCommandHelp(w io.Writer, path []*cli.Command) error {
	l := &line{path: path}
	c := l.command()
	var b strings.Builder
	fmt.Fprintf(&b, "uetlab %s: %s\n\nExamples:\n", l.names(), c.Usage)
	for _, e := range examples(c) {
		fmt.Fprintf(&b, "  %s\n", e)
	}
	fmt.Fprintf(&b, "\nUsage:\n  %s\n", synopsis(l))
	if c.Description != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.Description))
	}
	if len(c.Subcommands) > 0 {
		b.WriteString("\nCommands:\n")
		for _, s := range c.Subcommands {
			fmt.Fprintf(&b, "  %-32s %s\n", strings.TrimSpace(s.Name+" "+s.ArgsUsage), s.Usage)
		}
	}
	if len(c.Flags) > 0 {
		if slices.Contains(dividing, l.names()) {
			b.WriteString("\nFlags, anywhere:\n")
		} else {
			b.WriteString("\nFlags, anywhere before --:\n")
		}
		for _, f := range c.Flags {
			if hidden(f) {
				continue
			}
			left, right := flagHelp(f)
			fmt.Fprintf(&b, "  %-24s %s\n", left, right)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// examples gives the example command lines of a command.
func examples(c *cli.Command) []string {
	if c.UsageText == "" {
		return nil
	}
	return strings.Split(c.UsageText, "\n")
}

// synopsis is the form of a command line.
func synopsis(l *line) string {
	c := l.command()
	s := "uetlab " + l.names()
	if len(c.Flags) > 0 {
		s += " [FLAGS]"
	}
	switch {
	case len(c.Subcommands) > 0 && c.ArgsUsage != "":
		return s + " " + c.ArgsUsage + "\n  " + s + " COMMAND"
	case len(c.Subcommands) > 0:
		return s + " COMMAND"
	}
	return strings.TrimSpace(s + " " + c.ArgsUsage)
}

// flagHelp gives a flag as it is typed, and what it does.
func flagHelp(f cli.Flag) (left, right string) {
	var typed []string
	for _, n := range f.Names() {
		typed = append(typed, dashed(n))
	}
	left = strings.Join(typed, ", ")
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return left, ""
	}
	right = d.GetUsage()
	if d.TakesValue() {
		value := "VALUE"
		if before, rest, ok := strings.Cut(right, "`"); ok {
			name, after, _ := strings.Cut(rest, "`")
			value, right = name, before+name+after
		}
		left += " " + value
		if def := strings.Trim(d.GetDefaultText(), `"`); def != "" && def != "0" {
			right += " (default " + def + ")"
		}
	}
	if env := d.GetEnvVars(); len(env) > 0 {
		right += " [$" + strings.Join(env, ", $") + "]"
	}
	return left, right
}

// docsCommand prints docs/cli.md.
func docsCommand() *cli.Command {
	return verb{name: "__docs", usage: "print the command reference as Markdown", hidden: true,
		run: func(c *call) error { return writeDocs(c.out) }}.command()
}

// writeDocs prints the command reference.
func writeDocs(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Commands\n\nThis page is generated from the code: `go test ./cmd/uetlab -update`.\n\n")
	b.WriteString("Flags may stand anywhere before `--`. Data goes to standard output, progress and errors to standard error; every\n" +
		"listing takes `--format table|json|yaml`. An error is one line, `uetlab: what: why`, and a `hint:` that says what to do.\n" +
		"`--name` (or `UETLAB_LAB`) says which lab is meant; the only one that runs is the default. `UETLAB_DIR` puts the labs'\n" +
		"files somewhere else than `/run/uetlab` (root), `$XDG_RUNTIME_DIR/uetlab` or `/tmp/uetlab-<uid>`.\n\n")
	for _, c := range commands() {
		if !c.Hidden {
			docCommand(&b, []*cli.Command{c})
		}
	}
	b.WriteString("## Exit codes\n\n| Code | Meaning |\n|---|---|\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "| %s | %s |\n", e[0], e[1])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func docCommand(b *strings.Builder, path []*cli.Command) {
	l := &line{path: path}
	c := l.command()
	fmt.Fprintf(b, "%s uetlab %s\n\n%s.\n\n```\n%s\n```\n\n", strings.Repeat("#", 1+len(path)), l.names(), sentence(c.Usage), synopsis(l))
	if c.Description != "" {
		fmt.Fprintf(b, "```\n%s\n```\n\n", strings.TrimSpace(c.Description))
	}
	fmt.Fprintf(b, "```sh\n%s\n```\n\n", c.UsageText)
	if len(c.Flags) > 0 {
		b.WriteString("| Flag | Meaning |\n|---|---|\n")
		for _, f := range c.Flags {
			if hidden(f) {
				continue
			}
			left, right := flagHelp(f)
			fmt.Fprintf(b, "| `%s` | %s |\n", left, strings.ReplaceAll(right, "|", `\|`))
		}
		b.WriteString("\n")
	}
	for _, s := range c.Subcommands {
		docCommand(b, append(path[:len(path):len(path)], s))
	}
}

// sentence begins a line of help with a capital letter.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
