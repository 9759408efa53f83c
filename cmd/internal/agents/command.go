package agents

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"debrief/cmd/internal/program/term"
)

// handOverCommand is the argument of 'debrief hook' that hands over the runs that wait.
const handOverCommand = "hand-over"

const handOverTimeout = 2 * time.Minute // bounds a process that hands over runs

// HookMain runs 'debrief hook AGENT' and ends the process, always with the exit code 0: other codes can stop the agent, or keep the
// user's message from the model. It ends in time even if a system call hangs.
func HookMain(args []string) {
	until := time.Now().Add(Limit)
	defer func() {
		_ = recover() // from a panic in this goroutine
		os.Exit(0)
	}()
	signal.Ignore(syscall.SIGPIPE) // the agent may have gone
	settings, err := SettingsFile()
	dir, stateErr := StateDir()
	if err != nil || stateErr != nil || len(args) == 0 {
		return
	}
	if args[0] == handOverCommand {
		ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
		defer cancel()
		if _, err := HandOver(ctx, settings, dir); err != nil {
			state(dir).log(fmt.Errorf("hand over: %w", err))
		}
		return
	}
	// The event is read until the end of Limit and handled for at most guard. Only a system call that hangs takes longer than 2*guard.
	watchdog := time.AfterFunc(2*guard, func() { os.Exit(0) })
	h := &Hook{Agent: args[0], Settings: settings, State: dir, Until: until, StartHandOver: startHandOver}
	out := h.Handle(context.Background(), os.Stdin)
	if watchdog.Stop() && len(out) > 0 { // stopped, so that it cannot cut the output
		time.AfterFunc(guard, func() { os.Exit(0) }) // the agent does not read the output
		_, _ = term.Stdout.Write(out)
	}
}

// startHandOver starts a process that outlives the agent. It gets none of the agent's streams: the agent would wait for their end.
func startHandOver() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "hook", handOverCommand)
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
