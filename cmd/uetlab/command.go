package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"
)

// verb describes a command: what help prints, what completion offers and what is run come from here.
type verb struct {
	name     string
	args     string // positional arguments in help: "LINK…"
	usage    string // one line
	text     string // more lines, may be empty
	examples []string
	min, max int // how many positional arguments; max < 0 is any number
	flags    []cli.Flag
	subs     []*cli.Command
	hidden   bool
	run      func(*call) error
}

// call is one use of a command.
type call struct {
	*cli.Context
	*ui
	ctx  context.Context
	args []string // positional arguments
}

// command makes the parser's command of a verb.
func (v verb) command() *cli.Command {
	c := &cli.Command{
		Name: v.name, ArgsUsage: v.args, Usage: v.usage, Description: v.text, UsageText: strings.Join(v.examples, "\n"),
		Flags: v.flags, Subcommands: v.subs, Hidden: v.hidden, HideHelp: true, HideHelpCommand: true,
		Action:       v.action,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return flagError(err) },
	}
	if len(v.subs) == 0 {
		c.Before = v.count
	}
	return c
}

// count checks the number of positional arguments.
func (v verb) count(c *cli.Context) error {
	args, name := c.Args().Slice(), strings.TrimPrefix(c.Command.HelpName, program+" ")
	switch {
	case len(args) < v.min:
		return usage("%s: needs %s", name, v.args).WithHint("for example %s", bare(v.examples[0]))
	case v.max >= 0 && len(args) > v.max:
		return usage("%s: one argument too many (%s)", name, args[v.max]).WithHint("uetlab help %s shows what it takes", name)
	}
	return nil
}

func (v verb) action(c *cli.Context) error {
	if v.run == nil {
		return usage("%s: which of its commands?", v.name).WithHint("uetlab %s %s", v.name, strings.Join(names(v.subs), "|"))
	}
	return v.run(&call{Context: c, ui: c.App.Metadata[uiKey].(*ui), ctx: c.Context, args: c.Args().Slice()})
}

// bare is an example without its remark.
func bare(example string) string {
	cmd, _, _ := strings.Cut(example, " # ")
	return strings.TrimSpace(cmd)
}

// flagError words what the flag parser says of a value that is not one.
func flagError(err error) error {
	msg := err.Error()
	if rest, ok := strings.CutPrefix(msg, "invalid value "); ok {
		value, rest, _ := strings.Cut(rest, " for flag ")
		name, why, _ := strings.Cut(rest, ": ")
		if i := strings.LastIndex(why, ": "); i >= 0 {
			why = why[i+2:]
		}
		if why == "parse error" {
			why = "not a value that it takes"
		}
		return usage("%s (%s): %s", dashed(strings.TrimLeft(name, "-")), strings.Trim(value, `"`), why)
	}
	return usage("%s", msg)
}

// arg gives a positional argument, empty when it is not there.
func (c *call) arg(i int) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return ""
}

// commands are all commands in the order of help.
func commands() []*cli.Command {
	return []*cli.Command{
		upCommand(), downCommand(), restartCommand(), adoptCommand(), lsCommand(), psCommand(), inspectCommand(),
		execCommand(), shCommand(), logsCommand(),
		runCommand(), rankCommand(), perfCommand(), simCommand(), compareCommand(), linkCommand(), switchCommand(), chaosCommand(), clockCommand(),
		tcpdumpCommand(), traceCommand(), decodeCommand(), wiresharkCommand(), statsCommand(), pdcCommand(), ccCommand(), pathsCommand(), lldpCommand(), llrCommand(), cbfcCommand(), phyCommand(), eventsCommand(),
		topoCommand(), doctorCommand(), completionCommand(), versionCommand(),
		completeCommand(), docsCommand(), probeCommand(), nodeCommand(), labdCommand(), perfSideCommand(),
	}
}
